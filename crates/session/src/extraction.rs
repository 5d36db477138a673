//! An extraction: a value of an answer that becomes a variable.

use crate::answer::AnswerView;
use crate::html_place::HtmlPlace;
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

    /// Sets its variable; false if the answer has no such value. `place` is where the value was in the last
    /// answer.
    pub(crate) fn take(&self, answer: &AnswerView<'_>, values: &mut Values, place: &mut HtmlPlace) -> bool {
        let value = values.fresh(self.variable);
        let is_found = match &self.query {
            Query::Css(query) => query.find_again(answer.body, place, value),
            query => query.find(answer, value),
        };
        is_found && value.len() <= MAXIMUM_VALUE_BYTES
    }
}
