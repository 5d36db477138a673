//! The upgrade of a running server: the old process starts the new one and passes every listening socket to
//! it.
//!
//! ```text
//! old                                        new
//!  | starts it; its standard input is one      |
//!  | end of a pair of sockets                  |
//!  |------- sockets, with their kinds ------>| reads its configuration, starts its cores
//!  |<------ ready: the sockets it uses ---------| accepts on every core
//!  | stops accepting                           |
//!  |------- go ------------------------------->| is the server: pid file, control socket, systemd
//!  | finishes its connections, ends            |
//!  |------- (the pair's end) ----------------->| HTTP/3
//! ```
//!
//! Both processes have the same sockets, not different ones on the same address. So a connection that waits
//! to be accepted is kept, whichever process closes its descriptor; and until the new process is ready the
//! old one accepts. If the new process cannot start, it reports the reason and ends, and nothing has changed.
//!
//! Descriptors are sent as messages (unix(7), SCM_RIGHTS), so only the pair itself is inherited, and a
//! program that another thread starts at the same moment gets none of the sockets. Each message names the
//! kind of its socket; a process closes sockets of unknown kinds.
//!
//! UDP has no queue of connections, and all packets of a connection must reach one process. So the old
//! process keeps the sockets of HTTP/3 until its connections have ended. The new process reads from them when
//! the old one has ended, which closes the pair. Clients that start a connection in between fall back to
//! HTTP/2.
//!
//! The sockets of streams for datagrams are read by the new process at once. Later datagrams of a client
//! start another session in the new process; replies to a session of the old process still leave.

mod packet;
mod predecessor;
mod successor;

pub use packet::{Kind, PassedSocket};
pub use predecessor::Predecessor;
pub use successor::{ReadyNotice, Successor, own_program};

/// Set for the new process: the number of the old one. The new process's standard input is then the channel
/// to it.
const VARIABLE: &str = "TOUCHSTONE_HANDOVER";

#[cfg(test)]
mod tests;
