//! A core's connection to its spawner. It starts programs and reports how they ended.
//!
//! [`connection`] returns the connection of this core, and makes a new one if there is none or the last one
//! was lost. A started program is a [`StartedProgram`]; dropping it ends the program, if that still runs.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::io::Interest;
use tokio::net::UnixStream;

use super::message::{LARGEST_MESSAGE_BYTES, REPORT_BYTES, Report, SpawnerOrder, Start, Status};
use super::service::{self, send};
use super::spawn::Stage;

/// The pause after a spawner was lost: the next one could be lost for the same reason.
const PAUSE: Duration = Duration::from_millis(100);

thread_local! {
    static CONNECTION: RefCell<Weak<Connection>> = const { RefCell::new(Weak::new()) };
    static LOST_AT: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// How a program has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramEnd {
    /// It was not started.
    NotStarted {
        /// The step that failed.
        stage: Stage,
        /// The operating system's error number.
        errno: i32,
    },
    /// It has ended.
    Ended {
        /// Its exit status or signal.
        status: Status,
        /// Other processes of its group still run.
        leaves_others: bool,
    },
    /// The spawner was lost, and the program with it.
    Lost,
}

/// A connection to a spawner.
pub struct Connection {
    /// To tokio, which only watches it, it is a stream. This file sends and receives datagrams.
    socket: UnixStream,
    programs: RefCell<HashMap<u64, Slot>>,
    next_id: Cell<u64>,
    is_lost: Cell<bool>,
}

#[derive(Default)]
struct Slot {
    /// Its process and process group, once started.
    process: Option<i32>,
    end: Option<ProgramEnd>,
    waker: Option<Waker>,
    /// Its [`StartedProgram`] was dropped, and its end has not been reported yet.
    is_dropped: bool,
}

/// A program that was started.
pub struct StartedProgram {
    connection: Rc<Connection>,
    id: u64,
    grace_ms: u32,
    leaves_background: bool,
}

/// The connection of this core.
///
/// # Errors
/// There is no spawner, and none can be started.
pub fn connection() -> io::Result<Rc<Connection>> {
    if let Some(connection) = CONNECTION.with_borrow(Weak::upgrade)
        && !connection.is_lost.get()
    {
        return Ok(connection);
    }
    if LOST_AT.get().is_some_and(|at| at.elapsed() < PAUSE) {
        return Err(io::Error::other("the process that starts programs was lost a moment ago"));
    }
    let service = service::service().ok_or_else(|| {
        io::Error::other("the process that starts programs was not started, see the beginning of the log")
    })?;
    let connection = Connection::new(service.connect()?)?;
    CONNECTION.set(Rc::downgrade(&connection));
    Ok(connection)
}

impl Connection {
    /// Makes a connection over a non-blocking socket. Its task ends with the spawner or with the runtime.
    fn new(socket: OwnedFd) -> io::Result<Rc<Connection>> {
        let connection = Rc::new(Connection {
            socket: UnixStream::from_std(socket.into())?,
            programs: RefCell::default(),
            next_id: Cell::new(0),
            is_lost: Cell::new(false),
        });
        tokio::task::spawn_local(connection.clone().receive());
        Ok(connection)
    }

    /// Starts a program with these descriptors: its input, if any, its output and its error output.
    ///
    /// # Errors
    /// The order is too large ([`io::ErrorKind::ArgumentListTooLong`]), or the spawner is lost.
    pub async fn start(
        self: Rc<Self>,
        start: Start<'_>,
        descriptors: &[BorrowedFd<'_>],
        grace: Duration,
        leaves_background: bool,
    ) -> io::Result<StartedProgram> {
        let id = self.next_id.replace(self.next_id.get() + 1);
        let mut message = Vec::with_capacity(2048);
        SpawnerOrder::Start(Box::new(Start { id, ..start })).write(&mut message);
        if message.len() > LARGEST_MESSAGE_BYTES {
            return Err(io::ErrorKind::ArgumentListTooLong.into());
        }
        self.programs.borrow_mut().insert(id, Slot::default());
        let grace_ms = u32::try_from(grace.as_millis()).unwrap_or(u32::MAX);
        // This is made before the order is sent: if this future is dropped during the send, dropping it
        // ends the program.
        let program = StartedProgram { connection: self, id, grace_ms, leaves_background };
        program.connection.send(&message, descriptors).await?;
        Ok(program)
    }

    async fn send(&self, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        if self.is_lost.get() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.socket.async_io(Interest::WRITABLE, || send(self.socket.as_fd(), message, descriptors)).await
    }

    /// Sends an order without waiting until it was sent.
    fn send_order(self: &Rc<Self>, order: &SpawnerOrder<'_>) {
        let mut message = Vec::with_capacity(16);
        order.write(&mut message);
        if self.is_lost.get() {
            return;
        }
        let sent = send(self.socket.as_fd(), &message, &[]);
        if sent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            let connection = self.clone();
            tokio::task::spawn_local(async move { connection.send(&message, &[]).await });
        }
    }

    /// Receives reports until the spawner is lost.
    async fn receive(self: Rc<Self>) {
        let mut buffer = vec![0; 256 * REPORT_BYTES];
        loop {
            let received = self.socket.async_io(Interest::READABLE, || {
                let flags = rustix::net::RecvFlags::empty();
                Ok(rustix::net::recv(&self.socket, &mut buffer[..], flags)?.0)
            });
            match received.await {
                Ok(0) | Err(_) => break,
                Ok(length) => buffer[..length].chunks(REPORT_BYTES).for_each(|report| self.take(report)),
            }
        }
        self.is_lost.set(true);
        LOST_AT.set(Some(Instant::now()));
        for slot in self.programs.borrow_mut().values_mut() {
            // A program is killed with its spawner; the processes that it has started are not.
            let is_left = !matches!(slot.end, Some(ProgramEnd::Ended { leaves_others: false, .. }));
            if let (Some(process), Some(service), true) = (slot.process, service::service(), is_left) {
                service.kill_group(process);
            }
            slot.settle(ProgramEnd::Lost);
        }
    }

    fn take(&self, report: &[u8]) {
        let (id, end) = match Report::read(report) {
            Some(Report::NotStarted { id, stage, errno }) => (id, ProgramEnd::NotStarted { stage, errno }),
            Some(Report::Ended { id, status, leaves_others }) => {
                (id, ProgramEnd::Ended { status, leaves_others })
            }
            Some(Report::Started { id, process }) => {
                if let Some(slot) = self.programs.borrow_mut().get_mut(&id) {
                    slot.process = Some(process);
                    slot.wake();
                }
                return;
            }
            None => return,
        };
        let mut programs = self.programs.borrow_mut();
        if programs.get(&id).is_some_and(|slot| slot.is_dropped) {
            programs.remove(&id);
        } else if let Some(slot) = programs.get_mut(&id) {
            slot.settle(end);
        }
    }
}

impl Slot {
    fn settle(&mut self, end: ProgramEnd) {
        self.end.get_or_insert(end);
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl StartedProgram {
    /// How the program has ended, once known.
    pub fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<ProgramEnd> {
        let mut programs = self.connection.programs.borrow_mut();
        let slot = programs.entry(self.id).or_default();
        if slot.end.is_none() && self.connection.is_lost.get() {
            slot.end = Some(ProgramEnd::Lost);
        }
        match slot.end {
            Some(end) => Poll::Ready(end),
            None => {
                slot.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Ready when the program has run for a while, or its end is known.
    pub fn poll_settled(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self.poll_end(context) {
            Poll::Pending if self.runs_for_a_while() => Poll::Ready(()),
            other => other.map(|_| ()),
        }
    }

    fn runs_for_a_while(&self) -> bool {
        self.connection.programs.borrow().get(&self.id).is_some_and(|slot| slot.process.is_some())
    }

    /// Waits for the end of the program.
    pub async fn wait_for_end(&mut self) -> ProgramEnd {
        poll_fn(|context| self.poll_end(context)).await
    }

    /// The end of the program, if already known.
    pub fn known_end(&self) -> Option<ProgramEnd> {
        self.connection.programs.borrow().get(&self.id).and_then(|slot| slot.end)
    }
}

impl Drop for StartedProgram {
    fn drop(&mut self) {
        let mut programs = self.connection.programs.borrow_mut();
        let end = programs.get_mut(&self.id).and_then(|slot| {
            slot.is_dropped = true;
            slot.end
        });
        if end.is_some() {
            programs.remove(&self.id);
        }
        drop(programs);
        let end_order = SpawnerOrder::End { id: self.id, grace_ms: self.grace_ms };
        match end {
            None => self.connection.send_order(&end_order),
            Some(ProgramEnd::Ended { leaves_others: true, .. }) => {
                let release_order = SpawnerOrder::Release { id: self.id };
                self.connection.send_order(if self.leaves_background { &release_order } else { &end_order });
            }
            Some(_) => {}
        }
    }
}
