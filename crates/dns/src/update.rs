//! Adds TXT records to zones, and removes them, by signed updates (RFC 2136).

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use super::message::{Change, code_text, update};
use super::name::Name;
use super::resolver::{Resolver, Zone};
use super::transport;
use super::tsig::TsigKey;

/// The port of DNS.
const PORT: u16 = 53;

/// Changes zones.
#[derive(Debug, Clone)]
pub struct Updater {
    /// For zones, and for the names of servers.
    pub resolver: Resolver,
    /// The server that takes updates, as a host or an address, with a port or without; empty: the primary
    /// server of each zone.
    pub server: String,
    /// The key that the server has.
    pub key: TsigKey,
    /// How long others may cache the records, in seconds.
    pub ttl_s: u32,
}

/// A TXT record that was added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextRecord {
    /// Its zone.
    pub zone: Zone,
    /// Its name, after all aliases.
    pub name: Name,
    /// Its text.
    pub text: String,
}

impl Updater {
    /// Adds a TXT record to `name`, or to the target of its aliases.
    pub async fn add(&self, name: &Name, text: &str) -> Result<TextRecord, String> {
        let name = self.resolver.follow_aliases(name).await?;
        let servers = match self.server.is_empty() {
            true => None,
            false => Some(self.configured_server().await?),
        };
        // The server of the updates has its zones, even those that the resolvers cannot reach.
        let zone = match &servers {
            Some(servers) => match Resolver::new(servers.clone()).zone_of(&name).await {
                Ok(zone) => zone,
                Err(_) => self.resolver.zone_of(&name).await?,
            },
            None => self.resolver.zone_of(&name).await?,
        };
        let change = Change::Add { name: &name, ttl: self.ttl_s, text };
        self.send(&zone, &change, servers).await?;
        Ok(TextRecord { zone, name, text: text.to_string() })
    }

    /// Removes a record that [`Updater::add`] added.
    pub async fn remove(&self, record: &TextRecord) -> Result<(), String> {
        let change = Change::Remove { name: &record.name, text: &record.text };
        self.send(&record.zone, &change, None).await
    }

    async fn send(
        &self,
        zone: &Zone,
        change: &Change<'_>,
        servers: Option<Vec<SocketAddr>>,
    ) -> Result<(), String> {
        let servers = match servers {
            Some(servers) => servers,
            None if self.server.is_empty() => self.resolver.addresses(&zone.primary, PORT).await?,
            None => self.configured_server().await?,
        };
        let mut reasons = Vec::new();
        for server in servers {
            match self.send_to(server, &zone.name, change).await {
                Ok(()) => return Ok(()),
                Err(reason) => reasons.push(reason),
            }
        }
        Err(format!("the zone {} cannot be changed: {}", zone.name, reasons.join("; ")))
    }

    async fn send_to(&self, server: SocketAddr, zone: &Name, change: &Change<'_>) -> Result<(), String> {
        let mut request = update(transport::new_id()?, zone, std::slice::from_ref(change));
        let mac = self.key.sign(&mut request, now_s());
        let (answer, bytes) = transport::exchange_by_tcp(server, &request).await?;
        self.key
            .verify(&bytes, &answer, &mac, now_s())
            .map_err(|reason| format!("{server}: the update was not accepted: {reason}"))?;
        match answer.code() {
            0 => Ok(()),
            code => Err(format!("{server}: the update was not accepted: {}", code_text(code))),
        }
    }

    async fn configured_server(&self) -> Result<Vec<SocketAddr>, String> {
        let bare =
            self.server.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&self.server);
        if let Ok(address) = bare.parse() {
            return Ok(vec![SocketAddr::new(address, PORT)]);
        }
        if let Ok(address) = self.server.parse() {
            return Ok(vec![address]);
        }
        let (host, port) = match self.server.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| format!("{port:?} is not a port"))?),
            None => (self.server.as_str(), PORT),
        };
        self.resolver.addresses(&Name::parse(host)?, port).await
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
