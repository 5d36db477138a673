//! The trace that a request belongs to, and its spans: parts of the work with their durations, for
//! OpenTelemetry.
//!
//! A request whose site is traced has a [`RequestTrace`]: the ids that programs and origins receive, and
//! whether the trace is recorded. If it is, parts of the server record their work as [`ActiveSpan`]s below
//! it. A span is passed to the [`SpanSink`] when it is dropped, so that work whose client has disconnected is
//! recorded, too.
//! recorded, too.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use touchstone_http::split_mix::SplitMix;
use touchstone_http::trace_context::write_trace_parent;

/// The id of a trace.
pub type TraceId = [u8; 16];

/// The id of a span.
pub type SpanId = [u8; 8];

/// The flag of a trace that is recorded.
pub const SAMPLED: u8 = 1;

/// The flag of a trace whose id is random (W3C Trace Context, level 2).
pub const RANDOM: u8 = 2;

/// The longest text of an attribute; longer text is cut off.
pub const MOST_TEXT_BYTES: usize = 1024;

/// Takes finished spans. It must not wait.
pub trait SpanSink: Send + Sync {
    /// Takes a span, or drops and counts it.
    fn take(&self, span: Span);
}

/// The kind of a span's work, as in OpenTelemetry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SpanKind {
    /// Work inside the server.
    #[default]
    Internal,
    /// The request of a client.
    Server,
    /// A request to another server.
    Client,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A text.
    Text(Box<str>),
    /// A number.
    Number(i64),
    /// Yes or no.
    Boolean(bool),
}

impl Value {
    /// A text of any bytes: invalid UTF-8 is replaced, and a text that is too long is cut off.
    pub fn text(bytes: &[u8]) -> Value {
        let cut = &bytes[..bytes.len().min(MOST_TEXT_BYTES)];
        Value::Text(String::from_utf8_lossy(cut).into())
    }

    /// A value that is a number.
    pub fn number(number: u64) -> Value {
        Value::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// A moment in a span.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The event's name.
    pub name: &'static str,
    /// The time in nanoseconds since 1970.
    pub unix_ns: u64,
}

/// Another trace that a span is related to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The trace.
    pub trace_id: TraceId,
    /// The span in it.
    pub span_id: SpanId,
}

/// A finished span.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Span {
    /// Its trace.
    pub trace_id: TraceId,
    /// Its id.
    pub span_id: SpanId,
    /// The parent of the span.
    pub parent: Option<SpanId>,
    /// Whether that span is of another server.
    pub has_remote_parent: bool,
    /// The value of `tracestate`; empty: none.
    pub state: Arc<[u8]>,
    /// The flags of the trace.
    pub flags: u8,
    /// The kind of the work.
    pub kind: SpanKind,
    /// Its name.
    pub name: Box<str>,
    /// The time of its beginning, in nanoseconds since 1970.
    pub began_unix_ns: u64,
    /// The time of its end.
    pub ended_unix_ns: u64,
    /// Its attributes.
    pub attributes: Vec<(&'static str, Value)>,
    /// Its events.
    pub events: Vec<Event>,
    /// The span of a caller whose trace is not continued.
    pub link: Option<Link>,
    /// Whether it failed.
    pub is_error: bool,
}

/// The trace of a request, at the span that is the parent of the next work for the request.
#[derive(Clone)]
pub struct RequestTrace {
    /// Its id.
    pub trace_id: TraceId,
    /// The current span.
    pub span_id: SpanId,
    /// The span of the caller whose trace is continued.
    pub parent: Option<SpanId>,
    /// The span of a caller whose trace is not continued.
    pub link: Option<Link>,
    /// The flags.
    pub flags: u8,
    /// The value of `tracestate`; empty: none.
    pub state: Arc<[u8]>,
    /// The receiver of the spans.
    pub sink: Arc<dyn SpanSink>,
    /// The seed of the ids of spans below this one.
    pub next_id: Cell<u64>,
}

impl RequestTrace {
    /// Whether spans are recorded.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The value of `traceparent` for calls in the current span.
    pub fn trace_parent(&self) -> [u8; 55] {
        write_trace_parent(self.trace_id, self.span_id, self.flags)
    }

    /// Begins a span below the current one; `None` if the trace is not recorded.
    pub fn begin(self: &Rc<RequestTrace>, kind: SpanKind, name: &str) -> Option<ActiveSpan> {
        if !self.is_sampled() {
            return None;
        }
        let span = Span {
            trace_id: self.trace_id,
            span_id: self.new_id(),
            parent: Some(self.span_id),
            has_remote_parent: false,
            state: self.state.clone(),
            flags: self.flags,
            kind,
            name: name.into(),
            began_unix_ns: unix_ns_now(),
            ended_unix_ns: 0,
            attributes: Vec::with_capacity(8),
            events: Vec::new(),
            link: None,
            is_error: false,
        };
        Some(ActiveSpan { span, began: Instant::now(), trace: self.clone(), is_finished: false })
    }

    /// A new id. The generator returns each number once.
    fn new_id(&self) -> SpanId {
        let mut generator = SplitMix(self.next_id.get());
        let id = generator.draw();
        self.next_id.set(generator.0);
        id.max(1).to_be_bytes()
    }
}

/// A span whose work is in progress. Dropping it ends it.
pub struct ActiveSpan {
    span: Span,
    began: Instant,
    trace: Rc<RequestTrace>,
    is_finished: bool,
}

impl ActiveSpan {
    /// Adds an attribute.
    pub fn set(&mut self, name: &'static str, value: Value) {
        self.span.attributes.push((name, value));
    }

    /// Sets an attribute that may already have a value.
    pub fn replace(&mut self, name: &'static str, value: Value) {
        self.span.attributes.retain(|(other, _)| *other != name);
        self.set(name, value);
    }

    /// Adds an event at the current time.
    pub fn note(&mut self, name: &'static str) {
        let unix_ns = self.span.began_unix_ns.saturating_add(self.age_ns());
        self.span.events.push(Event { name, unix_ns });
    }

    /// The trace for the work in this span.
    pub fn inside(&self) -> Rc<RequestTrace> {
        let trace = &*self.trace;
        let first = u64::from_be_bytes(self.span.span_id) ^ trace.next_id.get();
        Rc::new(RequestTrace { span_id: self.span.span_id, next_id: Cell::new(first), ..trace.clone() })
    }

    /// Records that the work failed: `kind` is a word for a class of failures.
    pub fn fail(&mut self, kind: &str) {
        self.span.is_error = true;
        self.set("error.type", Value::Text(kind.into()));
    }

    /// Records that the work is done. A span that is dropped before was abandoned.
    pub fn finish(mut self) {
        self.is_finished = true;
    }

    fn age_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Drop for ActiveSpan {
    fn drop(&mut self) {
        if !self.is_finished {
            self.fail("cancelled");
        }
        let mut span = std::mem::take(&mut self.span);
        span.ended_unix_ns = span.began_unix_ns.saturating_add(self.age_ns());
        self.trace.sink.take(span);
    }
}

/// The time in nanoseconds since 1970.
pub fn unix_ns_now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}

/// The method for spans, if HTTP defines it. Other methods may be any text of the client.
pub fn known_method(method: &[u8]) -> Option<&'static str> {
    const METHODS: [&str; 10] =
        ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "QUERY", "TRACE", "CONNECT"];
    METHODS.into_iter().find(|known| known.as_bytes() == method)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Kept(Mutex<Vec<Span>>);

    impl SpanSink for Kept {
        fn take(&self, span: Span) {
            self.0.lock().unwrap().push(span);
        }
    }

    fn trace(sink: &Arc<Kept>, flags: u8) -> Rc<RequestTrace> {
        Rc::new(RequestTrace {
            trace_id: [1; 16],
            span_id: [2; 8],
            parent: None,
            link: None,
            flags,
            state: Arc::from([]),
            sink: sink.clone(),
            next_id: Cell::new(7),
        })
    }

    #[test]
    fn spans_lie_in_each_other() {
        let sink = Arc::new(Kept::default());
        let trace = trace(&sink, SAMPLED);
        let mut outer = trace.begin(SpanKind::Internal, "cgi").unwrap();
        let inner = outer.inside().begin(SpanKind::Client, "GET").unwrap();
        outer.note("connected");
        inner.finish();
        outer.finish();
        let spans = sink.0.lock().unwrap();
        let [inner, outer] = &spans[..] else { panic!("{spans:?}") };
        assert_eq!((outer.parent, inner.parent), (Some([2; 8]), Some(outer.span_id)));
        assert!(inner.span_id != outer.span_id && !inner.is_error);
        assert!(outer.began_unix_ns <= outer.events[0].unix_ns);
        assert!(outer.events[0].unix_ns <= outer.ended_unix_ns);
        assert_eq!(&*outer.name, "cgi");
    }

    #[test]
    fn abandoned_work_is_recorded() {
        let sink = Arc::new(Kept::default());
        drop(trace(&sink, SAMPLED).begin(SpanKind::Internal, "cgi"));
        let spans = sink.0.lock().unwrap();
        assert!(spans[0].is_error);
        assert_eq!(spans[0].attributes, [("error.type", Value::Text("cancelled".into()))]);
    }

    #[test]
    fn a_trace_that_is_not_recorded_has_no_spans() {
        let sink = Arc::new(Kept::default());
        let trace = trace(&sink, RANDOM);
        assert!(trace.begin(SpanKind::Internal, "cgi").is_none() && sink.0.lock().unwrap().is_empty());
        assert!(trace.trace_parent().ends_with(b"-0202020202020202-02"));
    }

    #[test]
    fn texts_are_short_and_of_valid_characters() {
        assert_eq!(Value::text(b"a\xff"), Value::Text("a\u{fffd}".into()));
        let Value::Text(cut) = Value::text(&[b'a'; 5000]) else { panic!("a text") };
        assert_eq!(cut.len(), MOST_TEXT_BYTES);
    }
}
