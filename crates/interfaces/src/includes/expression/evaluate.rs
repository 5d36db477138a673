//! Evaluating conditions of the grammar of Apache 2.4.
//!
//! Recursion goes no deeper than the parser allowed. What can grow (concatenations of variables) is bounded.

use std::cmp::Ordering;
use std::fmt;

use super::modern::{Comparison, List, Node, Substitution, Word};
use super::regular_expression::RegularExpression;
use super::{Scope, functions, wildcard};
use crate::includes::time_format::local_parts;

/// No value gets longer than this: what joins and replaces could otherwise fill memory.
const MOST_VALUE_BYTES: usize = 1024 * 1024;

/// A condition could not be evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvaluationError(pub(super) String);

impl fmt::Display for EvaluationError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for EvaluationError {}

/// A function from a text to a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Variable,
    Environment,
    SystemVariable,
    RequestField,
    Nothing,
    LowerCase,
    UpperCase,
    Escape,
    Unescape,
    Base64,
    FromBase64,
    Md5,
    Sha1,
    Ldap,
}

impl Function {
    pub(super) fn named(name: &str) -> Result<Function, String> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "v" | "reqenv" => Function::Variable,
            "env" => Function::Environment,
            "osenv" => Function::SystemVariable,
            "req" | "http" | "req_novary" => Function::RequestField,
            "resp" | "note" => Function::Nothing,
            "tolower" => Function::LowerCase,
            "toupper" => Function::UpperCase,
            "escape" => Function::Escape,
            "unescape" => Function::Unescape,
            "base64" => Function::Base64,
            "unbase64" => Function::FromBase64,
            "md5" => Function::Md5,
            "sha1" => Function::Sha1,
            "ldap" => Function::Ldap,
            "file" | "filesize" | "filemod" => {
                return Err(format!("{name} looks at files, which pages may not do"));
            }
            _ => return Err(format!("there is no function {name}")),
        })
    }
}

/// `%{NAME}`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestVariable {
    /// A part of the present: an index of [`local_parts`].
    Time(usize),
    /// All of it.
    WholeTime,
    /// A field of the request.
    Field(&'static str),
    /// What the server knows by this name.
    Named(String),
}

/// Names besides those of [`TIMES`] and [`FIELDS`].
const NAMES: &[&str] = &[
    "API_VERSION",
    "AUTH_TYPE",
    "CONN_LOG_ID",
    "CONN_REMOTE_ADDR",
    "CONTENT_TYPE",
    "CONTEXT_DOCUMENT_ROOT",
    "CONTEXT_PREFIX",
    "DOCUMENT_ROOT",
    "DOCUMENT_URI",
    "HANDLER",
    "HTTP2",
    "HTTPS",
    "IPV6",
    "IS_SUBREQ",
    "LAST_MODIFIED",
    "PATH_INFO",
    "QUERY_STRING",
    "REMOTE_ADDR",
    "REMOTE_HOST",
    "REMOTE_IDENT",
    "REMOTE_PORT",
    "REMOTE_USER",
    "REQUEST_FILENAME",
    "REQUEST_LOG_ID",
    "REQUEST_METHOD",
    "REQUEST_SCHEME",
    "REQUEST_STATUS",
    "REQUEST_URI",
    "SCRIPT_FILENAME",
    "SCRIPT_GROUP",
    "SCRIPT_USER",
    "SERVER_ADMIN",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "SERVER_SOFTWARE",
    "THE_REQUEST",
];

const TIMES: &[&str] =
    &["TIME_YEAR", "TIME_MON", "TIME_DAY", "TIME_HOUR", "TIME_MIN", "TIME_SEC", "TIME_WDAY"];

const FIELDS: &[(&str, &str)] = &[
    ("HTTP_USER_AGENT", "User-Agent"),
    ("HTTP_PROXY_CONNECTION", "Proxy-Connection"),
    ("HTTP_REFERER", "Referer"),
    ("HTTP_COOKIE", "Cookie"),
    ("HTTP_FORWARDED", "Forwarded"),
    ("HTTP_HOST", "Host"),
    ("HTTP_ACCEPT", "Accept"),
];

impl RequestVariable {
    pub(super) fn named(name: &str) -> Result<RequestVariable, String> {
        let upper = name.to_ascii_uppercase();
        if upper == "TIME" {
            return Ok(RequestVariable::WholeTime);
        }
        if let Some(index) = TIMES.iter().position(|known| *known == upper) {
            return Ok(RequestVariable::Time(index));
        }
        if let Some((_, field)) = FIELDS.iter().find(|(known, _)| *known == upper) {
            return Ok(RequestVariable::Field(field));
        }
        // Here it is the path alone, unlike the variable of CGI.
        if upper == "REQUEST_URI" {
            return Ok(RequestVariable::Named("DOCUMENT_URI".to_owned()));
        }
        // Variables of TLS connections are many; those that are not there are empty.
        if NAMES.contains(&upper.as_str()) || upper.starts_with("SSL_") {
            return Ok(RequestVariable::Named(upper));
        }
        Err(format!("there is no variable %{{{name}}}; v(\"{name}\") gives those that the page has set"))
    }

    fn value(&self, scope: &mut impl Scope) -> Vec<u8> {
        match self {
            RequestVariable::Field(name) => scope.request_field(name.as_bytes()).unwrap_or_default(),
            RequestVariable::Named(name) => scope.variable(name.as_bytes()).unwrap_or_default(),
            RequestVariable::Time(index) => {
                let part = local_parts(scope.now()).get(*index).copied().unwrap_or_default();
                match index {
                    0 => format!("{part:04}").into_bytes(),
                    6 => part.to_string().into_bytes(),
                    _ => format!("{part:02}").into_bytes(),
                }
            }
            RequestVariable::WholeTime => {
                let [year, month, day, hour, minute, second, _] = local_parts(scope.now());
                format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}").into_bytes()
            }
        }
    }
}

impl Node {
    pub(super) fn holds(&self, scope: &mut impl Scope) -> Result<bool, EvaluationError> {
        Ok(match self {
            Node::Constant(value) => *value,
            Node::Not(node) => !node.holds(scope)?,
            Node::Any(nodes) => {
                for node in nodes {
                    if node.holds(scope)? {
                        return Ok(true);
                    }
                }
                false
            }
            Node::All(nodes) => {
                for node in nodes {
                    if !node.holds(scope)? {
                        return Ok(false);
                    }
                }
                true
            }
            Node::Numbers(comparison, left, right) => {
                let left = number(&left.value(scope)?);
                comparison.holds(left.cmp(&number(&right.value(scope)?)))
            }
            Node::Strings(comparison, left, right) => {
                let left = left.value(scope)?;
                comparison.holds(left.cmp(&right.value(scope)?))
            }
            Node::Matches { negated, subject, pattern } => {
                let subject = subject.value(scope)?;
                matches(&subject, pattern, scope) != *negated
            }
            Node::In(word, list) => {
                let word = word.value(scope)?;
                list.values(scope)?.contains(&word)
            }
            Node::IsEmpty(word) => word.value(scope)?.is_empty(),
            Node::IsTrue(word) => is_true(&word.value(scope)?),
            Node::Accessible(word) => {
                let path = word.value(scope)?;
                scope.is_accessible(&path)
            }
            Node::IsFile(word) => {
                let path = word.value(scope)?;
                scope.is_file(&path)
            }
            Node::RemoteIn(network) => {
                let address = scope.variable(b"REMOTE_ADDR").unwrap_or_default();
                network.contains(&address)
            }
            Node::AddressIn(word, network) => network.contains(&word.value(scope)?),
            Node::Wildcard { subject, pattern, any_case, paths } => {
                let subject = subject.value(scope)?;
                wildcard::matches(&pattern.value(scope)?, &subject, *any_case, *paths)
            }
        })
    }
}

impl Comparison {
    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Comparison::Equal => ordering.is_eq(),
            Comparison::NotEqual => ordering.is_ne(),
            Comparison::Less => ordering.is_lt(),
            Comparison::LessOrEqual => ordering.is_le(),
            Comparison::Greater => ordering.is_gt(),
            Comparison::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

/// A pattern without groups leaves `$0` to `$9` as they are, so that a page can keep what it wants of them.
fn matches(subject: &[u8], pattern: &RegularExpression, scope: &mut impl Scope) -> bool {
    if !pattern.has_groups() {
        return pattern.is_match(subject);
    }
    let groups = pattern.groups(subject);
    let matched = groups.is_some();
    scope.captures().set(subject, groups);
    matched
}

/// As C reads a number: what follows it, and what is none, does not count.
fn number(text: &[u8]) -> i64 {
    let text = text.trim_ascii_start();
    let (negative, digits) = match text.first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let value =
        digits.fold(0i64, |value, digit| value.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    if negative { -value } else { value }
}

fn is_true(value: &[u8]) -> bool {
    let false_values: [&[u8]; 4] = [b"off", b"no", b"false", b"0"];
    !value.is_empty() && !false_values.iter().any(|known| known.eq_ignore_ascii_case(value))
}

impl Word {
    pub(super) fn value(&self, scope: &mut impl Scope) -> Result<Vec<u8>, EvaluationError> {
        let value = match self {
            Word::Text(text) => text.clone(),
            Word::Concatenated(words) => {
                let mut value = Vec::new();
                for word in words {
                    value.extend(word.value(scope)?);
                    check_length(&value)?;
                }
                value
            }
            Word::Variable(variable) => variable.value(scope),
            Word::Function(function, argument) => {
                let argument = argument.value(scope)?;
                functions::apply(*function, argument, scope)
            }
            Word::Replace(arguments) => {
                let [text, from, to] = &**arguments;
                replace(&text.value(scope)?, &from.value(scope)?, &to.value(scope)?)?
            }
            Word::Capture(index) => scope.captures().group(*index).unwrap_or_default().to_vec(),
            Word::Condition(node) => if node.holds(scope)? { &b"true"[..] } else { b"false" }.to_vec(),
            Word::Substituted { subject, substitution } => {
                let subject = subject.value(scope)?;
                substitution.apply(&subject, scope)?
            }
            Word::Joined(list, separator) => {
                let separator = match separator {
                    Some(word) => word.value(scope)?,
                    None => Vec::new(),
                };
                list.values(scope)?.join(&separator[..])
            }
        };
        check_length(&value)?;
        Ok(value)
    }
}

impl List {
    fn values(&self, scope: &mut impl Scope) -> Result<Vec<Vec<u8>>, EvaluationError> {
        let (pattern, list, substitution) = match self {
            List::Words(words) => return words.iter().map(|word| word.value(scope)).collect(),
            List::Split(pattern, list) => (pattern, list, None),
            List::SplitSubstituted(substitution, list) => (&substitution.pattern, list, Some(substitution)),
        };
        let mut values = Vec::new();
        for value in list.values(scope)? {
            match substitution {
                // What a substitution makes of each match ends a piece.
                Some(substitution) => values.push(substitution.apply(&value, scope)?),
                None => split(&value, pattern, &mut values),
            }
        }
        Ok(values)
    }
}

fn split(value: &[u8], pattern: &RegularExpression, pieces: &mut Vec<Vec<u8>>) {
    let mut from = 0;
    let mut at = 0;
    while let Some(found) = pattern.find_at(value, at) {
        if found.is_empty() {
            at = found.end + 1;
            if at > value.len() {
                break;
            }
            continue;
        }
        pieces.push(value[from..found.start].to_vec());
        from = found.end;
        at = found.end;
    }
    pieces.push(value[from..].to_vec());
}

impl Substitution {
    fn apply(&self, subject: &[u8], scope: &mut impl Scope) -> Result<Vec<u8>, EvaluationError> {
        let mut result = Vec::with_capacity(subject.len());
        let mut from = 0;
        let mut at = 0;
        while let Some(groups) = self.pattern.groups_at(subject, at) {
            let Some(found) = groups.first().cloned().flatten() else { break };
            result.extend_from_slice(&subject[from..found.start]);
            scope.captures().set(subject, Some(groups));
            result.extend(self.replacement.value(scope)?);
            check_length(&result)?;
            from = found.end;
            // An empty match must not be found again.
            at = if found.is_empty() { found.end + 1 } else { found.end };
            if !self.everywhere || at > subject.len() {
                break;
            }
        }
        result.extend_from_slice(&subject[from..]);
        Ok(result)
    }
}

fn replace(text: &[u8], from: &[u8], to: &[u8]) -> Result<Vec<u8>, EvaluationError> {
    if from.is_empty() {
        return Ok(text.to_vec());
    }
    let mut result = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(found) = memchr::memmem::find(rest, from) {
        result.extend_from_slice(&rest[..found]);
        result.extend_from_slice(to);
        check_length(&result)?;
        rest = &rest[found + from.len()..];
    }
    result.extend_from_slice(rest);
    Ok(result)
}

fn check_length(value: &[u8]) -> Result<(), EvaluationError> {
    if value.len() > MOST_VALUE_BYTES {
        return Err(EvaluationError(format!("a value is longer than {MOST_VALUE_BYTES} bytes")));
    }
    Ok(())
}
