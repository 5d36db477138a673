//! The variables `%{NAME}` of the grammar of Apache 2.4.

use super::scope::Scope;
use crate::time_format::local_parts;

/// `%{NAME}`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestVariable {
    /// A part of the current time: an index of [`local_parts`].
    Time(usize),
    /// The whole current time.
    WholeTime,
    /// A field of the request.
    Field(&'static str),
    /// A variable of the server.
    Named(String),
}

/// The names that are not in [`TIMES`] or [`FIELDS`].
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
        // In conditions this is only the path, unlike the CGI variable.
        if upper == "REQUEST_URI" {
            return Ok(RequestVariable::Named("DOCUMENT_URI".to_owned()));
        }
        // There are many variables of TLS connections; unknown ones are empty.
        if NAMES.contains(&upper.as_str()) || upper.starts_with("SSL_") {
            return Ok(RequestVariable::Named(upper));
        }
        Err(format!("unknown variable %{{{name}}}; v(\"{name}\") is a variable that the page has set"))
    }

    pub(super) fn value(&self, scope: &mut impl Scope) -> Vec<u8> {
        match self {
            RequestVariable::Field(name) => scope.request_field(name.as_bytes()).unwrap_or_default(),
            // Unlike the CGI variable it is always defined.
            RequestVariable::Named(name) if name == "HTTPS" => {
                scope.variable(b"HTTPS").unwrap_or_else(|| b"off".to_vec())
            }
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
