//! uwsgi: requests to programs that serve many requests, in the protocol of the uWSGI server, one on each
//! connection (<https://uwsgi-docs.readthedocs.io/en/latest/Protocol.html>).

pub mod request;

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::backend::{Output, ProgramProtocol, ProgramVariables, Programs, Protocol};
use crate::meta_variables::ZeroByte;

/// uwsgi programs, as configured.
pub type UwsgiPrograms = Programs<Uwsgi>;

/// The server's side of uwsgi.
#[derive(Debug)]
pub enum Uwsgi {}

impl Protocol for Uwsgi {
    type Decoder = ();

    const NAME: &'static str = "uwsgi";

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

impl ProgramProtocol for Uwsgi {
    fn request_head(
        variables: &ProgramVariables<'_>,
        _keep: bool,
        _buffer: Vec<u8>,
    ) -> Result<Vec<u8>, ZeroByte> {
        // Variables that are too long for the protocol are refused like invalid ones.
        request::request_head(variables.in_one_piece()?.iter()).ok_or(ZeroByte)
    }
}
