//! HTTP/3 (RFC 9114): QUIC by quinn, frames and field sections by the http crate, the same handlers as for
//! HTTP/1.
//!
//! ```text
//! socket (one a core) -> quinn endpoint -> connection -> a stream for each request -> exchange
//! ```
//!
//! Each core has its own UDP socket on every address, and the kernel delivers the packets of its connections
//! to it: the first byte of each connection identifier that the server chooses encodes the core, and a filter
//! in the kernel reads it ([`packet_steering`]). So a connection stays on its core even if its client moves
//! to another address, cores share only keys, and a request is answered from the cache of its core.
//!
//! | module | |
//! |---|---|
//! | `packet_steering`, `process_sockets` | sockets, and the distribution of packets to them |
//! | `connection_id` | connection identifiers that encode their core |
//! | `secrets` | the keys that all cores share |
//! | `transport` | the limits of QUIC connections |
//! | `core_listeners` | a core's part of all addresses: new connections, address validation |
//! | `listener` | its part of one address |
//! | `connection_task` | a connection: its handshake, its streams, its end |
//! | `connection` | the part of a connection that its streams use |
//! | `request`, `body`, `response` | one request, both directions |
//! | `turns` | the order in which answers use the send window |
//! | `stream` | code for both directions |

mod body;
mod connection;
mod connection_id;
mod connection_task;
mod core_listeners;
mod listener;
mod packet_steering;
mod process_sockets;
mod request;
mod response;
mod secrets;
mod stream;
mod transport;
mod turns;

pub use core_listeners::Listeners;
pub use process_sockets::{CoreSockets, OpenedSockets, Sockets};
pub use secrets::Secrets;
