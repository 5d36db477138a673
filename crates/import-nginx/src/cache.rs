//! Translates `proxy_cache`, `fastcgi_cache` and related directives to the `cache` key of a route.

use super::language::{Language, variables};
use super::scope::Scope;
use super::value;
use touchstone_import_base::account::Account;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::toml_string;

/// How long a stale answer may be sent while a new one is fetched, if nginx is configured to do so.
const WHILE_UPDATING: &str = "10s";

/// How long a stale answer may be sent if the origin fails.
const IF_FAILING: &str = "24h";

/// The maximum number of seconds for which an answer may be fresh.
const MOST_SECONDS: u64 = 365 * 86_400;

/// The names of these directives without the part before their first `_`.
const NAMES: [&str; 13] = [
    "cache",
    "cache_valid",
    "cache_use_stale",
    "cache_key",
    "cache_lock",
    "cache_lock_timeout",
    "cache_lock_age",
    "cache_revalidate",
    "cache_background_update",
    "cache_min_uses",
    "cache_methods",
    "ignore_headers",
    "no_cache",
];

/// Whether a directive has one of these names.
pub fn is_of_cache(name: &str) -> bool {
    kind(name).is_some_and(|(_, rest)| NAMES.contains(&rest) || rest == "cache_bypass")
}

fn kind(name: &str) -> Option<(&str, &str)> {
    name.split_once('_').filter(|(kind, _)| ["proxy", "fastcgi", "uwsgi", "scgi"].contains(kind))
}

/// The cache of a location that passes requests on by `kind`.
pub fn cache(
    kind: &str,
    scope: &Scope<'_>,
    language: &Language<'_>,
    route: &mut Section,
    account: &mut Account,
) {
    let all = |name: &str| scope.all(&format!("{kind}_{name}"));
    let zone = all("cache").into_iter().next_back().filter(|zone| zone.argument(0) != "off");
    let mut table = Section::new("[site.route.cache]");
    // The directive that passes requests on may itself not be translated.
    let programs = ["proxy", "php", "fastcgi", "scgi", "uwsgi"];
    let has_program = programs.iter().any(|name| route.has_section(&format!("[site.route.{name}]")));
    let Some(zone) = zone.filter(|_| has_program) else {
        for name in NAMES.iter().copied().chain(["cache_bypass"]) {
            for directive in all(name) {
                account.unneeded(directive, route, "nothing is stored without a zone");
            }
        }
        return;
    };
    account.translated(zone, &mut table);
    for directive in all("cache_valid") {
        valid(directive, &mut table, account);
    }
    stale(&all("cache_use_stale"), &mut table, account);
    for directive in all("cache_key") {
        key(directive, language, &mut table, account);
    }
    for name in ["cache_lock", "cache_lock_timeout", "cache_lock_age"] {
        for directive in all(name) {
            account.unneeded(directive, &mut table, "requests for the same answer share one fetch");
        }
    }
    for name in ["cache_revalidate", "cache_background_update"] {
        for directive in all(name) {
            account.unneeded(directive, &mut table, "stale answers are validated in the background");
        }
    }
    let hides_cookies = scope
        .all(&format!("{kind}_hide_header"))
        .iter()
        .any(|hidden| hidden.argument(0).eq_ignore_ascii_case("set-cookie"));
    for directive in all("ignore_headers") {
        let is_of_cookies = directive.arguments.iter().all(|name| name.eq_ignore_ascii_case("set-cookie"));
        match is_of_cookies && hides_cookies {
            true => {
                account.translated(directive, &mut table);
                table.key("set_cookie", toml_string("remove"));
            }
            false => account.problem(
                directive,
                &mut table,
                "the fields of answers decide; see 'minimum_freshness' and 'set_cookie' of 'cache'",
            ),
        }
    }
    conditions(&all("cache_bypass"), &all("no_cache"), language, &mut table, account);
    for name in ["cache_min_uses", "cache_methods"] {
        for directive in all(name) {
            let advice = "it stores by the rules of RFC 9111, and no answer to one visitor for another \
                          (docs/accelerator.md)";
            account.problem(directive, &mut table, advice);
        }
    }
    table.notes_first();
    route.push(table);
}

/// `proxy_cache_key TEXT`: what it has beside the URL, which is a part of the key in any case.
fn key(directive: &Directive, language: &Language<'_>, table: &mut Section, account: &mut Account) {
    const OF_URL: [&str; 9] = [
        "scheme",
        "host",
        "http_host",
        "proxy_host",
        "server_name",
        "request_method",
        "document_uri",
        "is_args",
        "uri",
    ];
    let (mut has_path, mut has_query) = (false, false);
    let mut others = String::new();
    for name in variables(directive.argument(0)) {
        match name {
            "request_uri" => (has_path, has_query) = (true, true),
            "args" | "query_string" => has_query = true,
            name if OF_URL.contains(&name) => has_path |= matches!(name, "uri" | "document_uri"),
            name => match language.text(&format!("${name}")) {
                Ok(text) => {
                    others.push_str(if others.is_empty() { "" } else { " " });
                    others.push_str(&text);
                }
                Err(advice) => return account.problem(directive, table, &advice),
            },
        }
    }
    if !has_path {
        return account.problem(directive, table, "answers of different paths never share a key");
    }
    if has_query && others.is_empty() {
        return account.unneeded(directive, table, "the URL is the default key");
    }
    account.translated(directive, table);
    if !has_query {
        table.key("ignore_query", true);
    }
    if !others.is_empty() {
        table.key("key", toml_string(&others));
    }
}

/// `proxy_cache_bypass` and `proxy_no_cache`.
fn conditions(
    bypass: &[&Directive],
    no_cache: &[&Directive],
    language: &Language<'_>,
    table: &mut Section,
    account: &mut Account,
) {
    for (directives, key) in [(bypass, "bypass"), (no_cache, "no_store")] {
        for directive in directives {
            match language.any_of(directive.arguments.iter().map(String::as_str)) {
                Ok(condition) => {
                    account.translated(directive, table);
                    // With the same condition the answer is not stored either.
                    if key == "bypass" || !table.has_value("bypass", &toml_string(&condition)) {
                        table.key(key, toml_string(&condition));
                    }
                }
                Err(advice) => account.problem(directive, table, &advice),
            }
        }
    }
}

/// `proxy_cache_valid [STATUS ...] TIME`
fn valid(directive: &Directive, table: &mut Section, account: &mut Account) {
    let (time, statuses) = match directive.arguments.split_last() {
        Some((time, statuses)) => (time.as_str(), statuses),
        None => ("", &[][..]),
    };
    let Some(seconds) = value::seconds(time) else {
        return account.problem(directive, table, "it is not a time");
    };
    let time = toml_string(&format!("{}s", seconds.min(MOST_SECONDS)));
    let has = |wanted: &[&str]| statuses.iter().any(|status| wanted.contains(&status.as_str()));
    let keys = [
        ("default_freshness", statuses.is_empty() || has(&["200", "301", "302", "any"])),
        ("negative_freshness", has(&["404", "410", "any"])),
    ];
    if keys.iter().all(|(_, is_meant)| !is_meant) {
        return account.problem(directive, table, "such answers are stored if they say so");
    }
    account.translated(directive, table);
    for (key, _) in keys.iter().filter(|(_, is_meant)| *is_meant) {
        // A line for some statuses takes precedence over one for any status.
        if !table.has(key) {
            table.key(key, &time);
        }
    }
}

/// `proxy_cache_use_stale`: stale answers are not used by default.
fn stale(directives: &[&Directive], table: &mut Section, account: &mut Account) {
    let mut words: Vec<&str> = Vec::new();
    for directive in directives {
        account.translated(directive, table);
        words.extend(directive.arguments.iter().map(String::as_str));
    }
    let is_for_failures =
        words.iter().any(|word| matches!(*word, "error" | "timeout") || word.starts_with("http_5"));
    table.key("stale_if_error", toml_string(if is_for_failures { IF_FAILING } else { "0s" }));
    if words.contains(&"updating") {
        table.key("stale_while_revalidate", toml_string(WHILE_UPDATING));
    }
}

#[cfg(test)]
mod tests {
    use crate::{parse, translate};

    #[test]
    fn a_cache_becomes_that_of_the_route() {
        let imported = translate(
            &parse(
                "nginx.conf",
                "http { proxy_cache_path /var/cache/a keys_zone=one:10m max_size=1g;\n\
                 server { listen 80; root /srv;\n\
                 location / { proxy_pass http://127.0.0.1:3000; proxy_cache one;\n\
                 proxy_cache_valid 200 7d; proxy_cache_valid 410 24h; proxy_cache_valid any 1m;\n\
                 proxy_cache_use_stale error updating http_500; proxy_cache_lock on;\n\
                 proxy_cache_key $scheme$host$request_uri; add_header X-Cached $upstream_cache_status; }\n\
                 location /b/ { proxy_pass http://127.0.0.1:3000; proxy_cache one;\n\
                 proxy_cache_bypass $cookie_a; proxy_ignore_headers Set-Cookie Cache-Control; } } }",
            )
            .unwrap(),
        );
        for line in [
            "[site.route.cache]",
            "default_freshness = \"604800s\"",
            "negative_freshness = \"86400s\"",
            "stale_if_error = \"24h\"",
            "stale_while_revalidate = \"10s\"",
            "stale_if_error = \"0s\"",
            "bypass = \"$cookie{a}\"",
        ] {
            assert!(imported.text.lines().any(|written| written == line), "{line}\n{}", imported.text);
        }
        let places: Vec<String> = imported.problems.iter().map(|problem| problem.place.to_string()).collect();
        assert_eq!(places, ["nginx.conf:8"], "{}", imported.text);
    }
}
