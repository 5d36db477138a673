//! Rules for clients of areas, for rewrite rules that pass requests to another server or another path.
//!
//! Apache checks `<Location>`, `<Directory>` and `<Proxy>` for requests that a `RewriteRule` passes on, too.
//! Here the route of a rule is before those of areas and has no rules for clients. So a rule gets a route for
//! each area with such rules that its paths may be in.

use super::access;
use super::area::{Area, is};
use super::environment::Environment;
use super::origin::Backend;
use touchstone_import_base::account::Account;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::expression::quoted;
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::{text_of, toml_string};

const ACCESS: [&str; 5] = ["allow", "deny", "satisfy", "basic_authentication", "respond"];
const LOGIN: &str = "[site.route.login]";

/// The routes of rewrite rules, with those for the areas that restrict clients before them.
pub fn guarded(routes: Vec<Section>, areas: &[Section]) -> Vec<Section> {
    let guards = guards(areas);
    let mut out = Vec::new();
    for route in routes {
        if passes_on(&route) {
            out.extend(guards.iter().filter_map(|guard| within(&route, guard)));
        }
        out.push(route);
    }
    out
}

/// Restricts routes to other servers as the `<Proxy>` sections say.
pub fn restrict_origins(
    routes: &mut [Section],
    scope: &[&Directive],
    environment: &Environment<'_>,
    account: &mut Account,
) {
    let sections: Vec<&Directive> = scope.iter().copied().filter(|section| is_of_proxies(section)).collect();
    let area = Area { path: "/".to_string(), directory: None, sections };
    for route in routes.iter_mut().filter(|route| route.has_section("[site.route.proxy]")) {
        let mut found = Section::new("");
        access::write(&area, environment, &mut found, account);
        if found.has("respond") {
            refuse(route);
        } else if !["allow", "deny"].iter().any(|key| route.has(key)) {
            copy_access(&found, route);
        }
    }
}

/// The `<Proxy>` sections for the origins of a backend.
pub fn proxies_of<'d>(backend: &Backend<'_>, scope: &[&'d Directive]) -> Vec<&'d Directive> {
    let is_for = |section: &&&'d Directive| {
        let named = section.argument(0);
        let begin = named.split('*').next().unwrap_or_default();
        is_of_proxies(section)
            && (is(section, "ProxyMatch")
                || named == "~"
                || backend.lines.iter().any(|line| std::ptr::eq(*line, **section))
                || backend.origins.iter().any(|origin| overlap(begin, &format!("{origin}/"))))
    };
    scope.iter().filter(is_for).copied().collect()
}

fn is_of_proxies(section: &Directive) -> bool {
    is(section, "Proxy") || is(section, "ProxyMatch")
}

/// Whether a rule passes its requests to another server or another path.
fn passes_on(route: &Section) -> bool {
    route.has("rewrite") || route.has_section("[site.route.proxy]")
}

/// The routes of areas that count: those that restrict clients, and those within them that do not.
fn guards(areas: &[Section]) -> Vec<&Section> {
    let is_needed = |(index, area): (usize, &Section)| {
        let path = path(area);
        let later = || areas[index + 1..].iter().filter(|later| path.starts_with(&self::path(later)));
        // The route of the area itself has the same rules for clients.
        !area.has("suffixes") && (restricts(area) || later().any(restricts))
    };
    let needed: Vec<bool> = areas.iter().enumerate().map(is_needed).collect();
    areas.iter().zip(needed).filter(|(_, needed)| *needed).map(|(area, _)| area).collect()
}

fn restricts(area: &Section) -> bool {
    ACCESS.iter().any(|key| area.has(key)) || area.has_section(LOGIN)
}

fn path(route: &Section) -> String {
    route.value("path").and_then(text_of).unwrap_or_else(|| "/".to_string())
}

/// The route of a rule for the requests of an area; `None`: the rule has none of these.
fn within(route: &Section, area: &Section) -> Option<Section> {
    let area_path = path(area);
    let begin = match route.value("pattern").and_then(text_of) {
        Some(pattern) => literal_beginning(&pattern),
        None => path(route),
    };
    if !overlap(&begin, &area_path) {
        return None;
    }
    let mut guarded = route.clone();
    if !(route.has("path") && begin.starts_with(&area_path)) && area_path != "/" {
        guarded.key("path", toml_string(&area_path));
    }
    guarded.take_conditions(area);
    let pattern = area.value("pattern").and_then(text_of).map(|pattern| quoted(&format!("^(?:{pattern})$")));
    let when = area.value("when").and_then(text_of);
    // What cannot be said refuses more.
    let is_clear = pattern.as_ref().is_none_or(Result::is_ok) && !route.has("when");
    if let Some(Ok(pattern)) = &pattern {
        guarded.and_when(&format!("$path =~ {pattern}"));
    }
    if let Some(when) = when.filter(|_| is_clear) {
        guarded.and_when(&when);
    }
    if let Some(methods) = area.value("methods").filter(|_| is_clear) {
        guarded.and_when(&format!("$method in {}", methods.replace('"', "'")));
    }
    match area.has("respond") || !is_clear {
        true => refuse(&mut guarded),
        false => copy_access(area, &mut guarded),
    }
    Some(guarded)
}

fn copy_access(from: &Section, to: &mut Section) {
    for key in ACCESS {
        if let Some(value) = from.value(key) {
            to.key(key, value);
        }
    }
    if let Some(login) = from.section(LOGIN) {
        to.push(login.clone());
    }
}

fn refuse(route: &mut Section) {
    route.remove("rewrite");
    route.remove_sections();
    route.key("respond", "{ status = 403 }");
}

/// Whether paths with one beginning may have the other, too.
fn overlap(one: &str, other: &str) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// The text with which all matches of an expression for whole paths begin, as far as that is easy to see.
fn literal_beginning(pattern: &str) -> String {
    if pattern.contains('|') {
        return String::new();
    }
    let end = pattern.find(|c: char| "\\.+*?()[]{}^$|".contains(c)).unwrap_or(pattern.len());
    let begin = &pattern[..end];
    // The last character may be optional.
    match pattern[end..].starts_with(['*', '?', '{']) {
        true => begin.char_indices().last().map_or("", |(at, _)| &begin[..at]).to_string(),
        false => begin.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(path: &str, keys: &[(&str, &str)]) -> Section {
        let mut section = Section::new("[[site.route]]");
        section.key("path", toml_string(path));
        keys.iter().for_each(|(key, value)| section.key(key, *value));
        section
    }

    fn rule(pattern: &str) -> Section {
        let mut section = Section::new("[[site.route]]");
        section.key("pattern", toml_string(pattern));
        let mut origin = Section::new("[site.route.proxy]");
        origin.key("to", "\"http://a\"");
        section.push(origin);
        section
    }

    fn text(routes: &[Section]) -> String {
        let mut text = String::new();
        routes.iter().for_each(|route| route.write(&mut text));
        text
    }

    #[test]
    fn a_rule_keeps_the_restrictions_of_areas() {
        let areas = [
            area("/admin/public/", &[]),
            area("/admin/", &[("pattern", "\"/x(.*)\""), ("respond", "{ status = 403 }")]),
            area("/admin/", &[("allow", "[\"10.0.0.0/8\"]")]),
            area("/other/", &[]),
            area("/", &[]),
        ];
        let routes = guarded(vec![rule("/(.*)")], &areas);
        assert_eq!(routes.len(), 4);
        let written = text(&routes);
        let public = "pattern = \"/(.*)\"\npath = \"/admin/public/\"\n\n[site.route.proxy]";
        let refused = "path = \"/admin/\"\nrespond = { status = 403 }\nwhen = \"$path =~ '^(?:/x(.*))$'\"";
        let admin = "path = \"/admin/\"\nallow = [\"10.0.0.0/8\"]\n\n[site.route.proxy]";
        for part in [public, refused, admin] {
            assert!(written.contains(part), "{part}\n{written}");
        }
        assert_eq!(guarded(vec![rule("/app/(.*)")], &areas).len(), 1, "its paths are not in these areas");
        assert_eq!(guarded(vec![rule("/adm.*|/b")], &areas).len(), 4, "they may be");
        let mut redirect = area("/", &[("redirect", "{ to = \"/x\" }")]);
        redirect.remove("path");
        assert_eq!(guarded(vec![redirect], &areas).len(), 1);
    }

    #[test]
    fn what_cannot_be_said_is_refused() {
        let odd = area("/a/", &[("pattern", "\"/a/['\\\"]\""), ("allow", "[\"10.0.0.0/8\"]")]);
        let routes = guarded(vec![rule("/(.*)")], &[odd]);
        assert!(routes[0].has("respond") && !routes[0].has_section("[site.route.proxy]"));
    }

    #[test]
    fn beginnings_of_expressions() {
        for (pattern, expected) in [
            ("/(.*)", "/"),
            ("/app/x", "/app/x"),
            ("/apps?/x", "/app"),
            ("/a|/b", ""),
            ("(?i)/a", ""),
            ("/a\\.b", "/a"),
        ] {
            assert_eq!(literal_beginning(pattern), expected, "{pattern}");
        }
    }
}
