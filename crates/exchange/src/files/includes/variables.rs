//! The variables of a request for a page: those of CGI (RFC 3875 section 4.1), and additional ones of
//! Apache's conditions.

use touchstone_files::root::Root;
use touchstone_handler::request::{Protocol, Request};
use touchstone_http::authorization::authentication_scheme;
use touchstone_http::request_view::client_name;
use touchstone_includes::Variable;

/// The source of a page's variables.
pub struct Variables<'a> {
    /// The request.
    pub request: &'a Request,
    /// The root of its files.
    pub root: &'a Root,
    /// The page's file, below the root.
    pub file_path: &'a [u8],
}

/// Names in the order of `printenv`, without those that only conditions use.
const NAMES: &[&str] = &[
    "AUTH_TYPE",
    "DOCUMENT_ROOT",
    "GATEWAY_INTERFACE",
    "HTTPS",
    "QUERY_STRING",
    "REMOTE_ADDR",
    "REMOTE_PORT",
    "REMOTE_USER",
    "REQUEST_METHOD",
    "REQUEST_SCHEME",
    "REQUEST_URI",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "SERVER_ADDR",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "SERVER_SOFTWARE",
];

/// Names whose value is the same for every request for a page.
const CONSTANT: &[&str] = &[
    "DOCUMENT_ROOT",
    "GATEWAY_INTERFACE",
    "HANDLER",
    "IS_SUBREQ",
    "REQUEST_FILENAME",
    "REQUEST_STATUS",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "SERVER_SOFTWARE",
];

/// Additional names that only conditions use.
const CONDITIONAL: &[&str] =
    &["CONN_REMOTE_ADDR", "CONTENT_TYPE", "HTTP2", "IPV6", "REMOTE_HOST", "REQUEST_LOG_ID", "THE_REQUEST"];

/// Fields that no program gets: they hold secrets, or would be taken for a setting of the program (httpoxy).
const WITHHELD: &[&str] = &["AUTHORIZATION", "PROXY", "PROXY_AUTHORIZATION"];

/// Whether a variable of this name may have another value for another request.
pub fn may_vary(name: &str) -> bool {
    let known = NAMES.contains(&name) || CONDITIONAL.contains(&name);
    (known && !CONSTANT.contains(&name)) || name.starts_with("HTTP_")
}

impl Variables<'_> {
    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<Vec<u8>> {
        let request = self.request;
        let text = |text: &str| Some(text.as_bytes().to_vec());
        let client = request.internet_client();
        match name {
            "AUTH_TYPE" => {
                request.user.as_ref().and_then(|_| text(authentication_scheme(request.received.fields())))
            }
            "CONN_REMOTE_ADDR" | "REMOTE_ADDR" | "REMOTE_HOST" => text(&client_name(request.client?.ip())),
            "CONTENT_TYPE" => request.received.values("content-type").next().map(<[u8]>::to_vec),
            "DOCUMENT_ROOT" => {
                use std::os::unix::ffi::OsStrExt as _;
                Some(self.root.path().as_os_str().as_bytes().to_vec())
            }
            "GATEWAY_INTERFACE" => text("CGI/1.1"),
            "HANDLER" => text("server-parsed"),
            "HTTP2" => text(if request.protocol == Protocol::Http2 { "on" } else { "off" }),
            "HTTPS" => request.is_https().then(|| text("on")).flatten(),
            "IPV6" => text(if client?.ip().to_canonical().is_ipv6() { "on" } else { "off" }),
            "IS_SUBREQ" => text("false"),
            "QUERY_STRING" => Some(request.query.as_deref().unwrap_or_default().to_vec()),
            "REMOTE_PORT" => {
                client.filter(|client| client.port() != 0).and_then(|client| text(&client.port().to_string()))
            }
            "REMOTE_USER" => request.user.as_ref().and_then(|user| text(user)),
            "REQUEST_FILENAME" | "SCRIPT_FILENAME" => {
                use std::os::unix::ffi::OsStringExt as _;
                Some(self.root.place_of(self.file_path).into_os_string().into_vec())
            }
            "REQUEST_METHOD" => Some(request.received.method_text().to_vec()),
            "REQUEST_SCHEME" => text(if request.is_https() { "https" } else { "http" }),
            "REQUEST_LOG_ID" => (!request.id.is_empty()).then(|| request.id.as_bytes().to_vec()),
            "REQUEST_STATUS" => text("200"),
            "REQUEST_URI" => Some(request.path_and_query()),
            "SCRIPT_NAME" => Some(request.path.to_vec()),
            "SERVER_ADDR" => text(&request.server.ip().to_canonical().to_string()),
            "SERVER_NAME" => Some(self.server_name()),
            "SERVER_PORT" => text(&request.server.port().to_string()),
            "SERVER_PROTOCOL" => text(request.protocol.text()),
            "SERVER_SOFTWARE" => text("touchstone"),
            "THE_REQUEST" => Some(
                [
                    request.received.method_text(),
                    b" ",
                    request.received.target(),
                    b" ",
                    request.protocol.text().as_bytes(),
                ]
                .concat(),
            ),
            _ => self.field_variable(name.strip_prefix("HTTP_")?),
        }
    }

    /// All variables with their values.
    pub fn all(&self) -> Vec<Variable> {
        let mut all: Vec<Variable> = Vec::new();
        for name in NAMES {
            all.extend(self.get(name).map(|value| (name.as_bytes().to_vec(), value)));
        }
        for (name, _) in self.request.received.fields() {
            let Some(variable) = variable_of_field(name) else { continue };
            let full = format!("HTTP_{variable}");
            if !all.iter().any(|(known, _)| known == full.as_bytes()) {
                all.extend(self.field_variable(&variable).map(|value| (full.into_bytes(), value)));
            }
        }
        all
    }

    /// The requested host, or the address.
    fn server_name(&self) -> Vec<u8> {
        match &self.request.host {
            Some(host) => touchstone_http::host::split_port(host).0.to_ascii_lowercase(),
            None => self.request.server.ip().to_string().into_bytes(),
        }
    }

    /// `HTTP_...`: the values of a field, joined.
    fn field_variable(&self, wanted: &str) -> Option<Vec<u8>> {
        let fields = self.request.received.fields();
        let values = fields.filter(|(name, _)| variable_of_field(name).as_deref() == Some(wanted));
        let mut joined: Option<Vec<u8>> = None;
        for (name, value) in values {
            match &mut joined {
                None => joined = Some(value.to_vec()),
                Some(joined) => {
                    let separator: &[u8] = if name.eq_ignore_ascii_case(b"cookie") { b"; " } else { b", " };
                    joined.extend_from_slice(separator);
                    joined.extend_from_slice(value);
                }
            }
        }
        joined
    }
}

/// `USER_AGENT` for `User-Agent`. A name with an underscore has none: two fields could become one variable.
fn variable_of_field(name: &[u8]) -> Option<String> {
    if !name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-') {
        return None;
    }
    let variable: String = name
        .iter()
        .map(|&byte| if byte == b'-' { '_' } else { char::from(byte.to_ascii_uppercase()) })
        .collect();
    (!WITHHELD.contains(&variable.as_str())).then_some(variable)
}

/// The name of a user in `/etc/passwd`.
pub fn user_name(user: u32) -> Option<Vec<u8>> {
    let accounts = std::fs::read("/etc/passwd").ok()?;
    accounts.split(|&byte| byte == b'\n').find_map(|line| {
        let mut fields = line.split(|&byte| byte == b':');
        let name = fields.next()?;
        let number = std::str::from_utf8(fields.nth(1)?).ok()?.parse::<u32>().ok()?;
        (number == user).then(|| name.to_vec())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_their_variables() {
        assert_eq!(variable_of_field(b"User-Agent").as_deref(), Some("USER_AGENT"));
        for withheld in [&b"Proxy"[..], b"authorization", b"User_Agent", b"a b"] {
            assert_eq!(variable_of_field(withheld), None);
        }
    }

    #[test]
    fn what_may_vary() {
        for name in ["REMOTE_ADDR", "HTTP_X", "QUERY_STRING", "SERVER_NAME", "THE_REQUEST"] {
            assert!(may_vary(name), "{name}");
        }
        for name in ["DOCUMENT_ROOT", "SERVER_SOFTWARE", "nosuch", "SCRIPT_NAME"] {
            assert!(!may_vary(name), "{name}");
        }
    }

    #[test]
    fn users_have_names() {
        assert_eq!(user_name(0).as_deref(), Some(&b"root"[..]));
        assert_eq!(user_name(u32::MAX - 7), None);
    }
}
