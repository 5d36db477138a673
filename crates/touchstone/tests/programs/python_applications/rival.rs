//! Other servers for Python, whose answers are compared with ours: one worker each on a free port.

use std::io::Read as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::START;
use crate::support::{Client, free_port, wait_until};

/// A running server. Dropping it ends it.
pub(crate) struct Rival {
    child: Child,
    address: SocketAddr,
}

impl Rival {
    /// gunicorn with an application of a directory, as the environment has it.
    pub(crate) fn gunicorn(app: &str, directory: &Path, virtualenv: &Path) -> Rival {
        let more = ["--workers", "1", "--threads", "16", "--keep-alive", "75", "--no-control-socket"];
        let address = address();
        let mut command = Command::new(virtualenv.join("bin/gunicorn"));
        command.arg("--bind").arg(address.to_string()).args(more).args(["--log-level", "error", app]);
        Rival::start(command, address, directory)
    }

    /// uvicorn, the same.
    pub(crate) fn uvicorn(app: &str, directory: &Path, virtualenv: &Path) -> Rival {
        let address = address();
        let mut command = Command::new(virtualenv.join("bin/uvicorn"));
        command.args(["--host", "127.0.0.1", "--port"]).arg(address.port().to_string());
        command.args(["--no-access-log", "--log-level", "error", "--timeout-keep-alive", "75", app]);
        Rival::start(command, address, directory)
    }

    fn start(mut command: Command, address: SocketAddr, directory: &Path) -> Rival {
        let child = command
            .current_dir(directory)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut rival = Rival { child, address };
        wait_until("the other server listens", START, || {
            if let Some(status) = rival.child.try_wait().unwrap() {
                let mut said = String::new();
                rival.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
                panic!("{command:?}: {status}\n{said}");
            }
            Client::try_connect(address).is_ok()
        });
        rival
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        // Its workers end when it ends by a signal that it can take; SIGKILL would leave them.
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

fn address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}
