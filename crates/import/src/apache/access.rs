//! `Require`, `Order`, `Allow`, `Deny` and `Auth...`: which clients are allowed.

use super::area::{Area, is};
use crate::account::Account;
use crate::directive::Directive;
use crate::output::Section;
use crate::toml_text::{toml_string, toml_strings};

/// Which clients are allowed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// All clients are refused.
    pub is_shut: bool,
    allow: Vec<String>,
    deny: Vec<String>,
    needs_user: bool,
    /// What the fields above cannot say: until it is added by hand, too many or too few clients are allowed.
    problems: Vec<(usize, String)>,
}

/// The access directives that apply: those of the last section that has any.
fn deciding<'d>(area: &Area<'d>) -> Vec<&'d Directive> {
    const NAMES: [&str; 7] = ["require", "requireall", "requireany", "requirenone", "order", "allow", "deny"];
    let of = |section: &&'d Directive| -> Vec<&'d Directive> {
        section.inside().iter().filter(|one| NAMES.iter().any(|name| is(one, name))).collect()
    };
    area.sections.iter().rev().map(of).find(|found| !found.is_empty()).unwrap_or_default()
}

/// Writes which clients are allowed; returns whether all are refused.
pub fn write(area: &Area<'_>, route: &mut Section, account: &mut Account) -> bool {
    let directives = deciding(area);
    let access = decide(&directives);
    for (index, directive) in directives.iter().enumerate() {
        match access.problems.iter().find(|(at, _)| *at == index) {
            Some((_, advice)) => account.problem(directive, route, advice),
            None => account.translated(directive, route),
        }
    }
    if access.is_shut {
        route.key("respond", "{ status = 403 }");
        return true;
    }
    if !access.allow.is_empty() {
        route.key("allow", toml_strings(&access.allow));
    }
    if !access.deny.is_empty() {
        route.key("deny", toml_strings(&access.deny));
    }
    if access.needs_user {
        password(area, route, account);
    }
    false
}

fn password(area: &Area<'_>, route: &mut Section, account: &mut Account) {
    let kind = area.one("AuthType");
    let file = area.one("AuthUserFile");
    let realm = area.one("AuthName");
    for directive in [kind, file, realm].into_iter().flatten() {
        account.translated(directive, route);
    }
    let realm = realm.map_or("Restricted", |realm| realm.argument(0));
    match (kind.map(|kind| kind.argument(0).to_ascii_lowercase()).as_deref(), file) {
        (Some("basic") | None, Some(file)) => {
            let (file, realm) = (toml_string(file.argument(0)), toml_string(realm));
            route.key("basic_authentication", format!("{{ file = {file}, realm = {realm} }}"));
        }
        _ => {
            let directive = kind.or(file).or(deciding(area).first().copied());
            let advice = "users come from a file of Basic authentication (docs/access.md); until one is \
                          named, all are refused";
            if let Some(directive) = directive {
                account.problem(directive, route, advice);
            }
            route.key("respond", "{ status = 403 }");
        }
    }
}

fn decide(directives: &[&Directive]) -> Access {
    let mut access = Access::default();
    let mut grants_all = false;
    let old = directives.iter().any(|directive| is(directive, "order"));
    for (index, directive) in directives.iter().enumerate() {
        match directive.name.to_ascii_lowercase().as_str() {
            "requireall" => {
                let inside: Vec<&Directive> = directive.inside().iter().collect();
                let inner = decide(&inside);
                access.join(inner, index);
            }
            "requireany" => {
                let inside: Vec<&Directive> = directive.inside().iter().collect();
                let inner = decide(&inside);
                if inner.needs_user && !inner.allow.is_empty() {
                    let advice = "networks or a password: both are asked for here; name the network in \
                                  a site of its own to let it in without one";
                    access.problems.push((index, advice.to_string()));
                }
                access.join(inner, index);
            }
            "requirenone" => access.problems.push((index, OPEN.to_string())),
            "order" => {
                let denies_first = directive.argument(0).to_ascii_lowercase().starts_with("deny");
                let denies_all = directives.iter().any(|one| is(one, "deny") && ends_in_all(one));
                let allows_all = directives.iter().any(|one| is(one, "allow") && ends_in_all(one));
                access.is_shut = denies_all
                    && !allows_all
                    && !(denies_first && directives.iter().any(|one| is(one, "allow")));
            }
            "allow" if old => {
                let list = directive.arguments.get(1..).unwrap_or_default();
                if list.iter().any(|word| word.starts_with("env=")) {
                    access.problems.push((index, OPEN.to_string()));
                }
                access.allow.extend(list.iter().filter(|word| is_network(word)).cloned());
            }
            "deny" if old => {
                let list = directive.arguments.get(1..).unwrap_or_default();
                access.deny.extend(list.iter().filter(|word| is_network(word)).cloned());
            }
            "require" => require(directive, index, &mut access, &mut grants_all),
            _ => access.problems.push((index, OPEN.to_string())),
        }
    }
    // One of several is enough.
    if grants_all && access.allow.is_empty() && !access.needs_user {
        access.is_shut = false;
    }
    access
}

const OPEN: &str = "what it forbids is allowed until you write 'allow', 'deny' or 'basic_authentication'";

impl Access {
    fn join(&mut self, inner: Access, index: usize) {
        self.is_shut |= inner.is_shut;
        self.needs_user |= inner.needs_user;
        self.allow.extend(inner.allow);
        self.deny.extend(inner.deny);
        self.problems.extend(inner.problems.into_iter().map(|(_, advice)| (index, advice)));
    }
}

fn require(directive: &Directive, index: usize, access: &mut Access, grants_all: &mut bool) {
    let words: Vec<String> = directive.arguments.iter().map(|word| word.to_ascii_lowercase()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["all", "granted"] => *grants_all = true,
        ["all", "denied"] => access.is_shut = true,
        ["ip", networks @ ..] => access.allow.extend(networks.iter().map(|network| full(network))),
        ["not", "ip", networks @ ..] => access.deny.extend(networks.iter().map(|network| full(network))),
        ["local"] => access.allow.extend(["127.0.0.0/8", "::1"].map(String::from)),
        ["valid-user"] => access.needs_user = true,
        ["user" | "group", ..] => {
            access.needs_user = true;
            let advice = "all users of the file are allowed; write those who may enter to a separate file";
            access.problems.push((index, advice.to_string()));
        }
        _ => access.problems.push((index, OPEN.to_string())),
    }
}

fn ends_in_all(directive: &Directive) -> bool {
    directive.arguments.last().is_some_and(|word| word.eq_ignore_ascii_case("all"))
}

fn is_network(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit() || c == ':')
}

/// Expands `10.1` to `10.1.0.0/16`.
fn full(network: &str) -> String {
    let parts: Vec<&str> = network.trim_end_matches('.').split('.').collect();
    if network.contains(':') || network.contains('/') || parts.len() == 4 {
        return network.to_string();
    }
    let zeros = vec!["0"; 4 - parts.len().min(4)];
    format!("{}.{}/{}", parts.join("."), zeros.join("."), parts.len() * 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apache::parse;

    fn access(text: &str) -> Access {
        let directives = parse("a.conf", text).unwrap();
        decide(&directives.iter().collect::<Vec<_>>())
    }

    #[test]
    fn who_is_let_in() {
        assert!(access("Require all denied").is_shut && !access("Require all granted").is_shut);
        assert_eq!(access("Require ip 10.1 192.0.2.1").allow, ["10.1.0.0/16", "192.0.2.1"]);
        assert!(access("Order deny,allow\nDeny from all").is_shut);
        assert!(access("Order allow,deny\nAllow from all\nDeny from 192.0.2.1").deny == ["192.0.2.1"]);
        let some = access("Order deny,allow\nDeny from all\nAllow from 10.0.0.0/8");
        assert!(!some.is_shut && some.allow == ["10.0.0.0/8"]);
        let both = access("<RequireAll>\nRequire valid-user\nRequire ip 10.0.0.0/8\n</RequireAll>");
        assert!(both.needs_user && both.allow == ["10.0.0.0/8"] && both.problems.is_empty());
        assert_eq!(access("Require expr x").problems.len(), 1);
    }
}
