//! SCGI: requests to programs that serve many requests, one on each connection (Simple Common Gateway
//! Interface, Schemenauer 2006).

pub mod request;

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::backend::{Output, ProgramProtocol, ProgramVariables, Programs, Protocol};
use crate::meta_variables::ZeroByte;

/// SCGI programs, as configured.
pub type ScgiPrograms = Programs<Scgi>;

/// The server's side of SCGI.
#[derive(Debug)]
pub enum Scgi {}

impl Protocol for Scgi {
    type Decoder = ();

    const NAME: &'static str = "scgi";

    fn push_body(_decoder: &mut (), piece: Bytes, out: &mut VecDeque<Bytes>) {
        out.push_back(piece);
    }

    fn end_body(_decoder: &mut (), _out: &mut VecDeque<Bytes>) {}

    fn next(_decoder: &mut (), received: &mut BytesMut) -> Result<Option<Output>, String> {
        Ok((!received.is_empty()).then(|| Output::Answer(received.split().freeze())))
    }

    fn closed(_decoder: &()) -> Result<Output, String> {
        // The end of the connection is the end of the answer.
        Ok(Output::End { status: 0, keeps: false })
    }
}

impl ProgramProtocol for Scgi {
    fn request_head(
        variables: &ProgramVariables<'_>,
        _keep: bool,
        _buffer: Vec<u8>,
    ) -> Result<Vec<u8>, ZeroByte> {
        Ok(request::request_head(variables.body_bytes(), variables.in_one_piece()?.iter()))
    }
}
