//! Caddy: the Caddyfile with its sites, matchers, snippets and directives.
//!
//! ```text
//! file -> read: lines as directives, with snippets expanded -> address: where sites listen
//!      -> steps: Caddy's order of directives -> routes: first match counts -> answer: what a route does
//! ```
//!
//! | module | |
//! |---|---|
//! | `read` | from files to directives: tokens, blocks, `import` |
//! | `address` | the addresses of a site: scheme, name, port |
//! | `matcher` | the requests that a directive applies to, and the route keys for them |
//! | `condition` | conditions that routes have no key for |
//! | `placeholder` | `{uri}` and other placeholders as variables of this server |
//! | `steps` | the directives of a block in the order in which Caddy runs them |
//! | `routing` | the context while routes are built |
//! | `routes` | from steps to routes |
//! | `answer` | the action of a route: a proxy, PHP, files, a redirect, a fixed answer |
//! | `translate` | sites, global options, and the whole file |

mod address;
mod answer;
mod condition;
mod matcher;
mod placeholder;
mod read;
mod routes;
mod routing;
mod steps;
mod translate;

pub use read::{parse, read};
pub use translate::translate;
