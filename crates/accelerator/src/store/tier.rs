//! The interface of a slower and larger storage behind the memory.

use std::sync::Arc;

use super::object::Object;
use super::purge::PurgeScope;

/// A storage behind the memory. It keeps copies: they may be lost at any time, and the copies that it returns
/// have been checked.
///
/// Any core may call its functions. None of them may block except [`Tier::load`], which is called on a thread
/// that may.
pub trait Tier: Send + Sync {
    /// The number of stored responses with this hash; a wrong number costs a lookup, or a hit.
    fn held(&self, hash: u64) -> usize;

    /// The responses with a key, checked. It reads from the disk, and so blocks.
    fn load(&self, hash: u64, key: &[u8]) -> Vec<Object>;

    /// Stores a copy of a response, in place of the copy that the same requests select. It may be stored
    /// later, or never.
    fn keep(&self, object: &Arc<Object>);

    /// From now on returns no response stored so far to which this purge applies; nor after a restart.
    fn purge(&self, purge: &PurgeScope);

    /// Metrics for the operator.
    fn counters(&self) -> TierCounters;
}

/// Metrics of a storage behind the memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TierCounters {
    /// The number of responses.
    pub objects: u64,
    /// The bytes that it uses.
    pub bytes: u64,
    /// The maximum number of bytes.
    pub limit_bytes: u64,
    /// The number of responses read from it since the start.
    pub loads: u64,
    /// The number of damaged responses that were dropped since the start.
    pub corrupt: u64,
    /// The number of responses that were not written since the start, because too many were waiting or there
    /// was no room.
    pub unwritten: u64,
    /// The failures since the start.
    pub faults: TierFaults,
}

/// The number of failures of a storage behind the memory, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TierFaults {
    /// There was no space left.
    pub full: u64,
    /// The storage was read-only.
    pub read_only: u64,
    /// The storage, or a part of it, was removed.
    pub missing: u64,
    /// Writing failed for another reason.
    pub write: u64,
    /// Reading failed.
    pub read: u64,
}
