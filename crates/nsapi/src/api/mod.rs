//! The functions of the tables, one module for each subject. Each works as the documentation of NSAPI
//! describes.
//!
//! C code calls them. The contract of the interface, stated here once for all functions: pointers are null or
//! valid, and texts end with NUL.

pub mod buffer;
pub mod cookie;
pub mod dispatch;
pub mod env;
pub mod escape;
pub mod evaluate;
pub mod files;
pub mod functions;
pub mod globals;
pub mod log;
pub mod md5;
pub mod net;
pub mod protocol;
pub mod regexp;
pub mod request;
pub mod session;
pub mod sites;
pub mod stage;
pub mod sync;
pub mod thread;
pub mod time;
pub mod types;
