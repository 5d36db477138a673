//! Server-parsed HTML (SHTML, server-side includes): pages that contain directives such as `<!--#include
//! virtual="/menu.html" -->`.
//!
//! The language is that of Apache 2.4 with both of its grammars of conditions, nginx's `block`, `stub`, `set`
//! and `wait`, and the additions of the iPlanet server.
//!
//! - [`parse()`] turns a file's bytes into a [`Page`]; [`PageCache`] keeps it until the file changes.
//! - [`Rendering`] evaluates it for a request; a [`Host`] provides the functions of the server. The output
//!   comes in pieces; static text is never copied. [`DependsOn`] says what the output depends on besides
//!   files, so that an output that is equal for many requests is made only once a second.
//!
//! This crate uses no sockets and opens no files.
//!
//! The fuzz targets `page` and `expression` in this crate's `fuzz/` test pages and conditions.

pub mod encoding;
pub mod expression;
pub mod template;
pub mod time_format;

mod attribute;
mod cache;
mod directive;
mod host;
mod page;
mod parse;
mod render;
mod settings;

pub use self::cache::{CachedPage, PageCache, PageKey};
pub use self::host::{
    DependsOn, FetchedContent, Host, PageSource, Problem, ResolvedTarget, Target, TargetFacts, TargetKind,
};
pub use self::page::Page;
pub use self::parse::parse;
pub use self::render::{RenderedPage, Rendering};
pub use self::settings::{Grammar, Settings};
pub use self::template::{ShellCommand, Variable};
