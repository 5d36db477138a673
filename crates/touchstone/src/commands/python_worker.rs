//! `touchstone python-worker`: the process that the server starts for a Python application.

use crate::exit::Exit;

/// Runs until the server ends it.
pub fn run() -> Exit {
    match touchstone_python::run_worker() {
        0 => Exit::Done,
        _ => Exit::Failed,
    }
}
