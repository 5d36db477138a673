//! A server, as the translation of its locations needs it.

use super::address::address;
use super::flag_states::flags_at;
use super::flags::Flags;
use super::language::Language;
use super::map;
use super::matching::Match;
use super::scope::{Scope, refuses_all};
use super::value;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::expression;

/// A server, as the translation of its locations needs it.
pub struct Site<'d> {
    /// The block.
    pub server: &'d Directive,
    /// The block and its enclosing blocks.
    pub scope: Scope<'d>,
    /// Clients use HTTPS.
    pub is_secure: bool,
    /// Its first name.
    pub name: &'d str,
}

impl<'d> Site<'d> {
    /// The context for variables.
    pub fn facts(&self, drops_query: bool) -> value::Facts<'d> {
        value::Facts { is_secure: self.is_secure, name: self.name, drops_query }
    }

    /// The values of variables in texts of the language.
    pub fn language(&self) -> Language<'d> {
        self.language_at(None)
    }

    /// The same at a directive of the server: what conditions set is what those before it have set.
    pub fn language_at(&self, at: Option<&Directive>) -> Language<'d> {
        let maps = map::names(&self.scope);
        let language =
            Language { maps, server_name: self.name, server_port: self.port(), ..Language::default() };
        let flags = flags_at(self.server, &language, at);
        Language { flags, ..language }
    }

    /// The same in a location, whose conditions follow those of the server.
    pub fn language_in(&self, location: Option<&Directive>, at: Option<&Directive>) -> Language<'d> {
        let Some(location) = location else { return self.language_at(at) };
        let language = self.language_at(None);
        let flags = flags_at(
            &self.with_lines_of(location),
            &Language { flags: Flags::default(), ..language.clone() },
            at,
        );
        Language { flags, ..language }
    }

    /// Whether a `set` of the server is for a variable that conditions of a location also set.
    pub fn is_of_location(&self, set: &Directive) -> bool {
        let flags = |location| self.language_in(Some(location), None).flags;
        self.locations().any(|location| flags(location).sets_only(set))
    }

    /// The server's conditions and variables, and behind them those of a location.
    fn with_lines_of(&self, location: &Directive) -> Directive {
        let is_kept = |one: &&Directive| matches!(one.name.as_str(), "set" | "if");
        let lines = self.server.inside().iter().chain(location.inside()).filter(is_kept).cloned();
        Directive { block: Some(lines.collect()), ..self.server.clone() }
    }

    /// The port that all its addresses have; empty: there are several.
    fn port(&self) -> String {
        let mut ports = self
            .server
            .inside()
            .iter()
            .filter(|one| one.name == "listen")
            .filter(|one| one.arguments.iter().any(|word| word == "ssl" || word == "quic") == self.is_secure)
            .map(|one| {
                address(one.argument(0)).and_then(|address| Some(address.rsplit_once(':')?.1.to_string()))
            });
        let first = ports.next().flatten().filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
        first.filter(|first| ports.all(|port| port.as_ref() == Some(first))).unwrap_or_default()
    }

    /// The lines of the block around the server.
    pub fn around(&self) -> &'d [Directive] {
        self.scope.around()
    }

    /// Its directory: its own, or that of the location for all paths.
    pub fn root(&self) -> Option<&'d Directive> {
        self.scope.one("root").or_else(|| {
            let all = self.locations().find(|location| location.arguments == ["/"])?;
            all.inside().iter().find(|one| one.name == "root")
        })
    }

    /// Its locations.
    pub fn locations(&self) -> impl Iterator<Item = &'d Directive> {
        self.server.inside().iter().filter(|directive| directive.name == "location")
    }

    /// Whether the first location with an expression for this script refuses all clients.
    pub fn refuses_script(&self, path: &str) -> bool {
        let matching = self.locations().find(|location| match Match::of(location) {
            Match::Exact(exact) => exact == path,
            Match::Expression { expression, any_case } => expression::whole_path(&expression, any_case)
                .is_ok_and(|whole| expression::matches(&whole, path)),
            _ => false,
        });
        matching.is_some_and(|location| refuses_all(location.inside()))
    }

    /// The location that passes requests to PHP.
    pub fn php(&self) -> Option<&'d Directive> {
        location_of_scripts(self.server.inside())
    }
}

fn location_of_scripts(block: &[Directive]) -> Option<&Directive> {
    block.iter().filter(|directive| directive.name == "location").find_map(|location| {
        let is_expression = matches!(Match::of(location), Match::Expression { .. });
        let has_pass = location.inside().iter().any(|directive| directive.name == "fastcgi_pass");
        if is_expression && has_pass && Match::of(location).is_of_scripts() {
            return Some(location);
        }
        location_of_scripts(location.inside())
    })
}
