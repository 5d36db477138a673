//! Purges: responses that an operator removes from the cache, by URL, by a prefix of URLs, by tag, or all.

use serde_json::{Value, json};
use touchstone_http::path::PathRules;

use crate::layer::CachedRoute;
use crate::rules::key::{self, Target};
use crate::store::{PurgeMode, PurgeScope};

/// The responses that an operator selects, by their URLs or tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PurgeSelector {
    /// One URL, such as `http://example.org/a?b`; or a path alone, `/a?b`, of any host.
    Url(String),
    /// All URLs with this prefix; or all paths with it, of any host.
    Prefix(String),
    /// All responses with this tag.
    Tag(String),
    /// Everything.
    All,
}

/// A purge as an operator requests it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgeRequest {
    /// The selected responses.
    pub selector: PurgeSelector,
    /// Whether responses become stale instead of being removed.
    pub is_soft: bool,
}

impl PurgeRequest {
    /// Parses the parameters of a request: exactly one of `url`, `prefix`, `tag` and `all`.
    pub fn parse(parameters: &[(&str, String)]) -> Result<PurgeRequest, String> {
        let mut selector = Vec::new();
        let mut is_soft = false;
        for (name, value) in parameters {
            match *name {
                "url" => selector.push(PurgeSelector::Url(checked_url(value)?)),
                "prefix" => selector.push(PurgeSelector::Prefix(checked_url(value)?)),
                "tag" if value.is_empty() => return Err("a tag has at least one character".to_string()),
                "tag" => selector.push(PurgeSelector::Tag(value.clone())),
                "all" => selector.push(PurgeSelector::All),
                "soft" => is_soft = value != "0" && value != "false",
                other => {
                    return Err(format!("unknown parameter '{other}'; write url, prefix, tag, all or soft"));
                }
            }
        }
        match <[PurgeSelector; 1]>::try_from(selector) {
            Ok([selector]) => Ok(PurgeRequest { selector, is_soft }),
            Err(_) => Err("one of url, prefix, tag and all is required".to_string()),
        }
    }

    /// The purge as JSON, for a request to a running server.
    pub fn to_json(&self) -> Value {
        let mut value = match &self.selector {
            PurgeSelector::Url(url) => json!({ "url": url }),
            PurgeSelector::Prefix(prefix) => json!({ "prefix": prefix }),
            PurgeSelector::Tag(tag) => json!({ "tag": tag }),
            PurgeSelector::All => json!({ "all": "1" }),
        };
        if self.is_soft {
            value["soft"] = "1".into();
        }
        value
    }

    /// Parses a purge from JSON.
    pub fn from_json(value: &Value) -> Result<PurgeRequest, String> {
        let names = ["url", "prefix", "tag", "all", "soft"];
        let parameters = names.iter().filter_map(|name| Some((*name, value[*name].as_str()?.to_string())));
        PurgeRequest::parse(&parameters.collect::<Vec<_>>())
    }

    /// Runs the purge for these routes; returns the number of affected responses.
    pub fn carry_out(&self, routes: &[CachedRoute]) -> usize {
        let mode = if self.is_soft { PurgeMode::Soft } else { PurgeMode::Remove };
        let Some(first) = routes.first() else { return 0 };
        let store = &first.accelerator.store;
        match &self.selector {
            PurgeSelector::Tag(tag) => store.purge(&PurgeScope::Tag(tag.clone().into_bytes()), mode),
            PurgeSelector::All => store.purge(&PurgeScope::All, mode),
            PurgeSelector::Url(text) | PurgeSelector::Prefix(text) => {
                let is_prefix = matches!(self.selector, PurgeSelector::Prefix(_));
                let mut purges: Vec<PurgeScope> = Vec::new();
                for route in routes {
                    for text in written_forms(text, is_prefix) {
                        let purge = purge_of(&text, is_prefix, route);
                        if !purges.contains(&purge) {
                            purges.push(purge);
                        }
                    }
                }
                purges.iter().map(|purge| store.purge(purge, mode)).sum()
            }
        }
    }
}

fn purge_of(text: &str, is_prefix: bool, route: &CachedRoute) -> PurgeScope {
    let (is_secure, host, rest) = split_url(text);
    let (path, query) = match rest.split_once('?') {
        Some((path, query)) => (path, Some(query.as_bytes())),
        None => (rest, None),
    };
    let target =
        Target { space: route.space, is_secure, host: host.as_bytes(), path: path.as_bytes(), query };
    let mut key = Vec::new();
    match (host.is_empty(), is_prefix) {
        (false, true) => PurgeScope::Prefix(key::prefix(&target)),
        (false, false) => {
            key::write_key(&target, &route.policy, &mut key);
            PurgeScope::Key(key)
        }
        (true, is_prefix) => {
            match is_prefix {
                true => key = key::prefix(&target),
                false => key::write_key(&target, &route.policy, &mut key),
            }
            // The part after the space without scheme and host.
            PurgeScope::Path { path: key.split_off(key::SPACE_BYTES + 1), is_prefix }
        }
    }
}

/// The URL in the form of the sites' requests: a site either merges repeated slashes in paths or keeps them.
/// A text that is not a valid path, such as a prefix that ends within an escape, is unchanged.
fn written_forms(text: &str, is_prefix: bool) -> Vec<String> {
    let (_, _, rest) = split_url(text);
    let before = text.strip_suffix(rest).unwrap_or(text);
    let (path, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
    let last = path.rsplit('/').next().unwrap_or_default();
    if is_prefix && matches!(last, "." | "..") {
        // The prefix may end within a segment. Normalising the segment would cover more than is written.
        return vec![text.to_string()];
    }
    let mut forms = Vec::new();
    for rules in [PathRules::USUAL, PathRules { keep_slashes: true, ..PathRules::USUAL }] {
        let written = rules.read(path.as_bytes()).ok().and_then(|read| String::from_utf8(read.encoded).ok());
        if let Some(written) = written {
            let form = format!("{before}{written}{query}");
            if !forms.contains(&form) {
                forms.push(form);
            }
        }
    }
    if forms.is_empty() {
        forms.push(text.to_string());
    }
    forms
}

/// Whether the URL is HTTPS, its host, and its path and query.
fn split_url(text: &str) -> (bool, &str, &str) {
    let (is_secure, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        _ => return (false, "", text),
    };
    match rest.find(['/', '?']) {
        Some(end) => (is_secure, &rest[..end], &rest[end..]),
        None => (is_secure, rest, "/"),
    }
}

fn checked_url(text: &str) -> Result<String, String> {
    let (_, host, rest) = split_url(text);
    let has_host = text.starts_with("http://") || text.starts_with("https://");
    let is_good =
        rest.starts_with('/') && has_host != host.is_empty() && text.bytes().all(|byte| byte > b' ');
    match is_good {
        true => Ok(text.to_string()),
        false => Err(format!(
            "{text:?} is neither a URL, such as \"http://example.org/a\", nor a path, such as \"/a\""
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(name: &'static str, value: &str) -> Result<PurgeRequest, String> {
        PurgeRequest::parse(&[(name, value.to_string())])
    }

    #[test]
    fn paths_are_purged_in_the_form_in_which_they_are_asked_for() {
        for (text, is_prefix, expected) in [
            ("/a", false, &["/a"][..]),
            ("http://h", false, &["http://h/"]),
            ("http://h/%7Ea/./caf\u{e9}?b=//c", false, &["http://h/~a/caf%C3%A9?b=//c"]),
            ("https://h/a//b/../c", false, &["https://h/a/c"]),
            ("/a//b", false, &["/a/b", "/a//b"]),
            ("/a|b\\c", true, &["/a|b%5Cc"]),
            ("/a/..", true, &["/a/.."]),
            ("/a/%C", true, &["/a/%C"]),
        ] {
            assert_eq!(written_forms(text, is_prefix), expected, "{text}");
        }
    }

    #[test]
    fn orders_are_read_strictly_and_survive_the_way() {
        for (name, value) in
            [("url", "http://a/b?c"), ("url", "/b"), ("prefix", "https://a/"), ("tag", "t"), ("all", "1")]
        {
            let order = order(name, value).unwrap();
            assert_eq!(PurgeRequest::from_json(&order.to_json()), Ok(order));
        }
        let soft = PurgeRequest::parse(&[("tag", "t".to_string()), ("soft", "1".to_string())]).unwrap();
        assert!(soft.is_soft && PurgeRequest::from_json(&soft.to_json()) == Ok(soft));
        for (name, value) in [
            ("url", "b"),
            ("url", "http://"),
            ("url", "/a b"),
            ("url", "ftp://a/"),
            ("tag", ""),
            ("other", "1"),
        ] {
            assert!(order(name, value).is_err(), "{name} {value}");
        }
        assert!(PurgeRequest::parse(&[]).is_err());
        let two = [("tag", "t".to_string()), ("url", "/".to_string())];
        assert!(PurgeRequest::parse(&two).is_err());
    }
}
