//! Translates send rates, replaced texts, request rates and signed links.

use super::language::{UpToVariable, first_variable};
use super::scope::Scope;
use super::value;
use touchstone_import_base::account::Account;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::{toml_string, toml_strings};

/// The directives that [`delivery`] handles.
pub const DIRECTIVES: [&str; 12] = [
    "limit_rate",
    "limit_rate_after",
    "limit_req",
    "sub_filter",
    "sub_filter_once",
    "sub_filter_types",
    "sub_filter_last_modified",
    "secure_link",
    "secure_link_md5",
    "client_body_timeout",
    "send_timeout",
    "limit_req_status",
];

/// Writes the keys of a server or location block that has such directives.
pub fn delivery(block: &[Directive], scope: &Scope<'_>, section: &mut Section, account: &mut Account) {
    let own = Scope::new(block);
    for name in ["limit_rate", "limit_rate_after"] {
        if let Some(directive) = own.one(name) {
            match value::bytes(directive.argument(0)) {
                Some(bytes) => {
                    account.translated(directive, section);
                    section.key(name, value::size(bytes));
                }
                None => account.problem(directive, section, "a rate has no variables"),
            }
        }
    }
    let waits: Vec<&Directive> =
        ["client_body_timeout", "send_timeout"].iter().filter_map(|name| own.one(name)).collect();
    let longest = waits.iter().filter_map(|directive| value::seconds(directive.argument(0))).max();
    if let Some(seconds @ 1..=3_600) = longest {
        waits.iter().for_each(|directive| account.translated(directive, section));
        section.key("stall_timeout", toml_string(&format!("{seconds}s")));
    } else {
        for directive in waits {
            account.problem(directive, section, "'stall_timeout' is a time from a second to an hour");
        }
    }
    rate_limit(&own, scope, section, account);
    substitute(&own, scope, section, account);
    signed_link(&own, section, account);
}

/// `limit_req zone=NAME burst=N [nodelay|delay=M]`, with the `limit_req_zone` of that name.
fn rate_limit(own: &Scope<'_>, scope: &Scope<'_>, section: &mut Section, account: &mut Account) {
    if let Some(status) = own.one("limit_req_status") {
        account.unneeded(status, section, "the answer is 429 Too Many Requests");
    }
    let limits = own.all("limit_req");
    let Some((directive, others)) = limits.split_first() else { return };
    for other in others {
        account.problem(other, section, "a site or route has one rate limit");
    }
    let word = |name: &str| directive.arguments.iter().find_map(|word| word.strip_prefix(name));
    let zones = scope.all("limit_req_zone");
    let of_zone = |zone: &&Directive| {
        let own = zone.argument(1).strip_prefix("zone=").and_then(|zone| zone.split(':').next());
        own.is_some() && own == word("zone=")
    };
    let Some(zone) = zones.into_iter().find(of_zone) else {
        return account.problem(directive, section, "its limit_req_zone is not there");
    };
    let rate = zone.argument(2).strip_prefix("rate=").and_then(|rate| rate.split_once("r/"));
    let requests = rate.and_then(|(number, per)| Some((number.parse::<u64>().ok()?, per)));
    let (Some((requests, per @ ("s" | "m"))), Some(key)) = (requests, client_key(zone.argument(0))) else {
        return account.problem(directive, section, "write it as 'rate_limit' (docs/access.md)");
    };
    let number = |name: &str| word(name).and_then(|number| number.parse::<u64>().ok());
    let burst = number("burst=").unwrap_or_default();
    // nginx does not count the first request as part of the burst.
    let at_once = match directive.arguments.iter().any(|word| word == "nodelay") {
        true => burst,
        false => number("delay=").unwrap_or_default().min(burst),
    };
    account.translated(zone, section);
    account.translated(directive, section);
    let mut table = format!("requests = {requests}, per = \"1{per}\", burst = {}", at_once + 1);
    if burst > at_once {
        table.push_str(&format!(", delay = {}", burst - at_once));
    }
    if !key.is_empty() {
        table.push_str(&format!(", key = {}", toml_string(&key)));
    }
    section.key("rate_limit", format!("{{ {table} }}"));
}

/// The key of a limit; an empty text means the client's address.
fn client_key(text: &str) -> Option<String> {
    match text {
        "$binary_remote_addr" | "$remote_addr" => Some(String::new()),
        _ => request_text(text),
    }
}

/// Converts a text to one with request variables (docs/expressions.md); `None` if one has no counterpart.
pub fn request_text(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(UpToVariable { plain, name, is_closed, rest: after }) = first_variable(rest) {
        if !is_closed {
            return None;
        }
        out.push_str(plain);
        rest = after;
        let named = |prefix: &str, here: &str, replace: bool| {
            let name = name.strip_prefix(prefix).filter(|name| !name.is_empty())?;
            let name = if replace { name.replace('_', "-") } else { name.to_string() };
            Some(format!("${here}{{{name}}}"))
        };
        let plain = match name {
            "remote_addr" | "binary_remote_addr" => Some("${client}".to_string()),
            "uri" | "document_uri" => Some("${path}".to_string()),
            "host" | "http_host" => Some("${host}".to_string()),
            "args" | "query_string" => Some("${query}".to_string()),
            "request_method" => Some("${method}".to_string()),
            _ => None,
        };
        let known = plain
            .or_else(|| named("http_", "header", true))
            .or_else(|| named("cookie_", "cookie", false))
            .or_else(|| named("arg_", "arg", false));
        out.push_str(&known?);
    }
    out.push_str(rest);
    Some(out)
}

/// `sub_filter TEXT OTHER` and related directives.
fn substitute(own: &Scope<'_>, scope: &Scope<'_>, section: &mut Section, account: &mut Account) {
    let filters = own.all("sub_filter");
    let mut table =
        Section::new(if section.is_site() { "[site.substitute]" } else { "[site.route.substitute]" });
    for directive in &filters {
        let (text, other) = (directive.argument(0), directive.argument(1));
        if text.contains('$') || other.contains('$') {
            account.problem(directive, section, "the replaced text cannot contain variables");
            continue;
        }
        account.translated(directive, &mut table);
        table.entry("replace", text, toml_string(other));
    }
    // They may be in an enclosing block.
    let beside = |name: &str| if filters.is_empty() { own.one(name) } else { scope.one(name) };
    if let Some(once) = beside("sub_filter_once") {
        account.translated(once, &mut table);
        table.key("once", once.argument(0) != "off");
    }
    if let Some(types) = beside("sub_filter_types") {
        account.translated(types, &mut table);
        let all = types.arguments.iter().any(|kind| kind == "*");
        let kinds: Vec<&str> = match all {
            true => vec!["*"],
            false => std::iter::once("text/html").chain(types.arguments.iter().map(String::as_str)).collect(),
        };
        table.key("types", toml_strings(kinds));
    }
    if let Some(date) = beside("sub_filter_last_modified") {
        account.translated(date, &mut table);
        table.key("keep_validators", date.argument(0) == "on");
    }
    match table.has_entries("replace") {
        true => section.push(table),
        false => section.take_notes(table),
    }
}

/// `secure_link $arg_md5,$arg_expires` with `secure_link_md5 "...SECRET"`.
fn signed_link(own: &Scope<'_>, section: &mut Section, account: &mut Account) {
    let (Some(link), Some(made)) = (own.one("secure_link"), own.one("secure_link_md5")) else {
        for directive in own.all("secure_link").into_iter().chain(own.all("secure_link_md5")) {
            account.problem(
                directive,
                section,
                "'secure_link' and 'secure_link_md5' must be in the same block",
            );
        }
        return;
    };
    let mut parameters = link.argument(0).split(',').map(|text| text.trim().strip_prefix("$arg_"));
    let (Some(Some(signature)), expires) = (parameters.next(), parameters.next()) else {
        return account.problem(link, section, "the signature must be a parameter of the query");
    };
    let text = made.argument(0);
    // The text that is neither a variable nor a space is the secret.
    let secret = text
        .split('$')
        .enumerate()
        .map(|(index, part)| match index {
            0 => part,
            _ => part
                .trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '{' || c == '}'),
        })
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .max_by_key(|part| part.len())
        .unwrap_or_default();
    let translated = (!secret.is_empty()).then(|| {
        let text = text.replacen(secret, "\u{0}", 1).replace("$secure_link_expires", "\u{1}");
        request_text(&text).map(|text| text.replace('\u{0}', "$secret").replace('\u{1}', "$expires"))
    });
    let (Some(Some(text)), false) = (translated, matches!(expires, Some(None))) else {
        return account.problem(made, section, "write it as 'signed_link' (docs/access.md)");
    };
    account.translated(link, section);
    account.translated(made, section);
    section.note("Create the file with one line: the secret of the line above.");
    let expires = expires.flatten().unwrap_or_default();
    section.key(
        "signed_link",
        format!(
            "{{ secret_file = \"links.secret\", form = \"md5\", text = {}, signature = {}, expires = {} }}",
            toml_string(&text),
            toml_string(signature),
            toml_string(expires)
        ),
    );
}

/// Whether it is the `if` that refuses requests with an invalid link, which this server does anyway.
pub fn is_of_signed_link(directive: &Directive) -> bool {
    directive.name == "if"
        && directive.arguments.first().is_some_and(|word| word.trim_start_matches('(') == "$secure_link")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{parse, translate};

    fn imported(configuration: &str) -> (String, Vec<String>) {
        let imported = translate(&parse("nginx.conf", configuration).unwrap());
        (imported.text, imported.problems.iter().map(|problem| problem.advice.clone()).collect())
    }

    #[test]
    fn limits_filters_and_links() {
        let (text, problems) = imported(
            "http { limit_req_zone $binary_remote_addr zone=one:10m rate=10r/s;\n\
             limit_req_zone $http_x_api_key zone=two:10m rate=30r/m;\n\
             server { listen 80; root /srv; send_timeout 2m; limit_req zone=one burst=20 nodelay;\n\
             sub_filter_once off;\n\
             location /a/ { limit_rate_after 1m; limit_rate 100k; limit_req zone=one burst=12 delay=8; }\n\
             location /b/ { limit_req zone=two burst=5;\n\
             sub_filter 'one' 'two'; sub_filter_types text/css; }\n\
             location /s/ { secure_link $arg_md5,$arg_expires;\n\
             secure_link_md5 \"$secure_link_expires$uri$remote_addr secret\";\n\
             if ($secure_link = \"\") { return 403; } if ($secure_link = \"0\") { return 410; } } } }",
        );
        assert!(problems.is_empty(), "{problems:?}\n{text}");
        for line in [
            "stall_timeout = \"120s\"",
            "rate_limit = { requests = 10, per = \"1s\", burst = 21 }",
            "rate_limit = { requests = 10, per = \"1s\", burst = 9, delay = 4 }",
            "rate_limit = { requests = 30, per = \"1m\", burst = 1, delay = 5, \
             key = \"$header{x-api-key}\" }",
            "limit_rate = \"100KiB\"",
            "limit_rate_after = \"1MiB\"",
            "replace = { one = \"two\" }",
            "once = false",
            "types = [\"text/html\", \"text/css\"]",
            "signed_link = { secret_file = \"links.secret\", form = \"md5\", \
             text = \"$expires${path}${client} $secret\", signature = \"md5\", expires = \"expires\" }",
        ] {
            assert!(text.lines().any(|written| written == line), "{line}\n{text}");
        }
    }

    #[test]
    fn what_has_no_counterpart() {
        for line in [
            "limit_req zone=none burst=5;",
            "limit_rate $rate;",
            "sub_filter 'a' '$host';",
            "secure_link $cookie_a; secure_link_md5 \"x$uri\";",
        ] {
            let (text, problems) = imported(&format!("server {{ listen 80; root /srv; {line} }}"));
            assert!(!problems.is_empty(), "{text}");
        }
        assert_eq!(
            request_text("$http_x_a|${arg_b}|$cookie_c"),
            Some("$header{x-a}|$arg{b}|$cookie{c}".into())
        );
        assert_eq!(request_text("$limit"), None);
    }
}
