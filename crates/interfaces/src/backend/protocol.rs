//! What FastCGI and SCGI differ in: how a request is put into bytes, and an answer out of them.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::meta_variables::MetaVariables;

/// A protocol between the server and a program that listens.
pub trait Protocol: 'static {
    /// What it remembers of what was received.
    type Decoder: Default;

    /// Its name, as in the configuration.
    const NAME: &'static str;

    /// A request up to its body; all of it, where it has none.
    fn request_head(variables: &MetaVariables, body_bytes: u64, keep: bool) -> Vec<u8>;

    /// Appends a piece of the body, without copying it.
    fn push_body(piece: Bytes, out: &mut VecDeque<Bytes>);

    /// Appends the end of the body.
    fn end_body(out: &mut VecDeque<Bytes>);

    /// Takes the next output off the front of what was received; `None`: more must be received first.
    ///
    /// # Errors
    /// Why the bytes are not of this protocol.
    fn next(decoder: &mut Self::Decoder, received: &mut BytesMut) -> Result<Option<Output>, String>;

    /// What it means that the program has closed the connection.
    ///
    /// # Errors
    /// Something was missing.
    fn closed(decoder: &Self::Decoder) -> Result<Output, String>;
}

/// What a program sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// A piece of the answer: a CGI response.
    Answer(Bytes),
    /// Something for the operator.
    Message(Bytes),
    /// The answer is complete.
    End {
        /// What the program returned, 0 where all is well.
        status: u32,
        /// Whether the connection may serve another request.
        keeps: bool,
    },
    /// The program has no room for the request, and has done nothing with it.
    Overloaded,
}
