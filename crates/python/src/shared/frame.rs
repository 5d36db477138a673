//! The kinds of frames in the rings.

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// To the worker: a request, see [`super::request`].
    Request = 1,
    /// To the worker: a part of the request's body.
    Body = 2,
    /// To the worker: the request's body has ended.
    BodyEnd = 3,
    /// To the worker: this many more bytes of the answer may be sent (four bytes).
    Credit = 4,
    /// To the worker: the client has disconnected, or the server has abandoned the request.
    Gone = 5,
    /// To the server: a whole answer: its head, followed by the body.
    Whole = 16,
    /// To the server: the head of an answer.
    Head = 17,
    /// To the server: a part of the answer's body.
    Piece = 18,
    /// To the server: the answer has ended; its trailers as field lines.
    End = 19,
    /// To the server: the application requests this many more bytes of the request's body (four bytes). 0:
    /// the application waits for bytes that were requested before.
    Want = 20,
    /// To the server: field lines of an interim response 103.
    Hints = 21,
    /// To the server, before the head: the body is a part of a file (offset and length, eight bytes each).
    /// The file's descriptor is the next one on the socket of the link.
    File = 22,
}

/// In [`Kind::BodyEnd`]: the body has broken off. In [`Kind::End`]: the answer has broken off.
pub const BROKEN: u8 = 1;
/// In [`Kind::End`]: no answer was started, and the application was not called: another worker may be tried.
pub const NOT_CALLED: u8 = 2;

/// Most bytes of the body in a [`Kind::Whole`].
pub const WHOLE_BYTES: usize = 64 * 1024;
/// Most bytes of a [`Kind::Body`] or [`Kind::Piece`].
pub const PIECE_BYTES: usize = 32 * 1024;
/// Bytes of an answer that may be sent without a [`Kind::Credit`] for more.
pub const ANSWER_WINDOW: usize = 256 * 1024;
/// Bytes of a request's body that may be sent without a [`Kind::Want`] for more.
pub const BODY_WINDOW: usize = 64 * 1024;

impl Kind {
    /// The kind with this number.
    pub fn of(number: u8) -> Option<Kind> {
        const KINDS: [Kind; 12] = [
            Kind::Request,
            Kind::Body,
            Kind::BodyEnd,
            Kind::Credit,
            Kind::Gone,
            Kind::Whole,
            Kind::Head,
            Kind::Piece,
            Kind::End,
            Kind::Want,
            Kind::Hints,
            Kind::File,
        ];
        KINDS.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// The number in a payload of four bytes; 0 for another length.
pub fn number(payload: &[u8]) -> usize {
    payload.try_into().map_or(0, |bytes| u32::from_le_bytes(bytes) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_number() {
        let known = (0..=u8::MAX).filter_map(|number| Kind::of(number).map(|kind| (number, kind)));
        let known: Vec<_> = known.collect();
        assert_eq!(known.len(), 12);
        assert!(known.iter().all(|(number, kind)| *number == *kind as u8));
        assert_eq!(number(&7u32.to_le_bytes()), 7);
        assert_eq!(number(b"123"), 0);
    }
}
