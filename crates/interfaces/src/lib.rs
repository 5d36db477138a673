//! Ways to call a program from the server.
//!
//! Each is a [`touchstone_handler::handler::Interface`].
//!
//! | module | |
//! |---|---|
//! | `stream` | a connection to a program or an origin, for FastCGI, SCGI and the proxy |
//! | `meta_variables` | the variables of a request (RFC 3875 section 4.1), for CGI, FastCGI and SCGI |
//! | `cgi_response` | reads a program's answer (RFC 3875 section 6), for the same three |
//! | `body_end` | where the body of such an answer ends, for the same three |
//! | `cgi` | CGI/1.1: a program for each request |
//! | `backend` | programs that listen: backends, kept connections, time limits; for the next three |
//! | `fastcgi`, `scgi` | the protocols of programs that listen |
//! | `ajp` | servlet containers, over AJP13 |
//! | `live_instances`, `core_local` | state that routes share: of all cores, and of each core |
//! | `clock` | the clock for health |
//! | `outage` | whether an origin or a backend fails continuously |
//! | `upstream` | several equal servers: their health and the choice among them |
//! | `proxy` | other servers, over HTTP/1.1 or HTTP/2 |

pub mod ajp;
pub mod backend;
mod body_end;
pub mod cgi;
pub mod cgi_response;
mod clock;
mod core_local;
pub mod fastcgi;
mod live_instances;
pub mod meta_variables;
mod outage;
pub mod proxy;
pub mod scgi;
mod stream;
mod upstream;
pub mod uwsgi;
