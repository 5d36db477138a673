//! UDP sockets, one for each core on each address, and the filter that delivers to each its packets.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;

use libc::sock_filter;
use socket2::Socket;
use touchstone_transport::udp;

/// The kernel's buffers; they are smaller if `net.core.rmem_max` and `net.core.wmem_max` limit them.
const BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// The most cores that connection identifiers can distinguish.
const MOST_CORES: usize = 255;

/// How packets reach their core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketSteering {
    /// Each core has a socket, and connection identifiers encode the core.
    ByConnectionId,
    /// The first core has the only socket.
    FirstCore,
}

/// One socket for each core at `address`, whose port is not 0; or only one for the first core, if packets
/// cannot be distributed.
pub fn bind(address: SocketAddr, cores: usize) -> io::Result<(Vec<UdpSocket>, PacketSteering)> {
    // With SO_REUSEPORT two servers of one user could share a port without noticing. The first socket is
    // bound without it: that fails if another process listens there.
    let only = bind_one(address, false)?;
    if cores == 1 || cores > MOST_CORES {
        return Ok((vec![only.into()], PacketSteering::FirstCore));
    }
    drop(only);
    let first = bind_one(address, true)?;
    // The filter is attached before there is a second socket, so that no packet reaches a wrong socket.
    // Sockets are numbered in the order of their binding.
    if touchstone_transport::sys::attach_reuse_port_filter(first.as_fd(), &core_of_packet(cores)).is_err() {
        return Ok((vec![first.into()], PacketSteering::FirstCore));
    }
    let mut sockets = vec![first.into()];
    for _ in 1..cores {
        sockets.push(bind_one(address, true)?.into());
    }
    Ok((sockets, PacketSteering::ByConnectionId))
}

fn bind_one(address: SocketAddr, is_shared: bool) -> io::Result<Socket> {
    let socket = udp::bind(address, is_shared, BUFFER_BYTES)?;
    let _ = socket.set_send_buffer_size(BUFFER_BYTES);
    Ok(socket)
}

/// Classic BPF on the payload of UDP: the index of the socket that gets the packet (socket(7),
/// SO_ATTACH_REUSEPORT_CBPF).
///
/// In a long header the destination's identifier follows flags, version and length, at byte 6; in a short one
/// the flags, at byte 1 (RFC 9000 section 17). A packet that is too short for either goes to the first core.
fn core_of_packet(cores: usize) -> [sock_filter; 7] {
    const LOAD_BYTE: u16 = 0x30;
    const JUMP_IF_SET: u16 = 0x45;
    const JUMP: u16 = 0x05;
    const REMAINDER: u16 = 0x94;
    const RETURN_IT: u16 = 0x16;
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    [
        step(LOAD_BYTE, 0, 0, 0),
        step(JUMP_IF_SET, 2, 0, 0x80),
        step(LOAD_BYTE, 0, 0, 1),
        step(JUMP, 0, 0, 1),
        step(LOAD_BYTE, 0, 0, 6),
        step(REMAINDER, 0, 0, u32::try_from(cores).unwrap_or(1)),
        step(RETURN_IT, 0, 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn sockets(cores: usize) -> (SocketAddr, Vec<UdpSocket>) {
        let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (sockets, steering) = bind(free, cores).unwrap();
        assert_eq!(steering == PacketSteering::ByConnectionId, cores > 1);
        for socket in &sockets {
            socket.set_nonblocking(false).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        }
        (free, sockets)
    }

    #[test]
    fn packets_go_where_their_identifier_says_from_wherever_they_come() {
        let (address, sockets) = sockets(3);
        for first_byte in 0..30 {
            for packet in [
                // Short and long header.
                vec![0x40, first_byte, 1, 2, 3],
                vec![0xc0, 0, 0, 0, 1, 8, first_byte, 1, 2, 3],
            ] {
                let client = UdpSocket::bind("127.0.0.1:0").unwrap();
                client.send_to(&packet, address).unwrap();
                let mut received = [0; 100];
                let (length, _) = sockets[usize::from(first_byte) % 3].recv_from(&mut received).unwrap();
                assert_eq!(&received[..length], packet);
            }
        }
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        for short in [&b""[..], b"\x40", b"\xc0\x00"] {
            client.send_to(short, address).unwrap();
            assert_eq!(sockets[0].recv_from(&mut [0; 10]).unwrap().0, short.len());
        }
    }

    #[test]
    fn an_address_that_is_in_use_is_not_shared() {
        let (address, _sockets) = sockets(2);
        assert_eq!(bind(address, 2).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
