//! How a location matches, and the keys of a route that match the same.

use super::{Directive, value};
use crate::output::{Section, quoted};

/// How a location matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    /// `= /path`
    Exact(String),
    /// `/path`, or with `^~` before expressions.
    Prefix { path: String, is_first: bool },
    /// `~ expression`, or with `~*` in any case.
    Expression { expression: String, any_case: bool },
    /// `@name`
    Named,
}

impl Match {
    /// How a location matches.
    pub fn of(location: &Directive) -> Match {
        let (first, second) = (location.argument(0), location.argument(1).to_string());
        match first {
            "=" => Match::Exact(second),
            "^~" => Match::Prefix { path: second, is_first: true },
            "~" | "~*" => Match::Expression { expression: second, any_case: first == "~*" },
            name if name.starts_with('@') => Match::Named,
            path => Match::Prefix { path: path.to_string(), is_first: false },
        }
    }

    /// In which order they are tried: less is earlier.
    pub fn rank(&self) -> (u8, usize) {
        match self {
            Match::Exact(_) => (0, 0),
            Match::Prefix { path, is_first: true } => (1, usize::MAX - path.len()),
            Match::Expression { .. } => (2, 0),
            Match::Prefix { path, is_first: false } => (3, usize::MAX - path.len()),
            Match::Named => (4, 0),
        }
    }

    /// Writes the keys that match the same; the error says why there are none.
    pub fn keys(&self, route: &mut Section) -> Result<(), String> {
        let has_wildcards = |path: &str| path.contains('*');
        match self {
            Match::Exact(path) if !path.ends_with('/') && !has_wildcards(path) => {
                route.key("path", quoted(path))
            }
            Match::Exact(path) => route.key("pattern", quoted(&value::literal(path))),
            Match::Prefix { path, .. } if has_wildcards(path) => {
                route.key("pattern", quoted(&format!("{}(?s:.*)", value::literal(path))));
            }
            Match::Prefix { path, .. } if path.ends_with('/') => route.key("path", quoted(path)),
            Match::Prefix { path, .. } => route.key("path", quoted(&format!("{path}**"))),
            Match::Expression { expression, any_case } => {
                route.key("pattern", quoted(&value::pattern(expression, *any_case)?));
            }
            Match::Named => {}
        }
        Ok(())
    }
}

/// Whether it matches what no other location does.
pub fn is_everything(how: &Match) -> bool {
    matches!(how, Match::Prefix { path, .. } if path == "/")
}
