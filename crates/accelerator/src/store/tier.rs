//! What a slower and larger storage behind the memory must do.

use std::sync::Arc;

use super::object::Object;
use super::purge::Purge;

/// A storage behind the memory. It keeps copies: what is in it may be lost at any time, and what it gives has
/// been checked.
///
/// All of it may be called from any core; nothing of it may wait, but for [`Tier::load`], which is called on
/// a thread that may.
pub trait Tier: Send + Sync {
    /// How many responses are stored under keys with this hash; more or fewer cost a look, or a hit.
    fn held(&self, hash: u64) -> usize;

    /// The responses under a key, checked. Reads, and so waits.
    fn load(&self, hash: u64, key: &[u8]) -> Vec<Object>;

    /// Keeps a copy of a response, in the place of that which the same requests select; some time later, or
    /// not at all.
    fn keep(&self, object: &Arc<Object>);

    /// From now on gives nothing of what it has been given to keep so far that is purged by this; nor after a
    /// restart.
    fn purge(&self, purge: &Purge);

    /// Figures for the operator.
    fn counters(&self) -> TierCounters;
}

/// Figures of a storage behind the memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TierCounters {
    /// Responses in it.
    pub objects: u64,
    /// Bytes that it takes.
    pub bytes: u64,
    /// The most that it may take.
    pub limit_bytes: u64,
    /// Responses that were read from it, since the start.
    pub loads: u64,
    /// Responses that were not what was written, and dropped, since the start.
    pub corrupt: u64,
    /// Responses that were not written because there was too much to write, or no room, since the start.
    pub unwritten: u64,
    /// What went wrong, since the start.
    pub faults: TierFaults,
}

/// How often a storage behind the memory could not be used, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TierFaults {
    /// There was no room.
    pub full: u64,
    /// It must not be written to.
    pub read_only: u64,
    /// It, or a part of it, has been taken away.
    pub missing: u64,
    /// Writing has failed otherwise.
    pub write: u64,
    /// Reading has failed.
    pub read: u64,
}
