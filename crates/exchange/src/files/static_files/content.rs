//! Makes the answer from a file's bytes: conditions first, then ranges, then the whole (RFC 9110 section
//! 13.2.2).

use std::os::fd::OwnedFd;
use std::sync::Arc;

use touchstone_files::cache::{PreparedResponse, Representation};
use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::ranges::RangeSource;
use touchstone_http::conditional::{
    Conditions, FieldLines, Precondition, Validators, evaluate, if_range_holds,
};
use touchstone_http::range::{self, ByteRange, Ranges};
use touchstone_http::request::{KnownField, Method};

use crate::files::file_request::FileRequest;

/// The location of a file's bytes.
pub enum Content {
    /// In the cache.
    Cached(Arc<PreparedResponse>),
    /// On disk, with this length.
    File(Arc<OwnedFd>, u64),
}

impl Content {
    fn length(&self) -> u64 {
        match self {
            Content::Cached(prepared) => prepared.body_length() as u64,
            Content::File(_, length) => *length,
        }
    }

    fn part(&self, range: ByteRange) -> BodyPart {
        match self {
            Content::Cached(prepared) => {
                BodyPart::Cached(prepared.clone(), range.first as usize..range.last as usize + 1)
            }
            Content::File(file, _) => {
                BodyPart::File { file: file.clone(), offset: range.first, length: range.len() }
            }
        }
    }

    /// All of it, as the body of an answer.
    pub fn whole(&self) -> Vec<BodyPart> {
        match self.length() {
            0 => Vec::new(),
            length => vec![self.part(ByteRange { first: 0, last: length - 1 })],
        }
    }
}

/// The target of a path.
pub enum PathTarget {
    /// A file, or the cached output of a page.
    Content(Representation, Content),
    /// The output of a page with directives, for this request only.
    Evaluated(Representation, Answer),
    /// Another answer: not found, refused, a redirect, or a listing.
    Other(Answer),
}

/// The answer that the request's conditions require instead of the content, if any (RFC 9110 section 13.2.2).
pub fn precondition(request: &FileRequest<'_>, representation: &Representation, now: i64) -> Option<Answer> {
    // Without validators, no condition can match.
    let has_validators = !representation.etag.is_empty() || representation.last_modified.is_some();
    if !request.head.has_conditions_or_range || !has_validators {
        return None;
    }
    let values = |known| request.head.values(request.buffer, known).collect::<Vec<&[u8]>>();
    let if_match = values(KnownField::IfMatch);
    let if_none_match = values(KnownField::IfNoneMatch);
    let if_modified_since = values(KnownField::IfModifiedSince);
    let if_unmodified_since = values(KnownField::IfUnmodifiedSince);
    let if_range = values(KnownField::IfRange);
    let conditions = Conditions {
        if_match: FieldLines::Several(&if_match),
        if_none_match: FieldLines::Several(&if_none_match),
        if_modified_since: FieldLines::Several(&if_modified_since),
        if_unmodified_since: FieldLines::Several(&if_unmodified_since),
        if_range: FieldLines::Several(&if_range),
    };
    match evaluate(&conditions, &validators(representation), true, now) {
        Precondition::Proceed => None,
        Precondition::NotModified => {
            let mut answer = Answer::new(304);
            representation.write_validators(&mut answer.fields);
            Some(answer)
        }
        Precondition::Failed => Some(Answer::error(412)),
    }
}

fn validators(representation: &Representation) -> Validators<'_> {
    Validators { etag: &representation.etag, last_modified: representation.facts.modified_seconds }
}

/// Evaluates conditions first, then ranges, then sends the whole (RFC 9110 section 13.2.2).
pub fn answer_content(
    request: &FileRequest<'_>,
    representation: &Representation,
    content: Content,
    now: i64,
) -> Answer {
    if let Some(answer) = precondition(request, representation, now) {
        return answer;
    }
    if request.head.has_conditions_or_range && !representation.is_made {
        let values = |known| request.head.values(request.buffer, known).collect::<Vec<&[u8]>>();
        let if_range = values(KnownField::IfRange);
        let validators = validators(representation);
        let ranges: Vec<&[u8]> = values(KnownField::Range);
        // RFC 9110 section 14.2: Range is defined only for GET; a repeated field is malformed and so ignored.
        if let ([ranges], Method::Get) = (ranges.as_slice(), request.head.method)
            && representation.content_coding.is_none()
            && (if_range.is_empty() || if_range_holds(FieldLines::Several(&if_range), &validators, now))
        {
            let most = request.snapshot.config.limits.ranges;
            match range::parse(ranges, content.length(), most) {
                Ranges::Ignore => {}
                Ranges::Unsatisfiable => return Answer::unsatisfied_range(content.length()),
                Ranges::Satisfiable(ranges) => return partial(representation, &content, &ranges),
            }
        }
    }
    let mut answer = Answer::new(200);
    representation.write_content_fields(&mut answer.fields);
    representation.write_validators(&mut answer.fields);
    answer.body = content.whole();
    // An answer to HEAD has no body, so the length must be declared, even for an empty file.
    answer.declared_length = Some(content.length());
    answer
}

/// 206 with one range, or with several as multipart/byteranges (RFC 9110 sections 15.3.7 and 14.6).
fn partial(representation: &Representation, content: &Content, ranges: &[ByteRange]) -> Answer {
    let mut answer = Answer::new(206);
    let source = RangeSource {
        content_type: representation.content_type.as_bytes(),
        complete_length: content.length(),
        key: &representation.etag,
        part: |range: ByteRange| content.part(range),
    };
    answer.add_ranges(source, ranges);
    if ranges.len() == 1 {
        answer = answer.field("Content-Type", &representation.content_type);
    }
    representation.write_validators(&mut answer.fields);
    answer.field("Accept-Ranges", "bytes")
}
