//! Certified results: a result directory that another person can check and trust.
//!
//! [`seal()`] lists every file with its hash ([`manifest`]), states what was found in the form of in-toto,
//! and signs the statement with Ed25519 in minisign's form. [`verify()`] goes the way back: the signature,
//! the hashes, then every figure computed again from the raw data ([`recompute`]), the report's audit once
//! more, and the run rules ([`rules`]), which decide whether a result is certified, indicative or invalid. A
//! changed byte anywhere is found by one of them.

pub mod key;
pub mod manifest;
pub mod recompute;
pub mod rules;
mod seal;
mod standing;
mod statement;
mod verify;

pub use rules::{Class, Outcome, Rule, deciding};
pub use seal::{SealError, Sealed, Signature, check_seal, seal};
pub use standing::Standing;
pub use verify::{AUDIT, Check, REPORT, Signer, Verification, shown, verify};
