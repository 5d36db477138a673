//! `Require`, `Order`, `Allow`, `Deny` and `Auth...`: which clients are allowed.

use super::area::{Area, is};
use super::environment::Environment;
use super::oidc;
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
    /// Claims of an OpenID provider that a user must have.
    claims: Vec<String>,
    /// Variables of the environment that requests must have.
    needed: Vec<String>,
    /// Variables of the environment that requests must not have.
    refused: Vec<String>,
    /// What the fields above cannot express: until it is added by hand, too many or too few clients are
    /// allowed.
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

/// The conditions under which requests are refused because of variables of the environment, with the
/// directives that set these.
pub fn refusals<'d>(area: &Area<'_>, environment: &Environment<'d>) -> Vec<(String, Vec<&'d Directive>)> {
    let access = decide(&deciding(area), false);
    let refused = access.refused.iter().map(|name| environment.condition(name));
    let needed = access.needed.iter().map(|name| {
        environment.condition(name).map(|(condition, from)| (format!("not ({condition})"), from))
    });
    refused.chain(needed).filter_map(Result::ok).collect()
}

/// Writes which clients are allowed; returns whether all are refused. The routes of [`refusals`] must be
/// before it.
pub fn write(
    area: &Area<'_>,
    environment: &Environment<'_>,
    route: &mut Section,
    account: &mut Account,
) -> bool {
    let directives = deciding(area);
    let mut access = decide(&directives, false);
    for name in access.needed.iter().chain(&access.refused) {
        if let Err(advice) = environment.condition(name) {
            access.problems.push((directives.len().saturating_sub(1), format!("{advice}: {OPEN}")));
        }
    }
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
        users(area, &access.claims, route, account);
    }
    false
}

/// Writes how users are known: by a password, or by a login at a provider.
fn users(area: &Area<'_>, claims: &[String], route: &mut Section, account: &mut Account) {
    let kind = area.one("AuthType");
    let is_login = |kind: &&Directive| {
        matches!(kind.argument(0).to_ascii_lowercase().as_str(), "openid-connect" | "auth-openidc")
    };
    if let Some(kind) = kind.filter(is_login) {
        match oidc::login(area, claims, "[site.route.login]", route, account) {
            Ok(()) => account.translated(kind, route),
            Err(advice) => {
                account.problem(kind, route, &advice);
                route.key("respond", "{ status = 403 }");
            }
        }
        return;
    }
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

/// The meaning of directives; with `all_are_asked` each of them must hold, as in `<RequireAll>`.
fn decide(directives: &[&Directive], all_are_asked: bool) -> Access {
    let mut access = Access::default();
    let mut grants_all = false;
    let old = directives.iter().any(|one| ["order", "allow", "deny"].iter().any(|name| is(one, name)));
    if old {
        access.is_shut = is_shut_by_order(directives);
    }
    for (index, directive) in directives.iter().enumerate() {
        match directive.name.to_ascii_lowercase().as_str() {
            "requireall" => {
                let inside: Vec<&Directive> = directive.inside().iter().collect();
                let inner = decide(&inside, true);
                access.join(inner, index);
            }
            "requireany" => {
                let inside: Vec<&Directive> = directive.inside().iter().collect();
                let inner = decide(&inside, false);
                if inner.needs_user && !inner.allow.is_empty() {
                    let advice = "networks or a password: both are asked for here; name the network in \
                                  a site of its own to let it in without one";
                    access.problems.push((index, advice.to_string()));
                }
                access.join(inner, index);
            }
            "requirenone" => {
                let inside: Vec<&Directive> = directive.inside().iter().collect();
                let inner = decide(&inside, true);
                if inner.needs_user
                    || !inner.refused.is_empty()
                    || !inner.problems.is_empty()
                    || inner.is_shut
                {
                    access.problems.push((index, OPEN.to_string()));
                }
                access.refused.extend(inner.needed);
                access.deny.extend(inner.allow);
            }
            "order" => {}
            "allow" => {
                let list = directive.arguments.get(1..).unwrap_or_default();
                access.needed.extend(variables(list));
                access.allow.extend(list.iter().filter(|word| is_network(word)).cloned());
            }
            "deny" => {
                let list = directive.arguments.get(1..).unwrap_or_default();
                access.refused.extend(variables(list));
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
    if access.needed.is_empty() {
        return access;
    }
    let allows_all = old && directives.iter().any(|one| is(one, "allow") && ends_in_all(one));
    if (grants_all || allows_all) && !all_are_asked {
        access.needed.clear();
    } else if !all_are_asked && (access.needed.len() > 1 || !access.allow.is_empty() || access.needs_user) {
        access.needed.clear();
        access.problems.push((directives.len().saturating_sub(1), OPEN.to_string()));
    }
    access
}

/// Whether `Order`, `Allow` and `Deny` refuse all clients. Without `Order`, `Deny` is looked at first.
fn is_shut_by_order(directives: &[&Directive]) -> bool {
    let order = directives.iter().rfind(|one| is(one, "order"));
    let denies_first = order.is_none_or(|order| order.argument(0).to_ascii_lowercase().starts_with("deny"));
    let denies_all = directives.iter().any(|one| is(one, "deny") && ends_in_all(one));
    let allows_all = directives.iter().any(|one| is(one, "allow") && ends_in_all(one));
    denies_all && !allows_all && !(denies_first && directives.iter().any(|one| is(one, "allow")))
}

/// The variables of `env=NAME`.
fn variables(list: &[String]) -> impl Iterator<Item = String> {
    list.iter().filter_map(|word| word.strip_prefix("env=")).map(str::to_string)
}

const OPEN: &str = "what it forbids is allowed until you write 'allow', 'deny' or 'basic_authentication'";

impl Access {
    fn join(&mut self, inner: Access, index: usize) {
        self.is_shut |= inner.is_shut;
        self.needs_user |= inner.needs_user;
        self.allow.extend(inner.allow);
        self.deny.extend(inner.deny);
        self.claims.extend(inner.claims);
        self.needed.extend(inner.needed);
        self.refused.extend(inner.refused);
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
        // The names of variables and claims keep their case.
        ["env", ..] => access.needed.extend(directive.arguments.get(1..).unwrap_or_default().iter().cloned()),
        ["not", "env", ..] => {
            access.refused.extend(directive.arguments.get(2..).unwrap_or_default().iter().cloned());
        }
        ["claim", ..] => {
            access.needs_user = true;
            for claim in directive.arguments.get(1..).unwrap_or_default() {
                match claim.split_once(':') {
                    Some((name, value)) if !name.contains('~') => {
                        access.claims.push(format!("{name}={value}"))
                    }
                    _ => {
                        let advice =
                            "a claim has a fixed value: without it all users of the provider are allowed";
                        access.problems.push((index, advice.to_string()));
                    }
                }
            }
            if access.claims.len() > 1 {
                let advice = "all claims are asked for here; for one of several, write a route for each";
                access.problems.push((index, advice.to_string()));
            }
        }
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
        decide(&directives.iter().collect::<Vec<_>>(), false)
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
        assert!(!access("Allow from all").is_shut && access("Deny from all").is_shut);
        assert!(access("Allow from all\nRequire all granted").problems.is_empty());
        let bad = access("Order allow,deny\nAllow from all\nDeny from env=Bad");
        assert!(bad.refused == ["Bad"] && bad.needed.is_empty() && bad.problems.is_empty());
        let none = access(
            "<RequireAll>\nRequire all granted\nRequire not env Bad\n<RequireNone>\nRequire env Worse\n\
             Require ip 10.0.0.0/8\n</RequireNone>\n</RequireAll>",
        );
        assert!(none.refused == ["Bad", "Worse"] && none.deny == ["10.0.0.0/8"], "{none:?}");
        assert_eq!(access("Require env Good").needed, ["Good"]);
        assert_eq!(access("Require env Good\nRequire ip 10.0.0.1").problems.len(), 1);
        assert_eq!(access("Require claim groups:a").claims, ["groups=a"]);
    }
}
