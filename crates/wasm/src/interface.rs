//! The interface of a route with `wasm`, and its handlers.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use tokio::sync::{mpsc, oneshot};
use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::component_counts::{self, Cause};
use touchstone_handler::handler::{Handled, Handler, Interface, Level, LocalBoxFuture, Server};
use touchstone_handler::pipe;
use touchstone_handler::request::Request;
use touchstone_handler::service_counts::ServiceCounts;
use wasmtime_wasi_http::WasiBody;

use crate::bucket::Buckets;
use crate::compiled::{self, LoadedComponent};
use crate::guest::{self, Instance, ReusableInstance};
use crate::hooks::Hooks;
use crate::incoming_body::incoming_body;
use crate::instance_run::{BufferedBody, Failure, InstanceRun, OutgoingRequests, RunParts};
use crate::output::OutputLogger;
use crate::request_head::Head;
use crate::settings::{Origin, Settings};
use crate::shared::WasmShared;
use crate::state::{self, ComputeLimit, Imports};
use crate::{message, next, ticker};

/// The most bytes of an answer that wait for the client.
const PIPE_BYTES: usize = 128 * 1024;

/// The longest answer that is sent as one piece.
const WHOLE_BYTES: usize = 64 * 1024;

/// The most instances that a core keeps for later requests.
const MOST_KEPT: usize = 64;

/// A loaded component.
pub struct Wasm {
    component: Arc<Component>,
    /// Messages of its start, which the first core logs.
    notes: Mutex<Vec<String>>,
}

/// The state of a component that all cores share.
struct Component {
    settings: Arc<Settings>,
    loaded: Arc<LoadedComponent>,
    imports: Imports,
    origins: Arc<[String]>,
    computing: Duration,
    /// Requests in progress.
    requests_in_progress: AtomicUsize,
    /// Until this tick, requests start in a thread.
    thread_until: Arc<AtomicU64>,
}

impl Wasm {
    /// Loads a component. The error says what is wrong.
    pub fn open(settings: Settings, shared: &WasmShared, counts: &ServiceCounts) -> Result<Wasm, String> {
        let directory = settings.compiled.as_deref();
        let mut notes = Vec::new();
        let loaded =
            compiled::load(&settings.component, directory, &shared.loaded, &mut |note| notes.push(note))?;
        let imports = imports(&settings, shared, counts);
        let component = Component {
            loaded,
            imports,
            origins: settings.outgoing.iter().map(|origin| origin.origin.clone()).collect(),
            computing: settings.limits.computing,
            requests_in_progress: AtomicUsize::new(0),
            thread_until: Arc::default(),
            settings: Arc::new(settings),
        };
        Ok(Wasm { component: Arc::new(component), notes: Mutex::new(notes) })
    }
}

fn imports(settings: &Settings, shared: &WasmShared, counts: &ServiceCounts) -> Imports {
    let config = settings.config.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let bucket = |name: &String| (name.clone(), shared.buckets.of((settings.site.clone(), name.clone())));
    let by_name = settings.buckets.iter().map(bucket).collect();
    let buckets = Buckets { by_name, most_bytes: settings.limits.bucket_bytes };
    let counts = counts.components.of(component_counts::Name {
        site: settings.site.clone(),
        route: settings.route.clone(),
        component: settings.component.display().to_string(),
    });
    Imports { config: Arc::new(config), buckets: Arc::new(buckets), counts }
}

impl Interface for Wasm {
    fn name(&self) -> &'static str {
        "wasm"
    }

    fn takes_escapes(&self) -> bool {
        true
    }

    fn judges_parameters(&self) -> bool {
        false
    }

    fn begins_early(&self) -> bool {
        !self.notes.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn on_core(&self, server: Rc<dyn Server>) -> Rc<dyn Handler> {
        for note in std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner)) {
            server.log(Level::Information, "compiled components", &note);
        }
        let client = |origin: &Origin| origin.client.on_core(server.clone());
        let clients = self.component.settings.outgoing.iter().map(client).collect();
        let component = self.component.clone();
        let name = component.settings.component.display().to_string().into();
        Rc::new(WasmOfCore { component, clients, reusable_instances: RefCell::default(), server, name })
    }
}

struct WasmOfCore {
    component: Arc<Component>,
    /// The clients for outgoing requests.
    clients: Rc<[Rc<dyn Handler>]>,
    /// Instances for later requests.
    #[allow(clippy::vec_box, reason = "an instance moves between here and a request often, and is large")]
    reusable_instances: RefCell<Vec<Box<ReusableInstance>>>,
    server: Rc<dyn Server>,
    /// The name of the component in the log.
    name: Rc<str>,
}

impl Handler for WasmOfCore {
    fn handle(self: Rc<Self>, request: Request) -> LocalBoxFuture<Handled> {
        self.component.imports.counts.requests.add(1);
        let id = request.id.clone();
        // Before the future, which would be large with the request and the parts of the run in it.
        let prepared = self.prepare(request);
        Box::pin(async move {
            let answered = match prepared {
                Ok(prepared) => self.answer(prepared).await,
                Err(failure) => Err(failure),
            };
            Handled::Answer(answered.unwrap_or_else(|failure| self.error_answer(&failure, &id)))
        })
    }
}

/// A request in an instance that has not run yet.
struct PreparedRequest {
    run: Box<InstanceRun>,
    reply: oneshot::Receiver<message::Reply>,
    permit: RequestPermit,
    is_head: bool,
}

/// A permit for one of the requests that a component may have at the same time.
struct RequestPermit(Arc<Component>);

impl Component {
    fn permit(self: &Arc<Self>) -> Option<RequestPermit> {
        let before = self.requests_in_progress.fetch_add(1, Ordering::Relaxed);
        self.imports.counts.busy.add(1);
        let permit = RequestPermit(self.clone());
        (before < self.settings.limits.concurrency).then_some(permit)
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        self.0.requests_in_progress.fetch_sub(1, Ordering::Relaxed);
        self.0.imports.counts.busy.take(1);
    }
}

impl WasmOfCore {
    async fn answer(self: &Rc<Self>, prepared: PreparedRequest) -> Result<Answer, Failure> {
        let PreparedRequest { mut run, reply, permit, is_head } = prepared;
        let settings = &self.component.settings;
        let reply = run.head(reply, settings.limits.answer).await?;
        let (mut parts, mut body) = reply.map_err(Failure::Fault)?.into_parts();
        let forwards_body = parts.headers.remove(next::BODY_FIELD).is_some();
        let (mut answer, length) = message::answer(&parts).map_err(Failure::Fault)?;
        if message::has_no_body(answer.status) || is_head {
            answer.declared_length = length.filter(|_| answer.status != 204);
            drop(body);
            self.finish_in_background(run, permit);
            return Ok(answer);
        }
        if forwards_body && body.is_end_stream() {
            let Some(unread) = run.next_answer.take_unread() else {
                return Err(Failure::Fault("the body that it forwards was read or is missing".to_string()));
            };
            drop(body);
            self.finish_in_background(run, permit);
            answer.body = unread.parts;
            answer.is_error_page = unread.error_page_of == Some(answer.status);
            answer.declared_length = unread.declared_length;
            return Ok(answer);
        }
        let buffered = run.take_available(&mut body, WHOLE_BYTES).await?;
        let bytes: u64 = buffered.pieces.iter().map(|piece| piece.len() as u64).sum();
        let most_bytes = settings.limits.body_bytes;
        if most_bytes > 0 && bytes > most_bytes {
            return Err(Failure::Fault("its answer is longer than 'body_size' allows".to_string()));
        }
        if buffered.is_complete && buffered.trailers.is_empty() {
            drop(body);
            if length.is_some_and(|length| length != bytes) {
                return Err(Failure::Fault("its answer is not as long as its Content-Length".to_string()));
            }
            self.finish_in_background(run, permit);
            return Ok(answer.part(BodyPart::Bytes(joined(buffered.pieces))));
        }
        let left = if most_bytes == 0 { u64::MAX } else { most_bytes - bytes };
        let (sender, receiver) = pipe::pipe(PIPE_BYTES);
        self.clone().stream(run, permit, buffered, body, sender, left);
        Ok(answer.part(BodyPart::Stream { body: receiver, length }))
    }

    /// Prepares a request for an instance, new or kept.
    fn prepare(&self, mut request: Request) -> Result<PreparedRequest, Failure> {
        let component = &self.component;
        let permit = component.permit().ok_or(Failure::Full)?;
        let is_head = request.received.method_text() == b"HEAD";
        let receiver = request.take_body();
        let (feed, body): (_, WasiBody) = match request.body_length() {
            Some(0) => (None, message::empty_body()),
            _ => {
                let (feeder, body) = incoming_body();
                (Some((feeder, receiver)), body.boxed_unsync())
            }
        };
        let head = Head::of(&request);
        let mut head =
            head.ok_or_else(|| Failure::Fault("wasi:http cannot represent the request".to_string()))?;
        let next = request.next.take();
        if next.is_some() {
            // The component may replace the body.
            head.hides_length = true;
        }
        let (hooks, outgoing_requests) = self.hooks(next.is_some());
        let compute_limit = ComputeLimit::new(component.computing);
        let reusable = self.reusable_instances.borrow_mut().pop();
        let (instance, output) = match reusable {
            Some(mut reusable) => {
                let output = state::reset(&mut reusable.store, hooks, compute_limit.clone());
                (Instance::Reused(reusable), output)
            }
            None => {
                let store = state::store(
                    component.loaded.engine(),
                    &component.settings,
                    &component.imports,
                    hooks,
                    compute_limit.clone(),
                );
                let store = store.map_err(|error| Failure::Fault(format!("{error:#}")))?;
                let output = store.data().output.clone();
                (Instance::New(component.loaded.clone(), Box::new(store)), output)
            }
        };
        let (send_reply, reply) = oneshot::channel();
        let parts = RunParts {
            work: Box::pin(guest::serve(instance, head, body, send_reply)),
            in_thread: ticker::now() < component.thread_until.load(Ordering::Relaxed),
            compute_limit,
            counts: component.imports.counts.clone(),
            feed,
            outgoing_requests,
            next,
            client_request: request,
            output: OutputLogger { output, name: self.name.clone(), server: self.server.clone() },
            thread_until: component.thread_until.clone(),
        };
        Ok(PreparedRequest { run: Box::new(InstanceRun::new(parts)), reply, permit, is_head })
    }

    fn hooks(&self, has_next: bool) -> (Hooks, Option<OutgoingRequests>) {
        let origins = self.component.origins.clone();
        if origins.is_empty() && !has_next {
            return (Hooks { has_next, origins, outgoing_requests: None }, None);
        }
        let (outgoing_requests, received) = mpsc::unbounded_channel();
        (
            Hooks { has_next, origins, outgoing_requests: Some(outgoing_requests) },
            Some((received, self.clients.clone())),
        )
    }

    /// Streams an answer.
    fn stream(
        self: Rc<Self>,
        mut run: Box<InstanceRun>,
        permit: RequestPermit,
        buffered: BufferedBody,
        body: WasiBody,
        mut sender: pipe::Sender,
        left: u64,
    ) {
        let limit = self.component.settings.limits.answer;
        let id = run.id();
        for piece in buffered.pieces {
            sender.push(piece);
        }
        if buffered.is_complete {
            sender.finish_with_trailers(buffered.trailers);
            return self.finish_in_background(run, permit);
        }
        tokio::task::spawn_local(async move {
            match run.stream(body, sender, left, limit).await {
                Ok(()) => self.finish_in_background(run, permit),
                Err(failure) => {
                    let _ = self.error_answer(&failure, &id);
                }
            }
        });
    }

    /// Waits for the end of the instance after its answer, and then keeps it for reuse.
    fn finish_in_background(self: &Rc<Self>, mut run: Box<InstanceRun>, permit: RequestPermit) {
        if run.has_ended() {
            return self.keep(run);
        }
        let (this, id) = (self.clone(), run.id());
        tokio::task::spawn_local(async move {
            let _permit = permit;
            match run.finish(this.component.settings.limits.answer).await {
                Ok(()) => this.keep(run),
                Err(failure) => {
                    let _ = this.error_answer(&failure, &id);
                }
            }
        });
    }

    /// Keeps the instance if it can answer another request.
    fn keep(&self, mut run: Box<InstanceRun>) {
        let Some(reusable) = run.reusable.take() else { return };
        let mut reusable_instances = self.reusable_instances.borrow_mut();
        if reusable.uses < self.component.settings.reuse && reusable_instances.len() < MOST_KEPT {
            reusable_instances.push(reusable);
        }
    }

    /// Counts and logs a failure, and returns the answer for it.
    fn error_answer(&self, failure: &Failure, id: &str) -> Answer {
        let (status, cause, reason) = match failure {
            Failure::Fault(reason) => (500, Cause::Fault, reason.as_str()),
            Failure::Memory(reason) => (500, Cause::Memory, reason.as_str()),
            Failure::Time(reason) => (504, Cause::Time, *reason),
            Failure::Full => {
                (503, Cause::Full, "the limit of requests ('concurrency') or of instances is reached")
            }
        };
        self.component.imports.counts.add_failure(cause);
        let request = if id.is_empty() { String::new() } else { format!(" (request {id})") };
        let message = format!("{}: {reason}{request}", self.name);
        self.server.log(Level::Warning, "wasm component failed", &message);
        let answer = Answer::error(status);
        if status == 503 { answer.field("Retry-After", "1") } else { answer }
    }
}

fn joined(mut pieces: Vec<Bytes>) -> Bytes {
    match pieces.len() {
        0 => Bytes::new(),
        1 => pieces.remove(0),
        _ => pieces.concat().into(),
    }
}
