//! The worker process: receives its settings, starts Python, imports the application, and calls it.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use rustix::net::RecvFlags;
use serde::{Deserialize, Serialize};

use super::hub::Hub;
use super::parts::Worker;
use super::{application, asgi, control as orders, server, wsgi};
use crate::api::{self, Gil};
use crate::interpreter::Interpreter;
use crate::settings::RouteSettings;
use crate::shared::control;

/// The first message to a worker.
#[derive(Serialize, Deserialize)]
pub struct WorkerSettings {
    /// Its application.
    pub route: RouteSettings,
    /// The Python that runs it.
    pub interpreter: Interpreter,
}

/// Runs a worker. Returns its exit code.
pub fn run() -> i32 {
    match serve() {
        Ok(()) => 0,
        Err(problem) => {
            server::report(control::FAILED, problem.as_bytes());
            server::EXIT_NO_APPLICATION
        }
    }
}

fn serve() -> Result<(), String> {
    let socket = take_socket().map_err(|error| format!("a worker has no socket: {error}"))?;
    let socket = server::set(socket);
    let failed = |error: io::Error| format!("no message of the server can be received: {error}");
    let message = control::receive(socket, RecvFlags::empty()).map_err(failed)?;
    let mut message = message.filter(|message| message.kind == control::SETTINGS).ok_or("no settings")?;
    let settings: WorkerSettings =
        serde_json::from_slice(&message.text).map_err(|error| format!("wrong settings: {error}"))?;
    let wake = message.descriptors.pop().ok_or("no descriptor for the wake-up")?;
    let WorkerSettings { route, interpreter } = settings;
    std::env::set_current_dir(&route.directory)
        .map_err(|error| format!("{}: {error}", route.directory.display()))?;
    let api = api::load(&interpreter.libpython)?;
    let mut gil = Gil::start(api, &interpreter.program.to_string_lossy());
    let hub = Arc::new(Hub::new(wake));
    let worker: &'static Worker =
        Box::leak(Box::new(Worker { start: Instant::now(), hub: hub.clone(), settings: route }));
    orders::start(socket, worker).map_err(failed)?;
    let loaded_at = SystemTime::now();
    let application = application::load(gil, &worker.settings)?;
    if interpreter.is_free_threaded && application.has_lock(gil) {
        let text = "its threads take turns: the interpreter's lock is on, because a module needs it \
            (the line about it is above), or PYTHON_GIL is 1";
        server::log('w', &format!("{}: {text}", worker.settings.app));
    }
    let ready = format!("{} {}", interpreter.version, application.protocol);
    if worker.settings.reload {
        orders::watch_files(application.source_files(gil), loaded_at);
    }
    let is_ready = || server::report(control::READY, ready.as_bytes());
    if application.protocol == "asgi" {
        asgi::run(gil, worker, &application, is_ready)?;
    } else {
        wsgi::run(&mut gil, worker, &application, is_ready)?;
    }
    gil.finalize();
    Ok(())
}

/// Takes the socket that is standard input, and replaces standard input.
fn take_socket() -> io::Result<OwnedFd> {
    // SAFETY: the server passes the socket as standard input, and nothing has used it yet.
    let socket = unsafe { OwnedFd::from_raw_fd(libc::STDIN_FILENO) };
    let moved = rustix::io::fcntl_dupfd_cloexec(&socket, 3)?;
    std::mem::forget(socket);
    let nothing = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    Ok(moved)
}
