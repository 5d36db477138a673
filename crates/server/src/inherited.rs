//! What this process was given when it was started: listening sockets of systemd, or those of a server that
//! it takes over from.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;

use crate::control::ControlListener;
use crate::handover::{Kind, Passed, Predecessor};
use crate::start_error::StartError;
use crate::systemd;

/// What this process was given when it was started.
#[derive(Default)]
pub struct Inheritance {
    pub(crate) sockets: Vec<InheritedSocket>,
    /// Each with the address as the configuration of the process before has it.
    pub(crate) http3_sockets: Vec<(SocketAddr, UdpSocket)>,
    pub(crate) control: Option<ControlListener>,
    pub(crate) predecessor: Option<Predecessor>,
}

/// A socket that listens already.
#[derive(Debug)]
pub struct InheritedSocket {
    /// The address as the configuration of the process before has it.
    pub configured: Option<SocketAddr>,
    /// Where it really listens.
    pub bound: SocketAddr,
    /// It stays open with whoever gave it: what waits in its queue is not lost when we let go of it.
    pub lent: bool,
    /// The socket.
    pub socket: TcpListener,
}

impl Inheritance {
    /// Nothing.
    pub fn none() -> Inheritance {
        Inheritance::default()
    }

    /// What the environment tells of. To be called once, before files are opened.
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

    /// Tells whoever waits for this process that it cannot start.
    pub fn refuse(&self, reasons: &[String]) {
        if let Some(predecessor) = &self.predecessor {
            predecessor.failed(reasons);
        }
    }

    /// What is not known is closed.
    fn add(&mut self, passed: Passed, descriptor: OwnedFd) {
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
            Kind::Control => {
                self.control = Some(ControlListener::inherited(UnixListener::from(descriptor), passed.owner));
            }
            Kind::Unknown => {}
        }
    }
}
