//! An attribute of a directive: what reading a page finds, and what a directive is then understood from.

/// An attribute as it was written, its quotes taken away.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Attribute {
    /// In lower case.
    pub(super) name: Vec<u8>,
    /// `None`: there is no equals sign.
    pub(super) value: Option<Vec<u8>>,
}
