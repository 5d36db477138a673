//! The UDP sockets of the process: opened before anything is promised, and when a reload asks for more.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use super::secrets::Secrets;
use super::socket::{Steering, bind};
use crate::log::error::ErrorLog;
use crate::site::Snapshot;

/// Sockets of one core, each with the address that the configuration gives it.
pub type CoreSockets = Vec<(SocketAddr, UdpSocket)>;

/// What the process knows of its sockets; the cores have them.
pub struct Sockets {
    /// The keys of QUIC.
    pub secrets: Secrets,
    cores: usize,
    /// The addresses that have sockets, as configured.
    open: Vec<SocketAddr>,
}

/// Sockets that were opened for a configuration which is not taken up yet.
pub struct Opened {
    /// For each core.
    pub shares: Vec<CoreSockets>,
    addresses: Vec<SocketAddr>,
}

impl Sockets {
    /// No sockets yet, for so many cores.
    pub fn new(cores: usize) -> Result<Sockets, &'static str> {
        Ok(Sockets { secrets: Secrets::new()?, cores, open: Vec::new() })
    }

    /// Opens what a configuration needs and is not open. `bound` says at which address a configured one listens. The error
    /// is for the operator.
    pub fn open(
        &self,
        snapshot: &Snapshot,
        bound: impl Fn(SocketAddr) -> SocketAddr,
        error_log: &ErrorLog,
    ) -> Result<Opened, String> {
        let mut shares: Vec<CoreSockets> = (0..self.cores).map(|_| Vec::new()).collect();
        let mut addresses = Vec::new();
        for sites in &snapshot.listeners {
            if !sites.tls.as_ref().is_some_and(|tls| tls.speaks_http3()) {
                continue;
            }
            addresses.push(sites.address);
            if self.open.contains(&sites.address) {
                continue;
            }
            let address = bound(sites.address);
            let (sockets, steering) = bind(address, self.cores).map_err(|error| problem(address, &error))?;
            if steering == Steering::FirstCore && self.cores > 1 {
                error_log.warning(format_args!(
                    "HTTP/3 on {address} has one core: this system does not give packets to sockets by their content"
                ));
            }
            for (share, socket) in shares.iter_mut().zip(sockets) {
                share.push((sites.address, socket));
            }
            error_log.info(format_args!("listening on {address} for HTTP/3"));
        }
        Ok(Opened { shares, addresses })
    }

    /// Takes note that the configuration was taken up.
    pub fn take_up(&mut self, opened: Opened) -> Vec<CoreSockets> {
        self.open = opened.addresses;
        opened.shares
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
