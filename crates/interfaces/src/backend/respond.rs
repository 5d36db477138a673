//! Makes the server's answer from a program's: its fields, its body, or a file that it names.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use touchstone_files::root::{FileKind, OpenError, Root};
use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::handler::{Level, Server};
use touchstone_handler::pipe::Receiver;

use crate::cgi_response::DocumentHead;

/// The part of a body that is known when the answer begins.
pub enum Body {
    /// The whole body.
    Whole(Bytes),
    /// The body follows.
    Stream {
        /// The source of its pieces.
        receiver: Receiver,
        /// The length that the program has declared.
        length: Option<u64>,
    },
}

/// An answer with the program's status and fields.
pub fn answer(head: DocumentHead, is_head: bool, body: Body) -> Answer {
    let mut answer = Answer { reason: head.reason, ..Answer::new(head.status) };
    // For HEAD and 304 the answer declares the length that the body would have (RFC 9110 section 8.6).
    if is_head || head.status == 304 {
        answer.declared_length = head.content_length;
    }
    answer.fields = head.fields;
    if is_head && answer.declared_length.is_some() {
        return answer;
    }
    match body {
        // If a program sends no body for HEAD and declares no length, the length is unknown.
        Body::Whole(bytes) if is_head && bytes.is_empty() => answer,
        Body::Whole(bytes) => answer.part(BodyPart::Bytes(bytes)),
        Body::Stream { receiver, length } => {
            let length = length.filter(|_| !is_head && head.status != 304);
            answer.part(BodyPart::Stream { body: receiver, length })
        }
    }
}

/// The file below `root` that a program names instead of sending a body; removes the field from the head.
pub fn named_file(head: &mut DocumentHead, root: &Root) -> Option<Vec<u8>> {
    if let Some(path) = head.accel_redirect.take() {
        return Some(decoded(&path));
    }
    let path = head.field(b"x-sendfile")?.to_vec();
    let lines = head.fields.split_inclusive(|&byte| byte == b'\n');
    let is_it = |line: &[u8]| line.get(..11).is_some_and(|name| name.eq_ignore_ascii_case(b"x-sendfile:"));
    head.fields = lines.filter(|line| !is_it(line)).flatten().copied().collect();
    // An absolute path of the machine must be below the root.
    Some(root.path_of(&path).unwrap_or(path))
}

/// The answer with the file as its body.
pub fn send_file(
    server: &Rc<dyn Server>,
    mut head: DocumentHead,
    root: &Arc<Root>,
    path: &[u8],
    log_name: &str,
) -> Answer {
    let refused = |reason: &str, status| {
        let path = String::from_utf8_lossy(path);
        let message = format!("a program requests {path:?} to be sent, which {reason} ({log_name})");
        server.log(Level::Warning, "file not sent", &message);
        Answer::error(status)
    };
    match root.open(path) {
        Ok(opened) if opened.facts.kind == FileKind::Regular => {
            // The length that the program declared was that of its own body.
            head.content_length = None;
            let mut answer = Answer { reason: head.reason, ..Answer::new(head.status) };
            answer.fields = head.fields;
            let length = opened.facts.size;
            answer.part(BodyPart::File { file: Arc::new(opened.descriptor), offset: 0, length })
        }
        Ok(_) | Err(OpenError::NotAFile) => refused("is not a file", 404),
        Err(OpenError::NotFound) => refused("is not there", 404),
        Err(OpenError::TooManyOpenFiles) => refused("cannot be opened: too many files are open", 503),
        Err(OpenError::Forbidden) => refused("may not be sent", 403),
        Err(OpenError::Other(error)) => refused(&format!("cannot be opened: {error}"), 500),
    }
}

/// Decodes percent escapes of a URL path; invalid ones stay unchanged.
fn decoded(path: &[u8]) -> Vec<u8> {
    let mut normal = Vec::with_capacity(path.len());
    let without_query = path.split(|&byte| byte == b'?').next().unwrap_or_default();
    match touchstone_http::target::normalise_path(without_query, &mut normal) {
        Ok(()) => normal,
        Err(_) => path.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use touchstone_files::root::SymlinkPolicy;

    #[test]
    fn files_that_programs_name() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::new(directory.path(), SymlinkPolicy::Inside).unwrap();
        let absolute = format!("X-A: b\r\nX-SendFile: {}/a/b.zip\r\nX-C: d\r\n", directory.path().display());
        for (fields, accel, expected, left) in [
            (absolute.as_str(), None, Some("/a/b.zip"), "X-A: b\r\nX-C: d\r\n"),
            ("X-Sendfile: /etc/passwd\r\n", None, Some("/etc/passwd"), ""),
            ("X-A: b\r\n", Some("/a%20b/../c.zip?x"), Some("/c.zip"), "X-A: b\r\n"),
            ("X-A: b\r\n", None, None, "X-A: b\r\n"),
        ] {
            let accel_redirect = accel.map(|path| path.as_bytes().to_vec());
            let mut head = DocumentHead {
                fields: fields.as_bytes().to_vec(),
                accel_redirect,
                ..DocumentHead::default()
            };
            let named = named_file(&mut head, &root).map(|path| String::from_utf8(path).unwrap());
            assert_eq!(
                (named.as_deref(), String::from_utf8(head.fields).unwrap().as_str()),
                (expected, left)
            );
        }
    }
}
