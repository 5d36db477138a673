//! Extractions: an extraction sets a variable to a value of an answer.

use crate::answer::AnswerView;
use crate::html_position::HtmlPosition;
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

    /// Sets the variable; false if the answer has no such value. `position` is the position of the value in
    /// the last answer.
    pub(crate) fn take(
        &self,
        answer: &AnswerView<'_>,
        values: &mut Values,
        position: &mut HtmlPosition,
    ) -> bool {
        let value = values.fresh(self.variable);
        let is_found = match &self.query {
            Query::Css(query) => query.find_at_position(answer.body, position, value),
            query => query.find(answer, value),
        };
        is_found && value.len() <= MAXIMUM_VALUE_BYTES
    }
}
