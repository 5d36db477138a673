//! The base of the conversions from other servers' configurations: a directive with its place, the result of
//! each directive, and the TOML that the importers produce.
//!
//! | module | |
//! |---|---|
//! | [`apache`] | the files of Apache as directives |
//! | [`account`] | the record of what each directive was translated to |
//! | [`directive`] | a directive with its place |
//! | [`expression`] | conversion of regular expressions |
//! | [`files`] | the files of a configuration |
//! | [`networks`] | networks of rules on clients |
//! | [`output`] | the sections of the TOML that the importers produce |
//! | [`toml_text`] | values of TOML as text |

pub mod account;
pub mod apache;
pub mod directive;
pub mod expression;
pub mod files;
pub mod maps;
pub mod networks;
pub mod output;
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
