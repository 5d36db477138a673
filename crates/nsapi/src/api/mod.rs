//! The functions of the tables, by what they are about. Each does what the documentation of NSAPI says of it.
//!
//! They are called by C: that pointers are null or valid, and texts end with NUL, is the contract of the
//! interface and stands here once for all of them.

pub mod buffer;
pub mod cookie;
pub mod dispatch;
pub mod env;
pub mod escape;
pub mod evaluate;
pub mod files;
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
