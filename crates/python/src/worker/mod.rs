//! The worker's side: the process with the application, the command `python-worker`, which only the server
//! starts.
//!
//! Its standard input is the socket of [`control`] messages. The first message contains the settings. The
//! application prints to standard output and standard error, which the server reads.
//!
//! | module | |
//! |---|---|
//! | `process` | the process from its start to its end |
//! | `application` | the application, and the Python side of a worker |
//! | `parts` | the state that all threads use |
//! | `server` | messages to the server's supervisor |
//! | `control` | the thread that receives the server's messages |
//! | `links` | the rings to and from all cores |
//! | `monitor` | makes sure that nothing waits for a long call |
//! | `names` | objects that every request needs, made once |
//! | `environ` | a request as the dictionary of WSGI |
//! | `response` | the head of an answer, checked |
//! | `object_cache` | objects that requests share |
//! | `hub` | the state that the threads of a WSGI application share |
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
mod object_cache;
mod parts;
mod process;
mod response;
mod server;
mod wsgi;

/// Reads bytes as the frames of a WebSocket client.
pub fn read_anything(bytes: &[u8]) {
    let mut decoder = asgi::websocket::Decoder::default();
    decoder.push(bytes);
    while let Ok(Some(_)) = decoder.next() {}
}

pub use process::WorkerSettings;
pub use process::run;
