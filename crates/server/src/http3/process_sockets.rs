//! The UDP sockets of the process: opened at the start, and when a reload needs more.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;

use touchstone_lifecycle::handover::{Kind, PassedSocket};
use touchstone_observe::log::error::ErrorLog;
use touchstone_sites::site::Snapshot;

use super::packet_steering::{PacketSteering, bind};
use super::secrets::Secrets;

/// Sockets of one core, each with its address of the configuration.
pub type CoreSockets = Vec<(SocketAddr, UdpSocket)>;

/// The table of the process's sockets; the cores hold the sockets themselves.
pub struct Sockets {
    /// The keys of QUIC.
    pub secrets: Secrets,
    cores: usize,
    /// The configured addresses that have sockets, and the sockets, to be passed to a successor.
    open: Vec<(SocketAddr, Vec<UdpSocket>)>,
    /// Sockets that were inherited, or opened with root's rights; by configured address.
    ahead: Vec<(SocketAddr, Vec<UdpSocket>)>,
    /// The previous process still reads from the sockets.
    waits: bool,
}

/// Sockets that were opened for a configuration that is not applied yet.
pub struct OpenedSockets {
    /// For each core.
    pub shares: Vec<CoreSockets>,
    addresses: Vec<SocketAddr>,
    sockets: Vec<(SocketAddr, Vec<UdpSocket>)>,
}

impl Sockets {
    /// No sockets yet, for this many cores.
    pub fn new(cores: usize) -> Result<Sockets, &'static str> {
        Ok(Sockets { secrets: Secrets::new()?, cores, open: Vec::new(), ahead: Vec::new(), waits: false })
    }

    /// Adds sockets of the previous process, each with its configured address, in the order in which they
    /// were bound.
    pub fn inherit(&mut self, sockets: Vec<(SocketAddr, UdpSocket)>) {
        for (configured, socket) in sockets {
            match self.ahead.iter_mut().find(|(known, _)| *known == configured) {
                Some((_, sockets)) => sockets.push(socket),
                None => self.ahead.push((configured, vec![socket])),
            }
        }
    }

    /// Opens an address before the configuration is applied, because the process loses the right to do so
    /// later.
    pub fn open_ahead(&mut self, configured: SocketAddr, bound: SocketAddr) -> Result<(), String> {
        if !self.ahead.iter().any(|(known, _)| *known == configured) {
            let (sockets, _) = bind(bound, self.cores).map_err(|error| problem(bound, &error))?;
            self.ahead.push((configured, sockets));
        }
        Ok(())
    }

    /// Opens no socket until [`Sockets::resume`]: if two processes read from one socket, each would receive
    /// packets of the other.
    pub fn wait(&mut self) {
        self.waits = true;
    }

    /// The previous process has ended.
    pub fn resume(&mut self) {
        self.waits = false;
    }

    /// Every socket, to be passed to a successor.
    pub fn to_pass(&self) -> io::Result<Vec<(PassedSocket, OwnedFd)>> {
        let mut all = Vec::new();
        for (configured, sockets) in self.open.iter().chain(&self.ahead) {
            for socket in sockets {
                let configured = Some((*configured).into());
                let passed =
                    PassedSocket { kind: Kind::Http3, configured, is_shared_with_processes: false, owner: 0 };
                all.push((passed, socket.try_clone()?.into()));
            }
        }
        Ok(all)
    }

    /// Opens what a configuration needs and is not open. `bound` returns the bound address of a configured
    /// one. The error is for the operator.
    pub fn open(
        &mut self,
        snapshot: &Snapshot,
        bound: impl Fn(SocketAddr) -> SocketAddr,
        error_log: &ErrorLog,
    ) -> Result<OpenedSockets, String> {
        let mut shares: Vec<CoreSockets> = (0..self.cores).map(|_| Vec::new()).collect();
        let (mut addresses, mut opened) = (Vec::new(), Vec::new());
        let waits = self.waits;
        for sites in snapshot.listeners.iter().filter(|_| !waits) {
            let Some(configured) = sites.address.ip() else { continue };
            if !sites.tls.as_ref().is_some_and(|tls| tls.speaks_http3()) {
                continue;
            }
            addresses.push(configured);
            if self.open.iter().any(|(known, _)| *known == configured) {
                continue;
            }
            let address = bound(configured);
            let (sockets, steering) = match self.take_prepared(configured) {
                Some(sockets) if sockets.len() == 1 => (sockets, PacketSteering::FirstCore),
                Some(sockets) => (sockets, PacketSteering::ByConnectionId),
                None => bind(address, self.cores).map_err(|error| problem(address, &error))?,
            };
            if steering == PacketSteering::FirstCore && self.cores > 1 {
                error_log.warning(format_args!(
                    "HTTP/3 on {address} has one core: this system does not select the socket of a packet by \
                     its content"
                ));
            }
            let describe = |error: io::Error| problem(address, &error);
            for (share, socket) in shares.iter_mut().zip(&sockets) {
                share.push((configured, socket.try_clone().map_err(describe)?));
            }
            opened.push((configured, sockets));
            error_log.info(format_args!("listening on {address} for HTTP/3"));
        }
        Ok(OpenedSockets { shares, addresses, sockets: opened })
    }

    /// Keeps what was opened for a configuration that is applied now; returns the sockets of each core.
    pub fn apply(&mut self, opened: OpenedSockets) -> Vec<CoreSockets> {
        self.open.retain(|(address, _)| opened.addresses.contains(address));
        self.open.extend(opened.sockets);
        // Sockets that were kept for an unwanted address are closed, unless the addresses that are needed are
        // not determined yet.
        if !self.waits {
            self.ahead.clear();
        }
        opened.shares
    }

    /// Uses existing sockets, if there is one for each core, as the filter by core number needs, or only one.
    fn take_prepared(&mut self, configured: SocketAddr) -> Option<Vec<UdpSocket>> {
        let index = self.ahead.iter().position(|(known, _)| *known == configured)?;
        let (_, sockets) = self.ahead.swap_remove(index);
        (sockets.len() == self.cores || sockets.len() == 1).then_some(sockets)
    }
}

fn problem(address: SocketAddr, error: &io::Error) -> String {
    let help = match error.kind() {
        io::ErrorKind::AddrInUse => "another program has that UDP port; stop it or set http3 = false",
        io::ErrorKind::PermissionDenied => "ports below 1024 need root or CAP_NET_BIND_SERVICE",
        _ => "the address cannot be used",
    };
    format!("cannot listen on {address} for HTTP/3 (UDP): {error}: {help}")
}
