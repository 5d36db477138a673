//! The rules of caching as functions from values to decisions: no socket, no store, no clock. Times are given
//! in Unix seconds by whoever asks.
//!
//! | module | |
//! |---|---|
//! | `fields` | walking over field lines, and leaving out those that are not stored |
//! | `directives` | `Cache-Control` as it is sent (RFC 9111 section 5.2) |
//! | `targeted` | `CDN-Cache-Control`, a structured field (RFC 9213) |
//! | `surrogate` | `Surrogate-Control`, which came before that |
//! | `policy` | what a route's configuration says beyond the rules |
//! | `storing` | whether a response may be stored, and how long it is fresh (sections 3 and 4.2) |
//! | `reuse` | what a stored response is good for when a request comes (section 4) |
//! | `vary` | which stored response a request selects (section 4.1) |
//! | `validation` | asking the origin whether a stored response is still right (section 4.3) |
//! | `conditions` | answering a client's own conditions and ranges from what is stored |
//! | `partial` | parts of representations (RFC 9111 sections 3.3 and 3.4, RFC 9110 section 14.4) |
//! | `invalidation` | what an unsafe request makes stale (section 4.4) |
//! | `key` | what a response is stored under (section 2) |
//! | `cache_status` | `Cache-Status` (RFC 9211) |

pub mod cache_status;
pub mod conditions;
pub mod directives;
pub mod fields;
pub mod invalidation;
pub mod key;
pub mod partial;
pub mod policy;
pub mod reuse;
pub mod storing;
pub mod surrogate;
pub mod targeted;
pub mod validation;
pub mod vary;
