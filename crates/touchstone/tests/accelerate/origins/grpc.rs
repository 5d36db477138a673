//! gRPC with other implementations of client and server, and this server between them: every kind of call has
//! the same result as without it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::{Server, Tree, skipped};

const CALLS: usize = 12;

/// A server of real gRPC; it ends with the test.
struct GrpcServer {
    child: Child,
    port: u16,
}

impl GrpcServer {
    /// `None`, with a visible word, where grpcio is not installed.
    fn start() -> Option<GrpcServer> {
        if !python().exists() {
            skipped("gRPC with grpcio (run scripts/setup-grpc.sh)");
            return None;
        }
        let mut child = calls(&["serve"]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Some(GrpcServer { child, port: port.trim().parse().unwrap() })
    }
}

impl Drop for GrpcServer {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Where `scripts/setup-grpc.sh` puts it: below the target directory, in which the tests' binary is as well.
fn python() -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_touchstone"));
    built.ancestors().nth(2).unwrap().join("grpcio/bin/python")
}

fn calls(arguments: &[&str]) -> Command {
    let mut command = Command::new(python());
    command
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/accelerate/origins/grpc_calls.py"))
        .args(arguments);
    command
}

/// The result of each kind of call, a line each.
fn called(address: &str) -> Vec<String> {
    let output = calls(&["call", address]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn every_kind_of_call_passes() {
    let Some(grpc) = GrpcServer::start() else { return };
    let expected = called(&format!("127.0.0.1:{}", grpc.port));
    assert_eq!(expected.len(), CALLS, "{expected:#?}");
    // A cache is not involved, and has no effect.
    for cache in ["", "cache = {}\n"] {
        let tree = Tree::standard();
        let text = format!(
            "{}[[site.route]]\npath = \"/trial.Trial/\"\n{cache}\
             proxy = {{ to = \"http://127.0.0.1:{}\", version = \"2\" }}\n",
            // A stream of messages may be longer than a body, and pause longer.
            tree.configuration("[limits]\nbody_bytes = \"1MiB\"\nstall_timeout = \"1s\"\n"),
            grpc.port
        );
        let server = Server::configured(tree.around(), &text);
        assert_eq!(called(&server.address().to_string()), expected, "{cache}");
    }
}
