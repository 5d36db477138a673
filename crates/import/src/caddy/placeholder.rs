//! Converts `{uri}` and other placeholders to variables of this server.

/// The context in which a template is written.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// Clients of the site use HTTPS.
    pub is_secure: bool,
}

/// Converts the target of a redirect or a rewrite. Caddy keeps the query of the request only if the target
/// has its placeholder; this server keeps it unless the target has a `?`.
///
/// # Errors
/// The name of the placeholder that has no counterpart.
pub fn template(text: &str, facts: Facts) -> Result<String, String> {
    let mut out = String::new();
    let mut keeps_query = false;
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at].replace('$', "$$"));
        let end = rest[at..].find('}').ok_or("a '}' is missing")?;
        let name = &rest[at + 1..at + end];
        rest = &rest[at + end + 1..];
        let short = name.strip_prefix("http.request.").unwrap_or(name);
        let group = name.strip_prefix("http.regexp.").or(name.strip_prefix("re.")).map(last_part);
        match (short, group) {
            (_, Some(group)) => out.push_str(&format!("${{{group}}}")),
            ("host" | "hostport", _) => out.push_str("$host"),
            ("scheme", _) => out.push_str(if facts.is_secure { "https" } else { "http" }),
            ("path" | "uri.path", _) => out.push_str("${path}"),
            ("uri" | "orig_uri" | "orig_uri.path", _) if rest.is_empty() && !out.contains('?') => {
                keeps_query = !short.ends_with("path");
                out.push_str("$path");
            }
            ("query" | "uri.query", _) if out.ends_with('?') && rest.is_empty() => {
                out.pop();
                keeps_query = true;
            }
            ("query" | "uri.query", _) if out.contains('?') => out.push_str("${query}"),
            _ => return Err(format!("the placeholder '{{{name}}}' has no counterpart here")),
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

fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Checks that a text has no placeholders.
///
/// # Errors
/// The text has placeholders.
pub fn plain(text: &str) -> Result<&str, String> {
    match has_placeholder(text) {
        true => Err("placeholders have no counterpart in this value".to_string()),
        false => Ok(text),
    }
}

/// A value of a field, as a text of this server's language.
///
/// # Errors
/// The placeholder that has no counterpart.
pub fn text(value: &str) -> Result<String, String> {
    const NAMES: [(&str, &str); 14] = [
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
        ("tls.version", "tls_version"),
        ("tls.cipher_suite", "tls_cipher"),
    ];
    const NAMED: [(&str, &str); 4] =
        [("header", "header."), ("cookie", "cookie."), ("arg", "uri.query."), ("arg", "query.")];
    let mut out = String::new();
    let mut rest = value;
    while let Some(at) = rest.find('{').filter(|at| has_placeholder(&rest[*at..])) {
        out.push_str(&rest[..at].replace('$', "$$"));
        let end = rest[at..].find('}').ok_or("a '}' is missing")?;
        let name = &rest[at + 1..at + end];
        rest = &rest[at + end + 1..];
        let short = name.strip_prefix("http.request.").unwrap_or(name);
        let known = NAMES.iter().find(|(other, _)| *other == short).map(|(_, here)| (*here).to_string());
        let named = || {
            let found = NAMED.iter().find_map(|(kind, prefix)| Some((kind, short.strip_prefix(prefix)?)));
            found.map(|(kind, named)| format!("{kind}{{{named}}}"))
        };
        let other = || match name {
            "http.auth.user.id" => Some("user".to_string()),
            "http.request.uuid" => Some("request_id".to_string()),
            _ => None,
        };
        let here = known.or_else(named).or_else(other);
        let here = here.ok_or_else(|| format!("the placeholder '{{{name}}}' has no counterpart here"))?;
        out.push_str(&format!("${{{here}}}"));
    }
    out.push_str(&rest.replace('$', "$$"));
    Ok(out)
}

fn has_placeholder(text: &str) -> bool {
    text.match_indices('{').any(|(at, _)| {
        let inside = text[at + 1..].split_once('}').map_or("", |(inside, _)| inside);
        !inside.is_empty() && inside.chars().all(|c| c.is_ascii_alphanumeric() || "._-$:*[]".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_stay_or_go() {
        let facts = Facts { is_secure: true };
        for (text, expected) in [
            ("https://www.example.org{uri}", "https://www.example.org$path"),
            ("{scheme}://{host}/new", "https://$host/new?"),
            ("/new?{query}", "/new"),
            ("/new?a=b&{query}", "/new?a=b&${query}"),
            ("/x/{re.name.1}", "/x/${1}?"),
            ("/a{path}b", "/a${path}b?"),
            ("/a#b", "/a?#b"),
            ("/p$1", "/p$$1?"),
        ] {
            assert_eq!(template(text, facts).unwrap(), expected, "{text}");
        }
        assert!(template("/{http.vars.x}", facts).unwrap_err().contains("http.vars.x"));
        let value = |value: &str| text(value).unwrap();
        assert_eq!(value("{host} {http.request.header.X-A}"), "${host} ${header{X-A}}");
        assert_eq!(value("{query.a}-{cookie.b} 5$"), "${arg{a}}-${cookie{b}} 5$$");
        assert!(text("{http.vars.x}").unwrap_err().contains("http.vars.x"));
        assert!(plain("{\"a\": {\"b\": 1}}").is_ok() && plain("a {host}").is_err() && plain("a").is_ok());
    }
}
