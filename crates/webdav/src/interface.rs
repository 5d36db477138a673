//! The interface of a route with `webdav`, and its handlers.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use touchstone_files::own_files::OwnFiles;
use touchstone_files::root::Root;
use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::handler::{Handled, Handler, Interface, Level, LocalBoxFuture, Server};
use touchstone_handler::request::Request;
use touchstone_handler::service_counts::ServiceCounts;
use touchstone_handler::webdav_counts::Counts;
use touchstone_http::request::Method;

use crate::call::{Call, HttpConditions};
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::fields::{Depth, Origin, Place, depth, lock_token, overwrite, single};
use crate::if_header::IfHeader;
use crate::method::DavMethod;
use crate::operation::{
    Reply, Transfer, begin_upload, change_properties, delete, find_properties, lock, make_collection,
    transfer, unlock, write_properties,
};
use crate::settings::Settings;
use crate::store::{WebDavStores, problem_of_state};
use crate::tree::Tree;

/// About how many bytes of an upload are written at once.
const WRITE_BYTES: usize = 256 * 1024;

/// The files of a route.
pub struct WebDav {
    context: Arc<Context>,
    counts: Arc<Counts>,
}

impl WebDav {
    /// Opens the root, without the files of the server itself. The error describes the problem.
    pub fn open(
        settings: Settings,
        stores: &WebDavStores,
        counts: &ServiceCounts,
        own_files: Arc<OwnFiles>,
    ) -> std::result::Result<WebDav, String> {
        let named = |error: std::io::Error| format!("{}: {error}", settings.root.display());
        if let Some(problem) = problem_of_state(&settings.state, &settings.root) {
            return Err(problem);
        }
        let root = Root::new(&settings.root, settings.symlinks).map_err(named)?;
        let root = root.mounted_at(&settings.mount).without(own_files);
        let store = stores.open(&settings.state, &settings.root).map_err(named)?;
        let tree = Tree::new(root, settings.mount.clone(), settings.hidden_files);
        let counts = counts.webdav.of(settings.name.clone());
        counts.count_locks_of(&store);
        Ok(WebDav { context: Arc::new(Context { settings: Arc::new(settings), tree, store }), counts })
    }
}

impl Interface for WebDav {
    fn name(&self) -> &'static str {
        "webdav"
    }

    fn on_core(&self, server: Rc<dyn Server>) -> Rc<dyn Handler> {
        Rc::new(HandlerOfCore { context: self.context.clone(), counts: self.counts.clone(), server })
    }

    fn takes_escapes(&self) -> bool {
        false
    }

    fn judges_parameters(&self) -> bool {
        false
    }
}

struct HandlerOfCore {
    context: Arc<Context>,
    counts: Arc<Counts>,
    server: Rc<dyn Server>,
}

impl Handler for HandlerOfCore {
    fn handle(self: Rc<Self>, request: Request) -> LocalBoxFuture<Handled> {
        Box::pin(async move {
            match request.method() {
                Method::Get | Method::Head => Handled::File(Box::new(request)),
                Method::Options => Handled::Answer(self.options()),
                _ => Handled::Answer(self.answer(request).await),
            }
        })
    }
}

/// Runs work that waits for the disk on a thread that may.
async fn on_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(Failure::new(500).detail(error)),
    }
}

impl HandlerOfCore {
    fn options(&self) -> Answer {
        let settings = &self.context.settings;
        let answer = Answer::new(200).field("Allow", &settings.allow());
        match settings.classes() {
            // Some clients of Microsoft need the second field.
            Some(classes) => answer.field("DAV", classes).field("MS-Author-Via", "DAV"),
            None => answer,
        }
    }

    async fn answer(&self, request: Request) -> Answer {
        let settings = &self.context.settings;
        let method = DavMethod::from_name(request.received.method_text());
        self.counts.requested(method.map_or("", DavMethod::name));
        let Some(method) = method.filter(|method| settings.allows(*method)) else {
            let is_known = method.is_some() || request.method() != Method::Other;
            let status = if is_known { 405 } else { 501 };
            self.counts.refused(status);
            let answer = Answer::error(status);
            return if is_known { answer.field("Allow", &settings.allow()) } else { answer };
        };
        let facts = request.without_body();
        match self.run(method, request).await {
            Ok(reply) => answer_of(reply),
            Err(failure) => {
                self.counts.refused(failure.status);
                if !failure.detail.is_empty() {
                    let path = facts.path.escape_ascii();
                    let message = format!("{} {path}: {}", method.name(), failure.detail);
                    self.server.log(Level::Warning, "WebDAV request failed", &message);
                }
                let answer = failure.answer();
                let allow = settings.allow();
                if failure.status == 405 { answer.field("Allow", &allow) } else { answer }
            }
        }
    }

    async fn run(&self, method: DavMethod, mut request: Request) -> Result<Reply> {
        let mut call = self.call(method, &request)?;
        let context = self.context.clone();
        if matches!(method, DavMethod::Propfind | DavMethod::Proppatch | DavMethod::Mkcol | DavMethod::Lock) {
            let body = request.body.collect(context.settings.xml_bytes).await;
            call.body = body.map_err(|error| broken_body(&error))?;
        }
        let path = call.path.clone();
        match method {
            DavMethod::Propfind => self.propfind(&request, call).await,
            DavMethod::Put => {
                let reply = self.put(&mut request, call).await?;
                self.server.forget_files(&[last_name(&path)]);
                Ok(reply)
            }
            DavMethod::Delete => {
                self.check_paths(&request, &path).await?;
                let reply = on_thread(move || delete(&context, &call)).await?;
                self.server.forget_files(&[last_name(&path)]);
                Ok(reply)
            }
            DavMethod::Copy | DavMethod::Move => self.transfer(method, &request, call).await,
            DavMethod::Proppatch => on_thread(move || change_properties(&context, &call)).await,
            DavMethod::Mkcol => on_thread(move || make_collection(&context, &call)).await,
            DavMethod::Lock => on_thread(move || lock(&context, &call)).await,
            DavMethod::Unlock => {
                let token = lock_token(single(&request, "lock-token")?)?;
                on_thread(move || unlock(&context, &call, &token)).await
            }
        }
    }

    /// The parts of the head of a request.
    fn call(&self, method: DavMethod, request: &Request) -> Result<Call> {
        let if_header = match single(request, "if")? {
            None => None,
            Some(value) => Some(IfHeader::parse(value).ok_or_else(|| Failure::new(400))?),
        };
        let values = |name: &'static str| request.received.values(name).map(<[u8]>::to_vec).collect();
        let depth = match single(request, "depth")? {
            None => None,
            // The value for an absent field has no effect.
            value => Some(depth(value, Depth::Infinity)?),
        };
        if method == DavMethod::Put && request.received.values("content-range").next().is_some() {
            // RFC 9110 section 14.5: a part would be regarded as the whole content.
            return Err(Failure::new(400));
        }
        Ok(Call {
            path: request.path.to_vec(),
            origin: Origin::of(request),
            user: request.user.as_deref().map(str::to_string),
            tokens: if_header.iter().flat_map(IfHeader::tokens).map(str::to_string).collect(),
            if_header,
            conditions: HttpConditions {
                if_match: values("if-match"),
                if_none_match: values("if-none-match"),
                if_unmodified_since: values("if-unmodified-since"),
            },
            depth,
            timeout: single(request, "timeout")?.map(<[u8]>::to_vec),
            body: Vec::new(),
        })
    }

    async fn propfind(&self, request: &Request, call: Call) -> Result<Reply> {
        let call = Arc::new(call);
        let (context, own) = (self.context.clone(), call.clone());
        let (mut entries, query) = on_thread(move || find_properties(&context, &own)).await?;
        if self.context.settings.shares_paths {
            // What another route answers for is not shown: it may have other rules.
            entries.retain(|entry| entry.path == call.path || self.is_own(request, b"GET", &entry.path));
        }
        let context = self.context.clone();
        on_thread(move || write_properties(&context, &call, &entries, &query)).await
    }

    async fn put(&self, request: &mut Request, call: Call) -> Result<Reply> {
        let call = Arc::new(call);
        let (context, own) = (self.context.clone(), call.clone());
        let mut upload = on_thread(move || begin_upload(&context, &own)).await?;
        let (mut pieces, mut held_bytes) = (Vec::new(), 0);
        loop {
            let piece = request.body.next().await.transpose().map_err(|error| broken_body(&error))?;
            let is_end = piece.is_none();
            held_bytes += piece.as_ref().map_or(0, Bytes::len);
            pieces.extend(piece);
            if held_bytes >= WRITE_BYTES || is_end && held_bytes > 0 {
                let ready = std::mem::take(&mut pieces);
                let written_bytes = std::mem::take(&mut held_bytes) as u64;
                upload = on_thread(move || {
                    for piece in &ready {
                        upload.write(piece)?;
                    }
                    Ok(upload)
                })
                .await?;
                self.counts.written_bytes.add(written_bytes);
            }
            if is_end {
                break;
            }
        }
        let context = self.context.clone();
        on_thread(move || upload.finish(&context, &call)).await
    }

    async fn transfer(&self, method: DavMethod, request: &Request, call: Call) -> Result<Reply> {
        let context = self.context.clone();
        let is_copy = method == DavMethod::Copy;
        let destination = single(request, "destination")?.ok_or_else(|| Failure::new(400))?;
        let to = match call.origin.place(destination, context.settings.path_rules) {
            None => return Err(Failure::new(400)),
            // RFC 4918 section 9.8.5
            Some(Place::Elsewhere) => return Err(Failure::new(502)),
            Some(Place::Here(path)) => path,
        };
        let what = Transfer { to: to.clone(), overwrite: overwrite(single(request, "overwrite")?)?, is_copy };
        // The rules that this request has passed are those of its own path.
        if !self.is_own(request, b"PUT", &to) {
            return Err(Failure::new(403));
        }
        self.check_paths(request, &call.path).await?;
        self.check_paths(request, &to).await?;
        let path = call.path.clone();
        let reply = on_thread(move || transfer(&context, &call, &what)).await?;
        self.server.forget_files(&[last_name(&path), last_name(&to)]);
        Ok(reply)
    }

    /// Whether this route answers for a path, with the method of the request and with another one.
    fn is_own(&self, request: &Request, method: &[u8], path: &[u8]) -> bool {
        self.server.matches_same_route(request, request.received.method_text(), path)
            && self.server.matches_same_route(request, method, path)
    }

    /// Refuses to change or copy a tree with paths that another route answers for.
    async fn check_paths(&self, request: &Request, path: &[u8]) -> Result<()> {
        if !self.context.settings.shares_paths {
            return Ok(());
        }
        let (context, path) = (self.context.clone(), path.to_vec());
        let paths = on_thread(move || context.paths_below(&path)).await?;
        let is_own =
            |path: &Vec<u8>| self.is_own(request, b"GET", path) && self.is_own(request, b"PUT", path);
        if paths.iter().all(is_own) { Ok(()) } else { Err(Failure::new(403)) }
    }
}

/// The failure if a body breaks off, or is too long.
fn broken_body(error: &std::io::Error) -> Failure {
    Failure::new(if error.kind() == std::io::ErrorKind::FileTooLarge { 413 } else { 400 })
}

fn last_name(path: &[u8]) -> &[u8] {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

fn answer_of(reply: Reply) -> Answer {
    let mut answer = Answer::new(reply.status);
    for (name, value) in &reply.fields {
        answer = answer.field(name, value);
    }
    if reply.body.is_empty() {
        return answer;
    }
    answer
        .field("Content-Type", "application/xml; charset=utf-8")
        .part(BodyPart::Bytes(Bytes::from(reply.body)))
}
