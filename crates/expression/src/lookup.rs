//! The query of a text to a map, and the pieces in which texts are returned.

use std::borrow::Cow;

use crate::source::Source;
use crate::variable::Variable;

/// A map, as a text with `$map{name}` uses it.
pub trait Lookup: std::fmt::Debug + Send + Sync {
    /// The value for a request or an answer.
    fn value<'a>(&'a self, source: &'a dyn Source) -> Cow<'a, [u8]>;

    /// The same in pieces.
    fn pieces(&self, source: &dyn Source, take: &mut dyn FnMut(Piece<'_>));

    /// Whether one of its texts uses a variable for which this is so.
    fn uses(&self, is_meant: &dyn Fn(&Variable) -> bool) -> bool;

    /// Whether none of its values has variables.
    fn has_plain_values(&self) -> bool;

    /// A hash of its whole definition.
    fn digest(&self) -> u64;
}

/// A piece of a text with its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'p> {
    /// As it is written in the configuration.
    Written(&'p [u8]),
    /// From a request, an answer or a connection.
    Value(&'p [u8]),
}
