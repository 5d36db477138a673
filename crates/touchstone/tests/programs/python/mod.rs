//! Python applications from the outside: small ones of WSGI and ASGI, in a running server.

mod asgi;
mod failures;
mod large;
mod operators;
mod reload;
mod versions;
mod wsgi;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::support::{Response, Server, Tree, curl, skipped, wait_until};

/// Far longer than anything takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A running server with one application.
pub(crate) struct Running {
    pub(crate) server: Server,
    tree: Tree,
}

/// Whether there is a Python that a server can open.
pub(crate) fn has_python() -> bool {
    let asked =
        Command::new("python3").args(["-c", "import sys; sys.exit(sys.version_info < (3, 9))"]).status();
    if asked.is_ok_and(|status| status.success()) {
        return true;
    }
    skipped("Python applications (install python3 libpython3.11)");
    false
}

pub(crate) fn apps() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/python/apps")
}

/// A server with this application on `/`; `keys` are further keys of the route's table, each with a comma
/// before it.
pub(crate) fn start(app: &str, keys: &str) -> Running {
    start_in(&apps(), app, keys, "")
}

pub(crate) fn start_in(directory: &Path, app: &str, keys: &str, sections: &str) -> Running {
    let tree = Tree::empty();
    std::fs::write(tree.around().join("file.txt"), vec![b'f'; 300_000]).expect("the file is written");
    let server = Server::configured(tree.around(), &configuration(&tree, directory, app, keys, sections));
    Running { server, tree }
}

pub(crate) fn configuration(tree: &Tree, directory: &Path, app: &str, keys: &str, sections: &str) -> String {
    let root = tree.around().display();
    format!(
        "{sections}\n[server]\ncores = 1\n\n[error_log]\nlevel = \"info\"\n\n\
         [[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = \"{root}\"\n\n\
         [[site.route]]\npath = \"/\"\n\n[site.route.python]\napp = \"{app}\"\n\
         directory = \"{}\"\n{keys}\n\
         environment = {{ TEST_FILE = \"{root}/file.txt\", TEST_VARIABLE = \"set\" }}\n",
        directory.display()
    )
}

impl Running {
    pub(crate) fn get(&self, target: &str) -> Response {
        self.server.get(target)
    }

    pub(crate) fn text(&self, target: &str) -> String {
        let response = self.get(target);
        assert_eq!(response.status, 200, "{target}: {}", self.server.error_text());
        String::from_utf8_lossy(&response.body).into_owned()
    }

    pub(crate) fn post(&self, target: &str, body: &[u8]) -> Response {
        let mut client = self.server.connect();
        let head = format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
        client.ask([head.as_bytes(), body].concat())
    }
}
