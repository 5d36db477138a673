//! Sessions against rustls' own client in memory, and endpoints against files on disk.

mod endpoint;
mod interoperation;
mod limits;
mod session;
pub mod support;
