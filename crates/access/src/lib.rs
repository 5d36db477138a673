//! Who is let in: addresses, users, rates, connections, and who a client is behind proxies.
//!
//! A [`ConnectionGate`] stands before connections, a [`Gate`] before the requests of a site or route that has
//! rules; both are made anew with every configuration. What they remember lies in [`AccessShared`], which is
//! made once. Nothing but `proxy_header` touches a socket.
//!
//! | module | |
//! |---|---|
//! | `connection_gate` | connections: how many per client, the PROXY protocol, who the client is |
//! | `gate` | requests: the rules of a site or route together |
//! | `allow` | which networks are let in |
//! | `client_table`, `rate` | what is remembered of clients, and how many requests they may make |
//! | `connections` | how many connections each client has open |
//! | `basic`, `checks` | user name and password, and how many are checked at a time |
//! | `password_file`, `password_hash`, `success_cache` | whose password is what, and what was right a moment ago |
//! | `proxy_protocol`, `proxy_header`, `real_ip` | the client that a proxy tells of |
//! | `pace` | how slow a client may be |
//! | `refusal` | what a rule answers |
//! | `shared` | what outlives a configuration |

mod allow;
mod basic;
mod checks;
mod client_table;
mod connection_gate;
mod connections;
mod gate;
mod pace;
mod password_file;
mod password_hash;
pub mod proxy_header;
pub mod proxy_protocol;
mod rate;
pub mod real_ip;
mod refusal;
mod shared;
mod success_cache;

pub use allow::AddressRules;
pub use basic::{PendingCheck, User};
pub use connection_gate::{Admission, ConnectionGate, TOO_MANY_CONNECTIONS};
pub use connections::ConnectionPermit;
pub use gate::{Admitted, Gate, Verdict, pass};
pub use pace::{MinimumPace, Pace};
pub use password_file::PasswordFile;
pub use refusal::Refusal;
pub use shared::{AccessShared, Report};

#[cfg(test)]
mod test_networks;
#[cfg(test)]
mod tests;
