//! Converts `{uri}` and other placeholders to variables of this server.

use super::context::{Context, name_of};
use touchstone_import_base::expression::{converted, whole_path};
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::toml_string;

/// Converts the target of a redirect or a rewrite. In a redirect Caddy keeps the query of the request only if
/// the target has its placeholder; this server, and a rewrite of Caddy, keep it unless the target has a `?`.
///
/// # Errors
/// The name of the placeholder that has no counterpart.
pub fn template(text: &str, context: &Context, is_rewrite: bool) -> Result<String, String> {
    let text = resolved(text, context);
    let mut out = String::new();
    let mut keeps_query = is_rewrite;
    let mut rest = text.as_str();
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at].replace('$', "$$"));
        let end = rest[at..].find('}').ok_or("a '}' is missing")?;
        let name = name_of(&rest[at + 1..at + end]);
        rest = &rest[at + end + 1..];
        match name.as_str() {
            "host" | "hostport" => out.push_str("$host"),
            "scheme" => out.push_str(if context.is_secure { "https" } else { "http" }),
            "path" | "uri.path" => out.push_str("${path}"),
            "uri" | "orig_uri" | "orig_uri.path" if rest.is_empty() && !out.contains(['?', '#']) => {
                keeps_query |= !name.ends_with("path");
                out.push_str("$path");
            }
            "query" | "uri.query" if out.ends_with('?') && rest.is_empty() => {
                out.pop();
                keeps_query = true;
            }
            "query" | "uri.query" if out.contains('?') => out.push_str("${query}"),
            "uri" | "orig_uri" | "orig_uri.path" | "query" | "uri.query" => return Err(unknown(&name)),
            _ => out.push_str(&value_in_target(&name, &out, context)?),
        }
    }
    out.push_str(&rest.replace('$', "$$"));
    if !keeps_query && !out.contains('?') {
        match out.find('#') {
            Some(at) => out.insert(at, '?'),
            None => out.push('?'),
        }
    }
    Ok(out)
}

/// A placeholder in a target, of which this part is written.
fn value_in_target(name: &str, written: &str, context: &Context) -> Result<String, String> {
    let is_in_name = written.split_once("://").is_some_and(|(_, rest)| !rest.contains(['/', '?']));
    let table = context.table(name);
    if is_in_name && table.is_none_or(|table| table.values.is_none()) {
        return Err(format!(
            "'{{{name}}}' would let a client choose the server of a redirect; write a route for each name"
        ));
    }
    if let Some(table) = table {
        let may_stand = is_in_name || written.is_empty() || table.is_path || written.contains('?');
        return match may_stand {
            true => Ok(format!("${{map{{{}}}}}", table.name)),
            false => Err(format!("values of '{{{name}}}' have '?', '#' or '%', which are escaped in a path")),
        };
    }
    if let Some(group) = name.strip_prefix("re.") {
        let (of, group) = group.rsplit_once('.').unwrap_or(("", group));
        let expression = context.regexp(of).and_then(|regexp| whole_path(&regexp.expression, false).ok());
        if expression.is_some() && expression == context.expression && group != "0" {
            return Ok(format!("${{{group}}}"));
        }
    }
    Ok(format!("${{{}}}", variable(name, context)?))
}

fn unknown(name: &str) -> String {
    match name {
        _ if name.starts_with("vars.") => format!("no 'vars' of the site sets '{{{name}}}'"),
        _ if name.starts_with('$') => "replace the environment variable by its value".to_string(),
        _ if name.starts_with("env.") || name.starts_with("file.") && name.contains('/') => {
            format!("'{{{name}}}' is read when Caddy runs: write its value")
        }
        _ => format!("the placeholder '{{{name}}}' has no counterpart here"),
    }
}

/// A text in which the placeholders that `vars` sets are replaced by their texts.
pub fn resolved(text: &str, context: &Context) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((at, name, after)) = next_placeholder(rest) {
        out.push_str(&rest[..at]);
        match context.value(&name_of(name)) {
            Some(value) if !context.is_condition || !context.is_unset(&name_of(name)) => out.push_str(value),
            _ => out.push_str(&rest[at..rest.len() - after.len()]),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The names of the placeholders of a text.
pub fn names(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, name, after)) = next_placeholder(rest) {
        found.push(name_of(name));
        rest = after;
    }
    found
}

/// A text that has no placeholders but those of `vars`.
///
/// # Errors
/// The text has placeholders.
pub fn plain(text: &str, context: &Context) -> Result<String, String> {
    let text = resolved(text, context);
    match names(&text).into_iter().find(|name| !context.is_unset(name)) {
        Some(name) if name.starts_with(['$']) || name.starts_with("env.") => Err(unknown(&name)),
        Some(name) => {
            Err(format!("'{{{name}}}' has no counterpart in this value: it is the same for all requests"))
        }
        None => Ok(text),
    }
}

/// `{path} /index.html`: a name that ends in a slash means a directory.
///
/// # Errors
/// A name has another placeholder.
pub fn tried(files: &[String]) -> Result<Vec<String>, String> {
    files
        .iter()
        .map(|file| {
            let file = file.replace("{http.request.uri.path}", "{path}").replace("{path}", "$path");
            let file = file.split('?').next().unwrap_or_default().to_string();
            match file.contains('{') || file.starts_with('=') {
                true => Err("'{path}' is the only placeholder in names of files".to_string()),
                false if file.starts_with(['/', '$']) => Ok(file),
                false => Ok(format!("/{file}")),
            }
        })
        .collect()
}

/// A value of a field, as a text of this server's language.
///
/// # Errors
/// The placeholder that has no counterpart.
pub fn text(value: &str, context: &Context) -> Result<String, String> {
    let value = resolved(value, context);
    let mut out = String::new();
    let mut rest = value.as_str();
    while let Some((at, name, after)) = next_placeholder(rest) {
        out.push_str(&rest[..at].replace('$', "$$"));
        let name = name_of(name);
        match context.is_unset(&name) {
            true if context.is_condition => {
                return Err(format!(
                    "'{{{name}}}' is set for some requests only: use their conditions in place of it"
                ));
            }
            // Caddy keeps what is not set.
            true => out.push_str(&rest[at..rest.len() - after.len()].replace('$', "$$")),
            false => out.push_str(&format!("${{{}}}", variable(&name, context)?)),
        }
        rest = after;
    }
    out.push_str(&rest.replace('$', "$$"));
    Ok(out)
}

/// The first placeholder: its place, its name, and what follows it.
fn next_placeholder(text: &str) -> Option<(usize, &str, &str)> {
    text.match_indices('{').find_map(|(at, _)| {
        let (inside, after) = text[at + 1..].split_once('}')?;
        let is_name = !inside.is_empty()
            && inside.chars().all(|c| c.is_ascii_alphanumeric() || "._-$:*[]/".contains(c));
        is_name.then_some((at, inside, after))
    })
}

/// The variable of a placeholder, without `${` and `}`.
fn variable(name: &str, context: &Context) -> Result<String, String> {
    const NAMES: [(&str, &str); 20] = [
        ("host", "host"),
        ("hostport", "header{host}"),
        ("scheme", "scheme"),
        ("method", "method"),
        ("path", "path"),
        ("uri.path", "path"),
        ("uri", "target"),
        ("query", "query"),
        ("uri.query", "query"),
        ("remote_host", "client"),
        ("remote.host", "client"),
        ("client_ip", "client"),
        ("tls.cipher_suite", "tls_cipher"),
        ("tls_cipher", "tls_cipher"),
        ("tls.server_name", "tls_server_name"),
        ("tls.client.subject", "tls_subject"),
        ("tls_client_subject", "tls_subject"),
        ("proto", "protocol"),
        ("http.auth.user.id", "user"),
        ("uuid", "request_id"),
    ];
    const NAMED: [(&str, &str); 4] =
        [("header", "header."), ("cookie", "cookie."), ("arg", "uri.query."), ("arg", "query.")];
    if let Some(table) = context.table(name) {
        return Ok(format!("map{{{}}}", table.name));
    }
    if let Some((_, here)) = NAMES.iter().find(|(other, _)| *other == name) {
        return Ok((*here).to_string());
    }
    if let Some((kind, named)) =
        NAMED.iter().find_map(|(kind, prefix)| Some((kind, name.strip_prefix(prefix)?)))
    {
        let is_name =
            !named.is_empty() && named.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
        return if is_name { Ok(format!("{kind}{{{named}}}")) } else { Err(unknown(name)) };
    }
    let map = part(name, context)?.ok_or_else(|| unknown(name))?;
    Ok(format!("map{{{map}}}"))
}

/// A map for a part of the path or of the host, for a group of an expression, or for another form of a value.
fn part(name: &str, context: &Context) -> Result<Option<String>, String> {
    let path = name.strip_prefix("uri.").unwrap_or(name);
    let path =
        path.strip_prefix("path.").filter(|rest| rest.starts_with("file") || *rest == "dir").unwrap_or(path);
    let of_path = match path {
        "dir" => Some("(?s)^(.*/)[^/]*$"),
        "file" => Some("([^/]*)$"),
        "file.base" => Some("(^/$|[^/]*?)(?:\\.[^./]*)?/*$"),
        "file.ext" => Some("(\\.[^./]*)$"),
        _ => None,
    };
    if let Some(expression) = of_path {
        return Ok(Some(context.part(&path.replace('.', "-"), "$path", expression, "")));
    }
    let number = |text: &str| text.parse::<u8>().ok();
    if let Some(number) = path.strip_prefix("path.").and_then(number) {
        let expression = format!("^/(?:[^/]*/){{{number}}}([^/]*)");
        return Ok(Some(context.part(&format!("path-{number}"), "$path", &expression, "")));
    }
    let label = name.strip_prefix("host.").unwrap_or(name).strip_prefix("labels.");
    if let Some(number) = label.and_then(number) {
        let expression = format!("(?:^|\\.)([^.]*)(?:\\.[^.]*){{{number}}}$");
        return Ok(Some(context.part(&format!("label-{number}"), "$host", &expression, "")));
    }
    match name {
        "port" => {
            // As in Caddy, a port that the client does not send is empty.
            Ok(Some(context.part("port", "$header{host}", ":([0-9]+)$", "")))
        }
        "tls_version" | "tls.version" => {
            let mut body = Section::default();
            body.key("from", toml_string("$tls_version"));
            for version in ["1.2", "1.3"] {
                body.entry("values", &format!("TLSv{version}"), toml_string(&format!("tls{version}")));
            }
            Ok(Some(context.add("tls_version", body)))
        }
        _ => group(name, context),
    }
}

/// `{re.NAME.1}`
fn group(name: &str, context: &Context) -> Result<Option<String>, String> {
    let Some(name) = name.strip_prefix("re.") else { return Ok(None) };
    let (of, group) = name.rsplit_once('.').ok_or_else(|| unknown(name))?;
    let Some(regexp) = context.regexp(of) else {
        return Err(format!("no expression of a matcher is called '{of}'"));
    };
    let whole = converted(&regexp.expression)?;
    let from = text(&regexp.of, context)?;
    let mut body = Section::default();
    body.key("from", toml_string(&from));
    let (expression, number) = match group {
        "0" => (format!("({whole})"), "1"),
        group => (whole, group),
    };
    if !has_group(&expression, number) {
        return Err(format!("the expression '{of}' has no group '{group}'"));
    }
    let pattern = super::context::in_quotes(&format!("~{expression}"));
    body.key(
        "patterns",
        touchstone_import_base::toml_text::toml_strings([format!("{pattern} ${{{number}}}")]),
    );
    Ok(Some(context.add(&format!("re-{of}-{group}"), body)))
}

/// Whether an expression has a group of this number or name.
pub fn has_group(expression: &str, group: &str) -> bool {
    match group.parse::<usize>() {
        Ok(number) => (1..=groups(expression)).contains(&number) && number <= 9,
        Err(_) => ["(?P<", "(?<"].iter().any(|begin| expression.contains(&format!("{begin}{group}>"))),
    }
}

/// How many groups an expression has.
fn groups(expression: &str) -> usize {
    let (mut count, mut is_escaped, mut in_class) = (0, false, false);
    for (at, character) in expression.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => {
                let rest = &expression[at + 1..];
                let is_named = rest.starts_with("?P<") || rest.starts_with("?<");
                count += usize::from(!rest.starts_with('?') || is_named);
            }
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_stay_or_go() {
        let mut context = Context::default();
        context.is_secure = true;
        let target = |text: &str| template(text, &context, false);
        for (text, expected) in [
            ("https://www.example.org{uri}", "https://www.example.org$path"),
            ("{scheme}://{host}/new", "https://$host/new?"),
            ("/new?{query}", "/new"),
            ("/new?a=b&{query}", "/new?a=b&${query}"),
            ("/a{path}b", "/a${path}b?"),
            ("/a#b", "/a?#b"),
            ("/p$1", "/p$$1?"),
            ("/x/{query.a}/{path.1}", "/x/${arg{a}}/${map{path-1}}?"),
        ] {
            assert_eq!(target(text).unwrap(), expected, "{text}");
        }
        for (text, word) in [
            ("/{http.vars.x}", "vars.x"),
            ("https://{header.x}/", "choose the server"),
            ("/a?b={uri}", "'{uri}'"),
            ("/a#{uri}", "'{uri}'"),
            ("/{re.none.1}", "'none'"),
        ] {
            let problem = target(text).unwrap_err();
            assert!(problem.contains(word), "{problem}");
        }
    }

    #[test]
    fn placeholders_of_texts() {
        let context = Context::default();
        let value = |value: &str| text(value, &context).unwrap();
        assert_eq!(value("{host} {http.request.header.X-A}"), "${host} ${header{X-A}}");
        assert_eq!(value("{query.a}-{cookie.b} 5$"), "${arg{a}}-${cookie{b}} 5$$");
        assert_eq!(value("{labels.2}{file.ext}{port}"), "${map{label-2}}${map{file-ext}}${map{port}}");
        assert!(text("{http.vars.x}", &context).unwrap_err().contains("vars.x"));
        assert!(text("{$HOME}", &context).unwrap_err().contains("environment"));
        let plain = |text: &str| plain(text, &context);
        assert_eq!(tried(&["{path}".into(), "{path}/".into()]).unwrap(), ["$path", "$path/"]);
        assert!(plain("{\"a\": {\"b\": 1}}").is_ok() && plain("a {host}").is_err() && plain("a").is_ok());
    }

    #[test]
    fn groups_are_counted() {
        for (expression, count) in [("a(b)(?:c)", 1), ("\\((x)", 1), ("[(](?P<n>y)(?<m>z)", 2), ("", 0)] {
            assert_eq!(groups(expression), count, "{expression}");
        }
        assert!(has_group("(?P<n>y)", "n") && has_group("(y)", "1"));
        assert!(!has_group("(y)", "2") && !has_group("(y)", "n"));
    }
}
