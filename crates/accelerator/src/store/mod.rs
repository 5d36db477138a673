//! What is stored: responses in memory within a budget of bytes, and each core's own view of them.
//!
//! ```text
//! request -> StoredAnswers (one a core: a map without locks, buffers ready for this second)
//!         -> Store (all cores: shards with a lock each, S3-FIFO within the budget)
//!         -> Tier  (slower and larger, if there is one)
//! ```
//!
//! | module | |
//! |---|---|
//! | `object` | one stored response: one piece of memory, never changed |
//! | `shared` | the hash of a key, and locks |
//! | `purge` | what is purged, and which responses that means |
//! | `query_epochs` | how often targets were purged, for answers to QUERY |
//! | `shard` | a part of the store: its table, its queues, what was evicted lately |
//! | `memory` | all shards, the budget, purging |
//! | `equivalents` | which response answers another query too, by `No-Vary-Search` |
//! | `stored_answers` | one core's own view |
//! | `tier` | what a slower storage behind it must do |
//! | `tags` | the tags of a response, by which it can be purged |

mod equivalents;
mod memory;
mod object;
mod purge;
mod query_epochs;
mod shard;
mod shared;
mod stored_answers;
mod tags;
mod tier;

pub use equivalents::is_equivalent;
pub use memory::{Counters, Fetching, Store};
pub use object::{NewObject, Object, State};
pub use purge::{Purge, PurgeMode};
pub(crate) use shared::lock;
pub use shared::{hash_of, hash_without_secret};
pub use stored_answers::{PlainRequest, StoredAnswers};
pub use tags::tags;
pub use tier::{Tier, TierCounters, TierFaults};
