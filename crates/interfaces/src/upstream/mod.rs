//! Several equal servers (nginx's upstream): which of them are up, and which gets the next request. For the
//! origins of the proxy and for the backends of programs that listen.
//!
//! | module | |
//! |---|---|
//! | `health` | whether a server gets requests |
//! | `balance` | which one gets the next |

mod balance;
mod health;

pub use balance::{Balance, Candidate, Chooser, HashBy, hash};
pub use health::{Health, HealthRules, State};
