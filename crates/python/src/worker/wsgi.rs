//! Calls a WSGI application (PEP 3333): threads that take requests, and the functions that the application
//! may call meanwhile.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use super::application::Application;
use super::environ::{Base, Environs};
use super::hub::{BodyRead, Hub};
use super::links::{self, CoreSender, Key};
use super::monitor::{Monitor, MonitorCheck};
use super::names::Names;
use super::parts::Worker;
use super::response::{Response, append_latin1};
use super::server;
use crate::api::{
    Api, Arguments, Calls, Form, Function, Functions, Gil, Kind as Class, NativeType, Object, PythonException,
};
use crate::shared::frame::{BROKEN, Kind, PIECE_BYTES, WHOLE_BYTES};
use crate::shared::request::{self, EXPECTS_CONTINUE, HAS_BODY};

/// The stack of a thread; the application runs on it.
const STACK_BYTES: usize = 8 * 1024 * 1024;

/// The most members of a list that are sent as one answer.
const MOST_MEMBERS: usize = 64;

/// The state that all threads use.
struct WsgiContext {
    api: &'static Api,
    worker: &'static Worker,
    hub: Arc<Hub>,
    names: Names,
    kind: NativeType<Call>,
    application: Application,
    base: Base,
    make_input: Object,
    monitor: OnceLock<Arc<Monitor>>,
    threads: Mutex<usize>,
    /// One thread at a time runs Python: a further one takes nothing from a thread that computes.
    has_lock: bool,
}

static CONTEXT: OnceLock<WsgiContext> = OnceLock::new();

/// A request that is being answered by the application.
struct Call {
    context: &'static WsgiContext,
    key: Key,
    out: Arc<CoreSender>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The arguments of `start_response`.
    response: Option<Response>,
    is_head_sent: bool,
    /// Bytes of the body that were sent.
    sent: u64,
    /// The answer has ended.
    is_over: bool,
    /// The client has disconnected.
    is_gone: bool,
    /// HEAD: there is no body to send.
    is_head: bool,
    /// The client waits for 100 (Continue), which was not sent yet.
    must_ask: bool,
    /// The unread part of a piece of the request's body.
    piece: Vec<u8>,
    read: usize,
    has_read_all: bool,
}

impl Functions for Call {
    fn api() -> &'static Api {
        CONTEXT.get().map(|context| context.api).expect("calls are made after the start")
    }

    fn offset() -> usize {
        CONTEXT.get().map(|context| context.kind.offset()).expect("calls are made after the start")
    }
}

struct StartResponse;
struct Write;
struct ReadBody;

impl Calls<Call> for StartResponse {
    const FORM: Form<Call> = Form::Some(start_response);
}

impl Calls<Call> for Write {
    const FORM: Form<Call> = Form::One(write);
}

impl Calls<Call> for ReadBody {
    const FORM: Form<Call> = Form::One(read_body);
}

static START_RESPONSE: Function = Function::of::<Call, StartResponse>(c"start_response");
static WRITE: Function = Function::of::<Call, Write>(c"write");
static READ_BODY: Function = Function::of::<Call, ReadBody>(c"read");

/// Calls the application for all requests, until the worker must end.
pub fn run(
    gil: &mut Gil,
    worker: &'static Worker,
    application: &Application,
    ready: impl FnOnce(),
) -> Result<(), String> {
    let raised = |PythonException| "the worker cannot be set up".to_string();
    let find = |name| application.find(*gil, name);
    let no_input = gil.call0(&find(c"TouchstoneNoInput")?).map_err(raised)?;
    let errors = gil.attribute(&find(c"sys")?, c"stderr").map_err(raised)?;
    let settings = &worker.settings;
    let base = Base {
        errors,
        file_wrapper: find(c"TouchstoneFileWrapper")?,
        no_input,
        is_threaded: settings.threads > 1,
        has_others: settings.worker_count() > 1,
        script_name: settings.script_name.clone(),
    };
    let context = WsgiContext {
        api: gil.api(),
        worker,
        hub: worker.hub.clone(),
        names: Names::new(*gil).map_err(raised)?,
        kind: NativeType::new(*gil, c"touchstone.Call").map_err(raised)?,
        make_input: find(c"touchstone_input")?,
        application: application.clone(),
        base,
        monitor: OnceLock::new(),
        threads: Mutex::new(1),
        has_lock: application.has_lock(*gil),
    };
    let context = CONTEXT.get_or_init(|| context);
    let monitor = Monitor::start(&worker.hub, ThreadCheck { context });
    let _ = context.monitor.set(monitor);
    ready();
    context.serve(gil);
    // Requests of other threads end first.
    let released = gil.release();
    while worker.hub.under_way() > 0 {
        links::sleep(std::time::Duration::from_millis(5));
    }
    worker.hub.wake_cores(true);
    drop(released);
    Ok(())
}

/// The monitor's duty for threads: makes other threads take the requests that wait for a long call.
struct ThreadCheck {
    context: &'static WsgiContext,
}

impl MonitorCheck for ThreadCheck {
    fn has_requests(&self) -> bool {
        self.context.hub.under_way() > 0
    }

    fn is_urgent(&self) -> bool {
        true
    }

    fn check(&mut self, is_moving: bool) {
        // Threads without a lock share requests that are short, too.
        if self.context.hub.needs_thread(is_moving && self.context.has_lock) {
            self.context.start_thread();
        }
    }
}

impl WsgiContext {
    /// Starts one more thread, unless the limit is reached.
    fn start_thread(&'static self) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if *threads >= self.worker.settings.threads {
            return;
        }
        let run = move || {
            let mut gil = Gil::attach(self.api);
            self.serve(&mut gil);
            // The thread stays attached to Python; it sleeps for the rest of the process.
            let _released = gil.release();
            loop {
                std::thread::park();
            }
        };
        let builder = std::thread::Builder::new().name(format!("wsgi-{threads}")).stack_size(STACK_BYTES);
        match builder.spawn(run) {
            Ok(_) => *threads += 1,
            Err(error) => {
                server::log('w', &format!("no more threads for {}: {error}", self.worker.settings.app))
            }
        }
    }

    /// Takes requests and calls the application, until the worker must end.
    fn serve(&'static self, gil: &mut Gil) {
        let Ok(mut environs) = Environs::new(*gil, &self.names, &self.base) else {
            self.report(*gil, "a thread cannot be set up", b"");
            return;
        };
        let mut buffer = Vec::new();
        loop {
            let request = match self.hub.take_request(&mut buffer) {
                Some(request) => request,
                None => {
                    let released = gil.release();
                    let request = self.hub.wait_for_request(&mut buffer);
                    drop(released);
                    match request {
                        Some(request) => request,
                        None => return,
                    }
                }
            };
            if let Some(monitor) = self.monitor.get() {
                monitor.kick();
            }
            let more = request.more;
            self.answer(*gil, &mut environs, &buffer, request.key, request.out);
            if more {
                self.hub.wake_cores(false);
            }
        }
    }

    /// Answers one request.
    fn answer(
        &'static self,
        gil: Gil,
        environs: &mut Environs,
        payload: &[u8],
        key: Key,
        out: Arc<CoreSender>,
    ) {
        let Some((facts, fields)) = request::read(payload) else {
            std::process::exit(server::EXIT_BAD_RING);
        };
        let state = State {
            is_head: facts.method == b"HEAD",
            must_ask: facts.flags & EXPECTS_CONTINUE != 0,
            has_read_all: facts.flags & HAS_BODY == 0,
            ..State::default()
        };
        let call = Arc::new(Call { context: self, key, out, state: Mutex::new(state) });
        let called = self.kind.hold(gil, call.clone()).and_then(|object| {
            let input = || {
                let read = READ_BODY.bind(gil, &object)?;
                gil.call1(&self.make_input, &read)
            };
            let environ = environs.of(gil, &self.names, &facts, fields, input)?;
            let start_response = START_RESPONSE.bind(gil, &object)?;
            let body = gil.call2(&self.application.app, &environ, &start_response)?;
            call.send_body(gil, body)
        });
        let ended = called.and_then(|()| call.end(gil));
        if ended.is_err() {
            if !call.lock(gil).is_gone {
                self.report(gil, &describe(facts.method, facts.raw_path), facts.id);
            } else {
                gil.clear_error();
            }
            call.fail(gil);
        }
        self.hub.finish(key);
    }

    /// Logs the exception that is set.
    fn report(&self, gil: Gil, what: &str, id: &[u8]) {
        let Some(error) = gil.take_error() else { return };
        let id = String::from_utf8_lossy(id);
        let id = if id.is_empty() { String::new() } else { format!(" (request {id})") };
        let text = self.application.describe(gil, &error);
        server::log('e', &format!("{}: {what}{id} has failed\n{text}", self.worker.settings.app));
    }
}

/// The name of a request in the log. The query may hold a secret.
fn describe(method: &[u8], path: &[u8]) -> String {
    format!("{} {}", method.escape_ascii(), String::from_utf8_lossy(path).escape_debug())
}

impl Call {
    /// Locks the state. A thread that holds it may be waiting for the interpreter's lock, which is therefore
    /// released while this thread waits.
    fn lock(&self, gil: Gil) -> MutexGuard<'_, State> {
        match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let mut gil = gil;
                let _released = gil.release();
                self.state.lock().unwrap_or_else(PoisonError::into_inner)
            }
        }
    }

    /// Sends the result of the application, and closes it.
    fn send_body(&self, gil: Gil, body: Object) -> Result<(), PythonException> {
        let sent = self.send_all_of(gil, &body);
        if body.is_list() || body.is_tuple() {
            return sent;
        }
        let failure = if sent.is_err() { gil.take_error() } else { None };
        let closed = match gil.optional_attribute(&body, &self.context.names.close) {
            Some(close) => gil.call0(&close).map(drop),
            None => Ok(()),
        };
        match failure {
            // The first exception is reported.
            Some(error) => Err(gil.raise_exception(error)),
            None => sent.and(closed),
        }
    }

    fn send_all_of(&self, gil: Gil, body: &Object) -> Result<(), PythonException> {
        if let Some(count) = gil.length(body) {
            return self.send_list(gil, body, count);
        }
        let class = gil.attribute(body, c"__class__")?;
        if class.is(&self.context.base.file_wrapper) && self.send_file(gil, body)? {
            return Ok(());
        }
        let iterator = gil.iterate(body)?;
        while let Some(piece) = gil.next(&iterator)? {
            self.send(gil, piece_bytes(gil, &piece)?, false)?;
            if self.lock(gil).is_gone {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends a list, whose length is known.
    fn send_list(&self, gil: Gil, list: &Object, count: usize) -> Result<(), PythonException> {
        if count == 1 {
            let piece = gil.member(list, 0)?;
            return self.send(gil, piece_bytes(gil, &piece)?, true);
        }
        let mut joined = Vec::new();
        let mut index = 0;
        while index < count.min(MOST_MEMBERS) && joined.len() <= WHOLE_BYTES {
            joined.extend_from_slice(piece_bytes(gil, &gil.member(list, index)?)?);
            index += 1;
        }
        // The list may change while a part of it is sent.
        while index < gil.length(list).unwrap_or(0) {
            self.send(gil, &std::mem::take(&mut joined), false)?;
            joined.extend_from_slice(piece_bytes(gil, &gil.member(list, index)?)?);
            index += 1;
        }
        self.send(gil, &joined, true)
    }

    /// Makes the server send a file; returns whether it is one.
    fn send_file(&self, gil: Gil, wrapper: &Object) -> Result<bool, PythonException> {
        let range = gil.attribute(wrapper, c"touchstone_range")?;
        let range = gil.call0(&range)?;
        if gil.is_none(&range) {
            return Ok(false);
        }
        let number = |index| gil.member(&range, index).and_then(|number| gil.as_number(&number));
        let (descriptor, offset, mut length) =
            (number(0)?, number(1)?.unsigned_abs(), number(2)?.unsigned_abs());
        let mut state = self.lock(gil);
        if state.is_head_sent {
            return Ok(false);
        }
        let Some(response) = &state.response else { return Err(no_response(gil)) };
        if !response.has_body() || state.is_head {
            return Ok(false);
        }
        if let Some(declared) = response.content_length {
            if declared > length {
                return Ok(false);
            }
            length = declared;
        }
        // SAFETY: the file is open in the application, which is not called meanwhile.
        let file = unsafe { std::os::fd::BorrowedFd::borrow_raw(descriptor as i32) };
        if self.out.send_file(file).is_err() {
            return Ok(false);
        }
        let range = [offset.to_le_bytes(), length.to_le_bytes()].concat();
        self.push(gil, Kind::File, 0, |send| send(&[&range]));
        self.push(gil, Kind::Head, 0, |send| response.with_parts(Some(length), |parts| send(&parts)));
        self.push(gil, Kind::End, 0, |send| send(&[]));
        (state.is_head_sent, state.is_over) = (true, true);
        Ok(true)
    }

    /// Sends a part of the body; `last`: nothing follows.
    fn send(&self, gil: Gil, bytes: &[u8], last: bool) -> Result<(), PythonException> {
        let mut state = self.lock(gil);
        if state.is_over || (bytes.is_empty() && !last) {
            return Ok(());
        }
        let Some(response) = &state.response else { return Err(no_response(gil)) };
        let declared = response.content_length;
        // RFC 9110 section 8.6: bytes beyond the declared length are dropped.
        let left = declared.map_or(u64::MAX, |length| length.saturating_sub(state.sent));
        let bytes = &bytes[..bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
        let has_body = response.has_body() && !state.is_head;
        let is_whole = last || declared == Some(bytes.len() as u64) || !has_body;
        if !state.is_head_sent {
            if is_whole
                && (!has_body || bytes.len() <= WHOLE_BYTES)
                && declared.is_none_or(|length| !has_body || length == bytes.len() as u64)
            {
                let length = if has_body { Some(bytes.len() as u64) } else { declared };
                let body = if has_body { bytes } else { &[] };
                self.push(gil, Kind::Whole, 0, |send| {
                    response.with_parts(length, |[a, b, c]| send(&[a, b, c, body]));
                });
                (state.is_head_sent, state.is_over, state.sent) = (true, true, bytes.len() as u64);
                return Ok(());
            }
            let length = declared.or(last.then_some(bytes.len() as u64));
            self.push(gil, Kind::Head, 0, |send| response.with_parts(length, |parts| send(&parts)));
            state.is_head_sent = true;
        }
        state.sent += bytes.len() as u64;
        let ends = declared == Some(state.sent);
        drop(state);
        self.send_pieces(gil, bytes);
        if ends {
            self.push(gil, Kind::End, 0, |send| send(&[]));
            self.lock(gil).is_over = true;
        }
        Ok(())
    }

    /// Sends bytes as fast as the client reads them.
    fn send_pieces(&self, gil: Gil, mut bytes: &[u8]) {
        let hub = &self.context.hub;
        while !bytes.is_empty() {
            let wanted = bytes.len().min(PIECE_BYTES);
            let granted = match hub.take_credit(self.key, wanted) {
                Some(0) => {
                    let mut gil = gil;
                    let _released = gil.release();
                    self.out.wake_core();
                    hub.wait_for_credit(self.key, wanted)
                }
                granted => granted,
            };
            let Some(granted) = granted else {
                self.lock(gil).is_gone = true;
                return;
            };
            let (piece, rest) = bytes.split_at(granted);
            self.push(gil, Kind::Piece, 0, |send| send(&[piece]));
            bytes = rest;
        }
        self.out.wake_core();
    }

    /// Called when the application has returned, and its whole result was sent.
    fn end(&self, gil: Gil) -> Result<(), PythonException> {
        let mut state = self.lock(gil);
        if state.is_over || state.is_gone {
            return Ok(());
        }
        if !state.is_head_sent {
            drop(state);
            return self.send(gil, b"", true);
        }
        let Some(response) = &state.response else { return Err(no_response(gil)) };
        let is_short = response.content_length.is_some_and(|length| length > state.sent);
        state.is_over = true;
        drop(state);
        if is_short {
            let text = "an answer is shorter than its Content-Length: the connection to the client is \
                closed";
            server::log('w', &format!("{}: {text}", self.context.worker.settings.app));
        }
        self.push(gil, Kind::End, if is_short { BROKEN } else { 0 }, |send| send(&[]));
        Ok(())
    }

    /// Called when the application has failed: answers with 500, or breaks off the answer.
    fn fail(&self, gil: Gil) {
        let mut state = self.lock(gil);
        if std::mem::replace(&mut state.is_over, true) {
            return;
        }
        if state.is_head_sent {
            self.push(gil, Kind::End, BROKEN, |send| send(&[]));
        } else {
            let response = Response { status: 500, ..Response::default() };
            self.push(gil, Kind::Whole, 0, |send| response.with_parts(Some(0), |parts| send(&parts)));
        }
    }

    /// Writes a frame. If the ring is full, other threads may call Python meanwhile.
    fn push(&self, gil: Gil, kind: Kind, flags: u8, give: impl FnOnce(&mut dyn FnMut(&[&[u8]]))) {
        let mut wait = |time| {
            let mut gil = gil;
            let _released = gil.release();
            links::sleep(time);
        };
        give(&mut |parts| self.out.push(kind, flags, self.key.number, parts, &mut wait));
    }
}

fn no_response(gil: Gil) -> PythonException {
    gil.raise(Class::Runtime, "the application has not called start_response")
}

fn piece_bytes(gil: Gil, piece: &Object) -> Result<&[u8], PythonException> {
    if !piece.is_bytes() {
        return Err(gil.raise(Class::Type, "a piece of the body is not of the type bytes"));
    }
    Ok(piece.bytes())
}

/// `start_response(status, headers, exc_info=None)`
fn start_response(gil: Gil, call: &Arc<Call>, arguments: Arguments<'_>) -> Result<Object, PythonException> {
    let (Some(status), Some(headers), 2..=3) =
        (arguments.get(gil, 0), arguments.get(gil, 1), arguments.count())
    else {
        return Err(gil.raise(Class::Type, "start_response takes a status, header fields and exc_info"));
    };
    let exc_info = arguments.get(gil, 2).filter(|info| !gil.is_none(info));
    let (has_response, is_head_sent) = {
        let state = call.lock(gil);
        (state.response.is_some(), state.is_head_sent)
    };
    match exc_info {
        Some(info) if is_head_sent => {
            let member = |index| gil.member(&info, index);
            return Err(gil.raise_with_trace(member(0)?, member(1)?, member(2)?));
        }
        None if has_response => {
            return Err(gil.raise(Class::Runtime, "start_response was called before, and without exc_info"));
        }
        _ => {}
    }
    let response = read_response(gil, &status, &headers)?;
    call.lock(gil).response = Some(response);
    let object = call.context.kind.hold(gil, call.clone())?;
    WRITE.bind(gil, &object)
}

fn read_response(gil: Gil, status: &Object, headers: &Object) -> Result<Response, PythonException> {
    let text = |object: &Object, out: &mut Vec<u8>| -> Result<(), PythonException> {
        if !object.is_text() {
            return Err(
                gil.raise(Class::Type, "status, and names and values of header fields, are of the type str")
            );
        }
        match append_latin1(out, gil.text(object)?) {
            true => Ok(()),
            false => Err(gil.raise(Class::Value, "a header field has a character beyond latin-1")),
        }
    };
    let wrong = |problem: String| gil.raise(Class::Value, &problem);
    let (mut name, mut value) = (Vec::with_capacity(32), Vec::with_capacity(64));
    text(status, &mut value)?;
    let mut response = Response::of_status_line(&value).map_err(wrong)?;
    let Some(count) = gil.length(headers) else {
        return Err(gil.raise(Class::Type, "the header fields are of the type list"));
    };
    for index in 0..count {
        let pair = gil.member(headers, index)?;
        if gil.length(&pair) != Some(2) {
            return Err(gil.raise(Class::Type, "a header field is a tuple of name and value"));
        }
        name.clear();
        value.clear();
        text(&gil.member(&pair, 0)?, &mut name)?;
        text(&gil.member(&pair, 1)?, &mut value)?;
        response.add(&name, &value).map_err(wrong)?;
    }
    Ok(response)
}

/// `write(data)`
fn write(gil: Gil, call: &Arc<Call>, data: Object) -> Result<Object, PythonException> {
    call.send(gil, piece_bytes(gil, &data)?, false)?;
    if call.lock(gil).is_gone {
        return Err(gil.raise(Class::Os, "the client has left"));
    }
    Ok(gil.none())
}

/// Reads at most this many bytes of the body, as soon as there are some.
fn read_body(gil: Gil, call: &Arc<Call>, size: Object) -> Result<Object, PythonException> {
    let size = usize::try_from(gil.as_number(&size)?).unwrap_or(0);
    let mut state = call.lock(gil);
    if state.read == state.piece.len() && !state.has_read_all {
        let must_ask = std::mem::take(&mut state.must_ask);
        drop(state);
        if must_ask {
            let window = crate::shared::frame::BODY_WINDOW as u32;
            call.push(gil, Kind::Want, 0, |send| send(&[&window.to_le_bytes()]));
        }
        let read = match call.context.hub.take_body(call.key) {
            Some(read) => read,
            None => {
                // The core is informed that the application waits for the client.
                call.push(gil, Kind::Want, 0, |send| send(&[&0u32.to_le_bytes()]));
                let mut gil = gil;
                let _released = gil.release();
                call.out.wake_core();
                call.context.hub.wait_for_body(call.key)
            }
        };
        if let BodyRead::Piece(piece) = &read {
            let length = u32::try_from(piece.len()).unwrap_or(u32::MAX);
            call.push(gil, Kind::Want, 0, |send| send(&[&length.to_le_bytes()]));
        }
        state = call.lock(gil);
        match read {
            BodyRead::Piece(piece) => (state.piece, state.read) = (piece, 0),
            BodyRead::End => state.has_read_all = true,
            BodyRead::Broken => {
                return Err(gil.raise(Class::Os, "the client has left before the end of its body"));
            }
        }
    }
    let end = state.piece.len().min(state.read + size);
    let bytes = gil.make_bytes(&state.piece[state.read..end])?;
    state.read = end;
    Ok(bytes)
}
