//! The versions of HTTP to an origin.

/// The versions of HTTP to an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// HTTP/1.1.
    Http11,
    /// HTTP/2: negotiated by ALPN with TLS, with prior knowledge without TLS.
    Http2,
    /// HTTP/3, over QUIC.
    Http3,
    /// HTTP/2 if it is negotiated by TLS, otherwise HTTP/1.1.
    Negotiated,
}
