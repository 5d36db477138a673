//! The variables of nginx that Apache does not have, or that have another meaning there. They belong to the
//! current page, which may be included by another page, with its own path and query.

use super::walk::Walk;
use crate::host::{DependsOn, Host};
use crate::settings::Grammar;
use crate::time_format::{Zone, format_time};

impl<H: Host> Walk<H> {
    /// The value of a variable by its name in upper case; `None`: it is not a variable of nginx.
    pub(super) fn nginx_variable(&self, name: &[u8]) -> Option<Option<Vec<u8>>> {
        let grammar = self.context.settings.grammar;
        if grammar == Grammar::Apache24 {
            return None;
        }
        let given = |name: &[u8]| self.context.given_variable(name);
        let query = || {
            self.context.note(DependsOn::Request);
            self.source.query.as_deref()
        };
        Some(match name {
            b"ARGS" => query().map(<[u8]>::to_vec),
            b"IS_ARGS" => {
                Some(if query().is_some_and(|query| !query.is_empty()) { b"?".to_vec() } else { Vec::new() })
            }
            b"URI" => Some(self.source.path.clone()),
            b"HOST" => given(b"SERVER_NAME"),
            b"SCHEME" => given(b"REQUEST_SCHEME"),
            b"REQUEST" => given(b"THE_REQUEST"),
            b"REQUEST_ID" => given(b"REQUEST_LOG_ID"),
            b"CONTENT_LENGTH" => {
                self.context.note(DependsOn::Request);
                self.context.host.request_field(b"content-length")
            }
            b"TIME_LOCAL" => Some(format_time(self.context.now(), b"%d/%b/%Y:%H:%M:%S %z", Zone::Local)),
            b"TIME_ISO8601" => {
                let mut text = format_time(self.context.now(), b"%Y-%m-%dT%H:%M:%S%z", Zone::Local);
                text.insert(text.len() - 2, b':');
                Some(text)
            }
            _ => {
                if let Some(argument) = name.strip_prefix(b"ARG_") {
                    query().and_then(|query| argument_of(query, argument))
                } else if let Some(cookie) = name.strip_prefix(b"COOKIE_") {
                    self.context.note(DependsOn::Request);
                    self.context.host.request_field(b"cookie").and_then(|cookies| cookie_of(&cookies, cookie))
                } else if grammar == Grammar::Nginx {
                    // In Apache these belong to the requested page, or do not exist.
                    match name {
                        b"DOCUMENT_URI" => Some(self.source.path.clone()),
                        b"QUERY_STRING" => query().map(<[u8]>::to_vec),
                        b"HTTPS" => given(b"HTTPS").or(Some(Vec::new())),
                        b"REQUEST_FILENAME" => {
                            given(b"DOCUMENT_ROOT").map(|root| [&root[..], &self.source.file_path].concat())
                        }
                        _ => return None,
                    }
                } else {
                    return None;
                }
            }
        })
    }
}

/// The value of an argument of a query, undecoded; case is ignored in names.
fn argument_of(query: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    query.split(|&byte| byte == b'&').find_map(|argument| value_of(argument, name))
}

/// The value of a cookie.
fn cookie_of(cookies: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    // Several fields with this name were joined with commas.
    cookies.split(|byte| matches!(byte, b';' | b',')).find_map(|cookie| value_of(cookie.trim_ascii(), name))
}

fn value_of(pair: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    let equals = memchr::memchr(b'=', pair)?;
    pair[..equals].trim_ascii_end().eq_ignore_ascii_case(name).then(|| pair[equals + 1..].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_and_cookies() {
        for (query, expected) in [
            ("a=1", Some("1")),
            ("xa=2&A=1&a=3", Some("1")),
            ("a", None),
            ("a=", Some("")),
            ("a=%31+b=c", Some("%31+b=c")),
            ("", None),
        ] {
            let found = argument_of(query.as_bytes(), b"A");
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{query}");
        }
        assert_eq!(cookie_of(b"xa=2; a=1; b=3", b"A").as_deref(), Some(&b"1"[..]));
        assert_eq!(cookie_of(b"xa=2, a=1", b"A").as_deref(), Some(&b"1"[..]));
        assert_eq!(cookie_of(b"xa=2", b"A"), None);
    }
}
