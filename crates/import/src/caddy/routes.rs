//! Builds routes from steps.
//!
//! In Caddy a request passes through many directives, each with its own matcher. Here the first route that
//! matches handles the request alone. So a directive that changes an answer for some requests (`header /x/*
//! ...`) becomes an additional route before each route that answers such requests, with the conditions of
//! both.

use super::answer;
use super::matcher::Matcher;
use super::placeholder::{plain, text};
use super::routing::{Change, ChangeKind, Level, Routing};
use super::steps::{Step, steps};
use crate::directive::Directive;
use crate::output::Section;
use crate::toml_text::{toml_string, toml_strings};

impl<'d> Routing<'_, 'd> {
    /// Builds the routes of a block.
    pub fn routes(&mut self, block: &'d [Directive], level: &Level<'d>, as_written: bool) -> Vec<Section> {
        let mut level = level.clone();
        let mut routes = Vec::new();
        let mut is_answered = false;
        for step in steps(block, self.named, as_written) {
            let inner = match step.matcher.as_ref().map_err(Clone::clone).and_then(|m| level.outer.and(m)) {
                Ok(Some(inner)) => inner,
                Ok(None) => {
                    self.problem(step.directive, "no request of the block around it can match it");
                    continue;
                }
                Err(advice) => {
                    self.problem(step.directive, &with_warning(&step, &advice));
                    continue;
                }
            };
            if let Some(changes) = self.changes(&step, &inner, &mut level) {
                level.changes.extend(changes);
                continue;
            }
            is_answered |= inner == level.outer && !is_rewrite(&step);
            routes.extend(self.terminal(&step, &inner, &level));
        }
        if !is_answered {
            // Caddy answers 200 without a body if no handler does.
            let outer = level.outer.clone();
            let empty = |_: &mut Routing<'_, 'd>, route: &mut Section, _: &[&Change<'d>]| {
                route.note("As in Caddy, the answer is empty if nothing above matches.");
                route.key("respond", "{ status = 200 }");
                Ok(())
            };
            routes.extend(self.with_changes(None, &outer, &level, &empty));
        }
        routes
    }

    /// The changes that a step makes; `None`: the step answers the request.
    fn changes(
        &mut self,
        step: &Step<'d>,
        inner: &Matcher,
        level: &mut Level<'d>,
    ) -> Option<Vec<Change<'d>>> {
        let directive = step.directive;
        let mut found: Vec<ChangeKind> = Vec::new();
        match directive.name.as_str() {
            "root" if *inner == level.outer => {
                level.root = Some(step.argument(0).to_string());
                return Some(vec![Change {
                    matcher: inner.clone(),
                    what: ChangeKind::Root(step.argument(0).to_string()),
                    directive,
                }]);
            }
            "root" => found.push(ChangeKind::Root(step.argument(0).to_string())),
            "header" => match fields(step) {
                Ok(fields) => {
                    found.extend(fields.into_iter().map(|(name, value)| ChangeKind::Field(name, value)))
                }
                Err(advice) => self.problem(directive, &advice),
            },
            "request_header" => match origin_field(step) {
                Ok((name, value)) => found.push(ChangeKind::OriginField(name, value)),
                Err(advice) => self.problem(directive, &advice),
            },
            "basicauth" | "basic_auth" => found.push(ChangeKind::Password),
            "request_body" => match directive.inside().iter().find(|line| line.name == "max_size") {
                Some(size) => match bytes(size.argument(0)) {
                    Some(bytes) => found.push(ChangeKind::BodyBytes(bytes)),
                    None => self.problem(size, "it is not a size"),
                },
                None => self.problem(directive, "see [limits] (docs/configuration.md)"),
            },
            "try_files" => found.push(ChangeKind::TryFiles(step.arguments.to_vec())),
            "uri" if step.argument(0) == "strip_prefix" => {
                found.push(ChangeKind::StripPrefix(step.argument(1).to_string()));
            }
            "respond" | "error" | "abort" if is_gate(step, inner) => {
                found.push(ChangeKind::Clients {
                    allow: inner.not_from.clone(),
                    deny: inner.only_from.clone(),
                });
                let matcher = Matcher { not_from: Vec::new(), only_from: Vec::new(), ..inner.clone() };
                let what = found.remove(0);
                // It also applies to the routes that were written before it.
                return Some(vec![Change { matcher, what, directive }]);
            }
            "encode" if !inner.is_any() => {
                let codings = step.arguments.iter().chain(directive.inside().iter().map(|line| &line.name));
                let known = |coding: &&String| matches!(coding.as_str(), "gzip" | "zstd" | "br");
                let codings: Vec<String> = codings.filter(known).cloned().collect();
                let all = ["zstd", "gzip"].map(String::from).to_vec();
                found.push(ChangeKind::Compression(if codings.is_empty() { all } else { codings }));
            }
            "log_skip" | "skip_log" => found.push(ChangeKind::NoLog),
            "forward_auth" => match forward_auth(step) {
                Ok((url, fields)) => found.push(ChangeKind::ForwardAuth(url, fields)),
                Err(advice) => {
                    self.problem(
                        directive,
                        &format!("what it forbids is allowed until you do this: {advice}"),
                    );
                }
            },
            "encode"
            | "tracing"
            | "metrics"
            | "push"
            | "map"
            | "vars"
            | "fs"
            | "method"
            | "templates"
            | "invoke"
            | "log_append"
            | "log_name"
            | "intercept"
            | "copy_response"
            | "copy_response_headers"
            | "acme_server"
            | "uri" => {
                if directive.name != "encode" {
                    self.problem(directive, advice_for(&directive.name));
                }
            }
            _ => return None,
        }
        let change = |what| Change { matcher: inner.clone(), what, directive };
        Some(found.into_iter().map(change).collect())
    }

    /// The routes of a step that answers requests.
    fn terminal(&mut self, step: &Step<'d>, inner: &Matcher, level: &Level<'d>) -> Vec<Section> {
        let directive = step.directive;
        match directive.name.as_str() {
            "handle" | "route" => {
                let below = Level { outer: inner.clone(), ..level.clone() };
                self.count_translated(directive);
                self.routes(directive.inside(), &below, directive.name == "route")
            }
            "handle_path" => {
                let prefix = step.matcher.as_ref().ok().and_then(|m| m.paths.first().cloned());
                let prefix = prefix.unwrap_or_default().trim_end_matches(['*', '/']).to_string();
                let below = Level { outer: inner.clone(), stripped: prefix, ..level.clone() };
                self.count_translated(directive);
                self.routes(directive.inside(), &below, false)
            }
            _ => {
                let answer = |routing: &mut Routing<'_, 'd>, route: &mut Section, changes: &[&Change<'d>]| {
                    answer::write(step, level, changes, routing, route)
                };
                self.with_changes(Some(directive), inner, level, &answer)
            }
        }
    }

    /// The route of an answer, and before it the routes for requests that also need a change.
    #[allow(clippy::type_complexity, reason = "the type of one closure, named once")]
    fn with_changes(
        &mut self,
        directive: Option<&'d Directive>,
        matcher: &Matcher,
        level: &Level<'d>,
        answer: &dyn Fn(&mut Routing<'_, 'd>, &mut Section, &[&Change<'d>]) -> Result<(), String>,
    ) -> Vec<Section> {
        let always: Vec<&Change<'d>> =
            level.changes.iter().filter(|change| includes(&change.matcher, matcher)).collect();
        let mut groups: Vec<&Matcher> = Vec::new();
        for change in &level.changes {
            let overlaps = matches!(matcher.and(&change.matcher), Ok(Some(_)) | Err(_));
            if overlaps && !includes(&change.matcher, matcher) && !groups.contains(&&change.matcher) {
                groups.push(&change.matcher);
            }
        }
        let mut written = Vec::new();
        for subset in subsets(groups.len()) {
            let chosen: Vec<&Matcher> = subset.iter().map(|&index| groups[index]).collect();
            let mut all = Ok(Some(matcher.clone()));
            for other in &chosen {
                all = all.and_then(|so_far| so_far.map_or(Ok(None), |so_far| so_far.and(other)));
            }
            let both = match all {
                Ok(Some(both)) => both,
                Ok(None) => continue,
                Err(advice) => {
                    let of_these = level.changes.iter().filter(|change| chosen.contains(&&change.matcher));
                    for directive in of_these.map(|change| change.directive).collect::<Vec<_>>() {
                        self.problem(directive, &advice);
                    }
                    continue;
                }
            };
            let mut changes = always.clone();
            changes.extend(level.changes.iter().filter(|change| chosen.contains(&&change.matcher)));
            let mut route = Section::new("[[site.route]]");
            for change in &changes {
                self.count_as_comment(change.directive, &mut route);
            }
            if let Some(directive) = directive {
                self.count_as_comment(directive, &mut route);
            }
            match both.keys(&mut route).and_then(|()| answer(self, &mut route, &changes)) {
                Ok(()) => {
                    self.write_changes(&changes, &mut route);
                    written.push(route);
                }
                Err(advice) => {
                    let told = directive.or(changes.first().map(|change| change.directive));
                    if let Some(directive) = told {
                        self.problem(directive, &advice);
                    }
                }
            }
        }
        written
    }

    fn write_changes(&mut self, changes: &[&Change<'d>], route: &mut Section) {
        for change in changes {
            match &change.what {
                ChangeKind::Field(name, value) => {
                    let name = name.clone();
                    route.entry("headers", &name, toml_string(value));
                }
                ChangeKind::Password => {
                    route.note("Write the users into this file, a line each (docs/access.md).");
                    for user in change.directive.inside() {
                        route.note(format!("  {}:{}", user.name, password_hash(user.argument(0))));
                    }
                    route
                        .key("basic_authentication", "{ file = \"users.htpasswd\", realm = \"restricted\" }");
                }
                ChangeKind::BodyBytes(bytes) => route.key("body_bytes", bytes),
                // A route has one server and one log.
                ChangeKind::ForwardAuth(url, _) if route.has_section("[site.route.forward_auth]") => {
                    route.note(format!("NOT TRANSLATED: {url} is not asked, too: one server decides"));
                }
                ChangeKind::NoLog if route.has_section("[site.route.access_log]") => {}
                ChangeKind::ForwardAuth(url, fields) => {
                    let mut table = Section::new("[site.route.forward_auth]");
                    table.key("url", toml_string(url));
                    if !fields.is_empty() {
                        table.key("fields", toml_strings(fields));
                    }
                    route.push(table);
                }
                ChangeKind::Compression(codings) => route.key("compression", toml_strings(codings)),
                ChangeKind::NoLog => {
                    let mut table = Section::new("[site.route.access_log]");
                    table.key("path", toml_string("off"));
                    route.push(table);
                }
                ChangeKind::Clients { allow, deny } => {
                    if !allow.is_empty() {
                        route.key("allow", toml_strings(allow));
                    }
                    if !deny.is_empty() {
                        route.key("deny", toml_strings(deny));
                    }
                }
                ChangeKind::Root(_)
                | ChangeKind::TryFiles(_)
                | ChangeKind::StripPrefix(_)
                | ChangeKind::OriginField(..) => {}
            }
        }
    }
}

/// Whether `wide` matches all requests that `narrow` matches.
fn includes(wide: &Matcher, narrow: &Matcher) -> bool {
    wide.is_any() || matches!(wide.and(narrow), Ok(Some(both)) if both == *narrow)
}

/// The combinations of this many changes, all of them first. With more than four changes, each appears alone.
fn subsets(groups: usize) -> Vec<Vec<usize>> {
    if groups > 4 {
        let mut alone: Vec<Vec<usize>> = (0..groups).map(|group| vec![group]).collect();
        alone.push(Vec::new());
        return alone;
    }
    let mut all: Vec<Vec<usize>> = (0..1usize << groups)
        .map(|bits| (0..groups).filter(|group| bits >> group & 1 == 1).collect())
        .collect();
    all.sort_by_key(|subset| std::cmp::Reverse(subset.len()));
    all
}

fn is_rewrite(step: &Step<'_>) -> bool {
    step.directive.name == "rewrite"
}

/// Whether a fixed answer refuses clients by their address.
fn is_gate(step: &Step<'_>, matcher: &Matcher) -> bool {
    let by_address = !matcher.only_from.is_empty() || !matcher.not_from.is_empty();
    by_address && step.arguments.iter().all(|argument| argument.parse::<u16>().map_or(true, |s| s >= 400))
}

fn with_warning(step: &Step<'_>, advice: &str) -> String {
    let forbids =
        matches!(step.directive.name.as_str(), "basicauth" | "basic_auth" | "abort" | "forward_auth")
            || step.arguments.iter().any(|argument| argument.starts_with('4') && argument.len() == 3);
    match forbids {
        true => format!("what it forbids is allowed until you do this: {advice}"),
        false => advice.to_string(),
    }
}

fn advice_for(name: &str) -> &'static str {
    match name {
        "templates" => "see includes of a route (docs/includes.md)",
        "metrics" => "the admin listener has metrics (docs/metrics.md)",
        "tracing" => "trace contexts are passed to origins; spans are not recorded",
        "push" => "browsers no longer support server push: see 'early_hints' of a route",
        "map" | "vars" => "write a route for each value, with 'request_headers' or 'pattern'",
        "log_append" | "log_name" => "see [access_log] (docs/logs.md)",
        "uri" => "'strip_prefix' of 'proxy' removes a prefix; 'rewrite' changes paths (docs/routes.md)",
        _ => "it has no counterpart, or this command does not know it",
    }
}

/// `forward_auth UPSTREAM { uri PATH; copy_headers NAME ... }`
fn forward_auth(step: &Step<'_>) -> Result<(String, Vec<String>), String> {
    let [upstream] = step.arguments else {
        return Err("one server decides: 'url' of 'forward_auth' (docs/forward-auth.md)".to_string());
    };
    let base = answer::origin(upstream, false)?;
    if base.starts_with("unix:") {
        return Err("'forward_auth' asks a server at an address and port".to_string());
    }
    let (mut path, mut fields) = (String::new(), Vec::new());
    for line in step.directive.inside() {
        match line.name.as_str() {
            "uri" => path = plain(line.argument(0))?.to_string(),
            "copy_headers" => {
                fields.extend(line.arguments.iter().cloned());
                fields.extend(line.inside().iter().map(|inner| inner.name.clone()));
                if line.inside().iter().any(|inner| !inner.arguments.is_empty()) {
                    return Err("fields of the authority keep their names".to_string());
                }
            }
            other => return Err(format!("'{other}' of it has no counterpart: see docs/forward-auth.md")),
        }
    }
    if fields.iter().any(|field| field.contains('>')) {
        return Err("fields of the authority keep their names".to_string());
    }
    if !path.starts_with('/') {
        return Err("the path that is asked is missing: 'uri'".to_string());
    }
    Ok((format!("{base}{path}"), fields))
}

/// `header Name Value`, `-Name`, `+Name Value`, `?Name Value`, or a block of these.
fn fields(step: &Step<'_>) -> Result<Vec<(String, String)>, String> {
    let mut found = Vec::new();
    if !step.arguments.is_empty() {
        found.extend(field(step.argument(0), step.arguments.get(1..).unwrap_or_default())?);
    }
    for line in step.directive.inside() {
        if line.name != "defer" {
            found.extend(field(&line.name, &line.arguments)?);
        }
    }
    Ok(found)
}

fn field(name: &str, values: &[String]) -> Result<Option<(String, String)>, String> {
    let (name, is_removed) = match name.strip_prefix('-') {
        Some(name) => (name, true),
        None => (name.trim_start_matches(['+', '?', '>']), false),
    };
    let is_own = ["server", "date", "content-length", "transfer-encoding", "connection"];
    if is_own.contains(&name.to_ascii_lowercase().as_str()) {
        return Ok(None);
    }
    if name.contains('*') {
        return Err("list each field that is to be removed".to_string());
    }
    match values {
        _ if is_removed => Ok(Some((name.to_string(), String::new()))),
        [value] => {
            Ok(Some((name.to_string(), text(value)?.split_whitespace().collect::<Vec<_>>().join(" "))))
        }
        [] => Ok(Some((name.to_string(), String::new()))),
        _ => Err("a field's value is set; search and replace is not supported".to_string()),
    }
}

fn origin_field(step: &Step<'_>) -> Result<(String, Option<String>), String> {
    let name = step.argument(0);
    match (name.strip_prefix('-'), step.arguments.get(1)) {
        (Some(name), _) => Ok((name.to_string(), None)),
        (None, Some(value)) => Ok((name.trim_start_matches('+').to_string(), Some(text(value)?))),
        (None, None) => Err("it has no value".to_string()),
    }
}

/// `10MB`, `1GiB`, `512`
fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1_000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// Older versions of Caddy store hashes in base64.
fn password_hash(text: &str) -> String {
    if text.starts_with('$') {
        return text.to_string();
    }
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let (mut bits, mut count, mut out) = (0u32, 0, Vec::new());
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        let Some(digit) = digit(byte) else { return text.to_string() };
        bits = (bits << 6 | u32::from(digit)) & 0xffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count & 0xff) as u8);
        }
    }
    match String::from_utf8(out) {
        Ok(decoded) if decoded.starts_with("$2") && decoded.is_ascii() => decoded,
        _ => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_and_sizes() {
        assert_eq!(password_hash("JDJhJDE0JGE="), "$2a$14$a");
        assert_eq!(password_hash("$2a$14$a"), "$2a$14$a");
        assert_eq!((bytes("10MB"), bytes("1KiB"), bytes("x")), (Some(10_000_000), Some(1_024), None));
    }

    #[test]
    fn the_largest_subset_is_first() {
        assert_eq!(subsets(2), vec![vec![0, 1], vec![0], vec![1], vec![]]);
        assert_eq!(subsets(0), vec![Vec::<usize>::new()]);
    }
}
