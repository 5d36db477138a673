//! Ports of 127.0.0.1 for the systems of a run: each is held until its system is started, so that others of this machine and
//! the connections of the load engine are not given it meanwhile.

use rustix::io;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;

/// A port that is held as long as this lives.
#[derive(Debug)]
pub(super) struct HeldPort {
    number: u16,
    _socket: OwnedFd,
}

impl HeldPort {
    /// Holds this port, or one that the kernel chooses.
    ///
    /// Nothing listens on it, and it may be listened on by whoever says that it reuses addresses, as servers do: a program
    /// that is being started meanwhile has a copy of the socket between its fork and its exec, also after this is gone.
    /// A copy that listened would keep the system from its port, and would accept the connection that asks whether the
    /// system is there yet.
    pub(super) fn new(number: Option<u16>) -> io::Result<HeldPort> {
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, number.unwrap_or(0)))?;
        let number = SocketAddr::try_from(getsockname(&socket)?)?.port();
        Ok(HeldPort { number, _socket: socket })
    }

    /// Its number.
    pub(super) fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_held_port_is_given_to_nobody_and_can_be_listened_on() {
        let held: Vec<HeldPort> = (0..100).map(|_| HeldPort::new(None).unwrap()).collect();
        let mut numbers: Vec<u16> = held.iter().map(HeldPort::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), held.len(), "no port is given twice");
        let number = held[0].number();
        let address = (Ipv4Addr::LOCALHOST, number);
        assert!(TcpStream::connect(address).is_err(), "nothing listens on it");
        let listener = TcpListener::bind(address).unwrap();
        assert_eq!(HeldPort::new(Some(number)).err(), Some(io::Errno::ADDRINUSE));
        drop(listener);
        assert_eq!(HeldPort::new(Some(number)).unwrap().number(), number);
    }
}
