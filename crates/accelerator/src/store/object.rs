//! A stored response: one allocation that never changes. A newer head makes another object.

use std::mem::size_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use touchstone_files::cache::{ConnectionForm, DateSecond, PreparedResponse, SharedBody, WHOLE_BODY_BYTES};
use touchstone_http::added_fields::AddedFields;
use touchstone_http::date::format_imf_fixdate;
use touchstone_http::decimal;
use touchstone_http::status::reason;

use crate::rules::cache_status::{CacheOutcome, CacheStatus};
use crate::rules::partial::ContentRange;
use crate::rules::storing::Terms;

/// The memory of an object besides its own: its entries in a table and a queue, and the allocator's overhead.
const OVERHEAD_BYTES: usize = 56;

/// Uses of an object are counted up to this number.
const MOST_USES: u8 = 3;

/// A stored response.
#[derive(Debug)]
pub struct Object {
    /// The hash of its key.
    pub hash: u64,
    /// The terms of its reuse.
    pub terms: Terms,
    /// Its key, selector, field lines and trailers, then its body unless that is long.
    text: Box<[u8]>,
    long_body: Option<Arc<[u8]>>,
    /// The part of the whole that its body contains; `None`: it contains the whole.
    part: Option<Box<ContentRange>>,
    key_length: u32,
    selector_length: u32,
    fields_length: u32,
    trailers_length: u32,
    status: u16,
    state: AtomicU8,
    uses: AtomicU8,
    /// It is in the main queue.
    pub(super) is_in_main: AtomicBool,
}

/// Whether an object is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is stored and valid.
    Stored = 0,
    /// A purge has marked it as stale, whatever its own lifetime is.
    SoftPurged = 1,
    /// It is no longer in the store.
    Gone = 2,
}

/// The contents of a new object.
#[derive(Debug)]
pub struct NewObject<'a> {
    /// The hash of its key.
    pub hash: u64,
    /// The key under which it is stored.
    pub key: &'a [u8],
    /// The request fields that select it.
    pub selector: &'a [u8],
    /// The status.
    pub status: u16,
    /// The terms of its reuse.
    pub terms: Terms,
    /// Its field lines, without Date, Content-Length and Age.
    pub fields: &'a [u8],
    /// The part of the whole that the body contains; `None`: it contains the whole.
    pub part: Option<ContentRange>,
    /// Its trailers (RFC 9110 section 6.5).
    pub trailers: &'a [u8],
    /// The body, in pieces.
    pub body: &'a [bytes::Bytes],
}

impl Object {
    /// Creates an object.
    pub fn new(new: NewObject<'_>) -> Object {
        let body_length: usize = new.body.iter().map(|piece| piece.len()).sum();
        let is_short = body_length <= WHOLE_BODY_BYTES;
        let in_text = if is_short { body_length } else { 0 };
        let head = [new.key, new.selector, new.fields, new.trailers];
        let mut text = Vec::with_capacity(head.iter().map(|piece| piece.len()).sum::<usize>() + in_text);
        head.iter().for_each(|piece| text.extend_from_slice(piece));
        let long_body = if is_short {
            new.body.iter().for_each(|piece| text.extend_from_slice(piece));
            None
        } else {
            let mut whole = Vec::with_capacity(body_length);
            new.body.iter().for_each(|piece| whole.extend_from_slice(piece));
            Some(Arc::from(whole))
        };
        Object::of_parts(&new, text, long_body)
    }

    fn of_parts(new: &NewObject<'_>, text: Vec<u8>, long_body: Option<Arc<[u8]>>) -> Object {
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        Object {
            hash: new.hash,
            terms: new.terms,
            text: text.into_boxed_slice(),
            long_body,
            part: new.part.map(Box::new),
            key_length: length(new.key),
            selector_length: length(new.selector),
            fields_length: length(new.fields),
            trailers_length: length(new.trailers),
            status: new.status,
            state: AtomicU8::new(State::Stored as u8),
            uses: AtomicU8::new(0),
            is_in_main: AtomicBool::new(false),
        }
    }

    /// The same response with a newer head.
    pub fn with_head(&self, fields: &[u8], terms: Terms) -> Object {
        let new = NewObject {
            hash: self.hash,
            key: self.key(),
            selector: self.selector(),
            status: self.status,
            terms,
            fields,
            part: self.part.as_deref().copied(),
            trailers: self.trailers(),
            body: &[],
        };
        let short_body = if self.long_body.is_none() { self.body() } else { &[] };
        let text = [new.key, new.selector, fields, new.trailers, short_body].concat();
        Object::of_parts(&new, text, self.long_body.clone())
    }

    /// The key under which it is stored.
    pub fn key(&self) -> &[u8] {
        self.slice(0, self.key_length)
    }

    /// The request fields that select it.
    pub fn selector(&self) -> &[u8] {
        self.slice(self.key_length, self.selector_length)
    }

    /// Its field lines, without Date, Content-Length and Age.
    pub fn fields(&self) -> &[u8] {
        self.slice(self.key_length + self.selector_length, self.fields_length)
    }

    /// Its trailers (RFC 9110 section 6.5).
    pub fn trailers(&self) -> &[u8] {
        self.slice(self.key_length + self.selector_length + self.fields_length, self.trailers_length)
    }

    /// The body, or the part of it that is stored.
    pub fn body(&self) -> &[u8] {
        match &self.long_body {
            Some(body) => body,
            None => {
                let start =
                    self.key_length + self.selector_length + self.fields_length + self.trailers_length;
                self.text.get(start as usize..).unwrap_or_default()
            }
        }
    }

    /// The body, if it is long enough to be shared instead of copied.
    pub fn long_body(&self) -> Option<&Arc<[u8]>> {
        self.long_body.as_ref()
    }

    fn slice(&self, start: u32, length: u32) -> &[u8] {
        self.text.get(start as usize..(start + length) as usize).unwrap_or_default()
    }

    /// The status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The part of the whole that its body contains; `None`: it contains the whole.
    pub fn part(&self) -> Option<ContentRange> {
        self.part.as_deref().copied()
    }

    /// The length of the whole body.
    pub fn complete_length(&self) -> u64 {
        self.part().map_or(self.body().len() as u64, |part| part.complete_length)
    }

    /// The memory that it uses, in bytes.
    pub fn bytes(&self) -> u64 {
        let body = self.long_body.as_ref().map_or(0, |body| body.len() + 16);
        let part = if self.part.is_some() { size_of::<ContentRange>() } else { 0 };
        (size_of::<Object>() + 16 + self.text.len() + body + part + OVERHEAD_BYTES) as u64
    }

    /// Whether it is still valid.
    #[inline]
    pub fn state(&self) -> State {
        match self.state.load(Ordering::Acquire) {
            0 => State::Stored,
            1 => State::SoftPurged,
            _ => State::Gone,
        }
    }

    pub(super) fn set_state(&self, state: State) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// Counts a use. Two uses at the same time may count as one.
    #[inline]
    pub fn mark_used(&self) {
        let uses = self.uses.load(Ordering::Relaxed);
        if uses < MOST_USES {
            self.uses.store(uses + 1, Ordering::Relaxed);
        }
    }

    /// The number of uses since the last check, up to a limit.
    pub(super) fn uses(&self) -> u8 {
        self.uses.load(Ordering::Relaxed)
    }

    pub(super) fn set_uses(&self, uses: u8) {
        self.uses.store(uses, Ordering::Relaxed);
    }

    /// Appends the fields of an answer from it at this time: the stored ones, `Age` and, if requested,
    /// `Cache-Status`.
    pub fn append_fields(&self, now: i64, cache_status: Option<CacheStatus>, out: &mut Vec<u8>) {
        out.extend_from_slice(self.fields());
        out.extend_from_slice(b"Age: ");
        decimal::append(u64::from(self.terms.age(now)), out);
        out.extend_from_slice(b"\r\n");
        if let Some(status) = cache_status {
            status.append(out);
        }
    }

    /// The answer to a plain GET, ready to be written in this second. Field lines and fields by rules are
    /// added to it.
    pub fn prepare(
        &self,
        form: ConnectionForm,
        date: &DateSecond,
        says_status: bool,
        (site_fields, added): (&[u8], Option<&AddedFields>),
    ) -> PreparedResponse {
        let mut head = Vec::with_capacity(256 + self.fields().len());
        head.extend_from_slice(b"HTTP/1.1 ");
        decimal::append(u64::from(self.status), &mut head);
        head.push(b' ');
        head.extend_from_slice(reason(self.status).as_bytes());
        head.extend_from_slice(b"\r\nServer: touchstone\r\nDate: ");
        head.extend_from_slice(&format_imf_fixdate(self.terms.date));
        head.extend_from_slice(b"\r\n");
        let now = date.unix_seconds;
        let fresh_for = Some(self.terms.fresh_for(now));
        let status = says_status.then_some(CacheStatus { fresh_for, ..CacheStatus::new(CacheOutcome::Hit) });
        let mut fields = Vec::with_capacity(256 + self.fields().len());
        self.append_fields(now, status, &mut fields);
        fields.extend_from_slice(site_fields);
        if let Some(added) = added {
            added.apply(&mut fields);
        }
        head.extend_from_slice(&fields);
        head.extend_from_slice(b"Content-Length: ");
        decimal::append(self.body().len() as u64, &mut head);
        head.extend_from_slice(b"\r\n");
        head.extend_from_slice(form.connection_field());
        head.extend_from_slice(b"\r\n");
        let body = match &self.long_body {
            Some(body) => SharedBody::Long(body),
            None => SharedBody::Short(self.body()),
        };
        PreparedResponse::assemble(&head, body, now)
    }
}
