//! How deep conditions may be nested, and how long their values may get.

/// The deepest nesting of parentheses, functions and strings in one condition.
pub(super) const MOST_NESTING: usize = 40;

/// No value gets longer than this: what joins and replaces could otherwise fill memory.
pub(super) const MOST_VALUE_BYTES: usize = 1024 * 1024;
