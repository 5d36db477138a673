//! The TLS settings of a listening address and its sites, as plain data. They are made from the
//! configuration.

use std::path::PathBuf;

/// TLS on one listening address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointSettings {
    /// The sites that listen there. The first is the default: it is chosen when a client names none of them.
    pub sites: Vec<SiteSettings>,
    /// The answer to clients that name no site of this address.
    pub unknown_names: UnknownNames,
}

/// TLS of one site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteSettings {
    /// The name of the site in messages.
    pub label: String,
    /// Its host names, in lower case: `example.org`, or `*.example.org` for every name below it. If there are
    /// none, the names in its certificates are used.
    pub hosts: Vec<String>,
    /// Whether each of its names gets a certificate at its first handshake. It then needs no other.
    pub on_demand: bool,
    /// Its certificates; several for one name differ in their kind of key.
    pub certificates: Vec<CertificateSource>,
    /// Its rules.
    pub policy: Policy,
    /// Whether it can be reached over QUIC too.
    pub http3: bool,
}

/// The source of a certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateSource {
    /// PEM files, checked for changes about once a second.
    Files {
        /// The certificate, followed by the certificates up to its authority.
        chain: PathBuf,
        /// Its private key; may be the same file.
        key: PathBuf,
        /// True for files that another part of the server writes (ACME): they may be absent for now. Until
        /// they exist, handshakes for the site are refused.
        may_be_absent: bool,
    },
    /// A certificate for development that no browser trusts by default. See
    /// [`development_certificate`](super::development_certificate).
    SelfSigned {
        /// Names and addresses besides `localhost`, `127.0.0.1` and `::1`.
        names: Vec<String>,
        /// Its directory for restarts; `None`: it is kept only as long as the process runs.
        directory: Option<PathBuf>,
    },
}

/// The rules of a site. Sites with equal rules share sessions; a session is never used under other rules.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Policy {
    /// The oldest accepted version.
    pub minimum_version: MinimumVersion,
    /// The newest accepted version.
    pub maximum_version: MaximumVersion,
    /// Whether clients must send certificates, and which.
    pub client_authorities: Option<ClientAuthorities>,
    /// Application protocols (ALPN, RFC 7301), the most preferred first: `h2`, `http/1.1`. A client that
    /// offers only others is refused; one that offers none is accepted.
    pub protocols: Vec<String>,
    /// How sessions are resumed.
    pub resumption: Resumption,
}

/// The oldest accepted version of TLS. Versions before 1.2 must not be used (RFC 8996).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum MinimumVersion {
    /// 1.2 and 1.3.
    #[default]
    Tls12,
    /// 1.3 only.
    Tls13,
}

/// The newest accepted version of TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum MaximumVersion {
    /// 1.2: for devices between clients and server that cannot pass 1.3.
    Tls12,
    /// 1.3.
    #[default]
    Tls13,
}

/// Certificates of clients (mTLS).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClientAuthorities {
    /// A PEM file with the authorities whose clients are trusted.
    pub authorities: PathBuf,
    /// PEM files with revocation lists. If there is one, each authority in the chain of a client's
    /// certificate needs one.
    pub revocation_lists: Vec<PathBuf>,
    /// Whether a client may connect without a certificate.
    pub mode: ClientCertificateMode,
}

/// Whether a client may connect without a certificate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ClientCertificateMode {
    /// It may; but a certificate that it sends must be valid.
    Optional,
    /// It may not: the handshake fails.
    #[default]
    Required,
}

/// How sessions are resumed, which saves client and server most of the handshake.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Resumption {
    /// Sessions are stored in tickets, encrypted with keys that change every six hours and never leave the
    /// process.
    pub tickets: bool,
    /// Tickets for each TLS 1.3 handshake, at most [`Resumption::MOST_TICKETS`]. One is enough for a client
    /// that keeps its connections; each costs some 3 % of a resumed handshake. 0: TLS 1.3 clients cannot
    /// resume.
    pub tickets_per_handshake: usize,
    /// Sessions stored in memory, for TLS 1.2 clients that do not accept tickets, and for all clients if
    /// tickets are off. Each takes about 1 KiB. 0: none.
    pub stored_sessions: usize,
}

impl Resumption {
    /// The largest useful [`Resumption::tickets_per_handshake`].
    pub const MOST_TICKETS: usize = 4;
}

impl Default for Resumption {
    fn default() -> Resumption {
        Resumption { tickets: true, tickets_per_handshake: 1, stored_sessions: 4096 }
    }
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            minimum_version: MinimumVersion::Tls12,
            maximum_version: MaximumVersion::Tls13,
            client_authorities: None,
            protocols: vec!["http/1.1".to_string()],
            resumption: Resumption::default(),
        }
    }
}

/// The answer to a client that names no site, or none of this address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnknownNames {
    /// It gets the default site's certificate.
    #[default]
    DefaultCertificate,
    /// Its handshake is refused.
    Refuse,
}
