//! The grammar of nginx: a text, or one comparison.
//!
//! ```text
//! condition = text                            it is not empty
//!           | text ("=" | "!=") text          up to the end, with its spaces
//!           | text ("=" | "!=") "/" regex "/"
//! ```
//!
//! The first text is of letters, digits and variables.

use super::error::EvaluationError;
use super::legacy::{Pattern, fill};
use super::scope::Scope;
use crate::template::Template;

/// A condition.
#[derive(Debug)]
pub struct NginxCondition {
    left: Template,
    comparison: Option<Comparison>,
}

#[derive(Debug)]
struct Comparison {
    is_negated: bool,
    right: RightOperand,
}

#[derive(Debug)]
enum RightOperand {
    Text(Template),
    Pattern(Pattern),
}

impl NginxCondition {
    /// Parses a condition.
    pub fn parse(text: &[u8]) -> Result<NginxCondition, String> {
        let is_of_left = |byte: &u8| byte.is_ascii_alphanumeric() || b"${}_\"'".contains(byte);
        let end = text.iter().position(|byte| !is_of_left(byte)).unwrap_or(text.len());
        let left = Template::of_nginx(&text[..end].to_ascii_lowercase());
        let rest = text[end..].trim_ascii_start();
        let (is_negated, rest) = match rest {
            [] => return Ok(NginxCondition { left, comparison: None }),
            [b'=', rest @ ..] => (false, rest),
            [b'!', b'=', rest @ ..] => (true, rest),
            _ => return Err("only = or != may follow the first text".to_owned()),
        };
        let right = match rest.trim_ascii_start() {
            [b'/', pattern @ .., b'/'] => RightOperand::Pattern(Pattern::new(Template::of_nginx(pattern))?),
            [b'/', _, ..] => return Err("a regular expression must end with a slash".to_owned()),
            [b'\\', text @ ..] if text.starts_with(b"/") => RightOperand::Text(Template::of_nginx(text)),
            text => RightOperand::Text(Template::of_nginx(text)),
        };
        Ok(NginxCondition { left, comparison: Some(Comparison { is_negated, right }) })
    }

    /// Evaluates the condition.
    pub fn holds(&self, scope: &mut impl Scope) -> Result<bool, EvaluationError> {
        let left = fill(&self.left, scope);
        let Some(Comparison { is_negated, right }) = &self.comparison else { return Ok(!left.is_empty()) };
        let is_equal = match right {
            RightOperand::Text(text) => left == fill(text, scope),
            RightOperand::Pattern(pattern) => pattern.matches(&left, scope)?,
        };
        Ok(is_equal != *is_negated)
    }
}
