//! The server's side of its spawners: starts them, and starts them again after they ended.
//!
//! [`start`] is called once, as early as possible. [`connect`](Service::connect) then gives each core a
//! spawner of its own. The first spawner starts the others, with the rights that the server had when it
//! started.

use std::ffi::{CStr, CString, OsString};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use rustix::process::Resource;

use super::message::{SpawnerOrder, Start};

static SERVICE: OnceLock<Service> = OnceLock::new();

/// How a spawner is started.
#[derive(Debug, Clone)]
pub struct SpawnerCommand {
    /// The program, which then calls [`spawner::run`](super::spawner::run).
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Variables of its environment; CGI programs do not get them.
    pub environment: Vec<(OsString, OsString)>,
}

/// The spawners of this process.
#[derive(Debug)]
pub struct Service {
    command: SpawnerCommand,
    /// The socket to the spawner that starts the others; `None` while there is none.
    first: Mutex<Option<OwnedFd>>,
}

/// The pause before a spawner that was lost soon after its start is started again.
const PAUSE: Duration = Duration::from_secs(1);

impl SpawnerCommand {
    /// The running program, with these arguments, followed by the number of files that programs may open.
    pub fn this_program(arguments: &[&str]) -> SpawnerCommand {
        // The link leads to the file that is being executed, even if another file has replaced it since.
        let mut arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let open_files = rustix::process::getrlimit(Resource::Nofile).current;
        arguments.extend(open_files.map(|most| most.to_string().into()));
        SpawnerCommand { program: "/proc/self/exe".into(), arguments, environment: Vec::new() }
    }
}

/// Starts the first spawner of this process; later calls change nothing. A thread waits for its end and then
/// starts another.
///
/// # Errors
/// It cannot be started. This needs /proc.
pub fn start(command: SpawnerCommand) -> io::Result<()> {
    static STARTING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if SERVICE.get().is_some() {
        return Ok(());
    }
    let (child, socket) = start_first(&command)?;
    let service = SERVICE.get_or_init(|| Service { command, first: Mutex::new(Some(socket)) });
    std::thread::Builder::new().name("spawner".to_string()).spawn(move || service.keep(child))?;
    Ok(())
}

/// The spawners of this process, if [`start`] was called.
pub fn service() -> Option<&'static Service> {
    SERVICE.get()
}

impl Service {
    /// Starts a spawner for one core. The socket to it is non-blocking.
    ///
    /// # Errors
    /// No spawner can be started now.
    pub fn connect(&self) -> io::Result<OwnedFd> {
        match &*self.first() {
            Some(first) => self.ask(first.as_fd()),
            None => {
                Err(io::Error::other("the process that starts programs was lost, and is being started again"))
            }
        }
    }

    /// Has a process group killed whose own spawner has ended.
    pub fn kill_group(&self, process: i32) {
        if let Some(first) = &*self.first() {
            let mut message = Vec::new();
            SpawnerOrder::KillGroup { process }.write(&mut message);
            let _ = send(first.as_fd(), &message, &[]);
        }
    }

    /// Waits for the end of the first spawner, and starts another, for as long as the server lives.
    fn keep(&self, mut child: Child) {
        loop {
            let since = Instant::now();
            let _ = child.wait();
            *self.first() = None;
            if since.elapsed() < PAUSE {
                std::thread::sleep(PAUSE);
            }
            child = loop {
                match start_first(&self.command) {
                    Ok((child, socket)) => {
                        *self.first() = Some(socket);
                        break child;
                    }
                    // No process or descriptor is free. This is temporary.
                    Err(_) => std::thread::sleep(PAUSE),
                }
            };
        }
    }

    fn first(&self) -> MutexGuard<'_, Option<OwnedFd>> {
        // No holder of the lock leaves the value half changed.
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the first spawner start another.
    fn ask(&self, first: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        let (ours, theirs) = socket_pair()?;
        let string = |text: Vec<u8>| CString::new(text).map_err(io::Error::from);
        let program = string(self.command.program.as_os_str().as_bytes().to_vec())?;
        let arguments = std::iter::once(Ok(c"touchstone".to_owned()))
            .chain(self.command.arguments.iter().map(|argument| string(argument.clone().into_vec())))
            .collect::<io::Result<Vec<CString>>>()?;
        let environment = self
            .command
            .environment
            .iter()
            .map(|(name, value)| string([name.as_bytes(), b"=", value.as_bytes()].concat()));
        let environment = environment.collect::<io::Result<Vec<CString>>>()?;
        let start = Start {
            id: 0,
            has_input: true,
            is_reported: false,
            no_new_privileges: false,
            // The new spawner itself notices the end of the server, and survives the first one.
            dies_with_spawner: false,
            umask: 0o022,
            niceness: 0,
            identity: None,
            limits: Vec::new(),
            directory: c"/",
            program: &program,
            arguments: arguments.iter().map(CString::as_c_str).collect::<Vec<&CStr>>(),
            environment: environment.iter().map(CString::as_c_str).collect(),
        };
        let mut message = Vec::new();
        SpawnerOrder::Start(Box::new(start)).write(&mut message);
        send(first, &message, &[theirs.as_fd()])?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        Ok(ours)
    }
}

fn start_first(command: &SpawnerCommand) -> io::Result<(Child, OwnedFd)> {
    let (ours, theirs) = socket_pair()?;
    let mut child = Command::new(&command.program)
        .arg0("touchstone")
        .args(&command.arguments)
        .env_clear()
        .envs(command.environment.iter().cloned())
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .spawn()?;
    let mut message = Vec::new();
    SpawnerOrder::Adopt.write(&mut message);
    if let Err(error) = send(ours.as_fd(), &message, &[]) {
        // It was killed already.
        let _ = child.kill();
        let _ = child.wait();
        return Err(error);
    }
    Ok((child, ours))
}

fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    Ok(rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None)?)
}

/// Sends one datagram with at most three descriptors.
pub fn send(socket: BorrowedFd<'_>, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(message)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}
