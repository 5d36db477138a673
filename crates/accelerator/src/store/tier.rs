//! What a slower and larger storage behind the memory must do.

use std::sync::Arc;
use std::time::Duration;

use super::memory::{Purge, PurgeMode};
use super::object::Object;

/// Figures for the operator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TierCounters {
    /// Responses that are there.
    pub objects: u64,
    /// What they take on the disk, with what will leave with its segment.
    pub bytes: u64,
    /// The most that they may take.
    pub budget_bytes: u64,
    /// Responses that were written, since the start.
    pub written: u64,
    /// Responses that were read, since the start.
    pub read: u64,
    /// Responses that left with their segment, since the start.
    pub evicted: u64,
    /// Responses that were not kept because the disk was too slow or the index full, or they are too large.
    pub refused: u64,
    /// Records and entries that were not as they were written; they are gone.
    pub corrupt: u64,
    /// Reads and writes that failed.
    pub failures: u64,
}

/// A storage behind the memory. It keeps copies: what is in it may be lost at any time, and what it gives has been checked.
///
/// All of it may be called from any core; nothing of it may wait, but for [`Tier::load`], which is called on a thread that
/// may.
pub trait Tier: Send + Sync {
    /// Whether something may be stored under the key. Wrong answers cost a look, or a hit.
    fn may_hold(&self, hash: u64) -> bool;

    /// The responses under a key, checked. Reads, and so waits.
    fn load(&self, hash: u64, key: &[u8]) -> Vec<Object>;

    /// Keeps a copy of a response, in the place of that which the same requests select; some time later.
    fn keep(&self, object: &Arc<Object>);

    /// Forgets what is stored under a key.
    fn forget(&self, hash: u64, key: &[u8]);

    /// Forgets all that a purge is for, or gives it as stale from now on.
    fn purge(&self, purge: &Purge, mode: PurgeMode);

    /// Waits until everything that was forgotten and purged so far would stay so if the process were killed; `false`: it
    /// took longer. Not for a core.
    fn settle(&self, most: Duration) -> bool;

    /// Writes what waits, as far as that goes in this time, and gives nothing any more. Not for a core.
    fn close(&self, most: Duration);

    /// Figures for the operator.
    fn counters(&self) -> TierCounters;
}
