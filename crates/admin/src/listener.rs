//! Binds the admin listener, accepts connections, takes a sample a second, and stops.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use touchstone_config::{AdminConfig, AdminListen, Config, LogLevel};
use touchstone_lifecycle::private_socket;
use touchstone_lifecycle::unix_socket::{self, SocketFileIdentity};
use touchstone_observe::log::error::ErrorLog;

use super::Sources;
use super::client_stream::ClientStream;
use super::connection;
use super::gate::Gate;
use super::history::History;
use super::listener_state::ListenerState;
use super::pages::Pages;

/// The maximum number of simultaneous connections: a few scrapers and browsers with a status page.
const MOST_CONNECTIONS: usize = 32;

/// The interval between samples.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// The admin listener of a server; it may be off.
pub struct Admin {
    sources: Sources,
    error_log: ErrorLog,
    config: AdminConfig,
    running: Option<RunningListener>,
}

/// A running listener.
struct RunningListener {
    state: Arc<ListenerState>,
    /// Closed when the thread must end.
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

enum Socket {
    Tcp(TcpListener),
    Unix { listener: UnixListener, _file: SocketFile },
}

/// The file of a unix socket. It is removed when the listener ends, unless another file has replaced it.
struct SocketFile {
    path: PathBuf,
    identity: Option<SocketFileIdentity>,
}

impl Admin {
    /// Binds the configured address and starts to answer, unless the listener must wait for another process.
    /// The error states what cannot be done.
    pub fn start(
        config: &Config,
        must_wait: bool,
        sources: Sources,
        error_log: ErrorLog,
    ) -> Result<Admin, String> {
        let mut admin = Admin { sources, error_log, config: config.admin.clone(), running: None };
        match must_wait {
            true => admin.config.listen = AdminListen::Off,
            false => admin.running = admin.run(config)?,
        }
        Ok(admin)
    }

    /// Applies another configuration; on an error, nothing changes.
    pub fn reconfigure(&mut self, config: &Config) -> Result<(), String> {
        let same_place = config.admin.listen == self.config.listen;
        match &self.running {
            Some(running) if same_place => {
                let gate = Arc::new(Gate::open(config)?);
                *running.state.gate.write().unwrap_or_else(PoisonError::into_inner) = gate;
            }
            _ => self.running = self.run(config)?,
        }
        self.config = config.admin.clone();
        Ok(())
    }

    /// Stops the listener, because another process has taken over.
    pub fn end(&mut self) {
        self.running = None;
        self.config.listen = AdminListen::Off;
    }

    fn run(&self, config: &Config) -> Result<Option<RunningListener>, String> {
        let (socket, address) = match &config.admin.listen {
            AdminListen::Off => return Ok(None),
            AdminListen::Tcp(address) => bind_tcp(*address)?,
            AdminListen::Unix(path) => bind_unix(path)?,
        };
        let history = Arc::new(Mutex::new(History::default()));
        let state = Arc::new(ListenerState {
            gate: RwLock::new(Arc::new(Gate::open(config)?)),
            pages: Pages::new(self.sources.clone(), history.clone()),
            control: self.sources.control.clone(),
            ended: AtomicBool::new(false),
            open: AtomicUsize::new(0),
        });
        let cannot = |error: io::Error| format!("the admin listener cannot be started: {error}");
        let (stopped, stop) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|error| cannot(error.into()))?;
        let thread = {
            let (state, sources, error_log) = (state.clone(), self.sources.clone(), self.error_log.clone());
            let live = move || accept_until(&stopped, &socket, &state, &sources, &history, &error_log);
            std::thread::Builder::new().name("admin".to_string()).spawn(live).map_err(cannot)?
        };
        self.error_log.info(format_args!("admin listener at {address}"));
        Ok(Some(RunningListener { state, stop: Some(stop), thread: Some(thread) }))
    }
}

impl Drop for RunningListener {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::Relaxed);
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The panic hook has already reported a panic of the thread.
            let _ = thread.join();
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Some(known) = self.identity {
            unix_socket::remove(&self.path, known);
        }
    }
}

fn bind_tcp(address: SocketAddr) -> Result<(Socket, String), String> {
    let bind = || {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let bound = listener.local_addr()?;
        Ok((listener, bound))
    };
    let (listener, bound) = bind().map_err(|error: io::Error| {
        let help = match error.kind() {
            io::ErrorKind::AddrInUse => ": another program listens there; stop it or choose another port",
            io::ErrorKind::AddrNotAvailable => ": this machine does not have that address",
            _ => "",
        };
        format!("cannot listen on {address} for admin: {error}{help}")
    })?;
    Ok((Socket::Tcp(listener), format!("http://{bound}")))
}

/// Binds beside the path, then renames the socket to it. This replaces a socket that an earlier server left,
/// and a connecting client always finds a socket. A socket on which a server still answers is not replaced.
fn bind_unix(path: &Path) -> Result<(Socket, String), String> {
    let name = path.display();
    let cannot = |error: io::Error| format!("cannot listen on unix:{name} for admin: {error}");
    if let Ok(metadata) = std::fs::symlink_metadata(path) {
        use std::os::unix::fs::FileTypeExt as _;
        if !metadata.file_type().is_socket() {
            return Err(format!(
                "cannot listen on unix:{name} for admin: a file that is not a socket is in the way"
            ));
        }
        if UnixStream::connect(path).is_ok() {
            return Err(format!("cannot listen on unix:{name} for admin: another program listens there"));
        }
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let beside = PathBuf::from(beside);
    let _ = std::fs::remove_file(&beside);
    let listener = private_socket::listen(&beside).map_err(cannot)?;
    let moved = || {
        std::fs::rename(&beside, path)?;
        listener.set_nonblocking(true)
    };
    if let Err(error) = moved() {
        let _ = std::fs::remove_file(&beside);
        return Err(cannot(error));
    }
    let file = SocketFile { path: path.to_path_buf(), identity: unix_socket::identity(path) };
    Ok((Socket::Unix { listener, _file: file }, format!("unix:{name}")))
}

fn accept_until(
    stopped: &OwnedFd,
    socket: &Socket,
    state: &Arc<ListenerState>,
    sources: &Sources,
    history: &Mutex<History>,
    error_log: &ErrorLog,
) {
    let mut next_sample = Instant::now();
    loop {
        let now = Instant::now();
        if now >= next_sample {
            history.lock().unwrap_or_else(PoisonError::into_inner).add(&sources.metrics, now);
            // A late sample is not repeated.
            next_sample = (next_sample + SAMPLE_INTERVAL).max(now);
        }
        let wait = next_sample.saturating_duration_since(now);
        let timeout = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        let listening = match socket {
            Socket::Tcp(listener) => listener.as_fd(),
            Socket::Unix { listener, .. } => listener.as_fd(),
        };
        let mut ready =
            [PollFd::new(stopped, PollFlags::IN), PollFd::from_borrowed_fd(listening, PollFlags::IN)];
        // An interruption counts as a wake-up without events.
        let _ = poll(&mut ready, Some(&timeout));
        if !ready[0].revents().is_empty() {
            return;
        }
        if ready[1].revents().is_empty() {
            continue;
        }
        match accept(socket) {
            Ok((stream, client)) => begin(stream, client, state, error_log),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                error_log.limited(LogLevel::Warning, "admin: accept failed", format_args!("admin: {error}"));
                // Without a free descriptor, an immediate retry would only use processor time.
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

fn accept(socket: &Socket) -> io::Result<(ClientStream, Option<IpAddr>)> {
    match socket {
        Socket::Tcp(listener) => {
            let (stream, client) = listener.accept()?;
            stream.set_nonblocking(false)?;
            stream.set_nodelay(true)?;
            Ok((ClientStream::Tcp(stream), Some(client.ip())))
        }
        Socket::Unix { listener, .. } => {
            let (stream, _) = listener.accept()?;
            stream.set_nonblocking(false)?;
            Ok((ClientStream::Unix(stream), None))
        }
    }
}

fn begin(stream: ClientStream, client: Option<IpAddr>, state: &Arc<ListenerState>, error_log: &ErrorLog) {
    if state.open.fetch_add(1, Ordering::Relaxed) >= MOST_CONNECTIONS {
        state.open.fetch_sub(1, Ordering::Relaxed);
        let message =
            format_args!("admin: more than {MOST_CONNECTIONS} connections at a time; one was closed");
        return error_log.limited(LogLevel::Warning, "admin: too many connections", message);
    }
    let held = OpenConnection(state.clone());
    let serve = move || connection::serve(stream, client, &held.0);
    let thread = std::thread::Builder::new().name("admin client".to_string()).stack_size(512 << 10);
    if let Err(error) = thread.spawn(serve) {
        error_log.limited(LogLevel::Warning, "admin: no thread", format_args!("admin: {error}"));
    }
}

/// Counts a connection until it is dropped.
struct OpenConnection(Arc<ListenerState>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
