//! The output of a page: pieces in their order, some of which are still being made.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;

/// An output to which other tasks may still write.
#[derive(Clone, Default)]
pub(super) struct Sink(Rc<RefCell<State>>);

#[derive(Default)]
struct State {
    pieces: VecDeque<Piece>,
    /// The output is complete.
    closed: bool,
}

enum Piece {
    Bytes(Bytes),
    Nested(Sink),
}

/// The next output of a sink.
pub(super) enum NextOutput {
    Bytes(Bytes),
    /// The next piece is still being made.
    NotYet,
    End,
}

impl Sink {
    /// Appends a piece.
    pub(super) fn push(&self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.0.borrow_mut().pieces.push_back(Piece::Bytes(bytes));
        }
    }

    /// Appends a place for a nested output, and returns the sink that fills it.
    pub(super) fn nested(&self) -> Sink {
        let nested = Sink::default();
        self.0.borrow_mut().pieces.push_back(Piece::Nested(nested.clone()));
        nested
    }

    /// Marks the output as complete.
    pub(super) fn close(&self) {
        self.0.borrow_mut().closed = true;
    }

    /// Takes the piece at the front.
    pub(super) fn take_next(&self) -> NextOutput {
        let mut state = self.0.borrow_mut();
        loop {
            match state.pieces.pop_front() {
                None if state.closed => return NextOutput::End,
                None => return NextOutput::NotYet,
                Some(Piece::Bytes(bytes)) => return NextOutput::Bytes(bytes),
                Some(Piece::Nested(nested)) => match nested.take_next() {
                    NextOutput::End => {}
                    front => {
                        state.pieces.push_front(Piece::Nested(nested));
                        return front;
                    }
                },
            }
        }
    }

    /// Takes all pieces of a complete output.
    pub(super) fn into_pieces(self) -> Vec<Bytes> {
        let mut pieces = Vec::new();
        while let NextOutput::Bytes(bytes) = self.take_next() {
            pieces.push(bytes);
        }
        pieces
    }
}
