//! Ways to call a program from the server.
//!
//! An [`Interface`](handler::Interface) is the configuration of one program, shared by all cores. Each core
//! makes a [`Handler`](handler::Handler) of it, which turns a [`Request`](request::Request) into an
//! [`Answer`](answer::Answer). Bodies stream both ways through a [`pipe`]: the slower end sets the pace, and
//! each end notices when the other is dropped.
//!
//! | module | |
//! |---|---|
//! | `handler` | the traits of interfaces, and the functions of the server that a handler may call |
//! | `request` | a request as handlers get it |
//! | `answer` | an answer before it is written |
//! | `reason_phrase` | the reason phrase of its status |
//! | `pipe` | a body between a connection and a handler |
//! | `interim` | interim responses before an answer |
//! | `includes` | server-parsed HTML: pages with directives in them |
//! | `stream` | a connection to a program or an origin, for FastCGI, SCGI and the proxy |
//! | `meta_variables` | the variables of a request (RFC 3875 section 4.1), for CGI, FastCGI and SCGI |
//! | `cgi_response` | reads a program's answer (RFC 3875 section 6), for the same three |
//! | `body_end` | where the body of such an answer ends, for the same three |
//! | `cgi` | CGI/1.1: a program for each request |
//! | `backend` | programs that listen: backends, kept connections, time limits; for the next three |
//! | `fastcgi`, `scgi` | the protocols of programs that listen |
//! | `ajp` | servlet containers, over AJP13 |
//! | `outage` | whether an origin or a backend fails all the time |
//! | `orphans` | processes that end with the server |
//! | `pool` | programs that the server starts and watches itself |
//! | `proxy` | other servers, over HTTP/1.1 or HTTP/2 |

pub mod ajp;
pub mod answer;
pub mod backend;
mod body_end;
pub mod cgi;
pub mod cgi_response;
mod clock;
mod core_local;
pub mod fastcgi;
pub mod handler;
pub mod includes;
pub mod interim;
pub mod meta_variables;
pub mod orphans;
mod outage;
pub mod pipe;
pub mod pool;
pub mod proxy;
pub mod reason_phrase;
pub mod request;
pub mod scgi;
mod stream;
