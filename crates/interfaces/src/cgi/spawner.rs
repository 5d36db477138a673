//! The spawner: a small process that starts programs for the server and ends them.
//!
//! The server executes itself once more for it, before it has threads, keys or a cache. Its reasons to be:
//!
//! * A program is started for the same cost however large the server is. Sharing memory until the program is
//!   executed (as `spawn` does) already does without copying page tables, but the table of descriptors is
//!   copied, and of a server with 10,000 connections that takes half as long again as everything else: 1,290
//!   us a program instead of 830. From the spawner it is 850 in all cases, messages included.
//! * An event loop of the server never stands still while a program is being executed (about 0.3 ms).
//! * A program descends from a process that has never held keys, other clients' data or their descriptors.
//! * It keeps the rights of the server's start, so programs can have users of their own.
//!
//! There is one that starts the others, and one for each core, since it stands still while a program is
//! executed. The first is also the parent of all whose own parent has ended, so that none of them stays a
//! zombie where the server is process 1, as in a container, and it kills what another spawner leaves should
//! that be killed. Each is one thread around one epoll instance: the socket to the server, and a pidfd for
//! each program. When the server is gone, it kills what it has started and ends.
//!
//! Where a core has more to do than it can, each change from one process to another costs more than the work
//! that it is for, because a program that was just executed has driven everything else out of the caches. So
//! the spawner waits for its turn (SCHED_BATCH), by which a program mostly runs to its end before the next is
//! started, and its reports go out together: one wake-up of the server is for many requests.

use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendFlags};
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions};

use super::message::{LARGEST_MESSAGE_BYTES, Order, REPORT_BYTES, Report, Start, Status};
use super::spawn::{Identity, Launcher, NotStarted, Plan, Stage, be_patient, child_signals, prepare_signals};

/// Orders that are carried out before it is looked whether programs have ended.
const ORDERS_A_TURN: usize = 16;

/// Reports that are gathered at the most while there is other work.
const MOST_GATHERED: usize = 16;

/// When a program that still runs is reported as started. The server does not look at its output before; most
/// programs are done by then, and it can take the whole of it at once.
const REPORT_STARTS_AFTER: Duration = Duration::from_millis(2);

/// What tells these from programs, which are counted from 0.
const SOCKET: u64 = u64::MAX;
const CHILD_SIGNALS: u64 = u64::MAX - 1;

/// Works for the server at the other end of standard input, until that is gone. `open_files` is how many
/// files programs may open; the server raises its own limit.
///
/// # Errors
/// Standard input is no socket of the server's, or the kernel lacks something (Linux 5.3 is the least).
pub fn run(open_files: Option<u64>) -> io::Result<()> {
    let socket = take_standard_input()?;
    prepare_signals();
    be_patient();
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"spawner");
    if let Some(most) = open_files {
        let limit = Rlimit { current: Some(most), ..rustix::process::getrlimit(Resource::Nofile) };
        let _ = rustix::process::setrlimit(Resource::Nofile, limit);
    }
    Spawner::new(socket)?.work()
}

/// Moves the socket out of the way of what programs get as 0, 1 and 2, and puts something harmless in these
/// places.
fn take_standard_input() -> io::Result<OwnedFd> {
    let is_ours = rustix::net::sockopt::socket_type(io::stdin())
        .is_ok_and(|kind| kind == rustix::net::SocketType::SEQPACKET);
    if !is_ours {
        let message = "this command is started by touchstone itself, with a socket as its standard input";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let socket = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?;
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(socket)
}

struct Spawner {
    socket: OwnedFd,
    epoll: OwnedFd,
    null: OwnedFd,
    launcher: Launcher,
    programs: HashMap<u64, Program>,
    /// Readable when any child has ended; only where orphans are adopted.
    child_signals: Option<OwnedFd>,
    /// Not sent yet.
    reports: Vec<u8>,
    /// Started, and not reported yet, since when.
    unreported: VecDeque<(u64, Instant)>,
    /// Where orders are received.
    buffer: Vec<u8>,
}

struct Program {
    /// Its process, session and process group.
    process: Pid,
    /// `None`: the process has ended, and only others of its group are left.
    pidfd: Option<OwnedFd>,
    is_reported: bool,
    /// It was asked to end, and is killed then.
    kill_at: Option<Instant>,
}

impl Spawner {
    fn new(socket: OwnedFd) -> io::Result<Spawner> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &socket, epoll::EventData::new_u64(SOCKET), epoll::EventFlags::IN)?;
        let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
        // Above 2, because take_standard_input has filled what is below.
        Ok(Spawner {
            socket,
            epoll,
            null: null.into(),
            launcher: Launcher::default(),
            programs: HashMap::new(),
            child_signals: None,
            reports: Vec::new(),
            unreported: VecDeque::new(),
            buffer: vec![0; LARGEST_MESSAGE_BYTES],
        })
    }

    fn work(mut self) -> io::Result<()> {
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; 64];
        loop {
            self.note_starts();
            let timeout = self.timeout();
            let ready = match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
                Ok((ready, _)) => ready,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let mut has_orders = false;
            for event in ready.iter() {
                match event.data.u64() {
                    SOCKET => has_orders = true,
                    CHILD_SIGNALS => self.reap_adopted(),
                    id => self.ended(id),
                }
            }
            if timeout.is_some() {
                self.kill_overdue();
            }
            let is_idle = ready.is_empty();
            if has_orders && !self.take_orders()? {
                self.kill_all();
                return Ok(());
            }
            if !self.is_time_to_report(is_idle) {
                continue;
            }
            if !self.send_reports() {
                self.kill_all();
                return Ok(());
            }
        }
    }

    /// False: the server is gone.
    fn take_orders(&mut self) -> io::Result<bool> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut is_there = true;
        for _ in 0..ORDERS_A_TURN {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            let length = match rustix::net::recvmsg(
                &self.socket,
                &mut [IoSliceMut::new(&mut buffer)],
                &mut ancillary,
                flags,
            ) {
                Ok(message) => message.bytes,
                Err(rustix::io::Errno::AGAIN) => break,
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => 0,
            };
            if length == 0 {
                is_there = false;
                break;
            }
            let mut descriptors = Vec::new();
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(received) = message {
                    descriptors.extend(received);
                }
            }
            match Order::read(&buffer[..length]) {
                Some(Order::Start(start)) => self.start(&start, descriptors),
                Some(Order::End { id, grace_ms }) => self.end(id, grace_ms),
                Some(Order::Release { id }) => {
                    if self.programs.get(&id).is_some_and(|program| program.pidfd.is_none()) {
                        self.programs.remove(&id);
                    }
                }
                Some(Order::Adopt) => self.adopt()?,
                Some(Order::KillGroup { process }) => {
                    if let Some(process) = Pid::from_raw(process).filter(|process| !process.is_init()) {
                        let _ = rustix::process::kill_process_group(process, Signal::KILL);
                    }
                }
                // The server and its spawner are the same program: somebody else is writing to this socket.
                None => return Err(io::Error::new(io::ErrorKind::InvalidData, "an order that is none")),
            }
        }
        self.buffer = buffer;
        Ok(is_there)
    }

    fn start(&mut self, start: &Start<'_>, descriptors: Vec<OwnedFd>) {
        match self.try_start(start, &descriptors) {
            Ok(program) => {
                if program.is_reported {
                    self.unreported.push_back((start.id, Instant::now()));
                }
                self.programs.insert(start.id, program);
            }
            Err(NotStarted { stage, error }) => {
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                Report::NotStarted { id: start.id, stage, errno }.write(&mut self.reports);
            }
        }
    }

    fn try_start(&mut self, start: &Start<'_>, descriptors: &[OwnedFd]) -> Result<Program, NotStarted> {
        let null = self.null.as_fd();
        let mut passed = descriptors.iter().map(AsFd::as_fd);
        let input = if start.has_input { passed.next() } else { Some(null) };
        // Who wants no output of its own passes none.
        let standard = [input.unwrap_or(null), passed.next().unwrap_or(null), passed.next().unwrap_or(null)];
        let identity = start.identity.as_ref().map(|(user, group, groups)| Identity {
            user: *user,
            group: *group,
            groups,
        });
        let started = self.launcher.start(&Plan {
            program: start.program,
            arguments: &start.arguments,
            environment: &start.environment,
            directory: start.directory,
            standard,
            umask: start.umask,
            niceness: start.niceness,
            identity,
            limits: &start.limits,
            no_new_privileges: start.no_new_privileges,
            dies_with_parent: start.dies_with_spawner,
        })?;
        let data = epoll::EventData::new_u64(start.id);
        let watched = epoll::add(&self.epoll, &started.pidfd, data, epoll::EventFlags::IN);
        let not_watched = |error: io::Error| NotStarted { stage: Stage::Process, error };
        let process =
            Pid::from_raw(started.process).ok_or_else(|| not_watched(io::ErrorKind::Other.into()))?;
        if let Err(error) = watched {
            let _ = rustix::process::kill_process_group(process, Signal::KILL);
            let _ = rustix::process::waitid(WaitId::PidFd(started.pidfd.as_fd()), WaitIdOptions::EXITED);
            return Err(not_watched(error.into()));
        }
        Ok(Program { process, pidfd: Some(started.pidfd), is_reported: start.is_reported, kill_at: None })
    }

    fn adopt(&mut self) -> io::Result<()> {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let signals = child_signals()?;
        let data = epoll::EventData::new_u64(CHILD_SIGNALS);
        epoll::add(&self.epoll, &signals, data, epoll::EventFlags::IN)?;
        self.child_signals = Some(signals);
        Ok(())
    }

    /// Reaps whoever has ended. Of those that were started here nobody wants to know how.
    fn reap_adopted(&mut self) {
        if let Some(signals) = &self.child_signals {
            // What it says is how the first of them ended; there may be more.
            let _ = rustix::io::read(signals, &mut [0u8; 1024]);
        }
        while let Ok(Some(_)) =
            rustix::process::waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG)
        {}
    }

    /// A program's own process has ended.
    fn ended(&mut self, id: u64) {
        let Some(program) = self.programs.get_mut(&id) else { return };
        let Some(pidfd) = program.pidfd.take() else { return };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let status = match rustix::process::waitid(WaitId::PidFd(pidfd.as_fd()), options) {
            Ok(Some(status)) => match (status.exit_status(), status.terminating_signal()) {
                (Some(status), _) => Status::Exit(status),
                (None, signal) => Status::Signal(signal.unwrap_or_default()),
            },
            Ok(None) => {
                program.pidfd = Some(pidfd);
                return;
            }
            // Somebody else has reaped it; that it has ended is sure.
            Err(_) => Status::Exit(0),
        };
        // A number is not given to another group as long as this one has members.
        let leaves_others = rustix::process::test_kill_process_group(program.process).is_ok();
        if program.is_reported {
            Report::Ended { id, status, leaves_others }.write(&mut self.reports);
        }
        if !leaves_others || !program.is_reported {
            self.programs.remove(&id);
        }
    }

    fn end(&mut self, id: u64, grace_ms: u32) {
        let Some(program) = self.programs.get_mut(&id) else { return };
        let grace = Duration::from_millis(grace_ms.into());
        program.kill_at.get_or_insert_with(|| Instant::now() + grace);
        if rustix::process::kill_process_group(program.process, Signal::TERM).is_err()
            && program.pidfd.is_none()
        {
            self.programs.remove(&id);
        } else {
            // One that is stopped would not notice.
            let _ = rustix::process::kill_process_group(program.process, Signal::CONT);
        }
    }

    /// How long to wait for something to do.
    fn timeout(&self) -> Option<Timespec> {
        if !self.reports.is_empty() {
            // Only what is there already comes before them.
            return Some(Timespec::default());
        }
        let next = self.programs.values().filter_map(|program| program.kill_at).min();
        // Rounded up, so that it is over when the wait is.
        let kill = next.map(|at| at.saturating_duration_since(Instant::now()) + Duration::from_millis(1));
        let oldest = self.unreported.front();
        let report = oldest.map(|(_, since)| REPORT_STARTS_AFTER.saturating_sub(since.elapsed()));
        let wait = kill.into_iter().chain(report).min()?;
        Timespec::try_from(wait).ok()
    }

    /// While there is other work reports are gathered: each datagram wakes the server.
    fn is_time_to_report(&self, is_idle: bool) -> bool {
        !self.reports.is_empty() && (is_idle || self.reports.len() >= MOST_GATHERED * REPORT_BYTES)
    }

    /// Reports programs that have run for a while.
    fn note_starts(&mut self) {
        while let Some(&(id, since)) = self.unreported.front() {
            let program = self.programs.get(&id).filter(|program| program.pidfd.is_some());
            if program.is_some() && since.elapsed() < REPORT_STARTS_AFTER {
                return;
            }
            self.unreported.pop_front();
            if let Some(program) = program {
                let process = program.process.as_raw_nonzero().get();
                Report::Started { id, process }.write(&mut self.reports);
            }
        }
    }

    fn kill_overdue(&mut self) {
        let now = Instant::now();
        self.programs.retain(|_, program| {
            if program.kill_at.is_none_or(|at| at > now) {
                return true;
            }
            let _ = rustix::process::kill_process_group(program.process, Signal::KILL);
            program.kill_at = None;
            // Its end is still to come, unless only others of its group were left.
            program.pidfd.is_some()
        });
    }

    fn kill_all(&mut self) {
        for program in self.programs.values() {
            let _ = rustix::process::kill_process_group(program.process, Signal::KILL);
        }
        for pidfd in self.programs.values().filter_map(|program| program.pidfd.as_ref()) {
            let _ = rustix::process::waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
        }
    }

    /// False: the server is gone.
    fn send_reports(&mut self) -> bool {
        let reports = std::mem::take(&mut self.reports);
        // As many as there can be events in a turn and orders in another: far below the largest datagram.
        let mut none = SendAncillaryBuffer::default();
        let flags = SendFlags::NOSIGNAL;
        loop {
            match rustix::net::sendmsg(&self.socket, &[IoSlice::new(&reports)], &mut none, flags) {
                Ok(_) => return true,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }
}
