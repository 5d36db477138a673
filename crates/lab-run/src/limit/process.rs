//! The limit server in a separate process, so that its processor time is measured separately from the load
//! engine's.

use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// What the server prints before its address once it listens.
pub const READY: &str = "listening on ";

/// A limit server that runs in a child process; it ends when this is dropped, and also when this process
/// ends.
#[derive(Debug)]
pub(super) struct ServerProcess {
    child: Child,
    address: SocketAddr,
    threads: usize,
    /// The server ends when this is closed.
    _input: Option<ChildStdin>,
}

impl ServerProcess {
    /// Starts `executable limit --serve ...` with this many threads and waits until it listens.
    pub(super) fn start(executable: &Path, body_bytes: usize, threads: usize) -> io::Result<ServerProcess> {
        let mut child = Command::new(executable)
            .args([
                "limit",
                "--serve",
                "127.0.0.1:0",
                "--until-input-ends",
                "--bytes",
                &body_bytes.to_string(),
                "--threads",
                &threads.to_string(),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", executable.display())))?;
        let input = child.stdin.take();
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let address = line.trim_end().strip_prefix(READY).and_then(|address| address.parse().ok());
        // From here on the child ends with the value that holds it.
        let mut server = ServerProcess { child, address: ([127, 0, 0, 1], 0).into(), threads, _input: input };
        match address {
            Some(address) => server.address = address,
            None => {
                let text = format!("{} did not start to serve: it printed {line:?}", executable.display());
                return Err(io::Error::other(text));
            }
        }
        Ok(server)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of threads that serve.
    pub(super) fn threads(&self) -> usize {
        self.threads
    }

    /// Processor time that the server has used so far, in microseconds.
    pub(super) fn used_us(&self) -> io::Result<f64> {
        let pid = self.child.id();
        // The scheduler's own account of each thread, in nanoseconds; exact while the thread sleeps.
        let used_ns = threads_used_ns(pid).unwrap_or(0.0);
        if used_ns > 0.0 {
            return Ok(used_ns / 1e3);
        }
        // Some kernels have no such account: clock ticks then, a hundred a second.
        let stat = procfs::process::Process::new(pid as i32)
            .and_then(|process| process.stat())
            .map_err(io::Error::other)?;
        Ok((stat.utime + stat.stime) as f64 * 1e6 / procfs::ticks_per_second() as f64)
    }
}

/// The processor time of all threads of a process, nanoseconds; `None` if one of them has no account. A
/// thread that ends while they are read is not counted.
fn threads_used_ns(pid: u32) -> Option<f64> {
    let mut used_ns = 0.0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let thread = thread.ok()?.path();
        match std::fs::read_to_string(thread.join("schedstat")) {
            Ok(text) => used_ns += text.split_ascii_whitespace().next()?.parse::<f64>().ok()?,
            Err(_) if !thread.exists() => {}
            Err(_) => return None,
        }
    }
    Some(used_ns)
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_serve_is_an_error() {
        let error = ServerProcess::start(Path::new("/bin/echo"), 1, 1).unwrap_err();
        assert!(error.to_string().contains("did not start to serve"), "{error}");
        let error = ServerProcess::start(Path::new("/nowhere/program"), 1, 1).unwrap_err();
        assert!(error.to_string().contains("/nowhere/program"), "{error}");
    }

    #[test]
    fn the_time_of_all_threads_is_counted() {
        // This thread is not the first of its process.
        let own_ns = || {
            let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
            text.split_ascii_whitespace().next().unwrap().parse::<f64>().unwrap()
        };
        while own_ns() < 30e6 {}
        let at_least_ns = own_ns();
        assert!(threads_used_ns(std::process::id()).unwrap() >= at_least_ns);
        assert_eq!(threads_used_ns(u32::MAX), None);
    }

    #[test]
    fn threads_that_end_are_not_an_error() {
        let is_done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                    std::thread::spawn(|| {}).join().unwrap();
                }
            });
            let missing = (0..2_000).find(|_| threads_used_ns(std::process::id()).is_none());
            is_done.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(missing, None);
        });
    }
}
