//! The targets of requests: the address, the value of the Host field, and the TLS settings of the
//! connections.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The protocol version of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HttpVersion {
    /// HTTP/1.0; kept connections are requested with `Connection: keep-alive`.
    Http10,
    /// HTTP/1.1.
    Http11,
    /// HTTP/2: negotiated in the TLS handshake (ALPN) or, without TLS, used with prior knowledge.
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

/// The target of requests.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Target {
    /// The address to connect to, resolved before the run so that no name is looked up during the
    /// measurement.
    pub address: SocketAddr,
    /// The value of the Host field.
    pub host: String,
    /// The TLS settings; `None`: without TLS.
    pub tls: Option<TlsTarget>,
    /// The protocol version of requests to the target; `None`: that of the plan.
    pub version: Option<HttpVersion>,
}

impl Target {
    /// A target without TLS.
    pub fn plain(address: SocketAddr, host: &str) -> Target {
        Target { address, host: host.to_string(), tls: None, version: None }
    }
}

/// The TLS settings of the connections to a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TlsTarget {
    /// The name that is sent to the server (SNI) and that its certificate must contain; an address is only
    /// verified, not sent.
    pub server_name: String,
    /// How the server's certificate is verified.
    pub trust: Trust,
    /// The offered versions of TLS.
    pub versions: TlsVersions,
    /// The share of connections that resume an earlier session, 0 to 1. The others make full handshakes.
    pub resumption_share: f64,
    /// The certificate for servers that request one from the client.
    pub client_certificate: Option<ClientCertificate>,
}

/// A certificate of the client.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientCertificate {
    /// The certificate and the intermediate certificates, PEM.
    #[serde(with = "crate::base64_serde::bytes")]
    pub chain: Vec<u8>,
    /// The private key, PEM.
    #[serde(with = "crate::base64_serde::bytes")]
    pub key: Vec<u8>,
}

/// The output does not contain the key.
impl std::fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientCertificate").finish_non_exhaustive()
    }
}

impl TlsTarget {
    /// The default settings: the system's certificate authorities, both versions, and resumption of sessions
    /// if possible.
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
    /// Only these certificates, PEM.
    Authorities(#[serde(with = "crate::base64_serde::bytes")] Vec<u8>),
    /// No verification: any certificate is accepted, so that anyone on the network path can act as the
    /// server.
    Anything,
}

/// The offered versions of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TlsVersions {
    /// TLS 1.2 and 1.3; the server chooses.
    Both,
    /// Only TLS 1.2.
    Tls12,
    /// Only TLS 1.3.
    Tls13,
}
