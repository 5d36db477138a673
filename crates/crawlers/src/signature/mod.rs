//! HTTP Message Signatures (RFC 9421): reads and verifies them. No socket, no clock.
//!
//! ```text
//! Signature-Input, Signature -> signatures -> base of one, from the message -> key verifies
//! ```
//!
//! | module | |
//! |---|---|
//! | `parse` | the two fields: labels, covered components, parameters |
//! | `message` | a request or an answer in the form for signatures |
//! | `component` | the name of a component, and its value in a message |
//! | `base` | the bytes that are signed (section 2.5) |
//! | `key` | public keys as JSON Web Keys, their thumbprints, and the algorithms |

mod base;
mod component;
mod key;
mod message;
mod parse;
mod structured;

pub use key::{Algorithm, KeyProblem, VerificationKey};
pub use message::{Message, Start, Target};
pub use parse::{Signature, read};
pub(crate) use structured::{dictionary, joined};

use std::fmt;

/// The most signatures of a message that are read; more are an error.
pub const MOST_SIGNATURES: usize = 8;

/// The most components that a signature covers.
pub const MOST_COMPONENTS: usize = 64;

/// The maximum length of `Signature-Input`, and of `Signature`, in bytes.
pub const LONGEST_FIELD_BYTES: usize = 16 * 1024;

/// The maximum length of the bytes that are signed.
pub const LONGEST_BASE_BYTES: usize = 64 * 1024;

/// Why a signature cannot be verified, or is wrong. Contains no part of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// The fields cannot be read.
    Malformed(&'static str),
    /// A component does not exist in the message, or cannot be derived from it.
    Component(&'static str),
    /// The algorithm does not fit the key.
    Algorithm,
    /// The bytes of the signature are wrong.
    Wrong,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Problem::Malformed(reason) | Problem::Component(reason) => reason,
            Problem::Algorithm => "the algorithm does not fit the key",
            Problem::Wrong => "the signature is wrong",
        })
    }
}

#[cfg(test)]
mod tests;
