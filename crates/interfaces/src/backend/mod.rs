//! Programs that listen: the way from a request to one of several backends and back, the same for FastCGI,
//! SCGI and AJP.
//!
//! | module | |
//! |---|---|
//! | `settings` | what a configuration says |
//! | `address` | where a program listens, and a connection to it |
//! | `connections` | a core's connections to a backend: kept, limited, waited for |
//! | `ping` | asking a program whether it is there |
//! | `health`, `balance`, `group` | several backends: which are up, which is next |
//! | `script` | which file a path is for (PHP) |
//! | `variables` | what the program is told |
//! | `upload` | the request's body on its way, and again where it must be sent again |
//! | `protocol` | what the protocols differ in |
//! | `exchange` | one request on one connection |
//! | `respond` | the server's answer of a program's |
//! | `caller` | one request: backends in turn, connections, the answer |
//! | `pump` | the rest of a long answer |
//! | `begun` | one request that was sent from where it lay, and whose answer is there at once or goes on as a call |
//! | `gateway` | the handler of FastCGI and SCGI |

mod address;
mod balance;
mod begun;
mod caller;
mod connections;
mod exchange;
mod gateway;
mod group;
mod health;
mod ping;
mod protocol;
mod pump;
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
pub use ping::{Ping, PingRules};
pub use protocol::{Output, ProgramProtocol, Protocol, WholeAnswer};
pub use script::{Script, ScriptRules, Target};
pub use settings::{Backend, GroupRules, Paths, Settings};

pub(crate) use caller::{About, Call, CallRules, Caller, Owner};
pub(crate) use group::{Group, SharedGroup};
pub use upload::Upload;
pub use variables::ProgramVariables;
