//! How a location matches, and the route keys that match the same paths.

use crate::directive::Directive;
use crate::expression;
use crate::output::Section;
use crate::toml_text::toml_string;

/// How a location matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    /// `= /path`
    Exact(String),
    /// `/path`, or with `^~` before expressions.
    Prefix { path: String, is_first: bool },
    /// `~ expression`, or with `~*` in any case.
    Expression { expression: String, any_case: bool },
    /// An expression nested in a location with a prefix.
    Inside { path: String, is_first: bool, expression: String, any_case: bool },
    /// `@name`
    Named,
}

impl Match {
    /// The match of a location.
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

    /// Whether it matches PHP scripts.
    pub fn is_of_scripts(&self) -> bool {
        match self {
            Match::Exact(path) => path.ends_with(".php"),
            Match::Expression { expression, .. } | Match::Inside { expression, .. } => {
                expression.contains("\\.php") || expression.contains("[.]php")
            }
            Match::Prefix { .. } | Match::Named => false,
        }
    }

    /// Whether it matches names that begin with a dot, except `.well-known`.
    pub fn is_of_hidden_names(&self) -> bool {
        matches!(self, Match::Expression { expression, .. } if expression.starts_with("/\\.(?!well-known"))
    }

    /// Whether it may match a directory; nginx searches all locations for that of the index file.
    pub fn may_be_directory(&self) -> bool {
        match self {
            Match::Exact(path) => path.ends_with('/'),
            Match::Prefix { .. } => true,
            Match::Expression { .. } | Match::Inside { .. } | Match::Named => false,
        }
    }

    /// The match of a location nested in this one.
    pub fn inner(&self, location: &Directive) -> Option<Match> {
        let comes_first = matches!(self, Match::Prefix { is_first: true, .. } | Match::Exact(_));
        match (self, Match::of(location)) {
            (_, exact @ Match::Exact(_)) => Some(exact),
            (_, Match::Prefix { path, is_first }) => {
                Some(Match::Prefix { path, is_first: is_first || comes_first })
            }
            (Match::Prefix { path, is_first }, Match::Expression { expression, any_case }) => {
                Some(Match::Inside { path: path.clone(), is_first: *is_first, expression, any_case })
            }
            _ => None,
        }
    }

    /// The order in which nginx tries it: lower values first.
    pub fn rank(&self) -> (u8, usize) {
        match self {
            Match::Exact(_) => (0, 0),
            // A nested location is before the location around it.
            Match::Prefix { path, is_first: true } | Match::Inside { path, is_first: true, .. } => {
                (1, usize::MAX - path.len())
            }
            Match::Expression { .. } => (2, 0),
            Match::Prefix { path, is_first: false } | Match::Inside { path, is_first: false, .. } => {
                (3, usize::MAX - path.len())
            }
            Match::Named => (4, 0),
        }
    }

    /// Writes the keys that match the same paths; the error states why that is impossible.
    pub fn keys(&self, route: &mut Section) -> Result<(), String> {
        let has_wildcards = |path: &str| path.contains('*');
        match self {
            Match::Exact(path) if !path.ends_with('/') && !has_wildcards(path) => {
                route.key("path", toml_string(path))
            }
            Match::Exact(path) if !has_wildcards(path) => {
                route.key("path", toml_string(&format!("={path}")));
            }
            Match::Exact(path) => route.key("pattern", toml_string(&expression::literal(path))),
            Match::Prefix { path, .. } if has_wildcards(path) => {
                route.key("pattern", toml_string(&format!("{}(?s:.*)", expression::literal(path))));
            }
            Match::Prefix { path, .. } if path.ends_with('/') => route.key("path", toml_string(path)),
            Match::Prefix { path, .. } => route.key("path", toml_string(&format!("{path}**"))),
            Match::Expression { expression, any_case } => {
                route.key("pattern", toml_string(&expression::whole_path(expression, *any_case)?));
            }
            Match::Inside { path, is_first, expression, any_case } => {
                Match::Prefix { path: path.clone(), is_first: *is_first }.keys(route)?;
                route.key("pattern", toml_string(&expression::whole_path(expression, *any_case)?));
            }
            Match::Named => {}
        }
        Ok(())
    }
}

/// Whether it matches all paths that no other location matches.
pub fn is_everything(how: &Match) -> bool {
    matches!(how, Match::Prefix { path, .. } if path == "/")
}
