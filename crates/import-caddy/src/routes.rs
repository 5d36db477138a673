//! Builds routes from steps.
//!
//! In Caddy a request passes through many directives, each with its own matcher. Here the first route that
//! matches handles the request alone. So a directive that changes an answer for some requests (`header /x/*
//! ...`) becomes an additional route before each route that answers such requests, with the conditions of
//! both.

use super::answer;
use super::context::{Context, PlaceholderValue};
use super::hidden::hidden;
use super::map;
use super::matcher::{Guard, Matcher};
use super::placeholder::{plain, text};
use super::routing::{Change, ChangeKind, Level, Routing};
use super::steps::{Step, steps};
use super::{forward_auth, rewrite, templates, variants};
use touchstone_import_base::directive::Directive;
use touchstone_import_base::output::{EVERY_CLIENT, Section, untranslated};
use touchstone_import_base::toml_text::{toml_string, toml_strings};

/// The most routes with combinations of changes that one answer becomes.
const MOST_COMBINATIONS: usize = 32;

impl<'d> Routing<'_, 'd> {
    /// Sets the placeholders of `map` for a whole block, those first that others use. In Caddy they are
    /// looked up when they are used. Returns the other steps.
    fn bind_maps(&mut self, steps: Vec<Step<'d>>, level: &mut Level<'d>) -> Vec<Step<'d>> {
        let (maps, rest): (Vec<Step<'d>>, Vec<Step<'d>>) =
            steps.into_iter().partition(|step| step.directive.name == "map" && step.matcher.is_ok());
        let mut left: Vec<&Step<'d>> = maps.iter().collect();
        while !left.is_empty() {
            let position = left.iter().position(|step| !map::uses_one_of(step, &left)).unwrap_or(0);
            let step = left.remove(position);
            let Ok(Ok(Some(inner))) = step.matcher.as_ref().map(|matcher| level.outer.and(matcher)) else {
                self.problem(step.directive, "its matcher has no counterpart in this block");
                continue;
            };
            if let Some(changes) = self.changes(step, &inner, level) {
                level.changes.extend(changes);
            }
        }
        rest
    }

    fn map(&mut self, step: &Step<'d>, inner: &Matcher, level: &mut Level<'d>, found: &mut Vec<ChangeKind>) {
        match map::map(step, &level.context) {
            Ok(mapped) => {
                for (line, advice) in mapped.unknown {
                    self.problem(line, &advice);
                }
                found.extend(self.bind(step.directive, mapped.bound, inner, level));
            }
            Err(advice) => self.problem(step.directive, &advice),
        }
    }

    /// `uri strip_prefix PREFIX`, which changes only paths that begin so.
    fn strip_prefix(&mut self, step: &Step<'d>, inner: &Matcher, level: &Level<'d>) -> Vec<Change<'d>> {
        let prefix = match plain(step.argument(1), &level.context) {
            Ok(prefix) => format!("/{}", prefix.trim_matches('/')),
            Err(advice) => {
                self.problem(step.directive, &advice);
                return Vec::new();
            }
        };
        match inner.and(&Matcher::of_path(&format!("{prefix}*"))) {
            Ok(Some(matcher)) => {
                vec![Change { matcher, what: ChangeKind::StripPrefix(prefix), directive: step.directive }]
            }
            Ok(None) => {
                self.problem(step.directive, "no path that reaches it begins so");
                Vec::new()
            }
            Err(advice) => {
                self.problem(step.directive, &advice);
                Vec::new()
            }
        }
    }

    /// Gives placeholders a meaning: for all requests of the block, or by a change for those of a matcher.
    fn bind(
        &mut self,
        directive: &'d Directive,
        bound: Vec<(String, PlaceholderValue)>,
        inner: &Matcher,
        level: &mut Level<'d>,
    ) -> Option<ChangeKind> {
        self.count_translated(directive);
        if *inner != level.outer {
            return Some(ChangeKind::Bind(bound));
        }
        for (name, bound) in &bound {
            level.context.bind(name, bound);
            // What was set before for some of these requests is replaced.
            for change in &mut level.changes {
                if let (ChangeKind::Bind(earlier), PlaceholderValue::Text(_)) = (&mut change.what, bound) {
                    earlier.retain(|(other, _)| other != name);
                }
            }
        }
        None
    }

    /// Builds the routes of a block.
    pub fn routes(&mut self, block: &'d [Directive], level: &Level<'d>, as_written: bool) -> Vec<Section> {
        let mut level = level.clone();
        let mut routes = Vec::new();
        let mut is_answered = false;
        let mut earlier = Vec::new();
        let outside = std::mem::take(&mut self.shut);
        for step in self.bind_maps(steps(block, self.named, &level.context, as_written), &mut level) {
            // What the steps before it set is known now.
            let step = Step::of(step.directive, self.named, &level.context);
            let own = step.matcher.as_ref().map_err(Clone::clone);
            let own = own.and_then(|matcher| matcher.below(&level.stripped));
            let mut inner = match own.and_then(|matcher| level.outer.and(&matcher)) {
                Ok(Some(inner)) => inner,
                Ok(None) => {
                    self.problem(step.directive, "no request of the block around it can match it");
                    continue;
                }
                Err(advice) => {
                    self.problem(step.directive, &with_warning(step.directive, &advice));
                    self.shut.extend(Some(step.directive).filter(|one| forbids(one)));
                    continue;
                }
            };
            if let Some(changes) = self.changes(&step, &inner, &mut level) {
                level.changes.extend(changes);
                continue;
            }
            if matches!(step.directive.name.as_str(), "rewrite" | "redir")
                && let Err(advice) = rewrite::exclude(&step, &mut inner, &level.context, &mut earlier)
            {
                self.problem(step.directive, &advice);
            }
            is_answered |= inner == level.outer && !is_rewrite(&step);
            if step.directive.name == "file_server"
                && let Some(mut guard) = hidden(step.directive, &inner, level.root.as_deref(), self)
            {
                // The route for PHP sends files, too, but it runs scripts before files are hidden.
                let runs_php = block.iter().any(|line| line.name == "php_fastcgi");
                if runs_php {
                    guard.and_when("not $path =~ '[.]php(/|$)'");
                }
                routes.insert(if runs_php { 0 } else { routes.len() }, guard);
            }
            routes.extend(self.terminal(&step, &inner, &level));
        }
        if !is_answered {
            // Caddy answers 200 without a body if no handler does.
            let outer = level.outer.clone();
            let empty = |_: &mut Routing<'_, 'd>, route: &mut Section, _: &[&Change<'d>], _: &Context| {
                route.note("As in Caddy, the answer is empty if nothing above matches.");
                route.key("respond", "{ status = 200 }");
                Ok(())
            };
            routes.extend(self.with_changes(None, &outer, &level, &empty));
        }
        let shut = std::mem::replace(&mut self.shut, outside);
        refused_until(&shut, &level.outer).into_iter().chain(routes).collect()
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
            "vars" => match map::vars(step, &level.context) {
                Ok(bound) => found.extend(self.bind(directive, bound, inner, level)),
                Err(advice) => self.problem(directive, &advice),
            },
            "map" => self.map(step, inner, level, &mut found),
            "header" | "request_header" => match changed_fields(step) {
                Ok(fields) => found.extend(fields),
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
            "rewrite" if rewrite::is_change(step, level) => {
                found.push(ChangeKind::Rewrite(step.argument(0).to_string()));
                self.count_translated(directive);
            }
            "try_files" => found.push(ChangeKind::TryFiles(step.arguments.to_vec())),
            "uri" if step.argument(0) == "strip_prefix" => {
                return Some(self.strip_prefix(step, inner, level));
            }
            "respond" | "error" | "abort" | "redir" if is_gate(step, inner) => {
                if directive.name == "redir" {
                    let advice = "the clients that it redirects get 403: routes cannot match their address";
                    self.problem(directive, advice);
                }
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
            "forward_auth" => match forward_auth::read(step, &level.context) {
                Ok(authority) => found.push(ChangeKind::ForwardAuth(authority)),
                Err(advice) => {
                    let advice = format!(
                        "all clients are refused ('deny') until you write 'forward_auth' instead: {advice}"
                    );
                    self.problem(directive, &advice);
                    let deny = EVERY_CLIENT.map(String::from).to_vec();
                    found.push(ChangeKind::Clients { allow: Vec::new(), deny });
                }
            },
            "encode" => {}
            "templates" => self.problem(directive, &templates::advice(directive)),
            "tracing"
            | "metrics"
            | "push"
            | "fs"
            | "method"
            | "invoke"
            | "log_append"
            | "log_name"
            | "intercept"
            | "copy_response"
            | "copy_response_headers"
            | "acme_server"
            | "uri" => self.problem(directive, advice_for(&directive.name)),
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
                let stripped = format!("{}{prefix}", level.stripped);
                let below = Level { outer: inner.clone(), stripped, ..level.clone() };
                self.count_translated(directive);
                self.routes(directive.inside(), &below, false)
            }
            _ => {
                let variants = match variants::of(step, inner, level) {
                    Ok(variants) => variants,
                    Err(advice) => {
                        self.problem(directive, &with_warning(directive, &advice));
                        self.shut.extend(Some(directive).filter(|one| forbids(one)));
                        return Vec::new();
                    }
                };
                let mut written = Vec::new();
                for (matcher, context) in variants {
                    let level = &Level { context, ..level.clone() };
                    let answer = |routing: &mut Routing<'_, 'd>,
                                  route: &mut Section,
                                  changes: &[&Change<'d>],
                                  context: &Context| {
                        answer::write(step, level, changes, context, routing, route)
                    };
                    written.extend(self.with_changes(Some(directive), &matcher, level, &answer));
                }
                written
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
        answer: &dyn Fn(&mut Routing<'_, 'd>, &mut Section, &[&Change<'d>], &Context) -> Result<(), String>,
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
        for (chosen, both) in self.combinations(matcher, &groups, level) {
            let mut changes = always.clone();
            changes.extend(level.changes.iter().filter(|change| chosen.contains(&&change.matcher)));
            let mut route = Section::new("[[site.route]]");
            for change in &changes {
                self.count_as_comment(change.directive, &mut route);
            }
            if let Some(directive) = directive {
                self.count_as_comment(directive, &mut route);
            }
            let keys = match self.guard(directive, &changes) {
                Some(guard) => both.keys_of_guard(guard, &mut route),
                None => both.keys(&mut route),
            };
            // Its groups are at hand if it is the pattern of the route.
            let is_pattern = |expression: &&String| route.has_value("pattern", &toml_string(expression));
            let expression = both.expression.as_ref().filter(is_pattern).map(String::as_str);
            let context = level.context_with(&changes, expression);
            match keys.and_then(|()| answer(self, &mut route, &changes, &context)) {
                Ok(()) => {
                    self.write_changes(&changes, &context, &mut route);
                    written.push(route);
                }
                Err(advice) => {
                    let reported_directive = directive.or(changes.first().map(|change| change.directive));
                    if let Some(directive) = reported_directive {
                        self.problem(directive, &with_warning(directive, &advice));
                        self.shut.extend(Some(directive).filter(|one| forbids(one)));
                    }
                }
            }
        }
        written
    }

    /// Whether a route guards the origins and scripts of the site: it refuses, redirects, or admits only some
    /// clients to one of them.
    fn guard(&self, directive: Option<&Directive>, changes: &[&Change<'d>]) -> Option<Guard> {
        let directive = directive.filter(|_| self.has_programs)?;
        let admits_some = |change: &&Change<'d>| {
            matches!(
                change.what,
                ChangeKind::Password | ChangeKind::ForwardAuth(_) | ChangeKind::Clients { .. }
            )
        };
        let is_refusal = |word: &String| word.parse::<u16>().is_ok_and(|status| status >= 400);
        match directive.name.as_str() {
            "redir" => Some(Guard::Redirect),
            "error" | "abort" => Some(Guard::Refusal),
            "respond" => directive.arguments.iter().any(is_refusal).then_some(Guard::Refusal),
            "reverse_proxy" | "php_fastcgi" => changes.iter().any(admits_some).then_some(Guard::Clients),
            _ => None,
        }
    }

    /// The requests that need some of these changes, those with the most of them first. With too many
    /// combinations each change appears alone.
    fn combinations<'m>(
        &mut self,
        matcher: &Matcher,
        groups: &[&'m Matcher],
        level: &Level<'d>,
    ) -> Vec<(Vec<&'m Matcher>, Matcher)> {
        let mut all: Vec<(Vec<&'m Matcher>, Matcher)> = vec![(Vec::new(), matcher.clone())];
        let is_full = |all: &[(Vec<&'m Matcher>, Matcher)]| all.len() >= MOST_COMBINATIONS;
        let mut lost = Vec::new();
        for group in groups {
            let of_group = || level.changes.iter().filter(|change| change.matcher == **group);
            let is_full = is_full(&all);
            let mut found = Vec::new();
            for (chosen, both) in &all {
                match both.and(group) {
                    Ok(None) => {}
                    Ok(Some(_)) if is_full && !chosen.is_empty() => {
                        for directive in of_group().map(|change| change.directive).collect::<Vec<_>>() {
                            self.problem(
                                directive,
                                "too many directives with matchers apply to one answer: for requests of \
                                 several matchers only one of them counts; write fewer matchers",
                            );
                            lost.push(directive);
                        }
                    }
                    Ok(Some(both)) => {
                        let chosen = chosen.iter().copied().chain([*group]).collect();
                        found.push((chosen, both));
                    }
                    Err(advice) => {
                        for directive in of_group().map(|change| change.directive).collect::<Vec<_>>() {
                            self.problem(directive, &with_warning(directive, &advice));
                            lost.push(directive);
                        }
                    }
                }
            }
            all.extend(found);
        }
        self.shut.extend(lost.into_iter().filter(|directive| forbids(directive)));
        all.sort_by_key(|(chosen, _)| std::cmp::Reverse(chosen.len()));
        all
    }

    /// Which clients are allowed. In Caddy a request passes each gate in turn. A route has one list of
    /// allowed clients: with two different lists all clients are refused.
    fn write_gates(&mut self, changes: &[&Change<'d>], route: &mut Section) {
        let mut allowed: Option<&[String]> = None;
        let mut denied: Vec<&str> = Vec::new();
        for change in changes {
            let ChangeKind::Clients { allow, deny } = &change.what else { continue };
            denied.extend(deny.iter().map(String::as_str));
            if EVERY_CLIENT.iter().all(|network| deny.iter().any(|denied| denied == network)) {
                allowed = Some(&[]);
            }
            match allowed {
                _ if allow.is_empty() => {}
                None => allowed = Some(allow),
                Some(first) if first == allow.as_slice() || first.is_empty() => {}
                Some(_) => {
                    let advice = "all clients are refused ('deny') until you write one 'allow' with the \
                                  networks that this line and those before it allow";
                    self.problem(change.directive, advice);
                    allowed = Some(&[]);
                }
            }
        }
        match allowed {
            Some([]) => return route.key("deny", toml_strings(EVERY_CLIENT)),
            Some(allow) => route.key("allow", toml_strings(allow)),
            None => {}
        }
        if !denied.is_empty() {
            route.key("deny", toml_strings(denied));
        }
    }

    fn write_changes(&mut self, changes: &[&Change<'d>], context: &Context, route: &mut Section) {
        self.write_gates(changes, route);
        for change in changes {
            match &change.what {
                ChangeKind::Field(name, value) => match text(value, context) {
                    Ok(value) => {
                        let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
                        route.entry("headers", name, toml_string(&value));
                    }
                    Err(advice) => self.problem(change.directive, &advice),
                },
                ChangeKind::Password => {
                    route.note("Write the users into this file, a line each (docs/access.md).");
                    let line =
                        |user: &Directive| format!("{}:{}", user.name, password_hash(user.argument(0)));
                    let users: Vec<String> = change.directive.inside().iter().map(line).collect();
                    users.iter().for_each(|user| route.note(format!("  {user}")));
                    let file = toml_string(&context.users_file(users));
                    let value = format!("{{ file = {file}, realm = \"restricted\" }}");
                    if route.has("basic_authentication") && !route.has_value("basic_authentication", &value) {
                        let advice = "all clients are refused ('deny'): a route asks for one password, and \
                                      Caddy for this one, too";
                        self.problem(change.directive, advice);
                        route.key("deny", toml_strings(EVERY_CLIENT));
                    }
                    route.key("basic_authentication", value);
                }
                ChangeKind::BodyBytes(bytes) => route.key("body_bytes", bytes),
                // A route has one server and one log.
                ChangeKind::ForwardAuth(authority) if route.has_section(forward_auth::TABLE) => {
                    let url = &authority.url;
                    let advice = format!("all clients are refused ('deny'): {url} is not asked, too");
                    self.problem(change.directive, &advice);
                    route.key("deny", toml_strings(EVERY_CLIENT));
                }
                ChangeKind::NoLog if route.has_section("[site.route.access_log]") => {}
                ChangeKind::ForwardAuth(authority) => route.push(authority.table()),
                ChangeKind::Compression(codings) => route.key("compression", toml_strings(codings)),
                ChangeKind::NoLog => {
                    let mut table = Section::new("[site.route.access_log]");
                    table.key("path", toml_string("off"));
                    route.push(table);
                }
                ChangeKind::Clients { .. }
                | ChangeKind::Root(_)
                | ChangeKind::TryFiles(_)
                | ChangeKind::StripPrefix(_)
                | ChangeKind::Bind(_)
                | ChangeKind::Rewrite(_)
                | ChangeKind::OriginField(..) => {}
            }
        }
    }
}

/// Whether `wide` matches all requests that `narrow` matches.
fn includes(wide: &Matcher, narrow: &Matcher) -> bool {
    wide.is_any() || matches!(wide.and(narrow), Ok(Some(both)) if both == *narrow)
}

fn is_rewrite(step: &Step<'_>) -> bool {
    step.directive.name == "rewrite"
}

/// Whether a fixed answer refuses clients by their address.
fn is_gate(step: &Step<'_>, matcher: &Matcher) -> bool {
    let by_address = !matcher.only_from.is_empty() || !matcher.not_from.is_empty();
    by_address && step.arguments.iter().all(|argument| argument.parse::<u16>().map_or(true, |s| s >= 400))
}

fn with_warning(directive: &Directive, advice: &str) -> String {
    match forbids(directive) {
        true => format!("all requests of its block are refused until you do this: {advice}"),
        false => advice.to_string(),
    }
}

/// Whether a directive, or one in its block, refuses requests or admits only some clients.
fn forbids(directive: &Directive) -> bool {
    let is_error = |argument: &String| {
        argument.len() == 3
            && argument.starts_with(['4', '5'])
            && argument.bytes().all(|b| b.is_ascii_digit())
    };
    match directive.name.as_str() {
        "basicauth" | "basic_auth" | "abort" | "forward_auth" | "error" => true,
        "respond" => directive.arguments.iter().any(is_error),
        "handle" | "handle_path" | "route" => directive.inside().iter().any(forbids),
        _ => false,
    }
}

/// The route that refuses all requests of a block because of these directives, which were not translated.
fn refused_until(lines: &[&Directive], outer: &Matcher) -> Option<Section> {
    if lines.is_empty() {
        return None;
    }
    let mut route = untranslated(lines);
    if outer.keys_of_guard(Guard::Refusal, &mut route).is_err() {
        route = route.without_keys().with_header("[[site.route]]");
        route.key("path", toml_string("/"));
    }
    route.key("respond", "{ status = 403 }");
    Some(route)
}

fn advice_for(name: &str) -> &'static str {
    match name {
        "metrics" => "the admin listener has metrics (docs/metrics.md)",
        "tracing" => "trace contexts are passed to origins; spans are not recorded",
        "push" => "browsers no longer support server push: see 'early_hints' of a route",
        "log_append" | "log_name" => "see [access_log] (docs/logs.md)",
        "method" => "the method of a request is not changed here",
        "uri" => "'strip_prefix' of 'proxy' removes a prefix; 'rewrite' changes paths (docs/routes.md)",
        _ => "it has no counterpart, or this command does not know it",
    }
}

/// The changes of `header` and `request_header`.
fn changed_fields(step: &Step<'_>) -> Result<Vec<ChangeKind>, String> {
    if step.directive.name == "request_header" {
        let (name, value) = origin_field(step)?;
        return Ok(vec![ChangeKind::OriginField(name, value)]);
    }
    Ok(fields(step)?.into_iter().map(|(name, value)| ChangeKind::Field(name, value)).collect())
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
        [value] => Ok(Some((name.to_string(), value.clone()))),
        [] => Ok(Some((name.to_string(), String::new()))),
        _ => Err("a field's value is set; search and replace is not supported".to_string()),
    }
}

fn origin_field(step: &Step<'_>) -> Result<(String, Option<String>), String> {
    let name = step.argument(0);
    match (name.strip_prefix('-'), step.arguments.get(1)) {
        (Some(name), _) => Ok((name.to_string(), None)),
        (None, Some(value)) => Ok((name.trim_start_matches('+').to_string(), Some(value.clone()))),
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
}
