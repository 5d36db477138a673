//! Answers requests through programs that get the variables of CGI: the handler of FastCGI and SCGI.
//!
//! ```text
//! path -> script -> variables and body -> a backend, a connection -> exchange -> head -> body, as it comes
//! ```
//!
//! Here is the way up to the call; what follows is the [`Caller`]'s.

use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use touchstone_http::request::Method;

use super::caller::{About, Call, CallRules, Caller, is_idempotent, unavailable};
use super::group::{Group, SharedGroup};
use super::protocol::ProgramProtocol;
use super::script::{Script, Target};
use super::settings::{Paths, Settings};
use super::upload::Upload;
use super::variables::ProgramVariables;
use crate::answer::Answer;
use crate::handler::{Handled, Handler, Interface, Level, OnCore, Server};
use crate::request::Request;

/// Programs that listen, as a configuration has them.
pub struct Programs<P> {
    group: Arc<SharedGroup>,
    settings: Arc<Settings>,
    protocol: PhantomData<fn() -> P>,
}

impl<P: ProgramProtocol> Programs<P> {
    /// The programs of these settings.
    pub fn new(settings: Settings) -> Programs<P> {
        let group = SharedGroup::new(settings.group.clone());
        Programs { group, settings: Arc::new(settings), protocol: PhantomData }
    }
}

impl<P: ProgramProtocol> Interface for Programs<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn on_core(&self, server: Rc<dyn Server>) -> Rc<dyn Handler> {
        let settings = self.settings.clone();
        let group = Group::new(self.group.clone(), P::NAME, server.clone());
        let rules = CallRules {
            times: settings.times,
            header: settings.header,
            send_files_from: settings.send_files_from.clone(),
        };
        Rc::new(Gateway::<P> { caller: Caller::new(group, server.clone(), rules), settings, server })
    }
}

/// The handler of one core.
struct Gateway<P> {
    caller: Caller<P>,
    settings: Arc<Settings>,
    server: Rc<dyn Server>,
}

impl<P: ProgramProtocol> Handler for Gateway<P> {
    fn handle(self: Rc<Self>, request: Request) -> OnCore<Handled> {
        Box::pin(async move { self.answer(request).await })
    }
}

impl<P: ProgramProtocol> Gateway<P> {
    async fn answer(&self, mut request: Request) -> Handled {
        let settings = &*self.settings;
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
            let message = format!("{} is not running: {problem}", settings.group.backends[0].address);
            self.server.log(Level::Warning, "pool not running", &message);
            return Handled::Answer(unavailable());
        }
        let body = request.take_body();
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
        let variables = ProgramVariables::new(&request, &script, settings, upload.length());
        let head = match P::request_head(&variables, settings.group.connections.keep) {
            Ok(head) => Bytes::from(head),
            Err(error) => {
                self.server.log(Level::Warning, "request refused", &error.to_string());
                return Handled::Answer(Answer::error(400));
            }
        };
        let call = Call {
            head: Box::new(move |_| head.clone()),
            decoder: P::Decoder::default(),
            owner: None,
            is_head: request.method() == Method::Head,
            is_idempotent: is_idempotent(request.received.method_text()),
            about: About::of(&request),
        };
        drop(request);
        self.caller.call(call, upload).await
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
