//! The file handler: from a path to an answer (RFC 9110 sections 9.3.1, 13, 14).
//!
//! The connection serves plain hits of the cache itself. Everything else comes here, in named steps: method, path,
//! cache, open, directory or file, conditions, ranges.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use std::os::unix::ffi::OsStrExt;

use touchstone_files::cache::{NewEntry, Prepared, ReadTicket, Representation, Variant};
use touchstone_files::root::{
    FileFacts, FileKind, Opened, ReadWhole, Refused, read_whole, read_whole_blocking,
};
use touchstone_http::conditional::{
    Conditions, FieldLines, Precondition, Validators, evaluate, if_range_holds,
};
use touchstone_http::date::format_imf_fixdate;
use touchstone_http::range::{ByteRange, MultipartByteRanges, Ranges, append_unsatisfied_range};
use touchstone_http::request::{KnownField, Method, RequestHead};
use touchstone_http::target::{PathError, normalise_path};

use crate::answer::{Answer, Part};
use crate::core::Core;
use crate::site::Snapshot;

/// What the file handler needs of a request.
pub struct FileRequest<'a> {
    /// The snapshot that the request is answered under.
    pub snapshot: &'a Snapshot,
    /// The site's index in it.
    pub site: usize,
    /// The head.
    pub head: &'a RequestHead,
    /// The bytes that the head was parsed from.
    pub buffer: &'a [u8],
    /// The path as it was sent.
    pub path: &'a [u8],
    /// The query as it was sent, without its question mark.
    pub query: Option<&'a [u8]>,
    /// The form of head that the connection wants.
    pub variant: Variant,
}

/// The methods that files answer.
pub const ALLOWED_METHODS: &str = "GET, HEAD, OPTIONS";

/// How often a file that changes while it is read is read again before its answer is 503.
const READ_ATTEMPTS: usize = 5;

/// Answers a request for a file.
pub async fn answer(core: &Core, request: &FileRequest<'_>) -> Answer {
    match request.head.method {
        Method::Get | Method::Head => {}
        Method::Options => return Answer::new(204).field("Allow", ALLOWED_METHODS),
        Method::Other => return Answer::error(501),
        _ => return Answer::error(405).field("Allow", ALLOWED_METHODS),
    }
    let mut path = Vec::with_capacity(request.path.len());
    match normalise_path(request.path, &mut path) {
        Ok(()) => {}
        Err(PathError::EncodedSlash) => return Answer::error(404),
        Err(_) => return Answer::error(400),
    }
    if !request.snapshot.sites[request.site].config.hidden_files && is_hidden(&path) {
        return Answer::error(404);
    }
    match find(core, request, &path).await {
        Found::Content(representation, content) => {
            let now = core.clock.second().unix_seconds;
            answer_content(request, &representation, content, now)
        }
        Found::Other(answer) => answer,
    }
}

/// Names that begin with a dot are kept for the operator; RFC 8615 makes one exception.
fn is_hidden(path: &[u8]) -> bool {
    let path = path.strip_prefix(b"/.well-known/").unwrap_or(path);
    path.split(|&byte| byte == b'/').any(|segment| segment.starts_with(b"."))
}

/// Where a file's bytes are.
enum Content {
    Cached(Arc<Prepared>),
    File(Arc<OwnedFd>, u64),
}

impl Content {
    fn length(&self) -> u64 {
        match self {
            Content::Cached(prepared) => prepared.body_length() as u64,
            Content::File(_, length) => *length,
        }
    }

    fn part(&self, range: ByteRange) -> Part {
        match self {
            Content::Cached(prepared) => {
                Part::Cached(prepared.clone(), range.first as usize..range.last as usize + 1)
            }
            Content::File(file, _) => {
                Part::File { file: file.clone(), offset: range.first, length: range.len() }
            }
        }
    }

    fn whole(&self) -> Vec<Part> {
        match self.length() {
            0 => Vec::new(),
            length => vec![self.part(ByteRange { first: 0, last: length - 1 })],
        }
    }
}

enum Found {
    Content(Representation, Content),
    Other(Answer),
}

/// Looks for `path` in the cache, then on disk; a directory stands for its index file.
async fn find(core: &Core, request: &FileRequest<'_>, path: &[u8]) -> Found {
    if let Some((entry, prepared)) = core.cache_entry(request.snapshot, request.site, path, request.variant) {
        return Found::Content(entry.representation().clone(), Content::Cached(prepared));
    }
    if !path.ends_with(b"/") {
        return open(core, request, path, path).await;
    }
    let site = &request.snapshot.sites[request.site];
    for index in &site.config.index {
        let index_path = [path, index.as_bytes()].concat();
        match open(core, request, path, &index_path).await {
            Found::Other(answer) if answer.status == 404 => {}
            found => return found,
        }
    }
    // A directory that is there and has no index is not listed; one that is not there is not found.
    match site.root.facts(path) {
        Ok(_) => Found::Other(Answer::error(403)),
        Err(refused) => Found::Other(refusal(core, path, &refused)),
    }
}

/// Opens `file_path` and, where it may be cached, reads it and keeps it under `path`.
async fn open(core: &Core, request: &FileRequest<'_>, path: &[u8], file_path: &[u8]) -> Found {
    let site = &request.snapshot.sites[request.site];
    for _ in 0..READ_ATTEMPTS {
        let ticket = request
            .snapshot
            .cache
            .as_ref()
            .map(|cache| cache.begin_read(&directory_of(site.root.path(), file_path)));
        let opened = match site.root.open(file_path) {
            Ok(opened) => opened,
            Err(refused) => return Found::Other(refusal(core, file_path, &refused)),
        };
        if opened.facts.kind == FileKind::Directory {
            return Found::Other(directory_redirect(path, file_path, request.query));
        }
        let representation = represent(request, file_path, &opened.facts);
        let size = opened.facts.size;
        let (Some(cache), Some(ticket)) = (&request.snapshot.cache, ticket) else {
            return Found::Content(representation, Content::File(Arc::new(opened.descriptor), size));
        };
        if !cache.admits(size) {
            return Found::Content(representation, Content::File(Arc::new(opened.descriptor), size));
        }
        match read(opened).await {
            Ok(Some(body)) => {
                return match keep(core, request, path, file_path, representation.clone(), body, ticket) {
                    Some(kept) => Found::Content(representation, Content::Cached(kept)),
                    None => Found::Other(Answer::error(500)),
                };
            }
            // It changed while it was read: what was read is neither the old version nor the new one.
            Ok(None) => {}
            Err(error) => {
                core.error_log.warning(format_args!("cannot read {}: {error}", Printable(file_path)));
                return Found::Other(Answer::error(500));
            }
        }
    }
    core.error_log.warning(format_args!("{} changes faster than it can be read", Printable(file_path)));
    Found::Other(Answer::error(503).field("Retry-After", "1"))
}

/// Reads a whole file; `None` when it changed meanwhile. Waits for the disk on another thread.
async fn read(opened: Opened) -> io::Result<Option<Vec<u8>>> {
    let Opened { descriptor, facts, .. } = opened;
    let (descriptor, outcome) = match read_whole(&descriptor, facts.size)? {
        ReadWhole::WouldBlock => {
            let task = tokio::task::spawn_blocking(move || {
                let outcome = read_whole_blocking(&descriptor, facts.size);
                (descriptor, outcome)
            });
            let (descriptor, outcome) = task.await.map_err(io::Error::other)?;
            (descriptor, outcome?)
        }
        outcome => (descriptor, outcome),
    };
    let ReadWhole::Complete(body) = outcome else { return Ok(None) };
    let unchanged = FileFacts::of(descriptor.as_fd()).is_ok_and(|now| now.same_version(&facts));
    Ok(unchanged.then_some(body))
}

fn keep(
    core: &Core,
    request: &FileRequest<'_>,
    path: &[u8],
    file_path: &[u8],
    representation: Representation,
    body: Vec<u8>,
    ticket: ReadTicket,
) -> Option<Arc<Prepared>> {
    let root = request.snapshot.sites[request.site].root.clone();
    let new = NewEntry { site: request.site, path, file_path, root, representation, body };
    core.cache_insert(request.snapshot, new, ticket, request.variant)
}

fn directory_of(root: &Path, file_path: &[u8]) -> PathBuf {
    let below = file_path.iter().rposition(|&byte| byte == b'/').map_or(&[][..], |slash| &file_path[..slash]);
    let below = below.strip_prefix(b"/").unwrap_or(below);
    root.join(Path::new(std::ffi::OsStr::from_bytes(below)))
}

fn represent(request: &FileRequest<'_>, file_path: &[u8], facts: &FileFacts) -> Representation {
    let site = &request.snapshot.sites[request.site];
    Representation {
        facts: *facts,
        etag: facts.etag().as_bytes().into(),
        last_modified: format_imf_fixdate(facts.modified_seconds),
        content_type: site.content_types.content_type(file_path).into(),
        cache_control: site.config.cache_control.as_str().into(),
    }
}

/// A directory asked for without its slash is found with it; an index name that is a directory is none.
fn directory_redirect(path: &[u8], file_path: &[u8], query: Option<&[u8]>) -> Answer {
    if path != file_path {
        return Answer::error(404);
    }
    let mut location = Vec::with_capacity(path.len() + 1);
    // Built from the normalised path, never from what was sent: "//host" would lead to another server.
    encode_path(path, &mut location);
    location.push(b'/');
    if let Some(query) = query {
        location.push(b'?');
        location.extend_from_slice(query);
    }
    Answer::redirect(301, &location)
}

/// Percent-encodes all but the bytes that stand for themselves in a path (RFC 3986 section 3.3).
fn encode_path(path: &[u8], out: &mut Vec<u8>) {
    const HEXADECIMAL: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in path {
        if byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte) {
            out.push(byte);
        } else {
            let digit = |value: u8| HEXADECIMAL[usize::from(value)];
            out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
}

fn refusal(core: &Core, path: &[u8], refused: &Refused) -> Answer {
    match refused {
        Refused::NotFound => Answer::error(404),
        Refused::Forbidden | Refused::NotAFile => Answer::error(403),
        Refused::TooManyOpenFiles => {
            core.error_log.warning("no file descriptor left: raise the limit of open files (ulimit -n)");
            Answer::error(503).field("Retry-After", "1")
        }
        Refused::Other(error) => {
            core.error_log.warning(format_args!("cannot open {}: {error}", Printable(path)));
            Answer::error(500)
        }
    }
}

/// Conditions first, then ranges, then the whole (RFC 9110 section 13.2.2).
fn answer_content(
    request: &FileRequest<'_>,
    representation: &Representation,
    content: Content,
    now: i64,
) -> Answer {
    if request.head.conditional {
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
        let validators =
            Validators { etag: &representation.etag, last_modified: representation.facts.modified_seconds };
        match evaluate(&conditions, &validators, true, now) {
            Precondition::Proceed => {}
            Precondition::NotModified => {
                let mut answer = Answer::new(304);
                representation.write_validators(&mut answer.fields);
                return answer;
            }
            Precondition::Failed => return Answer::error(412),
        }
        let range: Vec<&[u8]> = values(KnownField::Range);
        // RFC 9110 section 14.2: Range is defined for GET alone; a repeated field is malformed and so ignored.
        if let ([range], Method::Get) = (range.as_slice(), request.head.method)
            && (if_range.is_empty() || if_range_holds(conditions.if_range, &validators, now))
        {
            let most = request.snapshot.config.limits.ranges;
            match touchstone_http::range::parse(range, content.length(), most) {
                Ranges::Ignore => {}
                Ranges::Unsatisfiable => return unsatisfiable(content.length()),
                Ranges::Satisfiable(ranges) => return partial(representation, &content, &ranges),
            }
        }
    }
    let mut answer = Answer::new(200).field("Content-Type", &representation.content_type);
    representation.write_validators(&mut answer.fields);
    answer = answer.field("Accept-Ranges", "bytes");
    answer.body = content.whole();
    answer
}

fn unsatisfiable(complete_length: u64) -> Answer {
    let mut answer = Answer::error(416);
    answer.fields.extend_from_slice(b"Content-Range: ");
    append_unsatisfied_range(complete_length, &mut answer.fields);
    answer.fields.extend_from_slice(b"\r\n");
    answer
}

/// 206 with one range, or with several as multipart/byteranges (RFC 9110 sections 15.3.7 and 14.6).
fn partial(representation: &Representation, content: &Content, ranges: &[ByteRange]) -> Answer {
    let mut answer = Answer::new(206);
    if let [range] = ranges {
        answer.fields.extend_from_slice(b"Content-Range: ");
        touchstone_http::range::append_content_range(*range, content.length(), &mut answer.fields);
        answer.fields.extend_from_slice(b"\r\n");
        answer = answer.field("Content-Type", &representation.content_type).part(content.part(*range));
    } else {
        let boundary = boundary(representation);
        let framing = MultipartByteRanges {
            content_type: representation.content_type.as_bytes(),
            complete_length: content.length(),
            ranges,
            boundary: boundary.as_bytes(),
        };
        answer.fields.extend_from_slice(b"Content-Type: ");
        framing.append_media_type(&mut answer.fields);
        answer.fields.extend_from_slice(b"\r\n");
        for (index, range) in ranges.iter().enumerate() {
            let mut part_head = Vec::new();
            framing.append_part_head(index, &mut part_head);
            answer.body.extend([Part::Bytes(part_head), content.part(*range)]);
        }
        let mut closing = Vec::new();
        framing.append_closing(&mut closing);
        answer.body.push(Part::Bytes(closing));
    }
    representation.write_validators(&mut answer.fields);
    answer.field("Accept-Ranges", "bytes")
}

/// A boundary that the content cannot hold unless its author knows the process's random key.
fn boundary(representation: &Representation) -> String {
    use std::hash::{BuildHasher, RandomState};
    use std::sync::OnceLock;
    static KEY: OnceLock<RandomState> = OnceLock::new();
    let key = KEY.get_or_init(RandomState::new);
    format!("{:016x}{:016x}", key.hash_one(&representation.etag), key.hash_one((&representation.etag, 1)))
}

/// Bytes from outside, made safe for a log line.
struct Printable<'a>(&'a [u8]);

impl std::fmt::Display for Printable<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_names() {
        for (path, hidden) in [
            ("/a/b.html", false),
            ("/.git/config", true),
            ("/a/.htpasswd", true),
            ("/.well-known/acme", false),
            ("/.well-known/.x", true),
            ("/a/.well-known/x", true),
        ] {
            assert_eq!(is_hidden(path.as_bytes()), hidden, "{path}");
        }
    }

    #[test]
    fn a_redirect_stays_on_this_server_and_in_its_line() {
        let answer = directory_redirect(b"/a b\r\n\xff", b"/a b\r\n\xff", Some(b"q=1"));
        let fields = String::from_utf8(answer.fields).unwrap();
        assert!(fields.ends_with("Location: /a%20b%0D%0A%FF/?q=1\r\n"), "{fields}");
    }
}
