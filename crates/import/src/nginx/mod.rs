//! nginx: `http`, `server`, `location`, `upstream`, and what stands in them.
//!
//! ```text
//! files -> read: directives with their places -> translate: sites -> location: routes, in nginx's order
//! ```
//!
//! | module | |
//! |---|---|
//! | `read` | from files to directives |
//! | `scope` | which directive counts at a place: the inner one, or that of a block around it |
//! | `value` | variables, times and sizes |
//! | `language` | texts and conditions with variables |
//! | `map` | tables from values to values of variables |
//! | `cache` | caches of proxies and programs |
//! | `common` | directives that mean the same at every place, or nothing here |
//! | `constants` | `set` of values that are always the same |
//! | `site` | a server, as its locations see it |
//! | `matching` | how a location matches |
//! | `keys` | what servers and locations have alike |
//! | `log` | logs of servers and locations, and their formats |
//! | `delivery` | rates, replaced texts, signed links |
//! | `rewriting` | `return`, `rewrite` and `if` |
//! | `handler` | what answers in a location: another server, PHP, FastCGI, files |
//! | `location` | what stands in a server, and its locations in nginx's order |
//! | `translate` | what stands outside of servers, and their addresses and names |

mod cache;
mod common;
mod constants;
mod delivery;
mod handler;
mod keys;
mod language;
mod location;
mod log;
mod map;
mod matching;
mod read;
mod rewriting;
mod scope;
mod site;
mod translate;
mod value;

pub use read::{parse, read};
pub use translate::translate;
