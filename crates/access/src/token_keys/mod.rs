//! The public keys of issuers of tokens, and the files and addresses that they are read from.
//!
//! | module | |
//! |---|---|
//! | `key_set` | keys, from a JSON Web Key Set (RFC 7517) |
//! | `key_source` | the file or address of a key set, followed by a thread of its own |

mod key_set;
mod key_source;

pub use key_set::KeySet;
pub use key_source::{KeySource, Keys, Location};
