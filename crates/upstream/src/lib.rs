//! The common parts of the origins of the proxy, the origins of streams and the backends of programs.
//!
//! | module | |
//! |---|---|
//! | `stream` | a connection to a program or an origin |
//! | `health` | decides whether a server of a group gets requests |
//! | `balance` | which server of a group (nginx's upstream) gets the next one |
//! | `session`, `path_parameters` | which server keeps the session of a request |
//! | `outage` | detects an origin or a backend that fails continuously |
//! | `live_instances`, `core_local` | state that routes share: of all cores, and of each core |
//! | `clock` | the clock for health |

mod balance;
pub mod clock;
pub mod core_local;
mod health;
pub mod live_instances;
pub mod outage;
pub mod path_parameters;
mod session;
pub mod stream;

pub use balance::{Balance, Candidate, Chooser, HashBy, hash};
pub use health::{Health, HealthRules, State};
pub use session::SessionRules;
