//! Certificates by ACME (RFC 8555): requested when the server starts, stored on disk, renewed in time.
//!
//! This runs independently of the serving of requests: one thread with a small runtime communicates with the
//! authority and writes files; the TLS endpoints load these like any certificate file that changes. The cores
//! use only two tables, which are usually empty: proofs for the authority in plain HTTP ([`HttpChallenges`]),
//! and in TLS handshakes ([`TlsShared::add_challenge`](touchstone_tls::TlsShared::add_challenge)).
//!
//! | module | |
//! |---|---|
//! | `plan` | the certificates that a configuration needs |
//! | `manager` | the thread; a reload sends it a new plan |
//! | `certificate_task` | the life of one certificate: when to request it, what to do after a failure |
//! | `on_demand`, `on_demand_worker` | certificates at the first handshake: the cores' table, the orders |
//! | `shared` | several machines with the same certificates |
//! | `renewal` | the moment to renew: ARI (RFC 9773), or a share of the certificate's life |
//! | `authority` | what all certificates of an authority share: account, storage, client |
//! | `account` | registers with the authority, stores the account's key |
//! | `order` | one order, from its beginning to the certificate |
//! | `challenge` | proofs that are published while an order lasts |
//! | `dns_proof` | records in DNS that are published while an order lasts |
//! | `hook` | the program that sets records |
//! | `persistent_record` | the record of DNS-PERSIST-01, which stays |
//! | `client` | HTTPS to the authority |
//! | `storage` | files and directories, and their lock |
//! | `failure` | errors with advice |

mod account;
mod authority;
mod certificate_task;
mod challenge;
mod client;
mod dns_proof;
mod failure;
mod hook;
mod manager;
mod on_demand;
mod on_demand_worker;
mod order;
mod persistent_record;
mod plan;
mod renewal;
mod shared;
mod storage;

pub use account::read_hmac_key;
pub use challenge::HttpChallenges;
pub use dns_proof::check_key;
pub use manager::AcmeManager;
pub use plan::{certificate_file, records_to_set};
