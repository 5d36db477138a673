//! The part of JavaScript that scripts of load tools use: from text to a tree, without running it.
//!
//! [`tokens`] cuts the text, [`parser`] makes statements of it ([`syntax`]). A statement that is not
//! supported is kept with its place, and the following ones are read.

mod expressions;
mod parser;
pub(crate) mod syntax;
mod tokens;

pub(crate) use parser::parse;
