//! The sockets that this process inherited when it started: listening sockets from systemd, or those of the
//! server that it replaces.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;

use touchstone_config::ListenAddress;

use crate::control::ControlListener;
use crate::handover::{Kind, PassedSocket, Predecessor};
use crate::start_error::StartError;
use crate::systemd;
use crate::unix_socket;

/// The sockets that this process inherited when it started.
#[derive(Default)]
pub struct Inheritance {
    /// Listening sockets for connections: of TCP, and unix sockets. Both have the type of the first, because
    /// they are processed in the same way.
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
    pub configured: Option<ListenAddress>,
    /// The address on which it listens.
    pub bound: ListenAddress,
    /// The process that passed the socket keeps it open: connections in its queue are not lost when this
    /// server closes it.
    pub is_shared_with_processes: bool,
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
            let bound = bound_address(&socket)
                .map_err(|error| StartError(format!("a socket of LISTEN_FDS cannot be used: {error}")))?;
            inheritance.sockets.push(InheritedSocket {
                configured: None,
                bound,
                is_shared_with_processes: true,
                socket,
            });
        }
        if let Some((predecessor, received)) = Predecessor::from_environment().map_err(StartError)? {
            inheritance.predecessor = Some(predecessor);
            for (passed, descriptor) in received {
                inheritance.add(passed, descriptor);
            }
        }
        Ok(inheritance)
    }

    /// Notifies the previous process that this one cannot start.
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
                if let Ok(bound) = bound_address(&socket) {
                    let (configured, is_shared_with_processes) =
                        (passed.configured, passed.is_shared_with_processes);
                    self.sockets.push(InheritedSocket {
                        configured,
                        bound,
                        is_shared_with_processes,
                        socket,
                    });
                }
            }
            Kind::Http3 => {
                let address = passed.configured.and_then(ListenAddress::ip);
                self.http3_sockets.extend(address.map(|address| (address, UdpSocket::from(descriptor))));
            }
            Kind::Udp => {
                let address = passed.configured.and_then(ListenAddress::ip);
                self.udp_sockets.extend(address.map(|address| (address, UdpSocket::from(descriptor))));
            }
            Kind::Control => {
                self.control = Some(ControlListener::inherited(UnixListener::from(descriptor), passed.owner));
            }
            Kind::Unknown => {}
        }
    }
}

/// The address on which a socket listens.
pub fn bound_address(socket: &TcpListener) -> io::Result<ListenAddress> {
    if let Ok(address) = socket.local_addr() {
        return Ok(address.into());
    }
    let copy = OwnedFd::from(socket.try_clone()?);
    unix_socket::bound_name(&copy).ok_or_else(|| io::Error::other("the name of its address is not text"))
}
