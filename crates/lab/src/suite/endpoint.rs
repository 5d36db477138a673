//! Where the requests of a class go: to the system's plain port or to its TLS port, in which version of HTTP. Each client has a
//! connection of its own to each of them.

use super::Drive;
use touchstone_load::{HttpVersion, Target};

/// Where requests go, and how they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// Whether the connections are made with TLS.
    pub is_secure: bool,
    /// The version of HTTP.
    pub version: HttpVersion,
}

/// The endpoints of a workload, each once, in the order of the classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoints(Vec<Endpoint>);

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
    pub(crate) fn any_secure(&self) -> bool {
        self.0.iter().any(|endpoint| endpoint.is_secure)
    }

    /// Whether all are reached with TLS.
    pub(crate) fn all_secure(&self) -> bool {
        self.0.iter().all(|endpoint| endpoint.is_secure)
    }

    /// The first, and the others, as the load engine knows them.
    pub(super) fn targets(&self, drive: &Drive<'_>, resumption_share: f64) -> (Target, Vec<Target>) {
        let mut targets = self.0.iter().map(|endpoint| endpoint.target(drive, resumption_share));
        let first = targets.next().unwrap_or_else(|| drive.target.clone());
        (first, targets.collect())
    }
}

impl Endpoint {
    pub(crate) fn target(&self, drive: &Drive<'_>, resumption_share: f64) -> Target {
        let mut target = match (&drive.tls_target, self.is_secure) {
            (Some(target), true) => target.clone(),
            _ => drive.target.clone(),
        };
        target.version = Some(self.version);
        if let Some(tls) = &mut target.tls {
            tls.resumption_share = resumption_share;
        }
        target
    }
}
