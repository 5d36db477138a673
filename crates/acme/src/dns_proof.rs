//! Proofs in DNS (DNS-01, RFC 8555 section 8.4): a TXT record for each name, set by a signed update or by a
//! program, returned by all servers of the zone before the authority checks it, and removed afterwards.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use touchstone_config::AcmeDnsConfig;
use touchstone_dns::{Name, Resolver, ServerName, TextRecord, TsigKey, Updater, wait_until_shown};
use touchstone_observe::log::error::ErrorLog;

use super::hook::{Action, Hook};

/// The label in front of the name that is proved.
const LABEL: &str = "_acme-challenge";

/// How long the removal of records may take when an order was stopped.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(60);

/// The way to set records.
enum Publisher {
    Update(Box<Updater>),
    Hook(Hook),
}

/// The settings of `[acme.dns]`, ready for use.
struct DnsAccess {
    publisher: Publisher,
    resolver: Resolver,
    check_servers: Vec<ServerName>,
    wait: Duration,
    error_log: ErrorLog,
}

/// A record that is to be removed.
struct PublishedRecord {
    name: Name,
    text: String,
    how: PublishedBy,
}

enum PublishedBy {
    Update(TextRecord),
    /// With the name that is proved.
    Hook(String),
}

/// The records of one order. They are removed by [`DnsProofs::remove`], or in the background when this is
/// dropped, for example because the order took too long.
pub struct DnsProofs {
    access: Arc<DnsAccess>,
    published: Vec<PublishedRecord>,
}

impl DnsProofs {
    /// Reads the key; sends no query yet.
    pub fn new(settings: &AcmeDnsConfig, error_log: &ErrorLog) -> Result<DnsProofs, String> {
        let resolver = resolver(settings)?;
        let publisher = match &settings.key {
            Some(file) => Publisher::Update(Box::new(Updater {
                resolver: resolver.clone(),
                server: settings.server.clone(),
                key: TsigKey::from_file(file)?,
                ttl_s: u32::try_from(settings.ttl.as_secs()).unwrap_or(60),
            })),
            None => Publisher::Hook(Hook::new(settings.hook.clone(), settings.hook_timeout)),
        };
        let access = DnsAccess {
            publisher,
            resolver,
            check_servers: addresses(&settings.check_servers).map(server_at).collect(),
            wait: settings.wait,
            error_log: error_log.clone(),
        };
        Ok(DnsProofs { access: Arc::new(access), published: Vec::new() })
    }

    /// Sets the record for a host name.
    pub async fn publish(&mut self, host: &str, text: &str) -> Result<(), String> {
        let name = Name::parse(host)?.below(LABEL)?;
        let access = &self.access;
        let (name, how) = match &access.publisher {
            Publisher::Update(updater) => {
                let record = updater.add(&name, text).await?;
                (record.name.clone(), PublishedBy::Update(record))
            }
            Publisher::Hook(hook) => {
                let name = access.resolver.follow_aliases(&name).await?;
                // A program that fails may have set the record all the same: it is removed in any case.
                let how = PublishedBy::Hook(host.to_string());
                self.published.push(PublishedRecord { name: name.clone(), text: text.to_string(), how });
                return hook.run(Action::Present, host, &name.to_string(), text).await;
            }
        };
        self.published.push(PublishedRecord { name, text: text.to_string(), how });
        Ok(())
    }

    /// Waits until all servers of the zones show the records.
    pub async fn wait_until_shown(&self) -> Result<(), String> {
        let access = &self.access;
        let mut by_zone: Vec<(Name, Vec<(Name, String)>)> = Vec::new();
        for record in &self.published {
            let zone = match (&record.how, access.check_servers.is_empty()) {
                (PublishedBy::Update(update), _) => update.zone.name.clone(),
                (PublishedBy::Hook(_), true) => access.resolver.zone_of(&record.name).await?.name,
                // The zone is not relevant.
                (PublishedBy::Hook(_), false) => record.name.clone(),
            };
            let shown = (record.name.clone(), record.text.clone());
            match by_zone.iter_mut().find(|(known, _)| *known == zone) {
                Some((_, records)) => records.push(shown),
                None => by_zone.push((zone, vec![shown])),
            }
        }
        for (zone, records) in by_zone {
            let servers = match access.check_servers.is_empty() {
                true => access.resolver.servers_of_zone(&zone).await?,
                false => access.check_servers.clone(),
            };
            wait_until_shown(&servers, &records, access.wait).await?;
        }
        Ok(())
    }

    /// Removes all records. A failure is logged: the record does no harm.
    pub async fn remove(&mut self) {
        remove(&self.access, std::mem::take(&mut self.published)).await;
    }
}

impl Drop for DnsProofs {
    fn drop(&mut self) {
        let published = std::mem::take(&mut self.published);
        if published.is_empty() {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let access = self.access.clone();
            runtime.spawn(async move {
                // A removal that takes longer has logged its failure, or its server is away.
                let _ = tokio::time::timeout(REMOVAL_TIMEOUT, remove(&access, published)).await;
            });
        }
    }
}

async fn remove(access: &DnsAccess, published: Vec<PublishedRecord>) {
    for record in published {
        let result = match (&record.how, &access.publisher) {
            (PublishedBy::Update(update), Publisher::Update(updater)) => updater.remove(update).await,
            (PublishedBy::Hook(host), Publisher::Hook(hook)) => {
                hook.run(Action::Cleanup, host, &record.name.to_string(), &record.text).await
            }
            _ => Ok(()),
        };
        if let Err(reason) = result {
            let name = &record.name;
            access.error_log.warning(format_args!("acme: the record {name} could not be removed: {reason}"));
        }
    }
}

/// Checks the file of a key for updates.
pub fn check_key(file: &Path) -> Result<(), String> {
    TsigKey::from_file(file).map(drop)
}

/// The recursive servers of `[acme.dns]`.
pub fn resolver(settings: &AcmeDnsConfig) -> Result<Resolver, String> {
    match settings.resolvers.is_empty() {
        true => Resolver::of_system(),
        false => Ok(Resolver::new(addresses(&settings.resolvers).collect())),
    }
}

/// Addresses that the configuration has checked.
fn addresses(texts: &[String]) -> impl Iterator<Item = SocketAddr> {
    texts.iter().filter_map(|text| text.parse().ok())
}

fn server_at(address: SocketAddr) -> ServerName {
    ServerName { name: address.to_string(), addresses: vec![address] }
}
