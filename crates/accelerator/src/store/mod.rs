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
//! | `purge` | what is purged, and which responses that means |
//! | `shard` | a part of the store: its table, its queues, what was evicted lately |
//! | `memory` | all shards, the budget, purging |
//! | `front` | one core's own view |
//! | `tier` | what a slower storage behind it must do |
//! | `tags` | the tags of a response, by which it can be purged |

mod front;
mod memory;
mod object;
mod purge;
mod shard;
mod tags;
mod tier;

pub use front::{Front, PlainRequest};
pub(crate) use memory::lock;
pub use memory::{Counters, Fetching, Store, hash_of, hash_without_secret};
pub use object::{NewObject, Object, State};
pub use purge::{Purge, PurgeMode};
pub use tags::tags;
pub use tier::{Tier, TierCounters, TierFaults};
