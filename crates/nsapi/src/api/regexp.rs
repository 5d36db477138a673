//! `shexp_*` and `regexp_*`: 0 if a text matches, 1 if not, -1 if the pattern is invalid.

use std::ffi::{c_char, c_int};

use crate::memory::bytes;
use crate::pattern::Pattern;

const PLAIN: c_int = -1;
const INVALID: c_int = -2;
const VALID: c_int = 1;

fn answer(matches: bool) -> c_int {
    c_int::from(!matches)
}

pub unsafe extern "C" fn shexp_valid(expression: *const c_char) -> c_int {
    match Pattern::new(bytes(expression)) {
        Err(_) => INVALID,
        Ok(pattern) if pattern.has_wildcards() => VALID,
        Ok(_) => PLAIN,
    }
}

pub unsafe extern "C" fn shexp_match(str: *const c_char, expression: *const c_char) -> c_int {
    Pattern::new(bytes(expression)).map_or(-1, |pattern| answer(pattern.matches(bytes(str))))
}

/// Checks the pattern first, as `shexp_match` does here too.
pub unsafe extern "C" fn shexp_cmp(str: *const c_char, expression: *const c_char) -> c_int {
    shexp_match(str, expression)
}

pub unsafe extern "C" fn shexp_casecmp(str: *const c_char, expression: *const c_char) -> c_int {
    Pattern::new(bytes(expression)).map_or(-1, |pattern| answer(pattern.matches_any_case(bytes(str))))
}

unsafe fn regular(expression: *const c_char, any_case: bool) -> Option<regex::bytes::Regex> {
    let text = std::str::from_utf8(bytes(expression)).ok()?;
    regex::bytes::RegexBuilder::new(text).unicode(false).case_insensitive(any_case).build().ok()
}

pub unsafe extern "C" fn regexp_valid(expression: *const c_char) -> c_int {
    let is_plain = !bytes(expression).iter().any(|byte| b".*+?[](){}|^$\\".contains(byte));
    match regular(expression, false) {
        None => INVALID,
        Some(_) if is_plain => PLAIN,
        Some(_) => VALID,
    }
}

pub unsafe extern "C" fn regexp_match(str: *const c_char, expression: *const c_char) -> c_int {
    regular(expression, false).map_or(-1, |regex| answer(regex.is_match(bytes(str))))
}

pub unsafe extern "C" fn regexp_cmp(str: *const c_char, expression: *const c_char) -> c_int {
    regexp_match(str, expression)
}

pub unsafe extern "C" fn regexp_casecmp(str: *const c_char, expression: *const c_char) -> c_int {
    regular(expression, true).map_or(-1, |regex| answer(regex.is_match(bytes(str))))
}
