//! Upgrade of the running server: the old process starts the new one and hands it every listening socket.
//!
//! ```text
//! old                                        new
//!  | starts it; its standard input is one      |
//!  | end of a pair of sockets                  |
//!  |------- sockets, with what they are ------>| reads its configuration, starts its cores
//!  |<------ ready: these it has taken ---------| accepts on every core
//!  | stops accepting                           |
//!  |------- go ------------------------------->| is the server: pid file, control socket, systemd
//!  | finishes its connections, ends            |
//!  |------- (the pair's end) ----------------->| HTTP/3
//! ```
//!
//! Both processes hold the same sockets, not others on the same address. So a connection that waits to be
//! accepted waits on, whichever process closes its end; and until the new one is ready the old one accepts.
//! If the new one cannot start, it says why, ends, and nothing has happened.
//!
//! Descriptors travel as messages (unix(7), SCM_RIGHTS), so nothing but the pair itself is inherited, and a
//! program that another thread starts at the same moment gets none of it. What each is stands beside it, as a
//! kind; kinds that a process does not know are closed by it.
//!
//! UDP has no queue of connections, and packets of one connection must all reach one process. So the old
//! process goes on with the sockets of HTTP/3 until its connections have ended; the new one reads from them
//! when the old one is gone, which it knows by the end of the pair. Who would begin a connection meanwhile
//! falls back to HTTP/2.
//!
//! The sockets of streams for datagrams are read by the new process at once: a session of the old one gets no
//! more datagrams of its client, which begin another session in the new one, but its replies still leave.

mod packet;
mod predecessor;
mod successor;

pub use packet::{Kind, Passed};
pub use predecessor::Predecessor;
pub use successor::{ReadyNotice, Successor, own_program};

/// Set for the new process: the number of the old one. Its standard input is then the way to it.
const VARIABLE: &str = "TOUCHSTONE_HANDOVER";

#[cfg(test)]
mod tests;
