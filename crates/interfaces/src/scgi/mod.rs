//! SCGI: requests to programs that serve many requests, one on each connection (Simple Common Gateway
//! Interface, Schemenauer 2006).

pub mod request;

use crate::backend::{ProgramProtocol, ProgramVariables, Programs, UnframedProtocol};
use crate::meta_variables::ZeroByte;

/// SCGI programs, as configured.
pub type ScgiPrograms = Programs<Scgi>;

/// The server's side of SCGI.
#[derive(Debug)]
pub enum Scgi {}

impl UnframedProtocol for Scgi {
    const NAME: &'static str = "scgi";
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
