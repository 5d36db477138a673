//! Reads a ClientHello before rustls gets it. The name in it (server_name, RFC 6066 section 3) decides which
//! of several rustls configurations answers, and rustls needs its configuration from the start.
//!
//! This module does not decide whether a hello is valid. A hello that cannot be read is passed to rustls,
//! under the default configuration, which then refuses it with the correct alert.

/// The content type of handshake records.
const HANDSHAKE_RECORD: u8 = 22;

/// The handshake message with which a client begins.
const CLIENT_HELLO: u8 = 1;

const RECORD_HEADER_BYTES: usize = 5;
const MESSAGE_HEADER_BYTES: usize = 4;

/// The longest plaintext record (RFC 8446 section 5.1).
const MOST_RECORD_BYTES: usize = 16 * 1024;

/// The longest hello that is read. Those with post-quantum keys have about 2 KiB.
const MOST_HELLO_BYTES: usize = 64 * 1024;

/// Into how many records a hello may be cut. Each new piece is read from the beginning again, so that many
/// small ones would cost quadratic time.
const MOST_RECORDS: usize = 16;

/// The extension that names the server.
const SERVER_NAME: u16 = 0;

/// The extension that names application protocols (ALPN).
const APPLICATION_PROTOCOLS: u16 = 16;

/// The requests in a hello.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hello {
    /// The server's name in lower case; `None` where the client named none, or an address.
    pub server_name: Option<Box<str>>,
    /// An ACME authority requests only a proof (RFC 8737).
    pub is_acme_challenge: bool,
    /// The client prefers not to use AES: its processor has no instructions for it.
    pub prefers_chacha: bool,
}

/// The result of reading the first bytes for the contents of a hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peek<T> {
    /// The hello is not complete yet.
    More,
    /// It is complete.
    Whole(T),
    /// It is not a ClientHello that can be read.
    Unreadable,
}

/// The data in a hello that determine the destination of its connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Destination {
    /// The server's name in lower case, without a dot at its end; `None`: the client sent no name, or an
    /// invalid one.
    pub server_name: Option<Box<str>>,
    /// The application protocols that the client offers (ALPN), in its order.
    pub protocols: Vec<Box<[u8]>>,
}

/// The result of reading the first bytes for their destination.
pub type DestinationPeek = Peek<Destination>;

/// Reads where a connection should go from its first bytes, which stay as they are for the server that ends
/// its TLS.
///
/// A hello that two programs could read in two ways (an extension that occurs twice) is unreadable.
pub fn peek_destination(received: &[u8]) -> DestinationPeek {
    peek_records(received, read_destination)
}

/// Reads the first bytes that a client sent.
pub fn peek(received: &[u8]) -> Peek<Hello> {
    peek_records(received, read_hello)
}

#[inline]
fn peek_records<T>(received: &[u8], read: impl Fn(&[u8]) -> Option<T>) -> Peek<T> {
    let mut rest = received;
    let mut joined: Vec<u8> = Vec::new();
    for _ in 0..MOST_RECORDS {
        let fragment = match first_record(rest) {
            Record::More => return Peek::More,
            Record::Wrong => return Peek::Unreadable,
            Record::Whole(fragment, following) => {
                rest = following;
                fragment
            }
        };
        // Nearly always the first record has the whole hello, which is then read in place.
        let message = match joined.is_empty() {
            true => fragment,
            false => {
                joined.extend_from_slice(fragment);
                &joined
            }
        };
        match whole_body(message) {
            Body::Whole(body) => return read(body).map_or(Peek::Unreadable, Peek::Whole),
            Body::Wrong => return Peek::Unreadable,
            Body::More if joined.is_empty() => joined.extend_from_slice(fragment),
            Body::More => {}
        }
    }
    Peek::Unreadable
}

/// The same for a message without records around it, as QUIC carries it (RFC 9001 section 4.1.3).
pub fn peek_message(received: &[u8]) -> Peek<Hello> {
    match whole_body(received) {
        Body::Whole(body) => read_hello(body).map_or(Peek::Unreadable, Peek::Whole),
        Body::Wrong => Peek::Unreadable,
        Body::More => Peek::More,
    }
}

enum Record<'a> {
    More,
    Wrong,
    /// Its content, and what follows it.
    Whole(&'a [u8], &'a [u8]),
}

fn first_record(bytes: &[u8]) -> Record<'_> {
    if bytes.first().is_some_and(|first| *first != HANDSHAKE_RECORD) {
        return Record::Wrong;
    }
    let Some((header, rest)) = bytes.split_at_checked(RECORD_HEADER_BYTES) else { return Record::More };
    let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
    if header[1] != 3 || length == 0 || length > MOST_RECORD_BYTES {
        return Record::Wrong;
    }
    match rest.split_at_checked(length) {
        Some((content, following)) => Record::Whole(content, following),
        None => Record::More,
    }
}

enum Body<'a> {
    More,
    Wrong,
    Whole(&'a [u8]),
}

fn whole_body(message: &[u8]) -> Body<'_> {
    if message.first().is_some_and(|first| *first != CLIENT_HELLO) {
        return Body::Wrong;
    }
    let Some((header, rest)) = message.split_at_checked(MESSAGE_HEADER_BYTES) else { return Body::More };
    let length = usize::from(header[1]) << 16 | usize::from(header[2]) << 8 | usize::from(header[3]);
    if length > MOST_HELLO_BYTES {
        return Body::Wrong;
    }
    match rest.get(..length) {
        Some(body) => Body::Whole(body),
        None => Body::More,
    }
}

/// The cipher suites of a hello, and its extensions, of which it may have none (RFC 8446 section 4.1.2; the
/// same in TLS 1.2).
fn suites_and_extensions(body: &[u8]) -> Option<(Bytes<'_>, Bytes<'_>)> {
    let mut body = Bytes(body);
    body.take(2 + 32)?; // legacy_version, random
    body.take_short_vector()?; // legacy_session_id
    let suites = body.take_vector()?;
    body.take_short_vector()?; // legacy_compression_methods
    let extensions: &[u8] = if body.0.is_empty() { &[] } else { body.take_vector()? };
    Some((Bytes(suites), Bytes(extensions)))
}

fn read_hello(body: &[u8]) -> Option<Hello> {
    let (suites, mut extensions) = suites_and_extensions(body)?;
    let mut hello = Hello { prefers_chacha: prefers_chacha(suites)?, ..Hello::default() };
    while !extensions.0.is_empty() {
        let kind = extensions.take_number()?;
        let content = Bytes(extensions.take_vector()?);
        match kind {
            SERVER_NAME => hello.server_name = read_server_name(content)?,
            APPLICATION_PROTOCOLS => hello.is_acme_challenge = is_acme_challenge(content)?,
            _ => {}
        }
    }
    Some(hello)
}

/// The same message, only for its destination.
fn read_destination(body: &[u8]) -> Option<Destination> {
    let (_, mut extensions) = suites_and_extensions(body)?;
    let mut destination = Destination::default();
    let (mut has_name, mut has_protocols) = (false, false);
    while !extensions.0.is_empty() {
        let kind = extensions.take_number()?;
        let mut content = Bytes(extensions.take_vector()?);
        match kind {
            SERVER_NAME => {
                let name = read_server_name(content)?;
                destination.server_name = name.map(|name| match name.strip_suffix('.') {
                    Some(name) => name.into(),
                    None => name,
                });
                if std::mem::replace(&mut has_name, true) {
                    return None;
                }
            }
            APPLICATION_PROTOCOLS => {
                let mut protocols = Bytes(content.take_vector()?);
                while !protocols.0.is_empty() {
                    destination.protocols.push(protocols.take_short_vector()?.into());
                }
                if std::mem::replace(&mut has_protocols, true) {
                    return None;
                }
            }
            _ => {}
        }
    }
    Some(destination)
}

/// Whether the first suite of a list is one with ChaCha20-Poly1305 (RFC 7905, RFC 8446 section B.4).
fn prefers_chacha(mut suites: Bytes) -> Option<bool> {
    while !suites.0.is_empty() {
        let suite = suites.take_number()?;
        // GREASE values, which only test whether servers skip unknown values (RFC 8701).
        let is_grease = suite & 0x0f0f == 0x0a0a && suite >> 8 == suite & 0xff;
        if !is_grease {
            return Some(matches!(suite, 0x1303 | 0xcca8..=0xccaa));
        }
    }
    Some(false)
}

/// The host name; the inner `None` means that the name is not valid, and is treated as absent.
fn read_server_name(mut content: Bytes<'_>) -> Option<Option<Box<str>>> {
    let mut names = Bytes(content.take_vector()?);
    while !names.0.is_empty() {
        let kind = names.take(1)?;
        let name = names.take_vector()?;
        if kind == [0] {
            let name = std::str::from_utf8(name)
                .ok()
                .filter(|name| rustls::pki_types::DnsName::try_from(*name).is_ok());
            return Some(name.map(|name| name.to_ascii_lowercase().into_boxed_str()));
        }
    }
    Some(None)
}

fn is_acme_challenge(mut content: Bytes<'_>) -> Option<bool> {
    let mut protocols = Bytes(content.take_vector()?);
    let first = protocols.take_short_vector()?;
    Some(first == super::shared::Challenges::PROTOCOL && protocols.0.is_empty())
}

/// Bytes that are read from the front.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn take_number(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// A vector with a length of two bytes.
    fn take_vector(&mut self) -> Option<&'a [u8]> {
        let length = self.take_number()?;
        self.take(usize::from(length))
    }

    /// A vector with a length of one byte.
    fn take_short_vector(&mut self) -> Option<&'a [u8]> {
        let length = self.take(1)?[0];
        self.take(usize::from(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::support::hello_bytes;
    use proptest::prelude::*;

    /// The records of `message`, cut into pieces of `piece_bytes`.
    fn records(message: &[u8], piece_bytes: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for piece in message.chunks(piece_bytes) {
            bytes.extend_from_slice(&[22, 3, 1]);
            bytes.extend_from_slice(&u16::try_from(piece.len()).unwrap().to_be_bytes());
            bytes.extend_from_slice(piece);
        }
        bytes
    }

    fn named(name: &str) -> Peek<Hello> {
        Peek::Whole(Hello { server_name: Some(name.into()), ..Hello::default() })
    }

    #[test]
    fn a_real_hello() {
        let bytes = hello_bytes("www.example.org", &[b"h2", b"http/1.1"]);
        assert_eq!(peek(&bytes), named("www.example.org"));
        let mut longer = bytes.clone();
        longer.extend_from_slice(b"what follows does not matter");
        assert_eq!(peek(&longer), named("www.example.org"));
        for length in 0..bytes.len() {
            assert_eq!(peek(&bytes[..length]), Peek::More, "{length} bytes");
        }
    }

    fn to(name: Option<&str>, protocols: &[&[u8]]) -> DestinationPeek {
        DestinationPeek::Whole(Destination {
            server_name: name.map(Box::from),
            protocols: protocols.iter().map(|protocol| Box::from(*protocol)).collect(),
        })
    }

    /// A hello with these extensions.
    fn hello_with(extensions: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend_from_slice(&[7; 32]);
        body.extend_from_slice(&[0, 0, 2, 0x13, 0x01, 1, 0]);
        let mut all = Vec::new();
        for (kind, content) in extensions {
            all.extend_from_slice(&kind.to_be_bytes());
            all.extend_from_slice(&u16::try_from(content.len()).unwrap().to_be_bytes());
            all.extend_from_slice(content);
        }
        body.extend_from_slice(&u16::try_from(all.len()).unwrap().to_be_bytes());
        body.extend_from_slice(&all);
        let mut message = vec![1, 0];
        message.extend_from_slice(&u16::try_from(body.len()).unwrap().to_be_bytes());
        message.extend_from_slice(&body);
        records(&message, 16 * 1024)
    }

    /// The content of the extension that names a server.
    fn name_extension(name: &[u8]) -> Vec<u8> {
        let length = |count: usize| u16::try_from(count).unwrap().to_be_bytes();
        [&length(name.len() + 3)[..], &[0], &length(name.len()), name].concat()
    }

    #[test]
    fn the_destination_of_a_real_hello() {
        let bytes = hello_bytes("Mail.Example.org", &[b"imap", b"h2"]);
        let expected = to(Some("mail.example.org"), &[b"imap", b"h2"]);
        assert_eq!(peek_destination(&bytes), expected);
        for length in 0..bytes.len() {
            assert_eq!(peek_destination(&bytes[..length]), DestinationPeek::More, "{length} bytes");
        }
        let message = &bytes[5..];
        for piece_bytes in [message.len().div_ceil(MOST_RECORDS), 100, message.len()] {
            assert_eq!(peek_destination(&records(message, piece_bytes)), expected);
        }
        assert_eq!(peek_destination(b"SSH-2.0-OpenSSH"), DestinationPeek::Unreadable);
        assert_eq!(peek_destination(&hello_bytes("127.0.0.1", &[])), to(None, &[]));
    }

    #[test]
    fn names_that_a_router_could_read_in_two_ways() {
        let named = |name: &[u8]| peek_destination(&hello_with(&[(SERVER_NAME, &name_extension(name))]));
        assert_eq!(named(b"a.example.org"), to(Some("a.example.org"), &[]));
        assert_eq!(named(b"A.EXAMPLE.org"), to(Some("a.example.org"), &[]));
        assert_eq!(named(b"a.example.org."), to(Some("a.example.org"), &[]));
        for name in [
            &b"a.example.org\0.evil.org"[..],
            b"a\nb",
            b"a b",
            b"",
            b".",
            b"..",
            "\u{e4}.example.org".as_bytes(),
            &[0xff, 0xfe],
            &[b'a'; 5000],
            b"10.0.0.1/a",
        ] {
            assert_eq!(named(name), to(None, &[]), "{name:?}");
        }
        let name = name_extension(b"a.example.org");
        let twice = hello_with(&[(SERVER_NAME, &name), (SERVER_NAME, &name_extension(b"b.example.org"))]);
        assert_eq!(peek_destination(&twice), DestinationPeek::Unreadable);
        let protocols: &[u8] = &[0, 3, 2, b'h', b'2'];
        let twice = hello_with(&[(APPLICATION_PROTOCOLS, protocols), (APPLICATION_PROTOCOLS, protocols)]);
        assert_eq!(peek_destination(&twice), DestinationPeek::Unreadable);
        // Of several names in one extension the first is used, by this server and by others.
        let (first, second) = (name_extension(b"a.org"), name_extension(b"b.org"));
        let both =
            [&(first.len() as u16 - 2 + second.len() as u16 - 2).to_be_bytes(), &first[2..], &second[2..]]
                .concat();
        assert_eq!(peek_destination(&hello_with(&[(SERVER_NAME, &both)])), to(Some("a.org"), &[]));
        // Encrypted Client Hello (0xfe0d): only the outer name is visible.
        let outer = hello_with(&[(0xfe0d, &[1, 2, 3]), (SERVER_NAME, &name)]);
        assert_eq!(peek_destination(&outer), to(Some("a.example.org"), &[]));
        assert_eq!(peek_destination(&hello_with(&[])), to(None, &[]));
    }

    #[test]
    fn an_address_is_no_name() {
        let hello = Hello::default();
        assert_eq!(peek(&hello_bytes("127.0.0.1", &[])), Peek::Whole(hello));
    }

    #[test]
    fn an_acme_authority() {
        let hello = Hello { server_name: Some("a.org".into()), is_acme_challenge: true, ..Hello::default() };
        assert_eq!(peek(&hello_bytes("a.org", &[b"acme-tls/1"])), Peek::Whole(hello));
        assert_eq!(peek(&hello_bytes("a.org", &[b"acme-tls/1", b"h2"])), named("a.org"));
    }

    #[test]
    fn the_first_suite_shows_whether_aes_is_preferred() {
        let prefers = |suites: &[u8]| prefers_chacha(Bytes(suites));
        assert_eq!(prefers(&[0x13, 0x03, 0x13, 0x01]), Some(true));
        assert_eq!(prefers(&[0xcc, 0xa9, 0xc0, 0x2b]), Some(true));
        assert_eq!(prefers(&[0x13, 0x01, 0x13, 0x03]), Some(false));
        // A GREASE value is the first in the list.
        assert_eq!(prefers(&[0x2a, 0x2a, 0x13, 0x03]), Some(true));
        assert_eq!(prefers(&[0x2a, 0x3a, 0x13, 0x03]), Some(false));
        assert_eq!(prefers(&[]), Some(false));
        assert_eq!(prefers(&[0x13]), None);
    }

    #[test]
    fn a_hello_in_pieces() {
        let message = &hello_bytes("www.example.org", &[])[5..];
        for pieces in 1..=MOST_RECORDS {
            let bytes = records(message, message.len().div_ceil(pieces));
            assert_eq!(peek(&bytes), named("www.example.org"), "{pieces} pieces");
            assert_eq!(peek(&bytes[..bytes.len() - 1]), Peek::More);
        }
        assert_eq!(peek(&records(message, 4)), Peek::Unreadable);
    }

    #[test]
    fn what_is_no_hello() {
        for bytes in [
            &b"GET / HTTP/1.1"[..],
            &[23, 3, 3, 0, 1, 0],
            &[22, 2, 0, 0, 1, 1],
            &[22, 3, 1, 0, 0],
            &[22, 3, 1, 0, 1, 2],
        ] {
            assert_eq!(peek(bytes), Peek::Unreadable, "{bytes:?}");
        }
        // A length of 16 MiB.
        assert_eq!(peek(&[22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff]), Peek::Unreadable);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            peek(&bytes);
            peek(&records(&bytes, 50));
            let mut message = vec![1, 0, 0, u8::try_from(bytes.len()).unwrap_or(0)];
            message.extend_from_slice(&bytes);
            peek(&records(&message, 1000));
            let mut hello = vec![0; 34];
            hello.extend_from_slice(&bytes);
            read_hello(&hello);
            read_destination(&hello);
        }

        /// However a hello is split into records, the destination is the same.
        #[test]
        fn the_cut_does_not_matter(piece_bytes in 20_usize..2000, host in "[a-z]{1,20}\\.[a-z]{2,9}") {
            let message = &hello_bytes(&host, &[b"h2"])[5..];
            let bytes = records(message, piece_bytes.max(message.len().div_ceil(MOST_RECORDS)));
            prop_assert_eq!(peek_destination(&bytes), to(Some(host.as_str()), &[b"h2"]));
            prop_assert_eq!(peek_destination(&bytes[..bytes.len() - 1]), DestinationPeek::More);
        }

        /// Both readers return the same result for every hello that both can read.
        #[test]
        fn both_readers_agree(at in 0_usize..400, mask in 1_u8..) {
            let mut bytes = hello_bytes("www.example.org", &[b"http/1.1"]);
            let at = at % bytes.len();
            bytes[at] ^= mask;
            if let (Peek::Whole(hello), DestinationPeek::Whole(destination)) =
                (peek(&bytes), peek_destination(&bytes))
            {
                let name = hello.server_name.map(|name| Box::from(name.trim_end_matches('.')));
                prop_assert_eq!(name, destination.server_name);
            }
        }

        #[test]
        fn damaged_hellos_are_survived(at in 0_usize..400, mask in 1_u8..) {
            let mut bytes = hello_bytes("www.example.org", &[b"http/1.1"]);
            let at = at % bytes.len();
            bytes[at] ^= mask;
            peek(&bytes);
        }
    }
}
