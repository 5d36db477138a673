//! The server's side of the control socket: accepts on a thread, passes requests to the main thread, and
//! sends the answers back.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::{Answer, ControlAddress, LONGEST_REQUEST_BYTES, Request};
use crate::handover::{Kind, PassedSocket};
use crate::private_socket;
use crate::stale_socket::{AtPath, remove_stale};

/// The maximum number of connections; only the operator makes requests.
const MOST_CONNECTIONS: usize = 16;

/// The maximum time to receive or send a line.
const LINE_TIMEOUT: Duration = Duration::from_secs(5);

/// The destination of an answer.
pub struct Reply(Sender<Answer>);

impl Reply {
    /// Sends the answer; the client may have disconnected.
    pub fn send(self, answer: Answer) {
        let _ = self.0.send(answer);
    }
}

/// A control socket on which no thread accepts yet.
#[derive(Debug)]
pub struct ControlListener {
    socket: UnixListener,
    /// The user who may use it, besides root.
    owner: u32,
}

impl ControlListener {
    /// Creates the socket. Replaces a socket that an earlier server left, but not one on which a server
    /// answers.
    pub fn bind(address: &ControlAddress) -> io::Result<ControlListener> {
        let owner = rustix::process::geteuid().as_raw();
        if let ControlAddress::Path(path) = address {
            // A socket that is in use is reported by the bind.
            if let AtPath::OtherFile = remove_stale(path)? {
                let problem = "a file that is not a socket is in the way";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, problem));
            }
        }
        let socket = match address {
            ControlAddress::Path(path) => private_socket::listen(path),
            ControlAddress::Name(name) => private_socket::listen(format!("\0{name}")),
        };
        let socket = socket.map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => io::Error::new(error.kind(), "another server answers there"),
            _ => error,
        })?;
        Ok(ControlListener { socket, owner })
    }

    /// The socket of the previous process.
    pub fn inherited(socket: UnixListener, owner: u32) -> ControlListener {
        ControlListener { socket, owner }
    }

    /// The address of the socket.
    pub fn address(&self) -> Option<ControlAddress> {
        use std::os::linux::net::SocketAddrExt;
        let address = self.socket.local_addr().ok()?;
        let path = address.as_pathname().map(|path| ControlAddress::Path(path.to_path_buf()));
        let name =
            || Some(ControlAddress::Name(String::from_utf8_lossy(address.as_abstract_name()?).into_owned()));
        path.or_else(name)
    }

    /// Starts to accept connections, and passes every request to `take`.
    pub fn start(self, take: impl Fn(Request, Reply) + Send + Sync + 'static) -> io::Result<Control> {
        let ControlListener { socket, owner } = self;
        socket.set_nonblocking(true)?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let kept = socket.try_clone()?;
        let thread = {
            let stop = stop.clone();
            let run = move || accept_until_stopped(&socket, &stop, owner, &Arc::new(take));
            std::thread::Builder::new().name("control".to_string()).spawn(run)?
        };
        Ok(Control { socket: kept, owner, stop, thread: Some(thread) })
    }
}

/// A running control socket.
pub struct Control {
    socket: UnixListener,
    owner: u32,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// The socket, to be handed to a successor.
    pub fn to_pass(&self) -> io::Result<(PassedSocket, OwnedFd)> {
        let passed = PassedSocket {
            kind: Kind::Control,
            configured: None,
            is_shared_with_processes: false,
            owner: self.owner,
        };
        Ok((passed, self.socket.try_clone()?.into()))
    }

    /// Stops accepting; a successor accepts on the socket.
    pub fn leave(mut self) {
        self.end_thread();
    }

    /// Stops, and removes the socket's path.
    pub fn remove(mut self) {
        let path = self.path();
        self.end_thread();
        // A program that is being started has a copy of the descriptor for a moment. The copy must not
        // listen: the next server would find a server that answers.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        if let Some(path) = path {
            // This fails if the directory belongs to root and the server no longer runs as root: the next
            // start then replaces the socket.
            let _ = std::fs::remove_file(path);
        }
    }

    fn path(&self) -> Option<PathBuf> {
        self.socket.local_addr().ok()?.as_pathname().map(Path::to_path_buf)
    }

    fn end_thread(&mut self) {
        if rustix::io::write(&*self.stop, &1u64.to_ne_bytes()).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

fn accept_until_stopped<F: Fn(Request, Reply) + Send + Sync + 'static>(
    socket: &UnixListener,
    stop: &OwnedFd,
    owner: u32,
    take: &Arc<F>,
) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let mut waited =
            [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        match poll(&mut waited, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // Memory is short; retry later.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
        if !waited[1].revents().is_empty() {
            return;
        }
        let stream = match socket.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(_) => {
                // No descriptor is free; retry later.
                std::thread::sleep(Duration::from_millis(100));
                continue;
            }
        };
        if open.load(Ordering::Relaxed) >= MOST_CONNECTIONS {
            continue;
        }
        open.fetch_add(1, Ordering::Relaxed);
        let (count, take) = (open.clone(), take.clone());
        let serve = move || {
            // The end of the connection informs the client about the error.
            let _ = serve(stream, owner, &*take);
            count.fetch_sub(1, Ordering::Relaxed);
        };
        if std::thread::Builder::new().name("control".to_string()).spawn(serve).is_err() {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn serve(mut stream: UnixStream, owner: u32, take: &impl Fn(Request, Reply)) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(LINE_TIMEOUT))?;
    stream.set_write_timeout(Some(LINE_TIMEOUT))?;
    let user = rustix::net::sockopt::socket_peercred(&stream)?.uid.as_raw();
    let answer = if user != 0 && user != owner {
        Answer::refused(
            format!("only root and user {owner} may use this server, and you are {user}"),
            Vec::new(),
        )
    } else {
        let mut line = Vec::new();
        BufReader::new((&stream).take(LONGEST_REQUEST_BYTES)).read_until(b'\n', &mut line)?;
        match Request::parse(&line) {
            Err(problem) => Answer::refused(problem, Vec::new()),
            Ok(request) => {
                let (reply, answer) = channel();
                take(request, Reply(reply));
                // The main thread ends only with the process.
                answer.recv().unwrap_or_else(|_| Answer::refused("the server is being stopped", Vec::new()))
            }
        }
    };
    stream.write_all(answer.to_line().as_bytes())
}
