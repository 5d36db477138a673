//! The rules of caching as pure functions, without sockets, store and clock. The caller passes times in Unix
//! seconds.
//!
//! | module | |
//! |---|---|
//! | `fields` | walks over field lines, and leaves out those that are not stored |
//! | `directives` | `Cache-Control` as it is sent (RFC 9111 section 5.2) |
//! | `targeted` | `CDN-Cache-Control`, a structured field (RFC 9213) |
//! | `structured` | structured fields: dictionaries and lists (RFC 9651) |
//! | `surrogate` | `Surrogate-Control`, its predecessor |
//! | `esi` | the language of pages that are composed of parts |
//! | `policy` | the settings of a route beyond the rules |
//! | `storing` | whether a response may be stored, and how long it is fresh (sections 3 and 4.2) |
//! | `query` | the keys of answers to QUERY (RFC 10008) |
//! | `reuse` | whether a stored response may answer a request (section 4) |
//! | `vary` | which stored response a request selects (section 4.1) |
//! | `validation` | asks the origin whether a stored response is still valid (section 4.3) |
//! | `conditions` | answers a client's own conditions and ranges from stored responses |
//! | `partial` | parts of representations (RFC 9111 sections 3.3 and 3.4, RFC 9110 section 14.4) |
//! | `invalidation` | the responses that an unsafe request makes stale (section 4.4) |
//! | `groups` | responses that belong together, `Cache-Groups` (RFC 9875) |
//! | `no_vary_search` | which parts of a query do not matter, `No-Vary-Search` |
//! | `key` | the key under which a response is stored (section 2) |
//! | `cache_status` | `Cache-Status` (RFC 9211) |

pub mod cache_status;
pub mod conditions;
pub mod directives;
pub mod esi;
pub mod fields;
pub mod groups;
pub mod invalidation;
pub mod key;
pub mod no_vary_search;
pub mod partial;
pub mod policy;
pub mod query;
pub mod reuse;
pub mod storing;
pub mod structured;
pub mod surrogate;
pub mod targeted;
pub mod validation;
pub mod vary;
