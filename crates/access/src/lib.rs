//! Access control: addresses, users, rates, connections, and the client behind proxies.
//!
//! A [`ConnectionGate`] checks connections, a [`Gate`] the requests of a site or route with rules. Both are
//! rebuilt with every configuration. Their memory is in [`AccessShared`], which is created once. Only
//! `proxy_header` uses a socket.
//!
//! | module | |
//! |---|---|
//! | `connection_gate` | connections: how many per client, the PROXY protocol, the client |
//! | `gate` | requests: the rules of a site or route together |
//! | `stream_gate` | connections and datagrams of streams |
//! | `allow` | the networks that are admitted |
//! | `geoip` | the country and system of an address, and which of them are admitted |
//! | `client_table`, `rate` | the state of clients under rate limits, and the limits |
//! | `connections` | how many connections each client has open |
//! | `signed_link` | links that need a signature |
//! | `token`, `token_keys` | JSON Web Tokens, and the keys of their issuers |
//! | `basic`, `checks` | user name and password, and how many are checked at a time |
//! | `password_file`, `password_hash`, `success_cache` | stored passwords, and those verified recently |
//! | `proxy_protocol`, `proxy_header`, `real_ip` | the client that a proxy names |
//! | `minimum_rate` | the minimum speed of a client |
//! | `refusal` | the answer to a refused request |
//! | `shared` | the state that a reload keeps |

mod allow;
mod basic;
mod checks;
mod client_table;
mod connection_gate;
mod connections;
mod gate;
mod geoip;
mod minimum_rate;
mod password_file;
mod password_hash;
pub mod proxy_header;
pub mod proxy_protocol;
mod rate;
pub mod real_ip;
mod refusal;
mod secret_lines;
mod shared;
mod signed_link;
mod stream_gate;
mod success_cache;
mod token;
mod token_keys;

pub use allow::AddressRules;
pub use basic::{PendingCheck, User};
pub use connection_gate::{Admission, ConnectionGate, TOO_MANY_CONNECTIONS};
pub use connections::ConnectionPermit;
pub use gate::{AdmittedRequest, Gate, Verdict, Verification, count_admitted, pass, pass_without_user};
pub use geoip::{GeoFile, GeoIp, Location};
pub use minimum_rate::{MinimumRate, RateCheck};
pub use password_file::PasswordFile;
pub use rate::Rate;
pub use refusal::Refusal;
pub use secret_lines::read_secret_lines;
pub use shared::{AccessShared, Report};
pub use signed_link::SignedLinks;
pub use stream_gate::{StreamGate, StreamPermit, StreamRefusal};
pub use token::{
    AcceptedToken, Claims, Identity, Rejection as TokenRejection, Rules as TokenRules, token_is_accepted,
};
pub use token_keys::{KeySet, KeySource, Keys, Location as KeyLocation};

#[cfg(test)]
mod test_networks;
#[cfg(test)]
mod tests;
