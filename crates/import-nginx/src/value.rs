//! Converts variables, times and sizes of nginx.

use super::language::{Language, UpToVariable, first_variable};

/// A time in seconds: `30`, `30s`, `1h30m`, `500ms` (at least one second).
pub fn seconds(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    let mut milliseconds = 0u64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "ms" => 1,
            "" | "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 7 * 86_400_000,
            "M" => 30 * 86_400_000,
            "y" => 365 * 86_400_000,
            _ => return None,
        };
        rest = rest[letters..].trim_start();
        milliseconds = milliseconds.checked_add(number.checked_mul(unit)?)?;
    }
    Some(milliseconds.div_ceil(1_000))
}

/// A size in bytes: `512`, `8k`, `10m`, `1g`.
pub fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// A size in TOML's notation for this server.
pub fn size(bytes: u64) -> String {
    let units = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.iter().find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("\"{}{name}\"", bytes / unit),
        None => bytes.to_string(),
    }
}

/// The context in which a template is written.
pub struct Facts<'f> {
    /// Clients of the site use HTTPS.
    pub is_secure: bool,
    /// The first name of the site.
    pub name: &'f str,
    /// Whether a target without a query drops that of the request, as `return` does.
    pub drops_query: bool,
}

/// Converts an address or path with variables, as in `to` of a redirect or rewrite.
///
/// # Errors
/// The variable that has no counterpart.
pub fn template(text: &str, facts: &Facts<'_>, language: &Language<'_>) -> Result<String, String> {
    let mut out = String::new();
    let mut keeps_query = !facts.drops_query;
    let mut rest = text;
    while let Some(UpToVariable { plain, name, is_closed, rest: after }) = first_variable(rest) {
        if !is_closed {
            return Err("a '}' is missing".to_string());
        }
        out.push_str(plain);
        rest = after;
        match name {
            "host" | "http_host" => out.push_str("$host"),
            "server_name" => out.push_str(facts.name),
            "scheme" => out.push_str(if facts.is_secure { "https" } else { "http" }),
            "uri" | "document_uri" => {
                let is_followed = rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
                out.push_str(if is_followed { "${path}" } else { "$path" });
            }
            "request_uri" if rest.is_empty() && !out.contains('?') => {
                keeps_query = true;
                out.push_str("$path");
            }
            "is_args" => {
                let args = rest.strip_prefix("$args").or_else(|| rest.strip_prefix("$query_string"));
                rest = args
                    .filter(|rest| rest.is_empty())
                    .ok_or("'$is_args' without '$args' has no counterpart")?;
                keeps_query = true;
            }
            "args" | "query_string" if out.ends_with('?') && rest.is_empty() => {
                out.pop();
                keeps_query = true;
            }
            "args" | "query_string" => out.push_str("${query}"),
            number if number.len() == 1 && number.bytes().all(|b| b.is_ascii_digit()) => {
                out.push_str(&format!("${{{number}}}"));
            }
            other => out.push_str(&language.text(&format!("${other}"))?),
        }
    }
    out.push_str(rest);
    let begins = ["/", "$path", "${path}", "http://", "https://", "$map{", "${map{"];
    if !begins.iter().any(|begin| out.starts_with(begin)) {
        return Err("a target here begins with '/', '$path', 'http://' or 'https://'".to_string());
    }
    if !keeps_query && !out.contains('?') {
        out.push('?');
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes() {
        for (text, expected) in [
            ("30", Some(30)),
            ("1h30m", Some(5_400)),
            ("500ms", Some(1)),
            ("1y", Some(31_536_000)),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
        assert_eq!((bytes("8k"), bytes("10M"), bytes("q")), (Some(8_192), Some(10 << 20), None));
        assert_eq!((size(10 << 20), size(1_000)), ("\"10MiB\"".to_string(), "1000".to_string()));
    }

    #[test]
    fn variables() {
        let language = Language::default();
        let facts = |drops_query| Facts { is_secure: false, name: "a.org", drops_query };
        for (text, expected) in [
            ("https://$host$request_uri", "https://$host$path"),
            ("https://a.org/", "https://a.org/?"),
            ("$scheme://$server_name$uri$is_args$args", "http://a.org$path"),
            ("/new/$1?x=1", "/new/${1}?x=1"),
            ("/new?$args", "/new"),
        ] {
            assert_eq!(template(text, &facts(true), &language).unwrap(), expected, "{text}");
        }
        assert_eq!(template("/new/$1", &facts(false), &language).unwrap(), "/new/${1}");
        assert_eq!(template("/$cookie_a", &facts(false), &language).unwrap(), "/${cookie{a}}");
        let problem = template("/$upstream_addr", &facts(true), &language).unwrap_err();
        assert!(problem.contains("$upstream_addr"));
    }
}
