//! A request of an ASGI application: the data that has arrived for it, and what the application sends.
//!
//! `receive` and `send` return futures of the event loop. A future that already has its result needs no turn
//! of the loop. The lock is never held while Python is called.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use rustc_hash::FxHashMap;

use super::messages::{self, required, truth};
use super::names::Names;
use super::websocket::{self, Decoder, Message};
use crate::api::{
    Api, Calls, Form, Function, Functions, Gil, Kind as Class, NativeType, Object, PythonException,
};
use crate::shared::frame::{self, ANSWER_WINDOW, BODY_WINDOW, BROKEN, Kind, PIECE_BYTES, WHOLE_BYTES};
use crate::worker::application::Application;
use crate::worker::links::{self, CoreSender, Key};
use crate::worker::parts::Worker;
use crate::worker::response::{Response, append_latin1};
use crate::worker::server;

/// The most bytes that wait for credit if an application does not wait for its sends.
const MOST_PENDING: usize = 64 * 1024 * 1024;

/// The most messages of a WebSocket that wait for the application before the client has to wait.
const MOST_MESSAGES: usize = 16;

/// What all requests use.
pub struct AsgiContext {
    pub api: &'static Api,
    pub worker: &'static Worker,
    pub names: Names,
    pub kind: NativeType<Call>,
    pub application: Application,
    pub create_future: Object,
    /// A future with a result, for calls that need not wait.
    pub done: Object,
    /// Makes the event loop call a function in its next turn.
    pub call_soon: Object,
    /// Notifies the cores of written frames.
    pub wake_cores: OnceLock<Object>,
    pub calls: Mutex<FxHashMap<Key, Arc<Call>>>,
    /// The rings are being read: cores are notified afterwards.
    pub is_reading: AtomicBool,
    /// Cores will be notified in the next turn of the loop.
    pub will_wake_cores: AtomicBool,
}

static CONTEXT: OnceLock<AsgiContext> = OnceLock::new();

/// Sets what all requests use, once.
pub fn set_context(context: AsgiContext) -> &'static AsgiContext {
    CONTEXT.get_or_init(|| context)
}

fn context() -> &'static AsgiContext {
    CONTEXT.get().expect("objects are made after the start")
}

impl AsgiContext {
    pub(super) fn calls(&self) -> MutexGuard<'_, FxHashMap<Key, Arc<Call>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The request has ended.
    pub(super) fn forget(&self, key: Key) {
        let removed = self.calls().remove(&key);
        drop(removed);
        if self.worker.hub.is_quitting() {
            self.worker.hub.wake();
        }
    }

    /// Called when something was written: the cores are notified once for all frames of this turn.
    pub(super) fn has_written(&self) {
        if self.is_reading.load(Ordering::Relaxed) || self.will_wake_cores.swap(true, Ordering::Relaxed) {
            return;
        }
        // SAFETY: it has written a frame for the application, so the thread may call Python.
        // SAFETY: as said.
        let gil = unsafe { Gil::assume(self.api) };
        let scheduled = self.wake_cores.get().map(|wake_cores| gil.call1(&self.call_soon, wake_cores));
        if !matches!(scheduled, Some(Ok(_))) {
            gil.clear_error();
            self.will_wake_cores.store(false, Ordering::Relaxed);
            self.worker.hub.wake_cores(true);
        }
    }

    /// Sets the result of a future, unless it was cancelled; returns whether it did.
    pub(super) fn resolve(&self, gil: Gil, future: &Object, result: &Object) -> bool {
        let set = || {
            let done = gil.optional_attribute(future, &self.names.done).ok_or(PythonException)?;
            if gil.is_true(&gil.call0(&done)?)? {
                return Ok(false);
            }
            let set = gil.optional_attribute(future, &self.names.set_result).ok_or(PythonException)?;
            gil.call1(&set, result).map(|_| true)
        };
        set().unwrap_or_else(|PythonException| {
            gil.clear_error();
            false
        })
    }
}

/// A request.
pub struct Call {
    pub(super) context: &'static AsgiContext,
    pub(super) key: Key,
    pub(super) out: Arc<CoreSender>,
    /// Its method and its path, for the log, and its id. The query may hold a secret.
    pub(super) name: Vec<u8>,
    pub(super) id: String,
    pub(super) state: Mutex<State>,
}

/// The state of a request.
#[derive(Default)]
pub struct State {
    /// HEAD: there is no body to send.
    pub is_head: bool,
    /// The client waits for 100 (Continue), which was not sent yet.
    pub must_ask: bool,
    /// Pieces of the body that the application has not received.
    body: VecDeque<Vec<u8>>,
    /// The body has ended; `true`: too early.
    pub body_end: Option<bool>,
    end_delivered: bool,
    is_gone: bool,
    /// The answer has ended.
    is_over: bool,
    credit: usize,
    /// Pending futures of `receive`.
    receivers: VecDeque<Object>,
    /// The bytes that wait for credit, and the future of the `send` that waits for it.
    pending: Option<Pending>,
    response: Option<Response>,
    is_head_sent: bool,
    sent: u64,
    has_trailers: bool,
    trailers: Vec<u8>,
    pub socket: Option<Box<Socket>>,
}

struct Pending {
    bytes: Vec<u8>,
    future: Object,
    ends: bool,
}

/// A WebSocket.
#[derive(Default)]
pub struct Socket {
    /// The value of `Sec-WebSocket-Accept`.
    accept: String,
    decoder: Decoder,
    messages: VecDeque<Message>,
    connect_delivered: bool,
    is_accepted: bool,
    /// This side has sent a close frame.
    has_closed: bool,
    /// The code and the reason of the end for the application.
    end: Option<(u16, String)>,
    /// Bytes that the application has taken and for which no credit was sent to the core.
    ungranted: usize,
}

/// The next message for the application.
enum NextMessage {
    Piece(Vec<u8>, bool),
    Disconnect,
    Connect,
    Message(Message),
    SocketEnd(u16, String),
}

pub struct Receive;
pub struct Send;

impl Calls<Call> for Receive {
    const FORM: Form<Call> = Form::None(receive);
}

impl Calls<Call> for Send {
    const FORM: Form<Call> = Form::One(send);
}

pub static RECEIVE: Function = Function::of::<Call, Receive>(c"receive");
pub static SEND: Function = Function::of::<Call, Send>(c"send");

impl Functions for Call {
    fn api() -> &'static Api {
        context().api
    }

    fn offset() -> usize {
        context().kind.offset()
    }
}

impl State {
    /// The state of a new request.
    pub fn new() -> State {
        State { credit: ANSWER_WINDOW, ..State::default() }
    }

    fn next(&mut self) -> Option<NextMessage> {
        if let Some(socket) = &mut self.socket {
            return socket.next();
        }
        if let Some(piece) = self.body.pop_front() {
            let more = !self.body.is_empty() || self.body_end != Some(false);
            self.end_delivered = !more;
            return Some(NextMessage::Piece(piece, more));
        }
        if self.is_gone || self.is_over || self.body_end == Some(true) {
            return Some(NextMessage::Disconnect);
        }
        if self.body_end == Some(false) && !self.end_delivered {
            self.end_delivered = true;
            return Some(NextMessage::Piece(Vec::new(), false));
        }
        None
    }
}

impl Socket {
    /// A WebSocket that a client has requested; `accept` is the value that accepts it.
    pub fn new(accept: String) -> Socket {
        Socket { accept, ..Socket::default() }
    }

    fn next(&mut self) -> Option<NextMessage> {
        if !std::mem::replace(&mut self.connect_delivered, true) {
            return Some(NextMessage::Connect);
        }
        if let Some(message) = self.messages.pop_front() {
            return Some(NextMessage::Message(message));
        }
        self.end.clone().map(|(code, reason)| NextMessage::SocketEnd(code, reason))
    }

    fn set_end(&mut self, code: u16, reason: String) {
        self.end.get_or_insert((code, reason));
    }

    /// Bytes for which credit can be sent.
    fn take_ungranted(&mut self) -> usize {
        if self.messages.len() < MOST_MESSAGES { std::mem::take(&mut self.ungranted) } else { 0 }
    }
}

impl Call {
    /// Locks the state. A thread that holds it may be waiting for the interpreter, which is therefore left to
    /// others while this thread waits.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                // SAFETY: only functions that Python has called lock the state.
                let mut gil = unsafe { Gil::assume(self.context.api) };
                let _released = gil.release();
                self.state.lock().unwrap_or_else(PoisonError::into_inner)
            }
        }
    }

    fn push(&self, gil: Gil, kind: Kind, flags: u8, parts: &[&[u8]]) {
        let mut wait = |time| {
            let mut gil = gil;
            let _released = gil.release();
            links::sleep(time);
        };
        self.out.push(kind, flags, self.key.number, parts, &mut wait);
        self.context.has_written();
    }

    fn want(&self, gil: Gil, bytes: usize) {
        if bytes > 0 {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            self.push(gil, Kind::Want, 0, &[&bytes.to_le_bytes()]);
        }
    }

    /// Processes a frame for this request.
    pub(super) fn take_frame(&self, gil: Gil, kind: Kind, flags: u8, payload: &[u8]) {
        match kind {
            Kind::Body => self.take_body(gil, payload),
            Kind::BodyEnd => {
                let mut state = self.lock();
                state.body_end = Some(flags & BROKEN != 0);
                if let Some(socket) = &mut state.socket {
                    socket.set_end(1006, String::new());
                }
            }
            Kind::Credit => {
                self.lock().credit += frame::number(payload);
                self.send_pending(gil);
            }
            Kind::Gone => {
                let mut state = self.lock();
                state.is_gone = true;
                if let Some(socket) = &mut state.socket {
                    socket.set_end(1006, String::new());
                }
                let pending = state.pending.take();
                drop(state);
                if let Some(pending) = pending {
                    self.context.resolve(gil, &pending.future, &gil.none());
                }
            }
            _ => {}
        }
        self.deliver(gil);
    }

    fn take_body(&self, gil: Gil, payload: &[u8]) {
        let mut state = self.lock();
        let Some(socket) = &mut state.socket else {
            state.body.push_back(payload.to_vec());
            return;
        };
        socket.decoder.push(payload);
        socket.ungranted += payload.len();
        let mut answers = Vec::new();
        let mut has_ended = false;
        loop {
            match socket.decoder.next() {
                Ok(None) => break,
                Ok(Some(Message::Ping(payload))) => answers.extend(websocket::pong(&payload)),
                Ok(Some(Message::Close(code, reason))) => {
                    if !std::mem::replace(&mut socket.has_closed, true) {
                        let answer = if websocket::is_sendable(code) { code } else { 1000 };
                        answers.extend(websocket::close(answer, ""));
                    }
                    socket.set_end(code, reason);
                    has_ended = true;
                    break;
                }
                Ok(Some(message)) => socket.messages.push_back(message),
                Err(failure) => {
                    if !std::mem::replace(&mut socket.has_closed, true) {
                        answers.extend(websocket::close(failure.code, ""));
                    }
                    socket.set_end(failure.code, String::new());
                    has_ended = true;
                    break;
                }
            }
        }
        let wanted = if has_ended { 0 } else { socket.take_ungranted() };
        drop(state);
        self.want(gil, wanted);
        if !answers.is_empty() || has_ended {
            // Control frames are short; a client that does not read them gets no credit for more.
            let _ = self.send_bytes(gil, &answers, has_ended).map_err(|PythonException| gil.clear_error());
        }
    }

    /// Passes received messages to pending `receive`s.
    fn deliver(&self, gil: Gil) {
        loop {
            let mut state = self.lock();
            if state.receivers.is_empty() {
                return;
            }
            let Some(next) = state.next() else { return };
            let Some(future) = state.receivers.pop_front() else { return };
            drop(state);
            match self.message(gil, &next) {
                Ok(message) if self.context.resolve(gil, &future, &message) => {}
                // The receive was cancelled: the next one gets the message.
                Ok(_) => self.put_back(next),
                Err(PythonException) => gil.clear_error(),
            }
        }
    }

    fn put_back(&self, next: NextMessage) {
        let mut state = self.lock();
        match (next, &mut state.socket) {
            (NextMessage::Message(message), Some(socket)) => socket.messages.push_front(message),
            (NextMessage::Connect, Some(socket)) => socket.connect_delivered = false,
            (NextMessage::Piece(piece, more), None) => {
                if !more {
                    state.end_delivered = false;
                }
                if more || !piece.is_empty() {
                    state.body.push_front(piece);
                }
            }
            // These messages can be made again.
            _ => {}
        }
    }

    fn message(&self, gil: Gil, next: &NextMessage) -> Result<Object, PythonException> {
        let names = &self.context.names;
        let dict = gil.dict()?;
        match next {
            NextMessage::Piece(piece, more) => {
                gil.set(&dict, &names.kind, &names.request)?;
                gil.set(&dict, &names.body, &gil.make_bytes(piece)?)?;
                gil.set(&dict, &names.more_body, &gil.truth(*more)?)?;
                self.want(gil, piece.len());
            }
            NextMessage::Disconnect => gil.set(&dict, &names.kind, &names.disconnect)?,
            NextMessage::Connect => gil.set(&dict, &names.kind, &names.ws_connect)?,
            NextMessage::Message(message) => {
                gil.set(&dict, &names.kind, &names.ws_receive)?;
                match message {
                    Message::Text(text) => gil.set(&dict, &names.text, &gil.utf8(text.as_bytes())?)?,
                    Message::Binary(bytes) => gil.set(&dict, &names.bytes, &gil.make_bytes(bytes)?)?,
                    Message::Ping(_) | Message::Close(..) => {}
                }
                let wanted = self.lock().socket.as_mut().map_or(0, |socket| socket.take_ungranted());
                self.want(gil, wanted);
            }
            NextMessage::SocketEnd(code, reason) => {
                gil.set(&dict, &names.kind, &names.ws_disconnect)?;
                gil.set(&dict, &names.code, &gil.number((*code).into())?)?;
                gil.set(&dict, &names.reason, &gil.utf8(reason.as_bytes())?)?;
            }
        }
        Ok(dict)
    }

    /// Sends a part of the body, as far as the client has accepted earlier bytes. The application awaits the
    /// result.
    fn send_bytes(&self, gil: Gil, bytes: &[u8], ends: bool) -> Result<Object, PythonException> {
        let mut state = self.lock();
        if let Some(pending) = &mut state.pending {
            if pending.bytes.len() + bytes.len() > MOST_PENDING {
                return Err(gil.raise(Class::Os, "too much was sent without awaiting it"));
            }
            pending.bytes.extend_from_slice(bytes);
            pending.ends |= ends;
            return Ok(pending.future.clone());
        }
        let granted = bytes.len().min(state.credit);
        state.credit -= granted;
        drop(state);
        let (now, rest) = bytes.split_at(granted);
        for piece in now.chunks(PIECE_BYTES) {
            self.push(gil, Kind::Piece, 0, &[piece]);
        }
        if rest.is_empty() {
            if ends {
                self.finish(gil, 0);
            }
            return Ok(self.context.done.clone());
        }
        let future = gil.call0(&self.context.create_future)?;
        self.lock().pending = Some(Pending { bytes: rest.to_vec(), future: future.clone(), ends });
        Ok(future)
    }

    /// Sends bytes that wait for credit.
    fn send_pending(&self, gil: Gil) {
        let mut state = self.lock();
        let Some(mut pending) = state.pending.take() else { return };
        let granted = pending.bytes.len().min(state.credit);
        state.credit -= granted;
        let now: Vec<u8> = pending.bytes.drain(..granted).collect();
        let is_done = pending.bytes.is_empty();
        let (future, ends) = (pending.future.clone(), pending.ends);
        if !is_done {
            state.pending = Some(pending);
        }
        drop(state);
        for piece in now.chunks(PIECE_BYTES) {
            self.push(gil, Kind::Piece, 0, &[piece]);
        }
        if is_done {
            if ends {
                self.finish(gil, 0);
            }
            self.context.resolve(gil, &future, &gil.none());
        }
    }

    /// The answer has ended.
    fn finish(&self, gil: Gil, flags: u8) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.is_over, true) {
            return;
        }
        let trailers = std::mem::take(&mut state.trailers);
        let is_short =
            state.response.as_ref().and_then(|response| response.content_length).is_some_and(|length| {
                length > state.sent
                    && !state.is_head
                    && state.response.as_ref().is_some_and(Response::has_body)
            });
        drop(state);
        let flags = if is_short { flags | BROKEN } else { flags };
        self.push(gil, Kind::End, flags, &[&trailers]);
        self.deliver(gil);
    }

    fn start_response(&self, gil: Gil, message: &Object) -> Result<(), PythonException> {
        let response = messages::response(gil, &self.context.names, message)?;
        let has_trailers = truth(gil, message, &self.context.names.trailers)?;
        let mut state = self.lock();
        if state.response.is_some() {
            return Err(gil.raise(Class::Runtime, "the response was started before"));
        }
        state.response = Some(response);
        state.has_trailers = has_trailers;
        Ok(())
    }

    fn send_body(&self, gil: Gil, message: &Object) -> Result<Object, PythonException> {
        let names = &self.context.names;
        let body = messages::bytes(gil, message, &names.body)?;
        let more = truth(gil, message, &names.more_body)?;
        let bytes = body.as_ref().map_or(&[][..], Object::bytes);
        let mut state = self.lock();
        if state.is_over {
            return Err(gil.raise(Class::Runtime, "the response has ended already"));
        }
        let Some(response) = &state.response else {
            return Err(gil.raise(Class::Runtime, "the response was not started"));
        };
        let declared = response.content_length;
        let has_body = response.has_body() && !state.is_head;
        // RFC 9110 section 8.6: bytes beyond the declared length are dropped.
        let left = declared.map_or(u64::MAX, |length| length.saturating_sub(state.sent));
        let bytes = &bytes[..bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
        if !state.is_head_sent {
            let is_whole = !more && !state.has_trailers;
            let fits =
                declared.is_none_or(|length| length == bytes.len() as u64) && bytes.len() <= WHOLE_BYTES;
            if !has_body || (is_whole && fits) {
                let length = if has_body { Some(bytes.len() as u64) } else { declared };
                let body = if has_body { bytes } else { &[] };
                if more {
                    // The rest of a body that is not sent need not be awaited.
                    return Ok(self.context.done.clone());
                }
                response.with_parts(length, |[a, b, c]| self.push(gil, Kind::Whole, 0, &[a, b, c, body]));
                (state.is_head_sent, state.is_over) = (true, true);
                drop(state);
                self.deliver(gil);
                return Ok(self.context.done.clone());
            }
            let length = declared.or(is_whole.then_some(bytes.len() as u64));
            response.with_parts(length, |parts| self.push(gil, Kind::Head, 0, &parts));
            state.is_head_sent = true;
        }
        state.sent += bytes.len() as u64;
        let ends = !more && !state.has_trailers;
        drop(state);
        self.send_bytes(gil, bytes, ends)
    }

    fn send_trailers(&self, gil: Gil, message: &Object) -> Result<(), PythonException> {
        let names = &self.context.names;
        let mut fields = Response::default();
        if let Some(headers) = gil.get(message, &names.headers)? {
            messages::add_fields(gil, &mut fields, &headers)?;
        }
        let more = truth(gil, message, &names.more_trailers)?;
        let mut state = self.lock();
        if !state.has_trailers {
            return Err(gil.raise(Class::Runtime, "the response was started without trailers"));
        }
        state.trailers.extend_from_slice(&fields.lines);
        if more {
            return Ok(());
        }
        if let Some(pending) = &mut state.pending {
            pending.ends = true;
            return Ok(());
        }
        drop(state);
        self.finish(gil, 0);
        Ok(())
    }

    /// Fields `Link` of an interim response 103.
    fn send_hints(&self, gil: Gil, message: &Object) -> Result<(), PythonException> {
        let links = required(gil, message, &self.context.names.links, "links")?;
        let mut fields = Response::default();
        let iterator = gil.iterate(&links)?;
        while let Some(link) = gil.next(&iterator)? {
            let link = gil.to_bytes(&link)?;
            fields.add(b"Link", link.bytes()).map_err(|problem| gil.raise(Class::Value, &problem))?;
        }
        self.push(gil, Kind::Hints, 0, &[&fields.lines]);
        Ok(())
    }

    /// The body is a file.
    fn send_path(&self, gil: Gil, message: &Object) -> Result<(), PythonException> {
        let path = required(gil, message, &self.context.names.path, "path")?;
        let path = gil.text(&path)?;
        let failed = |error: std::io::Error| gil.raise(Class::Os, &format!("{path}: {error}"));
        let file = File::open(path).map_err(failed)?;
        let facts = file.metadata().map_err(failed)?;
        let mut state = self.lock();
        let Some(response) = &state.response else {
            return Err(gil.raise(Class::Runtime, "the response was not started"));
        };
        if !facts.is_file() || state.is_head_sent {
            return Err(gil.raise(Class::Os, "only a whole file of the disk can be sent by its path"));
        }
        let length = response.content_length.unwrap_or(facts.len()).min(facts.len());
        if response.has_body() && !state.is_head {
            self.out.send_file(&file).map_err(failed)?;
            let range = [0u64.to_le_bytes(), length.to_le_bytes()].concat();
            self.push(gil, Kind::File, 0, &[&range]);
            response.with_parts(Some(length), |parts| self.push(gil, Kind::Head, 0, &parts));
            self.push(gil, Kind::End, 0, &[]);
        } else {
            response.with_parts(Some(length), |parts| self.push(gil, Kind::Whole, 0, &parts));
        }
        (state.is_head_sent, state.is_over) = (true, true);
        drop(state);
        self.deliver(gil);
        Ok(())
    }

    fn accept(&self, gil: Gil, message: &Object) -> Result<(), PythonException> {
        let names = &self.context.names;
        let mut response = Response { status: 101, ..Response::default() };
        response.lines.extend_from_slice(b"Upgrade: websocket\r\nSec-WebSocket-Accept: ");
        {
            let mut state = self.lock();
            let Some(socket) = state.socket.as_mut().filter(|socket| !socket.is_accepted) else {
                return Err(gil.raise(Class::Runtime, "the WebSocket was accepted before"));
            };
            socket.is_accepted = true;
            response.lines.extend_from_slice(socket.accept.as_bytes());
            response.lines.extend_from_slice(b"\r\n");
        }
        if let Some(protocol) = gil.get(message, &names.subprotocol)?.filter(|found| !gil.is_none(found)) {
            let mut value = Vec::new();
            append_latin1(&mut value, gil.text(&protocol)?);
            let added = response.add(b"Sec-WebSocket-Protocol", &value);
            added.map_err(|problem| gil.raise(Class::Value, &problem))?;
        }
        if let Some(headers) = gil.get(message, &names.headers)? {
            messages::add_fields(gil, &mut response, &headers)?;
        }
        response.with_parts(None, |parts| self.push(gil, Kind::Head, 0, &parts));
        self.lock().is_head_sent = true;
        Ok(())
    }

    fn close_socket(&self, gil: Gil, message: &Object) -> Result<Object, PythonException> {
        let names = &self.context.names;
        let code = match gil.get(message, &names.code)?.filter(|found| !gil.is_none(found)) {
            Some(code) => u16::try_from(gil.as_number(&code)?).unwrap_or(1000),
            None => 1000,
        };
        let reason = match gil.get(message, &names.reason)?.filter(|found| !gil.is_none(found)) {
            Some(reason) => gil.text(&reason)?.to_string(),
            None => String::new(),
        };
        let mut state = self.lock();
        let Some(socket) = &mut state.socket else { return Ok(self.context.done.clone()) };
        socket.set_end(code, reason.clone());
        if !socket.is_accepted {
            // The handshake is refused.
            (state.is_head_sent, state.is_over) = (true, true);
            drop(state);
            let response = Response { status: 403, ..Response::default() };
            response.with_parts(Some(0), |parts| self.push(gil, Kind::Whole, 0, &parts));
            return Ok(self.context.done.clone());
        }
        if std::mem::replace(&mut socket.has_closed, true) {
            return Ok(self.context.done.clone());
        }
        drop(state);
        let code = if websocket::is_sendable(code) { code } else { 1000 };
        self.send_bytes(gil, &websocket::close(code, &reason), true)
    }

    fn send_socket(&self, gil: Gil, message: &Object) -> Result<Object, PythonException> {
        let names = &self.context.names;
        {
            let state = self.lock();
            let socket = state.socket.as_ref();
            if !socket.is_some_and(|socket| socket.is_accepted && !socket.has_closed) {
                return Err(gil.raise(Class::Runtime, "the WebSocket is not open"));
            }
        }
        if let Some(bytes) = messages::bytes(gil, message, &names.bytes)? {
            return self.send_bytes(gil, &websocket::data(false, bytes.bytes()), false);
        }
        let text = required(gil, message, &names.text, "text")?;
        self.send_bytes(gil, &websocket::data(true, gil.text(&text)?.as_bytes()), false)
    }

    /// The application has returned (`None`), or failed.
    pub(super) fn end(&self, gil: Gil, error: Object) {
        self.ended(gil, (!gil.is_none(&error)).then_some(error));
        self.context.forget(self.key);
    }

    fn ended(&self, gil: Gil, error: Option<Object>) {
        let (is_started, is_sent, is_over, is_gone, is_open) = {
            let state = self.lock();
            let is_open =
                state.socket.as_ref().is_some_and(|socket| socket.is_accepted && !socket.has_closed);
            let is_done = state.is_over || state.pending.as_ref().is_some_and(|pending| pending.ends);
            (state.response.is_some(), state.is_head_sent, is_done, state.is_gone, is_open)
        };
        if let Some(error) = &error
            && !(is_gone && is_sent)
        {
            let id = if self.id.is_empty() { String::new() } else { format!(" (request {})", self.id) };
            let text = self.context.application.describe(gil, error);
            let app = &self.context.worker.settings.app;
            server::log('e', &format!("{app}: {}{id} has failed\n{text}", self.name.escape_ascii()));
        }
        if is_over {
            return;
        }
        if is_open {
            if let Some(socket) = &mut self.lock().socket {
                socket.has_closed = true;
            }
            let code = if error.is_some() { 1011 } else { 1000 };
            let _ = self
                .send_bytes(gil, &websocket::close(code, ""), true)
                .map_err(|PythonException| gil.clear_error());
        } else if is_sent {
            self.finish(gil, BROKEN);
        } else {
            if error.is_none() {
                let what = if is_started { "has not sent a whole answer" } else { "has not answered" };
                let app = &self.context.worker.settings.app;
                server::log('e', &format!("{app}: {} {what}", self.name.escape_ascii()));
            }
            let response = Response { status: 500, ..Response::default() };
            response.with_parts(Some(0), |parts| self.push(gil, Kind::Whole, 0, &parts));
            let mut state = self.lock();
            (state.is_head_sent, state.is_over) = (true, true);
        }
    }
}

/// `receive()`
fn receive(gil: Gil, call: &Arc<Call>) -> Result<Object, PythonException> {
    let mut state = call.lock();
    if let Some(next) = state.next() {
        drop(state);
        let message = call.message(gil, &next)?;
        let future = gil.call0(&call.context.create_future)?;
        let set_result = gil.required_attribute(&future, &call.context.names.set_result)?;
        gil.call1(&set_result, &message)?;
        return Ok(future);
    }
    let must_ask = std::mem::take(&mut state.must_ask);
    let waits_for_body = state.body_end.is_none() && state.socket.is_none();
    drop(state);
    if must_ask {
        call.want(gil, BODY_WINDOW);
    }
    if waits_for_body {
        // The core is informed that the application waits for the client.
        call.push(gil, Kind::Want, 0, &[&0u32.to_le_bytes()]);
    }
    let future = gil.call0(&call.context.create_future)?;
    call.lock().receivers.push_back(future.clone());
    Ok(future)
}

/// `send(message)`
fn send(gil: Gil, call: &Arc<Call>, message: Object) -> Result<Object, PythonException> {
    let names = &call.context.names;
    if !message.is_dict() {
        return Err(gil.raise(Class::Type, "a message is a dict"));
    }
    let kind = required(gil, &message, &names.kind, "type")?;
    let kind = gil.text(&kind)?;
    let (is_gone, is_socket) = {
        let state = call.lock();
        (state.is_gone, state.socket.is_some())
    };
    if is_gone {
        return Err(gil.raise(Class::Os, "the client has left"));
    }
    let done = |()| call.context.done.clone();
    match (kind, is_socket) {
        ("http.response.start", false) => call.start_response(gil, &message).map(done),
        ("http.response.body", false) => call.send_body(gil, &message),
        ("http.response.trailers", false) => call.send_trailers(gil, &message).map(done),
        ("http.response.early_hint", false) => call.send_hints(gil, &message).map(done),
        ("http.response.pathsend", false) => call.send_path(gil, &message).map(done),
        ("websocket.accept", true) => call.accept(gil, &message).map(done),
        ("websocket.send", true) => call.send_socket(gil, &message),
        ("websocket.close", true) => call.close_socket(gil, &message),
        ("websocket.http.response.start", true) => call.start_response(gil, &message).map(done),
        ("websocket.http.response.body", true) => call.send_body(gil, &message),
        (other, _) => {
            let text = format!("a message of the type '{other}' cannot be sent here");
            Err(gil.raise(Class::Value, &text))
        }
    }
}
