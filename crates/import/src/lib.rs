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
//! | `account` | the record of what each directive was translated to |
//! | `directive` | a directive with its place |
//! | `expression` | conversion of regular expressions |
//! | `files` | the files of a configuration |
//! | `output` | the sections of the text that is written |
//! | [`toml_text`] | values of TOML as text |

mod account;
pub mod apache;
pub mod caddy;
pub mod directive;
mod expression;
mod files;
pub mod nginx;
mod output;
pub mod toml_text;

/// The result of an import.
#[derive(Debug, Default)]
pub struct Imported {
    /// The configuration for this server.
    pub text: String,
    /// Directives that were translated.
    pub translated: usize,
    /// Directives that need no counterpart: this server does the same by default, or does it in another way
    /// that is invisible to clients.
    pub unneeded: usize,
    /// Directives that were not translated.
    pub problems: Vec<Problem>,
}

/// A directive that was not translated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Its place in the source.
    pub place: directive::Place,
    /// The directive, as it was written.
    pub directive: String,
    /// What to do about it.
    pub advice: String,
}
