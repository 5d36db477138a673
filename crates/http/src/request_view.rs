//! A request of any version of HTTP as rules see it, without copies.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::request::RequestHead;

/// Represents the clients of a unix socket, which have no address. No connection of TCP comes from `::`.
pub const UNIX_CLIENT: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// Represents a client whose connection ended before its address was read. No rule admits it.
pub const LOST_CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Whether this stands for a client whose address is not known. It has a mapped form too.
pub fn is_lost(client: IpAddr) -> bool {
    client.to_canonical() == LOST_CLIENT
}

/// How the clients of a unix socket are called in logs, in rules, and by programs, as in nginx.
pub const UNIX_CLIENT_NAME: &str = "unix:";

/// A client's address as text, or the name of the clients of unix sockets.
pub fn client_name(client: IpAddr) -> String {
    match client == UNIX_CLIENT {
        true => UNIX_CLIENT_NAME.to_string(),
        false => client.to_canonical().to_string(),
    }
}

/// The parts of a request that rules use.
#[derive(Clone, Copy)]
pub struct RequestView<'a> {
    /// The client's address, behind trusted proxies, or [`UNIX_CLIENT`]; `None`: it was not read, because no
    /// rule needs it.
    pub client: Option<IpAddr>,
    /// The method.
    pub method: &'a [u8],
    /// The path in its normal form (see [`normalise_path`](crate::target::normalise_path)): decoded, without
    /// dot segments and repeated slashes. So a client cannot avoid a rule by writing the path differently.
    pub path: &'a [u8],
    /// The query as it was sent, without its question mark.
    pub query: Option<&'a [u8]>,
    /// The requested host, with its port if the client has sent one.
    pub host: Option<&'a [u8]>,
    /// The header fields.
    pub fields: &'a dyn RequestFields,
    /// The connection, where rules that need it are applied.
    pub connection: Option<&'a ConnectionView<'a>>,
    /// Finds the location of the client; `None`: the server has no files for that.
    pub locator: Option<&'a dyn AddressLocator>,
}

/// Finds the locations of addresses.
pub trait AddressLocator: Send + Sync {
    /// The country of an address, two letters.
    fn country(&self, address: IpAddr) -> Option<[u8; 2]>;

    /// The number of its autonomous system.
    fn system(&self, address: IpAddr) -> Option<u32>;
}

/// The parts of a connection that rules use.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConnectionView<'a> {
    /// The client uses HTTPS, to this server or to a trusted proxy.
    pub is_secure: bool,
    /// The version, such as `HTTP/1.1`.
    pub protocol: &'a str,
    /// The request's id; empty: it has none.
    pub request_id: &'a str,
    /// The TLS session; `None`: plain HTTP.
    pub tls: Option<TlsView<'a>>,
}

/// The parts of a TLS session that rules use.
#[derive(Debug, Clone, Copy, Default)]
pub struct TlsView<'a> {
    /// Such as `TLSv1.3`.
    pub version: &'a str,
    /// The cipher suite.
    pub cipher: &'a str,
    /// The host of the handshake.
    pub server_name: Option<&'a str>,
    /// The subject of the client's verified certificate.
    pub subject: Option<&'a str>,
}

/// The header fields of a request, in order.
pub trait RequestFields {
    /// The name (in any case) and the value of the field line at this position; `None` after the last.
    fn field(&self, position: usize) -> Option<(&[u8], &[u8])>;
}

impl<'a> RequestView<'a> {
    /// A GET of this path from 192.0.2.1 to example.org without fields, for tests of rules.
    pub fn example(path: &'a str) -> RequestView<'a> {
        const NONE: &[(&str, &str); 0] = &[];
        RequestView {
            client: Some(IpAddr::from([192, 0, 2, 1])),
            method: b"GET",
            path: path.as_bytes(),
            query: None,
            host: Some(b"example.org"),
            fields: NONE,
            connection: None,
            locator: None,
        }
    }

    /// The values of a field, whose name is given in lower case.
    pub fn values(&self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        values(self.fields, name)
    }
}

/// The values of a field, whose name is given in lower case.
pub fn values<'a>(fields: &'a dyn RequestFields, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let all = (0..).map_while(move |position| fields.field(position));
    all.filter(move |(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// The fields of a head.
#[derive(Clone, Copy)]
pub struct HeadFields<'a> {
    /// The head.
    pub head: &'a RequestHead,
    /// The bytes that its spans lie in.
    pub buffer: &'a [u8],
}

impl RequestFields for HeadFields<'_> {
    #[inline]
    fn field(&self, position: usize) -> Option<(&[u8], &[u8])> {
        let line = self.head.fields.get(position)?;
        Some((line.name.of(self.buffer), line.value.of(self.buffer)))
    }
}

impl<N: AsRef<[u8]>, V: AsRef<[u8]>> RequestFields for [(N, V)] {
    fn field(&self, position: usize) -> Option<(&[u8], &[u8])> {
        self.get(position).map(|(name, value)| (name.as_ref(), value.as_ref()))
    }
}

impl<N: AsRef<[u8]>, V: AsRef<[u8]>, const COUNT: usize> RequestFields for [(N, V); COUNT] {
    fn field(&self, position: usize) -> Option<(&[u8], &[u8])> {
        self.as_slice().field(position)
    }
}

impl<N: AsRef<[u8]>, V: AsRef<[u8]>> RequestFields for Vec<(N, V)> {
    fn field(&self, position: usize) -> Option<(&[u8], &[u8])> {
        self.as_slice().field(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Limits, Parsed};

    #[test]
    fn fields_of_a_head_and_of_a_list_are_the_same() {
        let bytes = b"GET / HTTP/1.1\r\nHost: a\r\nX-One: 1\r\nx-one:2 \r\nX-Two: \r\n\r\n";
        let limits = Limits { request_line_bytes: 100, header_bytes: 1000, header_fields: 10 };
        let mut head = RequestHead::new();
        assert_eq!(head.parse(bytes, &limits), Ok(Parsed::Complete(bytes.len())));
        let head_fields = HeadFields { head: &head, buffer: bytes };
        let list = vec![("host", "a"), ("x-one", "1"), ("x-one", "2"), ("x-two", "")];
        let kinds: [&dyn RequestFields; 2] = [&head_fields, &list];
        for fields in kinds {
            assert_eq!(values(fields, b"x-one").collect::<Vec<_>>(), [b"1", b"2"]);
            assert_eq!(values(fields, b"x-two").collect::<Vec<_>>(), [b""]);
            assert_eq!(values(fields, b"x-three").count(), 0);
        }
    }
}
