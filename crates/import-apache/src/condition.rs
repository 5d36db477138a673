//! Expressions of `<If>` and conditions of `SetEnvIf` as conditions of this server's language.
//!
//! ```text
//! %{HTTP_USER_AGENT} =~ /bot/i && !(%{REQUEST_METHOD} in {'GET', 'HEAD'})
//! $header{user-agent} =~ '(?i)bot' and not ($method in ['GET', 'HEAD'])
//! ```

use touchstone_import_base::expression::{converted, literal, quoted};
use touchstone_import_base::maps::{CLIENT_CERTIFICATE, REQUEST_LINE};
use touchstone_import_base::networks;

/// Expressions in each other.
const MOST_DEPTH: usize = 16;

/// The condition of an expression.
///
/// # Errors
/// The part of it that has no counterpart.
pub fn condition(text: &str, is_secure: bool) -> Result<String, String> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, is_secure };
    let condition = parser.any(0)?;
    match parser.peek() {
        None => Ok(condition),
        Some(token) => Err(format!("{token:?} is not expected in the expression")),
    }
}

/// The condition of `SetEnvIf ATTRIBUTE EXPRESSION`.
///
/// # Errors
/// An attribute or an expression that has no counterpart.
pub fn of_attribute(attribute: &str, expression: &str, any_case: bool) -> Result<String, String> {
    let value = match attribute.to_ascii_lowercase().as_str() {
        "remote_addr" => "$client".to_string(),
        "request_uri" => "$path".to_string(),
        "request_method" => "$method".to_string(),
        "request_protocol" => "$protocol".to_string(),
        "remote_host" | "server_addr" => return Err(format!("'{attribute}' has no counterpart here")),
        name if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') => {
            format!("$header{{{name}}}")
        }
        _ => return Err("the names of fields are written out".to_string()),
    };
    let expression = converted(expression)?;
    let flags = if any_case { "(?i)" } else { "" };
    Ok(format!("{value} =~ {}", quoted(&format!("{flags}{expression}"))?))
}

/// What a variable is here.
///
/// # Errors
/// It has no counterpart.
pub fn variable(name: &str, is_secure: bool) -> Result<String, String> {
    const NAMES: [(&str, &str); 14] = [
        ("REQUEST_METHOD", "method"),
        ("REQUEST_URI", "path"),
        ("QUERY_STRING", "query"),
        ("REMOTE_ADDR", "client"),
        ("REQUEST_SCHEME", "scheme"),
        ("SERVER_PROTOCOL", "protocol"),
        ("SERVER_NAME", "host"),
        ("SSL_PROTOCOL", "tls_version"),
        ("SSL_CIPHER", "tls_cipher"),
        ("SSL_TLS_SNI", "tls_server_name"),
        ("SSL_CLIENT_S_DN", "tls_subject"),
        ("HTTP_HOST", "header{host}"),
        ("HTTP_USER_AGENT", "header{user-agent}"),
        ("HTTP_REFERER", "header{referer}"),
    ];
    match name {
        "HTTPS" => return Ok(if is_secure { "'on'" } else { "'off'" }.to_string()),
        "SERVER_PORT" => return Ok(if is_secure { "443" } else { "80" }.to_string()),
        "THE_REQUEST" => return Ok(REQUEST_LINE.to_string()),
        "SSL_CLIENT_VERIFY" => return Ok(CLIENT_CERTIFICATE.to_string()),
        _ => {}
    }
    if let Some((_, here)) = NAMES.iter().find(|(other, _)| *other == name) {
        return Ok(format!("${here}"));
    }
    let field = name.strip_prefix("HTTP:").or(name.strip_prefix("req:")).or(name.strip_prefix("http:"));
    let other = ["HTTP_ACCEPT", "HTTP_COOKIE", "HTTP_FORWARDED", "HTTP_PROXY_CONNECTION"].contains(&name);
    let of_cgi = name.strip_prefix("HTTP_").filter(|_| other).map(|rest| rest.replace('_', "-"));
    match field.map(str::to_string).or(of_cgi) {
        Some(field) if !field.is_empty() && !field.contains(['{', '}']) => {
            Ok(format!("$header{{{}}}", field.to_ascii_lowercase()))
        }
        _ => Err(format!("the variable '%{{{name}}}' has no counterpart here")),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// `%{NAME}`
    Variable(String),
    /// `'text'`
    Text(String),
    /// `/expression/i`
    Expression(String),
    /// An operator or a word.
    Word(String),
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let behind = &rest[first.len_utf8()..];
        rest = match first {
            '%' => {
                let (name, after) = behind
                    .strip_prefix('{')
                    .and_then(|inner| inner.split_once('}'))
                    .ok_or("a '%' begins '%{NAME}'")?;
                found.push(Token::Variable(name.to_string()));
                after
            }
            '\'' | '"' => {
                let end = behind.find(first).ok_or("a quote has no end")?;
                found.push(Token::Text(behind[..end].to_string()));
                &behind[end + 1..]
            }
            '/' => expression('/', behind, &mut found)?,
            'm' if behind.starts_with(['#', '/', '|', '!', ',']) => {
                let delimiter = behind.chars().next().unwrap_or('#');
                expression(delimiter, &behind[1..], &mut found)?
            }
            '(' | ')' | '{' | '}' | ',' => {
                found.push(Token::Word(first.to_string()));
                behind
            }
            _ => {
                let sign = ["==", "!=", "=~", "!~", "<=", ">=", "&&", "||", "!", "<", ">", "="];
                let length = match sign.iter().find(|sign| rest.starts_with(**sign)) {
                    Some(sign) => sign.len(),
                    None => rest
                        .find(|c: char| c.is_whitespace() || "()'\"{},=!<>&|%".contains(c))
                        .unwrap_or(rest.len())
                        .max(first.len_utf8()),
                };
                found.push(Token::Word(rest[..length].to_string()));
                &rest[length..]
            }
        };
        rest = rest.trim_start();
    }
    Ok(found)
}

/// An expression up to its delimiter, and the flags behind it.
fn expression<'t>(delimiter: char, text: &'t str, found: &mut Vec<Token>) -> Result<&'t str, String> {
    let mut is_escaped = false;
    let end = text.char_indices().find(|(_, c)| {
        let ends = *c == delimiter && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        ends
    });
    let (end, _) = end.ok_or("an expression has no end")?;
    let after = &text[end + delimiter.len_utf8()..];
    let flags = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
    let inner = text[..end].replace(&format!("\\{delimiter}"), &delimiter.to_string());
    let inner = converted(&inner)?;
    let any_case = match &after[..flags] {
        "" => "",
        "i" => "(?i)",
        other => return Err(format!("the flags '{other}' of an expression have no counterpart")),
    };
    found.push(Token::Expression(format!("{any_case}{inner}")));
    Ok(&after[flags..])
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    is_secure: bool,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn takes(&mut self, word: &str) -> bool {
        let is_it = matches!(self.peek(), Some(Token::Word(other)) if other.eq_ignore_ascii_case(word));
        self.at += usize::from(is_it);
        is_it
    }

    fn next(&mut self) -> Result<Token, String> {
        let token = self.tokens.get(self.at).cloned().ok_or("the expression ends too early")?;
        self.at += 1;
        Ok(token)
    }

    fn any(&mut self, depth: usize) -> Result<String, String> {
        if depth > MOST_DEPTH {
            return Err(format!("expressions are nested more than {MOST_DEPTH} deep"));
        }
        let mut all = self.every(depth)?;
        while self.takes("||") || self.takes("or") {
            all = format!("{all} or {}", self.every(depth)?);
        }
        Ok(all)
    }

    fn every(&mut self, depth: usize) -> Result<String, String> {
        let mut all = self.one(depth)?;
        while self.takes("&&") || self.takes("and") {
            all = format!("{all} and {}", self.one(depth)?);
        }
        Ok(all)
    }

    fn one(&mut self, depth: usize) -> Result<String, String> {
        if self.takes("!") || self.takes("not") {
            if depth > MOST_DEPTH {
                return Err(format!("expressions are nested more than {MOST_DEPTH} deep"));
            }
            return Ok(format!("not ({})", self.one(depth + 1)?));
        }
        if self.takes("(") {
            let inner = self.any(depth + 1)?;
            return match self.takes(")") {
                true => Ok(format!("({inner})")),
                false => Err("a ')' is missing".to_string()),
            };
        }
        if self.takes("true") {
            return Ok("$method != ''".to_string());
        }
        if self.takes("false") {
            return Ok("$method == ''".to_string());
        }
        if self.takes("-n") {
            return Ok(format!("{} != ''", self.value()?));
        }
        if self.takes("-z") {
            return Ok(format!("{} == ''", self.value()?));
        }
        if self.takes("-R") {
            return self.network("$client");
        }
        if self.takes("-T") {
            return Err("'-T' has no counterpart: compare the value".to_string());
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<String, String> {
        let left = self.value()?;
        let Ok(Token::Word(sign)) = self.next() else {
            return Err("a comparison such as '==' is expected".to_string());
        };
        match sign.as_str() {
            "=" | "==" | "-eq" | "eq" => Ok(format!("{left} == {}", self.value()?)),
            "!=" | "-ne" | "ne" => Ok(format!("{left} != {}", self.value()?)),
            "-lt" | "-le" | "-gt" | "-ge" => {
                let here = ["<", "<=", ">", ">="];
                let index = ["-lt", "-le", "-gt", "-ge"].iter().position(|other| *other == sign);
                Ok(format!("{left} {} {}", here[index.unwrap_or(0)], self.value()?))
            }
            "=~" | "!~" => match self.next()? {
                Token::Expression(expression) => Ok(format!("{left} {sign} {}", quoted(&expression)?)),
                Token::Text(expression) => {
                    let expression = converted(&expression)?;
                    Ok(format!("{left} {sign} {}", quoted(&expression)?))
                }
                _ => Err("'=~' is followed by an expression".to_string()),
            },
            "in" | "-in" if self.takes("{") => {
                let mut texts = vec![self.value()?];
                while self.takes(",") {
                    texts.push(self.value()?);
                }
                match self.takes("}") {
                    true => Ok(format!("{left} in [{}]", texts.join(", "))),
                    false => Err("a '}' is missing".to_string()),
                }
            }
            "-R" | "-ipmatch" => self.network(&left),
            "-strmatch" | "-strcmatch" | "-fnmatch" => {
                let Token::Text(text) = self.next()? else {
                    return Err(format!("'{sign}' is followed by a text in quotes"));
                };
                if text.contains(['[', '\\']) || text.contains("%{") {
                    return Err("write the names with brackets as an expression".to_string());
                }
                let any = if sign == "-fnmatch" { "[^/]" } else { "(?s:.)" };
                let text = literal(&text).replace("\\*", &format!("{any}*")).replace("\\?", any);
                let flags = if sign == "-strcmatch" { "(?i)" } else { "" };
                Ok(format!("{left} =~ {}", quoted(&format!("{flags}^{text}$"))?))
            }
            other => Err(format!("the comparison '{other}' has no counterpart here")),
        }
    }

    /// The network behind `-R`.
    fn network(&mut self, of: &str) -> Result<String, String> {
        match (of, self.next()?) {
            ("$client", Token::Text(network)) => networks::condition(&network),
            ("$client", Token::Word(network)) => networks::condition(&network),
            _ => Err("only the address of the client is compared with a network".to_string()),
        }
    }

    fn value(&mut self) -> Result<String, String> {
        match self.next()? {
            Token::Variable(name) => variable(&name, self.is_secure),
            Token::Text(text) => match text.strip_prefix("%{").and_then(|inner| inner.strip_suffix('}')) {
                Some(name) => variable(name, self.is_secure),
                None if text.contains("%{") => Err("a text in a comparison has no variables".to_string()),
                None => quoted(&text),
            },
            Token::Word(word) if word.bytes().all(|byte| byte.is_ascii_digit()) => Ok(word),
            Token::Word(word) if matches!(word.to_ascii_lowercase().as_str(), "req" | "http") => {
                let is_open = self.takes("(");
                let name = match self.next()? {
                    Token::Text(name) => name,
                    _ => return Err(format!("'{word}' takes the name of a field")),
                };
                match is_open && self.takes(")") {
                    true => variable(&format!("HTTP:{name}"), self.is_secure),
                    false => Err(format!("'{word}' takes the name of a field in parentheses")),
                }
            }
            Token::Word(word) => Err(format!("'{word}' has no counterpart here")),
            Token::Expression(_) => Err("an expression stands behind '=~'".to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn expressions() {
        for (text, expected) in [
            ("%{HTTP_USER_AGENT} =~ /bot/i", "$header{user-agent} =~ '(?i)bot'"),
            ("%{REQUEST_URI} =~ m#^/a/b# && %{QUERY_STRING} != ''", "$path =~ '^/a/b' and $query != ''"),
            ("!(%{REQUEST_METHOD} in {'GET', 'HEAD'})", "not (($method in ['GET', 'HEAD']))"),
            ("req('X-Key') == 'a' || -z %{HTTP:X-B}", "$header{x-key} == 'a' or $header{x-b} == ''"),
            ("%{HTTPS} == 'on'", "'off' == 'on'"),
            ("'%{HTTP_HOST}' == \"it's\"", "$header{host} == \"it's\""),
            ("%{REMOTE_ADDR} -eq 1 and true", "$client == 1 and $method != ''"),
            ("! %{REMOTE_ADDR} -R '10.0.0.0/8'", "not ($map{network-10-0-0-0_8})"),
            ("-R '2001:db8::/32'", "$map{network-2001-db8--_32}"),
            ("%{REQUEST_URI} -strmatch '/a.b/*'", "$path =~ '^/a\\.b/(?s:.)*$'"),
            ("%{SERVER_PORT} -eq 443", "80 == 443"),
            ("%{THE_REQUEST} =~ /wp-login/", "$map{request-line} =~ 'wp-login'"),
        ] {
            assert_eq!(condition(text, false).as_deref(), Ok(expected), "{text}");
        }
        for text in [
            "",
            "%{TIME_HOUR} > 5",
            "%{REMOTE_ADDR} -R 'example.org'",
            "%{HTTP_HOST} -R '10.0.0.0/8'",
            "%{REQUEST_URI} =~ /(?!a)/",
            "%{REQUEST_URI} =~ /a/x",
            "'a' == 'b",
            "(%{HTTPS} == 'on'",
            "reqenv('A') == 'b'",
        ] {
            assert!(condition(text, false).is_err(), "{text}");
        }
        assert_eq!(
            of_attribute("User-Agent", "^Bad", true).as_deref(),
            Ok("$header{user-agent} =~ '(?i)^Bad'")
        );
        assert!(of_attribute("Remote_Host", "a", true).is_err() && of_attribute("^X", "a", true).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[ -~]{0,80}") {
            let _ = condition(&text, true);
        }
    }
}
