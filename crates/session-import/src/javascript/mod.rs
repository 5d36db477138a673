//! As much of JavaScript as scripts of load tools use: from text to a tree, without running anything.
//!
//! [`tokens`] cuts the text, [`parser`] makes statements of it ([`syntax`]). A statement that is not
//! understood is kept with its place, and what follows it is read all the same.

mod expressions;
mod parser;
pub(crate) mod syntax;
mod tokens;

pub(crate) use parser::parse;
