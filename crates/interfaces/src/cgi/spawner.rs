//! The spawner: a small process that starts programs for the server and ends them.
//!
//! For this the server executes itself once more, before it has threads, keys or a cache. The reasons for a
//! separate process are:
//!
//! * The cost of starting a program does not depend on the size of the server. Sharing memory until the
//!   program is executed (as `spawn` does) avoids copying page tables, but the table of descriptors is
//!   copied. In a server with 10,000 connections, that adds half of the other costs: 1,290 us per program
//!   instead of 830. From the spawner it is 850 us in all cases, messages included.
//! * An event loop of the server never waits while a program is being executed (about 0.3 ms).
//! * A program descends from a process that has never held keys, other clients' data or their descriptors.
//! * The spawner keeps the rights that the server had when it started, so programs can run as other users.
//!
//! One spawner starts the others, and each core has one, because a spawner waits while a program is executed.
//! The first spawner also adopts all processes whose own parent has ended, so that they do not stay zombies
//! when the server is process 1, as in a container. If another spawner is killed, the first one kills what
//! that one has left. Each spawner is one thread with one epoll instance: the socket to the server, and a
//! pidfd for each program. When the server has ended, the spawner kills the programs that it has started and
//! ends.
//!
//! On an overloaded core, each switch between processes costs more than the work that it is for, because a
//! program that was just executed has evicted everything else from the caches. Therefore the spawner is
//! scheduled as a batch job (SCHED_BATCH): most programs run to their end before the next one is started, and
//! reports are sent together, so that one wake-up of the server serves many requests.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendFlags};
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions};

use super::message::{LARGEST_MESSAGE_BYTES, REPORT_BYTES, Report, SpawnerOrder, Start, Status};
use super::spawn::{
    Identity, Launcher, NotStarted, Plan, Stage, child_signals, prepare_signals, schedule_as_batch,
};

/// Orders that are carried out before the spawner checks whether programs have ended.
const ORDERS_A_TURN: usize = 16;

/// The most reports that are gathered while there is other work.
const MOST_GATHERED: usize = 16;

/// A program that still runs after this time is reported as started. The server does not read its output
/// before. Most programs have ended by then, so the server reads their whole output at once.
const REPORT_STARTS_AFTER: Duration = Duration::from_millis(2);

/// The event data of the two descriptors that belong to no program. Programs are counted from 0.
const SOCKET: u64 = u64::MAX;
const CHILD_SIGNALS: u64 = u64::MAX - 1;

/// Works for the server at the other end of standard input until the server has ended. `open_files` is the
/// number of files that programs may open, because the server raises its own limit.
///
/// # Errors
/// Standard input is not a socket of the server, or the kernel lacks a feature (Linux 5.3 is the oldest).
pub fn run(open_files: Option<u64>) -> io::Result<()> {
    let socket = take_standard_input()?;
    prepare_signals();
    schedule_as_batch();
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"spawner");
    if let Some(most) = open_files {
        let limit = Rlimit { current: Some(most), ..rustix::process::getrlimit(Resource::Nofile) };
        let _ = rustix::process::setrlimit(Resource::Nofile, limit);
    }
    Spawner::new(socket)?.work()
}

/// Moves the socket to a descriptor above 2, and replaces standard input and output with /dev/null.
fn take_standard_input() -> io::Result<OwnedFd> {
    let is_ours = rustix::net::sockopt::socket_type(io::stdin())
        .is_ok_and(|kind| kind == rustix::net::SocketType::SEQPACKET);
    if !is_ours {
        let message = "this command is started by touchstone itself, with a socket as its standard input";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let socket = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?;
    let null = open_null()?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(socket)
}

fn open_null() -> io::Result<File> {
    let opened = File::options().read(true).write(true).open("/dev/null");
    opened.map_err(|error| io::Error::new(error.kind(), format!("/dev/null: {error}")))
}

struct Spawner {
    socket: OwnedFd,
    epoll: OwnedFd,
    null: OwnedFd,
    launcher: Launcher,
    programs: HashMap<u64, Program>,
    /// Readable when any child has ended; only in the spawner that adopts orphans.
    child_signals: Option<OwnedFd>,
    /// Reports that were not sent yet.
    reports: Vec<u8>,
    /// Programs whose start was not reported yet, and the time at which they started.
    unreported: VecDeque<(u64, Instant)>,
    /// The buffer for orders.
    buffer: Vec<u8>,
}

struct Program {
    /// Its process, session and process group.
    process: Pid,
    /// `None`: the process has ended, but others of its group still run.
    pidfd: Option<OwnedFd>,
    is_reported: bool,
    /// The time at which it is killed, after it got the signal to end.
    kill_at: Option<Instant>,
}

impl Spawner {
    fn new(socket: OwnedFd) -> io::Result<Spawner> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &socket, epoll::EventData::new_u64(SOCKET), epoll::EventFlags::IN)?;
        let null = open_null()?;
        // This descriptor is above 2, because take_standard_input has filled the lower ones.
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

    /// Carries out orders. Returns false if the server has ended.
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
            match SpawnerOrder::read(&buffer[..length]) {
                Some(SpawnerOrder::Start(start)) => self.start(&start, descriptors),
                Some(SpawnerOrder::End { id, grace_ms }) => self.end(id, grace_ms),
                Some(SpawnerOrder::Release { id }) => {
                    if self.programs.get(&id).is_some_and(|program| program.pidfd.is_none()) {
                        self.programs.remove(&id);
                    }
                }
                Some(SpawnerOrder::Adopt) => self.adopt()?,
                Some(SpawnerOrder::KillGroup { process }) => {
                    if let Some(process) = Pid::from_raw(process).filter(|process| !process.is_init()) {
                        let _ = rustix::process::kill_process_group(process, Signal::KILL);
                    }
                }
                // The server and its spawner are the same program, so another process writes to this socket.
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
        // Without descriptors for output, the program writes to /dev/null.
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

    /// Reaps all children that have ended. The exit statuses of those started here are not needed.
    fn reap_adopted(&mut self) {
        if let Some(signals) = &self.child_signals {
            // It describes only the first child that ended. There may be more.
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
            // It was reaped elsewhere, so it has certainly ended.
            Err(_) => Status::Exit(0),
        };
        // The number of a group is not used again while the group has members.
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
            // A stopped process would not handle SIGTERM.
            let _ = rustix::process::kill_process_group(program.process, Signal::CONT);
        }
    }

    /// How long to wait for events.
    fn timeout(&self) -> Option<Timespec> {
        if !self.reports.is_empty() {
            // Only events that have already happened are handled before the reports are sent.
            return Some(Timespec::default());
        }
        let next = self.programs.values().filter_map(|program| program.kill_at).min();
        // Rounded up, so that the time has passed when the wait ends.
        let kill = next.map(|at| at.saturating_duration_since(Instant::now()) + Duration::from_millis(1));
        let oldest = self.unreported.front();
        let report = oldest.map(|(_, since)| REPORT_STARTS_AFTER.saturating_sub(since.elapsed()));
        let wait = kill.into_iter().chain(report).min()?;
        Timespec::try_from(wait).ok()
    }

    /// While there is other work, reports are gathered, because each datagram wakes the server.
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
            // Its end will be reported, unless only others of its group still ran.
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

    /// Sends the reports. Returns false if the server has ended.
    fn send_reports(&mut self) -> bool {
        let reports = std::mem::take(&mut self.reports);
        // At most one for each event of a turn and each order of another: far below the largest datagram.
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
