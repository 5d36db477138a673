//! Limits for the nesting and the values of conditions.

/// The maximum nesting of parentheses, functions and strings in one condition.
pub(super) const MOST_NESTING: usize = 40;

/// The maximum length of a value: joining and replacing could otherwise fill memory.
pub(super) const MOST_VALUE_BYTES: usize = 1024 * 1024;
