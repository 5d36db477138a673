//! An attribute of a directive, as the parser finds it and before its meaning is known.

/// An attribute as it was written, without its quotes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Attribute {
    /// In lower case.
    pub(super) name: Vec<u8>,
    /// `None`: there is no equals sign.
    pub(super) value: Option<Vec<u8>>,
}
