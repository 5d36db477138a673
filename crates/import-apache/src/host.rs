//! A virtual host: its directives, and those outside of it that apply to it.

use super::area::is;
use touchstone_import_base::directive::Directive;

/// A virtual host, and the directives outside all hosts.
pub struct Host<'d> {
    /// The directives in the host.
    pub block: &'d [Directive],
    /// The directives outside all hosts.
    pub outside: Vec<&'d Directive>,
    /// Clients use HTTPS.
    pub is_secure: bool,
}

impl<'d> Host<'d> {
    /// The directives with a name: those in the host, or else those outside.
    pub fn all(&self, name: &str) -> Vec<&'d Directive> {
        let inside: Vec<&'d Directive> = self.block.iter().filter(|one| is(one, name)).collect();
        match inside.is_empty() {
            true => self.outside.iter().copied().filter(|one| is(one, name)).collect(),
            false => inside,
        }
    }

    /// The last of these.
    pub fn one(&self, name: &str) -> Option<&'d Directive> {
        self.all(name).pop()
    }

    /// The sections with a name, in the host and outside.
    pub(super) fn sections(&self) -> Vec<&'d Directive> {
        self.outside.iter().copied().chain(self.block).filter(|one| one.block.is_some()).collect()
    }
}

pub(super) fn with_slash(path: &str) -> String {
    format!("{}/", path.trim_end_matches('/'))
}
