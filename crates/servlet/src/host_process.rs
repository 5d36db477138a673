//! The child process: the command `servlet-host`, which only the server starts.
//!
//! Its standard input is its listening socket. On its standard output it sends `ready`, `failed` and `log
//! LEVEL TEXT` lines to the server.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::io::{self, Write as _};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::OwnedReadHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;

use crate::call_durations::PathKey;
use crate::core_queue::CoreQueue;
use crate::directory::make_directory;
use crate::end_of_turn::EndOfTurn;
use crate::engine;
use crate::isolated::log_line;
use crate::isolated::outgoing::OutgoingFrames;
use crate::isolated::settings_file::{SETTINGS_FILE, Settings, own_directory};
use crate::isolated::wire::{self, Flags, Kind, ParsedFrame};
use crate::java_call::{AnswerEnd, ClientDisconnected, JavaCall, Output};
use crate::route::Route;
use crate::route_state::RouteState;
use crate::server_log::log_to;
use crate::status;

/// The most bytes of an answer that were sent to the server and not yet to the client.
const WINDOW_BYTES: usize = 256 * 1024;

/// Runs the child. Returns its exit code.
pub fn run(directory: &Path) -> i32 {
    engine::end_with_java(own_directory(directory, std::process::id()));
    log_to(Arc::new(|level, message| print_line(&log_line::write(level, message))));
    match serve(directory) {
        Ok(()) => 0,
        Err(problem) => {
            print_line(&log_line::write(0, &problem));
            print_line("failed");
            1
        }
    }
}

fn serve(directory: &Path) -> Result<(), String> {
    let text =
        std::fs::read(directory.join(SETTINGS_FILE)).map_err(|error| format!("no settings: {error}"))?;
    let settings: Settings =
        serde_json::from_slice(&text).map_err(|error| format!("wrong settings: {error}"))?;
    // SAFETY: the server passes the socket as standard input, and no other code uses it.
    let listener =
        std::os::unix::net::UnixListener::from(unsafe { OwnedFd::from_raw_fd(libc::STDIN_FILENO) });
    let failed = |error: io::Error| format!("cannot listen on the socket: {error}");
    listener.set_nonblocking(true).map_err(failed)?;
    let own = own_directory(directory, std::process::id());
    make_directory(&own.join("tmp")).map_err(|error| format!("{}: {error}", own.display()))?;
    let engine = engine::start(&settings.java)?;
    // While another child answers requests, this one waits to take its place. Java is started by then, but no
    // application.
    let _at_work = wait_for_turn(directory).map_err(|error| format!("the lock cannot be taken: {error}"))?;
    let route = engine.open(&settings.route);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(|error| format!("the event loop cannot be created: {error}"))?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async move {
        if route.started().await != RouteState::Ready {
            return Err("the applications do not start".to_string());
        }
        let listener = UnixListener::from_std(listener).map_err(failed)?;
        print_line("ready");
        let quits = Rc::new(Notify::new());
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = quits.notified() => {
                    // Bytes that applications write while they stop are still sent.
                    let _ = tokio::task::spawn_blocking(engine::stop).await;
                    return Ok(());
                }
            };
            let (stream, _) = accepted.map_err(failed)?;
            tokio::task::spawn_local(Connection::serve(stream, route.clone(), quits.clone()));
        }
    })
}

/// Waits until no other child answers requests. The kernel releases the lock of a child that ended, however
/// it ended.
fn wait_for_turn(directory: &Path) -> io::Result<std::fs::File> {
    let file =
        std::fs::File::options().create(true).write(true).truncate(false).open(directory.join("lock"))?;
    loop {
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn print_line(text: &str) {
    // If writing fails, the server has ended, and this process will end soon.
    let _ = io::stdout().lock().write_all(format!("{text}\n").as_bytes());
}

/// A connection from a core of the server.
struct Connection {
    route: Arc<Route>,
    queue: Arc<CoreQueue>,
    end_of_turn: Rc<EndOfTurn>,
    under_way: RefCell<HashMap<u32, Rc<CoreRequest>>>,
    outgoing: OutgoingFrames,
}

/// A request of a core.
struct CoreRequest {
    java_call: Arc<JavaCall>,
    /// Bytes of the answer that were not sent to the client yet.
    unsent_bytes: Cell<usize>,
    has_room: Notify,
    /// Java has requested a part of the body, which has not arrived yet.
    is_requested: Cell<bool>,
    body_arrived: Notify,
}

impl CoreRequest {
    /// Called when the requested part of the body has arrived, or will not arrive.
    fn end_body_request(&self) {
        self.is_requested.set(false);
        self.body_arrived.notify_one();
    }
}

impl Connection {
    async fn serve(stream: UnixStream, route: Arc<Route>, quits: Rc<Notify>) {
        let queue = Arc::new(CoreQueue::default());
        let end_of_turn = Rc::new(EndOfTurn::default());
        if let Some(pool) = route.pool() {
            pool.monitor().watch(&queue);
            tokio::task::spawn_local(end_of_turn.clone().announce(pool.clone()));
        }
        tokio::task::spawn_local(queue.clone().run());
        let connection = Rc::new(Connection {
            route,
            queue,
            end_of_turn,
            under_way: RefCell::default(),
            outgoing: OutgoingFrames::default(),
        });
        let (from_server, to_server) = stream.into_split();
        let writer = connection.clone();
        // If the server reads no more, its own stream ends too, which `read` notices.
        tokio::task::spawn_local(async move { writer.outgoing.write(to_server).await });
        connection.read(from_server, &quits).await;
        connection.outgoing.close();
        connection.queue.close();
        connection.end_of_turn.close();
        let under_way = std::mem::take(&mut *connection.under_way.borrow_mut());
        under_way.values().for_each(|request| request.java_call.note_client_end());
    }

    async fn read(self: &Rc<Self>, mut from_server: OwnedReadHalf, quits: &Notify) {
        let mut input = Vec::new();
        loop {
            input.reserve(64 * 1024);
            match from_server.read_buf(&mut input).await {
                Ok(1..) => {}
                _ => return,
            }
            let mut at = 0;
            while let ParsedFrame::Frame(kind, number, payload, length) = wire::parse(&input[at..]) {
                match kind {
                    Kind::Quit => return quits.notify_one(),
                    Kind::AskStatus => drop(tokio::task::spawn_local(self.clone().report_status(number))),
                    _ => {}
                }
                self.take(kind, number, payload);
                at += length;
            }
            input.drain(..at);
        }
    }

    async fn report_status(self: Rc<Self>, number: u32) {
        let route = self.route.clone();
        let status = tokio::task::spawn_blocking(move || status::of_routes(&[route]));
        let Ok(status) = status.await else { return };
        let text = serde_json::to_vec(&status).unwrap_or_default();
        self.outgoing.send(|frames| wire::append(frames, Kind::Status, number, &[&text]));
    }

    fn take(self: &Rc<Self>, kind: Kind, number: u32, payload: &[u8]) {
        if kind == Kind::Request {
            return self.begin(number, payload);
        }
        let Some(request) = self.under_way.borrow().get(&number).cloned() else { return };
        match kind {
            Kind::Body => {
                request.java_call.push_body(Bytes::copy_from_slice(payload));
                request.end_body_request();
            }
            Kind::BodyEnd => {
                request.java_call.end_body(Ok(payload.to_vec()));
                request.end_body_request();
            }
            Kind::BodyFailed => {
                request.java_call.end_body(Err(ClientDisconnected));
                request.end_body_request();
            }
            Kind::Taken => {
                let bytes = payload.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize);
                request.unsent_bytes.set(request.unsent_bytes.get().saturating_sub(bytes));
                request.has_room.notify_one();
            }
            _ => {
                self.under_way.borrow_mut().remove(&number);
                request.java_call.note_client_end();
                request.has_room.notify_one();
                request.end_body_request();
            }
        }
    }

    fn begin(self: &Rc<Self>, number: u32, payload: &[u8]) {
        let Some((&flags, flat)) = payload.split_first() else { return };
        let flags = Flags::from_byte(flags);
        let Some(pool) = self.route.pool() else { return };
        let java_call = JavaCall::new(
            self.queue.clone(),
            Some(pool.clone() as _),
            PathKey::default(),
            flags.has_body,
            flags.is_body_requested,
        );
        if pool.submit(java_call.clone(), flat.to_vec()).is_err() {
            let output = Output { end: Some(AnswerEnd::Unavailable), ..Output::default() };
            return self.send_answer(number, &output);
        }
        self.end_of_turn.note_request();
        let request = Rc::new(CoreRequest {
            java_call,
            unsent_bytes: Cell::new(0),
            has_room: Notify::new(),
            is_requested: Cell::new(false),
            body_arrived: Notify::new(),
        });
        self.under_way.borrow_mut().insert(number, request.clone());
        if flags.has_body {
            tokio::task::spawn_local(self.clone().request_body(number, request.clone()));
        }
        tokio::task::spawn_local(self.clone().answer(number, request));
    }

    async fn request_body(self: Rc<Self>, number: u32, request: Rc<CoreRequest>) {
        while poll_fn(|context| request.java_call.poll_body_requested(context)).await {
            request.is_requested.set(true);
            self.outgoing.send(|frames| wire::append(frames, Kind::Wanted, number, &[]));
            while request.is_requested.get() {
                request.body_arrived.notified().await;
            }
        }
    }

    async fn answer(self: Rc<Self>, number: u32, request: Rc<CoreRequest>) {
        loop {
            let output = poll_fn(|context| request.java_call.poll_output(context)).await;
            let bytes: usize = output.pieces.iter().map(Vec::len).sum();
            request.unsent_bytes.set(request.unsent_bytes.get() + bytes);
            self.send_answer(number, &output);
            if output.end.is_some() {
                self.under_way.borrow_mut().remove(&number);
                return request.end_body_request();
            }
            while request.unsent_bytes.get() >= WINDOW_BYTES {
                request.has_room.notified().await;
                if !self.under_way.borrow().contains_key(&number) {
                    return;
                }
            }
        }
    }

    fn send_answer(&self, number: u32, output: &Output) {
        self.outgoing.send(|frames| wire::append_answer(frames, number, output));
    }
}
