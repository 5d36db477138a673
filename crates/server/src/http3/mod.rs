//! HTTP/3 (RFC 9114): QUIC by quinn, frames and field sections by the http crate, handlers as everywhere.
//!
//! ```text
//! socket (one a core) -> quinn endpoint -> connection -> a stream for each request -> exchange
//! ```
//!
//! Each core has a UDP socket of its own on every address, and the kernel gives it the packets of its
//! connections: the first byte of each connection identifier that we choose says which core it is, and a
//! filter in the kernel reads it ([`socket`]). So a connection stays on its core also when its client moves
//! to another address, nothing is shared between cores but keys, and a request is answered by the cache of
//! the core that it came to.
//!
//! | module | |
//! |---|---|
//! | `socket`, `sockets` | sockets, and which of them gets a packet |
//! | `connection_id` | connection identifiers that say their core |
//! | `secrets` | the keys that all cores share |
//! | `transport` | what QUIC may cost |
//! | `listeners` | a core's end of all addresses: new connections, address validation |
//! | `listener` | its end of one address |
//! | `connection_life` | a connection: its handshake, its streams, its end |
//! | `connection` | a connection, as its streams see it |
//! | `request`, `body`, `response` | one request, both directions |
//! | `stream` | what both directions need |

mod body;
mod connection;
mod connection_id;
mod connection_life;
mod listener;
mod listeners;
mod request;
mod response;
mod secrets;
mod socket;
mod sockets;
mod stream;
mod transport;

pub use listeners::Listeners;
pub use secrets::Secrets;
pub use sockets::{CoreSockets, Opened, Sockets};
