//! The operator's side of the control socket.

use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{Answer, ControlAddress, Request};

/// Why there is no answer.
#[derive(Debug)]
pub enum AskError {
    /// No server answers.
    NoServer(io::Error),
    /// The socket exists, but its permissions forbid its use.
    NotAllowed(io::Error),
    /// A process of this other user listens at the name.
    Stranger(u32),
    /// The connection broke, or the time limit passed.
    Broken(String),
}

impl fmt::Display for AskError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::NoServer(error) => write!(formatter, "no server answers: {error}"),
            AskError::NotAllowed(error) => {
                write!(formatter, "{error}; only root and the user who started the server may use it")
            }
            AskError::Stranger(user) => {
                write!(
                    formatter,
                    "user {user}, who is neither root nor you, listens there; set server.control_socket"
                )
            }
            AskError::Broken(why) => write!(formatter, "the server gave no answer: {why}"),
        }
    }
}

/// Sends a request, and waits for the answer for at most `patience`.
pub fn ask(address: &ControlAddress, request: &Request, patience: Duration) -> Result<Answer, AskError> {
    let stream = address.to_socket_address().and_then(|address| UnixStream::connect_addr(&address));
    let stream = stream.map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => AskError::NotAllowed(error),
        _ => AskError::NoServer(error),
    })?;
    if let ControlAddress::Name(_) = address {
        // Any user can bind the name before the server does.
        let ours = rustix::process::geteuid().as_raw();
        let theirs = rustix::net::sockopt::socket_peercred(&stream).map(|peer| peer.uid.as_raw());
        match theirs {
            Ok(user) if user == 0 || user == ours || ours == 0 => {}
            Ok(user) => return Err(AskError::Stranger(user)),
            Err(error) => return Err(AskError::Broken(error.to_string())),
        }
    }
    exchange(stream, request, patience).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            AskError::Broken(format!("none within {} s", patience.as_secs()))
        }
        _ => AskError::Broken(error.to_string()),
    })
}

fn exchange(mut stream: UnixStream, request: &Request, patience: Duration) -> io::Result<Answer> {
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    // The server refuses a user at once, perhaps before it has read the request: the answer can be read
    // nevertheless.
    match stream.write_all(request.to_line().as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
        _ => {}
    }
    let mut line = Vec::new();
    BufReader::new(stream).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection"));
    }
    Answer::parse(&line).map_err(|problem| io::Error::new(io::ErrorKind::InvalidData, problem))
}

/// Waits until a process has ended, for at most `patience`; returns whether it has.
pub fn wait_for_end(process: u32, patience: Duration) -> io::Result<bool> {
    let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) else { return Ok(true) };
    let descriptor = match pidfd_open(pid, PidfdFlags::empty()) {
        Err(rustix::io::Errno::SRCH) => return Ok(true),
        opened => opened?,
    };
    let until = Instant::now() + patience;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&timeout)) {
            Ok(0) if left.is_zero() => return Ok(false),
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
}
