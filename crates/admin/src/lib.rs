//! The admin listener: metrics for monitoring systems, a live status page for people.
//!
//! ```text
//! accept (one thread, which also takes a sample a second) -> one thread a connection, 32 at most
//!   -> gate (address, host, token) -> pages -> answer
//! ```
//!
//! The listener has threads of its own, so that its clients cost the cores nothing: counters are read in
//! place, and only a list of sessions asks each core for a copy. It speaks HTTP/1 and answers GET and HEAD.
//! The only thing that a request can change is what the accelerator has stored, by POST to `/cache/purge`,
//! and only with a token or on a unix socket.
//!
//! | module | |
//! |---|---|
//! | `listener` | binds, accepts, ends |
//! | `connection` | reads requests, writes answers |
//! | `state` | what the threads of both share |
//! | `gate` | who may ask |
//! | `pages` | which path gives what |
//! | `history` | rates of the last minutes |
//! | `status_json`, `status_page`, `sessions_page` | what is shown |
//! | `frame` | what the pages for people have in common |
//! | `connection_info` | what is shown of a connection, which its core fills in |
//! | `token` | the file of the token |
//! | `words` | numbers for people |

mod component_table;
mod connection;
pub mod connection_info;
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

use touchstone_accelerator::purge::PurgeOrder;
use touchstone_observe::metrics::Metrics;

use crate::connection_info::CoreSessions;

/// Carries out a purge; returns how many stored responses it affected. `None`: no route has a cache.
pub type CarryOut = Arc<dyn Fn(&PurgeOrder) -> Option<usize> + Send + Sync>;

/// Where the pages find what they show.
#[derive(Clone)]
pub struct Sources {
    /// The counters.
    pub metrics: Arc<Metrics>,
    /// Asks every core for a copy of up to so many sessions, and waits for at most a second; cores that did
    /// not answer are missing.
    pub sessions: Arc<dyn Fn(usize) -> Vec<CoreSessions> + Send + Sync>,
    /// How many cores there are.
    pub cores: usize,
    /// The addresses that the sites listen on, such as `https://127.0.0.1:443`, as they are now.
    pub listeners: Arc<dyn Fn() -> Vec<String> + Send + Sync>,
    /// The limits of the file cache, as they are now: files and bytes.
    pub cache_limits: Arc<dyn Fn() -> Option<(u64, u64)> + Send + Sync>,
    /// Removes responses from the cache before programs and origins; returns how many.
    pub purge: CarryOut,
}
