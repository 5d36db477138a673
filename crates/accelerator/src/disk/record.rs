//! The format of a record: a head of fixed length with its own checksum, so that its lengths can be trusted,
//! then the contents. A checksum over the whole record comes first.
//!
//! ```text
//!  0 checksum of the bytes after it, 16 bytes of SHA-256
//! 16 mark of the format, u32 | kind, u8 | flags, u8 | status, u16
//! 24 length of the record, u32 | of key, selector, fields, u32 each
//! 40 unused, 12 bytes | length of trailers, u32
//! 56 response time, i64 | date, i64
//! 72 initial age, lifetime, stale while revalidate, stale if error, u32 each
//! 88 first, last and complete length of a part, u64 each
//! 112 sequence number, u64
//! 120 checksum of bytes 16 to 120, u64
//! 128 key, selector, fields, trailers, body
//! ```

use bytes::Bytes;
use sha2::{Digest, Sha256};
use touchstone_http::range::ByteRange;

use crate::rules::partial::ContentRange;
use crate::rules::storing::Terms;
use crate::store::{NewObject, Object, PurgeScope, hash_of};

/// The length of a head.
pub const HEAD_BYTES: usize = 128;

const KIND_OBJECT: u8 = 1;
const KIND_PURGE: u8 = 2;

const FLAG_PART: u8 = 1;
const FLAG_NO_CACHE: u8 = 2;
const FLAG_MUST_REVALIDATE: u8 = 4;
const FLAG_FOR_AUTHORIZED: u8 = 8;
const FLAG_FOR_COOKIES: u8 = 16;
const FLAG_ANSWERED_AUTHORIZED: u8 = 32;
const FLAG_ANSWERED_COOKIE: u8 = 64;

/// A record that was read.
#[derive(Debug)]
pub enum Record {
    /// A response.
    Object {
        /// The response.
        object: Object,
    },
    /// A purge.
    Purge {
        /// What was purged.
        purge: PurgeScope,
        /// Its sequence number: it applies to everything with a lower one.
        sequence: u64,
    },
}

/// Why bytes are not a valid record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordError {
    /// The head has another format, or is damaged.
    Head,
    /// The record is shorter than its head says, or damaged.
    Body,
}

/// The contents of a record's head.
#[derive(Debug, Clone, Copy)]
pub struct RecordHead {
    /// The length of the whole record.
    pub length: u32,
    /// Whether it is a response.
    pub is_object: bool,
    /// The length of its key, which follows the head.
    pub key_length: u32,
    /// The length of its selector, which follows the key.
    pub selector_length: u32,
    /// Its sequence number.
    pub sequence: u64,
}

/// The mark of the format. Records of format 1 may contain answers that were made for one client.
const MARK: u32 = 0x5453_4302;

/// Distinguishes responses with the same key by the fields that select them.
pub fn selector_sum(selector: &[u8]) -> u32 {
    (hash_of(selector) >> 32) as u32
}

/// A response as a record; `None`: it is too large.
pub fn encode_object(object: &Object, sequence: u64) -> Option<Vec<u8>> {
    let terms = &object.terms;
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let flags = flag(object.part().is_some(), FLAG_PART)
        | flag(terms.no_cache, FLAG_NO_CACHE)
        | flag(terms.must_revalidate, FLAG_MUST_REVALIDATE)
        | flag(terms.is_for_authorized, FLAG_FOR_AUTHORIZED)
        | flag(terms.is_for_cookies, FLAG_FOR_COOKIES)
        | flag(terms.answered_authorized, FLAG_ANSWERED_AUTHORIZED)
        | flag(terms.answered_cookie, FLAG_ANSWERED_COOKIE);
    let part = object.part().map_or([0; 3], |part| [part.range.first, part.range.last, part.complete_length]);
    let contents = Contents {
        kind: KIND_OBJECT,
        flags,
        status: object.status(),
        times: [terms.response_time, terms.date],
        spans: [terms.initial_age, terms.lifetime, terms.stale_while_revalidate, terms.stale_if_error],
        part,
        sequence,
        payload: [object.key(), object.selector(), object.fields(), object.trailers(), object.body()],
    };
    contents.assemble()
}

/// A purge as a record.
pub fn encode_purge(purge: &PurgeScope, sequence: u64) -> Option<Vec<u8>> {
    let (kind, text): (u16, &[u8]) = match purge {
        PurgeScope::Key(key) => (1, key),
        PurgeScope::Prefix(prefix) => (2, prefix),
        PurgeScope::Path { path, is_prefix: false } => (3, path),
        PurgeScope::Path { path, is_prefix: true } => (4, path),
        PurgeScope::Tag(tag) => (5, tag),
        PurgeScope::Space(space) => return assemble_purge(6, &space.to_le_bytes(), sequence),
        PurgeScope::All => (7, b""),
        PurgeScope::Group { origin, name } => {
            let length = u16::try_from(origin.len()).ok()?;
            return assemble_purge(8, &[&length.to_le_bytes(), &origin[..], name].concat(), sequence);
        }
    };
    assemble_purge(kind, text, sequence)
}

fn assemble_purge(kind: u16, text: &[u8], sequence: u64) -> Option<Vec<u8>> {
    let payload = [text, &[], &[], &[], &[]];
    Contents { kind: KIND_PURGE, status: kind, sequence, payload, ..Contents::default() }.assemble()
}

/// The contents of a record, in the order of the table above.
#[derive(Default)]
struct Contents<'a> {
    kind: u8,
    flags: u8,
    status: u16,
    times: [i64; 2],
    spans: [u32; 4],
    part: [u64; 3],
    sequence: u64,
    /// Key, selector, fields, trailers and body.
    payload: [&'a [u8]; 5],
}

impl Contents<'_> {
    /// The record; `None`: it is too large.
    fn assemble(&self) -> Option<Vec<u8>> {
        let length = HEAD_BYTES + self.payload.iter().map(|piece| piece.len()).sum::<usize>();
        let mut record = Vec::with_capacity(length);
        record.extend_from_slice(&[0; 16]);
        record.extend_from_slice(&MARK.to_le_bytes());
        record.extend_from_slice(&[self.kind, self.flags]);
        record.extend_from_slice(&self.status.to_le_bytes());
        record.extend_from_slice(&u32::try_from(length).ok()?.to_le_bytes());
        let [key, selector, fields, trailers, _] = self.payload;
        for piece in [key, selector, fields] {
            record.extend_from_slice(&u32::try_from(piece.len()).ok()?.to_le_bytes());
        }
        record.extend_from_slice(&[0; 12]);
        record.extend_from_slice(&u32::try_from(trailers.len()).ok()?.to_le_bytes());
        self.times.iter().for_each(|time| record.extend_from_slice(&time.to_le_bytes()));
        self.spans.iter().for_each(|span| record.extend_from_slice(&span.to_le_bytes()));
        self.part.iter().for_each(|number| record.extend_from_slice(&number.to_le_bytes()));
        record.extend_from_slice(&self.sequence.to_le_bytes());
        let head_sum: [u8; 8] = sum(&record[16..120]);
        record.extend_from_slice(&head_sum);
        self.payload.iter().for_each(|piece| record.extend_from_slice(piece));
        let whole: [u8; 16] = sum(&record[16..]);
        record[..16].copy_from_slice(&whole);
        Some(record)
    }
}

fn sum<const LENGTH: usize>(bytes: &[u8]) -> [u8; LENGTH] {
    let digest = Sha256::digest(bytes);
    std::array::from_fn(|index| digest[index])
}

/// Parses a head alone: it is valid whatever follows it.
pub fn decode_head(bytes: &[u8]) -> Option<RecordHead> {
    let head = bytes.get(..HEAD_BYTES)?;
    let head_sum: [u8; 8] = sum(&head[16..120]);
    if head[120..] != head_sum || number(head, 16) != MARK {
        return None;
    }
    Some(RecordHead {
        length: number(head, 24),
        is_object: head[20] == KIND_OBJECT,
        key_length: number(head, 28),
        selector_length: number(head, 32),
        sequence: long(head, 112),
    })
}

/// Parses a whole record.
pub fn decode(bytes: &[u8]) -> Result<Record, RecordError> {
    let head = decode_head(bytes).ok_or(RecordError::Head)?;
    if bytes.len() != head.length as usize || sum::<16>(&bytes[16..]) != bytes[..16] {
        return Err(RecordError::Body);
    }
    let mut rest = &bytes[HEAD_BYTES..];
    let mut take = |at: usize| -> Result<&[u8], RecordError> {
        let (piece, after) = rest.split_at_checked(number(bytes, at) as usize).ok_or(RecordError::Body)?;
        rest = after;
        Ok(piece)
    };
    let (key, selector, fields, trailers) = (take(28)?, take(32)?, take(36)?, take(52)?);
    let status = u16::from_le_bytes([bytes[22], bytes[23]]);
    if !head.is_object {
        let sequence = head.sequence;
        return purge(status, key).map(|purge| Record::Purge { purge, sequence }).ok_or(RecordError::Body);
    }
    let flags = bytes[21];
    let part = (flags & FLAG_PART != 0).then(|| ContentRange {
        range: ByteRange { first: long(bytes, 88), last: long(bytes, 96) },
        complete_length: long(bytes, 104),
    });
    let terms = Terms {
        response_time: long(bytes, 56) as i64,
        date: long(bytes, 64) as i64,
        initial_age: number(bytes, 72),
        lifetime: number(bytes, 76),
        stale_while_revalidate: number(bytes, 80),
        stale_if_error: number(bytes, 84),
        no_cache: flags & FLAG_NO_CACHE != 0,
        must_revalidate: flags & FLAG_MUST_REVALIDATE != 0,
        is_for_authorized: flags & FLAG_FOR_AUTHORIZED != 0,
        is_for_cookies: flags & FLAG_FOR_COOKIES != 0,
        answered_authorized: flags & FLAG_ANSWERED_AUTHORIZED != 0,
        answered_cookie: flags & FLAG_ANSWERED_COOKIE != 0,
    };
    let body = [Bytes::copy_from_slice(rest)];
    let hash = hash_of(key);
    let object =
        Object::new(NewObject { hash, key, selector, status, terms, fields, part, trailers, body: &body });
    Ok(Record::Object { object })
}

fn purge(kind: u16, text: &[u8]) -> Option<PurgeScope> {
    let owned = text.to_vec();
    Some(match kind {
        1 => PurgeScope::Key(owned),
        2 => PurgeScope::Prefix(owned),
        3 | 4 => PurgeScope::Path { path: owned, is_prefix: kind == 4 },
        5 => PurgeScope::Tag(owned),
        6 => PurgeScope::Space(u64::from_le_bytes(text.try_into().ok()?)),
        7 => PurgeScope::All,
        8 => {
            let (length, rest) = text.split_first_chunk::<2>()?;
            let (origin, name) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
            PurgeScope::Group { origin: origin.to_vec(), name: name.to_vec() }
        }
        _ => return None,
    })
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}
