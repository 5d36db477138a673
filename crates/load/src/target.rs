//! Where requests go: the address, the value of the Host field, and the TLS of the connections.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The protocol version that the requests are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HttpVersion {
    /// HTTP/1.0; kept connections are asked for with `Connection: keep-alive`.
    Http10,
    /// HTTP/1.1.
    Http11,
    /// HTTP/2: agreed upon in the TLS handshake (ALPN), or, without TLS, known beforehand.
    Http2,
    /// HTTP/3 over QUIC.
    Http3,
}

impl HttpVersion {
    /// `HTTP/1.0` and so on.
    pub fn name(self) -> &'static str {
        match self {
            HttpVersion::Http10 => "HTTP/1.0",
            HttpVersion::Http11 => "HTTP/1.1",
            HttpVersion::Http2 => "HTTP/2",
            HttpVersion::Http3 => "HTTP/3",
        }
    }
}

/// Where requests go.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Target {
    /// The address to connect to, resolved before the run so that no name is looked up while measuring.
    pub address: SocketAddr,
    /// The value of the Host field.
    pub host: String,
    /// Set if the connections are made with TLS.
    pub tls: Option<TlsTarget>,
    /// The version that requests to it are written in; `None`: that of the plan.
    pub version: Option<HttpVersion>,
}

impl Target {
    /// A target without TLS.
    pub fn plain(address: SocketAddr, host: &str) -> Target {
        Target { address, host: host.to_string(), tls: None, version: None }
    }
}

/// How connections to a target are protected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TlsTarget {
    /// The name that is sent to the server (SNI) and that its certificate must have; an address is only
    /// checked, not sent.
    pub server_name: String,
    /// How the server's certificate is verified.
    pub trust: Trust,
    /// The versions that are offered.
    pub versions: TlsVersions,
    /// The share of connections that resume an earlier session, 0 to 1. The rest make full handshakes.
    pub resumption_share: f64,
    /// The certificate for servers that ask the client for one.
    pub client_certificate: Option<ClientCertificate>,
}

/// A certificate of the client.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientCertificate {
    /// The certificate and those between it and its authority, PEM.
    #[serde(with = "crate::base64_serde::bytes")]
    pub chain: Vec<u8>,
    /// Its key, PEM.
    #[serde(with = "crate::base64_serde::bytes")]
    pub key: Vec<u8>,
}

/// Without the key.
impl std::fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientCertificate").finish_non_exhaustive()
    }
}

impl TlsTarget {
    /// The system's certificate authorities, both versions, and resumption of sessions whenever there is one.
    pub fn new(server_name: &str) -> TlsTarget {
        TlsTarget {
            server_name: server_name.to_string(),
            trust: Trust::System,
            versions: TlsVersions::Both,
            resumption_share: 1.0,
            client_certificate: None,
        }
    }
}

/// How a server's certificate is verified.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Trust {
    /// The certificate authorities that the system trusts.
    System,
    /// These certificates alone, PEM.
    Authorities(#[serde(with = "crate::base64_serde::bytes")] Vec<u8>),
    /// Not at all: any certificate is accepted, so that anyone on the network path can act as the server.
    Anything,
}

/// The versions of TLS that are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TlsVersions {
    /// TLS 1.2 and 1.3; the server chooses.
    Both,
    /// TLS 1.2 alone.
    Tls12,
    /// TLS 1.3 alone.
    Tls13,
}
