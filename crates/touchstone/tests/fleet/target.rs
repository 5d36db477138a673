//! A server to be loaded: the built program with the suite's files, and a log with the time of the last
//! request.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::rig::program;
use crate::support::Server;
use tempfile::TempDir;

pub(crate) struct Target {
    place: TempDir,
    server: Server,
}

impl Target {
    pub(crate) fn start() -> Target {
        let place = TempDir::with_prefix("touchstone-target-").expect("a directory");
        let root = place.path().join("www");
        write_tree(&root);
        let log = place.path().join("access.log");
        let words = ["--root".into(), root.into_os_string(), "--listen".into(), "127.0.0.1:0".into()];
        let server = Server::start(words.into_iter().chain(["--access-log".into(), log.into_os_string()]));
        Target { place, server }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.server.address())
    }

    /// How long from now on requests still arrived. Returns when none has arrived for three seconds.
    pub(crate) fn time_until_quiet(&self) -> Duration {
        let (began, mut size, mut last) = (Instant::now(), self.logged_bytes(), Instant::now());
        while last.elapsed() < Duration::from_secs(3) {
            std::thread::sleep(Duration::from_millis(20));
            let now = self.logged_bytes();
            if now > size {
                (size, last) = (now, Instant::now());
            }
        }
        last - began
    }

    /// How many requests it has answered, by the log.
    pub(crate) fn answered(&self) -> usize {
        let log = fs::read(self.place.path().join("access.log")).unwrap_or_default();
        log.iter().filter(|byte| **byte == b'\n').count()
    }

    fn logged_bytes(&self) -> u64 {
        fs::metadata(self.place.path().join("access.log")).map_or(0, |metadata| metadata.len())
    }
}

/// A server of a tree, for as long as it is held, and its URL.
pub(crate) fn serve_tree(root: &Path) -> (Server, String) {
    let server = Server::quick(root);
    let url = format!("http://{}/", server.address());
    (server, url)
}

/// Writes the files of the suite.
pub(crate) fn write_tree(root: &Path) {
    let written =
        Command::new(program()).args(["suites", "webbench-1.1-static", "--tree"]).arg(root).output();
    assert!(written.expect("it runs").status.success());
}
