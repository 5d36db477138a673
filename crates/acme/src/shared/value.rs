//! A value of the shared store.

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionedValue {
    /// Its content.
    pub bytes: Vec<u8>,
    /// What changes with it.
    pub revision: u64,
}
