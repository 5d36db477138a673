//! The addresses of an origin's host, which is resolved periodically.
//!
//! The system's resolver is called on a separate thread, so that the hosts file, search domains and other
//! settings of the machine apply to origins. It does not report the TTL of an answer, so the configuration
//! has an interval. While a name is resolved again, and if that fails, the previous addresses are used.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The addresses of a host.
#[derive(Debug)]
pub struct Addresses {
    host: String,
    port: u16,
    /// The address, if the host is an IP address.
    literal: Option<SocketAddr>,
    cached: Mutex<Option<CachedAddresses>>,
    is_resolving: AtomicBool,
    next_first: AtomicUsize,
}

#[derive(Debug, Clone)]
struct CachedAddresses {
    addresses: Arc<[SocketAddr]>,
    since: Instant,
}

impl Addresses {
    /// Makes the addresses of a host.
    pub fn new(host: &str, port: u16) -> Addresses {
        Addresses {
            host: host.to_string(),
            port,
            literal: host.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, port)),
            cached: Mutex::default(),
            is_resolving: AtomicBool::new(false),
            next_first: AtomicUsize::new(0),
        }
    }

    /// The addresses to try, in order; each call begins with the next address. If they are older than
    /// `interval`, they are resolved again in the background.
    pub async fn get(self: &Arc<Self>, interval: Duration) -> io::Result<Vec<SocketAddr>> {
        if let Some(address) = self.literal {
            return Ok(vec![address]);
        }
        let addresses = match self.cached() {
            Some(cached) => {
                if cached.since.elapsed() > interval && !self.is_resolving.swap(true, Relaxed) {
                    let this = self.clone();
                    tokio::task::spawn_local(async move {
                        let _ = this.resolve().await;
                        this.is_resolving.store(false, Relaxed);
                    });
                }
                cached.addresses
            }
            None => self.resolve().await?,
        };
        let mut addresses = addresses.to_vec();
        let first = self.next_first.fetch_add(1, Relaxed) % addresses.len().max(1);
        addresses.rotate_left(first);
        Ok(addresses)
    }

    /// Whether the host has this address, according to the last lookup.
    pub fn contains(&self, address: SocketAddr) -> bool {
        self.literal.is_some() || self.cached().is_none_or(|cached| cached.addresses.contains(&address))
    }

    async fn resolve(&self) -> io::Result<Arc<[SocketAddr]>> {
        let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await;
        let addresses = found.map(|found| found.collect::<Arc<[SocketAddr]>>()).and_then(|addresses| {
            if addresses.is_empty() { Err(io::Error::other("it has no address")) } else { Ok(addresses) }
        });
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        match (addresses, cached.as_mut()) {
            (Ok(addresses), _) => {
                *cached = Some(CachedAddresses { addresses: addresses.clone(), since: Instant::now() });
                Ok(addresses)
            }
            (Err(_), Some(cached)) => {
                // After a failure the next lookup is made after the interval, not for each request.
                cached.since = Instant::now();
                Ok(cached.addresses.clone())
            }
            (Err(error), None) => Err(error),
        }
    }

    fn cached(&self) -> Option<CachedAddresses> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn an_ip_address_is_not_resolved() {
        let addresses = Arc::new(Addresses::new("::1", 80));
        assert_eq!(addresses.get(HOUR).await.unwrap(), ["[::1]:80".parse().unwrap()]);
        assert!(addresses.contains("192.0.2.1:80".parse().unwrap()));
    }

    #[tokio::test]
    async fn a_name_is_resolved_once_in_an_interval() {
        let addresses = Arc::new(Addresses::new("localhost", 80));
        let found = addresses.get(HOUR).await.unwrap();
        assert!(found.iter().all(|address| address.ip().is_loopback() && addresses.contains(*address)));
        assert!(!addresses.contains("192.0.2.1:80".parse().unwrap()));
        let since = addresses.cached().unwrap().since;
        addresses.get(HOUR).await.unwrap();
        assert_eq!(addresses.cached().unwrap().since, since);
    }

    #[tokio::test]
    async fn previous_addresses_remain_if_resolving_fails() {
        let addresses = Arc::new(Addresses::new("unknown.invalid", 80));
        assert!(addresses.get(HOUR).await.is_err());
        let cached: Arc<[SocketAddr]> =
            ["192.0.2.1:80", "192.0.2.2:80", "192.0.2.3:80"].map(|text| text.parse().unwrap()).into();
        let since = Instant::now();
        *addresses.cached.lock().unwrap() = Some(CachedAddresses { addresses: cached.clone(), since });
        // Each address is the first once.
        let firsts: Vec<SocketAddr> = [
            addresses.get(HOUR).await.unwrap()[0],
            addresses.get(HOUR).await.unwrap()[0],
            addresses.get(HOUR).await.unwrap()[0],
        ]
        .into();
        assert!(cached.iter().all(|address| firsts.contains(address)), "{firsts:?}");
        assert_eq!(addresses.resolve().await.unwrap()[..], cached[..]);
        // The resolver is called again after the interval, not at once.
        assert!(addresses.cached().unwrap().since > since);
    }
}
