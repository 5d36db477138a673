//! Translates what servers and locations have in common: fields of answers, error pages, and which clients
//! are allowed.

use super::forward_auth;
use super::language::Language;
use super::scope::Scope;
use super::value;
use touchstone_import_base::account::Account;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::toml_string;

/// Whether `index` names a file that is not a script.
pub fn is_file_name(name: &str) -> bool {
    !name.ends_with(".php") && !name.contains(['/', '$'])
}

/// Writes fields of answers and their freshness; `is_files`: the route serves files.
pub fn headers(
    scope: &Scope<'_>,
    language: &Language<'_>,
    is_files: bool,
    section: &mut Section,
    account: &mut Account,
) {
    let mut cache_control: Vec<String> = Vec::new();
    if let Some(expires) = scope.one("expires") {
        match expires.argument(0) {
            "off" => account.translated(expires, section),
            "epoch" => {
                account.translated(expires, section);
                cache_control.push("no-cache".to_string());
            }
            "max" => {
                account.translated(expires, section);
                cache_control.push("max-age=315360000".to_string());
            }
            time => match (time.strip_prefix('-'), value::seconds(time.strip_prefix('+').unwrap_or(time))) {
                (Some(_), _) => {
                    account.translated(expires, section);
                    cache_control.push("no-cache".to_string());
                }
                (None, Some(seconds)) => {
                    account.translated(expires, section);
                    cache_control.push(format!("max-age={seconds}"));
                }
                (None, None) => {
                    account.problem(expires, section, "write the time as 'headers = { Cache-Control = ... }'")
                }
            },
        }
    }
    for directive in scope.all("add_header") {
        let (name, text) = (directive.argument(0), directive.argument(1));
        let of_server = ["content-length", "content-encoding", "transfer-encoding", "connection", "date"];
        if of_server.contains(&name.to_ascii_lowercase().as_str()) {
            account.unneeded(directive, section, "the server sets this field");
        } else if text == "$upstream_cache_status" {
            account.unneeded(directive, section, "'Cache-Status' has this information (RFC 9211)");
        } else if forward_auth::is_of_cookies(scope, name, text) {
            account.unneeded(directive, section, "cookies of the authority reach the client");
        } else if text.contains('$') {
            match language.text(text) {
                Ok(_) if is_files && name.eq_ignore_ascii_case("cache-control") => {
                    account.problem(
                        directive,
                        section,
                        "'cache_control' has no variables: write routes with 'when'",
                    );
                }
                Ok(text) => {
                    account.translated(directive, section);
                    section.entry("headers", name, toml_string(&text));
                }
                Err(advice) => account.problem(directive, section, &advice),
            }
        } else if name.eq_ignore_ascii_case("cache-control") {
            account.translated(directive, section);
            cache_control.push(text.to_string());
        } else {
            account.translated(directive, section);
            // nginx allows line breaks in values.
            let text: Vec<&str> = text.split_whitespace().collect();
            section.entry("headers", name, toml_string(&text.join(" ")));
        }
    }
    if cache_control.is_empty() {
        return;
    }
    let cache_control = toml_string(&cache_control.join(", "));
    // As in nginx, error answers do not have the field.
    match is_files {
        true => section.key("cache_control", cache_control),
        false => section.entry("headers", "Cache-Control", cache_control),
    }
}

/// Writes the pages for error answers.
pub fn error_pages(scope: &Scope<'_>, section: &mut Section, account: &mut Account) {
    for directive in scope.all("error_page") {
        if forward_auth::is_sign_in(directive) && forward_auth::asks(scope.innermost()) {
            // It is written with the question.
            continue;
        }
        let (page, statuses) =
            directive.arguments.split_last().map_or(("", &[][..]), |(page, rest)| (page, rest));
        let changes = statuses.iter().any(|status| status.starts_with('='));
        if changes || !page.starts_with('/') || page.ends_with(".php") || page.contains('$') {
            account.problem(
                directive,
                section,
                "an error page must be a file of the site, and keeps the status",
            );
            continue;
        }
        account.translated(directive, section);
        for status in statuses {
            section.entry("error_pages", status, toml_string(page));
        }
    }
}

/// Writes whether errors of programs and origins get these pages.
pub fn intercepts(scope: &Scope<'_>, section: &mut Section, account: &mut Account) {
    for name in ["fastcgi_intercept_errors", "proxy_intercept_errors", "uwsgi_intercept_errors"] {
        if let Some(directive) = scope.one(name) {
            account.translated(directive, section);
            if directive.argument(0) == "on" {
                section.key("intercept_errors", true);
            }
        }
    }
}

/// Writes `client_max_body_size` of a block.
pub fn body_limit(directive: &Directive, key: &str, section: &mut Section, account: &mut Account) {
    match value::bytes(directive.argument(0)) {
        Some(bytes) => {
            account.translated(directive, section);
            // In nginx 0 means no limit.
            let most = 1 << 40;
            section.key(key, value::size(if bytes == 0 { most } else { bytes.min(most) }));
        }
        None => account.problem(directive, section, "it is not a size"),
    }
}
