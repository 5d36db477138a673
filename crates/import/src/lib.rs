//! Configurations of other servers, written anew for this one.
//!
//! The result is text to be read by a person: each original line stands as a comment beside what became of
//! it. What has no counterpart is named with its place and with what to do about it; nothing is left out
//! without a word.
//!
//! | module | |
//! |---|---|
//! | [`nginx`] | nginx: servers, locations, upstreams |
//! | [`caddy`] | Caddy: the Caddyfile |
//! | [`apache`] | Apache httpd: virtual hosts, directories, `.htaccess` |
//! | `account` | what became of each directive |
//! | `directive` | a directive with its place |
//! | `expression` | regular expressions of other servers |
//! | `files` | the files of a configuration |
//! | `output` | the text that is written, and its parts |
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

/// What became of a configuration.
#[derive(Debug, Default)]
pub struct Imported {
    /// The configuration for this server.
    pub text: String,
    /// Directives that were translated.
    pub translated: usize,
    /// Directives that need no counterpart: this server does the same without being told, or does it in
    /// another way that no client sees.
    pub unneeded: usize,
    /// Directives that were not translated.
    pub problems: Vec<Problem>,
}

/// A directive that was not translated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it stands.
    pub place: directive::Place,
    /// The directive, as it stands there.
    pub directive: String,
    /// What to do about it.
    pub advice: String,
}
