//! Certificates by ACME (RFC 8555): asked for when the server starts, kept on disk, renewed in time.
//!
//! It is beside the serving of requests: one thread with a small runtime of its own asks the authority and
//! writes files; the TLS endpoints take those up as they take up any certificate file that changes. The cores
//! know only two tables, which are empty nearly always: proofs for the authority in plain HTTP
//! ([`HttpChallenges`]), and in TLS handshakes
//! ([`TlsShared::add_challenge`](touchstone_tls::TlsShared::add_challenge)).
//!
//! | module | |
//! |---|---|
//! | `plan` | from the configuration to certificates that are wanted |
//! | `manager` | the thread; takes up a new plan on a reload |
//! | `keeper` | the life of one certificate: when to ask, what to do after a failure |
//! | `renewal` | the moment to renew: ARI (RFC 9773), or a share of the certificate's life |
//! | `authority` | what all certificates of an authority share: account, storage, the way to it |
//! | `account` | registers with the authority, keeps the account's key |
//! | `order` | one order, from its beginning to the certificate |
//! | `challenge` | proofs that are offered while an order lasts |
//! | `client` | HTTPS to the authority |
//! | `storage` | files and directories, and the lock on them |
//! | `failure` | what went wrong, in words that help |

mod account;
mod authority;
mod challenge;
mod client;
mod failure;
mod keeper;
mod manager;
mod order;
mod plan;
mod renewal;
mod storage;

pub use account::read_hmac_key;
pub use challenge::HttpChallenges;
pub use manager::AcmeManager;
pub use plan::certificate_file;
