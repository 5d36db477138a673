//! Certified results: a result directory that another person can check and trust.
//!
//! [`seal()`] lists every file with its hash ([`manifest`]), states what was found in the form of in-toto,
//! and signs the statement with Ed25519 in minisign's form. [`verify()`] checks in reverse order: the
//! signature, the hashes, then every figure computed again from the raw data, the report's audit once more,
//! and the [run rules](crate::run_rules), which decide whether a result is certified, indicative or invalid.
//! A changed byte anywhere is found by one of them.

pub mod key;
pub mod manifest;
mod seal;
mod statement;
mod verify;

pub use seal::{SealError, Sealed, Signature, check_seal, seal};
pub use verify::{AUDIT, Check, REPORT, Signer, Verification, shown, verify};
