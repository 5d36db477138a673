//! An extraction: a value of an answer that becomes a variable.

use crate::answer::AnswerView;
use crate::plan::{ExtractPlan, ScriptError};
use crate::query::Query;
use crate::values::Values;

/// The maximum length of a value in bytes.
pub(crate) const MAXIMUM_VALUE_BYTES: usize = 1024 * 1024;

/// A compiled extraction.
#[derive(Debug)]
pub(crate) struct Extraction {
    pub(crate) variable: usize,
    pub(crate) query: Query,
}

impl Extraction {
    pub(crate) fn compile(plan: &ExtractPlan, variable: usize) -> Result<Extraction, ScriptError> {
        let query = Query::compile(&plan.from)
            .map_err(|reason| ScriptError(format!("extract {}: {reason}", plan.name)))?;
        Ok(Extraction { variable, query })
    }

    /// Sets its variable; false if the answer has no such value.
    pub(crate) fn take(&self, answer: &AnswerView<'_>, values: &mut Values) -> bool {
        let value = values.fresh(self.variable);
        self.query.find(answer, value) && value.len() <= MAXIMUM_VALUE_BYTES
    }
}
