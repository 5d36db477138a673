//! The sockets of streams for datagrams: one for each core on each address: they are created, inherited,
//! distributed to the cores and handed over.
//!
//! The kernel chooses the socket of a datagram by its client's address and port, so all datagrams of a client
//! reach the same core as long as the sockets stay the same. They stay the same after an upgrade: the new
//! process gets them, and uses every one, with any number of cores.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;

use touchstone_config::Config;
use touchstone_lifecycle::handover::{Kind, PassedSocket};
use touchstone_lifecycle::start_error::StartError;
use touchstone_transport::udp;

/// The kernel's receive buffer; it is smaller if `net.core.rmem_max` limits it.
const BUFFER_BYTES: usize = 1024 * 1024;

/// The sockets of one core, each with its configured address.
pub type CoreShare = Vec<(SocketAddr, UdpSocket)>;

/// The sockets of the process.
pub struct DatagramSockets {
    cores: usize,
    addresses: Vec<Address>,
    /// Those of the previous process that were not used yet.
    inherited: Vec<(SocketAddr, UdpSocket)>,
}

/// One address.
struct Address {
    configured: SocketAddr,
    bound: SocketAddr,
    sockets: Vec<UdpSocket>,
}

/// New addresses; they take effect with [`DatagramSockets::apply`].
pub struct Added {
    addresses: Vec<Address>,
    shares: Vec<CoreShare>,
}

impl DatagramSockets {
    /// No addresses yet, and the sockets of the previous process.
    pub fn inheriting(cores: usize, inherited: Vec<(SocketAddr, UdpSocket)>) -> DatagramSockets {
        DatagramSockets { cores, addresses: Vec::new(), inherited }
    }

    /// Finds or makes sockets for those of these addresses that have none.
    pub fn prepare(&self, wanted: &[SocketAddr]) -> Result<Added, StartError> {
        let mut added =
            Added { addresses: Vec::new(), shares: (0..self.cores).map(|_| Vec::new()).collect() };
        for &configured in wanted {
            if self.addresses.iter().any(|known| known.configured == configured) {
                continue;
            }
            let address = self.open(configured).map_err(|error| {
                let help = match error.kind() {
                    io::ErrorKind::AddrInUse => "another program has that UDP port",
                    io::ErrorKind::PermissionDenied => "ports below 1024 need root or CAP_NET_BIND_SERVICE",
                    io::ErrorKind::AddrNotAvailable => "this machine does not have that address",
                    _ => "the address cannot be used",
                };
                StartError(format!("cannot listen on {configured} (UDP): {error}: {help}"))
            })?;
            // A socket is read by one core only: two would divide the datagrams of a client.
            for (index, socket) in address.sockets.iter().enumerate() {
                let copy = socket.try_clone().map_err(|error| StartError(error.to_string()))?;
                added.shares[index % self.cores].push((configured, copy));
            }
            added.addresses.push(address);
        }
        Ok(added)
    }

    /// Adds what was prepared, and drops addresses that are no longer needed. Returns the sockets of each
    /// core.
    pub fn apply(&mut self, added: Added, wanted: &[SocketAddr]) -> Vec<CoreShare> {
        self.inherited.clear();
        self.addresses.extend(added.addresses);
        self.addresses.retain(|address| wanted.contains(&address.configured));
        added.shares
    }

    /// The bound address of each configured one.
    pub fn bound(&self) -> impl Iterator<Item = (SocketAddr, SocketAddr)> {
        self.addresses.iter().map(|address| (address.configured, address.bound))
    }

    /// Every socket, to be passed to a successor.
    pub fn to_pass(&self) -> io::Result<Vec<(PassedSocket, OwnedFd)>> {
        let mut all = Vec::new();
        for address in &self.addresses {
            for socket in &address.sockets {
                let configured = Some(address.configured.into());
                let passed =
                    PassedSocket { kind: Kind::Udp, configured, is_shared_with_processes: false, owner: 0 };
                all.push((passed, socket.try_clone()?.into()));
            }
        }
        Ok(all)
    }

    fn open(&self, configured: SocketAddr) -> io::Result<Address> {
        let inherited = self.inherited.iter().filter(|(known, _)| *known == configured);
        let sockets = inherited.map(|(_, socket)| socket.try_clone()).collect::<io::Result<Vec<_>>>()?;
        if let Some(first) = sockets.first() {
            return Ok(Address { configured, bound: first.local_addr()?, sockets });
        }
        // With SO_REUSEPORT two servers of one user could share a port without notice. The first socket is
        // bound without it, which fails if another program has the port.
        let only = bind(configured, false)?;
        let bound = only.local_addr()?;
        if self.cores == 1 {
            return Ok(Address { configured, bound, sockets: vec![only] });
        }
        drop(only);
        let sockets = (0..self.cores).map(|_| bind(bound, true)).collect::<io::Result<Vec<_>>>()?;
        Ok(Address { configured, bound, sockets })
    }
}

fn bind(address: SocketAddr, is_shared: bool) -> io::Result<UdpSocket> {
    udp::bind(address, is_shared, BUFFER_BYTES).map(UdpSocket::from)
}

/// Every address on which a stream takes datagrams, once.
pub fn datagram_addresses(config: &Config) -> Vec<SocketAddr> {
    let mut addresses = Vec::new();
    let streams = config.streams.iter().filter(|stream| stream.is_udp).flat_map(|stream| &stream.listen);
    for address in streams.filter_map(|address| address.ip()) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(shares: &[CoreShare]) -> Vec<usize> {
        shares.iter().map(Vec::len).collect()
    }

    #[test]
    fn every_socket_has_one_core_whatever_number_there_is() {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        for (before, now, expected) in [(1, 1, vec![1]), (3, 2, vec![2, 1]), (1, 2, vec![1, 0])] {
            let mut first = DatagramSockets::inheriting(before, Vec::new());
            let added = first.prepare(&[any]).unwrap();
            assert_eq!(counts(&first.apply(added, &[any])), vec![1; before]);
            let bound = first.bound().next().unwrap();
            let passed = first.to_pass().unwrap().into_iter();
            let address = |passed: &PassedSocket| passed.configured.unwrap().ip().unwrap();
            let passed = passed.map(|(passed, socket)| (address(&passed), socket.into()));
            let mut second = DatagramSockets::inheriting(now, passed.collect());
            let added = second.prepare(&[any]).unwrap();
            assert_eq!(counts(&second.apply(added, &[any])), expected, "{before} to {now}");
            assert_eq!(second.bound().next(), Some(bound));
            // An address that no stream uses is closed, and those that are open are not opened again.
            let added = second.prepare(&[any]).unwrap();
            assert_eq!(counts(&second.apply(added, &[])), vec![0; now]);
            assert_eq!(second.bound().next(), None);
        }
    }
}
