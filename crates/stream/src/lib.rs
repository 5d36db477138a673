//! Streams: connections and datagrams of any protocol, which are passed on to other servers unchanged.
//!
//! ```text
//! accept - PROXY header - ClientHello -> target - an origin - bytes, both ways, until both sides have ended
//! ```
//!
//! Each core has its own [`CoreStreams`], and passes on what its own sockets have accepted; no connection
//! moves from one core to another. The crate `sites` prepares the configuration; the choice of an origin, its
//! health and its connections are in the crate `interfaces`.
//!
//! A connection belongs to the configuration under which it was accepted: a reload changes only later ones.
//! After an upgrade, connections stay in the process that has accepted them, until they end or
//! `drain_timeout` has passed.
//!
//! | module | |
//! |---|---|
//! | `core_streams` | the streams of a core: listening sockets, open connections |
//! | `connection` | the life of a connection |
//! | `first_bytes` | reads the first bytes, before a target is known |
//! | `copy` | bytes in both directions |
//! | `datagrams` | sessions of datagrams |
//! | `stream_of_core` | one stream on a core, and the state that all streams of a core share |
//! | `record` | the log line and the counts of one of them |

mod connection;
mod copy;
mod core_streams;
mod datagrams;
mod first_bytes;
mod record;
mod stream_of_core;

pub use core_streams::{CoreStreams, accept};
pub use stream_of_core::{CoreParts, StreamOfCore};
