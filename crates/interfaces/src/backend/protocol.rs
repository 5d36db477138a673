//! The differences between the protocols of programs: how requests are encoded and answers decoded.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::variables::ProgramVariables;
use crate::cgi_response::DocumentHead;
use crate::meta_variables::ZeroByte;

/// A protocol between the server and a program that listens.
pub trait Protocol: 'static {
    /// The state of the decoder.
    type Decoder: Clone;

    /// Its name, as in the configuration.
    const NAME: &'static str;

    /// The program requests each piece of the body; otherwise the body is sent as fast as it arrives.
    const REQUESTS_BODY: bool = false;

    /// How many bytes of the body may be sent now.
    fn body_room(_decoder: &Self::Decoder) -> usize {
        usize::MAX
    }

    /// Appends a piece of the body without copying it. The piece must not be longer than
    /// [`Protocol::body_room`].
    fn push_body(decoder: &mut Self::Decoder, piece: Bytes, out: &mut VecDeque<Bytes>);

    /// Appends the end of the body. A program that requests pieces gets it each time that it requests another
    /// one.
    fn end_body(decoder: &mut Self::Decoder, out: &mut VecDeque<Bytes>);

    /// Takes the next output from the front of the received bytes; `None`: more bytes are needed.
    ///
    /// # Errors
    /// The bytes do not follow the protocol.
    fn next(decoder: &mut Self::Decoder, received: &mut BytesMut) -> Result<Option<Output>, String>;

    /// Finds a whole answer, if the received bytes are exactly one, the program keeps its connection, and
    /// there is no other output: the pieces of a CGI response. It is a fast path that avoids
    /// [`Protocol::next`].
    fn whole_answer(_received: &[u8]) -> Option<WholeAnswer<'_>> {
        None
    }

    /// Called when the program has closed the connection.
    ///
    /// # Errors
    /// The answer is incomplete.
    fn closed(decoder: &Self::Decoder) -> Result<Output, String>;
}

/// A protocol without frames, with one request on each connection: the body follows the head as it is, and
/// the end of the connection is the end of the answer.
pub trait UnframedProtocol: 'static {
    /// Its name, as in the configuration.
    const NAME: &'static str;
}

impl<P: UnframedProtocol> Protocol for P {
    type Decoder = ();

    const NAME: &'static str = <P as UnframedProtocol>::NAME;

    fn push_body(_decoder: &mut (), piece: Bytes, out: &mut VecDeque<Bytes>) {
        out.push_back(piece);
    }

    fn end_body(_decoder: &mut (), _out: &mut VecDeque<Bytes>) {}

    fn next(_decoder: &mut (), received: &mut BytesMut) -> Result<Option<Output>, String> {
        Ok((!received.is_empty()).then(|| Output::Answer(received.split().freeze())))
    }

    fn closed(_decoder: &()) -> Result<Output, String> {
        Ok(Output::End { status: 0, keeps: false })
    }
}

/// A protocol whose programs get the variables of CGI, and answer as CGI programs do.
pub trait ProgramProtocol: Protocol<Decoder: Default> {
    /// [`Protocol::whole_answer`] finds answers.
    const ANSWERS_IN_ONE_PIECE: bool = false;

    /// A request up to its body; the whole request if there is no body. It is written into `buffer` to reuse
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

/// A whole answer, as slices of the received bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeAnswer<'r> {
    /// Its first piece, usually the only one.
    pub first: &'r [u8],
    /// Further pieces.
    pub more: Vec<&'r [u8]>,
}

/// An output of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// The head of the answer, if the protocol has one. Pieces of the body follow.
    Head(Box<DocumentHead>),
    /// A piece of the answer: of a CGI response, or of the body after a head.
    Answer(Bytes),
    /// The program accepts more of the body now.
    BodyWanted,
    /// A message for the operator.
    Message(Bytes),
    /// The answer is complete.
    End {
        /// The exit status of the program; 0: success.
        status: u32,
        /// Whether the connection may serve another request.
        keeps: bool,
    },
    /// The program has no capacity for the request, and has not started it.
    Overloaded,
}
