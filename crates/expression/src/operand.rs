//! A variable where it is used: with its map, where it is one of those.

use std::borrow::Cow;
use std::sync::Arc;

use crate::lookup::Lookup;
use crate::scope::Scope;
use crate::source::Source;
use crate::variable::{Fact, Variable};

/// A variable where it is used.
#[derive(Debug, Clone)]
pub struct Operand {
    /// The variable.
    pub variable: Variable,
    /// The map of `$map{name}`.
    pub map: Option<Arc<dyn Lookup>>,
}

impl Eq for Operand {}

impl PartialEq for Operand {
    fn eq(&self, other: &Operand) -> bool {
        let digest = |operand: &Operand| operand.map.as_ref().map(|map| map.digest());
        self.variable == other.variable && digest(self) == digest(other)
    }
}

impl Operand {
    /// Reads what follows a dollar. Returns the rest too.
    pub(crate) fn read<'t>(text: &'t str, scope: Scope<'_>) -> Result<(Operand, &'t str), String> {
        let (variable, rest) = Variable::read(text, scope.known, scope.captures)?;
        let map = match (variable.fact, scope.maps) {
            (Fact::Map, Some(maps)) => Some(maps.find(&variable.name, scope.known)?),
            _ => None,
        };
        Ok((Operand { variable, map }, rest))
    }

    /// The value; empty if it is not available.
    pub fn value<'a>(&'a self, source: &'a dyn Source) -> Cow<'a, [u8]> {
        match &self.map {
            Some(map) => map.value(source),
            None => source.value(&self.variable).unwrap_or_default(),
        }
    }

    /// Whether this is so for it, or for a variable that its map uses.
    pub(crate) fn uses(&self, is_meant: &dyn Fn(&Variable) -> bool) -> bool {
        is_meant(&self.variable) || self.map.as_ref().is_some_and(|map| map.uses(is_meant))
    }
}
