//! The conditions of `if` and `elif`, in one of three grammars.
//!
//! - [`modern`] is the grammar of Apache 2.4 (`v("name") =~ /regex/ && ...`),
//! - [`legacy`] is that of Apache 2.2 and older (`"$name" = /regex/ && ...`), which includes most conditions
//!   that nginx understands,
//! - [`nginx`] is that of nginx: one comparison.
//!
//! A condition is parsed once, together with its page. When it is evaluated, it sees the page and the request
//! through [`Scope`]. Regular expressions are those of the `regex` crate: the time of a match is linear in
//! the length of the text for every pattern. Patterns with look-around or back-references are refused with a
//! message.

pub mod legacy;
pub mod modern;
pub mod nginx;

mod address;
mod error;
mod evaluate;
mod functions;
mod lexer;
mod limits;
mod regular_expression;
mod request_variable;
mod scope;
mod tree;
mod wildcard;

pub use self::error::EvaluationError;
use self::legacy::LegacyCondition;
use self::modern::Condition;
use self::nginx::NginxCondition;
pub use self::scope::{Captures, Scope};
use crate::settings::Grammar;

/// A condition, ready to be evaluated.
#[derive(Debug)]
pub enum Expression {
    /// In the grammar of Apache 2.4.
    Modern(Condition),
    /// In the grammar of Apache 2.2.
    Legacy(LegacyCondition),
    /// In the grammar of nginx.
    Nginx(NginxCondition),
}

impl Expression {
    /// Parses a condition. The error describes the fault.
    pub fn parse(text: &[u8], grammar: Grammar) -> Result<Expression, String> {
        match grammar {
            Grammar::Apache24 => Condition::parse(text).map(Expression::Modern),
            Grammar::Legacy => LegacyCondition::parse(text).map(Expression::Legacy),
            Grammar::Nginx => NginxCondition::parse(text).map(Expression::Nginx),
        }
    }

    /// Whether it holds.
    pub fn holds(&self, scope: &mut impl Scope) -> Result<bool, EvaluationError> {
        match self {
            Expression::Modern(condition) => condition.holds(scope),
            Expression::Legacy(condition) => condition.holds(scope),
            Expression::Nginx(condition) => condition.holds(scope),
        }
    }
}

#[cfg(test)]
mod tests;
