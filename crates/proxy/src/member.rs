//! One origin as a member of a route's group: its settings in the group, and counts of the group's requests.
//! The state of the origin itself is in [`SharedOrigin`].

use std::sync::Arc;

use super::connections::ConnectionPermit;
use super::counts::OriginCounts;
use super::failure::Failure;
use super::origin::{Opened, SharedOrigin};
use super::origin_url::OriginSpec;
use super::settings::ProxySettings;
use touchstone_upstream::hash;

/// One origin of a group.
#[derive(Debug)]
pub struct Member {
    /// Its address, and its role in the group.
    pub spec: OriginSpec,
    /// Its name in logs and metrics: its URL.
    pub name: String,
    /// A hash of the name.
    pub name_hash: u64,
    /// The counts of the group's requests to it.
    pub counts: OriginCounts,
    /// The origin, which other groups may share.
    pub origin: Arc<SharedOrigin>,
}

impl Member {
    /// A member without requests so far.
    pub fn new(spec: OriginSpec, origin: Arc<SharedOrigin>) -> Member {
        let name = spec.url.to_string();
        Member { name_hash: hash(name.as_bytes()), name, counts: OriginCounts::default(), origin, spec }
    }
    /// Opens a connection, see [`SharedOrigin::open`], and counts it.
    pub async fn open(
        &self,
        settings: &ProxySettings,
        permit: ConnectionPermit,
        begins_with: &[u8],
        only_http1: bool,
    ) -> Result<Opened, Failure> {
        self.origin.open(settings, permit, begins_with, only_http1, &self.counts.opened).await
    }
}
