//! What a slower and larger storage behind the memory must do.

use std::sync::Arc;

use super::memory::{Purge, PurgeMode};
use super::object::Object;

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
}
