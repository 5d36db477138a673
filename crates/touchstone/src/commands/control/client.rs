//! Requests of `touchstone control` to the admin listener of a server.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use touchstone_client::blocking::read_answer;
use touchstone_config::{AdminListen, load_file};

use super::ServerOptions;

/// The configuration of the packaged server.
const PACKAGED_CONFIG: &str = "/etc/touchstone/touchstone.toml";

/// The variable that may have the token.
const TOKEN_VARIABLE: &str = "TOUCHSTONE_CONTROL_TOKEN";

/// The maximum time for an answer: a change of the configuration may open many files.
const PATIENCE: Duration = Duration::from_secs(120);

/// The largest answer.
const MOST_BYTES: u64 = 64 << 20;

/// The way to a server.
pub(super) struct Client {
    listen: AdminListen,
    token: Option<String>,
}

/// A request.
pub(super) struct ApiRequest<'a> {
    pub(super) method: &'static str,
    pub(super) path: &'a str,
    pub(super) fields: &'a [(&'static str, String)],
    pub(super) body: Option<String>,
}

impl<'a> ApiRequest<'a> {
    /// A request that reads.
    pub(super) fn get(path: &'a str) -> ApiRequest<'a> {
        ApiRequest { method: "GET", path, fields: &[], body: None }
    }
}

/// An answer.
pub(super) struct Reply {
    pub(super) status: u16,
    /// Its `ETag`.
    pub(super) tag: Option<String>,
    pub(super) body: Value,
}

/// A text as a part of a path.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

impl Client {
    /// The server that the options name.
    pub(super) fn new(options: &ServerOptions) -> Result<Client, String> {
        let listen = match &options.server {
            Some(text) => listen_of(text)?,
            None => {
                let file = options.config.as_deref().unwrap_or(Path::new(PACKAGED_CONFIG));
                let loaded = load_file(file).map_err(|problems| {
                    let first = problems.first().map(ToString::to_string).unwrap_or_default();
                    format!("{first}\ntouchstone control: --config or --server must name a server")
                })?;
                loaded.config.admin.listen
            }
        };
        if listen == AdminListen::Off {
            return Err("the server has no admin listener: set 'listen' in [admin]".to_string());
        }
        let token = match &options.token_file {
            Some(file) => {
                let text = std::fs::read_to_string(file)
                    .map_err(|error| format!("token file '{}': {error}", file.display()))?;
                Some(text.lines().next().unwrap_or_default().trim().to_string())
            }
            None => std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty()),
        };
        if token.as_deref().is_some_and(|token| token.bytes().any(|byte| !byte.is_ascii_graphic())) {
            return Err("a token must have letters, digits and -._~+/= only".to_string());
        }
        Ok(Client { listen, token })
    }

    /// Sends a request and reads the answer.
    pub(super) fn ask(&self, sent: &ApiRequest<'_>) -> Result<Reply, String> {
        if !sent.path.starts_with('/') || sent.path.bytes().any(|byte| !byte.is_ascii_graphic()) {
            return Err(format!("{:?} is not a path, such as /control/sites", sent.path));
        }
        let host = match &self.listen {
            AdminListen::Tcp(address) => address.to_string(),
            _ => "localhost".to_string(),
        };
        let mut text =
            format!("{} {} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n", sent.method, sent.path);
        if let Some(token) = &self.token {
            text.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        for (name, value) in sent.fields {
            if value.contains(['\r', '\n']) {
                return Err(format!("{name}: {value:?} has a line end"));
            }
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = &sent.body {
            text.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
        }
        text.push_str("\r\n");
        text.push_str(sent.body.as_deref().unwrap_or_default());
        self.exchange(text.as_bytes()).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => {
                format!("{}: the answer is not one of a control API: {error}", self.listen)
            }
            _ => format!("{}: {error}; is the server running?", self.listen),
        })
    }

    fn exchange(&self, request: &[u8]) -> io::Result<Reply> {
        match &self.listen {
            AdminListen::Unix(path) => {
                let mut stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.write_all(request)?;
                read_reply(&mut stream)
            }
            AdminListen::Tcp(address) => {
                let mut stream = TcpStream::connect(address)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.write_all(request)?;
                read_reply(&mut stream)
            }
            AdminListen::Off => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

fn listen_of(text: &str) -> Result<AdminListen, String> {
    match text.strip_prefix("unix:") {
        Some(path) => Ok(AdminListen::Unix(path.into())),
        None => text.parse().map(AdminListen::Tcp).map_err(|_| {
            format!("--server {text:?} must be ADDRESS:PORT with a numeric address, or unix:PATH")
        }),
    }
}

fn read_reply(stream: &mut impl Read) -> io::Result<Reply> {
    let mut body = Vec::new();
    let head = read_answer(stream, MOST_BYTES, &mut body)?;
    let body = match String::from_utf8_lossy(&body).trim() {
        "" => Value::Null,
        text => serde_json::from_str(text).unwrap_or_else(|_| serde_json::json!({ "error": text })),
    };
    let tag = head.field(b"etag").map(|tag| String::from_utf8_lossy(tag).into_owned());
    Ok(Reply { status: head.status, tag, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_and_addresses() {
        let parse = |mut answer: &[u8]| read_reply(&mut answer).ok();
        let reply =
            parse(b"HTTP/1.1 412 Precondition Failed\r\nETag: \"a\"\r\n\r\n{\"error\": \"x\"}").unwrap();
        assert_eq!(
            (reply.status, reply.tag.as_deref(), &reply.body["error"]),
            (412, Some("\"a\""), &"x".into())
        );
        assert_eq!(
            parse(b"HTTP/1.1 403 Forbidden\r\n\r\n403 Forbidden\n").unwrap().body["error"],
            "403 Forbidden"
        );
        assert!(parse(b"SSH-2.0").is_none());
        assert_eq!(listen_of("unix:/a"), Ok(AdminListen::Unix("/a".into())));
        assert!(listen_of("localhost:1").is_err());
        assert_eq!(encoded("a b/c"), "a%20b%2Fc");
    }
}
