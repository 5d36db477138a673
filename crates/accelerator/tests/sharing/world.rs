//! The real layer with an origin whose answers the history releases one by one. Everything that the origin
//! has sent, and
//! everything that clients have got, is recorded.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use touchstone_accelerator::disk::Disk;
use touchstone_accelerator::layer::{AcceleratedInterface, Accelerator, CachedRoute};
use touchstone_accelerator::rules::policy::{Policy, SetCookie};
use touchstone_accelerator::store::{PurgeMode, PurgeScope, Store, Tier};
use touchstone_files::cache::DateSecond;
use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::handler::{Handled, Handler, Interface, Level, LocalBoxFuture, Server};
use touchstone_handler::pipe::{Receiver, pipe};
use touchstone_handler::request::{Protocol, ReceivedHead, Request, RequestDetails, TlsFacts};
use touchstone_http::date::format_imf_fixdate;
use touchstone_http::request::{Limits, Method, Parsed, RequestHead};

use super::history::{History, Operation, Resource, USERS, User, WISHES};

pub const START: i64 = 1_700_000_000;

/// The length of a body: whole blocks of 16 bytes, each with the representation and its own position.
const BLOCKS: usize = 8;

/// A request to the origin, and its answer.
#[derive(Debug, Clone)]
pub struct Fetch {
    /// The client's request that caused it.
    pub asked_by: usize,
    pub path: usize,
    /// What the body is: see [`World::representation`].
    pub representation: usize,
    pub status: u16,
    pub began: usize,
    /// The step in which the end of its answer arrived; none: it has not arrived.
    pub ended: Option<usize>,
    pub time: i64,
    /// The resource as it was then.
    pub resource: Resource,
    pub is_head: bool,
    pub was_cut: bool,
    /// What a 304 confirms: the entity tag of the request; none: its date, which all versions have.
    pub confirmed: Option<usize>,
}

/// A request of a client, and what it got.
#[derive(Debug, Clone)]
pub struct Asked {
    pub user: usize,
    pub path: usize,
    pub wish: usize,
    pub is_head: bool,
    pub is_bad: bool,
    pub began: usize,
    pub time: i64,
    pub got: Option<Got>,
}

/// An answer as a client has it.
#[derive(Debug, Clone)]
pub struct Got {
    pub status: u16,
    pub fields: String,
    pub body: String,
    /// The body was complete.
    pub is_whole: bool,
    pub ended: usize,
    pub time: i64,
}

/// The format of the recorded world.
#[derive(Default)]
pub struct Record {
    pub fetches: Vec<Fetch>,
    pub asked: Vec<Asked>,
    /// Purges and changes: the path and the step.
    pub purges: Vec<(usize, usize)>,
    /// The time of the clock at each step.
    pub clock: Vec<i64>,
    pub set_cookie: Option<SetCookie>,
}

struct Waiting {
    go: oneshot::Sender<Verdict>,
}

enum Verdict {
    Answer,
    Error,
    Cut,
}

/// All that runs.
pub struct Shared {
    pub record: RefCell<Record>,
    resources: Vec<Resource>,
    versions: RefCell<Vec<usize>>,
    waiting: RefCell<Vec<Waiting>>,
    now: Cell<i64>,
    step: Cell<usize>,
    representations: RefCell<Vec<(usize, usize, usize)>>,
}

impl Server for Shared {
    fn date(&self) -> DateSecond {
        DateSecond { unix_seconds: self.now.get(), text: format_imf_fixdate(self.now.get()) }
    }
    fn log(&self, _: Level, _: &'static str, _: &str) {}
    fn log_failing(&self, _: &str, _: &str) {}
    fn log_recovered(&self, _: &str) -> bool {
        false
    }
    fn answer(&self, _: Request) -> LocalBoxFuture<Answer> {
        Box::pin(async { Answer::error(500) })
    }
    fn core(&self) -> usize {
        0
    }
}

/// The origin is made on the core, where the world is.
struct Origin;

/// What is kept from one history to the next.
#[derive(Default)]
struct Kept {
    by_size: [Option<Arc<Accelerator>>; 2],
    histories: u64,
}

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
    static WORLD: RefCell<Option<Rc<Shared>>> = const { RefCell::new(None) };
}

impl Interface for Origin {
    fn name(&self) -> &'static str {
        "origin"
    }

    fn takes_escapes(&self) -> bool {
        false
    }

    fn judges_parameters(&self) -> bool {
        false
    }
    fn on_core(&self, _: Rc<dyn Server>) -> Rc<dyn Handler> {
        Rc::new(OriginOfCore(WORLD.with_borrow(|world| world.clone().expect("a world"))))
    }
}

struct OriginOfCore(Rc<Shared>);

impl Handler for OriginOfCore {
    fn handle(self: Rc<Self>, request: Request) -> LocalBoxFuture<Handled> {
        let world = self.0.clone();
        Box::pin(async move { Handled::Answer(world.fetch(request).await) })
    }
}

fn field<'r>(request: &'r Request, name: &'r str) -> Option<&'r str> {
    request.received.values(name).next().and_then(|value| std::str::from_utf8(value).ok())
}

impl Shared {
    /// The number of a representation: of a page in a version, and of a user where the page is personal.
    fn representation(&self, path: usize, user: usize) -> usize {
        let version = self.versions.borrow()[path];
        let owner = if self.resources[path].is_personal { user + 1 } else { 0 };
        let mut known = self.representations.borrow_mut();
        let wanted = (path, version, owner);
        known.iter().position(|other| *other == wanted).unwrap_or_else(|| {
            known.push(wanted);
            known.len() - 1
        })
    }

    /// What the origin does with a request.
    async fn fetch(self: Rc<Self>, request: Request) -> Answer {
        let id: usize =
            field(&request, "x-id").and_then(|id| id.parse().ok()).expect("every request has one");
        let (path, user, is_bad) = {
            let record = self.record.borrow();
            (record.asked[id].path, record.asked[id].user, record.asked[id].is_bad)
        };
        if request.method() == Method::Post {
            self.versions.borrow_mut()[path] += 1;
            return Answer::new(204);
        }
        let mut resource = self.resources[path].clone();
        if self.versions.borrow()[path] % 2 == 1 {
            resource.cache_control = resource.other_cache_control;
        }
        let fetch = {
            let mut record = self.record.borrow_mut();
            record.fetches.push(Fetch {
                asked_by: id,
                path,
                representation: self.representation(path, user),
                status: 0,
                began: self.step.get(),
                ended: None,
                time: self.now.get(),
                resource: resource.clone(),
                is_head: request.method() == Method::Head,
                was_cut: false,
                confirmed: None,
            });
            record.fetches.len() - 1
        };
        let (go, gone_on) = oneshot::channel();
        self.waiting.borrow_mut().push(Waiting { go });
        let verdict = gone_on.await.unwrap_or(Verdict::Error);
        let is_error = is_bad || matches!(verdict, Verdict::Error);
        let status = if is_error { 500 } else { self.status(&request, fetch, &resource) };
        {
            let entry = &mut self.record.borrow_mut().fetches[fetch];
            entry.status = status;
            entry.confirmed = named(&request).filter(|_| status == 304);
            entry.ended = Some(self.step.get());
            entry.time = self.now.get();
            entry.was_cut = matches!(verdict, Verdict::Cut) && matches!(status, 200 | 206);
        }
        if is_error {
            return Answer::error(500);
        }
        self.clone().answer_of(&request, fetch, status, resource, matches!(verdict, Verdict::Cut)).await
    }

    fn etag(representation: usize) -> String {
        format!("\"r{representation}\"")
    }

    fn status(&self, request: &Request, fetch: usize, resource: &Resource) -> u16 {
        let representation = self.record.borrow().fetches[fetch].representation;
        let names_it = resource.has_etag && named(request) == Some(representation);
        let is_since = field(request, "if-modified-since").is_some() && !resource.has_etag;
        match (names_it || is_since) && resource.answers_304 {
            true => 304,
            false if field(request, "range").is_some() && resource.has_etag => 206,
            false => 200,
        }
    }

    async fn answer_of(
        self: Rc<Self>,
        request: &Request,
        fetch: usize,
        status: u16,
        resource: Resource,
        cuts: bool,
    ) -> Answer {
        let representation = self.record.borrow().fetches[fetch].representation;
        let mut answer = Answer::new(status);
        let mut fields = format!("X-Personal: of-{fetch}\r\n");
        if !resource.cache_control.is_empty() {
            fields += &format!("Cache-Control: {}\r\n", resource.cache_control);
        }
        if resource.has_etag {
            fields += &format!("ETag: {}\r\n", Shared::etag(representation));
        }
        if resource.has_modified {
            let modified = format_imf_fixdate(START - 864_000);
            fields += &format!("Last-Modified: {}\r\n", String::from_utf8_lossy(&modified));
        }
        if resource.varies {
            fields += "Vary: X-Lang\r\n";
        }
        let is_later = status == 304 || request.method() == Method::Head;
        if (resource.sets_cookie && !is_later) || (resource.sets_cookie_later && is_later) {
            fields += &format!("Set-Cookie: c=of-{fetch}\r\n");
        }
        let whole = body(representation);
        let range = field(request, "range").filter(|_| status == 206).and_then(|range| {
            let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
            let last = last.parse().unwrap_or(whole.len() - 1);
            Some((first.parse::<usize>().ok()?, last.min(whole.len() - 1)))
        });
        let sent = match range {
            Some((first, last)) => {
                fields += &format!("Content-Range: bytes {first}-{last}/{}\r\n", whole.len());
                whole.slice(first..last + 1)
            }
            None => whole,
        };
        answer.fields = fields.into_bytes();
        if status == 304 || request.method() == Method::Head {
            answer.declared_length = (status != 304).then_some(sent.len() as u64);
            return answer;
        }
        if !resource.streams && !cuts {
            answer.body.push(BodyPart::Bytes(sent));
            return answer;
        }
        let (mut sender, received) = pipe(1 << 20);
        let half = sent.len() / 2;
        sender.push(sent.slice(..half));
        answer.body.push(BodyPart::Stream { body: received, length: Some(sent.len() as u64) });
        if cuts {
            sender.fail(std::io::Error::other("cut"));
            return answer;
        }
        let (go, gone_on) = oneshot::channel();
        self.waiting.borrow_mut().push(Waiting { go });
        let world = self.clone();
        world.record.borrow_mut().fetches[fetch].ended = None;
        tokio::task::spawn_local(async move {
            let is_whole = matches!(gone_on.await, Ok(Verdict::Answer));
            {
                let entry = &mut world.record.borrow_mut().fetches[fetch];
                entry.ended = Some(world.step.get());
                entry.was_cut = !is_whole;
            }
            if is_whole {
                sender.push(sent.slice(half..));
                sender.finish();
            } else {
                sender.fail(std::io::Error::other("cut"));
            }
        });
        answer
    }
}

/// The representation whose entity tag the cache has requested.
fn named(request: &Request) -> Option<usize> {
    number_of(field(request, "if-none-match")?)
}

/// The representation with this entity tag.
pub fn number_of(etag: &str) -> Option<usize> {
    etag.strip_prefix("\"r")?.strip_suffix('"')?.parse().ok()
}

/// The body of a representation: blocks that name it and their own position.
pub fn body(representation: usize) -> Bytes {
    let text: String = (0..BLOCKS).map(|block| format!("r{representation:06}@{block:07};")).collect();
    text.into_bytes().into()
}

/// The world of a history, until its present step.
pub struct World {
    pub shared: Rc<Shared>,
    handler: Option<Rc<dyn Handler>>,
    accelerator: Option<Arc<Accelerator>>,
    disk: Option<Arc<Disk>>,
    clients: Vec<Option<JoinHandle<()>>>,
}

impl World {
    pub fn new(history: &History, directory: Option<&Path>) -> World {
        let shared = Rc::new(Shared {
            record: RefCell::default(),
            resources: history.resources.clone(),
            versions: RefCell::new(vec![0; history.resources.len()]),
            waiting: RefCell::default(),
            now: Cell::new(START),
            step: Cell::new(0),
            representations: RefCell::default(),
        });
        shared.record.borrow_mut().set_cookie = Some(history.set_cookie);
        shared.record.borrow_mut().clock.push(START);
        WORLD.set(Some(shared.clone()));
        let mut world = World { shared, handler: None, accelerator: None, disk: None, clients: Vec::new() };
        world.start(history, directory);
        world
    }

    fn start(&mut self, history: &History, directory: Option<&Path>) {
        let disk = directory.map(|directory| {
            Arc::new(Disk::open(directory, 8 << 20, |_, _| {}).expect("the directory can be used"))
        });
        self.disk = disk.clone();
        let memory = if history.is_small { 3000 } else { 1 << 20 };
        let new = |tier| Arc::new(Accelerator::new(Store::new(memory, tier)));
        // The cache without a disk is kept for the next history, which has keys of its own: to make one takes
        // longer than all else of a history.
        let (accelerator, space) = match disk {
            Some(disk) => (new(Some(disk as Arc<dyn Tier>)), 1),
            None => KEPT.with_borrow_mut(|kept| {
                kept.histories += 1;
                let accelerator =
                    kept.by_size[usize::from(history.is_small)].get_or_insert_with(|| new(None));
                (accelerator.clone(), kept.histories)
            }),
        };
        let policy = Policy { stale_if_error: 300, set_cookie: history.set_cookie, ..Policy::default() };
        let route = CachedRoute { accelerator: accelerator.clone(), policy: Arc::new(policy), space };
        self.handler = Some(AcceleratedInterface::new(route, Arc::new(Origin)).on_core(self.shared.clone()));
        self.accelerator = Some(accelerator);
    }

    /// Carries out an operation.
    pub async fn carry_out(&mut self, history: &History, operation: &Operation, directory: Option<&Path>) {
        self.shared.step.set(self.shared.step.get() + 1);
        match *operation {
            Operation::Ask { user, path, wish, is_head, is_bad } => {
                self.ask(user, path, wish, if is_head { "HEAD" } else { "GET" }, is_bad);
            }
            Operation::Change { path } => self.ask(0, path, 0, "POST", false),
            Operation::Deploy { path } => self.shared.versions.borrow_mut()[path] += 1,
            Operation::Release { which } => self.release(which, || Verdict::Answer),
            Operation::Fail { which, cuts } => {
                self.release(which, || if cuts { Verdict::Cut } else { Verdict::Error });
            }
            Operation::ReleaseAll => {
                let all = std::mem::take(&mut *self.shared.waiting.borrow_mut());
                all.into_iter().for_each(|waiting| _ = waiting.go.send(Verdict::Answer));
            }
            Operation::Leave { which } => {
                let mut running = self.clients.iter_mut().filter(|client| client.is_some());
                if let Some(client) = running.nth(which).and_then(Option::take) {
                    client.abort();
                }
            }
            Operation::Pass { seconds } => self.shared.now.set(self.shared.now.get() + seconds),
            Operation::Purge { path } => self.purge(path),
            Operation::Restart => {
                self.settle().await;
                self.clients.iter_mut().filter_map(Option::take).for_each(|client| client.abort());
                self.shared.waiting.borrow_mut().clear();
                self.settle().await;
                (self.handler, self.accelerator, self.disk) = (None, None, None);
                self.start(history, directory);
                self.settle().await;
            }
        }
        self.settle().await;
        let now = self.shared.now.get();
        self.shared.record.borrow_mut().clock.push(now);
    }

    fn purge(&mut self, path: usize) {
        let store = self.accelerator.as_ref().expect("it runs").store.clone();
        let purge = PurgeScope::Path { path: format!("/{path}").into_bytes(), is_prefix: true };
        store.purge(&purge, PurgeMode::Remove);
        let step = self.shared.step.get();
        self.shared.record.borrow_mut().purges.push((path, step));
    }

    fn release(&mut self, which: usize, verdict: impl Fn() -> Verdict) {
        let mut waiting = self.shared.waiting.borrow_mut();
        if which < waiting.len() {
            let _ = waiting.remove(which).go.send(verdict());
        }
    }

    fn ask(&mut self, user: usize, path: usize, wish: usize, method: &str, is_bad: bool) {
        let (began, time) = (self.shared.step.get(), self.shared.now.get());
        let is_head = method == "HEAD";
        let id = {
            let mut record = self.shared.record.borrow_mut();
            record.asked.push(Asked { user, path, wish, is_head, is_bad, began, time, got: None });
            if method == "POST" {
                record.purges.push((path, began));
            }
            record.asked.len() - 1
        };
        let text = format!(
            "{method} /{path} HTTP/1.1\r\nHost: a\r\nX-Id: {id}\r\n{}{}\r\n",
            USERS[user].fields, WISHES[wish]
        );
        let request = request(&text, path, USERS[user]);
        let (shared, handler) = (self.shared.clone(), self.handler.clone().expect("it runs"));
        self.clients.push(Some(tokio::task::spawn_local(async move {
            let handled = handler.handle(request).await;
            let Handled::Answer(answer) = handled else { panic!("no answer") };
            let got = receive(answer, is_head, &shared).await;
            shared.record.borrow_mut().asked[id].got = Some(got);
        })));
    }

    /// Runs everything until no task can continue.
    pub async fn settle(&self) {
        let rounds = if self.disk.is_some() { 3 } else { 0 };
        for round in 0..=rounds {
            for _ in 0..12 {
                tokio::task::yield_now().await;
            }
            if round < rounds {
                if let Some(disk) = &self.disk {
                    disk.flush();
                }
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        }
    }

    /// Lets the origin answer all requests, until there are no more.
    pub async fn end(&mut self, history: &History) {
        for _ in 0..40 {
            self.carry_out(history, &Operation::ReleaseAll, None).await;
            if self.shared.waiting.borrow().is_empty() {
                break;
            }
        }
        self.settle().await;
        self.clients.iter_mut().filter_map(Option::take).for_each(|client| client.abort());
        self.accelerator.as_ref().expect("it runs").store.purge(&PurgeScope::All, PurgeMode::Remove);
        WORLD.set(None);
    }
}

async fn receive(answer: Answer, is_head: bool, shared: &Shared) -> Got {
    let (mut received, mut is_whole) = (Vec::new(), true);
    for part in answer.body {
        match part {
            BodyPart::Bytes(bytes) => received.extend_from_slice(&bytes),
            BodyPart::Cached(prepared, range) => {
                let all = [prepared.first_buffer(), prepared.second_buffer()].concat();
                received.extend_from_slice(&all[range]);
            }
            BodyPart::Stream { mut body, length } => {
                let before = received.len() as u64;
                loop {
                    match body.next().await {
                        Some(Ok(piece)) => received.extend_from_slice(&piece),
                        Some(Err(_)) => {
                            is_whole = false;
                            break;
                        }
                        None => break,
                    }
                }
                is_whole &= length.is_none_or(|length| received.len() as u64 - before == length);
            }
            BodyPart::File { .. } => panic!("the origin has no files"),
        }
    }
    if is_head {
        received.clear();
    }
    Got {
        status: answer.status,
        fields: String::from_utf8_lossy(&answer.fields).into_owned(),
        body: String::from_utf8_lossy(&received).into_owned(),
        is_whole,
        ended: shared.step.get(),
        time: shared.now.get(),
    }
}

fn tls_of(user: User) -> TlsFacts {
    let certificates = if user.has_certificate { vec![vec![0x30]] } else { Vec::new() };
    TlsFacts { client_certificates: certificates.into(), ..TlsFacts::default() }
}

fn request(text: &str, path: usize, user: User) -> Request {
    let buffer = text.as_bytes().to_vec();
    let mut head = RequestHead::new();
    let limits = Limits { request_line_bytes: 1000, header_bytes: 4000, header_fields: 40 };
    assert_eq!(head.parse(&buffer, &limits), Ok(Parsed::Complete(buffer.len())), "{text}");
    let path: Bytes = format!("/{path}").into_bytes().into();
    let details = RequestDetails {
        received: Rc::new(ReceivedHead { head, buffer: buffer.into() }),
        protocol: Protocol::Http11,
        path: path.clone(),
        encoded_path: path,
        query: None,
        host: Some(Bytes::from_static(b"a")),
        site: 0,
        client: None,
        locator: None,
        trusted_proxy: None,
        server: "127.0.0.1:80".parse().expect("an address"),
        tls: Some(Arc::new(tls_of(user))),
        user: user.authenticated.map(Into::into),
        claims: None,
        bot: None,
        is_admitted: false,
        session: None,
        id: "".into(),
        depth: 0,
        connection: 1,
        stream: None,
        page_variables: None,
        route: None,
        trace: None,
    };
    Request::new(details, Receiver::of(Bytes::new()))
}
