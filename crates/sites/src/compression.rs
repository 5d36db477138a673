//! Compresses the answers of programs and origins, according to the `compression` keys of their site.
//!
//! It is an interface in front of another one, behind the cache. The cache therefore stores one form for each
//! coding that was requested; `Vary: Accept-Encoding`, which every answer gets that can be compressed,
//! distinguishes them. A strong entity tag identifies the original bytes, so it is made weak.
//!
//! A body is compressed as it arrives, and flushed whenever the program pauses. Requests that accept no
//! coding take the shorter paths to a program.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use touchstone_config::{RouteConfig, SiteConfig};
use touchstone_files::coding::{CodingSettings, LEAST_BYTES};
use touchstone_files::compress::{Compressor, compress};
use touchstone_files::mime::is_compressible;
use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::handler::{
    CallResult, CallUnderWay, Caller, ConnectionReturn, Handled, Handler, ImmediateAnswer, Interface,
    LocalBoxFuture, PendingCall, Server,
};
use touchstone_handler::interim::TakesInterim;
use touchstone_handler::pipe::{Receiver, Sender, pipe};
use touchstone_handler::request::{PlainGet, Request};
use touchstone_http::content_coding::{AcceptEncoding, ContentCoding};
use touchstone_http::grammar::list_members;
use touchstone_http::request::Method;

use crate::changed_answer::{change_fields, fields, forbids_change, forget_length};

/// A complete body up to this size is compressed at once, which takes about a millisecond.
const AT_ONCE_BYTES: usize = 32 * 1024;

/// The most bytes of a compressed body that wait for the client.
const PIPE_BYTES: usize = 64 * 1024;

/// An interface whose answers are compressed.
struct CompressedInterface {
    interface: Arc<dyn Interface>,
    settings: CodingSettings,
}

/// The content codings of a site.
pub fn settings(config: &SiteConfig) -> CodingSettings {
    settings_with(&config.compression, config)
}

fn settings_with(codings: &[ContentCoding], config: &SiteConfig) -> CodingSettings {
    let mut levels = [None; 3];
    for &coding in codings {
        levels[coding as usize] = Some(config.compression_levels[coding as usize]);
    }
    // Codings that are not made here may still be read from precompressed files.
    let mut order = ContentCoding::ALL;
    let listed = |coding: &ContentCoding| codings.iter().position(|each| each == coding);
    order.sort_by_key(|coding| listed(coding).unwrap_or(usize::MAX));
    CodingSettings { order, levels, precompressed: config.precompressed }
}

/// The same for a route.
pub fn settings_of(route: &RouteConfig, site: &SiteConfig) -> CodingSettings {
    settings_with(route.compression.as_ref().unwrap_or(&site.compression), site)
}

/// Compresses the answers of an interface according to these settings.
pub fn open(interface: Arc<dyn Interface>, settings: CodingSettings) -> Arc<dyn Interface> {
    match settings.levels {
        [None, None, None] => interface,
        _ => Arc::new(CompressedInterface { interface, settings }),
    }
}

impl Interface for CompressedInterface {
    fn name(&self) -> &'static str {
        self.interface.name()
    }

    fn on_core(&self, server: Rc<dyn Server>) -> Rc<dyn Handler> {
        Rc::new(CompressedHandler { handler: self.interface.on_core(server), settings: self.settings })
    }

    fn begins_early(&self) -> bool {
        self.interface.begins_early()
    }

    fn answers_at_once(&self) -> bool {
        self.interface.answers_at_once()
    }

    fn is_called(&self) -> bool {
        self.interface.is_called()
    }

    fn judges_parameters(&self) -> bool {
        self.interface.judges_parameters()
    }

    fn takes_missing_length(&self) -> bool {
        self.interface.takes_missing_length()
    }

    fn takes_escapes(&self) -> bool {
        self.interface.takes_escapes()
    }

    fn caller(&self, connection_return: Arc<dyn ConnectionReturn>) -> Option<Box<dyn Caller>> {
        let caller = self.interface.caller(connection_return)?;
        Some(Box::new(PlainCaller { caller, settings: self.settings }))
    }
}

struct CompressedHandler {
    handler: Rc<dyn Handler>,
    settings: CodingSettings,
}

impl Handler for CompressedHandler {
    fn handle(self: Rc<Self>, request: Request) -> LocalBoxFuture<Handled> {
        let wanted = AnswerForm::of(&request, &self.settings);
        let handled = self.handler.clone().handle(request);
        Box::pin(async move { wanted.apply_to(handled.await) })
    }

    fn answer_at_once(self: Rc<Self>, request: &PlainGet<'_>, body: &mut Vec<u8>) -> ImmediateAnswer {
        if coding_for(&self.settings, request.head.accept_encoding).is_some() {
            return ImmediateAnswer::Handle;
        }
        match self.handler.clone().answer_at_once(request, body) {
            ImmediateAnswer::Answer(answer) => ImmediateAnswer::Answer(add_vary_if_codable(answer)),
            ImmediateAnswer::Written(answer) => {
                ImmediateAnswer::Written(add_vary_if_codable_with(answer, body.len() as u64))
            }
            ImmediateAnswer::Pending(pending) => ImmediateAnswer::Pending(Box::new(PlainPending(pending))),
            ImmediateAnswer::Handle => ImmediateAnswer::Handle,
        }
    }

    fn await_call(
        self: Rc<Self>,
        call: CallUnderWay,
        interim: Rc<dyn TakesInterim>,
    ) -> LocalBoxFuture<Answer> {
        let answer = self.handler.clone().await_call(call, interim);
        Box::pin(async move { add_vary_if_codable(answer.await) })
    }
}

/// A request that was started for a client that accepts no coding.
struct PlainPending(Box<dyn PendingCall>);

impl PendingCall for PlainPending {
    fn limit(&self) -> Duration {
        self.0.limit()
    }

    fn poll_answer(&mut self, context: &mut Context<'_>, give: &mut dyn FnMut(Answer, &[u8])) -> Poll<()> {
        self.0.poll_answer(context, &mut |answer, body| {
            give(add_vary_if_codable_with(answer, body.len() as u64), body);
        })
    }

    fn continue_request(self: Box<Self>, request: Request) -> LocalBoxFuture<Handled> {
        let wanted = AnswerForm { coding: None, level: 0, is_head: false, if_none_match: Vec::new() };
        let handled = self.0.continue_request(request);
        Box::pin(async move { wanted.apply_to(handled.await) })
    }
}

/// Calls programs for clients that accept no coding.
struct PlainCaller {
    caller: Box<dyn Caller>,
    settings: CodingSettings,
}

impl Caller for PlainCaller {
    fn takes(&mut self, request: &PlainGet<'_>) -> bool {
        coding_for(&self.settings, request.head.accept_encoding).is_none() && self.caller.takes(request)
    }

    fn call(&mut self, request: &PlainGet<'_>) -> CallResult {
        match self.caller.call(request) {
            CallResult::Answer(answer) => CallResult::Answer(add_vary_if_codable(answer)),
            CallResult::Written(answer) => {
                CallResult::Written(add_vary_if_codable_with(answer, self.caller.body().len() as u64))
            }
            CallResult::ConnectionReturned => CallResult::ConnectionReturned,
        }
    }

    fn body(&self) -> &[u8] {
        self.caller.body()
    }

    fn with_head<'a>(&'a mut self, head: &'a [u8]) -> [&'a [u8]; 2] {
        self.caller.with_head(head)
    }
}

/// The coding for a client; `None`: none.
fn coding_for(settings: &CodingSettings, accepted: AcceptEncoding) -> Option<ContentCoding> {
    if accepted.is_absent() {
        return None;
    }
    for group in accepted.preference(&settings.order).groups() {
        let coding = group.codings().find(|&coding| settings.levels[coding as usize].is_some());
        if coding.is_some() || group.identity {
            return coding;
        }
    }
    None
}

/// The form of the answer that a request allows.
pub struct AnswerForm {
    coding: Option<ContentCoding>,
    level: u8,
    is_head: bool,
    /// The values of its If-None-Match fields.
    if_none_match: Vec<u8>,
}

impl AnswerForm {
    /// The form for a request, if these codings are made.
    pub fn of(request: &Request, settings: &CodingSettings) -> AnswerForm {
        let head = &request.received.head;
        let coding = coding_for(settings, head.accept_encoding);
        let level = coding.and_then(|coding| settings.levels[coding as usize]).unwrap_or_default();
        let mut if_none_match = Vec::new();
        for (name, value) in request.received.fields().filter(|_| head.has_conditions_or_range) {
            if name.eq_ignore_ascii_case(b"if-none-match") {
                if_none_match.extend_from_slice(value);
                if_none_match.push(b',');
            }
        }
        AnswerForm { coding, level, is_head: head.method == Method::Head, if_none_match }
    }

    fn apply_to(self, handled: Handled) -> Handled {
        match handled {
            Handled::Answer(answer) => Handled::Answer(self.apply(answer)),
            other => other,
        }
    }

    /// Changes an answer to that form, if it can have it.
    pub fn apply(self, mut answer: Answer) -> Answer {
        if answer.status == 304 {
            self.weaken_as_known(&mut answer);
            return answer;
        }
        let length_for_get = answer.declared_length.unwrap_or(u64::MAX);
        if !may_be_coded(&answer, self.is_head.then_some(length_for_get)) {
            return answer;
        }
        add_vary(&mut answer.fields);
        let Some(coding) = self.coding else { return answer };
        change_fields(&mut answer.fields, &[]);
        if self.is_head {
            forget_length(&mut answer);
            return answer;
        }
        answer.fields.extend_from_slice(format!("Content-Encoding: {}\r\n", coding.token()).as_bytes());
        answer.declared_length = None;
        compress_body(answer, coding, self.level)
    }

    /// A 304 refers to the client's copy: if that copy is compressed, its entity tag is the weak one.
    fn weaken_as_known(&self, answer: &mut Answer) {
        let has_weak = |tag: &[u8]| {
            self.if_none_match
                .windows(tag.len() + 2)
                .any(|known| known.starts_with(b"W/") && &known[2..] == tag)
        };
        let tag = field(&answer.fields, b"etag").filter(|tag| tag.starts_with(b"\"") && has_weak(tag));
        if tag.is_some() {
            change_fields(&mut answer.fields, &[]);
            add_vary(&mut answer.fields);
        }
    }
}

/// Adds `Vary` to an answer that is not compressed but could be.
fn add_vary_if_codable(mut answer: Answer) -> Answer {
    if may_be_coded(&answer, None) {
        add_vary(&mut answer.fields);
    }
    answer
}

/// The same for an answer whose body is stored elsewhere and has this length.
fn add_vary_if_codable_with(mut answer: Answer, body_bytes: u64) -> Answer {
    if may_be_coded(&answer, Some(body_bytes)) {
        add_vary(&mut answer.fields);
    }
    answer
}

/// Whether the answer is compressed for clients that accept a coding. `body_bytes`: the length of a body that
/// is not part of `answer`.
fn may_be_coded(answer: &Answer, body_bytes: Option<u64>) -> bool {
    if matches!(answer.status, 0..200 | 204..=206 | 304) {
        return false;
    }
    let is_own = |part: &BodyPart| matches!(part, BodyPart::Bytes(_) | BodyPart::Stream { .. });
    let length = body_bytes.or(answer.declared_length).or(answer.body_length());
    if length.is_some_and(|length| length < LEAST_BYTES) || !answer.body.iter().all(is_own) {
        return false;
    }
    let mut is_of_type = false;
    for (name, value) in fields(&answer.fields) {
        match name.len() {
            12 if name.eq_ignore_ascii_case(b"content-type") => {
                let text = std::str::from_utf8(value).unwrap_or_default();
                let is_events =
                    text.len() >= 17 && text.as_bytes()[..17].eq_ignore_ascii_case(b"text/event-stream");
                is_of_type = is_compressible(text) && !is_events;
            }
            16 if name.eq_ignore_ascii_case(b"content-encoding") => return false,
            13 if name.eq_ignore_ascii_case(b"content-range") => return false,
            13 if name.eq_ignore_ascii_case(b"cache-control") && forbids_change(value) => return false,
            _ => {}
        }
    }
    is_of_type
}

fn field<'a>(lines: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    fields(lines).find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value)
}

/// Adds `Vary: Accept-Encoding` if the fields do not contain it.
fn add_vary(lines: &mut Vec<u8>) {
    let names_it = |member: &[u8]| member == b"*" || member.eq_ignore_ascii_case(b"accept-encoding");
    let vary = |name: &[u8]| name.eq_ignore_ascii_case(b"vary");
    if !fields(lines).any(|(name, value)| vary(name) && list_members(value).any(names_it)) {
        lines.extend_from_slice(b"Vary: Accept-Encoding\r\n");
    }
}

/// Replaces the body of an answer by its compressed form.
fn compress_body(mut answer: Answer, coding: ContentCoding, level: u8) -> Answer {
    let parts = std::mem::take(&mut answer.body);
    let mut first = Vec::new();
    let mut rest = None;
    for part in parts {
        match part {
            BodyPart::Bytes(bytes) => first.push(bytes),
            BodyPart::Stream { body, .. } => rest = Some(body),
            BodyPart::Cached(..) | BodyPart::File { .. } => {}
        }
    }
    let first = match first.as_slice() {
        [bytes] => bytes.clone(),
        pieces => pieces.concat().into(),
    };
    if rest.is_none()
        && first.len() <= AT_ONCE_BYTES
        && let Ok(coded) = compress(coding, level, &first)
    {
        return answer.part(BodyPart::Bytes(coded.into()));
    }
    let (mut sender, receiver) = pipe(PIPE_BYTES);
    tokio::task::spawn_local(async move {
        let mut rest = rest.unwrap_or_else(|| Receiver::of(Bytes::new()));
        match compress_stream(first, &mut rest, &mut sender, coding, level).await {
            Ok(true) => sender.finish_with_trailers(rest.take_trailers()),
            // The client has disconnected. The source of the body stops when the receiver is dropped.
            Ok(false) => {}
            Err(error) => sender.fail(error),
        }
    });
    answer.part(BodyPart::Stream { body: receiver, length: None })
}

/// Compresses a body as it arrives; returns false when the client has disconnected.
async fn compress_stream(
    first: Bytes,
    rest: &mut Receiver,
    sender: &mut Sender,
    coding: ContentCoding,
    level: u8,
) -> io::Result<bool> {
    let mut compressor = Compressor::new(coding, level)?;
    let mut piece = first;
    let mut is_flushed = true;
    loop {
        while !piece.is_empty() {
            let part = piece.split_to(piece.len().min(AT_ONCE_BYTES));
            is_flushed = false;
            if !send(sender, compressor.piece(&part)?).await {
                return Ok(false);
            }
            // Other tasks get a turn.
            tokio::task::yield_now().await;
        }
        let next = poll_fn(|context| Poll::Ready(rest.poll_next(context))).await;
        let next = match next {
            Poll::Ready(next) => next,
            Poll::Pending => {
                if !is_flushed && !send(sender, compressor.flush()?).await {
                    return Ok(false);
                }
                is_flushed = true;
                tokio::select! {
                    next = rest.next() => next,
                    () = sender.gone() => return Ok(false),
                }
            }
        };
        match next {
            Some(bytes) => piece = bytes?,
            None => return Ok(send(sender, compressor.finish()?).await),
        }
    }
}

async fn send(sender: &mut Sender, bytes: Vec<u8>) -> bool {
    bytes.is_empty() || sender.send(bytes.into()).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, fields: &str, body_bytes: usize) -> Answer {
        let mut answer = Answer::new(status).part(BodyPart::Bytes(vec![b'a'; body_bytes].into()));
        answer.fields = fields.as_bytes().to_vec();
        answer
    }

    fn wanted(coding: Option<ContentCoding>, is_head: bool, if_none_match: &str) -> AnswerForm {
        AnswerForm { coding, level: 5, is_head, if_none_match: if_none_match.into() }
    }

    fn text(answer: &Answer) -> String {
        String::from_utf8(answer.fields.clone()).unwrap()
    }

    const HTML: &str = "Content-Type: text/html\r\n";

    #[test]
    fn what_is_coded_and_what_is_not() {
        for (status, fields, body_bytes, is_coded) in [
            (200, HTML, 1000, true),
            (404, HTML, 1000, true),
            (200, "content-type: Application/JSON; charset=x\r\n", 1000, true),
            (200, HTML, 255, false),
            (200, HTML, 256, true),
            (206, HTML, 1000, false),
            (204, HTML, 1000, false),
            (101, HTML, 1000, false),
            (200, "Content-Type: image/png\r\n", 1000, false),
            (200, "Content-Type: text/event-stream\r\n", 1000, false),
            (200, "X: y\r\n", 1000, false),
            (200, "Content-Type: text/html\r\nContent-Encoding: gzip\r\n", 1000, false),
            (200, "Content-Type: text/html\r\nContent-Range: bytes 0-999/2000\r\n", 1000, false),
            (200, "Content-Type: text/html\r\nCache-Control: public, No-Transform\r\n", 1000, false),
        ] {
            let coded =
                wanted(Some(ContentCoding::Gzip), false, "").apply(answer(status, fields, body_bytes));
            let has = |what: &str| text(&coded).contains(what);
            assert_eq!(
                has("Content-Encoding: gzip\r\n") && !fields.contains("-Encoding"),
                is_coded,
                "{fields}"
            );
            assert_eq!(has("Vary: Accept-Encoding\r\n"), is_coded, "{fields}");
            assert_eq!(coded.body_length() == Some(body_bytes as u64), !is_coded, "{fields}");
            let plain = wanted(None, false, "").apply(answer(status, fields, body_bytes));
            assert_eq!(text(&plain).contains("Vary: Accept-Encoding\r\n"), is_coded, "{fields}");
            assert_eq!(plain.body_length(), Some(body_bytes as u64));
        }
    }

    #[test]
    fn fields_of_the_coded_form() {
        let fields = "Content-Type: text/html\r\netag: \"a\"\r\nAccept-Ranges: bytes\r\nDigest: x\r\n\
                      Vary: Cookie\r\nX: y\r\n";
        let coded = wanted(Some(ContentCoding::Brotli), false, "").apply(answer(200, fields, 1000));
        let expected = "Content-Type: text/html\r\nETag: W/\"a\"\r\nVary: Cookie\r\nX: y\r\n\
                        Vary: Accept-Encoding\r\nContent-Encoding: br\r\n";
        assert_eq!(text(&coded), expected);
        for vary in ["Vary: *\r\n", "vary: Cookie, ACCEPT-ENCODING\r\n"] {
            let coded = wanted(None, false, "").apply(answer(200, &format!("{HTML}{vary}"), 1000));
            assert_eq!(text(&coded), format!("{HTML}{vary}"));
        }
        let fields = format!("{HTML}ETag: W/\"a\"\r\n");
        let coded = wanted(Some(ContentCoding::Zstd), false, "").apply(answer(200, &fields, 1000));
        assert!(text(&coded).contains("\r\nETag: W/\"a\"\r\n"));
    }

    #[test]
    fn head_and_304_agree_with_get() {
        let fields = format!("{HTML}ETag: \"a\"\r\n");
        let mut head = answer(200, &fields, 0);
        head.body.clear();
        head.declared_length = Some(1000);
        let head = wanted(Some(ContentCoding::Gzip), true, "").apply(head);
        assert_eq!(text(&head), format!("{HTML}ETag: W/\"a\"\r\nVary: Accept-Encoding\r\n"));
        assert_eq!((head.declared_length, head.body_length()), (None, Some(0)));
        for (if_none_match, is_weak) in [("W/\"a\",", true), ("\"x\", W/\"a\",", true), ("\"a\",", false)] {
            let coding = Some(ContentCoding::Gzip);
            let not_modified = wanted(coding, false, if_none_match).apply(answer(304, "ETag: \"a\"\r\n", 0));
            assert_eq!(text(&not_modified).contains("W/\"a\""), is_weak, "{if_none_match}");
        }
    }
}
