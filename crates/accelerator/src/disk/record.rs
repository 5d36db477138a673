//! A response as it lies on the disk: a header of fixed length with two checksums, then key, selector, field lines and body.
//!
//! Nothing that is read is believed before its checksums are right and its lengths fit: what a killed process, a full disk
//! or a failing one has left is found out here.

use std::hash::Hasher;

use bytes::Bytes;
use touchstone_http::range::ByteRange;
use twox_hash::XxHash3_64;

use crate::rules::partial::Part;
use crate::rules::storing::Terms;
use crate::store::{NewObject, Object};

/// Length of the header.
pub const HEADER_BYTES: usize = 128;

/// What a record begins with; the last digit is the version of the form.
const MAGIC: [u8; 8] = *b"TSdisk01";

/// Where the checksum of what follows the header stands.
pub const PAYLOAD_SUM_AT: usize = 100;

/// Where the checksum of the rest of the header stands.
const HEADER_SUM_AT: usize = HEADER_BYTES - 8;

const NO_CACHE: u8 = 1;
const MUST_REVALIDATE: u8 = 2;
const FOR_AUTHORIZED: u8 = 4;
const IS_PART: u8 = 8;

/// The bytes are no record, or not the one that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Corrupt;

/// A checksum of bytes in pieces.
pub fn checksum<'b>(pieces: impl IntoIterator<Item = &'b [u8]>) -> u64 {
    let mut hasher = XxHash3_64::with_seed(0);
    pieces.into_iter().for_each(|piece| hasher.write(piece));
    hasher.finish()
}

/// A record up to its body, which follows it. `None`: it is too long to be written.
pub fn head_of(object: &Object, sequence: u64) -> Option<Vec<u8>> {
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).ok();
    let payload = [object.key(), object.selector(), object.fields(), object.body()];
    let mut writer = Writer(Vec::with_capacity(HEADER_BYTES + 512));
    writer.0.extend_from_slice(&MAGIC);
    writer.u64(sequence);
    writer.u64(object.hash);
    for piece in payload {
        writer.u32(length(piece)?);
    }
    let terms = &object.terms;
    let part = object.part();
    let flags = [
        (NO_CACHE, terms.no_cache),
        (MUST_REVALIDATE, terms.must_revalidate),
        (FOR_AUTHORIZED, terms.is_for_authorized),
        (IS_PART, part.is_some()),
    ];
    let flags = flags.iter().filter(|(_, is_set)| *is_set).fold(0, |all, (flag, _)| all | flag);
    writer.u32(u32::from(object.status()) | u32::from(flags) << 16);
    for seconds in [terms.initial_age, terms.lifetime, terms.stale_while_revalidate, terms.stale_if_error] {
        writer.u32(seconds);
    }
    writer.u64(terms.response_time as u64);
    writer.u64(terms.date as u64);
    let (range, complete_length) =
        part.map_or((ByteRange { first: 0, last: 0 }, 0), |part| (part.range, part.complete_length));
    for number in [range.first, range.last, complete_length] {
        writer.u64(number);
    }
    debug_assert_eq!(writer.0.len(), PAYLOAD_SUM_AT);
    writer.u64(checksum(payload));
    writer.0.resize(HEADER_SUM_AT, 0);
    let sum = checksum([&writer.0[..]]);
    writer.u64(sum);
    payload[..3].iter().for_each(|piece| writer.0.extend_from_slice(piece));
    Some(writer.0)
}

/// Reads a record back: the response, and its sequence number.
///
/// # Errors
/// It is not as it was written.
pub fn read(bytes: &[u8]) -> Result<(Object, u64), Corrupt> {
    let head = Head::read(bytes)?;
    let payload = bytes.get(HEADER_BYTES..).ok_or(Corrupt)?;
    if checksum([payload]) != head.payload_sum {
        return Err(Corrupt);
    }
    let (key, rest) = payload.split_at_checked(head.lengths[0]).ok_or(Corrupt)?;
    let (selector, rest) = rest.split_at_checked(head.lengths[1]).ok_or(Corrupt)?;
    let (fields, body) = rest.split_at_checked(head.lengths[2]).ok_or(Corrupt)?;
    let is_whole = body.len() == head.lengths[3]
        && head.part.is_none_or(|part| {
            let span = part.range.last.checked_sub(part.range.first).and_then(|span| span.checked_add(1));
            span == Some(body.len() as u64) && part.range.last < part.complete_length
        });
    if !is_whole {
        return Err(Corrupt);
    }
    let object = Object::new(NewObject {
        hash: head.hash,
        key,
        selector,
        status: head.status,
        terms: head.terms,
        fields,
        part: head.part,
        body: &[Bytes::copy_from_slice(body)],
    });
    Ok((object, head.sequence))
}

/// Key and field lines of the record that begins with these bytes, as far as they are needed to tell whether a purge is
/// for it; the body need not be there, and is not checked.
pub fn key_and_fields(bytes: &[u8]) -> Result<(&[u8], &[u8]), Corrupt> {
    let head = Head::read(bytes)?;
    let payload = bytes.get(HEADER_BYTES..).ok_or(Corrupt)?;
    let (key, rest) = payload.split_at_checked(head.lengths[0]).ok_or(Corrupt)?;
    let fields = rest.get(head.lengths[1]..).and_then(|rest| rest.get(..head.lengths[2])).ok_or(Corrupt)?;
    Ok((key, fields))
}

/// How many bytes [`key_and_fields`] wants, by a header.
pub fn head_bytes(header: &[u8]) -> Result<usize, Corrupt> {
    let head = Head::read(header)?;
    Ok(HEADER_BYTES + head.lengths[..3].iter().sum::<usize>())
}

struct Head {
    sequence: u64,
    hash: u64,
    /// Of key, selector, fields and body.
    lengths: [usize; 4],
    status: u16,
    terms: Terms,
    part: Option<Part>,
    payload_sum: u64,
}

impl Head {
    fn read(bytes: &[u8]) -> Result<Head, Corrupt> {
        let header = bytes.get(..HEADER_BYTES).ok_or(Corrupt)?;
        let (head, sum) = header.split_at(HEADER_SUM_AT);
        if !head.starts_with(&MAGIC) || checksum([head]).to_le_bytes() != sum {
            return Err(Corrupt);
        }
        let mut reader = Reader(&head[MAGIC.len()..]);
        let (sequence, hash) = (reader.u64()?, reader.u64()?);
        let mut lengths = [0; 4];
        for length in &mut lengths {
            *length = reader.u32()? as usize;
        }
        let status_and_flags = reader.u32()?;
        let flags = (status_and_flags >> 16) as u8;
        let is_set = |flag| flags & flag != 0;
        let mut seconds = [0; 4];
        for each in &mut seconds {
            *each = reader.u32()?;
        }
        let [initial_age, lifetime, stale_while_revalidate, stale_if_error] = seconds;
        let terms = Terms {
            response_time: reader.u64()? as i64,
            date: reader.u64()? as i64,
            initial_age,
            lifetime,
            stale_while_revalidate,
            stale_if_error,
            no_cache: is_set(NO_CACHE),
            must_revalidate: is_set(MUST_REVALIDATE),
            is_for_authorized: is_set(FOR_AUTHORIZED),
        };
        let range = ByteRange { first: reader.u64()?, last: reader.u64()? };
        let part = Part { range, complete_length: reader.u64()? };
        let part = is_set(IS_PART).then_some(part);
        let payload_sum = reader.u64()?;
        let status = status_and_flags as u16;
        Ok(Head { sequence, hash, lengths, status, terms, part, payload_sum })
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn u32(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn u64(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }
}

struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    fn u32(&mut self) -> Result<u32, Corrupt> {
        let (number, rest) = self.0.split_first_chunk::<4>().ok_or(Corrupt)?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*number))
    }

    fn u64(&mut self) -> Result<u64, Corrupt> {
        let (number, rest) = self.0.split_first_chunk::<8>().ok_or(Corrupt)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn terms() -> impl Strategy<Value = Terms> {
        (any::<[i64; 2]>(), any::<[u32; 4]>(), any::<[bool; 3]>()).prop_map(|(times, seconds, flags)| Terms {
            response_time: times[0],
            date: times[1],
            initial_age: seconds[0],
            lifetime: seconds[1],
            stale_while_revalidate: seconds[2],
            stale_if_error: seconds[3],
            no_cache: flags[0],
            must_revalidate: flags[1],
            is_for_authorized: flags[2],
        })
    }

    fn objects() -> impl Strategy<Value = Object> {
        let texts = (vec(any::<u8>(), 0..40), vec(any::<u8>(), 0..40), vec(any::<u8>(), 0..80));
        // Long bodies are kept in another way than short ones.
        let body = prop_oneof![vec(any::<u8>(), 1..50), vec(any::<u8>(), 70_000..70_010)];
        (texts, body, terms(), any::<u64>(), 200_u16..600, any::<Option<(u32, u32)>>()).prop_map(
            |((key, selector, fields), body, terms, hash, status, part)| {
                let part = part.map(|(first, behind)| {
                    let range =
                        ByteRange { first: first.into(), last: u64::from(first) + body.len() as u64 - 1 };
                    Part { range, complete_length: range.last + 1 + u64::from(behind) }
                });
                let body = [Bytes::from(body)];
                Object::new(NewObject {
                    hash,
                    key: &key,
                    selector: &selector,
                    status,
                    terms,
                    fields: &fields,
                    part,
                    body: &body,
                })
            },
        )
    }

    fn written(object: &Object, sequence: u64) -> Vec<u8> {
        [&head_of(object, sequence).unwrap()[..], object.body()].concat()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_written_comes_back(object in objects(), sequence: u64) {
            let bytes = written(&object, sequence);
            let (again, found) = read(&bytes).unwrap();
            prop_assert_eq!(found, sequence);
            prop_assert_eq!(written(&again, sequence), bytes.clone());
            prop_assert_eq!((again.hash, again.status(), again.part()), (object.hash, object.status(), object.part()));
            prop_assert_eq!(again.terms, object.terms);
            prop_assert!(again.body() == object.body());
            let head = head_bytes(&bytes).unwrap();
            prop_assert_eq!(key_and_fields(&bytes[..head]).unwrap(), (object.key(), object.fields()));
        }

        /// Whichever bit is flipped and wherever it ends, it is found out.
        #[test]
        fn what_has_changed_is_found_out(object in objects(), place: prop::sample::Index, bit in 0..8) {
            let mut bytes = written(&object, 7);
            let at = place.index(bytes.len());
            prop_assert!(read(&bytes[..at]).is_err());
            bytes[at] ^= 1_u8 << bit;
            prop_assert!(read(&bytes).is_err());
        }

        #[test]
        fn any_bytes(bytes in vec(any::<u8>(), 0..300)) {
            prop_assert!(read(&bytes).is_err());
            let bytes = [&MAGIC[..], &bytes].concat();
            prop_assert!(read(&bytes).is_err() && key_and_fields(&bytes).is_err());
        }
    }
}
