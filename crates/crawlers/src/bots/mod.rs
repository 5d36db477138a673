//! Bots that sign their requests: the profile `web-bot-auth` of HTTP Message Signatures
//! (draft-ietf-webbotauth-httpsig-protocol, before that draft-meunier-web-bot-auth-architecture and
//! draft-meunier-http-message-signatures-directory).
//!
//! | module | |
//! |---|---|
//! | `agent` | `Signature-Agent`: the address where a bot publishes its keys |
//! | `directory` | a directory of keys, as it is fetched or read from a file |
//! | `directories` | fetches directories, and keeps them |
//! | `verification` | from a request to the identity of its bot |
//! | `nonces` | values that a signature may use once |
//! | `verified` | signatures that were verified a short time ago |

pub mod agent;
pub mod directories;
pub mod directory;
pub mod nonces;
pub mod verification;
mod verified;
