//! The traits that all interfaces implement to answer requests.
//!
//! ```text
//! configuration -> Interface (shared by all cores) -> Handler (one a core, nothing shared) -> Handled
//! ```
//!
//! A handler's future runs on its core and is dropped when the client disconnects. Everything that it holds
//! (a process, a connection to a program) must end or be released when it is dropped. Work that takes long
//! without waiting must run on another thread.

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

/// A boxed future that runs on one core, so it need not be `Send`.
pub type LocalBoxFuture<T> = Pin<Box<dyn Future<Output = T>>>;

/// A way to call a program, as configured.
pub trait Interface: Send + Sync {
    /// Its name, as in the configuration: `cgi`, `fastcgi`.
    fn name(&self) -> &'static str;

    /// Makes the handler of a core. Called once on each core, when its first request arrives. If
    /// [`Interface::begins_early`] returns true, it is called on the first core when the server starts.
    fn on_core(&self, server: Rc<dyn Server>) -> Rc<dyn Handler>;

    /// Whether it has work to do before the first request. Its handler is then made on the first core at
    /// once.
    fn begins_early(&self) -> bool {
        false
    }

    /// Whether it passes on escaped slashes, tabs and line ends. If not, requests with such a path are
    /// refused.
    fn takes_escapes(&self) -> bool;

    /// Whether an HTTP/1.0 request that should have a body but does not state its length is accepted as one
    /// without a body. If not, the server answers 411.
    fn takes_missing_length(&self) -> bool {
        false
    }

    /// Whether it sends a request back to the rules with its path without path parameters (`;`).
    fn judges_parameters(&self) -> bool;

    /// Whether [`Handler::answer_at_once`] may answer.
    fn answers_at_once(&self) -> bool {
        false
    }

    /// Whether its programs may be called on a thread that holds connections and can wait for the program.
    fn is_called(&self) -> bool {
        false
    }

    /// Makes the caller of its programs for such a thread. Called once on each thread, when its first request
    /// arrives there.
    fn caller(&self, _connection_return: Arc<dyn ConnectionReturn>) -> Option<Box<dyn Caller>> {
        None
    }
}

/// An interface around another one, whose properties it has. Its handlers answer no request at once.
pub trait InterfaceLayer: Send + Sync {
    /// The other interface.
    fn inner(&self) -> &dyn Interface;

    /// Makes the handler of a core around that of the other interface.
    fn around(&self, inner: Rc<dyn Handler>, server: Rc<dyn Server>) -> Rc<dyn Handler>;
}

impl<L: InterfaceLayer> Interface for L {
    fn name(&self) -> &'static str {
        self.inner().name()
    }

    fn on_core(&self, server: Rc<dyn Server>) -> Rc<dyn Handler> {
        self.around(self.inner().on_core(server.clone()), server)
    }

    fn begins_early(&self) -> bool {
        self.inner().begins_early()
    }

    fn takes_escapes(&self) -> bool {
        self.inner().takes_escapes()
    }

    fn takes_missing_length(&self) -> bool {
        self.inner().takes_missing_length()
    }

    fn judges_parameters(&self) -> bool {
        self.inner().judges_parameters()
    }
}

/// Calls programs on a thread that holds connections. The thread receives, calls and sends, so no data is
/// passed from one thread to another. If a call takes long, the connections continue elsewhere, see
/// [`ConnectionReturn`].
pub trait Caller {
    /// Whether the program may be called for this request: it is ready, and its calls are known to be short.
    fn takes(&mut self, request: &PlainGet<'_>) -> bool;

    /// Calls it.
    fn call(&mut self, request: &PlainGet<'_>) -> CallResult;

    /// The body of the answer to the last call, if that was [`CallResult::Written`].
    fn body(&self) -> &[u8];

    /// The same body with `head` in front of it. If there is room for the head, both are in one piece and the
    /// other piece is empty.
    fn with_head<'a>(&'a mut self, head: &'a [u8]) -> [&'a [u8]; 2];
}

/// The result of a call.
pub enum CallResult {
    /// The answer.
    Answer(Answer),
    /// The answer without its body, which remains where the program has written it, see [`Caller::body`].
    Written(Answer),
    /// The connection was returned to its core by [`ConnectionReturn`], and gets the answer there.
    ConnectionReturned,
}

/// Returns connections from a thread for calls to their core.
pub trait ConnectionReturn: Send + Sync {
    /// Called when the current call takes long or sends an interim response. The connection of the call
    /// returns to its core, where [`Handler::await_call`] gets `call`. All other connections of the thread
    /// return too. This may be called at most once during a call.
    fn return_connection(&self, call: CallUnderWay);
}

/// A running call. The value identifies it for the interface.
pub type CallUnderWay = Box<dyn Any + Send>;

/// Answers requests on one core.
pub trait Handler {
    /// Answers a request. Dropping the future, or the body of its answer, ends the request.
    fn handle(self: Rc<Self>, request: Request) -> LocalBoxFuture<Handled>;

    /// Answers a request directly from the connection's buffer, or begins to, before a [`Request`] is made of
    /// it. `body` is an empty buffer of the core for the body of [`ImmediateAnswer::Written`], which saves an
    /// allocation.
    fn answer_at_once(self: Rc<Self>, _request: &PlainGet<'_>, _body: &mut Vec<u8>) -> ImmediateAnswer {
        ImmediateAnswer::Handle
    }

    /// Waits for the answer to a GET that a [`Caller`] of the same interface has passed to the program.
    /// `interim` takes interim responses.
    fn await_call(
        self: Rc<Self>,
        _call: CallUnderWay,
        _interim: Rc<dyn TakesInterim>,
    ) -> LocalBoxFuture<Answer> {
        Box::pin(async { Answer::error(500) })
    }
}

/// The result of [`Handler::answer_at_once`].
pub enum ImmediateAnswer {
    /// The answer.
    Answer(Answer),
    /// The answer without its body. The whole body is in the buffer that was passed.
    Written(Answer),
    /// A program has the request; the server must wait for the answer.
    Pending(Box<dyn PendingCall>),
    /// The request cannot be answered this way: it must be passed to [`Handler::handle`].
    Handle,
}

/// A call that [`Handler::answer_at_once`] has started. Dropping it ends the request.
pub trait PendingCall {
    /// How long to wait for the answer before the request [continues](PendingCall::continue_request), which
    /// may end it.
    fn limit(&self) -> Duration;

    /// Ready after a call of `give` with the complete answer: the answer without its body, and the body in
    /// the receive buffer. Ready without a call of `give`: the answer is of another kind, or there will be
    /// none, and the request must continue in the usual way.
    fn poll_answer(&mut self, context: &mut Context<'_>, give: &mut dyn FnMut(Answer, &[u8])) -> Poll<()>;

    /// Continues with the request for which the call was started.
    fn continue_request(self: Box<Self>, request: Request) -> LocalBoxFuture<Handled>;
}

/// The result of [`Handler::handle`].
pub enum Handled {
    /// The answer.
    Answer(Answer),
    /// The request must be answered like a request for this path (RFC 3875 section 6.2.2): with GET, without
    /// a body, and with the same user. A request that is redirected in a circle gets 500.
    LocalRedirect {
        /// Path and query.
        target: Vec<u8>,
    },
    /// The request must be routed again. Its path has changed to the one that the program would receive, and
    /// the rules for that path must apply. Its body must not have been read.
    Again(Box<Request>),
    /// The request is for a file, so a handler can be placed before a tree of files. The handler returns the
    /// request, because it may have changed the path. Its body must not have been read.
    File(Box<Request>),
    /// A file or directory must be shown, for a handler that finds files itself.
    OnDisk(Box<FileAnswer>),
}

/// A file or directory that the server must show.
pub struct FileAnswer {
    /// The request. Its body must not have been read.
    pub request: Request,
    /// The file or directory.
    pub path: PathBuf,
    /// How it is shown.
    pub show: Show,
    /// Field lines that are added to the answer, each with its CRLF.
    pub fields: Vec<u8>,
}

/// How a file or directory is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// As a page with directives, whatever its name is.
    Page,
    /// As a list of the directory's files.
    Listing,
}

/// The functions of the server that a handler may call, on its core.
pub trait Server {
    /// The current second, for the Date of an answer.
    fn date(&self) -> touchstone_files::cache::DateSecond;

    /// Writes a line for the operator to the log. `what` is a few words without figures; lines with the same
    /// `what` share one rate limit. `message` must not hold a secret.
    fn log(&self, level: Level, what: &'static str, message: &str);

    /// Reports a failure of `name`, such as `origin http://a`, each time that it fails. The log shows the
    /// first failure at once, and then once a minute the number of failures, until [`Server::log_recovered`].
    fn log_failing(&self, name: &str, reason: &str);

    /// Reports that `name` works again. Returns true if the log states it, because a failure had been
    /// reported.
    fn log_recovered(&self, name: &str) -> bool;

    /// Answers a request that the server itself makes, such as for a page's inclusion, through routes and
    /// access rules. Its depth must be one more than that of the request for which it is made.
    fn answer(&self, request: Request) -> LocalBoxFuture<Answer>;

    /// The number of the core, from 0.
    fn core(&self) -> usize;

    /// Whether a request like this one, with another method and path, matches the same route, so that the
    /// same rules apply to it. `path` is in its normal form.
    fn matches_same_route(&self, _request: &Request, _method: &[u8], _path: &[u8]) -> bool {
        true
    }

    /// Drops what is cached of files that have changed on the disk: all files whose path contains one of
    /// `names`.
    fn forget_files(&self, _names: &[&[u8]]) {}
}

/// The level of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The server cannot do its work.
    Error,
    /// A request or program has failed.
    Warning,
    /// A normal event.
    Information,
    /// Details for finding a fault.
    Debug,
}

/// Handlers that make small pieces of a body collect them up to about this size before they send them.
pub const PIECE_BYTES: usize = 16 * 1024;
