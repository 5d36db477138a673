//! Records an attempt as a span of its request's trace, with the attributes of OpenTelemetry's semantic
//! conventions for HTTP clients. It is used only if the trace is recorded.
//!
//! The span begins when the origin is selected, and ends with the head of its response.

use std::rc::Rc;
use std::time::Duration;

use touchstone_handler::answer::Answer;
use touchstone_handler::trace::{ActiveSpan, RequestTrace, SpanKind, Value, known_method};

use super::failure::{Failure, FailureLabel};
use super::origin_url::{Address, OriginUrl};

/// Begins the span of an attempt; `number` counts from 1.
pub fn begin(trace: &Rc<RequestTrace>, method: &[u8], origin: &OriginUrl, number: u32) -> Option<ActiveSpan> {
    let known = known_method(method);
    let mut span = trace.begin(SpanKind::Client, known.unwrap_or("HTTP"))?;
    span.set("http.request.method", Value::Text(known.unwrap_or("_OTHER").into()));
    match &origin.address {
        Address::Tcp(host, port) => {
            span.set("server.address", Value::text(host.as_bytes()));
            span.set("server.port", Value::Number((*port).into()));
        }
        Address::Unix(path) => {
            span.set("server.address", Value::text(path.as_os_str().as_encoded_bytes()));
        }
    }
    if number > 1 {
        span.set("http.request.resend_count", Value::number(u64::from(number - 1)));
    }
    Some(span)
}

/// Records the connection of the attempt. If it turns out to be closed, the values of the next connection
/// replace it.
pub fn note_connection(span: &mut ActiveSpan, is_reused: bool, version: &'static str, waited: Duration) {
    span.note(if is_reused { "connection reused" } else { "connected" });
    span.replace("touchstone.connection.reused", Value::Boolean(is_reused));
    let waited_us = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
    span.replace("touchstone.connection.wait_us", Value::number(waited_us));
    span.replace("network.protocol.version", Value::Text(version.into()));
}

/// Ends the span of an attempt.
pub fn finish(span: Option<ActiveSpan>, result: &Result<Answer, Failure>) {
    let Some(mut span) = span else { return };
    match result {
        Ok(answer) => {
            span.set("http.response.status_code", Value::Number(answer.status.into()));
            if answer.status >= 400 {
                span.fail(&answer.status.to_string());
            }
        }
        Err(failure) => span.fail(FailureLabel::LABELS[failure.label() as usize]),
    }
    span.finish();
}
