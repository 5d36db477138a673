//! What answers in an area: another server, PHP, CGI or files, and the settings around it.

use std::collections::BTreeMap;

use super::access;
use super::area::{Area, is};
use super::environment::Environment;
use super::origin::{Backend, PathForOrigin, Reverse};
use super::overrides::REFUSED;
use super::refused;
use super::rewrite::Missing;
use super::variant::suffixes_of;
use touchstone_import_base::account::Account;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::expression;
use touchstone_import_base::files::is_file;
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::{toml_string, toml_strings};

/// What runs PHP scripts.
pub struct Php<'d> {
    /// The address of php-fpm; `None`: the server starts PHP itself.
    pub backend: Option<String>,
    /// The directive that sets it.
    pub line: Option<&'d Directive>,
    /// The endings of the names of scripts, with their dots; `.php` is the first.
    pub endings: Vec<String>,
}

impl Php<'_> {
    /// Writes the address or the number of processes.
    pub fn write(&self, table: &mut Section) {
        if let Some(line) = self.line {
            table.note(line.to_string());
        }
        match &self.backend {
            Some(backend) => table.key("backends", toml_strings([backend])),
            None => {
                table.note(
                    "Apache ran PHP itself; here the server starts it. As root it needs: user = \"www-data\"",
                );
                table.key("processes", 8);
            }
        }
        if self.endings.len() > 1 {
            table.key("scripts", toml_strings(&self.endings));
        }
    }

    /// An expression for the endings of scripts, and of files that often are scripts.
    pub fn any_ending(&self) -> String {
        let others = self.endings.iter().skip(1).map(|ending| format!("|{}", expression::literal(ending)));
        format!("(?i:\\.ph(?:p[0-9]*|tml|ar){})", others.collect::<String>())
    }
}

/// What is known about an area besides its sections.
#[derive(Clone, Copy)]
pub struct Answer<'a, 'd> {
    /// The `ProxyPass` for this path.
    pub proxy: Option<&'a Backend<'d>>,
    /// What becomes of origins' addresses in their answers.
    pub reverse: &'a Reverse<'d>,
    /// The `ScriptAlias` with this path: the directory of programs.
    pub programs: Option<&'d Directive>,
    /// The `Alias` with this path.
    pub alias: Option<&'d Directive>,
    /// What runs PHP scripts.
    pub php: Option<&'a Php<'d>>,
    /// The script for paths that are not files.
    pub missing: Option<&'a Missing>,
    /// The origin for paths that are not files.
    pub missing_origin: Option<&'a str>,
    /// Clients use HTTPS.
    pub is_secure: bool,
    /// Routes with more conditions, each with the script for paths that are not files.
    pub missing_if: &'a [(Section, Missing)],
}

/// Writes the route of an area; the keys for its paths are already there.
pub fn write(
    area: &Area<'_>,
    answer: &Answer<'_, '_>,
    environment: &Environment<'_>,
    route: &mut Section,
    account: &mut Account,
) {
    if !area.every(REFUSED).is_empty() {
        return route.key("respond", "{ status = 500 }");
    }
    for line in area.every("SSLRequireSSL") {
        account.translated(line, route);
        if !answer.is_secure {
            return route.key("respond", "{ status = 403 }");
        }
    }
    if access::write(area, environment, route, account) || redirect(area, route, account) {
        return;
    }
    fields(area, route, account);
    if let Some(backend) = answer.proxy {
        return proxy(area, backend, answer.reverse, route, account);
    }
    if let Some(programs) = answer.programs {
        account.translated(programs, route);
        let directory = toml_string(programs.argument(1).trim_end_matches('/'));
        route.key("cgi", format!("{{ directory = {directory} }}"));
        return;
    }
    files(area, route, account);
    webdav(area, route, account);
    if let Some(origin) = answer.missing_origin {
        route.key("try_files", toml_strings(["$path"]));
        let mut table = Section::new("[site.route.proxy]");
        table.key("to", toml_string(origin));
        route.push(table);
        return;
    }
    let fallback = area.one("FallbackResource").filter(|one| one.argument(0) != "disabled");
    if let Some(fallback) = fallback {
        account.translated(fallback, route);
    }
    let of_fallback = fallback.map(|one| Missing::plain(one.argument(0)));
    let missing = answer.missing.or(of_fallback.as_ref());
    if let Some(alias) = answer.alias {
        account.translated(alias, route);
        if is_file(alias.argument(0), alias.argument(1)) {
            // One file under another path.
            let (directory, name) = alias.argument(1).rsplit_once('/').unwrap_or(("", alias.argument(1)));
            route.key("path", toml_string(alias.argument(0)));
            route.key("root", toml_string(if directory.is_empty() { "/" } else { directory }));
            route.key("try_files", toml_strings([format!("/{name}")]));
            return;
        }
        let directory = alias.argument(1).trim_end_matches('/');
        route.key("alias", toml_string(directory));
        if !route.has("path") {
            // Beside the expression of a part of the area.
            route.key("path", toml_string(&area.path));
        }
        match (answer.php, route.has("when")) {
            (Some(php), false) => {
                route.note("Scripts below an alias are never sent as files.");
                route.key("when", toml_string(&format!("not ($path =~ '{}(/|$)')", php.any_ending())));
            }
            (Some(_), true) => {
                route.note("Scripts below an alias must not be sent as files: write a route for the others.");
                route.remove("alias");
                route.key("respond", "{ status = 403 }");
            }
            (None, _) => {}
        }
        if let Some(missing) = missing.filter(|_| answer.php.is_none()) {
            route.key("fallback", toml_string(missing.path()));
        }
        return;
    }
    match (answer.php, missing) {
        (Some(found), _) => {
            let mut table = Section::new("[site.route.php]");
            found.write(&mut table);
            if let Some(index) = area.one("DirectoryIndex") {
                table.key("index", toml_strings(&index.arguments));
            }
            if let Some(missing) = missing {
                let target = missing.target_in(&area.path, route);
                if target.is_none() {
                    table
                        .note("The script gets no parameters here: write them with the groups of 'pattern'.");
                }
                let target = target.unwrap_or_else(|| missing.path().to_string());
                table.key("front_controller", toml_string(&target));
            }
            route.push(table);
        }
        (None, Some(page)) => route.key("try_files", toml_strings(["$path", "$path/", page.path()])),
        (None, None) => {}
    }
}

/// The directory that contains an alias's target under the alias's own path, so that scripts are found in it;
/// `None`: there is none.
pub fn root_of_alias<'d>(answer: &Answer<'_, 'd>) -> Option<&'d str> {
    let alias = answer.alias.filter(|_| answer.php.is_some())?;
    let directory = alias.argument(1).trim_end_matches('/');
    let root = directory.strip_suffix(alias.argument(0).trim_end_matches('/'))?;
    Some(if root.is_empty() { "/" } else { root })
}

/// Translates the value of a field to a text of this server's language: `%{SSL_PROTOCOL}s`, `%%`.
fn text(value: &str) -> Result<String, String> {
    const NAMES: [(&str, &str); 10] = [
        ("SSL_PROTOCOL", "tls_version"),
        ("SSL_CIPHER", "tls_cipher"),
        ("SSL_TLS_SNI", "tls_server_name"),
        ("SSL_CLIENT_S_DN", "tls_subject"),
        ("SSL_CLIENT_VERIFY", "tls_verified"),
        ("REMOTE_ADDR", "client"),
        ("REMOTE_USER", "user"),
        ("REQUEST_METHOD", "method"),
        ("HTTP_HOST", "header{host}"),
        ("UNIQUE_ID", "request_id"),
    ];
    let mut out = String::new();
    let mut rest = value;
    while let Some(at) = rest.find(['$', '%']) {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if rest.as_bytes()[at] == b'$' {
            out.push_str("$$");
            rest = after;
        } else if let Some(after) = after.strip_prefix('%') {
            out.push('%');
            rest = after;
        } else if let Some((name, after)) = after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            let known = NAMES.iter().find(|(other, _)| *other == name);
            let known = known.ok_or_else(|| format!("the variable '%{{{name}}}' has no counterpart here"))?;
            out.push_str(&format!("${{{}}}", known.1));
            rest = after.strip_prefix(['s', 'e']).unwrap_or(after);
        } else {
            return Err("a field of an answer can only contain variables in braces".to_string());
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// Writes `Header` and `ExpiresDefault`.
fn fields(area: &Area<'_>, route: &mut Section, account: &mut Account) {
    for directive in area.every("Header") {
        let words = &directive.arguments;
        let begin =
            usize::from(words.first().is_some_and(|word| matches!(word.as_str(), "always" | "onsuccess")));
        let action = words.get(begin).map_or("", String::as_str).to_ascii_lowercase();
        let name = words.get(begin + 1).map_or("", |name| name.trim_end_matches(':'));
        let value = words.get(begin + 2).map_or("", String::as_str);
        let has_condition = words.get(begin + 3).is_some();
        match action.as_str() {
            _ if name.eq_ignore_ascii_case("content-encoding") => {
                account.problem(directive, route, "the server sets this field; it finds '.gz' files itself");
            }
            "unset" if !has_condition => {
                account.translated(directive, route);
                route.entry("headers", name, toml_string(""));
            }
            "set" | "append" | "add" | "merge" | "setifempty" if !has_condition => match text(value) {
                Ok(value) => {
                    account.translated(directive, route);
                    let value: Vec<&str> = value.split_whitespace().collect();
                    route.entry("headers", name, toml_string(&value.join(" ")));
                }
                Err(advice) => account.problem(directive, route, &advice),
            },
            _ => {
                account.problem(directive, route, "a field of an answer has one fixed value for all requests")
            }
        }
    }
    let is_active = area.one("ExpiresActive").is_some_and(|one| one.argument(0).eq_ignore_ascii_case("on"));
    if let Some(active) = area.one("ExpiresActive") {
        account.translated(active, route);
    }
    if let (Some(default), true) = (area.one("ExpiresDefault"), is_active) {
        match seconds(&default.arguments.join(" ")) {
            Some(seconds) => {
                account.translated(default, route);
                route.key("cache_control", toml_string(&format!("max-age={seconds}")));
            }
            None => account.problem(default, route, "write the time as 'cache_control'"),
        }
    }
}

/// The times of `ExpiresByType` with the endings of the files, the most specific types as they are written.
pub fn by_type<'d>(
    area: &Area<'d>,
    answer: &Answer<'_, '_>,
    notes: &mut Section,
    account: &mut Account,
) -> BTreeMap<u64, (Vec<&'static str>, Vec<&'d Directive>)> {
    let mut found: BTreeMap<u64, (Vec<&'static str>, Vec<&'d Directive>)> = BTreeMap::new();
    let is_active = area.one("ExpiresActive").is_some_and(|one| one.argument(0).eq_ignore_ascii_case("on"));
    let is_of_files = answer.proxy.is_none() && answer.programs.is_none();
    for directive in area.every("ExpiresByType") {
        if !is_active {
            account.unneeded(directive, notes, "ExpiresActive is off");
            continue;
        }
        if !is_of_files {
            account.unneeded(directive, notes, "it is for files; origins and programs say how long");
            continue;
        }
        let time = seconds(&directive.arguments.get(1..).unwrap_or_default().join(" "));
        match (suffixes_of(directive.argument(0)), time) {
            (Some(suffixes), Some(seconds)) => {
                // The last line of a type counts.
                found.values_mut().for_each(|(others, _)| others.retain(|one| !suffixes.contains(one)));
                let (all, lines) = found.entry(seconds).or_default();
                all.extend(suffixes);
                lines.push(directive);
            }
            (None, _) => account.problem(
                directive,
                notes,
                "write a route with the 'suffixes' of this type and 'cache_control'",
            ),
            (_, None) => account.problem(directive, notes, "write the time as 'cache_control' of a route"),
        }
    }
    found.retain(|_, (suffixes, _)| !suffixes.is_empty());
    found
}

/// `Redirect [STATUS] URL` without a path, in a section for paths or of a condition.
fn redirect(area: &Area<'_>, route: &mut Section, account: &mut Account) -> bool {
    let sections = area.sections.iter().rev().copied();
    let line = sections
        .filter(|one| !is(one, "Directory") && !is(one, "Server"))
        .find_map(|section| section.inside().iter().find(|one| is(one, "Redirect")));
    let Some(line) = line else { return false };
    let (status, to) = match line.arguments.as_slice() {
        [to] if to.contains('/') => (302, Some(to)),
        [status] => (refused::status_of(status).unwrap_or(0), None),
        [status, to] => (refused::status_of(status).unwrap_or(0), Some(to)),
        _ => (0, None),
    };
    match (status, to) {
        (301 | 302 | 303 | 307 | 308, Some(to)) if !to.contains(['%', '$']) => {
            account.translated(line, route);
            route.key("redirect", format!("{{ to = {}, status = {status} }}", toml_string(to)));
        }
        (400..=599, None) => {
            account.translated(line, route);
            route.key("respond", format!("{{ status = {status} }}"));
        }
        _ => {
            account.problem(line, route, "write it as 'redirect' of a route (docs/routes.md)");
            return false;
        }
    }
    true
}

/// `Dav On`
fn webdav(area: &Area<'_>, route: &mut Section, account: &mut Account) {
    let Some(dav) = area.one("Dav") else { return };
    account.translated(dav, route);
    if !dav.argument(0).eq_ignore_ascii_case("on") {
        if !dav.argument(0).eq_ignore_ascii_case("off") {
            account.problem(dav, route, "files are on the disk: see 'webdav' (docs/webdav.md)");
        }
        return;
    }
    let mut table = Section::new("[site.route.webdav]");
    table.key("write", true);
    if !["allow", "basic_authentication"].iter().any(|key| route.has(key))
        && !route.has_section("[site.route.login]")
    {
        table.note("Apache asks for neither a password nor an address: every client may write.");
        table.key("open", true);
    }
    if let Some(depth) = area.one("DavDepthInfinity") {
        account.translated(depth, &mut table);
        if depth.argument(0).eq_ignore_ascii_case("on") {
            table.key("infinite_depth", true);
        }
    }
    route.push(table);
}

/// Parses `access plus 1 month` or `A2592000`.
fn seconds(text: &str) -> Option<u64> {
    if let Some(number) = text.strip_prefix('A') {
        return number.parse().ok();
    }
    let mut words = text.split_whitespace().skip_while(|word| matches!(*word, "access" | "now" | "plus"));
    let mut sum = 0u64;
    while let Some(number) = words.next() {
        let number: u64 = number.parse().ok()?;
        let unit = match words.next()?.trim_end_matches('s') {
            "second" => 1,
            "minute" => 60,
            "hour" => 3_600,
            "day" => 86_400,
            "week" => 604_800,
            "month" => 2_592_000,
            "year" => 31_536_000,
            _ => return None,
        };
        sum = sum.checked_add(number.checked_mul(unit)?)?;
    }
    Some(sum)
}

/// `DirectoryIndex`, `Options Indexes`.
fn files(area: &Area<'_>, route: &mut Section, account: &mut Account) {
    if let Some(index) = area.one("DirectoryIndex") {
        account.translated(index, route);
        let names: Vec<&String> =
            index.arguments.iter().filter(|name| !name.contains('/') && !name.ends_with(".php")).collect();
        if !names.is_empty() {
            route.key("index", toml_strings(names));
        }
    }
    let (mut is_listed, mut includes) = (false, None);
    for options in area.every("Options") {
        account.translated(options, route);
        if options.arguments.iter().any(|word| !word.starts_with(['+', '-'])) {
            // A list without signs replaces what the sections around it say.
            (is_listed, includes) = (false, None);
        }
        for word in &options.arguments {
            match word.to_ascii_lowercase().as_str() {
                "indexes" | "+indexes" | "all" | "+all" => is_listed = true,
                "-indexes" => is_listed = false,
                "none" | "-all" => (is_listed, includes) = (false, None),
                "execcgi" | "+execcgi" => {
                    account.problem(options, route, "name the directory of programs: 'cgi' of a route");
                }
                "includes" | "+includes" => includes = Some(true),
                "includesnoexec" | "+includesnoexec" => includes = Some(false),
                "-includes" | "-includesnoexec" => includes = None,
                _ => {}
            }
        }
    }
    if let Some(exec) = includes {
        route.key("includes", format!("{{ exec = {exec} }}"));
    }
    if is_listed {
        route.key("listing", toml_string("html"));
    }
}

/// `ProxyPass`
fn proxy(
    area: &Area<'_>,
    backend: &Backend<'_>,
    reverse: &Reverse<'_>,
    route: &mut Section,
    account: &mut Account,
) {
    let mut table = Section::new("[site.route.proxy]");
    let mut forward = Section::new("[site.route.proxy.forward]");
    backend.lines.iter().for_each(|line| account.translated(line, &mut table));
    let (base, path) = backend.path_for_origin(&area.path);
    let spare = |origin: &str| if backend.is_spare(origin) { " backup" } else { "" };
    let of_path = |origin: &String| format!("{origin}{base}{}", spare(origin));
    let origins: Vec<String> = backend.origins.iter().map(of_path).collect();
    match origins.as_slice() {
        [one] => table.key("to", toml_string(one)),
        several => table.key("to", toml_strings(several)),
    }
    match path {
        PathForOrigin::Unchanged => {}
        PathForOrigin::Stripped(prefix) => table.key("strip_prefix", toml_string(&prefix)),
        // The groups of the expression would be in the place of the rest of the path.
        PathForOrigin::Written(_) if route.has("pattern") => {
            if let Some(line) = backend.lines.first() {
                let advice = "write 'path' of 'proxy' for the requests of this expression; they are refused";
                account.problem(line, route, advice);
            }
            return route.key("respond", "{ status = 403 }");
        }
        PathForOrigin::Written(path) => table.key("path", toml_string(&path)),
    }
    reverse.write(&mut table, account);
    let keeps_host =
        area.one("ProxyPreserveHost").is_some_and(|one| one.argument(0).eq_ignore_ascii_case("on"));
    match area.one("ProxyPreserveHost") {
        Some(one) => account.translated(one, &mut table),
        None => table.note("Apache gives origins their own host by default."),
    }
    if !keeps_host {
        table.key("host", toml_string("origin"));
    }
    for directive in area.every("RequestHeader") {
        let words = &directive.arguments;
        let (action, name) = (directive.argument(0).to_ascii_lowercase(), directive.argument(1));
        let value = directive.argument(2);
        let is_of_proxies =
            name.to_ascii_lowercase().starts_with("x-forwarded-") || name.eq_ignore_ascii_case("x-real-ip");
        match action.as_str() {
            "set" | "add" if is_of_proxies => {
                account.unneeded(directive, &mut table, "origins get the client's address (docs/proxy.md)");
            }
            "set" | "add" if words.len() == 3 => match text(value) {
                Ok(value) => {
                    account.translated(directive, &mut forward);
                    forward.entry("set", name, toml_string(&value));
                }
                Err(advice) => account.problem(directive, &mut table, &advice),
            },
            "unset" => {
                account.translated(directive, &mut forward);
                let removed = area.every("RequestHeader");
                let removed = removed.iter().filter(|one| one.argument(0).eq_ignore_ascii_case("unset"));
                forward.key("remove", toml_strings(removed.map(|one| one.argument(1))));
            }
            _ => account.problem(directive, &mut table, "a field for an origin has one fixed value"),
        }
    }
    if let Some(time) =
        backend.timeout.or(area.one("ProxyTimeout").and_then(|one| one.argument(0).parse().ok()))
    {
        table.key("response_timeout", toml_string(&format!("{}s", time.clamp(1, 86_400))));
    }
    if !forward.is_empty() {
        table.push(forward);
    }
    route.push(table);
}

/// Whether a section for file names covers only names that are never served: those that begin with a dot.
pub fn is_of_hidden_names(section: &Directive) -> bool {
    let named = section.arguments.last().map_or("", String::as_str);
    let is_hidden = match is(section, "Files") && section.arguments.len() == 1 {
        true => named.starts_with('.'),
        false => begins_with_dot(named),
    };
    let inside = section.inside();
    is_hidden
        && inside.iter().all(|one| {
            (is(one, "Require") && one.argument(1).eq_ignore_ascii_case("denied"))
                || ["order", "deny", "satisfy"].iter().any(|name| is(one, name))
        })
}

/// Whether each name that an expression matches begins with a dot: `^\.ht`, `^(\.env|\.git)`.
fn begins_with_dot(expression: &str) -> bool {
    let is_dot = |text: &str| {
        let rest = text.strip_prefix("\\.").or(text.strip_prefix("[.]"));
        rest.is_some_and(|rest| !rest.starts_with(['?', '*', '{']))
    };
    let is_hidden = |part: &&str| {
        let Some(rest) = part.strip_prefix('^') else { return false };
        let group = rest.strip_prefix('(').map(|inside| inside.strip_prefix("?:").unwrap_or(inside));
        match group {
            // The group must not be optional, and must have no others in it: not `^(\.(a|b))`.
            Some(inside) if !inside.starts_with('?') => {
                let Some((inside, after)) = inside.split_once(')') else { return false };
                !inside.contains('(')
                    && !after.starts_with(['?', '*', '{'])
                    && expression::alternatives(inside).into_iter().all(is_dot)
            }
            Some(_) => false,
            None => is_dot(rest),
        }
    };
    expression::alternatives(expression).iter().all(is_hidden)
}

#[cfg(test)]
mod tests {
    use super::{begins_with_dot, seconds, text};

    #[test]
    fn values_of_fields() {
        assert_eq!(text("%{SSL_PROTOCOL}s 100%% 5$").unwrap(), "${tls_version} 100% 5$$");
        assert!(text("%t").is_err() && text("%{NONE}e").unwrap_err().contains("NONE"));
    }

    #[test]
    fn expressions_for_hidden_names() {
        for hidden in ["^\\.ht", "^[.]", "^\\.env$|^\\.git", "^(\\.env|\\.git.*)$", "^(?:\\.a)"] {
            assert!(begins_with_dot(hidden), "{hidden}");
        }
        for other in [
            "^(\\.env|composer\\.json)$",
            "^\\.|\\.bak$",
            "^\\.?env",
            "^[.]*env",
            "^(\\.env)?x",
            "^(\\.(a|b)|c)",
            "\\.ht",
            ".html$",
            "^(?!\\.a)",
        ] {
            assert!(!begins_with_dot(other), "{other}");
        }
    }

    #[test]
    fn times() {
        for (text, expected) in [
            ("access plus 1 month", Some(2_592_000)),
            ("access plus 1 day 2 hours", Some(93_600)),
            ("A60", Some(60)),
            ("modification plus 1 day", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
