//! From the files of a configuration to directives, for each server.
//!
//! | module | |
//! |---|---|
//! | [`apache`] | sections, `Include`, `Define`, `IfModule`, `.htaccess` |
//! | [`caddy`] | tokens, blocks, snippets, `import` |
//! | [`nginx`] | words, quotes, blocks, `include` |

pub mod apache;
pub mod caddy;
pub mod nginx;
