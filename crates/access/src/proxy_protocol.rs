//! The PROXY protocol, versions 1 and 2 (<https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>): a
//! header in which a load balancer sends the client's address to the server, before the client's first byte.
//!
//! The header is accepted only from addresses that the configuration trusts, and it is required there: the
//! server never guesses whether a connection begins with it. Parsing is strict, because a header that two
//! programs read differently would give one client another's address. The input is bytes; the output is an
//! address and the length of the header.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use touchstone_http::request_view::LOST_CLIENT;

/// The maximum length of a header: more bytes without an end are refused.
pub const LONGEST_BYTES: usize = V2_FIXED_BYTES + V2_MOST_BYTES;

/// The maximum length of a version 1 header by the specification, with its CRLF.
const V1_MOST_BYTES: usize = 107;
const V1_BEGIN: &[u8] = b"PROXY ";

const V2_SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family and transport, length.
const V2_FIXED_BYTES: usize = 16;
/// The maximum length of addresses and extensions. The format allows 65,535, but the usual senders stay far
/// below this limit, even with the names of a client certificate.
const V2_MOST_BYTES: usize = 4096;
const V2_UNIX_BYTES: usize = 216;
const V2_TYPE_CRC32C: u8 = 0x03;

/// The result of parsing the bytes so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyHeader {
    /// A part of a header: more bytes are needed.
    Partial,
    /// A complete header.
    Complete {
        /// Its length; the client's own bytes follow.
        consumed: usize,
        /// The source of the connection.
        source: ProxySource,
    },
}

/// The source of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxySource {
    /// The proxy itself (a health check), or a client without an internet address: the connection's own
    /// addresses apply.
    Local,
    /// A client, and the address at the proxy to which it connected.
    Client {
        /// The client.
        client: SocketAddr,
        /// The address at which the proxy accepted it.
        server: SocketAddr,
    },
}

/// Why a header is refused. The connection is closed without an answer, because the client is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyProtocolError(pub &'static str);

impl std::fmt::Display for ProxyProtocolError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.0)
    }
}

impl std::error::Error for ProxyProtocolError {}

/// Parses the header at the beginning of what a connection has sent so far.
///
/// A header is refused as soon as it is certainly invalid; the result does not depend on how the bytes are
/// split.
pub fn parse(bytes: &[u8]) -> Result<ProxyHeader, ProxyProtocolError> {
    match bytes.first() {
        None => Ok(ProxyHeader::Partial),
        Some(b'P') => parse_v1(bytes),
        Some(_) => parse_v2(bytes),
    }
}

fn parse_v1(bytes: &[u8]) -> Result<ProxyHeader, ProxyProtocolError> {
    let begin = bytes.len().min(V1_BEGIN.len());
    if bytes[..begin] != V1_BEGIN[..begin] {
        return Err(ProxyProtocolError("a connection that should begin with a PROXY header does not"));
    }
    let window = &bytes[..bytes.len().min(V1_MOST_BYTES)];
    let Some(end) = memchr::memchr2(b'\r', b'\n', window) else {
        return match window.len() {
            V1_MOST_BYTES => Err(ProxyProtocolError("a PROXY header of version 1 is longer than 107 bytes")),
            _ => Ok(ProxyHeader::Partial),
        };
    };
    match (window[end], window.get(end + 1)) {
        (b'\r', Some(b'\n')) => {}
        (b'\r', None) if end + 1 < V1_MOST_BYTES => return Ok(ProxyHeader::Partial),
        _ => return Err(ProxyProtocolError("a PROXY header of version 1 does not end with CRLF")),
    }
    let source = parse_v1_words(&window[V1_BEGIN.len()..end]).ok_or(ProxyProtocolError(
        "a PROXY header of version 1 is not TCP4 or TCP6 with two addresses and two ports, or UNKNOWN",
    ))?;
    Ok(ProxyHeader::Complete { consumed: end + 2, source })
}

/// Parses `TCP4 SP source SP destination SP port SP port`; the rest of a line with UNKNOWN is ignored, as the
/// specification requires.
fn parse_v1_words(line: &[u8]) -> Option<ProxySource> {
    let line = std::str::from_utf8(line).ok()?;
    if line == "UNKNOWN" || line.starts_with("UNKNOWN ") {
        return Some(ProxySource::Local);
    }
    let mut words = line.split(' ');
    let family = words.next()?;
    let mut address = || {
        let word = words.next()?;
        match family {
            "TCP4" => word.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
            "TCP6" => word.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
            _ => None,
        }
    };
    let (client, server) = (address()?, address()?);
    let (client_port, server_port) = (parse_port(words.next()?)?, parse_port(words.next()?)?);
    words.next().is_none().then(|| client_source((client, client_port), (server, server_port)))
}

/// A port without a sign or leading zeros.
fn parse_port(word: &str) -> Option<u16> {
    let is_canonical = word == "0" || !word.starts_with(['0', '+']);
    word.parse().ok().filter(|_| is_canonical)
}

fn parse_v2(bytes: &[u8]) -> Result<ProxyHeader, ProxyProtocolError> {
    let begin = bytes.len().min(V2_SIGNATURE.len());
    if bytes[..begin] != V2_SIGNATURE[..begin] {
        return Err(ProxyProtocolError("a connection that should begin with a PROXY header does not"));
    }
    let command = match bytes.get(12) {
        None => return Ok(ProxyHeader::Partial),
        Some(0x20) => Command::Local,
        Some(0x21) => Command::Proxy,
        Some(_) => return Err(ProxyProtocolError("a PROXY header has an unknown version or command")),
    };
    let family = match (command, bytes.get(13)) {
        (_, None) => return Ok(ProxyHeader::Partial),
        // The specification requires that the addresses of a LOCAL header are ignored.
        (Command::Local, Some(_)) => Family::None,
        (Command::Proxy, Some(0x00)) => Family::None,
        (Command::Proxy, Some(0x11)) => Family::Ipv4,
        (Command::Proxy, Some(0x21)) => Family::Ipv6,
        (Command::Proxy, Some(0x31)) => Family::Unix,
        (Command::Proxy, Some(_)) => {
            return Err(ProxyProtocolError(
                "a PROXY header has an address family or transport other than TCP",
            ));
        }
    };
    let Some(&[high, low]) = bytes.get(14..16) else { return Ok(ProxyHeader::Partial) };
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > V2_MOST_BYTES {
        return Err(ProxyProtocolError("a PROXY header is longer than 4096 bytes"));
    }
    if length < family.address_bytes() {
        return Err(ProxyProtocolError("a PROXY header is too short for its addresses"));
    }
    let Some(header) = bytes.get(..V2_FIXED_BYTES + length) else { return Ok(ProxyHeader::Partial) };
    let (addresses, extensions) = header[V2_FIXED_BYTES..].split_at(family.address_bytes());
    if family != Family::None {
        check_extensions(header, extensions)?;
    }
    Ok(ProxyHeader::Complete { consumed: header.len(), source: family.source(addresses) })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    Local,
    Proxy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// There are no addresses, or they are to be ignored.
    None,
    Ipv4,
    Ipv6,
    Unix,
}

impl Family {
    fn address_bytes(self) -> usize {
        match self {
            Family::None => 0,
            Family::Ipv4 => 12,
            Family::Ipv6 => 36,
            Family::Unix => V2_UNIX_BYTES,
        }
    }

    /// Source address, destination address, source port, destination port.
    fn source(self, addresses: &[u8]) -> ProxySource {
        let port = |at: usize| addresses.get(at..at + 2).map(|port| u16::from_be_bytes([port[0], port[1]]));
        let address = |at: usize| -> Option<IpAddr> {
            let rest = addresses.get(at..)?;
            match self {
                Family::Ipv4 => rest.first_chunk::<4>().map(|bytes| IpAddr::from(*bytes)),
                Family::Ipv6 => rest.first_chunk::<16>().map(|bytes| IpAddr::from(*bytes)),
                Family::None | Family::Unix => None,
            }
        };
        let step = if self == Family::Ipv4 { 4 } else { 16 };
        match (address(0), address(step), port(2 * step), port(2 * step + 2)) {
            (Some(client), Some(server), Some(client_port), Some(server_port)) => {
                client_source((client, client_port), (server, server_port))
            }
            _ => ProxySource::Local,
        }
    }
}

fn client_source(client: (IpAddr, u16), server: (IpAddr, u16)) -> ProxySource {
    // `::` denotes the clients of unix sockets, which a proxy must not name.
    let client = if client.0.is_unspecified() { (LOST_CLIENT, client.1) } else { client };
    ProxySource::Client { client: client.into(), server: server.into() }
}

/// Parses extensions: type, length in two bytes, value, repeated to the end. Their content is not used, but a
/// checksum must be correct.
fn check_extensions(header: &[u8], extensions: &[u8]) -> Result<(), ProxyProtocolError> {
    let mut rest = extensions;
    while !rest.is_empty() {
        let whole = rest.split_first_chunk::<3>().and_then(|([kind, high, low], behind)| {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            behind.split_at_checked(length).map(|(value, behind)| (*kind, value, behind))
        });
        let Some((kind, value, behind)) = whole else {
            return Err(ProxyProtocolError("a PROXY header has an extension that does not fit into it"));
        };
        if kind == V2_TYPE_CRC32C {
            let at = header.len() - behind.len() - value.len();
            if value.len() != 4 || crc32c_with_zeros(header, at..at + 4).to_be_bytes() != value {
                return Err(ProxyProtocolError("a PROXY header has a wrong checksum"));
            }
        }
        rest = behind;
    }
    Ok(())
}

/// CRC32c (RFC 9260 appendix A) of bytes of which some count as zero.
fn crc32c_with_zeros(bytes: &[u8], zeros: std::ops::Range<usize>) -> u32 {
    let mut remainder = u32::MAX;
    for (at, byte) in bytes.iter().enumerate() {
        remainder ^= if zeros.contains(&at) { 0 } else { u32::from(*byte) };
        for _ in 0..8 {
            let carry = remainder & 1;
            remainder = (remainder >> 1) ^ (carry * 0x82F6_3B78);
        }
    }
    !remainder
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn client(text: &str, server: &str) -> ProxySource {
        ProxySource::Client { client: text.parse().unwrap(), server: server.parse().unwrap() }
    }

    fn source(bytes: &[u8]) -> Result<ProxySource, &'static str> {
        match parse(bytes).map_err(|error| error.0)? {
            ProxyHeader::Complete { consumed, source } if consumed == bytes.len() => Ok(source),
            other => panic!("{other:?}"),
        }
    }

    fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [&V2_SIGNATURE[..], &[command, family], &length, rest].concat()
    }

    const IPV4: [u8; 12] = [192, 0, 2, 1, 198, 51, 100, 2, 0x30, 0x39, 1, 0xBB];

    #[test]
    fn version_1() {
        for (line, expected) in [
            (
                "PROXY TCP4 192.0.2.1 198.51.100.2 12345 443\r\n",
                client("192.0.2.1:12345", "198.51.100.2:443"),
            ),
            ("PROXY TCP4 255.255.255.255 0.0.0.0 65535 0\r\n", client("255.255.255.255:65535", "0.0.0.0:0")),
            ("PROXY TCP6 2001:db8::1 ::1 1 2\r\n", client("[2001:db8::1]:1", "[::1]:2")),
            ("PROXY UNKNOWN\r\n", ProxySource::Local),
            ("PROXY UNKNOWN ffff::1 anything at all\r\n", ProxySource::Local),
        ] {
            assert_eq!(source(line.as_bytes()), Ok(expected), "{line}");
        }
        let longest = format!("PROXY UNKNOWN {}\r\n", "x".repeat(V1_MOST_BYTES - 16));
        assert_eq!(longest.len(), V1_MOST_BYTES);
        assert_eq!(source(longest.as_bytes()), Ok(ProxySource::Local));
    }

    #[test]
    fn version_1_refused() {
        let words =
            "a PROXY header of version 1 is not TCP4 or TCP6 with two addresses and two ports, or UNKNOWN";
        for line in [
            "PROXY \r\n",
            "PROXY TCP4\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.2 12345\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.2 12345 443 \r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.2 12345 443 5\r\n",
            "PROXY TCP4  192.0.2.1 198.51.100.2 12345 443\r\n",
            "PROXY  TCP4 192.0.2.1 198.51.100.2 12345 443\r\n",
            "PROXY TCP4 192.0.2.1\t198.51.100.2 12345 443\r\n",
            "PROXY TCP4 192.0.2.01 198.51.100.2 12345 443\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.2 012345 443\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.2 +1 443\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.2 65536 443\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.2 -1 443\r\n",
            "PROXY TCP4 ::1 ::1 1 2\r\n",
            "PROXY TCP6 192.0.2.1 ::1 1 2\r\n",
            "PROXY TCP6 [::1] ::1 1 2\r\n",
            "PROXY UDP4 192.0.2.1 198.51.100.2 1 2\r\n",
            "PROXY tcp4 192.0.2.1 198.51.100.2 1 2\r\n",
            "PROXY UNKNOWNS\r\n",
        ] {
            assert_eq!(source(line.as_bytes()), Err(words), "{line:?}");
        }
        let ending = "a PROXY header of version 1 does not end with CRLF";
        assert_eq!(source(b"PROXY UNKNOWN\n"), Err(ending));
        assert_eq!(source(b"PROXY UNKNOWN\rX"), Err(ending));
        let none = "a connection that should begin with a PROXY header does not";
        assert_eq!(source(b"POST / HTTP/1.1"), Err(none));
        assert_eq!(source(b"PROXY\r\n"), Err(none));
        assert_eq!(source(b"GET / HTTP/1.1"), Err(none));
        assert_eq!(source(b"\x16\x03\x01"), Err(none));
        let long = "a PROXY header of version 1 is longer than 107 bytes";
        assert_eq!(source(&[b"PROXY UNKNOWN ", &[b'x'; 93][..]].concat()), Err(long));
        // The CR is the last byte that is allowed.
        let late = [b"PROXY UNKNOWN ", &[b'x'; 92][..], b"\r\n"].concat();
        assert_eq!(late.len(), V1_MOST_BYTES + 1);
        assert_eq!(source(&late), Err(ending));
    }

    #[test]
    fn version_2() {
        let ipv4 = client("192.0.2.1:12345", "198.51.100.2:443");
        assert_eq!(source(&v2(0x21, 0x11, &IPV4)), Ok(ipv4));
        let mut ipv6 = [0; 36];
        ipv6[..2].copy_from_slice(&[0x20, 0x01]);
        ipv6[31] = 1;
        ipv6[32..].copy_from_slice(&[0, 1, 0, 2]);
        assert_eq!(source(&v2(0x21, 0x21, &ipv6)), Ok(client("[2001::]:1", "[::1]:2")));
        assert_eq!(source(&v2(0x21, 0x31, &[0; 216])), Ok(ProxySource::Local));
        assert_eq!(source(&v2(0x21, 0x00, b"anything")), Ok(ProxySource::Local));
        assert_eq!(source(&v2(0x20, 0x00, b"")), Ok(ProxySource::Local));
        assert_eq!(source(&v2(0x20, 0x11, &IPV4)), Ok(ProxySource::Local));
        // Extensions are skipped.
        let extensions = [&IPV4[..], &[0x01, 0, 2, b'h', b'2', 0x04, 0, 0]].concat();
        assert_eq!(source(&v2(0x21, 0x11, &extensions)), Ok(ipv4));
    }

    #[test]
    fn version_2_refused() {
        for (bytes, message) in [
            (v2(0x22, 0x11, &IPV4), "a PROXY header has an unknown version or command"),
            (v2(0x11, 0x11, &IPV4), "a PROXY header has an unknown version or command"),
            (v2(0x21, 0x12, &IPV4), "a PROXY header has an address family or transport other than TCP"),
            (v2(0x21, 0x41, &IPV4), "a PROXY header has an address family or transport other than TCP"),
            (v2(0x21, 0x10, &IPV4), "a PROXY header has an address family or transport other than TCP"),
            (v2(0x21, 0x11, &IPV4[..11]), "a PROXY header is too short for its addresses"),
            (v2(0x21, 0x21, &IPV4), "a PROXY header is too short for its addresses"),
            (v2(0x21, 0x00, &[0; 4097]), "a PROXY header is longer than 4096 bytes"),
            (
                v2(0x21, 0x11, &[&IPV4[..], &[0x01]].concat()),
                "a PROXY header has an extension that does not fit into it",
            ),
            (
                v2(0x21, 0x11, &[&IPV4[..], &[0x01, 0, 2, b'h']].concat()),
                "a PROXY header has an extension that does not fit into it",
            ),
            (v2(0x21, 0x11, &[&IPV4[..], &[0x03, 0, 1, 0]].concat()), "a PROXY header has a wrong checksum"),
        ] {
            assert_eq!(source(&bytes), Err(message), "{bytes:x?}");
        }
    }

    #[test]
    fn checksums() {
        assert_eq!(crc32c_with_zeros(b"123456789", 0..0), 0xE306_9283);
        // RFC 3720 appendix B.4: 32 bytes of zeros.
        assert_eq!(crc32c_with_zeros(&[7; 32], 0..32), 0x8A91_36AA);
        let mut bytes = v2(0x21, 0x11, &[&IPV4[..], &[0x04, 0, 1, 9, 0x03, 0, 4, 0, 0, 0, 0]].concat());
        assert_eq!(source(&bytes), Err("a PROXY header has a wrong checksum"));
        let sum = crc32c_with_zeros(&bytes, 0..0).to_be_bytes();
        let at = bytes.len() - 4;
        bytes[at..].copy_from_slice(&sum);
        assert!(source(&bytes).is_ok());
        bytes[16] ^= 1;
        assert_eq!(source(&bytes), Err("a PROXY header has a wrong checksum"));
    }

    /// Headers that are valid or almost valid.
    fn any_header() -> impl Strategy<Value = Vec<u8>> {
        let words = prop::sample::select(vec![
            "TCP4",
            "TCP6",
            "UNKNOWN",
            "192.0.2.1",
            "::1",
            "0",
            "80",
            "65536",
            "",
            "\r",
            "\n",
            "\u{e9}",
        ]);
        let line = prop::collection::vec(words, 0..7)
            .prop_map(|words| format!("PROXY {}\r\n", words.join(" ")).into_bytes());
        let length = prop_oneof![Just(12u16), Just(36), Just(216), 0u16..300, any::<u16>()];
        let binary = (
            prop::sample::select(vec![0x20u8, 0x21, 0x22, 0x31]),
            prop::sample::select(vec![0x00u8, 0x11, 0x21, 0x31, 0x12]),
            length,
            prop::collection::vec(any::<u8>(), 0..300),
        );
        let binary = binary.prop_map(|(command, family, length, rest)| {
            [&V2_SIGNATURE[..], &[command, family], &length.to_be_bytes(), &rest].concat()
        });
        prop_oneof![4 => line, 4 => binary, 1 => prop::collection::vec(any::<u8>(), 0..200)]
    }

    proptest! {
        /// The result is the same however a header is split, and the bytes after it have no effect.
        #[test]
        fn the_verdict_does_not_depend_on_the_cut(
            header in any_header(), behind in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let bytes = [header, behind].concat();
            let whole = parse(&bytes);
            let mut decided = None;
            for length in 0..=bytes.len() {
                let part = parse(&bytes[..length]);
                match (decided, part) {
                    (None, Ok(ProxyHeader::Partial)) => {}
                    (None, verdict) => decided = Some(verdict),
                    (Some(before), verdict) => prop_assert_eq!(before, verdict),
                }
                if let Ok(ProxyHeader::Complete { consumed, .. }) = part {
                    prop_assert!(consumed <= length && consumed <= LONGEST_BYTES);
                }
            }
            prop_assert_eq!(decided.unwrap_or(Ok(ProxyHeader::Partial)), whole);
        }

        /// The parser never waits for more than the longest header.
        #[test]
        fn waiting_ends(header in any_header(), filler: u8) {
            let mut bytes = header;
            bytes.resize(LONGEST_BYTES.max(bytes.len()), filler);
            prop_assert_ne!(parse(&bytes), Ok(ProxyHeader::Partial));
        }

        #[test]
        fn what_is_written_is_read(client: SocketAddr, server_bits: u128, server_port: u16) {
            let (version_1, version_2, server) = match client {
                SocketAddr::V4(v4) => {
                    let ip = Ipv4Addr::from_bits(server_bits as u32);
                    let (mine, its) = (v4.ip().octets(), ip.octets());
                    let ports = [client.port().to_be_bytes(), server_port.to_be_bytes()].concat();
                    let line = format!("PROXY TCP4 {} {ip} {} {server_port}\r\n", v4.ip(), client.port());
                    (line, v2(0x21, 0x11, &[&mine[..], &its, &ports].concat()), IpAddr::V4(ip))
                }
                SocketAddr::V6(v6) => {
                    let ip = Ipv6Addr::from_bits(server_bits);
                    let (mine, its) = (v6.ip().octets(), ip.octets());
                    let ports = [client.port().to_be_bytes(), server_port.to_be_bytes()].concat();
                    let line = format!("PROXY TCP6 {} {ip} {} {server_port}\r\n", v6.ip(), client.port());
                    (line, v2(0x21, 0x21, &[&mine[..], &its, &ports].concat()), IpAddr::V6(ip))
                }
            };
            let client = SocketAddr::new(client.ip(), client.port());
            let expected = Ok(ProxySource::Client { client, server: SocketAddr::new(server, server_port) });
            prop_assert_eq!(source(version_1.as_bytes()), expected);
            prop_assert_eq!(source(&version_2), expected);
        }
    }
}
