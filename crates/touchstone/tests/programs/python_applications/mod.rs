//! Python applications from the outside: cases of WSGI and ASGI, applications of other authors as their users
//! install them, and hostile ones, each in a running server. What a server for Python that many use
//! (gunicorn, uvicorn) answers to the same requests is the measure.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod applications;
mod asgi;
mod asgi_applications;
mod asgi_cases;
mod exchange;
mod hostile;
mod rival;
mod visitor;
mod wsgi;
mod wsgi_cases;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use crate::support::{Server, Tree, skipped, wait_until};

/// How long an application may take to start on a busy machine.
const START: Duration = Duration::from_secs(120);

/// The Python environment with the applications; `None`, with a visible message, where it is not there.
fn environment() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let target = Path::new(env!("CARGO_BIN_EXE_touchstone")).ancestors().nth(2).unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/setup-python-applications.sh");
        let status = Command::new(script).arg("--brief").env("CARGO_TARGET_DIR", target).status().unwrap();
        assert!(status.success(), "{script}: {status}");
        let place = target.join("python-applications");
        place.join("bin/python3").exists().then_some(place)
    });
    if found.is_none() {
        skipped(
            "Python applications (run scripts/setup-python-applications.sh; it needs python3 python3-venv)",
        );
    }
    found.as_deref()
}

/// The directory of the applications that belong to these tests.
fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/python_applications/programs")
}

/// A route for an application: the text in the braces of `python = { ... }`.
struct Route {
    path: &'static str,
    settings: String,
}

impl Route {
    /// An application of a directory, in the environment of [`environment`].
    fn new(path: &'static str, app: &str, directory: &Path, virtualenv: &Path) -> Route {
        Route {
            path,
            settings: format!("app = {app:?}, directory = {directory:?}, virtualenv = {virtualenv:?}"),
        }
    }

    /// With more keys.
    fn with(mut self, more: &str) -> Route {
        self.settings.push_str(", ");
        self.settings.push_str(more);
        self
    }

    fn text(&self) -> String {
        format!("[[site.route]]\npath = {:?}\npython = {{ {} }}\n", self.path, self.settings)
    }
}

/// A server with these routes and more lines of configuration before them; returns when it answers on all
/// their paths.
fn serve(tree: &Tree, routes: &[Route], more: &str) -> Server {
    let server = start(tree, routes, more);
    for route in routes {
        wait_until(&format!("{} answers\n{}", route.path, server.error_text()), START, || {
            !(502..=504).contains(&server.get(route.path).status)
        });
    }
    server
}

/// The same without waiting for the applications. Answers are not compressed, as with the other servers.
fn start(tree: &Tree, routes: &[Route], more: &str) -> Server {
    let routes: String = routes.iter().map(Route::text).collect();
    let text = format!(
        "[server]\ncontrol_socket = \"off\"\n\n[limits]\nbody_bytes = \"1GiB\"\n\n\
         [[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = {:?}\ncompression = []\n{more}\n{routes}\n",
        tree.root()
    );
    Server::configured(tree.around(), &text)
}
