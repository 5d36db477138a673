//! Imports configurations of other servers.
//!
//! The result is a text for people to read: each original line is a comment beside its translation. A
//! directive without a counterpart is listed with its place and with advice; no directive is dropped
//! silently.
//!
//! | module | |
//! |---|---|
//! | [`nginx`] | nginx: servers, locations, upstreams |
//! | [`caddy`] | Caddy: the Caddyfile |
//! | [`apache`] | Apache httpd: virtual hosts, directories, `.htaccess` |

pub mod apache;
pub mod caddy;
pub mod nginx;

pub use touchstone_import_base::{Imported, Problem, directive, toml_text};
use touchstone_import_base::{account, expression, files, networks, output, readers};
