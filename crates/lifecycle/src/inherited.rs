//! What this process inherited when it started: listening sockets from systemd, or those of the server that
//! it replaces.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;

use crate::control::ControlListener;
use crate::handover::{Kind, PassedSocket, Predecessor};
use crate::start_error::StartError;
use crate::systemd;

/// What this process inherited when it started.
#[derive(Default)]
pub struct Inheritance {
    /// Listening sockets for TCP.
    pub sockets: Vec<InheritedSocket>,
    /// Sockets for HTTP/3, each with its address in the configuration of the previous process.
    pub http3_sockets: Vec<(SocketAddr, UdpSocket)>,
    /// Sockets of streams for datagrams, each with its address in the configuration of the previous process.
    pub udp_sockets: Vec<(SocketAddr, UdpSocket)>,
    /// The control socket.
    pub control: Option<ControlListener>,
    /// The process that passed them, if it waits for this one to be ready.
    pub predecessor: Option<Predecessor>,
}

/// A socket that is already listening.
#[derive(Debug)]
pub struct InheritedSocket {
    /// The address in the configuration of the previous process.
    pub configured: Option<SocketAddr>,
    /// The address on which it listens.
    pub bound: SocketAddr,
    /// The process that passed the socket keeps it open: connections in its queue are not lost when this
    /// server closes it.
    pub lent: bool,
    /// The socket.
    pub socket: TcpListener,
}

impl Inheritance {
    /// Nothing inherited.
    pub fn none() -> Inheritance {
        Inheritance::default()
    }

    /// Reads the environment. Must be called once, before any file is opened.
    pub fn from_environment() -> Result<Inheritance, StartError> {
        let mut inheritance = Inheritance::none();
        for socket in systemd::passed_sockets().map_err(StartError)? {
            let bound = socket
                .local_addr()
                .map_err(|error| StartError(format!("a socket of LISTEN_FDS cannot be used: {error}")))?;
            inheritance.sockets.push(InheritedSocket { configured: None, bound, lent: true, socket });
        }
        if let Some((predecessor, received)) = Predecessor::from_environment().map_err(StartError)? {
            inheritance.predecessor = Some(predecessor);
            for (passed, descriptor) in received {
                inheritance.add(passed, descriptor);
            }
        }
        Ok(inheritance)
    }

    /// Tells the previous process that this one cannot start.
    pub fn refuse(&self, reasons: &[String]) {
        if let Some(predecessor) = &self.predecessor {
            predecessor.failed(reasons);
        }
    }

    /// Adds a socket. One of unknown kind is closed.
    fn add(&mut self, passed: PassedSocket, descriptor: OwnedFd) {
        match passed.kind {
            Kind::Tcp => {
                let socket = TcpListener::from(descriptor);
                if let Ok(bound) = socket.local_addr() {
                    let (configured, lent) = (passed.configured, passed.lent);
                    self.sockets.push(InheritedSocket { configured, bound, lent, socket });
                }
            }
            Kind::Http3 => {
                self.http3_sockets
                    .extend(passed.configured.map(|address| (address, UdpSocket::from(descriptor))));
            }
            Kind::Udp => {
                self.udp_sockets
                    .extend(passed.configured.map(|address| (address, UdpSocket::from(descriptor))));
            }
            Kind::Control => {
                self.control = Some(ControlListener::inherited(UnixListener::from(descriptor), passed.owner));
            }
            Kind::Unknown => {}
        }
    }
}
