//! Where the requests of a class go: to the system's plain port or to its TLS port, in which version of HTTP.
//! Each client has its own connection to each of them.

use super::RunParameters;
use crate::result::TlsRecord;
use touchstone_load::{HttpVersion, Target, TlsVersions};

/// Where requests go, and how they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// Whether the connections are made with TLS.
    pub is_secure: bool,
    /// The version of HTTP.
    pub version: HttpVersion,
}

/// The TLS settings of the clients of a suite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TlsOffer {
    /// The versions; of several the server chooses.
    pub versions: TlsVersions,
    /// The share of the handshakes that resume an earlier session, 0 to 1.
    pub resumption_share: f64,
}

impl TlsOffer {
    /// As the result file records it.
    pub(super) fn record(&self) -> TlsRecord {
        let version = match self.versions {
            TlsVersions::Both => None,
            TlsVersions::Tls12 => Some("1.2".to_string()),
            TlsVersions::Tls13 => Some("1.3".to_string()),
        };
        TlsRecord { version, resumption_share: self.resumption_share }
    }
}

/// The endpoints of a workload, each once, in the order of the classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoints(Vec<Endpoint>);

impl Endpoints {
    pub(super) fn of(endpoints: impl Iterator<Item = Endpoint>) -> Endpoints {
        let mut all = Vec::new();
        for endpoint in endpoints {
            if !all.contains(&endpoint) {
                all.push(endpoint);
            }
        }
        Endpoints(all)
    }

    /// The place of one of them.
    pub(super) fn place(&self, endpoint: Endpoint) -> usize {
        self.0.iter().position(|known| *known == endpoint).unwrap_or(0)
    }

    /// Whether any is reached with TLS.
    pub fn any_secure(&self) -> bool {
        self.0.iter().any(|endpoint| endpoint.is_secure)
    }

    /// Whether all are reached with TLS.
    pub fn all_secure(&self) -> bool {
        self.0.iter().all(|endpoint| endpoint.is_secure)
    }

    /// The first endpoint and the others, in the types of the load engine.
    pub(super) fn targets(
        &self,
        run_parameters: &RunParameters<'_>,
        offer: TlsOffer,
    ) -> (Target, Vec<Target>) {
        let mut targets = self.0.iter().map(|endpoint| endpoint.target(run_parameters, offer));
        let first = targets.next().unwrap_or_else(|| run_parameters.target.clone());
        (first, targets.collect())
    }
}

impl Endpoint {
    /// The target of its requests.
    pub fn target(&self, run_parameters: &RunParameters<'_>, offer: TlsOffer) -> Target {
        let mut target = match (&run_parameters.tls_target, self.is_secure) {
            (Some(target), true) => target.clone(),
            _ => run_parameters.target.clone(),
        };
        target.version = Some(self.version);
        if let Some(tls) = &mut target.tls {
            tls.versions = offer.versions;
            tls.resumption_share = offer.resumption_share;
        }
        target
    }
}
