//! Programs that listen: the way from a request to one of several backends and back, the same for FastCGI and SCGI.
//!
//! | module | |
//! |---|---|
//! | `settings` | what a configuration says |
//! | `address` | where a program listens, and a connection to it |
//! | `connections` | a core's connections to a backend: kept, limited, waited for |
//! | `health`, `balance`, `group` | several backends: which are up, which is next |
//! | `script` | which file a path is for (PHP) |
//! | `variables` | what the program is told |
//! | `upload` | the request's body on its way, and again where it must be sent again |
//! | `protocol` | what FastCGI and SCGI differ in |
//! | `exchange` | one request on one connection |
//! | `respond` | the server's answer of a program's |
//! | `gateway` | the handler that does all this |

mod address;
mod balance;
mod connections;
mod exchange;
mod gateway;
mod group;
mod health;
mod protocol;
mod respond;
mod script;
mod settings;
mod upload;
mod variables;

pub use crate::stream::Stream;
pub use address::Address;
pub use balance::Balance;
pub use connections::ConnectionRules;
pub use exchange::TimeLimits;
pub use gateway::Programs;
pub use health::HealthRules;
pub use protocol::{Output, Protocol};
pub use script::{Script, ScriptRules, Target};
pub use settings::{Backend, Paths, Settings};
pub use upload::Upload;
