//! What answers requests: the one trait of all interfaces.
//!
//! ```text
//! configuration -> Interface (shared by all cores) -> Handler (one a core, nothing shared) -> Handled
//! ```
//!
//! A handler's future runs on its core and is dropped when the client leaves: whatever it holds (a process, a
//! connection to a program) must end or be given back by being dropped. What takes long without waiting
//! belongs on a thread of its own.

use std::any::Any;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::answer::Answer;
use crate::interim::TakesInterim;
use crate::request::{PlainGet, Request};

/// The future of something that happens on one core.
pub type OnCore<T> = Pin<Box<dyn Future<Output = T>>>;

/// A way to call a program, as a configuration has it.
pub trait Interface: Send + Sync {
    /// Its name, as in the configuration: `cgi`, `fastcgi`.
    fn name(&self) -> &'static str;

    /// Makes the handler of a core. Called once on each core, when the first request for it comes; on the
    /// first core before that, where [`Interface::begins_early`] says so.
    fn on_core(&self, server: Rc<dyn Server>) -> Rc<dyn Handler>;

    /// Whether it has something to do before the first request comes: its handler is made on the first core
    /// at once then.
    fn begins_early(&self) -> bool {
        false
    }

    /// Whether it passes escaped slashes, tabs and line ends on; requests with such a path are refused
    /// otherwise.
    fn takes_escapes(&self) -> bool;

    /// Whether it takes requests of HTTP/1.0 that should have a body and do not say how long it is, as ones
    /// without a body; they get 411 otherwise.
    fn takes_missing_length(&self) -> bool {
        false
    }

    /// Whether it sends a request back to the rules with the path that is left without path parameters (`;`).
    fn judges_parameters(&self) -> bool;

    /// Whether [`Handler::answer_at_once`] is worth being asked.
    fn answers_at_once(&self) -> bool {
        false
    }

    /// Whether its programs may be called on a thread that has connections and may wait for the program.
    fn is_called(&self) -> bool {
        false
    }

    /// What calls its programs on such a thread. Called once on each, when the first request for it comes
    /// there.
    fn caller(&self, _way_back: Arc<dyn WayBack>) -> Option<Box<dyn Caller>> {
        None
    }
}

/// Calls programs on a thread that has connections: it receives, calls and sends, so that nothing is handed
/// from thread to thread. A call may take long; then the connections go on elsewhere, see [`WayBack`].
pub trait Caller {
    /// Whether the program may be called for this request: it is ready, and its calls are known to be short.
    fn takes(&mut self, request: &PlainGet<'_>) -> bool;

    /// Calls it.
    fn call(&mut self, request: &PlainGet<'_>) -> Called;

    /// The body of the answer to the last call, where that was [`Called::Written`].
    fn body(&self) -> &[u8];

    /// The same with `head` in front of it: in one piece where there is room for it, the other being empty
    /// then.
    fn with_head<'a>(&'a mut self, head: &'a [u8]) -> [&'a [u8]; 2];
}

/// What came of a call.
pub enum Called {
    /// This is the answer.
    Answer(Answer),
    /// This is the answer, without its body: that is where the program has written it, see [`Caller::body`].
    Written(Answer),
    /// The connection has taken its [`WayBack`] meanwhile, where it gets the answer.
    WentBack,
}

/// The way back of connections from a thread for calls to their core.
pub trait WayBack: Send + Sync {
    /// The call under way takes long, or has something to say before its end: its connection goes back to its
    /// core, where [`Handler::await_call`] gets `call`, and with it all others that the thread has. To be
    /// called once in a call at most.
    fn go_back(&self, call: CallUnderWay);
}

/// A call that goes on: what the interface knows it by.
pub type CallUnderWay = Box<dyn Any + Send>;

/// Answers requests on one core.
pub trait Handler {
    /// Answers a request. Dropping the future, or the body of its answer, ends what was begun.
    fn handle(self: Rc<Self>, request: Request) -> OnCore<Handled>;

    /// Answers a request where it lies, before anything is made of it that could wait, or begins to. `body`
    /// is empty memory of the core's, for the body of [`AtOnce::Written`]: what takes its memory from there
    /// need not allocate any.
    fn answer_at_once(self: Rc<Self>, _request: &PlainGet<'_>, _body: &mut Vec<u8>) -> AtOnce {
        AtOnce::Handle
    }

    /// Awaits the answer to a GET that a [`Caller`] of the same interface has given to the program. `interim`
    /// takes interim responses.
    fn await_call(self: Rc<Self>, _call: CallUnderWay, _interim: Rc<dyn TakesInterim>) -> OnCore<Answer> {
        Box::pin(async { Answer::error(500) })
    }
}

/// What a handler has made of a request where it lies.
pub enum AtOnce {
    /// The answer.
    Answer(Answer),
    /// The answer, without its body: the whole of that is in the memory that was given.
    Written(Answer),
    /// A program has the request; the answer is waited for.
    Begun(Box<dyn Begun>),
    /// It takes more than that: [`Handler::handle`] must have the request.
    Handle,
}

/// A request that was begun where it lay. Dropping it ends what was begun.
pub trait Begun {
    /// How long to wait for the answer before the request [goes on](Begun::go_on), which may end it.
    fn limit(&self) -> Duration;

    /// Ready once `give` has got the answer, all of which is there: without its body, and that, from where it
    /// was received. Ready without that: the answer is of another kind, or none will come, and the request
    /// must go on in the usual way.
    fn poll_answer(&mut self, context: &mut Context<'_>, give: &mut dyn FnMut(Answer, &[u8])) -> Poll<()>;

    /// Goes on with the request, which is the one that was begun.
    fn go_on(self: Box<Self>, request: Request) -> OnCore<Handled>;
}

/// What came of a request.
pub enum Handled {
    /// This is the answer.
    Answer(Answer),
    /// The request is to be answered as if this path had been asked for (RFC 3875 section 6.2.2): with GET,
    /// without a body, and with this user. Whoever sends requests in circles gets 500.
    LocalRedirect {
        /// Path and query.
        target: Vec<u8>,
    },
    /// The request is to be looked up again: its path is another now, as what answers would understand it,
    /// and rules for that path must hold. Its body must not have been read.
    Again(Box<Request>),
    /// It is a request for a file after all; so a handler may stand before a tree of files. The request comes
    /// back, because its path may lead elsewhere by now. Its body must not have been read.
    File(Box<Request>),
    /// What lies at a place of the disk is to be shown, for a handler that finds files in ways of its own.
    OnDisk(Box<OnDisk>),
}

/// Something on the disk that the server is to show.
pub struct OnDisk {
    /// The request. Its body must not have been read.
    pub request: Request,
    /// The file or directory.
    pub path: PathBuf,
    /// As what.
    pub show: Show,
    /// Field lines that the answer gets besides, each with its CRLF.
    pub fields: Vec<u8>,
}

/// As what something on the disk is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// A page with directives, whatever it is called.
    Page,
    /// The list of a directory's files.
    Listing,
}

/// What a handler may ask of the server, on its core.
pub trait Server {
    /// The second that an answer may say it was made in.
    fn date(&self) -> touchstone_files::cache::DateSecond;

    /// Notes what an operator should know. `what` is few words without figures: lines that begin alike are
    /// limited together. `message` must hold no secret.
    fn log(&self, level: Level, what: &'static str, message: &str);

    /// Notes that something fails, such as `origin http://a`, each time that it does: the log says so at
    /// once, and then once a minute with how many times it was, until [`Server::log_recovered`].
    fn log_failing(&self, name: &str, reason: &str);

    /// Notes that it is well again; true where the log says so, because it had said that it fails.
    fn log_recovered(&self, name: &str) -> bool;

    /// Answers a request of the server's own, through routes and access rules: for what a page includes. The
    /// depth must be one more than that of the request for whose sake it is made.
    fn answer(&self, request: Request) -> OnCore<Answer>;

    /// The number of the core, from 0.
    fn core(&self) -> usize;
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The server cannot do its work.
    Error,
    /// A request or program went wrong.
    Warning,
    /// Something that happens.
    Information,
    /// For who looks for a fault.
    Debug,
}

/// Whether a piece of a body is worth sending at once or may wait for more: handlers that make small pieces
/// gather them up to about this size.
pub const PIECE_BYTES: usize = 16 * 1024;
