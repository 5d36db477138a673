//! A parser for the subset of JavaScript that scripts of load tools use.
//!
//! [`tokens`] splits the text into tokens, [`parser`] makes statements of them ([`syntax`]). A statement that
//! is not supported is stored with its position, and the following ones are parsed.

mod expressions;
mod parser;
pub(crate) mod syntax;
mod tokens;

pub(crate) use parser::parse;
