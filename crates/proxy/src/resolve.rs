//! The addresses of an origin's host, resolved again from time to time.
//!
//! The system's resolver is called, on a thread beside the cores, so that hosts files, search domains and
//! other settings of the machine apply to origins too. It does not tell how long an answer is valid, so the
//! configuration has an interval for that. While a name is resolved again, and if that fails, the previous
//! addresses are used.

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
    /// An address that needs no resolver.
    literal: Option<SocketAddr>,
    known: Mutex<Option<CachedAddresses>>,
    is_looked_up: AtomicBool,
    turn: AtomicUsize,
}

#[derive(Debug, Clone)]
struct CachedAddresses {
    addresses: Arc<[SocketAddr]>,
    since: Instant,
}

impl Addresses {
    /// The addresses of this host.
    pub fn new(host: &str, port: u16) -> Addresses {
        Addresses {
            host: host.to_string(),
            port,
            literal: host.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, port)),
            known: Mutex::default(),
            is_looked_up: AtomicBool::new(false),
            turn: AtomicUsize::new(0),
        }
    }

    /// The addresses to try, in this order; each call begins with another one. If they are older than
    /// `interval`, they are resolved again meanwhile.
    pub async fn get(self: &Arc<Self>, interval: Duration) -> io::Result<Vec<SocketAddr>> {
        if let Some(address) = self.literal {
            return Ok(vec![address]);
        }
        let addresses = match self.known() {
            Some(known) => {
                if known.since.elapsed() > interval && !self.is_looked_up.swap(true, Relaxed) {
                    let this = self.clone();
                    tokio::task::spawn_local(async move {
                        let _ = this.look_up().await;
                        this.is_looked_up.store(false, Relaxed);
                    });
                }
                known.addresses
            }
            None => self.look_up().await?,
        };
        let mut addresses = addresses.to_vec();
        let first = self.turn.fetch_add(1, Relaxed) % addresses.len().max(1);
        addresses.rotate_left(first);
        Ok(addresses)
    }

    /// Whether a connection to this address leads to the host, as far as is known.
    pub fn contains(&self, address: SocketAddr) -> bool {
        self.literal.is_some() || self.known().is_none_or(|known| known.addresses.contains(&address))
    }

    async fn look_up(&self) -> io::Result<Arc<[SocketAddr]>> {
        let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await;
        let addresses = found.map(|found| found.collect::<Arc<[SocketAddr]>>()).and_then(|addresses| {
            if addresses.is_empty() { Err(io::Error::other("it has no address")) } else { Ok(addresses) }
        });
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match (addresses, known.as_mut()) {
            (Ok(addresses), _) => {
                *known = Some(CachedAddresses { addresses: addresses.clone(), since: Instant::now() });
                Ok(addresses)
            }
            (Err(_), Some(known)) => {
                // After a failure the resolver is called again after the interval, not for every request.
                known.since = Instant::now();
                Ok(known.addresses.clone())
            }
            (Err(error), None) => Err(error),
        }
    }

    fn known(&self) -> Option<CachedAddresses> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn an_address_is_not_looked_up() {
        let addresses = Arc::new(Addresses::new("::1", 80));
        assert_eq!(addresses.get(HOUR).await.unwrap(), ["[::1]:80".parse().unwrap()]);
        assert!(addresses.contains("192.0.2.1:80".parse().unwrap()));
    }

    #[tokio::test]
    async fn a_name_is_looked_up_once_in_an_interval() {
        let addresses = Arc::new(Addresses::new("localhost", 80));
        let found = addresses.get(HOUR).await.unwrap();
        assert!(found.iter().all(|address| address.ip().is_loopback() && addresses.contains(*address)));
        assert!(!addresses.contains("192.0.2.1:80".parse().unwrap()));
        let since = addresses.known().unwrap().since;
        addresses.get(HOUR).await.unwrap();
        assert_eq!(addresses.known().unwrap().since, since);
    }

    #[tokio::test]
    async fn what_is_known_stays_where_looking_up_fails() {
        let addresses = Arc::new(Addresses::new("nobody.invalid", 80));
        assert!(addresses.get(HOUR).await.is_err());
        let known: Arc<[SocketAddr]> =
            ["192.0.2.1:80", "192.0.2.2:80", "192.0.2.3:80"].map(|text| text.parse().unwrap()).into();
        let since = Instant::now();
        *addresses.known.lock().unwrap() = Some(CachedAddresses { addresses: known.clone(), since });
        // Each address is the first in turn.
        let firsts: Vec<SocketAddr> = [
            addresses.get(HOUR).await.unwrap()[0],
            addresses.get(HOUR).await.unwrap()[0],
            addresses.get(HOUR).await.unwrap()[0],
        ]
        .into();
        assert!(known.iter().all(|address| firsts.contains(address)), "{firsts:?}");
        assert_eq!(addresses.look_up().await.unwrap()[..], known[..]);
        // The resolver is called again after the interval, not at once.
        assert!(addresses.known().unwrap().since > since);
    }
}
