//! What the protocols of programs differ in: how a request is put into bytes, and an answer out of them.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::variables::ProgramVariables;
use crate::cgi_response::DocumentHead;
use crate::meta_variables::ZeroByte;

/// A protocol between the server and a program that listens.
pub trait Protocol: 'static {
    /// What it remembers of what was sent and received.
    type Decoder: Clone;

    /// Its name, as in the configuration.
    const NAME: &'static str;

    /// The program asks for each piece of the body; otherwise it is sent as fast as it comes.
    const ASKS_FOR_BODY: bool = false;

    /// How many bytes of the body may be sent at the moment.
    fn body_room(_decoder: &Self::Decoder) -> usize {
        usize::MAX
    }

    /// Appends a piece of the body, no longer than there is room for, without copying it.
    fn push_body(decoder: &mut Self::Decoder, piece: Bytes, out: &mut VecDeque<Bytes>);

    /// Appends the end of the body. Who asks for pieces is told so each time that it asks for one more.
    fn end_body(decoder: &mut Self::Decoder, out: &mut VecDeque<Bytes>);

    /// Takes the next output off the front of what was received; `None`: more must be received first.
    ///
    /// # Errors
    /// Why the bytes are not of this protocol.
    fn next(decoder: &mut Self::Decoder, received: &mut BytesMut) -> Result<Option<Output>, String>;

    /// A whole answer, where what was received is one, to the byte, from a program that keeps its connection
    /// and has nothing else to say: the pieces of a CGI response. For who wants to spare itself
    /// [`Protocol::next`].
    fn whole_answer(_received: &[u8]) -> Option<WholeAnswer<'_>> {
        None
    }

    /// What it means that the program has closed the connection.
    ///
    /// # Errors
    /// Something was missing.
    fn closed(decoder: &Self::Decoder) -> Result<Output, String>;
}

/// A protocol whose programs get the variables of CGI, and answer as CGI programs do.
pub trait ProgramProtocol: Protocol<Decoder: Default> {
    /// [`Protocol::whole_answer`] finds answers.
    const ANSWERS_IN_ONE_PIECE: bool = false;

    /// A request up to its body; all of it, where it has none. It is written into `buffer`, for the sake of
    /// its memory.
    ///
    /// # Errors
    /// A variable cannot be passed on.
    fn request_head(
        variables: &ProgramVariables<'_>,
        keep: bool,
        buffer: Vec<u8>,
    ) -> Result<Vec<u8>, ZeroByte>;
}

/// A whole answer as it lies among what was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeAnswer<'r> {
    /// Its first piece, and mostly all of it.
    pub first: &'r [u8],
    /// What follows.
    pub more: Vec<&'r [u8]>,
}

/// What a program sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// The head of the answer, where the protocol has one. Pieces of the body follow.
    Head(Box<DocumentHead>),
    /// A piece of the answer: a CGI response, or of the body behind a head.
    Answer(Bytes),
    /// It takes more of the body now.
    BodyWanted,
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
