//! The header of the PROXY protocol: the first bytes of a connection, which name the client
//! (<https://www.haproxy.org/download/2.8/doc/proxy-protocol.txt>).
//!
//! A connection with this header belongs to one client, and is not reused for others.

use std::net::{IpAddr, SocketAddr};

/// The version of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProxyHeader {
    /// A line of text.
    Version1,
    /// Binary.
    Version2,
}

/// The first bytes of every header of version 2.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// The header of a connection for `client`, which connected to the server at `server`; `None`: a connection
/// of the server itself.
pub fn header(version: ProxyHeader, client: Option<(SocketAddr, SocketAddr)>) -> Vec<u8> {
    let client = client.map(|(client, server)| same_family(client, server));
    match (version, client) {
        (ProxyHeader::Version1, None) => b"PROXY UNKNOWN\r\n".to_vec(),
        (ProxyHeader::Version1, Some((client, server))) => {
            let family = if client.is_ipv4() { "TCP4" } else { "TCP6" };
            let (from, to) = (client.ip(), server.ip());
            format!("PROXY {family} {from} {to} {} {}\r\n", client.port(), server.port()).into_bytes()
        }
        (ProxyHeader::Version2, None) => [&SIGNATURE[..], &[0x20, 0, 0, 0]].concat(),
        (ProxyHeader::Version2, Some((client, server))) => {
            let mut header = SIGNATURE.to_vec();
            let addresses = [octets(client.ip()), octets(server.ip())].concat();
            // The command PROXY; TCP over IPv4 or IPv6; the length of the addresses and ports.
            header.extend_from_slice(&[0x21, if client.is_ipv4() { 0x11 } else { 0x21 }]);
            header.extend_from_slice(&(addresses.len() as u16 + 4).to_be_bytes());
            header.extend_from_slice(&addresses);
            header.extend_from_slice(&client.port().to_be_bytes());
            header.extend_from_slice(&server.port().to_be_bytes());
            header
        }
    }
}

/// Both addresses as IPv4 if both are IPv4; otherwise both as IPv6.
fn same_family(client: SocketAddr, server: SocketAddr) -> (SocketAddr, SocketAddr) {
    let canonical = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    let (client, server) = (canonical(client), canonical(server));
    if client.is_ipv4() == server.is_ipv4() {
        return (client, server);
    }
    let mapped = |address: SocketAddr| match address.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        IpAddr::V6(_) => address,
    };
    (mapped(client), mapped(server))
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(client: &str, server: &str) -> Option<(SocketAddr, SocketAddr)> {
        Some((client.parse().unwrap(), server.parse().unwrap()))
    }

    #[test]
    fn version_1_is_a_line_of_text() {
        for (addresses, line) in [
            (None, "PROXY UNKNOWN\r\n"),
            (addresses("192.0.2.1:5", "198.51.100.2:80"), "PROXY TCP4 192.0.2.1 198.51.100.2 5 80\r\n"),
            (
                addresses("[::ffff:192.0.2.1]:5", "198.51.100.2:80"),
                "PROXY TCP4 192.0.2.1 198.51.100.2 5 80\r\n",
            ),
            (addresses("[2001:db8::1]:5", "[::1]:80"), "PROXY TCP6 2001:db8::1 ::1 5 80\r\n"),
            (addresses("192.0.2.1:5", "[::1]:80"), "PROXY TCP6 ::ffff:192.0.2.1 ::1 5 80\r\n"),
        ] {
            assert_eq!(header(ProxyHeader::Version1, addresses), line.as_bytes());
        }
    }

    #[test]
    fn version_2_is_binary() {
        let header = |client| header(ProxyHeader::Version2, client);
        assert_eq!(header(None), b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0");
        assert_eq!(
            header(addresses("192.0.2.1:258", "198.51.100.2:80")),
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\xc6\x33\x64\x02\x01\x02\0\x50"
        );
        assert_eq!(header(addresses("[2001:db8::1]:5", "[::1]:80")).len(), 16 + 36);
    }
}
