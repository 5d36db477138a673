//! Answers requests through programs that listen: the handler of FastCGI and SCGI.
//!
//! ```text
//! path -> script -> variables and body -> a backend, a connection -> exchange -> head -> body, as it comes
//! ```
//!
//! What a program does wrong becomes 502, what it does too slowly 504, and 503 where there is no room for a request; the
//! error log says why. A request is tried again only where that cannot do anything twice: where nothing of it was taken,
//! or its method is idempotent (RFC 9110 section 9.2.2), and its body can be sent again.

use std::future::poll_fn;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use touchstone_http::request::Method;

use super::connections::{Connection, NoConnection};
use super::exchange::{Exchange, Failure, FailureKind};
use super::group::{Busy, Group, SharedGroup};
use super::protocol::{Output, Protocol};
use super::respond::{self, Body};
use super::script::{Script, Target};
use super::settings::{Paths, Settings};
use super::upload::Upload;
use super::variables::variables_of;
use crate::answer::Answer;
use crate::cgi_response::{DocumentHead, ProgramResponse, ResponseParser};
use crate::handler::{Handled, Handler, Interface, Level, OnCore, Server};
use crate::pipe::{Sender, pipe};
use crate::request::{ReceivedHead, Request};

/// What comes at once up to this is one answer; of a longer one this much waits for the client.
const GATHERED_BYTES: usize = 64 * 1024;

/// The longest line of a program's messages that is logged.
const LONGEST_MESSAGE_BYTES: usize = 2048;

/// Programs that listen, as a configuration has them.
pub struct Programs<P> {
    shared: Arc<SharedGroup>,
    protocol: PhantomData<fn() -> P>,
}

impl<P: Protocol> Programs<P> {
    /// The programs of these settings.
    pub fn new(settings: Settings) -> Programs<P> {
        Programs { shared: SharedGroup::new(settings), protocol: PhantomData }
    }
}

impl<P: Protocol> Interface for Programs<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn on_core(&self, server: Rc<dyn Server>) -> Rc<dyn Handler> {
        let group = Group::new(self.shared.clone(), P::NAME, server.clone());
        Rc::new(Gateway::<P> { group, server, protocol: PhantomData })
    }
}

/// The handler of one core.
struct Gateway<P> {
    group: Rc<Group>,
    server: Rc<dyn Server>,
    protocol: PhantomData<fn() -> P>,
}

impl<P: Protocol> Handler for Gateway<P> {
    fn handle(self: Rc<Self>, request: Request) -> OnCore<Handled> {
        Box::pin(async move { self.answer(request).await })
    }
}

/// What an attempt needs of the request, and what is told of it.
struct Call {
    /// The request up to its body, for a kept connection or any.
    head: Bytes,
    is_head: bool,
    /// The method does the same when it is done twice.
    is_idempotent: bool,
    /// For log lines.
    about: About,
}

/// What came of an attempt.
enum Attempt<P: Protocol> {
    /// A head of an answer.
    Begun {
        response: ProgramResponse,
        rest: Bytes,
        exchange: Box<Exchange<P>>,
    },
    Failed(Failed),
}

struct Failed {
    status: u16,
    reason: String,
    /// The body, where another attempt may be made: on a new connection, or by another backend.
    again: Option<Upload>,
}

impl<P: Protocol> Gateway<P> {
    async fn answer(&self, mut request: Request) -> Handled {
        let settings = self.group.settings();
        let script = match &settings.paths {
            Paths::Application { script_name } => application(script_name, &request.path),
            Paths::Scripts(rules) => match rules.find(&request.path) {
                Target::Script(script) => script,
                Target::File => return Handled::File(Box::new(request)),
                Target::NotFound => return Handled::Answer(Answer::error(404)),
                Target::Forbidden => return Handled::Answer(Answer::error(403)),
                Target::Busy => return Handled::Answer(Answer::error(503)),
            },
        };
        if let Some(problem) = settings.pool.as_ref().and_then(|pool| pool.problem()) {
            let message = format!("{} is not running: {problem}", settings.backends[0].address);
            self.server.log(Level::Warning, "pool not running", &message);
            return Handled::Answer(unavailable());
        }
        let body = std::mem::replace(&mut request.body, crate::pipe::Receiver::of(Bytes::new()));
        let upload = match Upload::new(body, request.body_length()).await {
            Ok(upload) => upload,
            Err(error) => {
                self.server.log(
                    Level::Debug,
                    "request body",
                    &format!("a request's body broke off: {error}"),
                );
                return Handled::Answer(Answer::error(400));
            }
        };
        let variables = match variables_of(&request, &script, settings, upload.length()) {
            Ok(variables) => variables,
            Err(error) => {
                self.server.log(Level::Warning, "request refused", &error.to_string());
                return Handled::Answer(Answer::error(400));
            }
        };
        let call = Call {
            head: P::request_head(&variables, upload.length(), settings.connections.keep).into(),
            is_head: request.method() == Method::Head,
            is_idempotent: is_idempotent(request.received.method_text()),
            about: About {
                received: request.received.clone(),
                path: request.path_as_sent.clone(),
                id: request.id.clone(),
            },
        };
        drop(request);
        self.call(call, upload).await
    }

    /// Tries one backend after the other.
    async fn call(&self, call: Call, mut upload: Upload) -> Handled {
        let mut tried = Vec::new();
        let mut last = None;
        while let Some(index) = self.group.choose(&tried) {
            let busy = self.group.begin(index);
            match self.try_backend(index, &call, upload).await {
                Attempt::Begun { response, rest, exchange } => {
                    self.group.succeeded(index);
                    return self.respond(index, busy, call, response, rest, exchange).await;
                }
                Attempt::Failed(failed) => {
                    let address = self.group.connections(index).address();
                    let message = format!("{} {address}: {} ({})", P::NAME, failed.reason, call.about);
                    self.server.log(Level::Warning, "program failed", &message);
                    last = Some(failed.status);
                    match failed.again {
                        Some(again) if self.group.len() > 1 => upload = again,
                        _ => break,
                    }
                }
            }
            upload.rewind();
            tried.push(index);
        }
        match last {
            Some(503) | None => Handled::Answer(unavailable()),
            Some(status) => Handled::Answer(Answer::error(status)),
        }
    }

    /// Tries a kept connection, and a new one where that had ended meanwhile.
    async fn try_backend(&self, index: usize, call: &Call, upload: Upload) -> Attempt<P> {
        let connections = self.group.connections(index);
        let mut upload = upload;
        if let Some(connection) = connections.take_kept() {
            match self.attempt(index, call, connection, upload, true).await {
                Attempt::Failed(Failed { again: Some(again), status: 502, .. }) => upload = again,
                other => return other,
            }
            upload.rewind();
        }
        match connections.open().await {
            Ok((connection, is_kept)) => self.attempt(index, call, connection, upload, is_kept).await,
            Err(problem) => {
                let (status, reason) = match problem {
                    NoConnection::Unreachable(error) => {
                        self.group.failed(index);
                        (502, format!("cannot connect: {error}"))
                    }
                    NoConnection::Full => {
                        (503, "all connections are in use, and too many requests wait".to_string())
                    }
                    NoConnection::WaitedTooLong => (503, "no connection was free for too long".to_string()),
                };
                Attempt::Failed(Failed { status, reason, again: Some(upload) })
            }
        }
    }

    /// One request on one connection, up to the head of the answer.
    async fn attempt(
        &self,
        index: usize,
        call: &Call,
        connection: Connection,
        upload: Upload,
        is_kept: bool,
    ) -> Attempt<P> {
        let settings = self.group.settings();
        let mut exchange =
            Box::new(Exchange::<P>::new(connection, call.head.clone(), upload, settings.times));
        let mut parser = ResponseParser::new(settings.header);
        loop {
            let (status, reason) = match exchange.next().await {
                Ok(Output::Answer(bytes)) => match parser.feed(&bytes) {
                    Ok(None) => continue,
                    Ok(Some((response, end))) => {
                        let rest = bytes.slice(end..);
                        return Attempt::Begun { response, rest, exchange };
                    }
                    Err(error) => (502, error.to_string()),
                },
                Ok(Output::Message(bytes)) => {
                    self.log_message(index, call, &bytes);
                    continue;
                }
                Ok(Output::End { status, .. }) => {
                    let returned =
                        if status == 0 { String::new() } else { format!(" and returned {status}") };
                    (502, format!("{}{returned}", parser.ended()))
                }
                Ok(Output::Overloaded) => {
                    let upload = exchange.into_upload();
                    let again = upload.is_repeatable().then_some(upload);
                    let reason = "it says that it is overloaded".to_string();
                    return Attempt::Failed(Failed { status: 503, reason, again });
                }
                Err(failure) => return self.failed(index, call, exchange, &failure, is_kept),
            };
            return Attempt::Failed(Failed { status, reason, again: None });
        }
    }

    fn failed(
        &self,
        index: usize,
        call: &Call,
        exchange: Box<Exchange<P>>,
        failure: &Failure,
        is_kept: bool,
    ) -> Attempt<P> {
        let status = match failure.kind {
            FailureKind::Closed | FailureKind::WrongBytes => 502,
            FailureKind::TimedOut => 504,
            FailureKind::Client => 400,
        };
        // A kept connection may have ended by itself, which says nothing of the backend.
        if !is_kept && failure.kind != FailureKind::Client {
            self.group.failed(index);
        }
        let may_repeat = failure.kind == FailureKind::Closed
            && (exchange.is_untouched() || call.is_idempotent && exchange.is_unheard());
        let upload = exchange.into_upload();
        let again = (may_repeat && upload.is_repeatable()).then_some(upload);
        Attempt::Failed(Failed { status, reason: failure.reason.clone(), again })
    }

    /// Makes the answer of a head; its body follows as it comes.
    async fn respond(
        &self,
        index: usize,
        busy: Busy<'_>,
        call: Call,
        response: ProgramResponse,
        rest: Bytes,
        mut exchange: Box<Exchange<P>>,
    ) -> Handled {
        let mut head = match response {
            ProgramResponse::Document(head) => head,
            ProgramResponse::LocalRedirect(target) => {
                self.gather(index, &call, &mut exchange, &mut Vec::new()).await;
                return Handled::LocalRedirect { target };
            }
        };
        let mut pieces = Vec::from([rest]);
        let gathered = self.gather(index, &call, &mut exchange, &mut pieces).await;
        if let Some(root) = &self.group.settings().send_files_from
            && let Some(file) = respond::named_file(&mut head, root)
        {
            if let Gathered::Complete { keeps } = gathered {
                self.give_back(index, exchange, keeps);
            }
            return Handled::Answer(respond::send_file(
                &self.server,
                head,
                root,
                &file,
                &call.about.to_string(),
            ));
        }
        match gathered {
            Gathered::Complete { keeps } => {
                self.give_back(index, exchange, keeps);
                Handled::Answer(self.complete(index, &call, head, pieces))
            }
            Gathered::Broken(reason) => {
                let address = self.group.connections(index).address();
                let message = format!("{} {address}: {reason} ({})", P::NAME, call.about);
                self.server.log(Level::Warning, "program failed", &message);
                Handled::Answer(Answer::error(502))
            }
            Gathered::More => {
                drop(busy);
                let (mut sender, receiver) = pipe(GATHERED_BYTES);
                pieces.into_iter().for_each(|piece| sender.push(piece));
                let length = head.content_length;
                let pump = Pump::<P> {
                    group: self.group.clone(),
                    server: self.server.clone(),
                    index,
                    about: call.about,
                    exchange,
                };
                tokio::task::spawn_local(pump.run(sender));
                Handled::Answer(respond::answer(head, call.is_head, Body::Stream { receiver, length }))
            }
        }
    }

    /// Takes what comes without waiting.
    async fn gather(
        &self,
        index: usize,
        call: &Call,
        exchange: &mut Exchange<P>,
        pieces: &mut Vec<Bytes>,
    ) -> Gathered {
        let mut bytes: usize = pieces.iter().map(Bytes::len).sum();
        while bytes < GATHERED_BYTES {
            match exchange.next_now().await {
                None => break,
                Some(Ok(Output::Answer(piece))) => {
                    bytes += piece.len();
                    pieces.push(piece);
                }
                Some(Ok(Output::Message(message))) => self.log_message(index, call, &message),
                Some(Ok(Output::End { keeps, .. })) => return Gathered::Complete { keeps },
                Some(Ok(Output::Overloaded)) => {
                    return Gathered::Broken("it gave up within the answer".to_string());
                }
                Some(Err(failure)) => return Gathered::Broken(failure.reason),
            }
        }
        Gathered::More
    }

    /// An answer that is there as a whole.
    fn complete(&self, index: usize, call: &Call, head: DocumentHead, mut pieces: Vec<Bytes>) -> Answer {
        let mut body = match pieces.len() {
            1 => pieces.swap_remove(0),
            _ => pieces.concat().into(),
        };
        if let Some(length) = head.content_length
            && !call.is_head
            && head.status != 304
        {
            let promised = usize::try_from(length).unwrap_or(usize::MAX);
            if body.len() != promised {
                let message = format!(
                    "{} {}: it said {promised} bytes and sent {} ({})",
                    P::NAME,
                    self.group.connections(index).address(),
                    body.len(),
                    call.about
                );
                self.server.log(Level::Warning, "wrong Content-Length", &message);
                if body.len() < promised {
                    return Answer::error(502);
                }
                body.truncate(promised);
            }
        }
        respond::answer(head, call.is_head, Body::Whole(body))
    }

    fn give_back(&self, index: usize, exchange: Box<Exchange<P>>, keeps: bool) {
        if keeps && exchange.is_all_sent() {
            self.group.connections(index).give_back(exchange.into_connection());
        }
    }

    fn log_message(&self, index: usize, call: &Call, bytes: &[u8]) {
        log_message::<P>(&*self.server, &self.group, index, &call.about, bytes);
    }
}

enum Gathered {
    /// To the end.
    Complete {
        /// The connection may serve another request.
        keeps: bool,
    },
    /// More will come.
    More,
    Broken(String),
}

/// Brings the rest of a body to the client.
struct Pump<P: Protocol> {
    group: Rc<Group>,
    server: Rc<dyn Server>,
    index: usize,
    about: About,
    exchange: Box<Exchange<P>>,
}

impl<P: Protocol> Pump<P> {
    async fn run(mut self, mut sender: Sender) {
        // The request counts as under way up to here.
        let group = self.group.clone();
        let _busy = group.begin(self.index);
        loop {
            // The client sets the pace: nothing is received while it has enough to take. It may send meanwhile.
            let room = poll_fn(|context| match self.exchange.poll_upload(context) {
                Ok(()) => sender.poll_ready(context).map_err(|_| None),
                Err(failure) => Poll::Ready(Err(Some(failure))),
            });
            match room.await {
                Ok(()) => {}
                Err(None) => return,
                Err(Some(failure)) => return sender.fail(std::io::Error::other(failure.reason)),
            }
            let output = tokio::select! {
                biased;
                output = self.exchange.next() => output,
                () = sender.gone() => return,
            };
            let reason = match output {
                Ok(Output::Answer(piece)) => {
                    sender.push(piece);
                    continue;
                }
                Ok(Output::Message(bytes)) => {
                    log_message::<P>(&*self.server, &self.group, self.index, &self.about, &bytes);
                    continue;
                }
                Ok(Output::End { keeps, .. }) => {
                    if keeps && self.exchange.is_all_sent() {
                        self.group.connections(self.index).give_back(self.exchange.into_connection());
                    }
                    sender.finish();
                    return;
                }
                Ok(Output::Overloaded) => "it gave up within the answer".to_string(),
                Err(failure) => failure.reason,
            };
            let address = self.group.connections(self.index).address();
            let message = format!("{} {address}: {reason} ({})", P::NAME, self.about);
            self.server.log(Level::Warning, "program failed", &message);
            sender.fail(std::io::Error::other(reason));
            return;
        }
    }
}

fn log_message<P: Protocol>(server: &dyn Server, group: &Group, index: usize, about: &About, bytes: &[u8]) {
    let address = group.connections(index).address();
    for line in bytes.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
        let text = String::from_utf8_lossy(&line[..line.len().min(LONGEST_MESSAGE_BYTES)]);
        let message = format!("{} {address} says: {} ({about})", P::NAME, text.trim_end());
        server.log(Level::Warning, "program message", &message);
    }
}

/// One program has all paths.
fn application(script_name: &[u8], path: &[u8]) -> Script {
    match path.strip_prefix(script_name) {
        Some(rest) if rest.is_empty() || rest.starts_with(b"/") => {
            Script { name: script_name.to_vec(), path_info: rest.to_vec() }
        }
        _ => Script { name: Vec::new(), path_info: path.to_vec() },
    }
}

/// RFC 9110 section 9.2.2.
fn is_idempotent(method: &[u8]) -> bool {
    [&b"GET"[..], b"HEAD", b"OPTIONS", b"TRACE", b"PUT", b"DELETE"].contains(&method)
}

/// A request as log lines name it: `GET /a [id]`. It is written out only where there is something to log.
struct About {
    received: Rc<ReceivedHead>,
    /// Without its query, which may hold what is nobody's business.
    path: Bytes,
    id: Box<str>,
}

impl std::fmt::Display for About {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let method = String::from_utf8_lossy(self.received.method_text());
        write!(formatter, "{method} {}", String::from_utf8_lossy(&self.path))?;
        if self.id.is_empty() { Ok(()) } else { write!(formatter, " [{}]", self.id) }
    }
}

fn unavailable() -> Answer {
    Answer::error(503).field("Retry-After", "1")
}
