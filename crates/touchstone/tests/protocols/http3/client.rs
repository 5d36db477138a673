//! The client process: its input are commands as lines of JSON, its output are answers (see `client.py`).

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::{Server, skipped};

/// A running client, which may have any number of connections.
pub(crate) struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// One answer.
#[derive(Debug)]
pub(crate) struct Answer(Value);

impl Client {
    /// Starts one; `None`, with a visible word, where aioquic is not installed.
    pub(crate) fn start() -> Option<Client> {
        let python = python();
        if !python.exists() {
            skipped("HTTP/3 with aioquic (run scripts/setup-http3.sh)");
            return None;
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/protocols/http3/client.py");
        let mut child = Command::new(python)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the client starts");
        let input = child.stdin.take().expect("stdin is piped");
        let output = BufReader::new(child.stdout.take().expect("stdout is piped"));
        Some(Client { child, input, output })
    }

    /// Runs a command; one that fails on the client's own side fails the test.
    pub(crate) fn run(&mut self, command: Value) -> Value {
        writeln!(self.input, "{command}").expect("the client listens");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the client answers");
        let result: Value = serde_json::from_str(&line).expect("an answer is JSON");
        let said: String = command.to_string().chars().take(300).collect();
        assert!(result["error"].is_null(), "{said}: {}", result["error"]);
        result
    }

    /// A connection under this name to the server's first address, for localhost.
    pub(crate) fn connect(&mut self, name: &str, server: &Server) -> Value {
        self.connect_with(name, server, json!({}))
    }

    /// The same with more options; `server_name` may be another.
    pub(crate) fn connect_with(&mut self, name: &str, server: &Server, more: Value) -> Value {
        let mut command = json!({
            "do": "connect", "name": name, "port": server.address().port(), "server_name": "localhost"
        });
        for (key, value) in more.as_object().expect("more is an object") {
            command[key] = value.clone();
        }
        self.run(command)
    }

    /// Makes these requests on a connection, all at the same time.
    pub(crate) fn requests(&mut self, name: &str, requests: Value) -> Vec<Answer> {
        let result = self.run(json!({"do": "requests", "name": name, "requests": requests}));
        assert!(result["closed"].is_null(), "the connection was closed: {}", result["closed"]);
        Answer::all(&result)
    }

    /// GET of one target.
    pub(crate) fn get(&mut self, name: &str, target: &str) -> Answer {
        self.requests(name, json!([{ "path": target }])).remove(0)
    }

    /// Sends bytes on a stream of their own.
    pub(crate) fn raw(&mut self, name: &str, kind: &str, bytes: &[u8], end: bool) -> u64 {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let result = self.run(json!({"do": "raw", "name": name, "kind": kind, "hex": hex, "end": end}));
        result["stream"].as_u64().expect("a stream has a number")
    }

    /// Waits until the server closes a connection; returns its code.
    pub(crate) fn wait_closed(&mut self, name: &str) -> u64 {
        let result = self.run(json!({"do": "wait", "name": name}));
        result["closed"]["code"].as_u64().expect("it was closed with a code")
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.child.kill().expect("the client can be killed");
        self.child.wait().expect("the client can be waited for");
    }
}

impl Answer {
    /// Those of a result.
    pub(crate) fn all(result: &Value) -> Vec<Answer> {
        result["answers"].as_array().expect("answers are an array").iter().cloned().map(Answer).collect()
    }

    /// The status; 0: none arrived.
    pub(crate) fn status(&self) -> u64 {
        self.0["status"].as_u64().expect("a status is a number")
    }

    /// A field, if it is there.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.0["headers"][name].as_str()
    }

    /// The statuses of interim answers before it.
    pub(crate) fn interim(&self) -> Vec<u64> {
        self.0["interim"].as_array().expect("an array").iter().filter_map(Value::as_u64).collect()
    }

    /// A field behind the body, if it is there.
    pub(crate) fn trailer(&self, name: &str) -> Option<&str> {
        self.0["trailers"][name].as_str()
    }

    /// The code with which the server reset the stream.
    pub(crate) fn reset(&self) -> Option<u64> {
        self.0["reset"].as_u64()
    }

    /// How many bytes of all answers of the connection had arrived at its end.
    pub(crate) fn ended_at(&self) -> u64 {
        self.0["ended_at"].as_u64().expect("it has ended")
    }

    /// Fails the test unless it is complete and has this status and body.
    pub(crate) fn assert(&self, what: &str, status: u64, body: &[u8]) {
        assert_eq!(self.status(), status, "{what}: {}", self.0);
        assert_eq!(self.0["bytes"].as_u64(), Some(body.len() as u64), "{what}: length");
        let digest: String = Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(self.0["sha256"].as_str(), Some(&digest[..]), "{what}: bytes");
        assert!(self.0["ended"].as_bool() == Some(true) && self.reset().is_none(), "{what}: {}", self.0);
    }
}

/// Where `scripts/setup-http3.sh` puts it: below the target directory, in which the tests' binary is as well.
fn python() -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_touchstone"));
    let target = built.ancestors().nth(2).expect("the binary is in target/debug");
    target.join("aioquic/bin/python")
}
