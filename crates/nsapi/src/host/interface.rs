//! The handler of a route with `nsapi`.

use std::cell::RefCell;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::handler::{
    FileAnswer, Handled, Handler, ImmediateAnswer, Interface, Level, LocalBoxFuture, Server, Show,
};
use touchstone_handler::pipe::{self, Receiver};
use touchstone_handler::request::{PlainGet, Protocol, Request};
use touchstone_interfaces::cgi::handler::{CgiHandler, CgiInterface};
use touchstone_interfaces::cgi::resolve::CgiProgram;

use super::answer::CollectedAnswer;
use super::bridge::{CoreEnd, Event, Message, WorkerEnd, bridge};
use super::counts;
use super::known_length::with_known_length;
use super::process::Child;
use super::workers::{TooBusy, Workers};
use crate::abi::LOG_INFORM;
use crate::connection::{Delegate, DelegatedRequest, HostRequest, RequestEnd, TlsFacts};
use crate::engine::{Engine, Log, Settings};
use crate::pipeline::{self, ThreadKind};
use crate::plugin_request::current;
use crate::plugin_request::{Fields, PluginRequest};

/// The most plug-in requests that a core keeps for later requests.
const KEPT_REQUESTS: usize = 64;

/// The most bytes of an answer that wait for a client.
const PIPE_BYTES: usize = 128 * 1024;

/// How plug-ins are run.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginIsolation {
    /// They run in a child process.
    pub in_process_of_its_own: bool,
    /// The most threads on which functions may wait.
    pub most_threads: usize,
    /// The most requests that wait for a thread.
    pub most_waiting: usize,
    /// The stack of each thread.
    pub stack_bytes: usize,
    /// How long a function may do nothing; zero: no limit.
    pub time_limit: Duration,
}

/// A route with `nsapi`.
pub struct Nsapi {
    /// Runs the functions, here or in a child process.
    function_host: FunctionHost,
    workers: Workers,
    hosting: PluginIsolation,
    log: Arc<Messages>,
    /// For `send-cgi`.
    programs: Arc<CgiInterface>,
}

enum FunctionHost {
    InProcess(Arc<Engine>),
    InChild(Arc<Child>),
}

impl Nsapi {
    /// Loads the plug-ins, or starts the process that loads them. The error lists all problems.
    pub fn start(
        settings: &Settings,
        hosting: &PluginIsolation,
        programs: Arc<CgiInterface>,
    ) -> Result<Nsapi, Vec<String>> {
        crate::slots::install();
        let log = Arc::new(Messages::default());
        let function_host = if hosting.in_process_of_its_own {
            FunctionHost::InChild(Child::start(settings, log.clone())?)
        } else {
            crate::crash::install();
            crate::ending::install(crate::ending::Process::Server);
            FunctionHost::InProcess(Engine::start(settings, log.clone())?)
        };
        let workers = Workers::new(hosting.most_threads, hosting.most_waiting, hosting.stack_bytes);
        Ok(Nsapi { function_host, workers, hosting: hosting.clone(), log, programs })
    }
}

impl Drop for Nsapi {
    fn drop(&mut self) {
        match &self.function_host {
            FunctionHost::InProcess(engine) => engine.end(),
            FunctionHost::InChild(child) => child.stop(),
        }
    }
}

impl Interface for Nsapi {
    fn name(&self) -> &'static str {
        "nsapi"
    }

    fn takes_escapes(&self) -> bool {
        false
    }

    fn judges_parameters(&self) -> bool {
        false
    }

    fn on_core(&self, server: Rc<dyn Server>) -> Rc<dyn Handler> {
        let function_host = match &self.function_host {
            FunctionHost::InProcess(engine) => FunctionHost::InProcess(engine.clone()),
            FunctionHost::InChild(child) => FunctionHost::InChild(child.clone()),
        };
        let (workers, log) = (self.workers.clone(), self.log.clone());
        let programs = self.programs.on_core(server.clone());
        let plugin_requests = RefCell::default();
        let hosting = self.hosting.clone();
        Rc::new(NsapiOfCore { function_host, workers, hosting, log, server, programs, plugin_requests })
    }

    fn answers_at_once(&self) -> bool {
        matches!(&self.function_host, FunctionHost::InProcess(engine) if engine.always_answers_on_core())
    }
}

/// Lines for the log. Cores write them, because threads of plug-ins have no access to a core's log.
#[derive(Default)]
pub struct Messages {
    lines: Mutex<Vec<(i32, String)>>,
}

/// The most lines that wait for a core.
const MOST_LINES: usize = 1_000;

impl Log for Messages {
    fn write(&self, degree: i32, message: &str) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() < MOST_LINES {
            lines.push((degree, message.to_string()));
        }
    }
}

impl Messages {
    /// Writes the waiting lines to a core's log.
    fn write_to(&self, server: &dyn Server) {
        let lines = match self.lines.try_lock() {
            Ok(mut lines) if !lines.is_empty() => std::mem::take(&mut *lines),
            _ => return,
        };
        for (degree, message) in lines {
            let level = match degree {
                3 | 4 => Level::Error,
                degree if degree == LOG_INFORM => Level::Information,
                6 => Level::Debug,
                _ => Level::Warning,
            };
            server.log(level, "nsapi", &message);
        }
    }
}

struct NsapiOfCore {
    function_host: FunctionHost,
    workers: Workers,
    hosting: PluginIsolation,
    log: Arc<Messages>,
    server: Rc<dyn Server>,
    programs: Rc<CgiHandler>,
    #[allow(
        clippy::vec_box,
        reason = "plug-ins hold pointers into a plug-in request: it must stay where it is"
    )]
    plugin_requests: RefCell<Vec<Box<PluginRequest>>>,
}

impl Handler for NsapiOfCore {
    fn handle(self: Rc<Self>, request: Request) -> LocalBoxFuture<Handled> {
        if request.body_length().is_none() {
            return Box::pin(self.of_unknown_length(request));
        }
        // Functions that may run on this core answer without a worker.
        if let FunctionHost::InProcess(engine) = &self.function_host {
            let engine = engine.clone();
            let mut plugin_request =
                self.plugin_requests.borrow_mut().pop().unwrap_or_else(PluginRequest::new);
            with_host_request(&request, |host_request| plugin_request.begin(&engine, host_request));
            let has_body = request.body_length() != Some(0);
            let is_head = request.received.method_text() == b"HEAD";
            let mut collected = CollectedAnswer::default();
            let request_end = if has_body { None } else { run_on_core(&mut plugin_request, &mut collected) };
            if let Some(request_end) = request_end {
                plugin_request.clear();
                self.keep(plugin_request);
                self.log.write_to(&*self.server);
                if let RequestEnd::Delegated(delegated) = request_end {
                    return Box::pin(self.delegated(delegated, request));
                }
                let answer = self.answer_now(is_head, request_end, collected);
                return Box::pin(std::future::ready(Handled::Answer(answer)));
            }
            return Box::pin(
                async move { self.on_worker(plugin_request, collected, request, has_body).await },
            );
        }
        Box::pin(async move { self.in_child(request).await })
    }

    fn answer_at_once(self: Rc<Self>, request: &PlainGet<'_>, body: &mut Vec<u8>) -> ImmediateAnswer {
        let FunctionHost::InProcess(engine) = &self.function_host else { return ImmediateAnswer::Handle };
        let mut plugin_request = self.plugin_requests.borrow_mut().pop().unwrap_or_else(PluginRequest::new);
        with_host_get(request, |host_request| plugin_request.begin(engine, host_request));
        let mut collected = CollectedAnswer { written: std::mem::take(body), ..CollectedAnswer::default() };
        let request_end = run_on_core(&mut plugin_request, &mut collected);
        plugin_request.clear();
        self.keep(plugin_request);
        self.log.write_to(&*self.server);
        // This is called only if every function may run here.
        match (request_end.unwrap_or(RequestEnd::Close), collected.head.take()) {
            (RequestEnd::Answered, Some(head)) => {
                *body = collected.written;
                ImmediateAnswer::Written(head.into_answer())
            }
            (request_end, head) => ImmediateAnswer::Answer(self.answer_now(
                false,
                request_end,
                CollectedAnswer { head, ..collected },
            )),
        }
    }
}

/// Runs the functions here; `None` if one of them must not run here. The bytes that were written until then
/// are in `collected`.
fn run_on_core(plugin_request: &mut PluginRequest, collected: &mut CollectedAnswer) -> Option<RequestEnd> {
    let pointer: *mut PluginRequest = plugin_request;
    // SAFETY: only this function uses the plug-in request, and the connection outlives its use.
    unsafe {
        (*pointer).attach(collected);
        let entered = current::enter(pointer);
        let result = pipeline::run(pointer, ThreadKind::Core);
        drop(entered);
        (*pointer).detach();
        result.ok()
    }
}

impl NsapiOfCore {
    async fn of_unknown_length(self: Rc<Self>, request: Request) -> Handled {
        match with_known_length(request).await {
            Ok(request) => self.handle(request).await,
            Err(error) => {
                let message = format!("the body of a request is incomplete: {error}");
                self.server.log(Level::Debug, "request body", &message);
                Handled::Answer(Answer::error(400))
            }
        }
    }

    fn keep(&self, plugin_request: Box<PluginRequest>) {
        let mut plugin_requests = self.plugin_requests.borrow_mut();
        if plugin_requests.len() < KEPT_REQUESTS {
            plugin_requests.push(plugin_request);
        }
    }

    /// The answer of functions that have run here.
    fn answer_now(&self, is_head: bool, request_end: RequestEnd, collected: CollectedAnswer) -> Answer {
        match (request_end, collected.head) {
            (RequestEnd::Answered, Some(head)) => head.into_whole_answer(is_head, collected.written.into()),
            (RequestEnd::Close, Some(head)) => {
                // The beginning is sent, and the client sees that the end is missing.
                let (mut sender, body) = pipe::pipe(PIPE_BYTES);
                sender.push(Bytes::from(collected.written));
                drop(sender);
                let length = head.content_length;
                head.into_answer().part(BodyPart::Stream { body, length })
            }
            // [`NsapiOfCore::delegated`] answers delegated requests.
            (_, None) | (RequestEnd::Delegated(_), _) => Answer::error(502),
        }
    }

    /// Passes a request to another part of the server.
    async fn delegated(self: Rc<Self>, delegated: DelegatedRequest, request: Request) -> Handled {
        let fields = delegated.field_lines();
        let DelegatedRequest { to, path, path_info, .. } = delegated;
        let path = PathBuf::from(OsString::from_vec(path));
        let show = match to {
            Delegate::Includes => Show::Page,
            Delegate::Listing => Show::Listing,
            Delegate::Cgi => return self.run_program(path, path_info, fields, request).await,
        };
        Handled::OnDisk(Box::new(FileAnswer { request, path, show, fields }))
    }

    async fn run_program(
        &self,
        file: PathBuf,
        path_info: Vec<u8>,
        fields: Vec<u8>,
        request: Request,
    ) -> Handled {
        if !file.is_file() {
            return Handled::Answer(Answer::error(404));
        }
        let directory = file.parent().unwrap_or(Path::new("/")).to_path_buf();
        let script_name = request.path.strip_suffix(&path_info[..]).unwrap_or(&request.path).to_vec();
        let program = CgiProgram { file, directory, script_name, path_info };
        match self.programs.clone().run(request, program).await {
            Handled::Answer(mut answer) => {
                answer.fields.extend_from_slice(&fields);
                Handled::Answer(answer)
            }
            handled => handled,
        }
    }

    async fn on_worker(
        self: Rc<Self>,
        plugin_request: Box<PluginRequest>,
        collected: CollectedAnswer,
        request: Request,
        has_body: bool,
    ) -> Handled {
        let (mut worker_end, core_end) = bridge(has_body);
        worker_end.resume(collected.head, collected.written);
        let job = move |worker_end: &mut WorkerEnd| {
            let mut plugin_request = plugin_request;
            let pointer: *mut PluginRequest = &mut *plugin_request;
            // SAFETY: only this job uses the plug-in request, and the connection outlives its use.
            let result = unsafe {
                (*pointer).attach(worker_end);
                let entered = current::enter(pointer);
                let result = pipeline::run(pointer, ThreadKind::Worker);
                drop(entered);
                (*pointer).detach();
                result
            };
            worker_end.finish(result.unwrap_or(RequestEnd::Close));
        };
        self.answer_of(job, worker_end, core_end, request).await
    }

    async fn in_child(self: Rc<Self>, request: Request) -> Handled {
        let FunctionHost::InChild(child) = &self.function_host else {
            return Handled::Answer(Answer::error(500));
        };
        let has_body = request.body_length() != Some(0);
        let (worker_end, core_end) = bridge(has_body);
        let child = child.clone();
        let host_request = with_host_request(&request, super::wire::OwnedRequest::of);
        let job = move |worker_end: &mut WorkerEnd| child.serve(&host_request, worker_end);
        self.answer_of(job, worker_end, core_end, request).await
    }

    /// Has a worker answer the request, and passes body and answer between the worker and the client.
    async fn answer_of(
        self: Rc<Self>,
        job: impl FnOnce(&mut WorkerEnd) + Send + 'static,
        mut worker_end: WorkerEnd,
        mut core_end: CoreEnd,
        mut request: Request,
    ) -> Handled {
        let workers = self.workers.clone();
        let job = move || {
            if worker_end.begin() {
                job(&mut worker_end);
                if !worker_end.end() {
                    workers.note_returned();
                }
            }
        };
        if let Err(TooBusy) = self.workers.run(Box::new(job)) {
            return self.no_worker("all threads of the route are in use, and its queue is full");
        }
        let is_head = request.received.method_text() == b"HEAD";
        let limit = self.hosting.time_limit;
        let mut first = core_end.next(limit).await;
        if let Event::Message(Some(Message::BodyRequested)) = first {
            core_end.send_body(request.take_body());
            first = core_end.next(limit).await;
        }
        self.log.write_to(&*self.server);
        match first {
            Event::Message(Some(Message::Head(head, beginning, true))) => {
                Handled::Answer(head.into_whole_answer(is_head, beginning.into()))
            }
            Event::Message(Some(Message::Head(head, beginning, false))) => {
                let (mut sender, body) = pipe::pipe(PIPE_BYTES);
                sender.push(Bytes::from(beginning));
                tokio::task::spawn_local(self.clone().pass_on(core_end, sender, request.body));
                let length = head.content_length;
                Handled::Answer(head.into_answer().part(BodyPart::Stream { body, length }))
            }
            Event::Message(Some(Message::End(RequestEnd::Delegated(delegated)))) => {
                self.delegated(delegated, request).await
            }
            Event::Message(_) => Handled::Answer(Answer::error(502)),
            Event::NoWorker => self.no_worker("it waited for longer than function_timeout"),
            Event::Hangs => {
                self.abandon(&core_end);
                Handled::Answer(Answer::error(504))
            }
        }
    }

    fn no_worker(&self, why: &str) -> Handled {
        self.server.log(Level::Warning, "nsapi: no thread can be started for a request", why);
        Handled::Answer(Answer::error(503).field("Retry-After", "1"))
    }

    /// Called when a function hangs. Its request is answered without it.
    fn abandon(&self, core_end: &CoreEnd) {
        self.workers.note_hanging();
        counts::FUNCTIONS_ABANDONED.fetch_add(1, Ordering::Relaxed);
        let most = self.hosting.most_threads;
        let message = format!(
            "{} has not returned, read or written for {:?} (function_timeout): its request is abandoned. \
             {} of at most {most} threads are blocked; other threads replace them",
            core_end.running(),
            self.hosting.time_limit,
            self.workers.hanging(),
        );
        self.server.log(Level::Warning, "nsapi: a function hangs", &message);
        if let FunctionHost::InChild(child) = &self.function_host {
            child.note_hanging(most);
        }
    }

    /// Sends the rest of an answer. The worker may still request the body of the request.
    async fn pass_on(self: Rc<Self>, mut core_end: CoreEnd, mut sender: pipe::Sender, body: Receiver) {
        let mut body = Some(body);
        loop {
            let event = tokio::select! {
                event = core_end.next(self.hosting.time_limit) => event,
                // Dropping the core's end informs the worker that the client has disconnected.
                () = sender.gone() => return,
            };
            let message = match event {
                Event::Message(message) => message,
                Event::NoWorker | Event::Hangs => {
                    self.abandon(&core_end);
                    None
                }
            };
            match message {
                Some(Message::Body(bytes)) => {
                    if sender.send(Bytes::from(bytes)).await.is_err() {
                        return;
                    }
                }
                Some(Message::BodyRequested) => {
                    if let Some(body) = body.take() {
                        core_end.send_body(body);
                    }
                }
                Some(Message::End(RequestEnd::Answered)) => {
                    self.log.write_to(&*self.server);
                    sender.finish();
                    return;
                }
                _ => {
                    self.log.write_to(&*self.server);
                    sender.fail(std::io::Error::other("the answer of the plug-in is incomplete"));
                    return;
                }
            }
        }
    }
}

/// Calls `use_it` with the request in the form that the engine needs.
fn with_host_request<T>(request: &Request, use_it: impl FnOnce(&HostRequest<'_>) -> T) -> T {
    let fields: Fields<'_> = request.received.fields().collect();
    let target = request.path_and_query();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    let host_request = HostRequest {
        method: request.received.method_text(),
        path: &request.path,
        target: &target,
        query: request.query.as_deref(),
        is_http10: request.protocol == Protocol::Http10,
        fields: &fields,
        host: request.host.as_deref().unwrap_or_default(),
        port: request.server.port(),
        client: request.internet_client().unwrap_or(NOBODY),
        local: request.server,
        is_https: request.is_https(),
        tls: request.tls.as_deref().map(tls_facts),
        user: request.user.as_deref().map(str::as_bytes),
        keep_alive: true,
        body_length: request.body_length(),
        has_body: request.body_length() != Some(0),
        now_unix_seconds: now,
    };
    with_host_name(host_request, request.port_at_proxy(), use_it)
}

/// The same for a request in the connection's buffer.
fn with_host_get<T>(request: &PlainGet<'_>, use_it: impl FnOnce(&HostRequest<'_>) -> T) -> T {
    let fields: Fields<'_> = request.fields().collect();
    let host_request = HostRequest {
        method: b"GET",
        path: request.path,
        target: request.target,
        query: request.query,
        is_http10: request.protocol == Protocol::Http10,
        fields: &fields,
        host: request.host.unwrap_or_default(),
        port: request.server.port(),
        client: request.internet_client().unwrap_or(NOBODY),
        local: request.server,
        is_https: request.is_https(),
        tls: request.tls.map(tls_facts),
        user: request.user.map(str::as_bytes),
        keep_alive: true,
        body_length: Some(0),
        has_body: false,
        now_unix_seconds: request.unix_seconds,
    };
    with_host_name(host_request, request.port_at_proxy(), use_it)
}

/// The address of an unknown client.
const NOBODY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);

/// Splits the port from the host. Missing parts are taken from the address at which the request arrived.
fn with_host_name<T>(
    host_request: HostRequest<'_>,
    port_at_proxy: Option<u16>,
    use_it: impl FnOnce(&HostRequest<'_>) -> T,
) -> T {
    let (name, port) = touchstone_http::host::split_port(host_request.host);
    let port = port_at_proxy.or(port).unwrap_or(match host_request.is_https == host_request.tls.is_some() {
        true => host_request.port,
        // The port of a trusted proxy is not known otherwise.
        false if host_request.is_https => 443,
        false => 80,
    });
    if name.is_empty() {
        let address = host_request.local.ip().to_string();
        return use_it(&HostRequest { host: address.as_bytes(), port, ..host_request });
    }
    use_it(&HostRequest { host: name, port, ..host_request })
}

fn tls_facts(tls: &touchstone_handler::request::TlsFacts) -> TlsFacts<'_> {
    TlsFacts {
        cipher: tls.cipher_suite.as_bytes(),
        key_bits: tls.key_bits().map_or(0, u32::from),
        client_certificate: None,
        client_subject: tls.client_subject.as_deref().map(str::as_bytes),
        client_issuer: tls.client_issuer.as_deref().map(str::as_bytes),
    }
}
