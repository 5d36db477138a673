//! The worker's side: the process with the application, the command `python-worker`, which only the server
//! starts.
//!
//! Its standard input is the socket of [`control`] messages. The first message has the settings. What the
//! application prints goes to standard output and standard error, which the server reads.
//!
//! | module | |
//! |---|---|
//! | `process` | the process from its start to its end |
//! | `application` | the application, and the Python side of a worker |
//! | `parts` | what all threads use |
//! | `server` | messages to the server's supervisor |
//! | `control` | the thread that hears what the server says |
//! | `links` | the rings to and from all cores |
//! | `monitor` | sees to it that nothing waits for a call that takes long |
//! | `names` | objects that every request needs, made once |
//! | `environ` | a request as the dictionary of WSGI |
//! | `response` | the head of an answer, checked |
//! | `hub` | what the threads of a WSGI application share |
//! | `wsgi` | calls a WSGI application |
//! | `asgi` | calls an ASGI application |

mod application;
mod asgi;
mod control;
mod environ;
mod hub;
mod links;
mod monitor;
mod names;
mod parts;
mod process;
mod response;
mod server;
mod wsgi;

/// Reads bytes as what a client of a WebSocket sends.
pub fn read_anything(bytes: &[u8]) {
    let mut decoder = asgi::websocket::Decoder::default();
    decoder.push(bytes);
    while let Ok(Some(_)) = decoder.next() {}
}

pub use process::WorkerSettings;
pub use process::run;
