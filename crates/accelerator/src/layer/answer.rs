//! Answers made from stored responses, or from responses that are being fetched.

use std::sync::Arc;

use bytes::Bytes;
use touchstone_files::cache::{PreparedResponse, SharedBody};
use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::pipe::pipe;
use touchstone_handler::ranges::RangeSource;
use touchstone_handler::request::Request;
use touchstone_http::date::format_imf_fixdate;
use touchstone_http::decimal;
use touchstone_http::range::ByteRange;
use touchstone_http::request::Method;

use super::head::RequestFields;
use super::shared_fetch::{Head, Reader};
use crate::rules::cache_status::CacheStatus;
use crate::rules::conditions::{SelectedPart, select};
use crate::rules::fields::{append, lines, list_has};
use crate::store::Object;

/// The maximum part of a body that waits for a client that is slower than the origin.
const PIPE_BYTES: usize = 128 * 1024;

/// The answer to a request that selects this response; `None`: the response lacks requested bytes.
pub fn of_object(
    object: &Arc<Object>,
    request: &Request,
    cache_status: Option<CacheStatus>,
    now: i64,
) -> Option<Answer> {
    let is_get = request.method() == Method::Get;
    let selected = select(
        RequestFields(&request.received),
        is_get,
        object.fields(),
        object.status(),
        object.complete_length(),
        (object.terms.date, now),
    );
    let part = object.part();
    let is_stored = match &selected {
        SelectedPart::NotModified => true,
        SelectedPart::Whole | SelectedPart::Unsatisfiable => part.is_none(),
        SelectedPart::Ranges(ranges) => part.is_none_or(|part| ranges.iter().all(|range| part.holds(*range))),
    };
    if !is_stored {
        return None;
    }
    let mut fields = Vec::with_capacity(object.fields().len() + 128);
    object.append_fields(now, cache_status, &mut fields);
    let mut answer = match selected {
        SelectedPart::Whole => {
            let mut answer = Answer::new(object.status());
            let whole = 0..object.body().len();
            if request.method() != Method::Head && !object.trailers().is_empty() && takes_trailers(request) {
                answer.body.push(with_trailers(object));
            } else {
                answer.body.extend((!whole.is_empty()).then(|| slice(object, whole)));
            }
            answer.fields = fields;
            answer
        }
        SelectedPart::NotModified => not_modified(&fields),
        SelectedPart::Unsatisfiable => Answer::unsatisfied_range(object.complete_length()),
        SelectedPart::Ranges(ranges) => of_ranges(object, fields, &ranges),
    };
    answer.date = Some(format_imf_fixdate(object.terms.date));
    Some(answer)
}

/// The bytes that a request selects, if they are one range.
pub fn wanted_range(object: &Object, request: &Request, now: i64) -> Option<ByteRange> {
    let fields = RequestFields(&request.received);
    let times = (object.terms.date, now);
    match select(fields, true, object.fields(), object.status(), object.complete_length(), times) {
        SelectedPart::Ranges(ranges) if ranges.len() == 1 => ranges.first().copied(),
        SelectedPart::Ranges(_)
        | SelectedPart::Whole
        | SelectedPart::NotModified
        | SelectedPart::Unsatisfiable => None,
    }
}

/// Whether the client accepts trailers.
fn takes_trailers(request: &Request) -> bool {
    request.received.values("te").any(|value| list_has(value, b"trailers"))
}

/// The body and its trailers: a body with a known length has none.
fn with_trailers(object: &Object) -> BodyPart {
    let (mut sender, body) = pipe(PIPE_BYTES);
    sender.push(Bytes::copy_from_slice(object.body()));
    sender.finish_with_trailers(object.trailers().to_vec());
    BodyPart::Stream { body, length: None }
}

/// 304 with its required fields (RFC 9110 section 15.4.5), and all others that do not describe a body.
fn not_modified(fields: &[u8]) -> Answer {
    let mut answer = Answer::new(304);
    for (name, value) in lines(fields) {
        let describes_body = name.len() > 8 && name[..8].eq_ignore_ascii_case(b"content-");
        if !describes_body || name.eq_ignore_ascii_case(b"content-location") {
            append(&mut answer.fields, name, value);
        }
    }
    answer
}

/// 206 with one range, or with several as multipart/byteranges.
fn of_ranges(object: &Arc<Object>, fields: Vec<u8>, ranges: &[ByteRange]) -> Answer {
    let mut answer = Answer::new(206);
    let offset = object.part().map_or(0, |part| part.range.first);
    let piece = |range: ByteRange| {
        let (first, last) = ((range.first - offset) as usize, (range.last - offset) as usize);
        slice(object, first..last + 1)
    };
    let is_replaced = |name: &[u8]| {
        name.eq_ignore_ascii_case(b"content-range")
            || (ranges.len() > 1 && name.eq_ignore_ascii_case(b"content-type"))
    };
    for (name, value) in lines(&fields).filter(|(name, _)| !is_replaced(name)) {
        append(&mut answer.fields, name, value);
    }
    let content_type = lines(&fields).find(|(name, _)| name.eq_ignore_ascii_case(b"content-type"));
    let source = RangeSource {
        content_type: content_type.map_or(b"application/octet-stream", |(_, value)| value),
        complete_length: object.complete_length(),
        key: object.hash,
        part: piece,
    };
    answer.add_ranges(source, ranges);
    answer
}

/// The stored part, whichever was requested: an origin may send another part than that (RFC 9110 section
/// 15.3.7).
pub fn of_part(object: &Arc<Object>, cache_status: Option<CacheStatus>, now: i64) -> Option<Answer> {
    let part = object.part()?;
    let mut fields = Vec::with_capacity(object.fields().len() + 128);
    object.append_fields(now, cache_status, &mut fields);
    let mut answer = of_ranges(object, fields, &[part.range]);
    answer.date = Some(format_imf_fixdate(object.terms.date));
    Some(answer)
}

/// A slice of the stored body: long ones are not copied.
fn slice(object: &Arc<Object>, range: std::ops::Range<usize>) -> BodyPart {
    match object.long_body() {
        Some(body) => {
            BodyPart::Cached(Arc::new(PreparedResponse::assemble(&[], SharedBody::Long(body), 0)), range)
        }
        None => BodyPart::Bytes(Bytes::copy_from_slice(object.body().get(range).unwrap_or_default())),
    }
}

/// The answer to a request that selects a response that is being fetched: the body is passed on as it
/// arrives.
pub fn of_shared_fetch(
    head: &Head,
    mut reader: Reader,
    request: &Request,
    cache_status: Option<CacheStatus>,
    now: i64,
) -> Answer {
    let mut fields = head.fields.clone();
    let age = head.terms.age(now);
    if age > 0 {
        fields.extend_from_slice(b"Age: ");
        decimal::append(u64::from(age), &mut fields);
        fields.extend_from_slice(b"\r\n");
    }
    if let Some(status) = cache_status {
        status.append(&mut fields);
    }
    let selected =
        select(RequestFields(&request.received), false, &head.fields, head.status, 0, (head.terms.date, now));
    let mut answer = if selected == SelectedPart::NotModified {
        not_modified(&fields)
    } else {
        let (mut sender, body) = pipe(PIPE_BYTES);
        let takes_trailers = takes_trailers(request);
        tokio::task::spawn_local(async move {
            loop {
                match reader.next().await {
                    Ok(Some(piece)) => {
                        if sender.send(piece).await.is_err() {
                            return;
                        }
                    }
                    Ok(None) if takes_trailers => {
                        return sender.finish_with_trailers(reader.trailers().to_vec());
                    }
                    Ok(None) => return sender.finish(),
                    // Dropping the pipe informs the connection that the body broke off.
                    Err(_) => return,
                }
            }
        });
        let mut answer = Answer::new(head.status);
        answer.fields = fields;
        answer.body.push(BodyPart::Stream { body, length: head.length });
        answer
    };
    answer.date = Some(format_imf_fixdate(head.terms.date));
    answer
}
