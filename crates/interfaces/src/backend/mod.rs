//! Programs that listen: how a request reaches one of several backends and how its answer returns, the same
//! for FastCGI, SCGI, uwsgi and AJP.
//!
//! | module | |
//! |---|---|
//! | `settings` | the settings |
//! | `address` | the address of a program, and a connection to it |
//! | `connections` | a core's connections to a backend: kept ones, limits, waiting requests |
//! | `ping` | checks whether a program is alive |
//! | `group` | several backends: chooses one, and records results |
//! | `script` | the file that a path names (PHP) |
//! | `variables` | the variables of a request |
//! | `upload` | the request's body, which can be sent again while it is kept |
//! | `protocol` | the differences between the protocols |
//! | `backend_call` | one request on one connection |
//! | `respond` | makes the server's answer of a program's answer |
//! | `log_name` | the name of a request in the log |
//! | `caller` | a request: tries backends and connections, returns the answer |
//! | `pump` | the rest of a long answer |
//! | `gateway` | the handler of FastCGI, SCGI and uwsgi; `pending_call` sends a plain GET from its buffer |

mod address;
mod backend_call;
mod caller;
mod connections;
mod gateway;
mod group;
mod log_name;
mod ping;
mod protocol;
mod pump;
mod respond;
mod script;
mod settings;
mod upload;
mod variables;

pub use address::Address;
pub use connections::ConnectionRules;
pub use gateway::Programs;
pub use group::Backends;
pub use ping::{Ping, PingRules};
pub use protocol::{Output, ProgramProtocol, Protocol, UnframedProtocol, WholeAnswer};
pub use script::{FrontController, Script, ScriptRules, Target};
pub use settings::{Backend, GroupRules, Paths, Settings, TimeLimits};
pub use touchstone_upstream::stream::Stream;
pub use touchstone_upstream::{Balance, HealthRules};

pub(crate) use caller::{Call, CallRules, Caller, Owner};
pub(crate) use group::{Group, SharedGroup};
pub(crate) use log_name::RequestLogName;
pub use upload::Upload;
pub use variables::ProgramVariables;
