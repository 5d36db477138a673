//! Admits connections to a stream: by address, by the number of open connections, and by their rate.
//!
//! The counts and rates are those of the process, under the name of the stream, so that they continue after a
//! reload.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use touchstone_config::StreamConfig;

use super::allow::AddressRules;
use super::client_table::Client;
use super::connections::ConnectionPermit;
use super::rate::{Limit, Rate};
use super::shared::AccessShared;

/// The rules of one stream.
pub struct StreamGate {
    name: String,
    /// The client of counts for all clients together.
    all_clients: Client,
    addresses: Option<AddressRules>,
    most: Option<u32>,
    most_per_client: Option<u32>,
    rate: Option<Limit>,
    rate_per_client: Option<Limit>,
    shared: Arc<AccessShared>,
}

/// Why a connection is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamRefusal {
    /// Its client's address is refused.
    Denied,
    /// The limit of connections is reached, for all clients or for this one.
    Limit,
    /// The rate of new connections is too high.
    Rate,
}

/// Counts one connection until it is dropped.
pub struct StreamPermit {
    _of_all: Option<ConnectionPermit>,
    _of_client: Option<ConnectionPermit>,
}

impl StreamGate {
    /// The rules of a stream.
    pub fn new(config: &StreamConfig, shared: &Arc<AccessShared>) -> StreamGate {
        let most = |count: u64| (count != 0).then(|| u32::try_from(count).unwrap_or(u32::MAX));
        let limit = |what: &str, rate: u64, burst: u64| {
            let id = shared.limit_id(&("stream", what, &config.name));
            Rate::new(rate, Duration::from_secs(1), burst.max(rate)).map(|rate| Limit::new(id, rate))
        };
        StreamGate {
            all_clients: shared.client_of_key(&key_of(&config.name, &[])),
            name: config.name.clone(),
            addresses: AddressRules::new(&config.allow, &config.deny),
            most: most(config.connections),
            most_per_client: most(config.connections_per_client),
            rate: limit("all", config.rate, config.burst),
            rate_per_client: limit("client", config.rate_per_client, config.burst),
            shared: shared.clone(),
        }
    }

    /// Admits a client's connection, or returns the reason of the refusal.
    pub fn admit(&self, address: IpAddr) -> Result<StreamPermit, StreamRefusal> {
        if self.addresses.as_ref().is_some_and(|addresses| !addresses.allows(Some(address))) {
            return Err(StreamRefusal::Denied);
        }
        let client = match (self.most_per_client, &self.rate_per_client) {
            (None, None) => self.all_clients,
            _ => self.client(address),
        };
        let now_ns = self.shared.now_ns();
        for (limit, client) in [(&self.rate_per_client, client), (&self.rate, self.all_clients)] {
            let taken = limit.as_ref().map(|limit| limit.count(&self.shared.clients, client, now_ns));
            if taken.is_some_and(|taken| taken.is_err()) {
                return Err(StreamRefusal::Rate);
            }
        }
        let permit = |most: Option<u32>, client: Client| match most {
            None => Ok(None),
            Some(most) => match self.shared.connections.admit(client, most) {
                None => Err(StreamRefusal::Limit),
                permit => Ok(permit),
            },
        };
        let of_client = permit(self.most_per_client, client)?;
        let of_all = permit(self.most, self.all_clients)?;
        Ok(StreamPermit { _of_all: of_all, _of_client: of_client })
    }

    /// The client behind an address: an IPv4 address, or the first 64 bits of an IPv6 address.
    fn client(&self, address: IpAddr) -> Client {
        let key = match address.to_canonical() {
            IpAddr::V4(address) => key_of(&self.name, &address.octets()),
            IpAddr::V6(address) => key_of(&self.name, &address.octets()[..8]),
        };
        self.shared.client_of_key(&key)
    }
}

fn key_of(name: &str, address: &[u8]) -> Vec<u8> {
    [b"stream\0", name.as_bytes(), b"\0", address].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(text: &str) -> StreamGate {
        let text =
            format!("[[stream]]\nname = \"a\"\nlisten = [\"127.0.0.1:1\"]\nto = \"127.0.0.1:2\"\n{text}");
        let config = touchstone_config::parse(&text, "test.toml".as_ref()).expect("a configuration");
        StreamGate::new(&config.streams[0], &AccessShared::new(Arc::new(|_| {})))
    }

    fn admit(gate: &StreamGate, address: &str) -> Result<StreamPermit, StreamRefusal> {
        gate.admit(address.parse().unwrap())
    }

    #[test]
    fn so_many_of_all_and_of_each_client() {
        let gate = gate("connections = 3\nconnections_per_client = 2");
        let first = admit(&gate, "192.0.2.1").unwrap();
        let _second = admit(&gate, "::ffff:192.0.2.1").unwrap();
        assert_eq!(admit(&gate, "192.0.2.1").err(), Some(StreamRefusal::Limit));
        let third = admit(&gate, "2001:db8:1:2::1").unwrap();
        assert_eq!(admit(&gate, "192.0.2.2").err(), Some(StreamRefusal::Limit));
        drop(first);
        let _again = admit(&gate, "2001:db8:1:2:ffff::1").unwrap();
        // What the last one was refused does not count as a connection of its client.
        assert_eq!(admit(&gate, "192.0.2.1").err(), Some(StreamRefusal::Limit));
        drop(third);
        assert!(admit(&gate, "192.0.2.1").is_ok());
    }

    #[test]
    fn a_rate_of_each_client() {
        let gate = gate("rate_per_client = 2");
        assert!(admit(&gate, "192.0.2.1").is_ok() && admit(&gate, "192.0.2.1").is_ok());
        assert_eq!(admit(&gate, "192.0.2.1").err(), Some(StreamRefusal::Rate));
        assert!(admit(&gate, "192.0.2.2").is_ok());
        gate.shared.advance(1);
        assert!(admit(&gate, "192.0.2.1").is_ok());
    }

    #[test]
    fn a_rate_of_all() {
        let gate = gate("rate = 1\nburst = 3");
        let admitted = (0..5).filter(|last| admit(&gate, &format!("192.0.2.{last}")).is_ok()).count();
        assert_eq!(admitted, 3);
    }

    #[test]
    fn addresses() {
        let gate = gate("allow = [\"10.0.0.0/8\"]\ndeny = [\"10.1.0.0/16\"]");
        assert!(admit(&gate, "10.2.0.1").is_ok());
        for address in ["10.1.0.1", "192.0.2.1", "::1"] {
            assert_eq!(admit(&gate, address).err(), Some(StreamRefusal::Denied));
        }
    }
}
