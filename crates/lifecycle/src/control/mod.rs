//! The control socket: `touchstone reload`, `upgrade`, `status` and `stop` use it to reach a running server.
//!
//! The control socket is a unix socket. A request is one line of JSON, and so is its answer:
//!
//! ```text
//! {"command":"reload"}
//! {"ok":false,"message":"the configuration was not applied; the one before stays",
//!     "problems":["t.toml:3:1: ..."]}
//! ```
//!
//! (The second line is split for this page.) The socket has a path, or a name in Linux's abstract namespace
//! that is derived from the configuration file's; such a name needs no configuration and leaves no file
//! behind. The kernel names the user of the client (SO_PEERCRED): the server answers only root and the user
//! who started it.

mod client;
mod listener;

use std::fmt;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use touchstone_accelerator::purge::PurgeRequest;
use touchstone_config::{ControlSocket, ServerConfig};

pub use client::{AskError, ask, wait_for_end};
pub use listener::{Control, ControlListener, Reply};

/// The maximum length of a request.
const LONGEST_REQUEST_BYTES: u64 = 16 << 10;

/// A request to a running server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Read the configuration file again.
    Reload,
    /// Open the log files again.
    ReopenLogs,
    /// Start this program, or the same one again, and pass the sockets to it.
    Upgrade(Option<PathBuf>),
    /// Report the status.
    Status,
    /// Remove responses from the cache of programs and origins.
    Purge(PurgeRequest),
    /// Finish the running requests, then end.
    Stop,
}

/// The answer of the server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// Whether the request was carried out.
    pub ok: bool,
    /// The result, or why the request was not carried out, in one line.
    pub message: String,
    /// Every problem, one line each.
    pub problems: Vec<String>,
    /// More facts, for programs.
    pub facts: Value,
}

impl Request {
    /// Parses a line.
    pub fn parse(line: &[u8]) -> Result<Request, String> {
        let value: Value =
            serde_json::from_slice(line).map_err(|error| format!("the request is not JSON: {error}"))?;
        match value["command"].as_str() {
            Some("reload") => Ok(Request::Reload),
            Some("reopen-logs") => Ok(Request::ReopenLogs),
            Some("status") => Ok(Request::Status),
            Some("stop") => Ok(Request::Stop),
            Some("purge") => PurgeRequest::from_json(&value).map(Request::Purge),
            Some("upgrade") => match &value["program"] {
                Value::Null => Ok(Request::Upgrade(None)),
                Value::String(program) if program.starts_with('/') => {
                    Ok(Request::Upgrade(Some(PathBuf::from(program))))
                }
                _ => Err("'program' must be an absolute path".to_string()),
            },
            Some(other) => Err(format!("this server has no command {other:?}")),
            None => Err("the request has no 'command'".to_string()),
        }
    }

    /// The request as a line with its end.
    pub fn to_line(&self) -> String {
        let value = match self {
            Request::Reload => json!({ "command": "reload" }),
            Request::ReopenLogs => json!({ "command": "reopen-logs" }),
            Request::Status => json!({ "command": "status" }),
            Request::Stop => json!({ "command": "stop" }),
            Request::Purge(order) => {
                let mut value = order.to_json();
                value["command"] = "purge".into();
                value
            }
            Request::Upgrade(None) => json!({ "command": "upgrade" }),
            Request::Upgrade(Some(program)) => {
                json!({ "command": "upgrade", "program": program.to_string_lossy() })
            }
        };
        format!("{value}\n")
    }
}

impl Answer {
    /// The request was carried out.
    pub fn done(message: impl Into<String>) -> Answer {
        Answer { ok: true, message: message.into(), ..Answer::default() }
    }

    /// The request was refused.
    pub fn refused(message: impl Into<String>, problems: Vec<String>) -> Answer {
        Answer { ok: false, message: message.into(), problems, facts: Value::Null }
    }

    /// Parses a line.
    pub fn parse(line: &[u8]) -> Result<Answer, String> {
        let mut value: Value =
            serde_json::from_slice(line).map_err(|error| format!("the answer is not JSON: {error}"))?;
        let problems = value["problems"].as_array().map_or(&[][..], Vec::as_slice);
        Ok(Answer {
            ok: value["ok"].as_bool().ok_or("the answer has no 'ok'")?,
            message: value["message"].as_str().unwrap_or_default().to_string(),
            problems: problems.iter().filter_map(Value::as_str).map(str::to_string).collect(),
            facts: value["facts"].take(),
        })
    }

    /// The answer as a line with its end.
    pub fn to_line(&self) -> String {
        format!("{}\n", self.to_json())
    }

    /// The answer as a JSON value.
    pub fn to_json(&self) -> Value {
        let mut value = json!({ "ok": self.ok, "message": self.message });
        if !self.problems.is_empty() {
            value["problems"] = self.problems.clone().into();
        }
        if !self.facts.is_null() {
            value["facts"] = self.facts.clone();
        }
        value
    }
}

/// The address of a control socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlAddress {
    /// A path.
    Path(PathBuf),
    /// A name of the abstract namespace.
    Name(String),
}

impl ControlAddress {
    /// The address for this configuration; `None`: no control socket.
    pub fn of(server: &ServerConfig, config_file: Option<&Path>) -> Option<ControlAddress> {
        match &server.control_socket {
            ControlSocket::Off => None,
            ControlSocket::Path(path) => Some(ControlAddress::Path(path.clone())),
            ControlSocket::Automatic => Some(ControlAddress::Name(name_for(config_file?))),
        }
    }

    fn to_socket_address(&self) -> io::Result<SocketAddr> {
        match self {
            ControlAddress::Path(path) => SocketAddr::from_pathname(path),
            ControlAddress::Name(name) => SocketAddr::from_abstract_name(name),
        }
    }
}

impl fmt::Display for ControlAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControlAddress::Path(path) => write!(formatter, "'{}'", path.display()),
            ControlAddress::Name(name) => write!(formatter, "'@{name}'"),
        }
    }
}

/// A directory may have several names, so its real path is used; the file's own name may be a link to the
/// current version, so it is used unchanged.
fn name_for(config_file: &Path) -> String {
    let absolute = std::path::absolute(config_file).unwrap_or_else(|_| config_file.to_path_buf());
    let directory = absolute.parent().unwrap_or(Path::new("/"));
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_path_buf());
    let whole = directory.join(absolute.file_name().unwrap_or_default());
    let digest = Sha256::digest(whole.as_os_str().as_encoded_bytes());
    let hexadecimal: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("touchstone-control-{hexadecimal}")
}

#[cfg(test)]
mod tests;
