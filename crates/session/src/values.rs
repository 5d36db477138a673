//! The values of one client's variables.

/// A value for each variable of a script, by the variable's number. The memory is reused from session to
/// session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Values {
    values: Vec<Vec<u8>>,
}

impl Values {
    pub(crate) fn new(count: usize) -> Values {
        Values { values: vec![Vec::new(); count] }
    }

    /// The value of a variable; empty before it is set.
    pub fn get(&self, variable: usize) -> &[u8] {
        self.values.get(variable).map_or(&[], Vec::as_slice)
    }

    /// The cleared buffer of a value.
    pub(crate) fn fresh(&mut self, variable: usize) -> &mut Vec<u8> {
        let value = &mut self.values[variable];
        value.clear();
        value
    }

    pub(crate) fn set(&mut self, variable: usize, value: &[u8]) {
        self.fresh(variable).extend_from_slice(value);
    }
}
