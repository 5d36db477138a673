//! The grammar of Apache 2.4 (`ap_expr`): its parser, which makes a `tree`.
//!
//! `a || b && !c`, comparisons of words (`==`, `-eq`, `=~`, `-in`, `-strmatch` and their like), functions,
//! variables `%{NAME}`, strings with variables in them. The operators that look at files are refused, as
//! Apache refuses them in pages.

mod parser;
mod text;

use super::error::EvaluationError;
use super::scope::Scope;
use super::tree::Node;

/// A condition.
#[derive(Debug)]
pub struct Condition(pub(super) Node);

impl Condition {
    /// Reads a condition.
    pub fn parse(text: &[u8]) -> Result<Condition, String> {
        parser::parse(text).map(Condition)
    }

    /// Whether it holds.
    pub fn holds(&self, scope: &mut impl Scope) -> Result<bool, EvaluationError> {
        self.0.holds(scope)
    }
}
