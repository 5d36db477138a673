//! Every address that the server listens on, and its sockets: they are created, inherited, distributed to the
//! cores and handed over.
//!
//! Each core has sockets of its own (`listener`). This table holds the same sockets as long as the process
//! runs, so that they can be passed to a successor. An address may have another number of sockets than there
//! are cores: an inherited one may have fewer (systemd passes one) or more (the previous process had more
//! cores). Every socket is used, because connections wait in the queue of each.

use std::io;
use std::net::{Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::Path;

use socket2::SockRef;
use touchstone_config::{Config, ListenAddress, UnixSocketName};
use touchstone_lifecycle::handover::{Kind, PassedSocket};
use touchstone_lifecycle::inherited::InheritedSocket;
use touchstone_lifecycle::start_error::StartError;
use touchstone_lifecycle::unix_socket::{self, SocketFileIdentity};

use crate::process::listener::{self, ListenerSeed};
use crate::process::socket_rights::SocketRights;

/// Every address that the server listens on.
#[derive(Default)]
pub struct Listening {
    addresses: Vec<Address>,
    /// Inherited sockets that no site uses now. A reload may use one that is shared with processes.
    spare: Vec<InheritedSocket>,
}

/// One address.
struct Address {
    configured: ListenAddress,
    bound: ListenAddress,
    /// The process that passed its sockets keeps them open.
    is_shared_with_processes: bool,
    sockets: Vec<TcpListener>,
    /// The file of a unix socket that this server removes at the end.
    file: Option<SocketFileIdentity>,
}

/// New addresses; they take effect with [`Listening::apply`].
pub struct Added {
    addresses: Vec<Address>,
    /// The sockets of each core.
    pub shares: Vec<Vec<ListenerSeed>>,
}

impl Added {
    /// The new addresses: the configured and the bound one.
    pub fn addresses(&self) -> impl Iterator<Item = (ListenAddress, ListenAddress)> {
        self.addresses.iter().map(|address| (address.configured, address.bound))
    }
}

impl Listening {
    /// A table with only the inherited sockets.
    pub fn inheriting(sockets: Vec<InheritedSocket>) -> Listening {
        Listening { addresses: Vec::new(), spare: sockets }
    }

    /// Finds or makes sockets for those of these addresses that have none.
    pub fn prepare(
        &self,
        wanted: &[ListenAddress],
        cores: usize,
        rights: &SocketRights,
    ) -> Result<Added, StartError> {
        let is_known =
            |wanted: &ListenAddress| self.addresses.iter().any(|known| known.configured == *wanted);
        let new: Vec<ListenAddress> = wanted.iter().copied().filter(|wanted| !is_known(wanted)).collect();
        let mut free: Vec<&InheritedSocket> = self.spare.iter().collect();
        // Addresses with the same configured value as before choose first: port 0 was replaced by a port,
        // which may be the one that another site names.
        let mut found: Vec<Vec<&InheritedSocket>> =
            new.iter().map(|wanted| take(&mut free, |socket| socket.configured == Some(*wanted))).collect();
        for (wanted, sockets) in new.iter().zip(&mut found).filter(|(_, sockets)| sockets.is_empty()) {
            *sockets = take(&mut free, |socket| socket.bound == *wanted);
        }
        let mut added = Added { addresses: Vec::new(), shares: (0..cores).map(|_| Vec::new()).collect() };
        for (configured, sockets) in new.into_iter().zip(found) {
            let bind_error = |error: io::Error| StartError(format!("cannot listen on {configured}: {error}"));
            let address = match sockets.is_empty() {
                true => self.bind(configured, cores, rights)?,
                false => adopt(configured, &sockets, cores).map_err(bind_error)?,
            };
            address.share_out(&mut added.shares).map_err(bind_error)?;
            added.addresses.push(address);
        }
        Ok(added)
    }

    /// Adds what was prepared, and drops addresses that are no longer needed. Returns the sockets of each
    /// core.
    pub fn apply(&mut self, added: Added, wanted: &[ListenAddress]) -> Vec<Vec<ListenerSeed>> {
        let Added { addresses, shares } = added;
        self.spare.retain(|spare| !addresses.iter().any(|address| address.bound == spare.bound));
        self.addresses.extend(addresses);
        for gone in self.addresses.extract_if(.., |address| !wanted.contains(&address.configured)) {
            gone.remove_file();
            if gone.is_shared_with_processes {
                let Address { bound, is_shared_with_processes, sockets, .. } = gone;
                let spare =
                    |socket| InheritedSocket { configured: None, bound, is_shared_with_processes, socket };
                self.spare.extend(sockets.into_iter().map(spare));
            }
        }
        shares
    }

    /// Closes inherited sockets that no site uses. Returns the addresses of those that another process keeps
    /// open, where clients would wait without an answer.
    pub fn drop_unwanted(&mut self) -> Vec<ListenAddress> {
        self.spare.retain(|spare| spare.is_shared_with_processes);
        self.spare.iter().map(|spare| spare.bound).collect()
    }

    /// The bound address of each configured one.
    pub fn bound(&self) -> impl Iterator<Item = (ListenAddress, ListenAddress)> {
        self.addresses.iter().map(|address| (address.configured, address.bound))
    }

    /// The bound address of a configured internet address.
    pub fn bound_ip_of(&self, configured: SocketAddr) -> SocketAddr {
        let bound = self.bound().find(|(known, _)| *known == configured);
        bound.and_then(|(_, bound)| bound.ip()).unwrap_or(configured)
    }

    /// Every socket, to be passed to a successor.
    pub fn to_pass(&self) -> io::Result<Vec<(PassedSocket, OwnedFd)>> {
        let passed = |configured, is_shared_with_processes| PassedSocket {
            kind: Kind::Tcp,
            configured,
            is_shared_with_processes,
            owner: 0,
        };
        let mut all = Vec::new();
        for address in &self.addresses {
            for socket in &address.sockets {
                all.push((
                    passed(Some(address.configured), address.is_shared_with_processes),
                    socket.try_clone()?.into(),
                ));
            }
        }
        for spare in &self.spare {
            all.push((passed(None, spare.is_shared_with_processes), spare.socket.try_clone()?.into()));
        }
        Ok(all)
    }

    /// Removes the files of unix sockets, except those on which another process continues.
    pub fn remove_files(&self, kept: &[ListenAddress]) {
        let ends = |address: &&Address| !kept.contains(&address.configured);
        self.addresses.iter().filter(ends).for_each(Address::remove_file);
    }

    /// Sets the rights of the present configuration on the files of unix sockets; returns the failures.
    pub fn set_file_rights(&self, rights: &SocketRights) -> Vec<String> {
        let own = self.addresses.iter().filter(|address| address.file.is_some());
        let set = |address: &Address| {
            let (path, rights) = (address.path()?, rights.get(&address.configured)?);
            let problem = unix_socket::set_rights(path, *rights).err()?;
            Some(format!("{}: {problem}", address.configured))
        };
        own.filter_map(set).collect()
    }

    fn bind(
        &self,
        address: ListenAddress,
        cores: usize,
        rights: &SocketRights,
    ) -> Result<Address, StartError> {
        match address {
            ListenAddress::Ip(address) => self.bind_ip(address, cores),
            ListenAddress::Unix(name) => {
                let bind_error =
                    |problem: String| StartError(format!("cannot listen on {address}: {problem}"));
                let rights =
                    rights.get(&address).ok_or_else(|| bind_error("its rights are unknown".to_string()))?;
                let socket = unix_socket::listen(name, *rights).map_err(bind_error)?;
                let file = name.path().and_then(unix_socket::identity);
                let sockets = vec![socket];
                Ok(Address {
                    configured: address,
                    bound: address,
                    is_shared_with_processes: false,
                    sockets,
                    file,
                })
            }
        }
    }

    fn bind_ip(&self, configured: SocketAddr, cores: usize) -> Result<Address, StartError> {
        match listener::bind(configured, cores) {
            Ok((bound, sockets)) => {
                let (configured, bound) = (configured.into(), bound.into());
                Ok(Address { configured, bound, is_shared_with_processes: false, sockets, file: None })
            }
            Err(error) => {
                let help = match error.kind() {
                    io::ErrorKind::AddrInUse => match self.inherited_for_both(configured) {
                        Some(both) => format!(
                            "the inherited socket on {both} takes IPv4 too; \
                             write BindIPv6Only=ipv6-only into the socket unit, or listen on {both} alone"
                        ),
                        None => "another program listens there; stop it or choose another port".to_string(),
                    },
                    io::ErrorKind::PermissionDenied => {
                        "ports below 1024 need root or CAP_NET_BIND_SERVICE".to_string()
                    }
                    io::ErrorKind::AddrNotAvailable => "this machine does not have that address".to_string(),
                    _ => "the address cannot be used".to_string(),
                };
                Err(StartError(format!("cannot listen on {configured}: {error}: {help}")))
            }
        }
    }

    /// A socket from systemd that prevents the bind: without BindIPv6Only it also listens on IPv4.
    fn inherited_for_both(&self, configured: SocketAddr) -> Option<SocketAddr> {
        let inherited = self.spare.iter().map(|spare| (spare.bound, &spare.socket));
        let adopted = self.addresses.iter().filter_map(|known| Some((known.bound, known.sockets.first()?)));
        inherited.chain(adopted).find_map(|(bound, socket)| {
            let bound = bound.ip()?;
            let both = bound.ip() == Ipv6Addr::UNSPECIFIED
                && bound.port() == configured.port()
                && SockRef::from(socket).only_v6().is_ok_and(|only| !only);
            (both && configured.is_ipv4()).then_some(bound)
        })
    }
}

impl Address {
    /// The path of a unix socket.
    fn path(&self) -> Option<&'static Path> {
        self.bound.unix().and_then(UnixSocketName::path)
    }

    fn remove_file(&self) {
        if let (Some(path), Some(file)) = (self.path(), self.file) {
            unix_socket::remove(path, file);
        }
    }

    /// Assigns each core at least one socket, and each socket to at least one core.
    fn share_out(&self, shares: &mut [Vec<ListenerSeed>]) -> io::Result<()> {
        let cores = shares.len();
        for index in 0..self.sockets.len().max(cores) {
            let socket = self.sockets[index % self.sockets.len()].try_clone()?;
            let seed = ListenerSeed {
                configured: self.configured,
                socket,
                is_shared_with_processes: self.is_shared_with_processes,
            };
            shares[index % cores].push(seed);
        }
        Ok(())
    }
}

/// Makes an address from inherited sockets.
fn adopt(configured: ListenAddress, inherited: &[&InheritedSocket], cores: usize) -> io::Result<Address> {
    let mut sockets = Vec::with_capacity(inherited.len());
    for one in inherited {
        listener::adopt(&one.socket, configured.unix().is_some())?;
        sockets.push(one.socket.try_clone()?);
    }
    let (bound, is_shared_with_processes) =
        (inherited[0].bound, inherited.iter().any(|one| one.is_shared_with_processes));
    let share_a_port = |socket: &TcpListener| SockRef::from(socket).reuse_port().unwrap_or(false);
    // With more cores than before, more sockets are added if they may share the port. If they may not
    // (another user created the others, or systemd keeps those and would not keep these), cores share the
    // existing ones.
    if !is_shared_with_processes && sockets.len() < cores && sockets.iter().all(share_a_port) {
        let more = bound.ip().map(|bound| listener::bind_beside(bound, cores - sockets.len()));
        sockets.extend(more.and_then(Result::ok).unwrap_or_default());
    }
    let path = bound.unix().and_then(UnixSocketName::path).filter(|_| !is_shared_with_processes);
    Ok(Address {
        configured,
        bound,
        is_shared_with_processes,
        sockets,
        file: path.and_then(unix_socket::identity),
    })
}

fn take<'s>(
    free: &mut Vec<&'s InheritedSocket>,
    is_wanted: impl Fn(&InheritedSocket) -> bool,
) -> Vec<&'s InheritedSocket> {
    free.extract_if(.., |socket| is_wanted(socket)).collect()
}

/// Every address that a site or a stream of connections listens on, once.
pub fn addresses(config: &Config) -> Vec<ListenAddress> {
    let mut addresses = Vec::new();
    let streams = config.streams.iter().filter(|stream| !stream.is_udp).flat_map(|stream| &stream.listen);
    for &address in config.sites.iter().flat_map(|site| &site.listen).chain(streams) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

#[cfg(test)]
mod tests {
    use touchstone_lifecycle::unix_socket::SocketFileRights;

    use super::*;

    fn inherited(
        configured: Option<ListenAddress>,
        is_shared_with_processes: bool,
        socket: TcpListener,
    ) -> InheritedSocket {
        InheritedSocket {
            configured,
            bound: socket.local_addr().unwrap().into(),
            is_shared_with_processes,
            socket,
        }
    }

    fn counts(shares: &[Vec<ListenerSeed>]) -> Vec<usize> {
        shares.iter().map(Vec::len).collect()
    }

    fn any_port() -> ListenAddress {
        "127.0.0.1:0".parse().unwrap()
    }

    /// The sockets of a server with this many cores, as the next process receives them.
    fn of_a_server(cores: usize) -> (ListenAddress, Vec<InheritedSocket>) {
        let mut before = Listening::default();
        let added = before.prepare(&[any_port()], cores, &SocketRights::new()).unwrap();
        let bound = added.addresses().next().unwrap().1;
        assert_eq!(counts(&before.apply(added, &[any_port()])), vec![1; cores]);
        let passed = before.to_pass().unwrap();
        let sockets = passed.into_iter().map(|(passed, socket)| {
            inherited(passed.configured, passed.is_shared_with_processes, TcpListener::from(socket))
        });
        (bound, sockets.collect())
    }

    #[test]
    fn every_socket_finds_a_core_and_every_core_a_socket() {
        for (before, now, expected) in [
            (1, 1, vec![1]),
            (2, 2, vec![1, 1]),
            (3, 1, vec![3]),
            (3, 2, vec![2, 1]),
            (1, 3, vec![1, 1, 1]),
            (2, 4, vec![1, 1, 1, 1]),
        ] {
            let (bound, sockets) = of_a_server(before);
            let mut listening = Listening::inheriting(sockets);
            let added = listening.prepare(&[any_port()], now, &SocketRights::new()).unwrap();
            assert_eq!(added.addresses().collect::<Vec<_>>(), [(any_port(), bound)]);
            assert_eq!(counts(&listening.apply(added, &[any_port()])), expected, "{before} to {now}");
            assert!(listening.drop_unwanted().is_empty());
        }
    }

    #[test]
    fn what_no_site_wants_is_closed_unless_other_processes_share_it() {
        let (bound, sockets) = of_a_server(1);
        let shared_listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let lent_at = shared_listener.local_addr().unwrap();
        let lent_address = ListenAddress::from(lent_at);
        let mut all = sockets;
        all.push(inherited(None, true, shared_listener));
        let other: ListenAddress = "127.0.0.2:0".parse().unwrap();
        let mut listening = Listening::inheriting(all);
        let added = listening.prepare(&[other], 2, &SocketRights::new()).unwrap();
        let shares = listening.apply(added, &[other]);
        assert_eq!(listening.drop_unwanted(), [lent_address]);
        assert!(std::net::TcpStream::connect(bound.ip().unwrap()).is_err());
        assert_eq!(counts(&shares), [1, 1]);

        // A reload may use it, release it, and use it again.
        for _ in 0..2 {
            let added = listening.prepare(&[other, lent_address], 2, &SocketRights::new()).unwrap();
            let shares = listening.apply(added, &[other, lent_address]);
            assert_eq!(counts(&shares), [1, 1]);
            assert!(
                shares
                    .iter()
                    .flatten()
                    .all(|seed| seed.is_shared_with_processes && seed.configured == lent_address)
            );
            let added = listening.prepare(&[other], 2, &SocketRights::new()).unwrap();
            listening.apply(added, &[other]);
            assert!(std::net::TcpStream::connect(lent_at).is_ok());
        }
    }

    #[test]
    fn the_same_configured_address_chooses_before_the_same_real_one() {
        let (bound, sockets) = of_a_server(1);
        let listening = Listening::inheriting(sockets);
        // Another site names the port that port 0 has become.
        let problem = listening.prepare(&[bound, any_port()], 1, &SocketRights::new()).err().unwrap();
        assert!(problem.0.contains(&format!("cannot listen on {bound}")), "{problem}");
        let added = listening.prepare(&[bound], 1, &SocketRights::new()).unwrap();
        assert_eq!(added.addresses().collect::<Vec<_>>(), [(bound, bound)]);
    }

    #[test]
    fn a_socket_for_both_versions_is_named_where_it_stands_in_the_way() {
        let both = socket2::Socket::new(socket2::Domain::IPV6, socket2::Type::STREAM, None);
        let bind = |socket: &socket2::Socket| {
            socket.set_only_v6(false)?;
            let any: SocketAddr = "[::]:0".parse().expect("an address");
            socket.bind(&any.into())?;
            socket.listen(1)
        };
        // Some machines have no IPv6.
        let Ok(socket) = both.and_then(|socket| bind(&socket).map(|()| socket)) else { return };
        let socket = TcpListener::from(socket);
        let port = socket.local_addr().unwrap().port();
        let listening = Listening::inheriting(vec![inherited(None, true, socket)]);
        let v4 = ListenAddress::from(SocketAddr::from(([0, 0, 0, 0], port)));
        let problem = listening.prepare(&[v4], 1, &SocketRights::new()).err().unwrap();
        assert!(problem.0.contains("BindIPv6Only"), "{problem}");
        assert!(
            listening.prepare(&[format!("[::]:{port}").parse().unwrap()], 1, &SocketRights::new()).is_ok()
        );
    }

    #[test]
    fn a_unix_socket_is_shared_by_the_cores_passed_on_and_removed() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.sock");
        let address: ListenAddress = format!("unix:{}", path.display()).parse().unwrap();
        let rights = SocketFileRights { mode: 0o600, user: None, group: None };
        let rights = SocketRights::from([(address, rights)]);
        let mut before = Listening::default();
        let added = before.prepare(&[address], 3, &rights).unwrap();
        assert_eq!(counts(&before.apply(added, &[address])), [1, 1, 1]);
        let problem = Listening::default().prepare(&[address], 1, &rights).err().unwrap();
        assert!(problem.0.contains("another program listens there"), "{problem}");

        let passed = before.to_pass().unwrap().into_iter().map(|(passed, socket)| InheritedSocket {
            configured: passed.configured,
            bound: address,
            is_shared_with_processes: passed.is_shared_with_processes,
            socket: TcpListener::from(socket),
        });
        let mut after = Listening::inheriting(passed.collect());
        let added = after.prepare(&[address], 2, &rights).unwrap();
        assert_eq!(counts(&after.apply(added, &[address])), [1, 1]);
        before.remove_files(&[address]);
        drop(before);
        assert!(std::os::unix::net::UnixStream::connect(&path).is_ok());
        let added = after.prepare(&[], 2, &rights).unwrap();
        after.apply(added, &[]);
        assert!(!path.exists());
    }
}
