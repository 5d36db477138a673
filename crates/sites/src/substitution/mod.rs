//! Replaces texts in answers, by the `substitute` key of a site or route.
//!
//! For a program or an origin it is an interface in front of it, behind compression and the cache: stored
//! answers have the texts replaced. For files the exchange calls [`Substitution::apply`]. In both cases the
//! whole answer is requested without a coding, and is compressed afterwards.

mod texts;

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use touchstone_config::SubstituteConfig;
use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::handler::{Handled, Handler, Interface, InterfaceLayer, LocalBoxFuture, Server};
use touchstone_handler::pipe::{Sender, pipe};
use touchstone_handler::request::Request;
use touchstone_http::request::Method;

use crate::changed_answer::{change_fields, fields, forbids_change, forget_length};
use crate::pieces::Pieces;
use texts::Texts;

/// A complete body up to this size is replaced at once.
const AT_ONCE_BYTES: u64 = 64 * 1024;

/// The most bytes of a body that wait for the client.
const PIPE_BYTES: usize = 64 * 1024;

/// The texts of a site or route, and the answers in which they are replaced.
pub struct Substitution {
    texts: Arc<Texts>,
    types: Box<[Box<str>]>,
    keep_validators: bool,
}

impl Substitution {
    /// Prepares the settings; `None` if nothing is replaced.
    pub fn open(config: &SubstituteConfig) -> Result<Option<Arc<Substitution>>, String> {
        if config.replace.is_empty() {
            return Ok(None);
        }
        let pairs = config.replace.iter().map(|(text, other)| (text.as_bytes(), other.as_bytes()));
        let texts = Texts::new(pairs, config.once, config.ignore_case);
        let texts = texts.map_err(|problem| format!("'substitute': {problem}"))?;
        Ok(Some(Arc::new(Substitution {
            texts: Arc::new(texts),
            types: config.types.iter().map(|text| text.as_str().into()).collect(),
            keep_validators: config.keep_validators,
        })))
    }

    /// Changes a request so that it requests the whole answer without a coding. Returns whether that was
    /// possible.
    pub fn request_plain_form(&self, request: &mut Request) -> bool {
        const OTHER_FORMS: [&[u8]; 3] = [b"accept-encoding", b"range", b"if-range"];
        let is_of_other = |name: &[u8]| OTHER_FORMS.iter().any(|other| name.eq_ignore_ascii_case(other));
        if !request.received.fields().any(|(name, _)| is_of_other(name)) {
            return true;
        }
        let Some(written) = request.received.with_fields(|name| !is_of_other(name), None) else {
            return false;
        };
        request.received = Rc::new(written);
        true
    }

    /// Replaces the texts in an answer, if it is of a kind in which texts are replaced.
    pub fn apply(&self, mut answer: Answer, is_head: bool) -> Answer {
        if !self.applies_to(&answer) {
            return answer;
        }
        let others: &[&[u8]] = match self.keep_validators {
            true => &[b"repr-digest"],
            false => &[b"repr-digest", b"etag", b"last-modified"],
        };
        change_fields(&mut answer.fields, others);
        if is_head {
            forget_length(&mut answer);
            return answer;
        }
        answer.declared_length = None;
        let parts = std::mem::take(&mut answer.body);
        let is_short = |parts: &[BodyPart]| {
            let length: Option<u64> = parts.iter().map(BodyPart::length).sum();
            length.is_some_and(|length| length <= AT_ONCE_BYTES)
                && !parts.iter().any(|part| matches!(part, BodyPart::Stream { .. }))
        };
        let texts = self.texts.clone();
        if is_short(&parts) {
            // This never waits: all parts are available.
            if let Some(bytes) = at_once(&texts, parts) {
                return answer.part(BodyPart::Bytes(bytes));
            }
            return Answer::error(500);
        }
        let (sender, receiver) = pipe(PIPE_BYTES);
        tokio::task::spawn_local(replace_in_stream(texts, Pieces::of(parts), sender));
        answer.part(BodyPart::Stream { body: receiver, length: None })
    }

    fn applies_to(&self, answer: &Answer) -> bool {
        if matches!(answer.status, 0..200 | 204..=206 | 304) {
            return false;
        }
        let mut is_of_type = self.types.iter().any(|own| &**own == "*");
        for (name, value) in fields(&answer.fields) {
            if name.eq_ignore_ascii_case(b"content-type") {
                let end = memchr::memchr(b';', value).unwrap_or(value.len());
                let own = value[..end].trim_ascii();
                is_of_type |= self.types.iter().any(|other| own.eq_ignore_ascii_case(other.as_bytes()));
            }
            let is_other_form = name.eq_ignore_ascii_case(b"content-encoding")
                && !value.eq_ignore_ascii_case(b"identity")
                || name.eq_ignore_ascii_case(b"content-range")
                || name.eq_ignore_ascii_case(b"cache-control") && forbids_change(value);
            if is_other_form {
                return false;
            }
        }
        is_of_type
    }
}

/// The body of available parts, with its texts replaced; `None` if a file cannot be read.
fn at_once(texts: &Texts, parts: Vec<BodyPart>) -> Option<Bytes> {
    let replaced = std::pin::pin!(async move {
        let (mut replacing, mut out) = (texts.begin(), Vec::new());
        let mut pieces = Pieces::of(parts);
        while let Some(piece) = pieces.next().await {
            replacing.piece(&piece.ok()?, &mut out);
        }
        replacing.finish(&mut out);
        Some(Bytes::from(out))
    });
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match replaced.poll(&mut context) {
        std::task::Poll::Ready(replaced) => replaced,
        std::task::Poll::Pending => None,
    }
}

async fn replace_in_stream(texts: Arc<Texts>, mut pieces: Pieces, mut sender: Sender) {
    let mut replacing = texts.begin();
    loop {
        let next = tokio::select! {
            next = pieces.next() => next,
            // The client has disconnected. The source of the body stops when the receiver is dropped.
            () = sender.gone() => return,
        };
        let mut out = Vec::new();
        let is_end = match next {
            Some(Ok(piece)) => {
                replacing.piece(&piece, &mut out);
                false
            }
            None => {
                replacing.finish(&mut out);
                true
            }
            Some(Err(error)) => return sender.fail(error),
        };
        if !out.is_empty() && sender.send(out.into()).await.is_err() {
            return;
        }
        if is_end {
            return sender.finish_with_trailers(pieces.take_trailers());
        }
        // Other tasks get a turn.
        tokio::task::yield_now().await;
    }
}

/// An interface in whose answers texts are replaced.
struct Substituted {
    interface: Arc<dyn Interface>,
    substitution: Arc<Substitution>,
}

/// Adds the replacement of texts to an interface.
pub fn open(interface: Arc<dyn Interface>, substitution: Arc<Substitution>) -> Arc<dyn Interface> {
    Arc::new(Substituted { interface, substitution })
}

impl InterfaceLayer for Substituted {
    fn inner(&self) -> &dyn Interface {
        &*self.interface
    }

    fn around(&self, inner: Rc<dyn Handler>, _server: Rc<dyn Server>) -> Rc<dyn Handler> {
        Rc::new(SubstitutedHandler { handler: inner, substitution: self.substitution.clone() })
    }
}

struct SubstitutedHandler {
    handler: Rc<dyn Handler>,
    substitution: Arc<Substitution>,
}

impl Handler for SubstitutedHandler {
    fn handle(self: Rc<Self>, mut request: Request) -> LocalBoxFuture<Handled> {
        let is_head = request.received.head.method == Method::Head;
        if !self.substitution.request_plain_form(&mut request) {
            return Box::pin(async { Handled::Answer(Answer::error(500)) });
        }
        let handled = self.handler.clone().handle(request);
        Box::pin(async move {
            match handled.await {
                Handled::Answer(answer) if !answer.switches_protocols() => {
                    Handled::Answer(self.substitution.apply(answer, is_head))
                }
                other => other,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn substitution(keep_validators: bool) -> Arc<Substitution> {
        let config = SubstituteConfig {
            replace: BTreeMap::from([("one".to_string(), "twelve".to_string())]),
            types: vec!["text/html".to_string()],
            once: false,
            ignore_case: false,
            keep_validators,
        };
        Substitution::open(&config).unwrap().unwrap()
    }

    fn applied(status: u16, fields: &str, keep_validators: bool) -> (String, Option<Vec<u8>>) {
        let mut answer = Answer::new(status).part(BodyPart::Bytes("one one".into()));
        answer.fields = fields.as_bytes().to_vec();
        let mut answer = substitution(keep_validators).apply(answer, false);
        let body = match answer.body.pop() {
            Some(BodyPart::Bytes(bytes)) => Some(bytes.to_vec()),
            _ => None,
        };
        (String::from_utf8(answer.fields).unwrap(), body)
    }

    #[test]
    fn what_is_replaced_and_what_is_not() {
        let html = "Content-Type: Text/HTML; charset=utf-8\r\n";
        for (status, fields, applies_to) in [
            (200, html, true),
            (404, html, true),
            (206, html, false),
            (200, "Content-Type: text/plain\r\n", false),
            (200, "", false),
            (200, "Content-Type: text/html\r\nContent-Encoding: gzip\r\n", false),
            (200, "Content-Type: text/html\r\nContent-Encoding: identity\r\n", true),
            (200, "Content-Type: text/html\r\nCache-Control: no-transform\r\n", false),
        ] {
            let expected: &[u8] = if applies_to { b"twelve twelve" } else { b"one one" };
            assert_eq!(applied(status, fields, false).1.as_deref(), Some(expected), "{status} {fields}");
        }
    }

    #[test]
    fn validators() {
        let fields = "Content-Type: text/html\r\nETag: \"a\"\r\nLast-Modified: x\r\nAccept-Ranges: bytes\r\n";
        assert_eq!(applied(200, fields, false).0, "Content-Type: text/html\r\n");
        let kept = "Content-Type: text/html\r\nETag: W/\"a\"\r\nLast-Modified: x\r\n";
        assert_eq!(applied(200, fields, true).0, kept);
    }

    #[test]
    fn nothing_to_replace() {
        let config = SubstituteConfig {
            replace: BTreeMap::new(),
            types: Vec::new(),
            once: false,
            ignore_case: false,
            keep_validators: false,
        };
        assert!(Substitution::open(&config).unwrap().is_none());
    }
}
