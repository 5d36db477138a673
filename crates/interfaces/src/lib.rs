//! Ways to call a program from the server.
//!
//! An [`Interface`](handler::Interface) is what one configuration says of a program, shared by all cores;
//! each core makes its [`Handler`](handler::Handler) of it, which turns a [`Request`](request::Request) into
//! an [`Answer`](answer::Answer). Bodies stream both ways through a [`pipe`], so that whoever is slower sets
//! the pace, and whoever leaves is noticed by the other.
//!
//! | module | |
//! |---|---|
//! | `handler` | the trait, and what a handler may ask of the server |
//! | `request` | a request as handlers get it |
//! | `answer` | an answer before it is written |
//! | `reason_phrase` | the reason phrase of its status |
//! | `pipe` | a body on its way |
//! | `interim` | interim responses ahead of an answer |
//! | `includes` | server-parsed HTML: pages with directives in them |
//! | `stream` | a connection to a program or an origin; FastCGI, SCGI and the proxy share it |
//! | `meta_variables` | what a program is told about its request (RFC 3875 section 4.1); CGI, FastCGI and SCGI share it |
//! | `cgi_response` | reads what a program answers (RFC 3875 section 6); the same three share it |
//! | `body_end` | where the body of such an answer ends; the same three share it |
//! | `cgi` | CGI/1.1: a program for each request |
//! | `backend` | programs that listen: several backends, kept connections, time limits; the next three share it |
//! | `fastcgi`, `scgi` | the protocols of programs that listen |
//! | `ajp` | servlet containers, over AJP13 |
//! | `outage` | whether an origin or a backend fails all the time |
//! | `orphans` | processes that end with the server |
//! | `pool` | programs that the server starts and watches itself |
//! | `proxy` | other servers answer, over HTTP/1.1 or HTTP/2 |

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
