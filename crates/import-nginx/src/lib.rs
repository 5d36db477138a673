//! nginx: `http`, `server`, `location` and `upstream`, with their directives.
//!
//! The result is a text for people to read: each original line is a comment beside its translation. A
//! directive without a counterpart is listed with its place and with advice; no directive is dropped
//! silently.
//!
//! ```text
//! files -> reader: directives with their places -> translate: sites -> location: routes, in nginx's order
//! ```
//!
//! | module | |
//! |---|---|
//! | `reader` | words, quotes, blocks, `include` |
//! | `scope` | which directive applies at a place: the innermost one |
//! | `value` | variables, times and sizes |
//! | `language` | texts and conditions with variables |
//! | `map` | tables from values to values of variables |
//! | `access` | which clients are admitted |
//! | `address` | addresses of `listen` |
//! | `cache` | caches of proxies and programs |
//! | `common` | directives that have the same translation, or none, at every place |
//! | `constants` | `set` of values that are always the same |
//! | `named_groups` | groups with names, in expressions of locations |
//! | `site` | a server, as its locations see it |
//! | `matching` | how a location matches |
//! | `keys` | what servers and locations have in common |
//! | `log` | logs of servers and locations, and their formats |
//! | `delivery` | rates, replaced texts, signed links |
//! | `uploads` | methods that change files |
//! | `rewriting` | `return`, `rewrite` and `if` |
//! | `handler` | what answers in a location: another server, PHP, FastCGI, files |
//! | `parameters` | the parameters of programs |
//! | `front` | the script for paths that are not files |
//! | `replaced_path` | the path that an origin gets |
//! | `location` | the contents of a server, with its locations in nginx's order |
//! | `stream` | connections and datagrams of any protocol |
//! | `flags` | variables that conditions set |
//! | `flag_states` | what they hold at a directive of a server |
//! | `missing_files` | what answers where there is no file |
//! | `translate` | directives outside servers, and the addresses and names of servers |

mod access;
mod address;
mod cache;
mod common;
mod constants;
mod delivery;
mod flag_states;
mod flags;
mod forward_auth;
mod front;
mod handler;
mod keys;
mod language;
mod location;
mod log;
mod map;
mod matching;
mod missing_files;
mod named_groups;
mod parameters;
mod reader;
mod referers;
mod refused;
mod replaced_path;
mod rewriting;
mod scope;
mod site;
mod stream;
mod translate;
mod uploads;
mod value;

pub use reader::{parse, read};
pub use translate::translate;
