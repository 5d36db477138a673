//! The grammar of Apache 2.4 (`ap_expr`): its parser, which builds a `tree`.
//!
//! It has `a || b && !c`, comparisons of words (`==`, `-eq`, `=~`, `-in`, `-strmatch` and others), functions,
//! variables `%{NAME}`, and strings with variables. Operators that read files are refused, as Apache does in
//! pages.

mod parser;
mod text;

use super::error::EvaluationError;
use super::scope::Scope;
use super::tree::Node;

/// A condition.
#[derive(Debug)]
pub struct Condition(pub(super) Node);

impl Condition {
    /// Parses a condition.
    pub fn parse(text: &[u8]) -> Result<Condition, String> {
        parser::parse(text).map(Condition)
    }

    /// Evaluates the condition.
    pub fn holds(&self, scope: &mut impl Scope) -> Result<bool, EvaluationError> {
        self.0.holds(scope)
    }
}
