//! `SetEnvIf`, `BrowserMatch` and the directives that read their variables.

use super::condition::of_attribute;
use touchstone_import_base::directive::Directive;

/// When a variable of the environment is set.
pub struct Environment<'d> {
    /// The directives, with the variable that each sets and its condition.
    set: Vec<(&'d Directive, String, Result<String, String>)>,
    /// Clients of the site use HTTPS.
    pub is_secure: bool,
}

impl<'d> Environment<'d> {
    /// The variables that these directives set.
    pub fn of(directives: impl Iterator<Item = &'d Directive>) -> Environment<'d> {
        let mut set = Vec::new();
        for directive in directives {
            let arguments: Vec<&str> = directive.arguments.iter().map(String::as_str).collect();
            let (attribute, rest, any_case) = match directive.name.to_ascii_lowercase().as_str() {
                "setenvif" if arguments.len() > 2 => (arguments[0], &arguments[1..], false),
                "setenvifnocase" if arguments.len() > 2 => (arguments[0], &arguments[1..], true),
                "browsermatch" if arguments.len() > 1 => ("User-Agent", &arguments[..], false),
                "browsermatchnocase" if arguments.len() > 1 => ("User-Agent", &arguments[..], true),
                _ => continue,
            };
            for variable in &rest[1..] {
                let condition = match variable.starts_with('!') {
                    true => Err("a variable that is taken back has no counterpart".to_string()),
                    false => of_attribute(attribute, rest[0], any_case),
                };
                let name = variable.trim_start_matches('!').split('=').next().unwrap_or_default();
                set.push((directive, name.to_string(), condition));
            }
        }
        Environment { set, is_secure: false }
    }

    /// The same, for a site whose clients use HTTPS or not.
    pub fn with_security(self, is_secure: bool) -> Environment<'d> {
        Environment { is_secure, ..self }
    }

    /// The condition under which a variable is set, and the directives that set it.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub fn condition(&self, name: &str) -> Result<(String, Vec<&'d Directive>), String> {
        let all: Vec<_> = self.set.iter().filter(|(_, other, _)| other == name).collect();
        if all.is_empty() {
            return Err(format!("nothing here sets the variable '{name}'"));
        }
        let mut conditions = Vec::new();
        for (_, _, condition) in &all {
            conditions.push(condition.clone()?);
        }
        Ok((conditions.join(" or "), all.into_iter().map(|(directive, ..)| *directive).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn variables_are_conditions() {
        let directives = parse(
            "a.conf",
            "SetEnvIfNoCase User-Agent \"^bad\" bot\nBrowserMatch spider bot=1\nSetEnvIf Remote_Host x h\n\
             SetEnvIf Request_URI \"\\.gif$\" image !bot2\n",
        )
        .unwrap();
        let environment = Environment::of(directives.iter());
        let (condition, from) = environment.condition("bot").unwrap();
        assert_eq!(condition, "$header{user-agent} =~ '(?i)^bad' or $header{user-agent} =~ 'spider'");
        assert_eq!(from.len(), 2);
        assert_eq!(environment.condition("image").unwrap().0, "$path =~ '\\.gif$'");
        assert!(environment.condition("h").is_err() && environment.condition("none").is_err());
        assert!(environment.condition("bot2").is_err());
    }
}
