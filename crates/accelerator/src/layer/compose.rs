//! The layer that composes pages from parts (Edge Side Includes), in front of the cache: the page and each
//! part go through the cache by their own rules, and the composed page is not stored.
//!
//! All parts are fetched in parallel, and written in order as they arrive.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use rustc_hash::FxHashSet;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, spawn_blocking, spawn_local};
use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::handler::{
    Handled, Handler, Interface, InterfaceLayer, Level, LocalBoxFuture, Server,
};
use touchstone_handler::pipe::{ReceiverDropped, Sender, pipe};
use touchstone_handler::request::{ReceivedHead, Request};
use touchstone_http::request::Method;
use touchstone_http::target::is_at_or_below;

use super::CachedRoute;
use crate::rules::esi::{Include, Node, is_page, parse};
use crate::rules::fields::{FieldText, Fields, append, lines};
use crate::rules::invalidation::same_origin_target;
use crate::store::hash_of;

/// The maximum length of a page before it is composed, in bytes.
const MOST_PAGE_BYTES: usize = 4 * 1024 * 1024;

/// The maximum length of a part, in bytes.
const MOST_PART_BYTES: usize = 16 * 1024 * 1024;

/// The maximum number of includes of a page, of a part that contains includes, and of a part of that part.
/// Deeper includes are not composed.
const MOST_INCLUDES: [usize; 3] = [128, 16, 4];

/// The maximum number of parts of one page that are fetched in parallel.
const MOST_AT_ONCE: usize = 32;

/// The maximum number of remembered targets that are pages; if there are more, all are forgotten.
const MOST_KNOWN_PAGES: usize = 4096;

/// The maximum part of a composed page that waits for a slower client.
const PIPE_BYTES: usize = 128 * 1024;

/// An interface with its cache, whose pages are composed.
pub struct ComposedInterface {
    inner: Arc<dyn Interface>,
    route: CachedRoute,
    /// The prefix of the paths of parts: the route's own path.
    path: Arc<[u8]>,
}

impl ComposedInterface {
    /// Composes the pages of `inner`, a route with the path `path`.
    pub fn new(inner: Arc<dyn Interface>, route: CachedRoute, path: &str) -> ComposedInterface {
        ComposedInterface { inner, route, path: path.as_bytes().into() }
    }
}

impl InterfaceLayer for ComposedInterface {
    fn inner(&self) -> &dyn Interface {
        &*self.inner
    }

    fn around(&self, inner: Rc<dyn Handler>, server: Rc<dyn Server>) -> Rc<dyn Handler> {
        let (route, path) = (self.route.clone(), self.path.clone());
        Rc::new(ComposedOfCore { inner, route, path, server, known_pages: RefCell::default() })
    }
}

struct ComposedOfCore {
    inner: Rc<dyn Handler>,
    route: CachedRoute,
    path: Arc<[u8]>,
    server: Rc<dyn Server>,
    /// The hashes of targets that were pages at their last request.
    known_pages: RefCell<FxHashSet<u64>>,
}

impl Handler for ComposedOfCore {
    fn handle(self: Rc<Self>, request: Request) -> LocalBoxFuture<Handled> {
        Box::pin(self.answer(request))
    }
}

/// Fields of a page that do not apply to the composed page.
const LEFT_OUT: [&str; 15] = [
    "accept-ranges",
    "age",
    "cache-control",
    "cdn-cache-control",
    "content-digest",
    "content-length",
    "content-md5",
    "digest",
    "etag",
    "expires",
    "last-modified",
    "no-vary-search",
    "repr-digest",
    "surrogate-control",
    "use-as-dictionary",
];

/// Fields of a request because of which an answer may not be the whole page.
const OF_FORM: [&str; 5] = ["accept-encoding", "if-modified-since", "if-none-match", "if-range", "range"];

impl ComposedOfCore {
    async fn answer(self: Rc<Self>, mut request: Request) -> Handled {
        let details = request.without_body();
        let is_get = details.method() == Method::Get;
        let target = hash_of_target(&details);
        // Requests that change something cannot be sent twice, and a page is not requested in a form that
        // cannot be composed. All other requests are unchanged: scripts and images are not pages.
        let is_safe = matches!(details.method(), Method::Get | Method::Head);
        if !is_safe || (is_get && self.known_pages.borrow().contains(&target)) {
            request.received = whole_form(&details).unwrap_or_else(|| details.received.clone());
        }
        let handled = self.inner.clone().handle(request).await;
        let mut answer = match handled {
            Handled::Answer(answer) => answer,
            other => return other,
        };
        if is_get && self.may_be_form_of_page(&answer) {
            let Some(head) = whole_form(&details) else { return Handled::Answer(answer) };
            let mut whole = details.without_body();
            whole.received = head;
            match self.inner.clone().handle(whole).await {
                Handled::Answer(whole) if is_page(&self.route.policy, whole.status, &whole.fields) => {
                    answer = whole;
                }
                _ => return Handled::Answer(answer),
            }
        }
        let is_page = is_page(&self.route.policy, answer.status, &answer.fields);
        if is_get {
            self.note(target, is_page);
        }
        if !is_page {
            return Handled::Answer(answer);
        }
        answer.declared_length = None;
        if details.method() == Method::Head {
            return Handled::Answer(with_fields_of_composed(answer));
        }
        Handled::Answer(match self.composed(&details, answer).await {
            Ok(answer) => answer,
            Err(why) => {
                let path = details.encoded_path.escape_ascii();
                self.server.log(Level::Warning, "a page of parts", &format!("{path}: {why}"));
                Answer::error(502)
            }
        })
    }

    /// Remembers whether a target is a page.
    fn note(&self, target: u64, is_page: bool) {
        let mut known = self.known_pages.borrow_mut();
        if !is_page {
            known.remove(&target);
            return;
        }
        if known.len() >= MOST_KNOWN_PAGES {
            known.clear();
        }
        known.insert(target);
    }

    /// Whether the answer is compressed, is partial, or states that the page has not changed.
    fn may_be_form_of_page(&self, answer: &Answer) -> bool {
        matches!(answer.status, 206 | 304)
            || (FieldText(&answer.fields).has("content-encoding")
                && is_page(&self.route.policy, answer.status, &answer.fields))
    }

    /// Parses the page and starts the fetches of its parts; the error states why that is impossible.
    async fn composed(self: &Rc<Self>, details: &Request, mut answer: Answer) -> Result<Answer, String> {
        if FieldText(&answer.fields).has("content-encoding") {
            return Err("the page is compressed, so its parts cannot be found".to_string());
        }
        let Some(&most_includes) = MOST_INCLUDES.get(details.depth as usize) else {
            return Err("parts are nested too deep".to_string());
        };
        let page = whole_body(std::mem::take(&mut answer.body), MOST_PAGE_BYTES).await?;
        let nodes = parse(&page, most_includes)
            .map_err(|fault| format!("{}, at byte {}", fault.message, fault.position))?;
        let composition = Rc::new(Composition {
            of_core: self.clone(),
            page: details.without_body(),
            at_once: Rc::new(Semaphore::new(MOST_AT_ONCE)),
        });
        let (mut sender, body) = pipe(PIPE_BYTES);
        spawn_local(async move {
            let pieces = composition.begin(nodes);
            // Dropping the pipe without its end informs the connection that the page broke off.
            if composition.write(pieces, &mut sender).await.is_ok() {
                sender.finish();
            }
        });
        answer.body = vec![BodyPart::Stream { body, length: None }];
        answer.date = None;
        Ok(with_fields_of_composed(answer))
    }
}

/// The head of a request for the whole page without conditions; `None`: the request has no valid one.
fn whole_form(request: &Request) -> Option<Rc<ReceivedHead>> {
    let is_of_form = |name: &[u8]| OF_FORM.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()));
    request.received.with_fields(|name| !is_of_form(name), []).map(Rc::new)
}

/// The hash of host, path and query.
fn hash_of_target(request: &Request) -> u64 {
    let mut target = request.host.as_deref().unwrap_or_default().to_vec();
    target.extend_from_slice(&request.path_and_query());
    hash_of(&target)
}

/// No cache may store the composed page: a part may be private to one client.
fn with_fields_of_composed(mut answer: Answer) -> Answer {
    let mut fields = Vec::with_capacity(answer.fields.len());
    let is_left_out = |name: &[u8]| LEFT_OUT.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()));
    for (name, value) in lines(&answer.fields).filter(|(name, _)| !is_left_out(name)) {
        append(&mut fields, name, value);
    }
    append(&mut fields, b"Cache-Control", b"private, no-cache");
    answer.fields = fields;
    answer
}

/// A page that is being composed.
struct Composition {
    of_core: Rc<ComposedOfCore>,
    /// The request for the page, without its body.
    page: Request,
    at_once: Rc<Semaphore>,
}

/// A piece of the page whose fetches have started.
enum Piece {
    Text(Bytes),
    Part { fetch: PartFetch, is_optional: bool },
    Try { attempt: Vec<Piece>, except: Vec<Node> },
}

/// A piece that is complete.
enum FetchedPiece {
    Text(Bytes),
    Answer(Answer),
}

/// A part that is being fetched. Dropping it cancels the fetch.
struct PartFetch(JoinHandle<Option<Answer>>);

impl Drop for PartFetch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Why a page, or a part of it, cannot be written completely.
enum Stopped {
    /// The client has disconnected.
    Gone,
    /// A part is not available.
    NoPart,
}

impl From<ReceiverDropped> for Stopped {
    fn from(_: ReceiverDropped) -> Stopped {
        Stopped::Gone
    }
}

impl Composition {
    /// Starts to fetch all parts.
    fn begin(self: &Rc<Self>, nodes: Vec<Node>) -> Vec<Piece> {
        let begin = |node| match node {
            Node::Text(text) => Piece::Text(text),
            Node::Include(include) => {
                let is_optional = include.is_optional;
                let fetch = PartFetch(spawn_local(self.clone().fetch(include)));
                Piece::Part { fetch, is_optional }
            }
            Node::Try { attempt, except } => Piece::Try { attempt: self.begin(attempt), except },
        };
        nodes.into_iter().map(begin).collect()
    }

    /// Fetches a part from its first address, or from its alternative.
    async fn fetch(self: Rc<Self>, include: Include) -> Option<Answer> {
        for target in [Some(include.src), include.alt].into_iter().flatten() {
            match self.fetch_from(&target).await {
                Ok(answer) => return Some(answer),
                Err(_) if include.is_optional => {}
                Err(why) => {
                    let target = target.escape_ascii();
                    let page = self.page.encoded_path.escape_ascii();
                    let message = format!("{page} is without {target}: {why}");
                    self.of_core.server.log(Level::Warning, "a part of a page", &message);
                }
            }
        }
        None
    }

    async fn fetch_from(&self, target: &[u8]) -> Result<Answer, String> {
        let request = self.request_for(target)?;
        let permit = self.at_once.acquire().await;
        let answer = self.of_core.server.answer(request).await;
        drop(permit);
        if !(200..300).contains(&answer.status) || answer.status == 206 {
            return Err(format!("it answered {}", answer.status));
        }
        if FieldText(&answer.fields).has("content-encoding") {
            return Err("it is compressed".to_string());
        }
        if answer.body_length().is_some_and(|length| length > MOST_PART_BYTES as u64) {
            return Err(format!("it is longer than {MOST_PART_BYTES} bytes"));
        }
        Ok(answer)
    }

    /// The request for a part: for the same client, to the same origin, and by the same route. So a text that
    /// was injected into a page can only request resources that its client may request.
    fn request_for(&self, target: &[u8]) -> Result<Request, String> {
        let page = &self.page;
        let host = page.host.as_deref().unwrap_or_default();
        let (path, query) = same_origin_target(target, page.is_https(), host, &page.encoded_path)
            .ok_or("it is not at the origin of the page")?;
        let written = match query {
            Some(query) => [&path[..], b"?", &query[..]].concat(),
            None => path,
        };
        let mut request = page.derive(&written).ok_or("it is not a path")?;
        if !is_at_or_below(&request.path, &self.of_core.path) {
            return Err("it is not on the route of the page".to_string());
        }
        let is_coding = |name: &[u8]| name.eq_ignore_ascii_case(b"accept-encoding");
        let head = request.received.with_fields(|name| !is_coding(name), []).ok_or("it is not a path")?;
        request.received = Rc::new(head);
        Ok(request)
    }

    /// Writes pieces in order, as they arrive.
    fn write<'a>(
        self: &'a Rc<Self>,
        pieces: Vec<Piece>,
        sender: &'a mut Sender,
    ) -> Pin<Box<dyn Future<Output = Result<(), Stopped>> + 'a>> {
        Box::pin(async move {
            for piece in pieces {
                match piece {
                    Piece::Text(text) => sender.send(text).await?,
                    Piece::Part { mut fetch, .. } => {
                        let fetched = tokio::select! {
                            fetched = &mut fetch.0 => fetched,
                            () = sender.gone() => return Err(Stopped::Gone),
                        };
                        if let Ok(Some(answer)) = fetched {
                            self.write_answer(answer, sender).await?;
                        }
                    }
                    Piece::Try { attempt, except } => {
                        let ready = tokio::select! {
                            ready = self.ready(attempt) => ready,
                            () = sender.gone() => return Err(Stopped::Gone),
                        };
                        match ready {
                            Ok(ready) => self.write_ready(ready, sender).await?,
                            Err(_) => self.write(self.begin(except), sender).await?,
                        }
                    }
                }
            }
            Ok(())
        })
    }

    /// Waits for all parts of an attempt.
    fn ready<'a>(
        self: &'a Rc<Self>,
        pieces: Vec<Piece>,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<FetchedPiece>, Stopped>> + 'a>> {
        Box::pin(async move {
            let mut all = Vec::with_capacity(pieces.len());
            for piece in pieces {
                match piece {
                    Piece::Text(text) => all.push(FetchedPiece::Text(text)),
                    Piece::Part { mut fetch, is_optional } => match (&mut fetch.0).await {
                        Ok(Some(answer)) => all.push(FetchedPiece::Answer(answer)),
                        _ if is_optional => {}
                        _ => return Err(Stopped::NoPart),
                    },
                    Piece::Try { attempt, except } => match self.ready(attempt).await {
                        Ok(ready) => all.extend(ready),
                        Err(_) => all.extend(self.ready(self.begin(except)).await?),
                    },
                }
            }
            Ok(all)
        })
    }

    async fn write_ready(&self, ready: Vec<FetchedPiece>, sender: &mut Sender) -> Result<(), Stopped> {
        for piece in ready {
            match piece {
                FetchedPiece::Text(text) => sender.send(text).await?,
                FetchedPiece::Answer(answer) => self.write_answer(answer, sender).await?,
            }
        }
        Ok(())
    }

    async fn write_answer(&self, answer: Answer, sender: &mut Sender) -> Result<(), Stopped> {
        let mut written = 0;
        for part in answer.body {
            if let BodyPart::Stream { mut body, .. } = part {
                while let Some(piece) = body.next().await {
                    let Ok(piece) = piece else { return self.broke_off("it broke off") };
                    written += piece.len();
                    if written > MOST_PART_BYTES {
                        return self.broke_off("it is too long");
                    }
                    sender.send(piece).await?;
                }
                continue;
            }
            match bytes_of(part).await {
                Ok(bytes) => sender.send(bytes).await?,
                Err(_) => return self.broke_off("it cannot be read"),
            }
        }
        Ok(())
    }

    /// A part that has started is incomplete, so the page is too.
    fn broke_off(&self, why: &str) -> Result<(), Stopped> {
        let page = self.page.encoded_path.escape_ascii();
        let message = format!("{page} ends within a part: {why}");
        self.of_core.server.log(Level::Warning, "a part of a page", &message);
        Err(Stopped::NoPart)
    }
}

/// The body of a part that is not a stream.
async fn bytes_of(part: BodyPart) -> std::io::Result<Bytes> {
    match part {
        BodyPart::Bytes(bytes) => Ok(bytes),
        BodyPart::Cached(prepared, range) => {
            Ok(Bytes::copy_from_slice(prepared.body().get(range).unwrap_or_default()))
        }
        BodyPart::File { file, offset, length } => {
            let file = File::from(file.try_clone()?);
            let length = usize::try_from(length).unwrap_or(usize::MAX).min(MOST_PART_BYTES);
            let read = move || {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, offset).map(|()| Bytes::from(bytes))
            };
            spawn_blocking(read).await.unwrap_or_else(|error| Err(std::io::Error::other(error)))
        }
        BodyPart::Stream { .. } => Ok(Bytes::new()),
    }
}

/// A whole body of at most this many bytes.
async fn whole_body(parts: Vec<BodyPart>, most: usize) -> Result<Bytes, String> {
    let mut whole = Vec::new();
    for part in parts {
        let piece: Bytes = match part {
            BodyPart::Stream { mut body, .. } => {
                body.collect(most).await.map_err(|error| error.to_string())?.into()
            }
            part => bytes_of(part).await.map_err(|error| error.to_string())?,
        };
        if whole.len() + piece.len() > most {
            return Err(format!("the page is longer than {most} bytes"));
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.into())
}
