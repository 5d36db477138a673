//! TLS 1.2 and 1.3 (RFC 5246, RFC 8446), with rustls and aws-lc-rs, and without I/O.
//!
//! A [`TlsEndpoint`] is the TLS state of one listening address: the certificates of its sites, chosen by the
//! name that the client requests (SNI), and the rules of each site ([`Policy`]). It watches its files, and
//! applies changes while connections continue. Each connection has its own [`TlsSession`], which converts
//! received bytes to plaintext, and plaintext to bytes to send ([`CiphertextBuffer`]).
//!
//! | module | |
//! |---|---|
//! | `settings` | the settings of a site |
//! | `pem`, `certificate` | reading and checking certificates and keys |
//! | `self_signed` | the development certificate |
//! | `server_names` | tables from names and wildcards to values |
//! | [`private_file`] | files that only their owner may read |
//! | `watched` | files that are read again when they change |
//! | `sources`, `notice` | everything that is read, and messages about it |
//! | `certificate_table` | the choice of a certificate |
//! | `endpoint` | from settings to rustls configurations, and the swap |
//! | `active_tls` | those configurations, and the choice among them |
//! | [`any_certificate`] | a client's verifier that accepts any certificate |
//! | `provider` | the cryptography, and the order of the cipher suites |
//! | `on_demand` | certificates that are obtained at the first handshake of a name |
//! | `shared` | the state that all endpoints share: ticket keys, stored sessions, ACME challenges |
//! | `client_authorities` | the authorities that may sign client certificates |
//! | `client_certificate`, `distinguished_name` | the identity of a client |
//! | `client_hello` | the name asked for, read before rustls is given a configuration |
//! | `ciphertext`, `session`, `error` | one connection |
//! | `suite_name` | the names of cipher suites |
//! | `quic` | connections inside QUIC, which has records of its own |
//! | `quic_rules` | the rules of an endpoint for them |

mod active_tls;
pub mod any_certificate;
mod certificate;
mod certificate_table;
mod ciphertext;
mod client_authorities;
mod client_certificate;
mod client_hello;
mod distinguished_name;
mod endpoint;
mod error;
mod notice;
mod on_demand;
mod pem;
pub mod private_file;
mod provider;
mod quic;
mod quic_rules;
mod self_signed;
mod server_names;
mod session;
mod settings;
mod shared;
mod sources;
mod suite_name;
mod watched;

pub use certificate::{Age, LoadedCertificate, key_warning};
pub use ciphertext::CiphertextBuffer;
pub use client_authorities::LoadedAuthorities;
pub use client_hello::{Destination, DestinationPeek, peek_destination};
pub use endpoint::TlsEndpoint;
pub use error::TlsError;
pub use notice::{Notice, NoticeLevel};
pub use on_demand::{CertificateWait, CertificatesOnDemand};
pub use pem::read_certificates;
pub use provider::provider;
pub use quic::{QuicCrypto, QuicFacts, client_certificate};
pub use server_names::{ServerNames, host_name};
pub use session::{RECORD_BYTES, Received, TlsSession};
pub use settings::{
    CertificateSource, ClientAuthorities, ClientCertificateMode, EndpointSettings, MaximumVersion,
    MinimumVersion, Policy, SiteSettings, UnknownNames,
};
pub use shared::TlsShared;

#[cfg(test)]
mod tests;
