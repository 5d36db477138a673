//! Server-parsed HTML (SHTML, server-side includes): pages with directives in them, such as
//! `<!--#include virtual="/menu.html" -->`.
//!
//! The language is that of Apache 2.4 with both grammars of conditions, nginx's `block`, `stub`, `set` and
//! `wait`, and what the iPlanet server took besides.
//!
//! - [`parse()`] makes a [`Page`] of a file's bytes, once; [`PageCache`] keeps it until the file changes.
//! - [`Rendering`] evaluates it for a request, with a [`Host`] as the server around it. The output comes in
//!   pieces; static text is never copied. [`DependsOn`] tells what else it depends on than files, so that an
//!   output which many requests would get alike need be made only once a second.
//!
//! Nothing here touches a socket or opens a file.
//!
//! Pages and conditions are fuzzed by `page` and `expression` in this crate's `fuzz/`.

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
    DependsOn, Fetched, Host, PageSource, Problem, Resolved, Target, TargetFacts, TargetKind,
};
pub use self::page::Page;
pub use self::parse::parse;
pub use self::render::{Rendered, Rendering};
pub use self::settings::{Grammar, Settings};
pub use self::template::{ShellCommand, Variable};
