//! The admin listener: metrics for monitoring systems, a live status page for people.
//!
//! ```text
//! accept (one thread, which also takes a sample a second) -> one thread a connection, 32 at most
//!   -> gate (address, host, token) -> pages -> answer
//! ```
//!
//! The listener has its own threads, so that its clients do not load the cores: counters are read in place,
//! and only a list of sessions requires a copy from each core. It uses HTTP/1 and answers GET and HEAD.
//! Changes are made only with a token or on a unix socket: by POST to `/cache/purge`, which removes stored
//! responses of the accelerator, and by the control API below `/control`, if there is one.
//!
//! | module | |
//! |---|---|
//! | `listener` | binds the address, accepts connections, stops |
//! | `client_stream` | the socket of a client |
//! | `connection` | reads requests, writes answers |
//! | `control_request` | requests to the control API |
//! | `state` | the state that the threads of both share |
//! | `gate` | which clients and requests are allowed |
//! | `pages` | the page of each path |
//! | `history` | rates of the last minutes |
//! | `status_json`, `status_page`, `sessions_page` | the contents of the pages |
//! | `frame` | the common parts of the HTML pages |
//! | `connection_info` | the information about a connection, which its core maintains |
//! | `token` | reads the token's file |
//! | `words` | numbers for people |

mod client_stream;
mod component_table;
mod connection;
pub mod connection_info;
mod control_request;
mod frame;
mod gate;
mod history;
mod listener;
mod listener_state;
mod pages;
mod python_tables;
mod servlet_tables;
mod sessions_page;
mod status_json;
mod status_page;
mod stream_table;
pub mod token;
mod words;

pub use listener::Admin;
pub use status_json::{components_json, origins_json, streams_json};

use std::sync::Arc;

use touchstone_accelerator::purge::PurgeRequest;
use touchstone_control::{ControlRequest, ControlResponse};
use touchstone_observe::metrics::Metrics;

use crate::connection_info::CoreSessions;

/// Runs a purge; returns how many stored responses it affected. `None`: no route has a cache.
pub type PurgeFunction = Arc<dyn Fn(&PurgeRequest) -> Option<usize> + Send + Sync>;

/// Carries out a request to the control API.
pub type ControlFunction = Arc<dyn Fn(ControlRequest) -> ControlResponse + Send + Sync>;

/// The sources of the data that the pages show.
#[derive(Clone)]
pub struct Sources {
    /// The counters.
    pub metrics: Arc<Metrics>,
    /// Requests a copy of up to this many sessions from each core, and waits for at most a second; cores that
    /// did not answer are missing.
    pub sessions: Arc<dyn Fn(usize) -> Vec<CoreSessions> + Send + Sync>,
    /// The number of cores.
    pub cores: usize,
    /// The addresses on which the sites listen at the moment, such as `https://127.0.0.1:443`.
    pub listeners: Arc<dyn Fn() -> Vec<String> + Send + Sync>,
    /// The present limits of the file cache: files and bytes.
    pub cache_limits: Arc<dyn Fn() -> Option<(u64, u64)> + Send + Sync>,
    /// Removes responses from the cache of programs and origins; returns the number.
    pub purge: PurgeFunction,
    /// Carries out requests to the control API.
    pub control: ControlFunction,
}
