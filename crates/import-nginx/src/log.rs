//! Translates `access_log`, `error_log` and `log_format`.

use super::language::{Language, UpToVariable, first_variable};
use super::map;
use super::scope::Scope;
use touchstone_import_base::account::Account;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::toml_string;

/// `access_log` and `error_log` of a block, as keys of a site or route.
pub fn own_logs(block: &[Directive], scope: &Scope<'_>, section: &mut Section, account: &mut Account) {
    for key in ["access_log", "error_log"] {
        let mut table = Section::new(&format!("[{}.{key}]", below(section)));
        let mut is_off = false;
        for directive in block.iter().filter(|directive| directive.name == key) {
            is_off |= directive.argument(0) == "off";
            log(directive, scope, &mut table, account);
        }
        if is_off {
            // A key, not a section of its own. The section's own `path` is that of its requests.
            section.key(key, toml_string("off"));
            section.take_notes(table);
        } else if table.has("path") {
            section.push(table);
        } else {
            section.take_notes(table);
        }
    }
}

fn below(section: &Section) -> &'static str {
    if section.is_site() { "site" } else { "site.route" }
}

/// Translates one of these directives to keys of a log's section.
pub fn log(directive: &Directive, scope: &Scope<'_>, section: &mut Section, account: &mut Account) {
    if section.has("path") && directive.argument(0) != "off" {
        return account.problem(directive, section, "a site or route has only one log of each kind");
    }
    let target = directive.argument(0);
    let path = match target {
        "off" => "off".to_string(),
        "/dev/stdout" => "stdout".to_string(),
        "/dev/stderr" | "stderr" => "stderr".to_string(),
        // nginx has no such level; this setting turns the log off.
        "/dev/null" => "off".to_string(),
        _ if target.starts_with("syslog:") => match syslog(target, section) {
            Some(path) => path,
            None => return account.problem(directive, section, "write one syslog server (docs/logs.md)"),
        },
        _ if target.contains('$') => {
            return account.problem(directive, section, "the name of a file has no variables");
        }
        path => path.to_string(),
    };
    let (mut format, mut level, mut when) = (None, None, None);
    for word in &directive.arguments[1.min(directive.arguments.len())..] {
        match word.as_str() {
            "combined" => {}
            _ if directive.name == "error_log" => level = level_of(word),
            // Lines are always written in blocks here.
            _ if word.starts_with("buffer=") || word.starts_with("flush=") => {}
            _ if word.starts_with("if=") => {
                let language = Language { maps: map::names(scope), ..Language::default() };
                match language.any_of([&word["if=".len()..]]) {
                    Ok(condition) => when = Some(condition),
                    Err(advice) => return account.problem(directive, section, &advice),
                }
            }
            _ if word.contains('=') => {
                return account.problem(directive, section, "this server writes its logs differently");
            }
            name => match format_of(name, scope) {
                Ok(text) => format = Some(text),
                Err(advice) => return account.problem(directive, section, &advice),
            },
        }
    }
    account.translated(directive, section);
    section.key("path", toml_string(&path));
    if let Some(format) = format {
        section.key("format", toml_string(&format));
    }
    if let Some(when) = when {
        section.key("when", toml_string(&when));
    }
    if let Some(level) = level {
        section.key("level", toml_string(level));
    }
}

fn level_of(word: &str) -> Option<&'static str> {
    match word {
        "debug" => Some("debug"),
        "info" | "notice" => Some("info"),
        "warn" => Some("warning"),
        "error" | "crit" | "alert" | "emerg" => Some("error"),
        _ => None,
    }
}

/// `syslog:server=unix:/dev/log,facility=local7,tag=nginx`; UDP unless the server is a socket's path.
fn syslog(target: &str, section: &mut Section) -> Option<String> {
    let mut path = None;
    for setting in target.strip_prefix("syslog:")?.split(',') {
        match setting.split_once('=') {
            Some(("server", server)) => {
                path = Some(match server.strip_prefix("unix:") {
                    Some(socket) => format!("syslog:{socket}"),
                    None if server.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) => {
                        format!("syslog:udp:{server}")
                    }
                    None => format!("syslog:udp:{server}:514"),
                });
            }
            Some((name @ ("facility" | "tag"), value)) => section.key(name, toml_string(value)),
            // Requests are logged as information; messages have their own level.
            Some(("severity", _)) | None => {}
            Some(_) => return None,
        }
    }
    path
}

/// The format with this name, as a line with this server's variables.
fn format_of(name: &str, scope: &Scope<'_>) -> Result<String, String> {
    let formats = scope.all("log_format");
    let Some(format) = formats.into_iter().find(|format| format.argument(0) == name) else {
        return Err(format!("no log_format is named '{name}'"));
    };
    let texts: Vec<&str> = format.arguments[1..]
        .iter()
        .map(String::as_str)
        .filter(|text| !text.starts_with("escape="))
        .collect();
    line(&texts.concat())
}

/// Converts a line of nginx to one with this server's variables.
pub fn line(text: &str) -> Result<String, String> {
    const NAMES: [(&str, &str); 27] = [
        ("remote_addr", "client"),
        ("realip_remote_addr", "client"),
        ("remote_user", "user"),
        ("time_local", "time"),
        ("time_iso8601", "time_rfc3339"),
        ("msec", "time_unix"),
        ("request", "request"),
        ("request_method", "method"),
        ("request_uri", "target"),
        ("uri", "path"),
        ("document_uri", "path"),
        ("args", "query"),
        ("query_string", "query"),
        ("server_protocol", "protocol"),
        ("status", "status"),
        ("body_bytes_sent", "body_bytes"),
        ("bytes_sent", "body_bytes"),
        ("request_time", "duration"),
        ("http_referer", "referer"),
        ("http_user_agent", "user_agent"),
        ("http_host", "host"),
        ("host", "host"),
        ("server_name", "site"),
        ("request_id", "request_id"),
        ("ssl_protocol", "tls_version"),
        ("ssl_cipher", "tls_cipher"),
        ("upstream_cache_status", "cache"),
    ];
    let mut out = String::new();
    let mut rest = text;
    while let Some(UpToVariable { plain, name, rest: after, .. }) = first_variable(rest) {
        out.push_str(plain);
        rest = after;
        let known = NAMES.iter().find(|(other, _)| *other == name).map(|(_, here)| format!("${{{here}}}"));
        let field = || {
            let field = name.strip_prefix("http_").filter(|field| !field.is_empty())?;
            Some(format!("$header{{{}}}", field.replace('_', "-")))
        };
        match known.or_else(field) {
            Some(variable) => out.push_str(&variable),
            None => return Err(format!("log lines do not support the variable '${name}' (docs/logs.md)")),
        }
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use crate::{parse, translate};

    fn text(configuration: &str) -> (String, usize) {
        let imported = translate(&parse("nginx.conf", configuration).unwrap());
        (imported.text, imported.problems.len())
    }

    #[test]
    fn logs_of_servers_and_locations() {
        let (text, problems) = text(
            "http { log_format main '$remote_addr - $remote_user [$time_local] \"$request\" '\n\
             '$status \"$http_x_forwarded_for\"';\n\
             access_log /var/log/a.log main;\n\
             server { listen 80; root /srv; \n\
             access_log syslog:server=unix:/dev/log,facility=local7,tag=shop;\n\
             error_log /var/log/e.log warn;\n\
             location = /favicon.ico { access_log off; log_not_found off; } } }",
        );
        assert_eq!(problems, 0, "{text}");
        for line in [
            "format = \"${client} - ${user} [${time}] \\\"${request}\\\" ${status} \
             \\\"$header{x-forwarded-for}\\\"\"",
            "[site.access_log]",
            "path = \"syslog:/dev/log\"",
            "facility = \"local7\"",
            "tag = \"shop\"",
            "[site.error_log]",
            "level = \"warning\"",
            "access_log = \"off\"",
        ] {
            assert!(text.lines().any(|written| written == line), "{line}\n{text}");
        }
    }

    #[test]
    fn what_has_no_counterpart() {
        for line in
            ["access_log /a/$host.log;", "access_log /a.log none;", "access_log /a.log combined if=$x;"]
        {
            let (text, problems) = text(&format!("server {{ listen 80; root /srv; {line} }}"));
            assert_eq!(problems, 1, "{text}");
        }
    }
}
