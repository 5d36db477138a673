//! The path of a `proxy_pass`: what an origin gets in the place of the beginning of the path.

use super::constants::EMPTY;
use super::language::Language;
use super::matching::Match;
use super::site::Site;
use super::value;
use touchstone_import_base::toml_text::check_target;

/// What a `proxy_pass` puts in the place of the location's beginning.
#[derive(Debug, PartialEq, Eq)]
pub enum PathReplacement {
    /// Nothing: the origin gets the path as it is.
    Nothing,
    /// Whole segments: the base path of the origin follows a prefix that is removed.
    Segments,
    /// The bytes of the beginning, which need not end at a slash: the value of `path` of `proxy`.
    Bytes(String),
    /// It has a path that nginx does not allow in such a location.
    Refused,
}

impl PathReplacement {
    /// What the path of an address replaces in such a location.
    pub fn of(uri: &str, how: &Match) -> PathReplacement {
        match how {
            _ if uri.is_empty() => PathReplacement::Nothing,
            Match::Prefix { path, .. } if path == uri => PathReplacement::Nothing,
            // If the target has a path, even "/", nginx replaces the location's prefix by it.
            Match::Prefix { path, .. }
                if path.ends_with('/') == uri.ends_with('/') && path.ends_with('/') =>
            {
                PathReplacement::Segments
            }
            // The slashes at the beginning of what is left become one.
            Match::Prefix { .. } if uri == "/" => PathReplacement::Segments,
            Match::Prefix { .. } => PathReplacement::Bytes(format!("{}${{1}}", written(uri))),
            Match::Exact(path) if path == uri => PathReplacement::Nothing,
            Match::Exact(_) => PathReplacement::Bytes(written(uri)),
            Match::Expression { .. } | Match::Inside { .. } | Match::Nested { .. } | Match::Named => {
                PathReplacement::Refused
            }
        }
    }
}

/// A path as a text without variables.
pub fn written(uri: &str) -> String {
    uri.replace('$', "$$")
}

/// `proxy_pass http://ADDRESS/PATH` with variables in the path: the origin gets this path, and no other
/// query.
pub fn with_variables<'p>(pass: &'p str, how: &Match, site: &Site<'_>) -> Result<(&'p str, String), String> {
    let pass = pass.strip_suffix(EMPTY).unwrap_or(pass);
    let (scheme, rest) = pass.split_once("://").ok_or("an origin is a URL")?;
    let end = rest.find(['/', '$']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    if host.is_empty() || host.starts_with("unix:") {
        return Err("the address of an origin has no variables".to_string());
    }
    if path.starts_with('$') && !["$request_uri", "$uri"].iter().any(|begin| path.starts_with(begin)) {
        return Err("the address of an origin has no variables".to_string());
    }
    let has_group = (1..=9).any(|digit| path.contains(&format!("${digit}")));
    if has_group && how.expression().is_none() {
        return Err("its location has no groups".to_string());
    }
    let language = Language { groups: how.group_names(), ..site.language() };
    let path = value::template(path, &site.facts(true), &language)?;
    check_target(&path)?;
    Ok((&pass[..scheme.len() + 3 + host.len()], path))
}
