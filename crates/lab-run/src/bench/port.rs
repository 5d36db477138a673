//! Ports of 127.0.0.1 for the systems of a run: each is held until its system is started, so that no other
//! program of this machine gets it before that.

use rustix::io::{self, Errno};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::ops::Range;
use std::os::fd::OwnedFd;

/// The first port that is chosen; well-known servers have lower ones.
const FIRST: u16 = 10_000;

/// A port that is held until this is dropped.
///
/// This socket does not listen, and a program that sets the option to reuse addresses, as servers do, can
/// listen on the port. A program that is started at the same time has a copy of the socket between its fork
/// and its exec, even after this is dropped. A copy that listened would block the port for the system, and
/// would accept the connection that tests whether the system is ready.
#[derive(Debug)]
pub(super) struct HeldPort {
    number: u16,
    _socket: OwnedFd,
}

impl HeldPort {
    /// Holds this port; closed connections of an earlier server may still linger on it.
    pub(super) fn named(number: u16) -> io::Result<HeldPort> {
        let socket = socket()?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        HeldPort::of(socket, number)
    }

    /// Holds a free port, outside the range from which the kernel chooses ports of connections: until its
    /// system listens on it, any connection could get one of those.
    pub(super) fn any() -> io::Result<HeldPort> {
        let range = FIRST..first_of_connections();
        // Runs at the same time begin at different places.
        let begin = RandomState::new().hash_one(std::process::id());
        for number in rotated(&range, begin) {
            match HeldPort::exclusive(number) {
                Err(Errno::ADDRINUSE) => {}
                held => return held,
            }
        }
        HeldPort::exclusive(0)
    }

    /// Holds a port that no other program and no other run uses; 0: one that the kernel chooses.
    fn exclusive(number: u16) -> io::Result<HeldPort> {
        let held = HeldPort::of(socket()?, number)?;
        sockopt::set_socket_reuseaddr(&held._socket, true)?;
        Ok(held)
    }

    fn of(socket: OwnedFd, number: u16) -> io::Result<HeldPort> {
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, number))?;
        let number = SocketAddr::try_from(getsockname(&socket)?)?.port();
        Ok(HeldPort { number, _socket: socket })
    }

    /// Its number.
    pub(super) fn number(&self) -> u16 {
        self.number
    }
}

fn socket() -> io::Result<OwnedFd> {
    socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)
}

/// The first port that the kernel assigns to connections; if that cannot be read, the kernel's default.
fn first_of_connections() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    range.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(32_768)
}

/// All numbers of a range, beginning at any of them.
fn rotated(range: &Range<u16>, begin: u64) -> impl Iterator<Item = u16> {
    let begin = (begin % (range.len() as u64).max(1)) as u16;
    let middle = range.start.saturating_add(begin);
    (middle..range.end).chain(range.start..middle.min(range.end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_range_is_gone_through_once_from_anywhere() {
        let all = |range: Range<u16>, begin| rotated(&range, begin).collect::<Vec<u16>>();
        assert_eq!(all(5..9, 0), [5, 6, 7, 8]);
        assert_eq!(all(5..9, 4 * 1000 + 3), [8, 5, 6, 7]);
        assert!(all(9..9, 7).is_empty());
    }

    #[test]
    fn a_held_port_is_not_given_away_and_can_be_listened_on() {
        let held: Vec<HeldPort> = (0..100).map(|_| HeldPort::any().unwrap()).collect();
        let mut numbers: Vec<u16> = held.iter().map(HeldPort::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), held.len(), "no port is given twice");
        let number = held[0].number();
        let address = (Ipv4Addr::LOCALHOST, number);
        assert!(TcpStream::connect(address).is_err(), "nothing listens on it");
        let listener = TcpListener::bind(address).unwrap();
        assert_eq!(HeldPort::named(number).err(), Some(Errno::ADDRINUSE));
        drop(listener);
        assert_eq!(HeldPort::named(number).unwrap().number(), number);
    }
}
