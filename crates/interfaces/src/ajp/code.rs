//! The numbers of AJP13: kinds of packets, and methods, fields and attributes that have a number.

/// The first bytes of packets to the container.
pub const TO_CONTAINER: [u8; 2] = [0x12, 0x34];

/// The first bytes of packets from the container.
pub const FROM_CONTAINER: [u8; 2] = *b"AB";

/// The length of a packet's header: two bytes for the direction, and the length of the packet.
pub const PACKET_HEADER_BYTES: usize = 4;

/// The length of the header of a packet with a piece of the request's body: the packet's header, and the
/// length of the piece.
pub const DATA_HEADER_BYTES: usize = 6;

/// The smallest size that a container can be configured to accept.
pub const LEAST_PACKET_BYTES: usize = 8192;

/// The largest size that a length of two bytes allows, as containers count it.
pub const MOST_PACKET_BYTES: usize = 65536;

/// Kinds of packets to the container. A piece of the body has none.
pub const FORWARD_REQUEST: u8 = 2;
/// The check whether the container works (CPing), as a whole packet.
pub const CPING: [u8; 5] = [0x12, 0x34, 0, 1, 10];

/// Kinds of packets from the container.
pub const SEND_BODY_CHUNK: u8 = 3;
/// Status and fields of the answer.
pub const SEND_HEADERS: u8 = 4;
/// The end of the answer.
pub const END_RESPONSE: u8 = 5;
/// Requests more of the request's body.
pub const GET_BODY_CHUNK: u8 = 6;
/// The answer to [`CPING`], as a whole packet.
pub const CPONG: [u8; 5] = [b'A', b'B', 0, 1, 9];

/// A missing string, in place of its length.
pub const NO_STRING: u16 = 0xffff;

/// The high byte of a field's number, at the place where a name has the high byte of its length.
pub const CODED_FIELD: u8 = 0xa0;

/// The longest name of a field: the length of a longer one would look like a field's number.
pub const LONGEST_FIELD_NAME: usize = 0x9fff;

/// Attributes of a request.
pub mod attribute {
    /// The user that was authenticated.
    pub const REMOTE_USER: u8 = 3;
    /// The authentication scheme.
    pub const AUTH_TYPE: u8 = 4;
    /// The query.
    pub const QUERY_STRING: u8 = 5;
    /// The container that should answer.
    pub const JVM_ROUTE: u8 = 6;
    /// The client's certificate.
    pub const TLS_CERTIFICATE: u8 = 7;
    /// The cipher suite.
    pub const TLS_CIPHER: u8 = 8;
    /// A name and a value.
    pub const REQUEST_ATTRIBUTE: u8 = 10;
    /// The bits of the cipher's key.
    pub const TLS_KEY_SIZE: u8 = 11;
    /// The secret shared by server and container.
    pub const SECRET: u8 = 12;
    /// The method, if it has no number.
    pub const STORED_METHOD: u8 = 13;
    /// The end of the attributes.
    pub const END: u8 = 0xff;
}

/// Names of attributes for which AJP has no number, but which containers read.
pub mod attribute_name {
    /// The client's port.
    pub const REMOTE_PORT: &str = "AJP_REMOTE_PORT";
    /// The address that the client connected to.
    pub const LOCAL_ADDRESS: &str = "AJP_LOCAL_ADDR";
    /// The version of TLS.
    pub const TLS_PROTOCOL: &str = "AJP_SSL_PROTOCOL";
}

/// In place of a method's number: the method follows as an attribute.
pub const STORED_METHOD: u8 = 0xff;

const METHODS: [&str; 27] = [
    "OPTIONS",
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "TRACE",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "ACL",
    "REPORT",
    "VERSION-CONTROL",
    "CHECKIN",
    "CHECKOUT",
    "UNCHECKOUT",
    "SEARCH",
    "MKWORKSPACE",
    "UPDATE",
    "LABEL",
    "MERGE",
    "BASELINE-CONTROL",
    "MKACTIVITY",
];

const REQUEST_FIELDS: [&str; 14] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "authorization",
    "connection",
    "content-type",
    "content-length",
    "cookie",
    "cookie2",
    "host",
    "pragma",
    "referer",
    "user-agent",
];

const RESPONSE_FIELDS: [&str; 11] = [
    "Content-Type",
    "Content-Language",
    "Content-Length",
    "Date",
    "Last-Modified",
    "Location",
    "Set-Cookie",
    "Set-Cookie2",
    "Servlet-Engine",
    "Status",
    "WWW-Authenticate",
];

/// The number of a method; `None`: it has none. Methods are case-sensitive (RFC 9110 section 9.1).
pub fn method_number(method: &[u8]) -> Option<u8> {
    number(METHODS.iter().position(|known| known.as_bytes() == method)?)
}

/// The number of a request's field.
pub fn request_field_number(name: &[u8]) -> Option<u8> {
    number(REQUEST_FIELDS.iter().position(|known| known.as_bytes().eq_ignore_ascii_case(name))?)
}

/// The name of an answer's field with this number.
pub fn response_field_name(number: u8) -> Option<&'static str> {
    RESPONSE_FIELDS.get(usize::from(number).checked_sub(1)?).copied()
}

/// Numbers begin with 1.
fn number(position: usize) -> Option<u8> {
    u8::try_from(position + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_protocol() {
        for (method, expected) in [
            ("OPTIONS", Some(1)),
            ("GET", Some(2)),
            ("POST", Some(4)),
            ("PROPFIND", Some(8)),
            ("SEARCH", Some(21)),
            ("MKACTIVITY", Some(27)),
            ("get", None),
            ("PATCH", None),
        ] {
            assert_eq!(method_number(method.as_bytes()), expected, "{method}");
        }
        for (name, expected) in [
            ("Accept", Some(1)),
            ("AUTHORIZATION", Some(5)),
            ("content-length", Some(8)),
            ("Cookie", Some(9)),
            ("Host", Some(11)),
            ("User-Agent", Some(14)),
            ("X-A", None),
        ] {
            assert_eq!(request_field_number(name.as_bytes()), expected, "{name}");
        }
        let names = [0, 1, 3, 7, 11, 12, 255].map(response_field_name);
        let expected = [
            None,
            Some("Content-Type"),
            Some("Content-Length"),
            Some("Set-Cookie"),
            Some("WWW-Authenticate"),
        ];
        assert_eq!((&names[..5], &names[5..]), (&expected[..], &[None, None][..]));
    }
}
