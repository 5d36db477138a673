//! What a text or condition may use at its place: variables until a time, maps, and matches of a pattern.

use std::sync::Arc;

use crate::lookup::Lookup;
use crate::variable::AvailableFrom;

/// Finds maps by name.
pub trait FindsMaps: std::fmt::Debug {
    /// The map of this name, for a text that is evaluated at this stage; the error describes why there is
    /// none.
    fn find(&self, name: &str, known: AvailableFrom) -> Result<Arc<dyn Lookup>, String>;
}

/// The variables that are valid for a text or condition.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'s> {
    /// Variables that are available at this stage.
    pub known: AvailableFrom,
    /// The maps; `None`: they are not read yet, so any name is accepted, and has no value.
    pub maps: Option<&'s dyn FindsMaps>,
    /// The names of the matches of the pattern beside it; `None` in it: one without a name.
    pub captures: &'s [Option<String>],
}

impl<'s> Scope<'s> {
    /// The same scope with these maps.
    pub fn with_maps(self, maps: &'s dyn FindsMaps) -> Scope<'s> {
        Scope { maps: Some(maps), ..self }
    }

    /// Adds the matches of a pattern, one for each name.
    pub fn with_captures(self, captures: &'s [Option<String>]) -> Scope<'s> {
        Scope { captures, ..self }
    }
}

impl From<AvailableFrom> for Scope<'_> {
    fn from(known: AvailableFrom) -> Self {
        Scope { known, maps: None, captures: &[] }
    }
}
