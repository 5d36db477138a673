//! A server, as its locations see it.

use super::scope::Scope;
use super::{Directive, value};

/// A server, as its locations see it.
pub struct Site<'d> {
    /// The block.
    pub server: &'d Directive,
    /// The block, and those around it.
    pub scope: Scope<'d>,
    /// Clients speak HTTPS.
    pub is_secure: bool,
    /// Its first name.
    pub name: &'d str,
}

impl<'d> Site<'d> {
    /// What variables stand for.
    pub fn facts(&self, drops_query: bool) -> value::Facts<'d> {
        value::Facts { is_secure: self.is_secure, name: self.name, drops_query }
    }

    /// Its locations.
    pub fn locations(&self) -> impl Iterator<Item = &'d Directive> {
        self.server.inside().iter().filter(|directive| directive.name == "location")
    }

    /// The location that has PHP answer.
    pub fn php(&self) -> Option<&'d Directive> {
        self.locations().find(|location| {
            let expression = location.arguments.last().map_or("", String::as_str);
            expression.contains("\\.php") && location.inside().iter().any(|d| d.name == "fastcgi_pass")
        })
    }

    /// The files of the site are below this directory.
    pub fn root(&self) -> Option<&'d Directive> {
        self.scope.one("root")
    }
}
