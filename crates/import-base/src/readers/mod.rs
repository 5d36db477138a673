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

/// The directives and those in their blocks, in the order of the text.
#[cfg(test)]
fn shown(directives: &[crate::directive::Directive]) -> Vec<String> {
    directives
        .iter()
        .flat_map(|directive| std::iter::once(directive.to_string()).chain(shown(directive.inside())))
        .collect()
}
