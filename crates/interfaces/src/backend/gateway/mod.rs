//! Answers requests through programs that get CGI variables: the handler of FastCGI, SCGI and uwsgi.
//!
//! ```text
//! path -> script -> variables and body -> a backend, a connection -> exchange -> head -> body, as it arrives
//! ```
//!
//! This module does the steps up to the call; the [`Caller`] does the rest. A plain GET can take a shorter
//! way: see [`pending_call`].

mod pending_call;

use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use touchstone_handler::answer::Answer;
use touchstone_handler::handler::{
    Handled, Handler, ImmediateAnswer, Interface, Level, LocalBoxFuture, Server,
};
use touchstone_handler::request::{PlainGet, Request};
use touchstone_http::request::Method;

use super::caller::{Call, CallRules, Caller, unavailable};
use super::group::{Backends, Group, SharedGroup};
use super::log_name::RequestLogName;
use super::protocol::ProgramProtocol;
use super::script::{Script, Target};
use super::settings::{Paths, Settings};
use super::upload::Upload;
use super::variables::ProgramVariables;
use pending_call::{PendingGet, Scratch};

/// Programs that listen, as configured.
pub struct Programs<P> {
    group: Arc<SharedGroup>,
    settings: Arc<Settings>,
    protocol: PhantomData<fn() -> P>,
}

impl<P: ProgramProtocol> Programs<P> {
    /// The programs of these settings, among the backends of a server.
    pub fn new(settings: Settings, backends: &Backends) -> Programs<P> {
        let group = SharedGroup::new(settings.group.clone(), backends);
        Programs { group, settings: Arc::new(settings), protocol: PhantomData }
    }
}

impl<P: ProgramProtocol> Interface for Programs<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn takes_escapes(&self) -> bool {
        false
    }

    fn judges_parameters(&self) -> bool {
        false
    }

    fn on_core(&self, server: Rc<dyn Server>) -> Rc<dyn Handler> {
        let settings = self.settings.clone();
        let group = Group::new(self.group.clone(), P::NAME, server.clone());
        let rules = CallRules {
            times: settings.times,
            header: settings.header,
            send_files_from: settings.send_files_from.clone(),
        };
        let caller = Caller::new(group.clone(), server.clone(), rules);
        Rc::new(Gateway::<P> { caller, group, settings, server, scratch: RefCell::default() })
    }

    fn answers_at_once(&self) -> bool {
        // A connection that was idle may need a ping first.
        let rules = &self.settings.group;
        P::ANSWERS_IN_ONE_PIECE && rules.connections.keep && rules.ping.is_none()
    }
}

/// The handler of one core.
pub struct Gateway<P> {
    caller: Caller<P>,
    /// The backends, shared with the caller.
    pub group: Rc<Group>,
    /// The settings.
    pub settings: Arc<Settings>,
    server: Rc<dyn Server>,
    /// Memory for requests that are sent at once.
    pub scratch: RefCell<Scratch>,
}

impl<P: ProgramProtocol> Handler for Gateway<P> {
    fn handle(self: Rc<Self>, request: Request) -> LocalBoxFuture<Handled> {
        Box::pin(async move { self.answer(request).await })
    }

    fn answer_at_once(self: Rc<Self>, request: &PlainGet<'_>, _body: &mut Vec<u8>) -> ImmediateAnswer {
        match PendingGet::begin(self, request) {
            Some(pending_get) => ImmediateAnswer::Pending(Box::new(pending_get)),
            None => ImmediateAnswer::Handle,
        }
    }
}

impl<P: ProgramProtocol> Gateway<P> {
    /// The script for a path; the error states how to answer instead.
    pub fn script<'p>(&'p self, path: &'p [u8]) -> Result<Script<'p>, NoScript> {
        let status = match &self.settings.paths {
            Paths::Application { script_name } => return Ok(application(script_name, path)),
            Paths::Scripts(rules) => match rules.find(path) {
                Target::Script(script) => return Ok(script),
                Target::File => return Err(NoScript::File),
                Target::NotFound => 404,
                Target::Forbidden => 403,
                Target::Busy => 503,
            },
        };
        Err(NoScript::Status(status))
    }

    async fn answer(&self, mut request: Request) -> Handled {
        let settings = &*self.settings;
        let path = request.path.clone();
        let script = match self.script(&path) {
            Ok(script) => script,
            Err(problem) => return problem.handled(request),
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
                let message = format!("a request's body broke off: {error}");
                self.server.log(Level::Debug, "request body", &message);
                return Handled::Answer(Answer::error(400));
            }
        };
        match self.call_of(&request, &script, upload.length()) {
            Ok(call) => {
                drop(request);
                self.caller.call(call, upload).await
            }
            Err(answer) => Handled::Answer(answer),
        }
    }

    /// Continues a request that [`pending_call`] has started.
    pub async fn continue_request(&self, pending_get: PendingGet<P>, request: Request) -> Handled {
        let script = match self.script(&request.path) {
            Ok(script) => script,
            // The script was deleted since.
            Err(problem) => return problem.handled(request.without_body()),
        };
        match self.call_of(&request, &script, 0) {
            Ok(call) => {
                let (guard, backend_call) = pending_get.into_backend_call();
                self.caller.continue_request(call, guard, backend_call).await
            }
            Err(answer) => Handled::Answer(answer),
        }
    }

    /// The parts of a request that every attempt needs; the error is the answer.
    fn call_of(&self, request: &Request, script: &Script<'_>, body_bytes: u64) -> Result<Call<P>, Answer> {
        let variables = ProgramVariables::new(request, script, &self.settings, body_bytes);
        let variables = variables.ok_or_else(|| Answer::error(400))?;
        let head = P::request_head(&variables, self.settings.group.connections.keep, Vec::new());
        let head = head.map(Bytes::from).map_err(|error| {
            self.server.log(Level::Warning, "request refused", &error.to_string());
            Answer::error(400)
        })?;
        Ok(Call {
            head: Box::new(move |_| head.clone()),
            decoder: P::Decoder::default(),
            owner: None,
            is_head: request.method() == Method::Head,
            is_idempotent: request.method().is_idempotent(),
            log_name: RequestLogName::of(request),
            interim: request.interim.clone(),
        })
    }
}

/// How to answer a request that is for no script.
pub enum NoScript {
    /// It is for a file.
    File,
    /// It gets this status.
    Status(u16),
}

impl NoScript {
    fn handled(self, request: Request) -> Handled {
        match self {
            NoScript::File => Handled::File(Box::new(request)),
            NoScript::Status(status) => Handled::Answer(Answer::error(status)),
        }
    }
}

/// The script if one program gets all paths.
fn application<'p>(script_name: &'p [u8], path: &'p [u8]) -> Script<'p> {
    match path.strip_prefix(script_name) {
        Some(rest) if rest.is_empty() || rest.starts_with(b"/") => {
            Script { name: script_name.into(), path_info: rest, query: None }
        }
        _ => Script { name: (&[][..]).into(), path_info: path, query: None },
    }
}
