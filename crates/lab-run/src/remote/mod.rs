//! A system on another machine, started and watched over ssh.
//!
//! This program copies itself there and runs as its own *probe* ([`probe`]): it starts the system as it would
//! be started here, reads that machine's figures on request, and stops the system on request or when the
//! connection is lost. The two exchange lines of JSON ([`messages`]) over the standard input and output of
//! ssh, so that only ssh must be reachable, and no process is left running.

mod host;
mod messages;
pub mod probe;
mod session;
mod ssh;

pub use host::Host;
pub use messages::RemoteSystem;
pub use session::Session;
pub use ssh::ssh_command;
