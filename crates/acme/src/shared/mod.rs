//! Several machines with the same certificates: what they have in common, in a directory of a network file
//! system or in a NATS key-value bucket.
//!
//! Each order is sent under a lease, which is visible to the other machines. A machine that ends while it
//! holds one does not extend it, and another machine acquires it. No clocks are compared: a lease is over
//! when a machine has not seen it change for the whole of its time.
//!
//! | module | |
//! |---|---|
//! | `store` | small values by key, which change only if no other process has changed them |
//! | `value` | one of them |
//! | `directory` | the store in a directory |
//! | `nats` | the store in a bucket, and the copies of files that it holds |
//! | `lease` | exclusive leases |
//! | `proofs` | proofs for the authority, which every machine shows |

mod directory;
mod lease;
mod nats;
mod proofs;
mod store;
mod value;

pub use lease::{Lease, Leases};
pub use proofs::{SharedProof, SharedProofs, follow_proofs};
pub use store::SharedStore;
