//! Texts and conditions of nginx as those of this server's language (docs/expressions.md).

use super::flags::Flags;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::expression::converted;

/// The values of variables besides those of every request.
#[derive(Default, Clone)]
pub struct Language<'l> {
    /// The names of the maps.
    pub maps: Vec<&'l str>,
    /// The first name of the server; empty: there is none.
    pub server_name: &'l str,
    /// The only port that the server listens on; empty: there are several, or it is not known.
    pub server_port: String,
    /// The names of the groups of the expression beside the text.
    pub groups: Vec<&'l str>,
    /// The groups of an expression may be used by number.
    pub has_groups: bool,
    /// Variables that conditions set.
    pub flags: Flags,
}

/// Variables with other names.
const NAMES: [(&str, &str); 27] = [
    ("remote_addr", "client"),
    ("realip_remote_addr", "client"),
    ("remote_user", "user"),
    ("request_method", "method"),
    ("request_uri", "target"),
    ("uri", "path"),
    ("document_uri", "path"),
    ("args", "query"),
    ("query_string", "query"),
    ("host", "host"),
    ("http_host", "header{host}"),
    ("scheme", "scheme"),
    ("server_protocol", "protocol"),
    ("request_id", "request_id"),
    ("ssl_protocol", "tls_version"),
    ("ssl_cipher", "tls_cipher"),
    ("ssl_server_name", "tls_server_name"),
    ("ssl_client_s_dn", "tls_subject"),
    ("ssl_client_verify", "map{client-certificate}"),
    ("status", "status"),
    ("body_bytes_sent", "body_bytes"),
    ("upstream_cache_status", "cache"),
    ("geoip_country_code", "geoip_country"),
    ("geoip2_country_code", "geoip_country"),
    ("geoip2_data_country_code", "geoip_country"),
    ("geoip2_data_country_iso_code", "geoip_country"),
    ("geoip_org", "geoip_asn"),
];

impl Language<'_> {
    /// A text with variables.
    ///
    /// # Errors
    /// The variable that has no counterpart.
    pub fn text(&self, text: &str) -> Result<String, String> {
        let mut out = String::new();
        let mut rest = text;
        while let Some(UpToVariable { plain, name, is_closed, rest: after }) = first_variable(rest) {
            if !is_closed {
                return Err("a '}' is missing".to_string());
            }
            out.push_str(plain);
            rest = after;
            match name {
                "" => out.push_str("$$"),
                "server_name" if !self.server_name.is_empty() => out.push_str(self.server_name),
                "server_port" if !self.server_port.is_empty() => out.push_str(&self.server_port),
                // What the client has sent, with its query.
                "uri" | "document_uri" if rest.starts_with("$is_args$args") => {
                    rest = &rest["$is_args$args".len()..];
                    out.push_str("${target}");
                }
                _ => out.push_str(&format!("${{{}}}", self.variable(name)?)),
            }
        }
        out.push_str(rest);
        Ok(out)
    }

    /// The text between the braces for a variable of nginx.
    fn variable(&self, name: &str) -> Result<String, String> {
        if self.groups.contains(&name) || self.has_groups && is_number(name) {
            return Ok(name.to_string());
        }
        if self.maps.contains(&name) {
            return Ok(format!("map{{{name}}}"));
        }
        if let Some((_, here)) = NAMES.iter().find(|(other, _)| *other == name) {
            return Ok((*here).to_string());
        }
        let begin = |prefix: &str| name.strip_prefix(prefix).filter(|rest| !rest.is_empty());
        let named = begin("http_")
            .map(|rest| format!("header{{{}}}", rest.replace('_', "-")))
            .or_else(|| begin("cookie_").map(|rest| format!("cookie{{{rest}}}")))
            .or_else(|| begin("arg_").map(|rest| format!("arg{{{rest}}}")));
        named.ok_or_else(|| format!("the variable '${name}' has no counterpart here"))
    }

    /// A value of a condition: a variable alone, or a text in quotes.
    fn value(&self, text: &str) -> Result<String, String> {
        match text.strip_prefix('$').filter(|name| !name.is_empty() && name.bytes().all(is_of_name)) {
            Some(name) => Ok(format!("${}", self.variable(name)?)),
            None if text.contains('$') => {
                Err("a value of a condition is one variable, or a text without any".to_string())
            }
            None => Ok(quoted(text)),
        }
    }

    /// The condition of an `if`, given as its words.
    ///
    /// # Errors
    /// The feature without a counterpart.
    pub fn condition(&self, directive: &Directive) -> Result<String, String> {
        let text = directive.arguments.join(" ");
        let text = text.trim();
        let inside = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(text).trim();
        let (first, rest) = match inside.split_once(char::is_whitespace) {
            Some((first, rest)) => (first, rest.trim()),
            None => (inside, ""),
        };
        if !first.starts_with('$') {
            return Err("conditions on files are 'try_files'".to_string());
        }
        let (sign, wanted) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let wanted = wanted.trim().trim_matches(['"', '\'']);
        if let Some(flag) = self.flag(first, sign, wanted) {
            return flag;
        }
        let value = self.value(first)?;
        if rest.is_empty() {
            return Ok(value);
        }
        let expression = |sign: &str, flags: &str| {
            let wanted = converted(wanted)?;
            Ok(format!("{value} {sign} {}", quoted(&format!("{flags}{wanted}"))))
        };
        match sign {
            "=" => Ok(format!("{value} == {}", self.value(wanted)?)),
            "!=" => Ok(format!("{value} != {}", self.value(wanted)?)),
            "~" => expression("=~", ""),
            "~*" => expression("=~", "(?i)"),
            "!~" => expression("!~", ""),
            "!~*" => expression("!~", "(?i)"),
            _ => Err(format!("the comparison '{sign}' has no counterpart here")),
        }
    }

    /// The condition on a variable that conditions set; `None`: it is none of these.
    fn flag(&self, first: &str, sign: &str, wanted: &str) -> Option<Result<String, String>> {
        let name = first.strip_prefix('$').filter(|name| self.flags.has(name))?;
        let found = match sign {
            "" => self.flags.holds(name),
            "=" | "!=" if !wanted.contains('$') => self.flags.equals(name, wanted, sign == "="),
            _ => None,
        };
        Some(found.ok_or_else(|| format!("'{first}' can be compared with a fixed text only")))
    }

    /// A condition that holds where one of these texts is neither empty nor `0`.
    ///
    /// # Errors
    /// The text that is more than a variable.
    pub fn any_of<'t>(&self, texts: impl IntoIterator<Item = &'t str>) -> Result<String, String> {
        let value = |text: &str| match text.strip_prefix('$').and_then(|name| self.flags.holds(name)) {
            Some(condition) => Ok(condition),
            None => self.value(text),
        };
        let values: Result<Vec<String>, String> = texts.into_iter().map(value).collect();
        Ok(values?.join(" or "))
    }
}

/// What a text of nginx holds up to its first variable, and that variable.
pub struct UpToVariable<'t> {
    /// The text before it.
    pub plain: &'t str,
    /// Its name.
    pub name: &'t str,
    /// A name that began with a brace ends with one.
    pub is_closed: bool,
    /// The text after it.
    pub rest: &'t str,
}

/// Finds the first variable of a text, `$name` or `${name}`.
pub fn first_variable(text: &str) -> Option<UpToVariable<'_>> {
    let (plain, after) = text.split_once('$')?;
    let inner = after.strip_prefix('{');
    let name = inner.unwrap_or(after);
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
    let (name, rest) = name.split_at(end);
    let closed = rest.strip_prefix('}').filter(|_| inner.is_some());
    Some(UpToVariable {
        plain,
        name,
        is_closed: inner.is_none() || closed.is_some(),
        rest: closed.unwrap_or(rest),
    })
}

/// The names of the variables of a text.
pub fn variables(text: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(first_variable(text), |found| first_variable(found.rest)).map(|found| found.name)
}

/// A text in quotes. A backslash is kept, because expressions need it.
fn quoted(text: &str) -> String {
    match text.contains('\'') {
        false => format!("'{text}'"),
        true => format!("\"{}\"", text.replace('"', "\\\"")),
    }
}

fn is_number(name: &str) -> bool {
    name.len() == 1 && name.bytes().all(|byte| (b'1'..=b'9').contains(&byte))
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn texts() {
        let language = Language { maps: vec!["app"], server_name: "a.org", ..Language::default() };
        for (text, expected) in [
            ("$scheme://$host", "${scheme}://${host}"),
            ("[$http_x_api_key] $cookie_Id $arg_page", "[${header{x-api-key}}] ${cookie{Id}} ${arg{page}}"),
            ("$app-$server_name", "${map{app}}-a.org"),
            ("$uri$is_args$args", "${target}"),
            ("5$", "5$$"),
        ] {
            assert_eq!(language.text(text).unwrap(), expected, "{text}");
        }
        assert!(language.text("$upstream_addr").unwrap_err().contains("$upstream_addr"));
        assert!(language.text("$1").is_err());
    }

    #[test]
    fn conditions() {
        let language = Language { maps: vec!["new"], ..Language::default() };
        let condition = |text: &str| {
            let directives = parse("nginx.conf", &format!("if {text} {{ return 403; }}")).unwrap();
            language.condition(&directives[0])
        };
        assert_eq!(condition("($new)").unwrap(), "$map{new}");
        assert_eq!(
            condition("($http_user_agent ~* \"bot|crawl\")").unwrap(),
            "$header{user-agent} =~ '(?i)bot|crawl'"
        );
        assert_eq!(condition("($request_method != POST)").unwrap(), "$method != 'POST'");
        assert_eq!(condition("($arg_a = \"\")").unwrap(), "$arg{a} == ''");
        assert!(condition("(-f $request_filename)").is_err());
        assert_eq!(language.any_of(["$cookie_a", "$arg_b"]).unwrap(), "$cookie{a} or $arg{b}");
    }
}
