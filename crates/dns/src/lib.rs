//! A small DNS client for the proofs of certificates: it looks up records, finds the zone of a name, changes
//! TXT records by signed updates (RFC 2136, RFC 8945), and waits until the zone's servers return the change.
//!
//! | module | |
//! |---|---|
//! | `name` | domain names in the form of messages |
//! | `message` | queries, updates and answers as bytes (RFC 1035) |
//! | `tsig` | keys, signatures of updates, and their verification (RFC 8945) |
//! | `transport` | one exchange with a server, by UDP or TCP |
//! | `resolver` | lookups by recursive servers, zones, and the servers of a zone |
//! | `update` | adds and removes TXT records |

mod message;
mod name;
mod resolver;
mod transport;
mod tsig;
mod update;

pub use name::Name;
pub use resolver::{Resolver, ServerName, Zone, wait_until_shown};
pub use tsig::TsigKey;
pub use update::{TextRecord, Updater};

/// Parsers of outside bytes, for fuzzing.
#[doc(hidden)]
pub mod fuzzing {
    use super::message::Message;
    use super::tsig::TsigKey;

    /// Parses a message.
    pub fn parse_message(bytes: &[u8]) -> bool {
        Message::parse(bytes).is_some()
    }

    /// Verifies an answer as if it followed a signed request.
    pub fn verify_answer(bytes: &[u8]) -> bool {
        let key = TsigKey::parse("hmac-sha256:key.test:c2VjcmV0").expect("a key");
        Message::parse(bytes).is_some_and(|message| key.verify(bytes, &message, &[1; 32], 1_000_000).is_ok())
    }

    /// Reads the text of a key file.
    pub fn parse_key(text: &str) -> bool {
        TsigKey::parse(text).is_ok()
    }
}
