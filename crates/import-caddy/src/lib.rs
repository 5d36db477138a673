//! Caddy: the Caddyfile with its sites, matchers, snippets and directives.
//!
//! The result is a text for people to read: each original line is a comment beside its translation. A
//! directive without a counterpart is listed with its place and with advice; no directive is dropped
//! silently.
//!
//! ```text
//! file -> reader: lines as directives, with snippets expanded -> address: where sites listen
//!      -> steps: Caddy's order of directives -> routes: first match counts -> answer: what a route does
//! ```
//!
//! | module | |
//! |---|---|
//! | `reader` | tokens, blocks, snippets, `import` |
//! | `address` | the addresses of a site: scheme, name, port |
//! | `matcher` | the requests that a directive applies to, and the route keys for them |
//! | `comparison` | comparisons of the parts of a request |
//! | `cel` | expressions of matchers |
//! | `condition` | conditions that routes have no key for |
//! | `context` | what placeholders stand for: values, maps, groups of expressions |
//! | `forward_auth` | another server that decides which requests are allowed |
//! | `hidden` | names that `file_server` hides |
//! | `map` | `map` and `vars` |
//! | `origin` | addresses of origins |
//! | `placeholder` | `{uri}` and other placeholders as variables of this server |
//! | `templates` | the advice for pages with actions of Go's templates |
//! | `variants` | an answer for each value of a map |
//! | `steps` | the directives of a block in the order in which Caddy runs them |
//! | `rewrite` | other paths, in routes and in answers |
//! | `routing` | the context while routes are built |
//! | `routes` | from steps to routes |
//! | `proxy` | another server |
//! | `answer` | the action of a route: another server, PHP, files, a redirect, a fixed answer |
//! | `translate` | sites, global options, and the whole file |

mod address;
mod answer;
mod cel;
mod comparison;
mod condition;
mod context;
mod forward_auth;
mod hidden;
mod map;
mod matcher;
mod origin;
mod placeholder;
mod proxy;
mod reader;
mod rewrite;
mod routes;
mod routing;
mod steps;
mod templates;
mod translate;
mod variants;

pub use reader::{parse, read};
pub use templates::actions;
pub use translate::translate;
