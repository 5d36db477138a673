//! Programs that listen: the way from a request to one of several backends and back, the same for FastCGI,
//! SCGI and AJP.
//!
//! | module | |
//! |---|---|
//! | `settings` | what a configuration says |
//! | `address` | where a program listens, and a connection to it |
//! | `connections` | a core's connections to a backend: kept, limited, waited for |
//! | `ping` | asking a program whether it is there |
//! | `group` | several backends: which is next, and what became of requests |
//! | `script` | which file a path is for (PHP) |
//! | `variables` | what the program is told |
//! | `upload` | the request's body on its way, and again where it must be sent again |
//! | `protocol` | what the protocols differ in |
//! | `exchange` | one request on one connection |
//! | `respond` | the server's answer of a program's |
//! | `about` | a request in the log |
//! | `caller` | one request: backends in turn, connections, the answer |
//! | `pump` | the rest of a long answer |
//! | `gateway` | the handler of FastCGI and SCGI; its `pending_call` sends a plain GET from where it lies |

mod about;
mod address;
mod caller;
mod connections;
mod exchange;
mod gateway;
mod group;
mod ping;
mod protocol;
mod pump;
mod respond;
mod script;
mod settings;
mod upload;
mod variables;

pub use crate::stream::Stream;
pub use crate::upstream::{Balance, HealthRules};
pub use address::Address;
pub use connections::ConnectionRules;
pub use gateway::Programs;
pub use ping::{Ping, PingRules};
pub use protocol::{Output, ProgramProtocol, Protocol, WholeAnswer};
pub use script::{Script, ScriptRules, Target};
pub use settings::{Backend, GroupRules, Paths, Settings, TimeLimits};

pub(crate) use about::About;
pub(crate) use caller::{Call, CallRules, Caller, Owner};
pub(crate) use group::{Group, SharedGroup};
pub use upload::Upload;
pub use variables::ProgramVariables;
