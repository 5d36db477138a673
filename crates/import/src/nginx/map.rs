//! `map` as `[[map]]`.

use super::language::{Language, variables};
use super::scope::Scope;
use crate::account::Account;
use crate::directive::Directive;
use crate::expression;
use crate::output::Section;
use crate::toml_text::{toml_string, toml_strings};

/// The maps of these blocks that become `[[map]]`.
pub fn maps<'d>(scope: &Scope<'d>) -> Vec<&'d Directive> {
    scope.all("map").into_iter().filter(|map| is_translated(map)).collect()
}

/// The names of the variables that they give values to.
pub fn names<'d>(scope: &Scope<'d>) -> Vec<&'d str> {
    maps(scope).into_iter().filter_map(name).collect()
}

/// Whether it becomes a map: what WebSocket needs is done without one.
pub fn is_translated(map: &Directive) -> bool {
    map.argument(0) != "$http_upgrade" && name(map).is_some()
}

fn name(map: &Directive) -> Option<&str> {
    map.argument(1).strip_prefix('$').filter(|name| !name.is_empty())
}

/// Translates them, each after those that it uses.
pub fn sections(scope: &Scope<'_>, account: &mut Account) -> Vec<Section> {
    let mut left = maps(scope);
    let mut known: Vec<&str> = Vec::new();
    let mut sections = Vec::new();
    while !left.is_empty() {
        let position = left.iter().position(|map| !uses_one_of(map, &left)).unwrap_or(0);
        let map = left.remove(position);
        sections.push(section(map, &known, account));
        known.extend(name(map));
    }
    sections
}

/// Whether a map has a variable to which another one of these gives its value.
fn uses_one_of(map: &Directive, maps: &[&Directive]) -> bool {
    let values = map.inside().iter().flat_map(|entry| &entry.arguments).map(String::as_str);
    let mut used = values.chain([map.argument(0)]).flat_map(variables);
    used.any(|used| maps.iter().any(|other| !std::ptr::eq(*other, map) && name(other) == Some(used)))
}

fn section(map: &Directive, known: &[&str], account: &mut Account) -> Section {
    let mut section = Section::new("[[map]]");
    account.translated(map, &mut section);
    let language = Language { maps: known.to_vec(), ..Language::default() };
    section.key("name", toml_string(name(map).unwrap_or_default()));
    match language.text(map.argument(0)) {
        Ok(from) => section.key("from", toml_string(&from)),
        Err(advice) => {
            account.problem(map, &mut section, &advice);
            section.key("from", toml_string(""));
        }
    }
    // As in nginx, where only expressions without an asterisk look at the case.
    section.key("ignore_case", true);
    let has_hosts = map.inside().iter().any(|entry| entry.name == "hostnames" && entry.arguments.is_empty());
    let mut patterns = Vec::new();
    for entry in map.inside() {
        if let Err(advice) = add(entry, has_hosts, &language, &mut section, &mut patterns) {
            account.problem(entry, &mut section, &advice);
        } else {
            account.translated(entry, &mut section);
        }
    }
    if !patterns.is_empty() {
        section.key("patterns", toml_strings(&patterns));
    }
    section.notes_first();
    section
}

fn add(
    entry: &Directive,
    has_hosts: bool,
    language: &Language<'_>,
    section: &mut Section,
    patterns: &mut Vec<String>,
) -> Result<(), String> {
    let (key, value) = (entry.name.as_str(), entry.argument(0));
    match (key, entry.arguments.len()) {
        ("hostnames" | "volatile", 0) => return Ok(()),
        ("include", 1) => {
            section.key("file", toml_string(value));
            return Ok(());
        }
        _ => {}
    }
    if let Some(expression) = key.strip_prefix("~*").or_else(|| key.strip_prefix('~')) {
        expression::check_groups(expression)?;
        let groups = expression.split("(?<").skip(1).filter_map(|rest| rest.split_once('>'));
        let language = Language {
            maps: language.maps.clone(),
            groups: groups.map(|(name, _)| name).collect(),
            has_groups: true,
            ..Language::default()
        };
        patterns.push(format!("{} {}", in_quotes(key), in_quotes(&language.text(value)?)));
        return Ok(());
    }
    let value = language.text(value)?;
    if key == "default" {
        section.key("default", toml_string(&value));
        return Ok(());
    }
    if has_hosts && let Some(begin) = key.strip_suffix(".*") {
        let expression = format!("~*^{}\\.", expression::literal(begin));
        patterns.push(format!("{} {}", in_quotes(&expression), in_quotes(&value)));
        return Ok(());
    }
    if has_hosts && let Some(below) = key.strip_prefix('.') {
        section.entry("values", below, toml_string(&value));
        section.entry("values", &format!("*.{below}"), toml_string(&value));
        return Ok(());
    }
    let key = key.strip_prefix('\\').unwrap_or(key);
    let has_meaning =
        key == "default" || key.starts_with(['~', '\\', '#']) || key.starts_with('*') && !has_hosts;
    let key = if has_meaning { format!("\\{key}") } else { key.to_string() };
    section.entry("values", &key, toml_string(&value));
    Ok(())
}

fn in_quotes(text: &str) -> String {
    let is_bare = !text.is_empty() && !text.contains([' ', '\t', ';', '"', '\'', '#']);
    match is_bare {
        true => text.to_string(),
        false if text.contains('"') => format!("'{}'", text.replace('\'', "\\'")),
        false => format!("\"{text}\""),
    }
}

#[cfg(test)]
mod tests {
    use crate::nginx::{parse, translate};

    #[test]
    fn a_map_becomes_a_map() {
        let imported = translate(
            &parse(
                "nginx.conf",
                "http { map $http_upgrade $connection { default upgrade; '' close; }\n\
                 map $app$arg_x $upper { ~*^(?<name>w.*)$ \"is $name\"; }\n\
                 map $host $app { hostnames; default web; .example.org wiki; shop.* shop; *.a.org $uri; }\n\
                 map $status $loggable { ~^[23] 0; default 1; }\n\
                 map $uri $new { /old /new; ~^/(?!a) /x; }\n\
                 server { listen 80; access_log /var/log/a.log combined if=$loggable;\n\
                 add_header X-App \"$app at $server_name\" always;\n\
                 if ($new) { return 301 $new; }\n\
                 location / { proxy_pass http://127.0.0.1:3000; proxy_set_header X-App $app;\n\
                 proxy_cache one; proxy_cache_key $scheme$host$uri$cookie_currency;\n\
                 proxy_cache_bypass $cookie_preview $arg_nocache;\n\
                 proxy_no_cache $cookie_preview $arg_nocache;\n\
                 if ($http_user_agent ~* bot) { return 403; } } } }",
            )
            .unwrap(),
        );
        for line in [
            "name = \"app\"",
            "from = \"${host}\"",
            "default = \"web\"",
            "values = { \"*.a.org\" = \"${path}\", \"*.example.org\" = \"wiki\", \
             \"example.org\" = \"wiki\" }",
            "patterns = [\"~*^shop\\\\. shop\"]",
            "from = \"${map{app}}${arg{x}}\"",
            "patterns = [\"~*^(?<name>w.*)$ \\\"is ${name}\\\"\"]",
            "when = \"$map{loggable}\"",
            "headers = { X-App = \"${map{app}} at localhost\" }",
            "when = \"$map{new}\"",
            "redirect = { to = \"${map{new}}?\", status = 301 }",
            "set = { X-App = \"${map{app}}\" }",
            "ignore_query = true",
            "key = \"${cookie{currency}}\"",
            "bypass = \"$cookie{preview} or $arg{nocache}\"",
            "when = \"$header{user-agent} =~ '(?i)bot'\"",
        ] {
            assert!(imported.text.lines().any(|written| written == line), "{line}\n{}", imported.text);
        }
        let places: Vec<String> = imported.problems.iter().map(|problem| problem.place.to_string()).collect();
        assert_eq!(places, ["nginx.conf:5"], "{}", imported.text);
        let (app, upper) = (imported.text.find("name = \"app\""), imported.text.find("name = \"upper\""));
        assert!(app.unwrap() < upper.unwrap());
    }
}
