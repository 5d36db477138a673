//! Applications in a separate process: a child runs this crate, and is watched and started again when it
//! ends.
//!
//! Each core of the server has one connection to the child, a Unix socket, on which all its requests are sent
//! as frames; frames that are sent at the same time cost one write and one read. In the child a request has
//! the same form as in the server. The child itself is the module `host_process`.

mod child;
mod link;
pub mod log_line;
pub mod outgoing;
pub mod settings_file;
pub mod wire;

pub use child::Child;
pub use link::Link;
pub use wire::{Flags, read_anything};
