//! The public keys of token issuers, and the files and addresses from which they are read.
//!
//! | module | |
//! |---|---|
//! | `key_set` | keys, from a JSON Web Key Set (RFC 7517) |
//! | `key_source` | the file or address of a key set, kept current by a thread |

mod key_set;
mod key_source;

pub use key_set::KeySet;
pub use key_source::{KeySource, Keys, Location};
