//! Which versions of HTTP are spoken to an origin.

/// Which versions of HTTP are spoken to an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// HTTP/1.1.
    Http11,
    /// HTTP/2: agreed on by ALPN with TLS, known beforehand without.
    Http2,
    /// HTTP/2 where TLS agrees on it, else HTTP/1.1.
    Negotiated,
}
