//! Caddy: the Caddyfile with its sites, matchers, snippets and directives.
//!
//! ```text
//! file -> read: lines as directives, snippets put in -> address: where sites listen
//!      -> steps: Caddy's order of directives -> routes: first match counts -> answer: what a route does
//! ```
//!
//! | module | |
//! |---|---|
//! | `read` | from files to directives: tokens, blocks, `import` |
//! | `address` | the addresses of a site: scheme, name, port |
//! | `matcher` | which requests a directive is for, and the keys of a route for the same |
//! | `placeholder` | `{uri}` and others, as variables of this server |
//! | `steps` | the directives of a block in the order in which Caddy carries them out |
//! | `routing` | what is known while routes are made |
//! | `routes` | from steps to routes |
//! | `answer` | what a route does: a proxy, PHP, files, a redirect, a fixed answer |
//! | `translate` | sites, global options, and the whole |

mod address;
mod answer;
mod matcher;
mod placeholder;
mod read;
mod routes;
mod routing;
mod steps;
mod translate;

pub use read::{parse, read};
pub use translate::translate;
