//! Translates what answers in a location: another server, PHP, FastCGI or SCGI programs, or files.

use super::access::{self, access};
use super::cache::{cache, is_of_cache};
use super::common::common;
use super::delivery;
use super::forward_auth::{self, FromAuthority, forward_auth, from_authority};
use super::front::{front_controller, front_target, of_some_paths};
use super::keys::{body_limit, error_pages, headers, intercepts, is_file_name};
use super::language::Language;
use super::log::own_logs;
use super::matching::Match;
use super::missing_files::{FILES_FIRST, is_kept, missing_files, replaced, takes_all};
use super::parameters::{only_script, parameters};
use super::refused::{self, REFUSED_UNTIL};
use super::replaced_path::{PathReplacement, with_variables, written};
use super::rewriting::{condition, rewriting};
use super::scope::{Scope, refuses_all};
use super::site::Site;
use super::uploads::uploads;
use super::value;
use touchstone_import_base::account::Account;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::expression;
use touchstone_import_base::files::is_file;
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::{toml_string, toml_strings};

/// The routes of a location: those of its `rewrite` and `return`, and the route that answers.
pub fn routes(how: &Match, location: &Directive, site: &Site<'_>, account: &mut Account) -> Vec<Section> {
    let mut routes = of_other_methods(how, location, site, account);
    routes.extend(routes_of_all(how, location, site, account));
    routes.extend(beside_alias(how, location));
    let shut = refused::refused_until(location.inside(), Some(how), account);
    // The signature of a link is checked by a key.
    let asks_for_link = location.inside().iter().find(|one| delivery::is_of_signed_link(one));
    let has_link = |route: &Section| route.has("signed_link");
    let shut = shut.or_else(|| {
        let line = asks_for_link.filter(|_| !routes.iter().any(has_link))?;
        refused::route(&[line], Some(how))
    });
    shut.into_iter().chain(routes).collect()
}

/// The routes for the methods to which a `limit_except` of a location applies: its rules for clients replace
/// those of the location.
fn of_other_methods(
    how: &Match,
    location: &Directive,
    site: &Site<'_>,
    account: &mut Account,
) -> Vec<Section> {
    let mut routes = Vec::new();
    let limits = location.inside().iter().filter(|one| one.name == "limit_except" && !is_method_gate(one));
    for limit in limits.filter(|one| one.inside().iter().all(|inner| is_of_clients(&inner.name))) {
        // nginx does not apply its conditions and rewrites to these methods.
        let others = ["limit_except", "location", "if", "set", "rewrite", "return", "break"];
        let kept = location.inside().iter().filter(|one| !others.contains(&one.name.as_str()));
        let mut block: Vec<Directive> = limit.inside().to_vec();
        let has = |name: &str| match name {
            "allow" | "deny" => {
                limit.inside().iter().any(|one| matches!(one.name.as_str(), "allow" | "deny"))
            }
            name => limit.inside().iter().any(|one| one.name == name),
        };
        block.extend(kept.filter(|one| !has(&one.name)).cloned());
        let whole = Directive { block: Some(block), ..location.clone() };
        let condition = of_methods_except(limit);
        for mut route in self::routes(how, &whole, site, account) {
            account.translated(limit, &mut route);
            route.notes_first();
            route.and_when(&condition);
            routes.push(route);
        }
    }
    routes
}

/// The route for paths that begin like a location with `alias`, but are not below it: nginx looks for them
/// beside the directory.
fn beside_alias(how: &Match, location: &Directive) -> Option<Section> {
    let Some(Match::Prefix { .. }) = with_alias(how, location) else { return None };
    let mut route = Section::new("[[site.route]]");
    route.note(format!("{location} is for these paths, too, and they are not below its directory."));
    how.keys(&mut route).ok()?;
    route.key("respond", "{ status = 404 }");
    Some(route)
}

fn routes_of_all(how: &Match, location: &Directive, site: &Site<'_>, account: &mut Account) -> Vec<Section> {
    let mut routes: Vec<Section> = behind_script(how, location, site).into_iter().collect();
    routes.extend(without_path_behind(how, location, site));
    let mut route = Section::new("[[site.route]]");
    let of_alias = with_alias(how, location);
    routes.extend(bare_directory(how, of_alias.as_ref(), location));
    let how = of_alias.as_ref().unwrap_or(how);
    account.translated(location, &mut route);
    let is_of_files =
        |one: &&Directive| missing_files(one).is_some() && !is_kept(one, how, location.inside());
    for condition in location.inside().iter().filter(is_of_files) {
        account.translated(condition, &mut route);
        condition.inside().iter().for_each(|inner| account.translated(inner, &mut route));
    }
    let with_files =
        replaced(how, location.inside()).map(|block| Directive { block: Some(block), ..location.clone() });
    let location = with_files.as_ref().unwrap_or(location);
    let whole = location;
    let without_sets = without_variables(location, site, &mut route, account);
    let location = without_sets.as_ref().unwrap_or(location);
    let is_question = forward_auth::is_question(location, site);
    let without_body = is_question.then(|| forward_auth::without_body(location, &mut route, account));
    let location = without_body.as_ref().unwrap_or(location);
    if let Err(advice) = how.keys(&mut route) {
        return vec![untranslated(how, location, &advice, route, account)];
    }
    // nginx does not apply conditions and rewrites to the methods that these refuse.
    for directive in location.inside().iter().filter(|directive| is_method_gate(directive)) {
        routes.extend(method_gate(directive, how, account));
    }
    for directive in location.inside().iter().filter(|directive| is_answering_if(directive)) {
        let mut answer = condition(directive, Some(how), Some(whole), site, &mut route, account);
        let stays = directive.inside().iter().any(|one| one.name == "rewrite" && one.argument(2) == "break");
        answer.iter_mut().filter(|_| stays).for_each(|answer| with_rules(location, site, answer));
        routes.extend(answer);
    }
    routes.extend(conditions_of_named(how, location, site, &mut route, account));
    if let Some(internal) = location.inside().iter().find(|directive| directive.name == "internal") {
        match is_question {
            true => forward_auth::inner_question(location, &mut route, account),
            false => only_inside(internal, location.inside(), &mut route, account),
        }
        routes.push(route);
        return routes;
    }
    let returned = location.inside().iter().position(|directive| directive.name == "return");
    let (before, behind) = location.inside().split_at(returned.unwrap_or_default());
    for directive in before.iter().filter(|directive| leaves_location(directive)) {
        routes.extend(rewriting(directive, Some(how), Some(location), site, &mut route, account));
    }
    for directive in behind.iter().filter(|directive| directive.name == "return") {
        if let Some(mut answer) = rewriting(directive, Some(how), Some(location), site, &mut route, account) {
            answer.note_first(location.to_string());
            others(location.inside(), &mut answer, account);
            headers(&Scope::new(location.inside()), &site.language(), false, &mut answer, account);
            own_logs(location.inside(), &site.scope.within(location.inside()), &mut answer, account);
            if site.scope.one("auth_request").is_some_and(|asks| asks.argument(0) != "off") {
                // nginx answers before it asks the authority.
                let mut table = Section::new("[site.route.forward_auth]");
                table.key("url", toml_string("off"));
                answer.push(table);
            }
            access::not_asked(&site.scope, &mut answer);
            routes.push(answer);
            return routes;
        }
    }
    let stripped = stripped_prefix(how, location);
    if stripped.is_none() {
        routes.extend(rewrites(how, location, site, &mut route, account));
    }
    for (how, location) in of_some_paths(how, location, site) {
        routes.extend(self::routes(&how, &location, site, account));
    }
    let inside = Scope::new(location.inside());
    let is_own = !inside.clients().is_empty();
    if is_own && access::is_shut(&site.scope.within(location.inside())) {
        inside.clients().iter().for_each(|directive| account.translated(directive, &mut route));
        others(location.inside(), &mut route, account);
        own_logs(location.inside(), &site.scope.within(location.inside()), &mut route, account);
        if access::has_users(&site.scope) {
            // The site would ask for a password first.
            access(&inside, &site.scope.within(location.inside()), &mut route, &mut Account::default());
        }
        route.key("respond", "{ status = 403 }");
    } else {
        answer(how, location.inside(), site, &mut route, account);
    }
    if let (Some((rewrite, begin)), Some(table)) = (&stripped, route.section_mut("[site.route.proxy]")) {
        account.translated(rewrite, table);
        table.key("strip_prefix", toml_string(begin));
    }
    without_conflicts(&inside, &mut route, account);
    routes.extend(without_other_scripts(how, site, &route));
    routes.push(route);
    routes
}

/// A location without the lines that set variables of conditions, which are noted; `None`: it has none.
fn without_variables(
    location: &Directive,
    site: &Site<'_>,
    route: &mut Section,
    account: &mut Account,
) -> Option<Directive> {
    if !location.inside().iter().any(|one| matches!(one.name.as_str(), "set" | "if")) {
        return None;
    }
    let flags = site.language_in(Some(location), None).flags;
    let (sets, others): (Vec<&Directive>, Vec<&Directive>) =
        location.inside().iter().partition(|one| flags.sets_only(one));
    for line in &sets {
        account.translated(line, route);
        line.inside().iter().for_each(|set| account.translated(set, route));
    }
    let block = Some(others.into_iter().cloned().collect());
    (!sets.is_empty()).then(|| Directive { block, ..location.clone() })
}

/// The route that refuses paths behind the names of scripts other than `.php`: nginx splits a path only where
/// `fastcgi_split_path_info` does, and php-fpm by itself only behind `.php`.
fn without_path_behind(how: &Match, location: &Directive, site: &Site<'_>) -> Option<Section> {
    let is_script = how.is_of_scripts() && how.expression().is_some();
    let scope = site.scope.within(location.inside());
    scope.one("fastcgi_pass").filter(|_| is_script)?;
    let (text, any_case) = how.expression()?;
    let takes = |path: &str| {
        expression::whole_path(text, any_case).is_ok_and(|whole| expression::matches(&whole, path))
    };
    let split = location.inside().iter().find(|one| one.name == "fastcgi_split_path_info");
    let splits = |path: &str| {
        split
            .and_then(|split| expression::whole_path(split.argument(0), false).ok())
            .is_some_and(|whole| expression::matches(&whole, path))
    };
    let endings: Vec<String> = how
        .endings()
        .into_iter()
        .filter(|ending| !ending.eq_ignore_ascii_case(".php"))
        .filter(|ending| takes(&format!("/a{ending}/x")) && !splits(&format!("/a{ending}/x")))
        .collect();
    if endings.is_empty() {
        return None;
    }
    let mut route = Section::new("[[site.route]]");
    route.note(format!("{location} does not split the paths of these scripts."));
    how.keys(&mut route).ok()?;
    route.and_when(&format!("$path =~ '{}/'", any_of(&endings)));
    route.key("respond", "{ status = 404 }");
    Some(route)
}

/// Whether a `rewrite` ends what a location does, so that a `return` behind it is for the other paths.
fn leaves_location(directive: &Directive) -> bool {
    let target = directive.argument(1);
    directive.name == "rewrite"
        && (matches!(directive.argument(2), "last" | "redirect" | "permanent")
            || target.starts_with("http://")
            || target.starts_with("https://"))
}

/// The routes of each `rewrite` of a location that are not before its `return`.
fn rewrites(
    how: &Match,
    location: &Directive,
    site: &Site<'_>,
    route: &mut Section,
    account: &mut Account,
) -> Vec<Section> {
    let mut routes = Vec::new();
    let passes = location.inside().iter().any(|one| one.name.ends_with("_pass"));
    for directive in location.inside().iter().filter(|directive| directive.name == "rewrite") {
        let stays = directive.argument(2) == "break";
        if stays && passes {
            let advice = "the origin gets the path unchanged: see 'strip_prefix' of 'proxy'";
            account.problem(directive, route, advice);
            continue;
        }
        let rewritten = rewriting(directive, Some(how), Some(location), site, route, account);
        routes.extend(rewritten.map(|mut rewritten| {
            if stays {
                with_rules(location, site, &mut rewritten);
            }
            rewritten
        }));
    }
    routes
}

/// Writes the rules for clients of a location into the route of its `rewrite ... break`, after which they
/// hold as for all other paths of the location.
fn with_rules(location: &Directive, site: &Site<'_>, route: &mut Section) {
    let (own, scope) = (Scope::new(location.inside()), site.scope.within(location.inside()));
    if !own.clients().is_empty() && access::is_shut(&scope) {
        route.remove("rewrite");
        route.key("respond", "{ status = 403 }");
    }
    access(&own, &scope, route, &mut Account::default());
    forward_auth(&own, &scope, site, route, &mut Account::default());
    if route.has("respond") {
        route.remove("rewrite");
    }
}

/// The routes for what a named location refuses, which the `try_files` of a location leads to. They are for
/// files, too.
fn conditions_of_named(
    how: &Match,
    location: &Directive,
    site: &Site<'_>,
    route: &mut Section,
    account: &mut Account,
) -> Vec<Section> {
    let tried = location.inside().iter().find(|one| one.name == "try_files");
    let name = tried.and_then(|tried| tried.arguments.last()?.strip_prefix('@'));
    let named = site.locations().find(|one| name.is_some() && one.argument(0).strip_prefix('@') == name);
    let block = named.map_or(&[][..], Directive::inside);
    let mut routes = Vec::new();
    for directive in block.iter().filter(|directive| is_answering_if(directive)) {
        let refuses = |one: &Directive| one.name == "return" && one.argument(0).starts_with('4');
        match directive.inside().iter().any(refuses) {
            true => {
                let refused = condition(directive, Some(how), named, site, route, account);
                routes.extend(refused.map(|mut refused| {
                    refused.note_first("What this location refuses without a file is refused with one, too.");
                    refused
                }));
            }
            false => account.problem(directive, route, "it is not for paths without a file here"),
        }
    }
    routes.extend(
        block.iter().filter(|one| is_method_gate(one)).filter_map(|one| method_gate(one, how, account)),
    );
    routes
}

/// The status with which a location refuses all clients.
fn refusal(block: &[Directive]) -> u16 {
    if block.iter().any(|one| one.name == "internal") {
        return 404;
    }
    let answer = block.iter().find(|one| one.name == "return");
    answer
        .and_then(|one| one.argument(0).parse().ok())
        .filter(|code| (400..500).contains(code))
        .unwrap_or(403)
}

/// The beginning of the path that the origin does not get: `rewrite ^/app/(.*)$ /$1 break;` before a
/// `proxy_pass` without a path.
fn stripped_prefix<'l>(how: &Match, location: &'l Directive) -> Option<(&'l Directive, String)> {
    let block = location.inside();
    let Match::Prefix { path, .. } = how else { return None };
    let pass = block.iter().find(|one| one.name == "proxy_pass")?;
    let has_path = pass.argument(0).split_once("://").is_none_or(|(_, rest)| rest.contains('/'));
    let mut rewrites = block.iter().filter(|one| one.name == "rewrite");
    let (Some(rewrite), None, false) = (rewrites.next(), rewrites.next(), has_path) else { return None };
    // A dot of the expression is one of the path, because the location's prefix has it.
    let text = rewrite.argument(0).strip_prefix('^')?.trim_end_matches('$').replace("\\.", ".");
    let begin = ["/(.*)", "(/.*)", "/?(.*)"].iter().find_map(|end| text.strip_suffix(end))?;
    let target = rewrite.argument(1);
    let is_rest = target == if text.ends_with("(/.*)") { "$1" } else { "/$1" };
    let is_within = !begin.is_empty()
        && begin.chars().all(|c| c.is_ascii_alphanumeric() || "/_-.".contains(c))
        && path.trim_end_matches('/').starts_with(begin);
    (is_rest && is_within && rewrite.argument(2) == "break").then(|| (rewrite, begin.to_string()))
}

/// The redirect to the path with a slash that nginx sends for a location with a slash before another server.
pub fn slash_redirect(how: &Match, location: &Directive, others: &[Match]) -> Option<Section> {
    let Match::Prefix { path, .. } = how else { return None };
    let bare = path.strip_suffix('/').filter(|bare| !bare.is_empty() && !bare.contains('*'))?;
    let is_taken = |other: &Match| match other {
        Match::Exact(other) | Match::Prefix { path: other, .. } => other == bare,
        _ => false,
    };
    let passes = location.inside().iter().any(|one| one.name.ends_with("_pass"));
    if !passes || others.iter().any(is_taken) {
        return None;
    }
    Some(redirect_to_slash(location, "path", bare, path))
}

/// The redirect from the path of a location without its slash to the one with it. `kind` names these paths.
fn redirect_to_slash(location: &Directive, kind: &str, bare: &str, path: &str) -> Section {
    let mut route = Section::new("[[site.route]]");
    route.note(format!("{location} sends clients from the {kind} without its slash to the one with it."));
    route.key("path", toml_string(bare));
    route.key("redirect", format!("{{ to = {}, status = 301 }}", toml_string(path)));
    route
}

/// Whether a directive states which clients are allowed.
pub fn is_of_clients(name: &str) -> bool {
    name.starts_with("auth_") || matches!(name, "allow" | "deny" | "satisfy")
}

/// The route that refuses paths behind the name of a script that only some clients may run: the route for
/// scripts would run it for all.
fn behind_script(how: &Match, location: &Directive, site: &Site<'_>) -> Option<Section> {
    let Match::Exact(path) = how else { return None };
    let is_script = site.php().is_some_and(|of_scripts| {
        Match::of(of_scripts).endings().iter().any(|ending| path.ends_with(ending.as_str()))
    });
    if !is_script || !restricts(location.inside()) {
        return None;
    }
    let mut route = Section::new("[[site.route]]");
    route.note(format!("{location} is for this name only: there is no file behind it."));
    route.key("path", toml_string(&format!("{path}/")));
    route.key("respond", "{ status = 404 }");
    Some(route)
}

/// Whether a location refuses some clients.
pub fn restricts(block: &[Directive]) -> bool {
    refuses_all(block)
        || block.iter().any(|one| match one.name.as_str() {
            "deny" => true,
            "auth_basic" | "auth_request" => one.argument(0) != "off",
            _ => false,
        })
}

/// The route before one that runs scripts by its own rules: nginx runs only those that the location for
/// scripts matches, and the route of that location is before this one.
fn without_other_scripts(how: &Match, site: &Site<'_>, route: &Section) -> Option<Section> {
    let table = route.section("[site.route.php]")?;
    let endings = site.php().map(|location| Match::of(location).endings()).unwrap_or_default();
    let endings = any_of(&endings);
    let mut guard = Section::new("[[site.route]]");
    guard.note("nginx does not run these scripts: no location for scripts matches them.");
    match how {
        Match::Prefix { path, is_first } => Match::Inside {
            path: path.clone(),
            is_first: *is_first,
            expression: format!("{endings}(/|$)"),
            any_case: false,
            longer: Vec::new(),
            around: Vec::new(),
        },
        Match::Expression { expression, any_case } if !how.is_of_scripts() => {
            let around = vec![(expression.clone(), *any_case)];
            Match::Nested { around, expression: format!("{endings}(/|$)"), any_case: false }
        }
        _ => return None,
    }
    .keys(&mut guard)
    .ok()?;
    match table.value("front_controller") {
        Some(front) if front.contains("${") && matches!(how, Match::Expression { .. }) => {
            guard.key("respond", "{ status = 404 }");
        }
        Some(front) => {
            if front.contains("${1}") {
                guard.key("pattern", toml_string(&format!("/((?s:.*){endings}(?:/(?s:.*))?)")));
            }
            guard.key("rewrite", format!("{{ to = {front} }}"));
        }
        None => guard.key("respond", "{ status = 404 }"),
    }
    Some(guard)
}

/// An expression for one of these endings of names.
fn any_of(endings: &[String]) -> String {
    let all: Vec<String> = endings.iter().map(|ending| expression::literal(ending)).collect();
    match all.as_slice() {
        [one] => one.clone(),
        all => format!("(?:{})", all.join("|")),
    }
}

/// What is written for a location whose expression this server does not support.
fn untranslated(
    how: &Match,
    location: &Directive,
    advice: &str,
    mut route: Section,
    account: &mut Account,
) -> Section {
    let is_shut = refuses_all(location.inside());
    if restricts(location.inside()) && how.wider_keys(&mut route).is_ok() {
        if how.leaves_out_well_known() {
            route.and_when("not $path =~ '/[.]well-known(/|$)'");
        }
        account.problem(
            location,
            &mut route,
            &format!("it refuses all paths that match without the groups '(?...': {advice}"),
        );
        route.key("respond", format!("{{ status = {} }}", refusal(location.inside())));
        return route;
    }
    if is_shut || restricts(location.inside()) {
        account.problem(location, &mut route, &format!("{REFUSED_UNTIL}{advice}"));
        let text = how.expression().map_or("", |(text, _)| text);
        let begin = expression::literal_beginning(text).unwrap_or("/");
        let around = Match::Prefix { path: begin.to_string(), is_first: true };
        let paths = expression::whole_path(&format!("^{}", expression::literal(begin)), true);
        match paths {
            Ok(paths) if !matches!(how, Match::Inside { .. }) => route.key("pattern", toml_string(&paths)),
            _ => _ = around.keys(&mut route),
        }
        route.key("respond", format!("{{ status = {} }}", refusal(location.inside())));
        return route;
    }
    account.problem(location, &mut route, advice);
    // A route without its conditions would match all requests: only its comments are written.
    route.with_header("# A location that was not translated:")
}

/// Removes the directory of files from a route where something else answers.
fn without_conflicts(inside: &Scope<'_>, route: &mut Section, account: &mut Account) {
    let programs = ["proxy", "php", "fastcgi", "scgi", "uwsgi"];
    let has_program = programs.iter().any(|name| route.has_section(&format!("[site.route.{name}]")));
    if let (Some(alias), true, true) = (inside.one("alias"), has_program, route.has("alias")) {
        route.remove("alias");
        route.remove("try_files");
        account.problem(alias, route, "a directory before a program: write a route with 'alias' before this");
    }
    let of_origin =
        ["proxy", "uwsgi", "scgi"].iter().any(|name| route.has_section(&format!("[site.route.{name}]")));
    if let (Some(root), true, true) = (inside.one("root"), of_origin, route.has("root")) {
        route.remove("root");
        let advice = "files before an origin are those of the site: write a route with 'root' before this";
        account.problem(root, route, advice);
    }
}

/// How a location with `alias` matches: a directory is served below a path that ends with a slash, and a file
/// under one path.
fn with_alias(how: &Match, location: &Directive) -> Option<Match> {
    let alias = location.inside().iter().find(|directive| directive.name == "alias")?;
    match how {
        Match::Prefix { path, .. } if path.ends_with('/') => None,
        Match::Prefix { path, .. } if is_file(path, alias.argument(0)) => Some(Match::Exact(path.clone())),
        Match::Prefix { path, is_first } => {
            Some(Match::Prefix { path: format!("{path}/"), is_first: *is_first })
        }
        Match::Inside { path, is_first, expression, any_case, longer, around } if !path.ends_with('/') => {
            Some(Match::Inside {
                path: format!("{path}/"),
                is_first: *is_first,
                expression: expression.clone(),
                any_case: *any_case,
                longer: longer.clone(),
                around: around.clone(),
            })
        }
        _ => None,
    }
}

/// The redirect from the path of an `alias` without its slash to the directory.
fn bare_directory(how: &Match, of_alias: Option<&Match>, location: &Directive) -> Option<Section> {
    let (Match::Prefix { path, .. }, Some(Match::Prefix { path: below, .. })) = (how, of_alias) else {
        return None;
    };
    if path.contains('*')
        || location.inside().iter().any(|one| matches!(one.name.as_str(), "internal" | "return"))
    {
        return None;
    }
    Some(redirect_to_slash(location, "directory", path, below))
}

/// Whether a directive is a `limit_except` that refuses all other methods.
fn is_method_gate(directive: &Directive) -> bool {
    let inside = directive.inside();
    directive.name == "limit_except"
        && !inside.is_empty()
        && inside.iter().all(|inner| inner.name == "deny" && inner.argument(0) == "all")
}

/// The condition for the methods that a `limit_except` does not name; GET includes HEAD.
fn of_methods_except(directive: &Directive) -> String {
    let mut methods: Vec<String> =
        directive.arguments.iter().map(|method| method.to_ascii_uppercase()).collect();
    if methods.iter().any(|method| method == "GET") && !methods.iter().any(|method| method == "HEAD") {
        methods.push("HEAD".to_string());
    }
    let list: Vec<String> = methods.iter().map(|method| format!("'{method}'")).collect();
    format!("not ($method in [{}])", list.join(", "))
}

/// `limit_except METHODS { deny all; }`: a route that refuses the other methods.
fn method_gate(directive: &Directive, how: &Match, account: &mut Account) -> Option<Section> {
    let mut route = Section::new("[[site.route]]");
    how.keys(&mut route).ok()?;
    account.translated(directive, &mut route);
    directive.inside().iter().for_each(|inner| account.translated(inner, &mut route));
    route.notes_first();
    route.and_when(&of_methods_except(directive));
    route.key("respond", "{ status = 403 }");
    Some(route)
}

/// `internal`: clients get 404. What programs send from there needs a key of their route.
fn only_inside(internal: &Directive, block: &[Directive], route: &mut Section, account: &mut Account) {
    for other in block.iter().filter(|other| other.name != "internal") {
        route.note(other.to_string());
    }
    match block.iter().any(|other| matches!(other.name.as_str(), "alias" | "root" | "proxy_pass")) {
        true => account.problem(
            internal,
            route,
            "clients get 404; what programs send by X-Accel-Redirect: 'send_files_from' of their route",
        ),
        false => account.translated(internal, route),
    }
    route.key("respond", "{ status = 404 }");
}

/// Whether a directive is an `if` that contains only an answer; it becomes a separate route.
fn is_answering_if(directive: &Directive) -> bool {
    let inside = || directive.inside().iter().filter(|inner| inner.name != "break");
    directive.name == "if"
        && !delivery::is_of_signed_link(directive)
        && inside().filter(|inner| inner.name != "add_header").count() == 1
        && inside().all(|inner| matches!(inner.name.as_str(), "return" | "rewrite" | "add_header"))
        && !(inside().any(|inner| inner.name == "add_header")
            && inside().any(|inner| inner.name == "rewrite"))
}

/// Reports the directives that need no separate keys.
fn others(block: &[Directive], route: &mut Section, account: &mut Account) {
    for directive in block {
        match directive.name.as_str() {
            name if is_of_handler(name) => {}
            // It is reported with the origin.
            FILES_FIRST => {}
            // They have their own routes or limits.
            "return" | "rewrite" | "location" => {}
            "client_max_body_size" => body_limit(directive, "body_bytes", route, account),
            "access_log" | "error_log" => {}
            name if delivery::DIRECTIVES.contains(&name) || is_of_cache(name) => {}
            name if forward_auth::DIRECTIVES.contains(&name) => {}
            _ if is_answering_if(directive) => {}
            "if" if delivery::is_of_signed_link(directive) => {
                account.unneeded(directive, route, "'signed_link' answers with 403, and 410 after the time");
            }
            "limit_except" if is_method_gate(directive) => {}
            "limit_except" if directive.inside().iter().all(|inner| is_of_clients(&inner.name)) => {}
            _ => common(directive, route, account),
        }
    }
}

/// Whether [`answer`], `access` or `headers` handles the directive.
fn is_of_handler(name: &str) -> bool {
    const NAMES: [&str; 40] = [
        "satisfy",
        "dav_methods",
        "dav_ext_methods",
        "fastcgi_hide_header",
        "uwsgi_hide_header",
        "scgi_hide_header",
        "proxy_pass",
        "proxy_set_header",
        "proxy_read_timeout",
        "proxy_connect_timeout",
        "proxy_send_timeout",
        "proxy_redirect",
        "proxy_pass_header",
        "proxy_cookie_path",
        "proxy_cookie_domain",
        "proxy_intercept_errors",
        "fastcgi_intercept_errors",
        "uwsgi_intercept_errors",
        "uwsgi_pass",
        "uwsgi_param",
        "uwsgi_read_timeout",
        "error_page",
        "proxy_hide_header",
        "fastcgi_pass",
        "fastcgi_param",
        "fastcgi_read_timeout",
        "scgi_pass",
        "scgi_param",
        "grpc_pass",
        "try_files",
        "root",
        "alias",
        "index",
        "autoindex",
        "allow",
        "deny",
        "auth_basic",
        "auth_basic_user_file",
        "add_header",
        "expires",
    ];
    NAMES.contains(&name)
}

/// The route for PHP if no location covers all paths: directories have scripts as index files.
pub fn php_route(site: &Site<'_>) -> Section {
    let mut route = Section::new("[[site.route]]");
    route.key("path", toml_string("/"));
    php(site, None, &[], &mut route);
    route
}

/// The route for the server's `try_files`, which applies if no location matches.
pub fn tried_route(directive: &Directive, site: &Site<'_>, account: &mut Account) -> Section {
    let mut route = Section::new("[[site.route]]");
    route.key("path", toml_string("/"));
    let how = Match::Prefix { path: "/".to_string(), is_first: false };
    try_files(directive, &how, &[], site, &mut route, account);
    route
}

/// Writes what answers, and which clients are allowed.
fn answer(how: &Match, block: &[Directive], site: &Site<'_>, route: &mut Section, account: &mut Account) {
    let own = Scope::new(block);
    let scope = site.scope.within(block);
    for name in ["fastcgi_hide_header", "uwsgi_hide_header", "scgi_hide_header"] {
        for directive in scope.all(name) {
            hide(directive, route, account);
        }
    }
    others(block, route, account);
    own_logs(block, &scope, route, account);
    delivery::delivery(block, &scope, route, account);
    access(&own, &scope, route, account);
    forward_auth(&own, &scope, site, route, account);
    let is_files = !block.iter().any(|directive| directive.name.ends_with("_pass"));
    headers(&own, &site.language(), is_files, route, account);
    error_pages(&own, route, account);
    intercepts(&own, route, account);
    files(&own, how, site, route, account);
    if is_files {
        uploads(&own, &scope, route, account);
    }
    if let Some(files) = own.one(FILES_FIRST) {
        let tried = files.arguments.iter().map(|file| file.replace("$uri", "$path"));
        route.key("try_files", toml_strings(tried));
    }
    if let Some(pass) = own.one("proxy_pass").or(own.one("grpc_pass")) {
        proxy(pass, how, &scope, site, route, account);
        cache("proxy", &scope, &site.language(), route, account);
    } else if let Some(pass) = own.one("fastcgi_pass") {
        match how.is_of_scripts() {
            true => scripts(pass, &scope, (how, site), route, account),
            false => program("fastcgi", pass, &scope, route, account),
        }
        cache("fastcgi", &scope, &site.language(), route, account);
    } else if let Some(pass) = own.one("scgi_pass") {
        program("scgi", pass, &scope, route, account);
        cache("scgi", &scope, &site.language(), route, account);
    } else if let Some(pass) = own.one("uwsgi_pass") {
        program("uwsgi", pass, &scope, route, account);
        cache("uwsgi", &scope, &site.language(), route, account);
    } else if let Some(tried) = own.one("try_files") {
        try_files(tried, how, block, site, route, account);
    } else if how.may_be_directory() && !route.has("alias") {
        // The directory's index file may be a script.
        php(site, None, block, route);
    }
}

/// Writes the directory of files.
fn files(own: &Scope<'_>, how: &Match, site: &Site<'_>, route: &mut Section, account: &mut Account) {
    let is_passed =
        ["proxy_pass", "grpc_pass", "uwsgi_pass", "scgi_pass"].iter().any(|name| own.one(name).is_some());
    if let Some(root) = own.one("root") {
        let tries = own.one("try_files").is_some() || own.one(FILES_FIRST).is_some();
        match is_passed && !tries {
            true => account.unneeded(root, route, "another server answers here, not a file"),
            false => {
                if root.argument(0).contains('$') {
                    let advice = "a directory has no variables: write a route for each value";
                    account.problem(root, route, advice);
                    return route.key("respond", "{ status = 404 }");
                }
                account.translated(root, route);
                if site.root().is_none_or(|of_site| of_site.argument(0) != root.argument(0)) {
                    route.key("root", toml_string(root.argument(0)));
                }
            }
        }
    }
    if let Some(alias) = own.one("alias") {
        let directory = alias.argument(0);
        match directory.contains('$') {
            true => match root_of_groups(how, directory) {
                Some(root) => {
                    account.translated(alias, route);
                    route.key("root", toml_string(if root.is_empty() { "/" } else { root }));
                }
                None => account.problem(alias, route, "a directory has no variables"),
            },
            false if how.expression().is_some() => {
                account.problem(
                    alias,
                    route,
                    "write routes with 'alias' for the paths before the expression",
                );
            }
            // The same directory, under the same path.
            false if matches!(how, Match::Prefix { path, .. } if path == "/") => {
                account.translated(alias, route);
                route.key("root", toml_string(directory));
            }
            false if is_file(directory, directory) => {
                // One file under another path.
                let (directory, name) = directory.rsplit_once('/').unwrap_or(("", directory));
                account.translated(alias, route);
                route.key("root", toml_string(if directory.is_empty() { "/" } else { directory }));
                route.key("try_files", toml_strings([format!("/{name}")]));
            }
            false => {
                account.translated(alias, route);
                route.key("alias", toml_string(directory));
            }
        }
    }
    if let Some(index) = own.one("index") {
        account.translated(index, route);
        let files: Vec<&String> = index.arguments.iter().filter(|name| is_file_name(name)).collect();
        if !files.is_empty() {
            route.key("index", toml_strings(files));
        }
    }
    if let Some(listing) = own.one("autoindex") {
        account.translated(listing, route);
        route.key("listing", toml_string(if listing.argument(0) == "on" { "html" } else { "off" }));
    }
}

/// The directory below which an alias with groups is the path itself: `alias /srv/$1/$2` for the expression
/// `^/(css|js)/(.*)$`.
fn root_of_groups<'a>(how: &Match, alias: &'a str) -> Option<&'a str> {
    let (expression, _) = how.expression()?;
    let mut rest = expression.strip_prefix('^')?.trim_end_matches('$');
    let (mut path, mut groups) = (String::new(), 0);
    while let Some(at) = rest.find('(') {
        path.push_str(&rest[..at]);
        let (inside, behind) = rest[at + 1..].split_once(')')?;
        if inside.contains(['(', '?', '\\']) || behind.starts_with(['*', '+', '?', '{']) {
            return None;
        }
        groups += 1;
        path.push_str(&format!("${groups}"));
        rest = behind;
    }
    path.push_str(rest);
    let is_literal = path.chars().all(|c| c.is_ascii_alphanumeric() || "/_-$".contains(c));
    let root = alias.strip_suffix(&path).filter(|root| !root.contains('$'))?;
    (is_literal && groups > 0 && path.starts_with('/')).then_some(root)
}

/// The arguments of a `try_files`. Those that begin with the first group of the location's expression get a
/// slash, which that group then does not hold.
fn with_slashes(directive: &Directive, how: &Match, route: &mut Section) -> Vec<String> {
    let of_group = |file: &String| file.starts_with("$1") || file.starts_with("${1}");
    let moved = how.expression().and_then(|(text, any_case)| {
        let (moved, _) = expression::with_slash(text, "$1")?;
        expression::whole_path(&moved, any_case).ok()
    });
    match moved.filter(|_| directive.arguments.iter().any(of_group)) {
        None => directive.arguments.clone(),
        Some(pattern) => {
            route.key("pattern", toml_string(&pattern));
            let with = |file: &String| if of_group(file) { format!("/{file}") } else { file.clone() };
            directive.arguments.iter().map(with).collect()
        }
    }
}

/// `try_files FILE ... LAST`
fn try_files(
    directive: &Directive,
    how: &Match,
    block: &[Directive],
    site: &Site<'_>,
    route: &mut Section,
    account: &mut Account,
) {
    let arguments = with_slashes(directive, how, route);
    let Some((last, tried)) = arguments.split_last() else {
        return account.problem(directive, route, "it has no arguments");
    };
    let templates: Result<Vec<String>, String> =
        tried.iter().map(|file| value::template(file, &site.facts(false), &site.language())).collect();
    let mut templates = match templates {
        Ok(templates) => templates,
        Err(advice) => return account.problem(directive, route, &advice),
    };
    let script = last.split(['?', '$']).next().unwrap_or_default();
    let is_plain = templates.iter().all(|file| file == "$path" || file == "$path/");
    if let Some(name) = last.strip_prefix('@') {
        let named = site.locations().find(|location| location.argument(0).strip_prefix('@') == Some(name));
        let Some(named) = named else {
            return account.problem(directive, route, "the location that it names does not exist");
        };
        // It may also name its own location, which would recurse without an end.
        if let Some(again) = Scope::new(named.inside()).one("try_files") {
            return account.problem(again, route, "list these files in the try_files that leads here");
        }
        account.translated(directive, route);
        account.translated(named, route);
        if let Some((line, target)) = front_controller(named) {
            let is_of_groups = (1..=9).any(|digit| target.contains(&format!("${digit}")));
            if is_of_groups && !takes_all(line.argument(0)) && how.expression().is_some() {
                let advice =
                    "the script gets no parameters here: write a route with this expression as 'pattern'";
                account.problem(line, route, advice);
                let script = target.split('?').next().unwrap_or_default();
                return php(site, Some(script), block, route);
            }
            let front = front_target(line, &target, (how, site), route, account);
            return php(site, Some(&front), block, route);
        }
        let is_answer = |one: &&Directive| matches!(one.name.as_str(), "return" | "rewrite");
        for answer in named.inside().iter().filter(is_answer) {
            account.problem(
                answer,
                route,
                "it is not for paths without a file here, which are 404 or passed on",
            );
        }
        route.key("try_files", toml_strings(&templates));
        return answer(how, named.inside(), site, route, account);
    }
    if site.php().is_some() && script.ends_with(".php") {
        account.translated(directive, route);
        let front = front_target(directive, last, (how, site), route, account);
        return php(site, Some(&front), block, route);
    }
    if last.starts_with('=') && is_plain {
        account.unneeded(directive, route, "files are served, and what is not there is 404");
        if how.may_be_directory() && !route.has("alias") {
            php(site, None, block, route);
        }
        return;
    }
    if !last.starts_with('=') {
        match value::template(last, &site.facts(false), &site.language()) {
            Ok(last) => templates.push(last),
            Err(advice) => return account.problem(directive, route, &advice),
        }
    } else if last != "=404" {
        account.problem(directive, route, "a missing file is answered with 404");
    }
    account.translated(directive, route);
    route.key("try_files", toml_strings(&templates));
}

/// Passes index files of directories and missing paths to the site's PHP, if it has any. The location of the
/// scripts has its own route, which reports its directives.
fn php(site: &Site<'_>, front: Option<&str>, block: &[Directive], route: &mut Section) {
    let Some(location) = site.php() else { return };
    let scope = site.scope.within(location.inside());
    let Some(pass) = scope.one("fastcgi_pass") else { return };
    let mut table = Section::new("[site.route.php]");
    script_keys(pass, &scope, &mut table, &mut Account::default());
    endings_key(&Match::of(location), &mut table);
    // The index is that of the directory's location, not that of the scripts.
    if let Some(index) = site.scope.within(block).one("index") {
        match site.refuses_script("/directory/index.php") {
            true => {
                table.key("index", toml_strings(index.arguments.iter().filter(|name| is_file_name(name))))
            }
            false => index_key(index, &mut table),
        }
    }
    if let Some(front) = front {
        // Where no directory is tried, the script answers for directories, too.
        let tried = block.iter().find(|one| one.name == "try_files").map(|one| one.arguments.as_slice());
        if tried.is_some_and(|tried| !tried.iter().any(|file| file.ends_with('/'))) {
            table.key("index", "[]");
        }
        table.key("front_controller", toml_string(front));
    }
    route.push(table);
}

/// The route of a location for scripts.
fn scripts(
    pass: &Directive,
    scope: &Scope<'_>,
    (how, site): (&Match, &Site<'_>),
    route: &mut Section,
    account: &mut Account,
) {
    let mut table = Section::new("[site.route.php]");
    script_keys(pass, scope, &mut table, account);
    endings_key(how, &mut table);
    if let Some(tried) = scope.one("try_files") {
        let last = tried.arguments.last().map_or("", String::as_str);
        let front =
            last.split(['?', '$']).next().filter(|front| front.starts_with('/') && front.ends_with(".php"));
        match front {
            Some(_) => {
                account.translated(tried, &mut table);
                let front = front_target(tried, last, (how, site), &mut table, account);
                table.key("front_controller", toml_string(&front));
            }
            None => account.unneeded(tried, &mut table, "missing scripts are not passed to PHP"),
        }
    } else if let Some(front) = only_script(scope) {
        table.key("front_controller", toml_string(&front));
    }
    route.push(table);
}

fn script_keys(pass: &Directive, scope: &Scope<'_>, table: &mut Section, account: &mut Account) {
    backends(pass, scope, table, account);
    if let Some(index) = scope.one("index") {
        index_key(index, table);
    }
    parameters("fastcgi", scope, table, account);
    if let Some(time) = scope.one("fastcgi_read_timeout") {
        timeout(time, &["first_byte_timeout", "idle_timeout"], table, account);
    }
}

/// Writes the endings of the names of scripts, if there are others than `.php`.
fn endings_key(how: &Match, table: &mut Section) {
    let endings = how.endings();
    if endings != [".php"] {
        table.key("scripts", toml_strings(endings));
    }
}

fn index_key(index: &Directive, table: &mut Section) {
    table.key("index", toml_strings(index.arguments.iter().filter(|name| !name.contains(['/', '$']))));
}

fn program(
    kind: &'static str,
    pass: &Directive,
    scope: &Scope<'_>,
    route: &mut Section,
    account: &mut Account,
) {
    let mut table = Section::new(&format!("[site.route.{kind}]"));
    backends(pass, scope, &mut table, account);
    parameters(kind, scope, &mut table, account);
    if let Some(time) = scope.one(&format!("{kind}_read_timeout")) {
        timeout(time, &["first_byte_timeout", "idle_timeout"], &mut table, account);
    }
    route.push(table);
}

/// Writes where programs listen: an address, or the servers of an `upstream`.
fn backends(pass: &Directive, scope: &Scope<'_>, table: &mut Section, account: &mut Account) {
    let name = pass.argument(0);
    if name.contains('$') {
        return account.problem(pass, table, "an address has no variables");
    }
    account.translated(pass, table);
    let servers = scope.upstream(name);
    let addresses: Vec<String> = match &servers {
        Some(servers) => servers.iter().map(|server| server.argument(0).to_string()).collect(),
        None => vec![name.to_string()],
    };
    servers.iter().flatten().for_each(|server| account.translated(server, table));
    let addresses = addresses.iter().map(|address| {
        let address = address.trim_end_matches(':').replace("localhost:", "127.0.0.1:");
        if address.starts_with("unix:") || address.contains(':') {
            address
        } else {
            format!("{address}:9000")
        }
    });
    table.key("backends", toml_strings(addresses));
}

/// `proxy_hide_header` and similar directives: a field that is removed from answers.
pub fn hide(directive: &Directive, section: &mut Section, account: &mut Account) {
    account.translated(directive, section);
    section.entry("headers", directive.argument(0), toml_string(""));
}

fn timeout(directive: &Directive, keys: &[&str], table: &mut Section, account: &mut Account) {
    match value::seconds(directive.argument(0)) {
        Some(seconds @ 1..=86_400) => {
            account.translated(directive, table);
            keys.iter().for_each(|key| table.key(key, toml_string(&format!("{seconds}s"))));
        }
        _ => account.problem(directive, table, "a time from a second to a day"),
    }
}

/// `proxy_pass` and related directives.
fn proxy(
    pass: &Directive,
    how: &Match,
    scope: &Scope<'_>,
    site: &Site<'_>,
    route: &mut Section,
    account: &mut Account,
) {
    let mut table = Section::new("[site.route.proxy]");
    let is_grpc = pass.name == "grpc_pass";
    let url = pass.argument(0).replace("grpc://", "http://").replace("grpcs://", "https://");
    let (url, of_variables) = match url.contains('$') {
        false => (url.as_str(), None),
        true => match with_variables(&url, how, site) {
            Ok((address, path)) => (address, Some(path)),
            Err(advice) => return account.problem(pass, route, &advice),
        },
    };
    let Some((scheme, rest)) = url.split_once("://") else {
        return account.problem(pass, route, "an origin is an address with http:// or https://");
    };
    account.translated(pass, &mut table);
    let (host, uri) = match rest.strip_prefix("unix:") {
        Some(socket) => {
            let (socket, uri) = socket.split_once(':').unwrap_or((socket, ""));
            (format!("unix:{socket}"), uri)
        }
        None => match rest.find('/') {
            Some(at) => (rest[..at].to_string(), &rest[at..]),
            None => (rest.to_string(), ""),
        },
    };
    let replaced = match of_variables {
        None => match PathReplacement::of(uri, how) {
            // The address of a socket has no path.
            PathReplacement::Segments if host.starts_with("unix:") && uri != "/" => {
                PathReplacement::Bytes(format!("{}${{1}}", written(uri)))
            }
            replaced => replaced,
        },
        Some(path) if path == "$path" => PathReplacement::Nothing,
        Some(path) => {
            table.note("With a variable in the address nginx sends this path for all requests.");
            PathReplacement::Bytes(path)
        }
    };
    if replaced == PathReplacement::Refused {
        let advice = "nginx has no path here: the expression of a location is not replaced";
        account.problem(pass, &mut table, advice);
    }
    let base = if replaced == PathReplacement::Segments { uri.trim_end_matches('/') } else { "" };
    let origin = |host: &str| match host.starts_with("unix:") {
        true => host.to_string(),
        false => format!("{scheme}://{host}{base}"),
    };
    let servers = scope.upstream(&host);
    servers.iter().flatten().for_each(|server| account.translated(server, &mut table));
    let origins: Vec<String> = match &servers {
        Some(servers) => servers.iter().map(|server| upstream_origin(server, &origin)).collect(),
        None => vec![origin(&host)],
    };
    table.key("to", if origins.len() == 1 { toml_string(&origins[0]) } else { toml_strings(&origins) });
    match (&replaced, how) {
        (PathReplacement::Segments, Match::Prefix { path, .. }) if path.len() > 1 => {
            table.key("strip_prefix", toml_string(path.trim_end_matches('/')));
        }
        (PathReplacement::Bytes(path), _) => table.key("path", toml_string(path)),
        _ => {}
    }
    if is_grpc {
        table.key("version", toml_string("2"));
    }
    fields(scope, &site.language(), &mut table, account);
    let times = [
        ("proxy_read_timeout", &["response_timeout", "idle_timeout"][..]),
        ("proxy_connect_timeout", &["connect_timeout"][..]),
        ("proxy_send_timeout", &["send_timeout"][..]),
    ];
    for (name, keys) in times {
        if let Some(directive) = scope.one(name) {
            timeout(directive, keys, &mut table, account);
        }
    }
    locations_and_cookies(scope, &mut table, account);
    if let PathReplacement::Bytes(_) = replaced {
        let path = match how {
            Match::Prefix { path, .. } | Match::Exact(path) if !uri.is_empty() => Some(path.as_str()),
            _ => None,
        };
        own_addresses(&origins, uri, path, &mut table);
    }
    scope.all("proxy_hide_header").into_iter().for_each(|directive| hide(directive, route, account));
    for directive in scope.all("proxy_pass_header") {
        account.unneeded(directive, &mut table, "fields are passed on unless they are removed");
    }
    route.push(table);
}

/// Writes what becomes of the origin's own address in redirects if it is followed by the path that replaces
/// that of the location; `path`: that of the location, if redirects are rewritten.
fn own_addresses(origins: &[String], uri: &str, path: Option<&str>, table: &mut Section) {
    let is_default = table.has("rewrite_location");
    table.remove("rewrite_location");
    let Some(path) = path.filter(|_| is_default) else { return };
    for origin in origins.iter().filter_map(|origin| origin.split(' ').next()) {
        table.entry("location_prefixes", &format!("{origin}{uri}"), toml_string(path));
    }
}

/// `proxy_redirect`, `proxy_cookie_path` and `proxy_cookie_domain`.
fn locations_and_cookies(scope: &Scope<'_>, table: &mut Section, account: &mut Account) {
    let redirects = scope.all("proxy_redirect");
    if redirects.is_empty() {
        table.note("nginx rewrites the origin's address in 'Location'.");
        table.key("rewrite_location", true);
    }
    for directive in redirects {
        match (directive.argument(0), directive.argument(1)) {
            ("off", _) => account.translated(directive, table),
            ("default", _) => {
                account.translated(directive, table);
                table.key("rewrite_location", true);
            }
            (from, to) if !from.starts_with('~') && !from.contains('$') => {
                let to = to.replace("$scheme://$host:$server_port", "").replace("$scheme://$host", "");
                let to = to.replace("$scheme://$http_host", "");
                match to.contains('$') || to.is_empty() {
                    true => account.problem(directive, table, "an address has no variables here"),
                    false => {
                        account.translated(directive, table);
                        table.entry("location_prefixes", from, toml_string(&to));
                    }
                }
            }
            _ => account.problem(directive, table, "only a prefix can be replaced, not an expression"),
        }
    }
    for (name, key) in [("proxy_cookie_path", "cookie_paths"), ("proxy_cookie_domain", "cookie_domains")] {
        for directive in scope.all(name) {
            match (directive.argument(0), directive.argument(1)) {
                ("off", _) => account.translated(directive, table),
                (from, to) if !from.starts_with('~') && !from.contains('$') && !to.contains(['$', ';']) => {
                    account.translated(directive, table);
                    table.entry(key, from, toml_string(to));
                }
                _ => {
                    account.problem(directive, table, "only a fixed value can be replaced, not an expression")
                }
            }
        }
    }
}

fn upstream_origin(server: &Directive, origin: &impl Fn(&str) -> String) -> String {
    let address = server.argument(0).replace("localhost:", "127.0.0.1:").replace("unix:///", "unix:/");
    let mut text = origin(&address);
    for word in &server.arguments[1..] {
        if word == "backup" || word.starts_with("weight=") {
            text.push(' ');
            text.push_str(word);
        }
    }
    text
}

/// `proxy_set_header`: origins get most of the usual fields anyway.
fn fields(scope: &Scope<'_>, language: &Language<'_>, table: &mut Section, account: &mut Account) {
    let mut forward = Section::new("[site.route.proxy.forward]");
    let mut sets_host = false;
    for directive in scope.all("proxy_set_header") {
        let (name, text) = (directive.argument(0), directive.argument(1));
        match (name.to_ascii_lowercase().as_str(), text) {
            ("host", "$host" | "$http_host") => {
                sets_host = true;
                account.unneeded(directive, table, "origins get the host that the client asked for");
            }
            ("host", "$server_name") => {
                sets_host = true;
                let advice = "origins get the host that the client asked for: name only this one in 'hosts' \
                              of the site";
                account.problem(directive, table, advice);
            }
            ("host", text) if text.contains('$') && text != "$proxy_host" => {
                sets_host = true;
                let advice = "origins get the host that the client asked for, with its port";
                account.problem(directive, table, advice);
            }
            ("host", "$proxy_host") => account.translated(directive, table),
            ("host", text) if is_host_of_origin(scope, text) => account.translated(directive, table),
            ("host", text) if !text.contains('$') => {
                let advice = "an origin gets the host that the client asked for, or with 'host = \"origin\"' \
                              that of its address: write this name in 'to'";
                account.problem(directive, table, advice);
            }
            (name, text) if is_of_client(name, text) => {
                account.unneeded(directive, table, "origins get the client's address (docs/proxy.md)");
            }
            ("upgrade" | "connection", _) => account.unneeded(directive, table, "WebSocket passes"),
            ("proxy", "") => account.unneeded(directive, table, "the field is not passed to origins"),
            (_, "") => {
                account.translated(directive, &mut forward);
                let removed: Vec<&str> = scope
                    .all("proxy_set_header")
                    .into_iter()
                    .filter(|other| {
                        other.argument(1).is_empty() && !other.argument(0).eq_ignore_ascii_case("proxy")
                    })
                    .map(|other| other.argument(0))
                    .collect();
                forward.key("remove", toml_strings(removed));
            }
            (_, text) if text.contains('$') => match from_authority(scope, name, text) {
                Some(FromAuthority::Field) => {
                    account.unneeded(directive, table, "'fields' of 'forward_auth' passes it on");
                }
                Some(FromAuthority::User) => {
                    account.translated(directive, &mut forward);
                    forward.entry("set", name, toml_string("${user}"));
                }
                Some(FromAuthority::Renamed(field)) => {
                    let advice = format!("origins get the field {field} of the authority under its own name");
                    account.problem(directive, table, &advice);
                }
                None => variable_field(directive, language, &mut forward, table, account),
            },
            (_, text) => {
                account.translated(directive, &mut forward);
                forward.entry("set", name, toml_string(text));
            }
        }
    }
    if !sets_host {
        table.note("nginx gives origins their own host by default.");
        table.key("host", toml_string("origin"));
    }
    if !forward.is_empty() {
        table.push(forward);
    }
}

/// Whether a field describes the client as the fields do that origins get anyway.
fn is_of_client(name: &str, text: &str) -> bool {
    match name {
        "x-real-ip" | "x-forwarded-for" => text.is_empty() || text.contains('$'),
        "x-forwarded-proto" => matches!(text, "" | "$scheme" | "$http_x_forwarded_proto"),
        "x-forwarded-host" => {
            matches!(text, "" | "$host" | "$http_host" | "$host:$server_port" | "$http_x_forwarded_host")
        }
        "x-forwarded-port" | "x-forwarded-server" | "x-forwarded-ssl" | "forwarded" => text.is_empty(),
        _ => false,
    }
}

/// Whether this is the host in the address of the origin.
fn is_host_of_origin(scope: &Scope<'_>, host: &str) -> bool {
    let address = scope.one("proxy_pass").and_then(|pass| pass.argument(0).split_once("://"));
    let authority = address.map(|(_, rest)| rest.split('/').next().unwrap_or_default());
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

/// A field with variables.
fn variable_field(
    directive: &Directive,
    language: &Language<'_>,
    forward: &mut Section,
    table: &mut Section,
    account: &mut Account,
) {
    match language.text(directive.argument(1)) {
        Ok(text) => {
            account.translated(directive, forward);
            forward.entry("set", directive.argument(0), toml_string(&text));
        }
        Err(advice) => account.problem(directive, table, &advice),
    }
}
