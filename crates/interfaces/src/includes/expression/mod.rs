//! The conditions of `if` and `elif`, in either of Apache's two grammars.
//!
//! - [`modern`] is the grammar of Apache 2.4 (`v("name") =~ /regex/ && ...`),
//! - [`legacy`] that of Apache 2.2 and older (`"$name" = /regex/ && ...`), which takes in what nginx understands.
//!
//! A condition is parsed once, when its page is; [`Scope`] is what it sees of the page and the request when it is
//! evaluated. Regular expressions are those of the `regex` crate, whose time grows with the text and not with what
//! somebody thought up; look-around and references back inside a pattern are refused with a message.

pub mod legacy;
pub mod modern;

mod address;
mod evaluate;
mod functions;
mod lexer;
mod regular_expression;
mod wildcard;

use std::ops::Range;

pub use self::evaluate::EvaluationError;
use self::legacy::LegacyCondition;
use self::modern::Condition;

/// The deepest nesting of parentheses, functions and strings in one condition.
pub(crate) const MOST_NESTING: usize = 40;

/// A condition, ready to be evaluated.
#[derive(Debug)]
pub enum Expression {
    /// In the grammar of Apache 2.4.
    Modern(Condition),
    /// In the grammar of Apache 2.2.
    Legacy(LegacyCondition),
}

impl Expression {
    /// Reads a condition; the error says what is wrong with it.
    pub fn parse(text: &[u8], legacy: bool) -> Result<Expression, String> {
        if legacy {
            LegacyCondition::parse(text).map(Expression::Legacy)
        } else {
            Condition::parse(text).map(Expression::Modern)
        }
    }

    /// Whether it holds.
    pub fn holds(&self, scope: &mut impl Scope) -> Result<bool, EvaluationError> {
        match self {
            Expression::Modern(condition) => condition.holds(scope),
            Expression::Legacy(condition) => condition.holds(scope),
        }
    }
}

/// What a condition sees.
pub trait Scope {
    /// A variable of the page or the request; `None`: undefined.
    fn variable(&mut self, name: &[u8]) -> Option<Vec<u8>>;

    /// A variable of the server's own environment that it shows to pages.
    fn system_variable(&mut self, name: &[u8]) -> Option<Vec<u8>>;

    /// A field of the request's head.
    fn request_field(&mut self, name: &[u8]) -> Option<Vec<u8>>;

    /// The present, in seconds since 1970.
    fn now(&mut self) -> i64;

    /// Whether a request for this path would be let through.
    fn is_accessible(&mut self, path: &[u8]) -> bool;

    /// Whether this is the path of a file that requests can get.
    fn is_file(&mut self, path: &[u8]) -> bool;

    /// What the last regular expression matched.
    fn captures(&mut self) -> &mut Captures;

    /// Keeps a named group of a regular expression as a variable.
    fn set_variable(&mut self, name: &[u8], value: Vec<u8>);
}

/// What the last regular expression matched: `$0` to `$9`.
#[derive(Debug, Default)]
pub struct Captures {
    subject: Vec<u8>,
    groups: Vec<Option<Range<usize>>>,
    /// False before the first regular expression, and after one that did not match.
    matched: bool,
}

impl Captures {
    /// Group `index`; `None` where it took no part in the match, or where nothing matched.
    pub fn group(&self, index: usize) -> Option<&[u8]> {
        let range = self.groups.get(index).filter(|_| self.matched)?.clone()?;
        self.subject.get(range)
    }

    fn set(&mut self, subject: &[u8], groups: Option<Vec<Option<Range<usize>>>>) {
        self.matched = groups.is_some();
        self.groups = groups.unwrap_or_default();
        self.subject.clear();
        if self.matched {
            self.subject.extend_from_slice(subject);
        }
    }
}

#[cfg(test)]
mod tests;
