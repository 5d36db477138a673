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
use touchstone_handler::handler::{AtOnce, Handled, Handler, Interface, Level, OnCore, OnDisk, Server, Show};
use touchstone_handler::pipe::{self, Receiver};
use touchstone_handler::request::{PlainGet, Protocol, Request};
use touchstone_interfaces::cgi::handler::{CgiHandler, CgiInterface};
use touchstone_interfaces::cgi::resolve::Resolved;

use super::answer::Gathered;
use super::bridge::{CoreEnd, Event, Message, WorkerEnd, bridge};
use super::counts;
use super::known_length::with_known_length;
use super::process::Child;
use super::workers::{TooBusy, Workers};
use crate::abi::LOG_INFORM;
use crate::connection::{Delegate, Delegated, HostRequest, Outcome, TlsFacts};
use crate::current;
use crate::engine::{Engine, Log, Settings};
use crate::exchange::{Exchange, Fields};
use crate::pipeline::{self, On};

/// The most exchanges that a core keeps for later requests.
const KEPT_EXCHANGES: usize = 64;

/// The most bytes of an answer that wait for a client.
const PIPE_BYTES: usize = 128 * 1024;

/// How plug-ins are run.
#[derive(Debug, Clone, PartialEq)]
pub struct Hosting {
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
    runs: Runs,
    workers: Workers,
    hosting: Hosting,
    log: Arc<Messages>,
    /// For `send-cgi`.
    programs: Arc<CgiInterface>,
}

enum Runs {
    Here(Arc<Engine>),
    InChild(Arc<Child>),
}

impl Nsapi {
    /// Loads the plug-ins, or starts the process that loads them. The error lists all problems.
    pub fn start(
        settings: &Settings,
        hosting: &Hosting,
        programs: Arc<CgiInterface>,
    ) -> Result<Nsapi, Vec<String>> {
        crate::slots::install();
        let log = Arc::new(Messages::default());
        let runs = if hosting.in_process_of_its_own {
            Runs::InChild(Child::start(settings, log.clone())?)
        } else {
            crate::crash::install();
            crate::ending::install(crate::ending::Process::Server);
            Runs::Here(Engine::start(settings, log.clone())?)
        };
        let workers = Workers::new(hosting.most_threads, hosting.most_waiting, hosting.stack_bytes);
        Ok(Nsapi { runs, workers, hosting: hosting.clone(), log, programs })
    }
}

impl Drop for Nsapi {
    fn drop(&mut self) {
        match &self.runs {
            Runs::Here(engine) => engine.end(),
            Runs::InChild(child) => child.stop(),
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
        let runs = match &self.runs {
            Runs::Here(engine) => Runs::Here(engine.clone()),
            Runs::InChild(child) => Runs::InChild(child.clone()),
        };
        let (workers, log) = (self.workers.clone(), self.log.clone());
        let programs = self.programs.on_core(server.clone());
        let exchanges = RefCell::default();
        let hosting = self.hosting.clone();
        Rc::new(OnThisCore { runs, workers, hosting, log, server, programs, exchanges })
    }

    fn answers_at_once(&self) -> bool {
        matches!(&self.runs, Runs::Here(engine) if engine.always_answers_on_core())
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

struct OnThisCore {
    runs: Runs,
    workers: Workers,
    hosting: Hosting,
    log: Arc<Messages>,
    server: Rc<dyn Server>,
    programs: Rc<CgiHandler>,
    #[allow(clippy::vec_box, reason = "plug-ins hold pointers into an exchange: it must stay where it is")]
    exchanges: RefCell<Vec<Box<Exchange>>>,
}

impl Handler for OnThisCore {
    fn handle(self: Rc<Self>, request: Request) -> OnCore<Handled> {
        if request.body_length().is_none() {
            return Box::pin(self.of_unknown_length(request));
        }
        // Functions that may run on this core answer without a worker.
        if let Runs::Here(engine) = &self.runs {
            let engine = engine.clone();
            let mut exchange = self.exchanges.borrow_mut().pop().unwrap_or_else(Exchange::new);
            with_host_request(&request, |asked| exchange.begin(&engine, asked));
            let has_body = request.body_length() != Some(0);
            let is_head = request.received.method_text() == b"HEAD";
            let mut gathered = Gathered::default();
            let outcome = if has_body { None } else { run_on_core(&mut exchange, &mut gathered) };
            if let Some(outcome) = outcome {
                exchange.clear();
                self.keep(exchange);
                self.log.write_to(&*self.server);
                if let Outcome::Delegated(delegated) = outcome {
                    return Box::pin(self.delegated(delegated, request));
                }
                let answer = self.answer_now(is_head, outcome, gathered);
                return Box::pin(std::future::ready(Handled::Answer(answer)));
            }
            return Box::pin(async move { self.on_worker(exchange, gathered, request, has_body).await });
        }
        Box::pin(async move { self.in_child(request).await })
    }

    fn answer_at_once(self: Rc<Self>, request: &PlainGet<'_>, body: &mut Vec<u8>) -> AtOnce {
        let Runs::Here(engine) = &self.runs else { return AtOnce::Handle };
        let mut exchange = self.exchanges.borrow_mut().pop().unwrap_or_else(Exchange::new);
        with_host_get(request, |asked| exchange.begin(engine, asked));
        let mut gathered = Gathered { written: std::mem::take(body), ..Gathered::default() };
        let outcome = run_on_core(&mut exchange, &mut gathered);
        exchange.clear();
        self.keep(exchange);
        self.log.write_to(&*self.server);
        // This is called only if every function may run here.
        match (outcome.unwrap_or(Outcome::Close), gathered.head.take()) {
            (Outcome::Answered, Some(head)) => {
                *body = gathered.written;
                AtOnce::Written(head.into_answer())
            }
            (outcome, head) => AtOnce::Answer(self.answer_now(false, outcome, Gathered { head, ..gathered })),
        }
    }
}

/// Runs the functions here; `None` if one of them must not run here. The bytes that were written until then
/// are in `gathered`.
fn run_on_core(exchange: &mut Exchange, gathered: &mut Gathered) -> Option<Outcome> {
    let pointer: *mut Exchange = exchange;
    // SAFETY: only this function uses the exchange, and the connection outlives its use.
    unsafe {
        (*pointer).attach(gathered);
        let entered = current::enter(pointer);
        let result = pipeline::run(pointer, On::Core);
        drop(entered);
        (*pointer).detach();
        result.ok()
    }
}

impl OnThisCore {
    async fn of_unknown_length(self: Rc<Self>, request: Request) -> Handled {
        match with_known_length(request).await {
            Ok(request) => self.handle(request).await,
            Err(error) => {
                let message = format!("a request's body broke off: {error}");
                self.server.log(Level::Debug, "request body", &message);
                Handled::Answer(Answer::error(400))
            }
        }
    }

    fn keep(&self, exchange: Box<Exchange>) {
        let mut exchanges = self.exchanges.borrow_mut();
        if exchanges.len() < KEPT_EXCHANGES {
            exchanges.push(exchange);
        }
    }

    /// The answer of functions that have run here.
    fn answer_now(&self, is_head: bool, outcome: Outcome, gathered: Gathered) -> Answer {
        match (outcome, gathered.head) {
            (Outcome::Answered, Some(head)) => head.into_whole_answer(is_head, gathered.written.into()),
            (Outcome::Close, Some(head)) => {
                // The beginning is sent, and the client sees that the end is missing.
                let (mut sender, body) = pipe::pipe(PIPE_BYTES);
                sender.push(Bytes::from(gathered.written));
                drop(sender);
                let length = head.content_length;
                head.into_answer().part(BodyPart::Stream { body, length })
            }
            // [`OnThisCore::delegated`] answers delegated requests.
            (_, None) | (Outcome::Delegated(_), _) => Answer::error(502),
        }
    }

    /// Passes a request to another part of the server.
    async fn delegated(self: Rc<Self>, delegated: Delegated, request: Request) -> Handled {
        let fields = delegated.field_lines();
        let Delegated { to, path, path_info, .. } = delegated;
        let path = PathBuf::from(OsString::from_vec(path));
        let show = match to {
            Delegate::Includes => Show::Page,
            Delegate::Listing => Show::Listing,
            Delegate::Cgi => return self.run_program(path, path_info, fields, request).await,
        };
        Handled::OnDisk(Box::new(OnDisk { request, path, show, fields }))
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
        let program = Resolved { file, directory, script_name, path_info };
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
        exchange: Box<Exchange>,
        gathered: Gathered,
        request: Request,
        has_body: bool,
    ) -> Handled {
        let (mut worker_end, core_end) = bridge(has_body);
        worker_end.resume(gathered.head, gathered.written);
        let job = move |worker_end: &mut WorkerEnd| {
            let mut exchange = exchange;
            let pointer: *mut Exchange = &mut *exchange;
            // SAFETY: only this job uses the exchange, and the connection outlives its use.
            let result = unsafe {
                (*pointer).attach(worker_end);
                let entered = current::enter(pointer);
                let result = pipeline::run(pointer, On::Worker);
                drop(entered);
                (*pointer).detach();
                result
            };
            worker_end.finish(result.unwrap_or(Outcome::Close));
        };
        self.answer_of(job, worker_end, core_end, request).await
    }

    async fn in_child(self: Rc<Self>, request: Request) -> Handled {
        let Runs::InChild(child) = &self.runs else { return Handled::Answer(Answer::error(500)) };
        let has_body = request.body_length() != Some(0);
        let (worker_end, core_end) = bridge(has_body);
        let child = child.clone();
        let asked = with_host_request(&request, super::wire::OwnedRequest::of);
        let job = move |worker_end: &mut WorkerEnd| child.serve(&asked, worker_end);
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
                    workers.find();
                }
            }
        };
        if let Err(TooBusy) = self.workers.run(Box::new(job)) {
            return self.no_worker("threads and queue of the route are full");
        }
        let is_head = request.received.method_text() == b"HEAD";
        let limit = self.hosting.time_limit;
        let mut first = core_end.next(limit).await;
        if let Event::Message(Some(Message::WantsBody)) = first {
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
            Event::Message(Some(Message::End(Outcome::Delegated(delegated)))) => {
                self.delegated(delegated, request).await
            }
            Event::Message(_) => Handled::Answer(Answer::error(502)),
            Event::NoWorker => self.no_worker("it has waited for longer than function_timeout"),
            Event::Hangs => {
                self.give_up(&core_end);
                Handled::Answer(Answer::error(504))
            }
        }
    }

    fn no_worker(&self, why: &str) -> Handled {
        self.server.log(Level::Warning, "nsapi has no thread for a request", why);
        Handled::Answer(Answer::error(503).field("Retry-After", "1"))
    }

    /// Called when a function hangs. Its request is answered without it.
    fn give_up(&self, core_end: &CoreEnd) {
        self.workers.lose();
        counts::FUNCTIONS_GIVEN_UP.fetch_add(1, Ordering::Relaxed);
        let most = self.hosting.most_threads;
        let message = format!(
            "{} has neither ended nor read nor written for {:?} (function_timeout): its request is \
             given up. Of {most} threads {} hang, and others take their place, up to {most}",
            core_end.running(),
            self.hosting.time_limit,
            self.workers.lost(),
        );
        self.server.log(Level::Warning, "nsapi: a function hangs", &message);
        if let Runs::InChild(child) = &self.runs {
            child.note_hanging(most);
        }
    }

    /// Sends the rest of an answer. The worker may still ask for the body of the request.
    async fn pass_on(self: Rc<Self>, mut core_end: CoreEnd, mut sender: pipe::Sender, body: Receiver) {
        let mut body = Some(body);
        loop {
            let event = tokio::select! {
                event = core_end.next(self.hosting.time_limit) => event,
                // Dropping the core's end tells the worker that the client has disconnected.
                () = sender.gone() => return,
            };
            let message = match event {
                Event::Message(message) => message,
                Event::NoWorker | Event::Hangs => {
                    self.give_up(&core_end);
                    None
                }
            };
            match message {
                Some(Message::Body(bytes)) => {
                    if sender.send(Bytes::from(bytes)).await.is_err() {
                        return;
                    }
                }
                Some(Message::WantsBody) => {
                    if let Some(body) = body.take() {
                        core_end.send_body(body);
                    }
                }
                Some(Message::End(Outcome::Answered)) => {
                    self.log.write_to(&*self.server);
                    sender.finish();
                    return;
                }
                _ => {
                    self.log.write_to(&*self.server);
                    sender.fail(std::io::Error::other("the plug-in has left its answer incomplete"));
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
    let asked = HostRequest {
        method: request.received.method_text(),
        path: &request.path,
        target: &target,
        query: request.query.as_deref(),
        is_http10: request.protocol == Protocol::Http10,
        fields: &fields,
        host: request.host.as_deref().unwrap_or_default(),
        port: request.server.port(),
        client: request.client.unwrap_or(NOBODY),
        local: request.server,
        is_https: request.is_https(),
        tls: request.tls.as_deref().map(tls_facts),
        user: request.user.as_deref().map(str::as_bytes),
        keep_alive: true,
        body_length: request.body_length(),
        has_body: request.body_length() != Some(0),
        now_unix_seconds: now,
    };
    with_host_name(asked, request.port_at_proxy(), use_it)
}

/// The same for a request in the connection's buffer.
fn with_host_get<T>(request: &PlainGet<'_>, use_it: impl FnOnce(&HostRequest<'_>) -> T) -> T {
    let fields: Fields<'_> = request.fields().collect();
    let asked = HostRequest {
        method: b"GET",
        path: request.path,
        target: request.target,
        query: request.query,
        is_http10: request.protocol == Protocol::Http10,
        fields: &fields,
        host: request.host.unwrap_or_default(),
        port: request.server.port(),
        client: request.client.unwrap_or(NOBODY),
        local: request.server,
        is_https: request.is_https(),
        tls: request.tls.map(tls_facts),
        user: request.user.map(str::as_bytes),
        keep_alive: true,
        body_length: Some(0),
        has_body: false,
        now_unix_seconds: request.unix_seconds,
    };
    with_host_name(asked, request.port_at_proxy(), use_it)
}

/// The address of an unknown client.
const NOBODY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);

/// Splits the port from the host. Missing parts are taken from the address at which the request arrived.
fn with_host_name<T>(
    asked: HostRequest<'_>,
    port_at_proxy: Option<u16>,
    use_it: impl FnOnce(&HostRequest<'_>) -> T,
) -> T {
    let (name, port) = split_port(asked.host);
    let port = port_at_proxy.or(port).unwrap_or(match asked.is_https == asked.tls.is_some() {
        true => asked.port,
        // The port of a trusted proxy is not known otherwise.
        false if asked.is_https => 443,
        false => 80,
    });
    if name.is_empty() {
        let address = asked.local.ip().to_string();
        return use_it(&HostRequest { host: address.as_bytes(), port, ..asked });
    }
    use_it(&HostRequest { host: name, port, ..asked })
}

fn tls_facts(tls: &touchstone_handler::request::TlsFacts) -> TlsFacts<'_> {
    TlsFacts {
        cipher: tls.cipher_suite.as_bytes(),
        key_bits: key_bits(tls.cipher_suite),
        client_certificate: None,
        client_subject: tls.client_subject.as_deref().map(str::as_bytes),
        client_issuer: tls.client_issuer.as_deref().map(str::as_bytes),
    }
}

fn key_bits(cipher_suite: &str) -> u32 {
    if cipher_suite.contains("256") && !cipher_suite.contains("AES_128") { 256 } else { 128 }
}

/// The host without its port, and the port.
fn split_port(host: &[u8]) -> (&[u8], Option<u16>) {
    let colon = host.iter().rposition(|byte| *byte == b':').filter(|colon| !host[*colon..].contains(&b']'));
    match colon {
        Some(colon) => {
            let port = std::str::from_utf8(&host[colon + 1..]).ok().and_then(|digits| digits.parse().ok());
            (&host[..colon], port)
        }
        None => (host, None),
    }
}
