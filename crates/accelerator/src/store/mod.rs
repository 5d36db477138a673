//! The store: responses in memory up to a limit of bytes, and each core's own view of them.
//!
//! ```text
//! request -> StoredAnswers (one a core: a map without locks, buffers ready for this second)
//!         -> Store (all cores: shards with a lock each, S3-FIFO within the limit)
//!         -> Tier  (slower and larger, if there is one)
//! ```
//!
//! | module | |
//! |---|---|
//! | `object` | one stored response: one allocation that never changes |
//! | `shared` | the hash of a key, and locks |
//! | `purge` | purges, and the responses to which they apply |
//! | `query_epochs` | the number of purges of targets, for answers to QUERY |
//! | `shard` | a part of the store: its table, its queues, recently evicted keys |
//! | `memory` | all shards, the limit, purging |
//! | `equivalents` | responses that also answer other queries, by `No-Vary-Search` |
//! | `stored_answers` | one core's own view |
//! | `tier` | the interface of a slower storage behind the memory |
//! | `tags` | the tags by which a response can be purged |

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
pub use memory::{Counters, FetchGuard, Store};
pub use object::{NewObject, Object, State};
pub use purge::{PurgeMode, PurgeScope};
pub(crate) use shared::lock;
pub use shared::{hash_of, hash_without_secret};
pub use stored_answers::{PlainRequest, StoredAnswers};
pub use tags::tags;
pub use tier::{Tier, TierCounters, TierFaults};
