//! Static content: safe paths below a root, content types and codings, the memory cache of whole responses,
//! directory listings, the server's own files, watching the disk.

pub mod cache;
pub mod coding;
pub mod compress;
pub mod dictionary;
pub mod listing;
pub mod mime;
pub mod own_files;
pub mod percent;
pub mod root;
pub mod watch;
