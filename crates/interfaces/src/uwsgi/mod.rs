//! uwsgi: requests to programs that serve many requests, in the protocol of the uWSGI server, one on each
//! connection (<https://uwsgi-docs.readthedocs.io/en/latest/Protocol.html>).

pub mod request;

use crate::backend::{ProgramProtocol, ProgramVariables, Programs, UnframedProtocol};
use crate::meta_variables::ZeroByte;

/// uwsgi programs, as configured.
pub type UwsgiPrograms = Programs<Uwsgi>;

/// The server's side of uwsgi.
#[derive(Debug)]
pub enum Uwsgi {}

impl UnframedProtocol for Uwsgi {
    const NAME: &'static str = "uwsgi";
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
