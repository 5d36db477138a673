//! Static content: safe paths below a root, content types, the memory cache of whole responses, watching the disk.

pub mod cache;
pub mod mime;
pub mod root;
pub mod watch;
