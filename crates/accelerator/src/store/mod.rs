//! What is stored: responses in memory within a budget of bytes, and each core's own view of them.
//!
//! ```text
//! request -> Front (one a core: a map without locks, buffers ready for this second)
//!         -> Store (all cores: shards with a lock each, S3-FIFO within the budget)
//!         -> Tier  (slower and larger, if there is one)
//! ```
//!
//! | module | |
//! |---|---|
//! | `object` | one stored response: one piece of memory, never changed |
//! | `shard` | a part of the store: its table, its queues, what was evicted lately |
//! | `memory` | all shards, the budget, purging |
//! | `front` | one core's own view |
//! | `tier` | what a slower storage behind it must do |
//! | `tags` | the tags of a response, by which it can be purged |

mod front;
mod memory;
mod object;
mod shard;
mod tags;
mod tier;

pub use front::{Front, PlainRequest};
pub(crate) use memory::lock;
pub use memory::{Counters, Purge, PurgeMode, Store, hash_of};
pub use object::{NewObject, Object, State};
pub use tags::tags;
pub use tier::{Tier, TierCounters, TierFaults};
