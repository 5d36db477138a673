//! Applications in a process of their own: the same module in a child that is watched, and started again when
//! it ends.
//!
//! Each core of the server has one connection to the child, a socket of the Unix kind, on which all its
//! requests go as frames; so many that come together cost one write and one read. In the child a request is
//! what it is in the server. The child itself is the module `host`.

mod child;
mod link;
pub mod log_line;
pub mod outgoing;
pub mod settings_file;
pub mod wire;

pub use child::{Child, stop_all};
pub use link::Link;
pub use wire::{Flags, read_anything};
