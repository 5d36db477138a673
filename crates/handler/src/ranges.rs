//! Answers with ranges of a representation (RFC 9110 sections 15.3.7, 15.5.17 and 14.6).

use std::hash::{BuildHasher as _, Hash, RandomState};
use std::sync::OnceLock;

use touchstone_http::range::{
    ByteRange, MultipartByteRanges, append_content_range, append_unsatisfied_range,
};

use crate::answer::{Answer, BodyPart};

/// A representation that ranges are taken from.
pub struct RangeSource<'a, K, P> {
    /// Its media type.
    pub content_type: &'a [u8],
    /// Its length.
    pub complete_length: u64,
    /// What distinguishes it from others.
    pub key: K,
    /// The bytes of a range.
    pub part: P,
}

impl Answer {
    /// The answer to ranges that are all after the end.
    pub fn unsatisfied_range(complete_length: u64) -> Answer {
        let mut answer = Answer::error(416);
        answer.add_content_range(|value| append_unsatisfied_range(complete_length, value));
        answer
    }

    /// Adds ranges as the body: one with its Content-Range, or several as multipart/byteranges with their
    /// Content-Type.
    pub fn add_ranges<K: Hash, P: Fn(ByteRange) -> BodyPart>(
        &mut self,
        source: RangeSource<'_, K, P>,
        ranges: &[ByteRange],
    ) {
        let RangeSource { content_type, complete_length, key, part } = source;
        if let [range] = ranges {
            self.add_content_range(|value| append_content_range(*range, complete_length, value));
            return self.body.push(part(*range));
        }
        let boundary = boundary(&key);
        let framing =
            MultipartByteRanges { content_type, complete_length, ranges, boundary: boundary.as_bytes() };
        self.fields.extend_from_slice(b"Content-Type: ");
        framing.append_media_type(&mut self.fields);
        self.fields.extend_from_slice(b"\r\n");
        for (index, range) in ranges.iter().enumerate() {
            let mut head = Vec::new();
            framing.append_part_head(index, &mut head);
            self.body.extend([BodyPart::Bytes(head.into()), part(*range)]);
        }
        let mut closing = Vec::new();
        framing.append_closing(&mut closing);
        self.body.push(BodyPart::Bytes(closing.into()));
    }

    fn add_content_range(&mut self, append_value: impl FnOnce(&mut Vec<u8>)) {
        self.fields.extend_from_slice(b"Content-Range: ");
        append_value(&mut self.fields);
        self.fields.extend_from_slice(b"\r\n");
    }
}

/// A boundary that content can contain only if its author has the process's random key.
fn boundary(key: &impl Hash) -> String {
    static STATE: OnceLock<RandomState> = OnceLock::new();
    let state = STATE.get_or_init(RandomState::new);
    format!("{:016x}{:016x}", state.hash_one((key, 0)), state.hash_one((key, 1)))
}
