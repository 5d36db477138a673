//! Ways to call a program from the server.
//!
//! Each is a [`touchstone_handler::handler::Interface`].
//!
//! | module | |
//! |---|---|
//! | `meta_variables` | the variables of a request (RFC 3875 section 4.1), for CGI, FastCGI and SCGI |
//! | `cgi_response` | reads a program's answer (RFC 3875 section 6), for the same three |
//! | `body_end` | the end of the body of such an answer, for the same three |
//! | `cgi` | CGI/1.1: a program for each request |
//! | `backend` | programs that listen: backends, kept connections, time limits; for the next three |
//! | `fastcgi`, `scgi` | the protocols of programs that listen |
//! | `ajp` | servlet containers, over AJP13 |
//!
//! Connections to programs, their health and the choice among them are in `touchstone-upstream`.

pub mod ajp;
pub mod backend;
mod body_end;
pub mod cgi;
pub mod cgi_response;
pub mod fastcgi;
pub mod meta_variables;
pub mod scgi;
pub mod uwsgi;
