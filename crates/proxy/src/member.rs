//! One origin as a member of a route's group: its settings in the group, and counts of the group's requests.
//! [`SharedOrigin`] has the state that groups share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use super::connections::ConnectionPermit;
use super::counts::OriginCounts;
use super::failure::Failure;
use super::origin::{NewConnection, SharedOrigin};
use super::origin_url::{OriginSpec, Role};
use super::settings::ProxySettings;
use touchstone_upstream::hash;

/// The state that an operator sets for an origin at run time; it overrides the configured role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OriginState {
    /// It gets requests.
    Ready,
    /// It gets the requests of its sessions only.
    Drain,
    /// It gets no requests.
    Maintenance,
}

impl OriginState {
    /// All states.
    pub const ALL: [OriginState; 3] = [OriginState::Ready, OriginState::Drain, OriginState::Maintenance];

    /// Its name.
    pub fn word(self) -> &'static str {
        ["ready", "drain", "maintenance"][self as usize]
    }

    /// The state of this name.
    pub fn parse(word: &str) -> Option<OriginState> {
        OriginState::ALL.into_iter().find(|state| state.word() == word)
    }
}

/// The values that an operator sets for an origin of a group; `None`: as configured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OriginOrder {
    /// Whether it gets requests, and which.
    pub state: Option<OriginState>,
    /// Its share of the requests.
    pub weight: Option<u32>,
}

/// An [`OriginOrder`] that all cores share; 0: as configured.
#[derive(Debug, Default)]
struct SharedOrder {
    /// The position of the state in [`OriginState::ALL`], from 1.
    state: AtomicU8,
    weight: AtomicU32,
}

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
    order: SharedOrder,
}

impl Member {
    /// A member without requests so far.
    pub fn new(spec: OriginSpec, origin: Arc<SharedOrigin>) -> Member {
        let name = spec.url.to_string();
        Member {
            name_hash: hash(name.as_bytes()),
            name,
            counts: OriginCounts::default(),
            origin,
            spec,
            order: SharedOrder::default(),
        }
    }

    /// Sets the operator's order.
    pub fn set_order(&self, order: OriginOrder) {
        let before = self.ordered_state();
        self.order.state.store(order.state.map_or(0, |state| state as u8 + 1), Relaxed);
        self.order.weight.store(order.weight.unwrap_or(0), Relaxed);
        if order.state == Some(OriginState::Maintenance) && before != order.state {
            self.origin.connections.clear();
        }
    }

    fn ordered_state(&self) -> Option<OriginState> {
        let position = usize::from(self.order.state.load(Relaxed)).checked_sub(1)?;
        OriginState::ALL.get(position).copied()
    }

    /// Whether it gets requests, and which.
    pub fn state(&self) -> OriginState {
        let configured = match self.spec.role {
            Role::Draining => OriginState::Drain,
            Role::Active | Role::Backup => OriginState::Ready,
        };
        self.ordered_state().unwrap_or(configured)
    }

    /// When it gets requests that belong to none of its sessions.
    pub fn role(&self) -> Role {
        match (self.ordered_state(), self.spec.role) {
            (None, role) => role,
            (Some(OriginState::Ready), Role::Backup) => Role::Backup,
            (Some(OriginState::Ready), _) => Role::Active,
            (Some(OriginState::Drain | OriginState::Maintenance), _) => Role::Draining,
        }
    }

    /// Its share of the requests.
    pub fn weight(&self) -> u32 {
        match self.order.weight.load(Relaxed) {
            0 => self.spec.weight,
            weight => weight,
        }
    }

    /// Opens a connection, see [`SharedOrigin::open`], and counts it.
    pub async fn open(
        &self,
        settings: &ProxySettings,
        permit: ConnectionPermit,
        proxy_header: &[u8],
        only_http1: bool,
    ) -> Result<NewConnection, Failure> {
        self.origin.open(settings, permit, proxy_header, only_http1, &self.counts.opened).await
    }
}
