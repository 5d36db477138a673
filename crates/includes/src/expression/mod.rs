//! The conditions of `if` and `elif` in three grammars.
//!
//! - [`modern`] is the grammar of Apache 2.4 (`v("name") =~ /regex/ && ...`),
//! - [`legacy`] is that of Apache 2.2 and older (`"$name" = /regex/ && ...`), which includes most conditions
//!   of nginx,
//! - [`nginx`] is that of nginx: one comparison.
//!
//! A condition is parsed once, with its page. At evaluation it accesses the page and the request through
//! [`Scope`]. Regular expressions are those of the `regex` crate: a match takes time linear in the length of
//! the text for every pattern. Patterns with look-around or back-references are refused with a message.

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
    /// Parses a condition. The error states what is wrong.
    pub fn parse(text: &[u8], grammar: Grammar) -> Result<Expression, String> {
        match grammar {
            Grammar::Apache24 => Condition::parse(text).map(Expression::Modern),
            Grammar::Legacy => LegacyCondition::parse(text).map(Expression::Legacy),
            Grammar::Nginx => NginxCondition::parse(text).map(Expression::Nginx),
        }
    }

    /// Evaluates the condition.
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
