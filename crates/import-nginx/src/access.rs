//! Translates which clients are admitted: `allow`, `deny`, `auth_basic`, `satisfy`.
//!
//! nginx uses the first rule that matches, and admits clients that no rule names. This server uses the
//! longest network, and refuses clients that no network of `allow` contains.

use super::scope::Scope;
use touchstone_import_base::account::Account;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::networks::{EVERYONE, FirstMatch, first_match};
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::{toml_string, toml_strings};

/// The directives that are handled here.
pub const DIRECTIVES: [&str; 5] = ["allow", "deny", "auth_basic", "auth_basic_user_file", "satisfy"];

/// How addresses and users count together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// A client must be admitted by all rules.
    All,
    /// An admitted address or a known user is enough.
    Any,
    /// The same, but no address is admitted: all clients must be known.
    UsersOnly,
    /// The same with a password and `auth_request`, which this server cannot express.
    Mixed,
}

/// How addresses and users count at a place.
fn mode(scope: &Scope<'_>) -> Mode {
    if scope.one("satisfy").is_none_or(|satisfy| satisfy.argument(0) != "any") {
        return Mode::All;
    }
    let is_on = |name: &str| scope.one(name).is_some_and(|one| one.argument(0) != "off");
    let rules = rules(scope);
    match (is_on("auth_basic"), is_on("auth_request")) {
        (true, true) => Mode::Mixed,
        (false, false) => Mode::All,
        _ if scope.clients().is_empty() => Mode::All,
        _ if rules.allow.is_empty() && rules.others != Some(true) => Mode::UsersOnly,
        _ => Mode::Any,
    }
}

/// Whether all clients are refused by their address, and nothing else can admit them.
pub fn is_shut(scope: &Scope<'_>) -> bool {
    let rules = rules(scope);
    mode(scope) == Mode::All && rules.allow.is_empty() && rules.others == Some(false)
}

/// Whether a password is asked for.
pub fn has_users(scope: &Scope<'_>) -> bool {
    scope.one("auth_basic").is_some_and(|realm| realm.argument(0) != "off")
}

/// Switches off the rules of the site in a route for `return`, which nginx answers before it applies them.
pub fn not_asked(site: &Scope<'_>, route: &mut Section) {
    if has_users(site) {
        route.note("nginx answers before it asks for a password.");
        route.key("basic_authentication", "{ file = \"off\" }");
    }
    if !site.clients().is_empty() {
        route.note("nginx answers before it looks at the address.");
        route.key("allow", toml_strings(EVERYONE));
    }
}

fn rules(scope: &Scope<'_>) -> FirstMatch {
    first_match(scope.clients().into_iter().map(|one| (one.argument(0), one.name == "allow")))
}

/// Writes which clients are admitted. `own` has the directives of the site or location, and `scope` also
/// those of the blocks around it.
pub fn access(own: &Scope<'_>, scope: &Scope<'_>, section: &mut Section, account: &mut Account) {
    let is_own = DIRECTIVES.iter().chain(&["auth_request"]).any(|name| own.one(name).is_some());
    if !is_own {
        return;
    }
    own.clients().into_iter().for_each(|one| account.translated(one, section));
    let mode = mode(scope);
    if let Some(satisfy) = own.one("satisfy") {
        satisfied(satisfy, mode, section, account);
    }
    let any = scope.one("satisfy").is_some_and(|satisfy| satisfy.argument(0) == "any");
    match any {
        true if section.is_site() && mode == Mode::All => section.key("satisfy", toml_string("any")),
        true => section.key("satisfy", toml_string(if mode == Mode::Any { "any" } else { "all" })),
        false if own.one("satisfy").is_some() => section.key("satisfy", toml_string("all")),
        false => {}
    }
    // With "any" the meaning of the rules around the location is another.
    let clients = if any { scope.clients() } else { own.clients() };
    if !clients.is_empty() {
        networks(rules(scope), mode, section);
    }
    password(own, section, account);
}

fn satisfied(satisfy: &Directive, mode: Mode, section: &mut Section, account: &mut Account) {
    match mode {
        Mode::Mixed => {
            let advice = "the address, the password and the answer of 'auth_request' are all required: write \
                          a route for each, with 'satisfy'";
            account.problem(satisfy, section, advice);
        }
        Mode::All | Mode::Any | Mode::UsersOnly => account.translated(satisfy, section),
    }
}

/// Writes the networks.
fn networks(rules: FirstMatch, mode: Mode, section: &mut Section) {
    let FirstMatch { mut allow, mut deny, others } = rules;
    let everyone = || EVERYONE.map(str::to_string);
    match (mode, others) {
        (Mode::UsersOnly, _) => (allow, deny) = (everyone().to_vec(), Vec::new()),
        (Mode::Any, Some(true)) => allow.extend(everyone()),
        (Mode::Any, _) => {}
        (Mode::All | Mode::Mixed, Some(false)) if allow.is_empty() => deny = everyone().to_vec(),
        (Mode::All | Mode::Mixed, Some(false)) => {}
        (Mode::All | Mode::Mixed, _) if !allow.is_empty() && !deny.is_empty() => allow.extend(everyone()),
        // A site admits all clients without rules; a location replaces the rules of its site.
        (Mode::All | Mode::Mixed, Some(true)) if deny.is_empty() => {
            allow = if section.is_site() { Vec::new() } else { everyone().to_vec() };
        }
        (Mode::All | Mode::Mixed, _) => {}
    }
    for (key, networks) in [("allow", allow), ("deny", deny)] {
        if !networks.is_empty() {
            section.key(key, toml_strings(&networks));
        }
    }
}

/// Writes the password.
fn password(own: &Scope<'_>, section: &mut Section, account: &mut Account) {
    let Some(realm) = own.one("auth_basic") else { return };
    match (realm.argument(0), own.one("auth_basic_user_file")) {
        ("off", _) => {
            account.translated(realm, section);
            section.key("basic_authentication", "{ file = \"off\" }");
        }
        (text, Some(file)) => {
            account.translated(realm, section);
            account.translated(file, section);
            let (file, text) = (toml_string(file.argument(0)), toml_string(text));
            section.key("basic_authentication", format!("{{ file = {file}, realm = {text} }}"));
        }
        (_, None) => account.problem(realm, section, "'auth_basic_user_file' is missing"),
    }
}

#[cfg(test)]
mod tests {
    use crate::{parse, translate};

    /// The keys of the last route or site of a server.
    fn keys(server: &str) -> (String, usize) {
        let imported = translate(&parse("nginx.conf", &format!("server {{ root /srv; {server} }}")).unwrap());
        let lines: Vec<&str> =
            imported.text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        let text = lines.join("\n");
        let last = text.rsplit("[[").next().unwrap_or_default();
        (last.split_once("]]\n").map_or("", |(_, keys)| keys).to_string(), imported.problems.len())
    }

    const PASSWORD: &str = "auth_basic x; auth_basic_user_file /u;";
    const WITH: &str = "basic_authentication = { file = \"/u\", realm = \"x\" }";
    const ALL: &str = "[\"0.0.0.0/0\", \"::/0\", \"unix:\"]";

    #[test]
    fn addresses_passwords_and_both() {
        for (inside, expected) in [
            ("allow 10.0.0.0/8; deny all;", "allow = [\"10.0.0.0/8\"]".to_string()),
            (
                "deny 10.0.0.1; allow 10.0.0.0/8; deny all;",
                "allow = [\"10.0.0.0/8\"]\ndeny = [\"10.0.0.1\"]".to_string(),
            ),
            // The first rule counts.
            ("deny 10.0.0.0/8; allow 10.0.0.1; allow all;", "deny = [\"10.0.0.0/8\"]".to_string()),
            (
                "allow 10.0.0.1; deny 10.0.0.0/8;",
                "allow = [\"10.0.0.1\", \"0.0.0.0/0\", \"::/0\", \"unix:\"]\ndeny = [\"10.0.0.0/8\"]"
                    .to_string(),
            ),
            ("deny all; allow 10.0.0.0/8;", "respond = { status = 403 }".to_string()),
            ("allow all;", format!("allow = {ALL}")),
            (
                "satisfy any; allow 10.0.0.0/8; deny all; PASSWORD",
                format!("satisfy = \"any\"\nallow = [\"10.0.0.0/8\"]\n{WITH}"),
            ),
            (
                "satisfy any; allow 10.0.0.0/8; PASSWORD",
                format!("satisfy = \"any\"\nallow = [\"10.0.0.0/8\"]\n{WITH}"),
            ),
            (
                "satisfy any; deny 10.0.0.1; allow all; PASSWORD",
                format!("satisfy = \"any\"\nallow = {ALL}\ndeny = [\"10.0.0.1\"]\n{WITH}"),
            ),
            ("satisfy any; deny all; PASSWORD", format!("satisfy = \"all\"\nallow = {ALL}\n{WITH}")),
            ("satisfy any; deny 10.0.0.1; PASSWORD", format!("satisfy = \"all\"\nallow = {ALL}\n{WITH}")),
            (
                "satisfy all; deny 10.0.0.1; PASSWORD",
                format!("satisfy = \"all\"\ndeny = [\"10.0.0.1\"]\n{WITH}"),
            ),
        ] {
            let (text, problems) =
                keys(&format!("location /a/ {{ {} }}", inside.replace("PASSWORD", PASSWORD)));
            assert_eq!(text, format!("path = \"/a/\"\n{expected}"), "{inside}");
            assert_eq!(problems, 0, "{inside}");
        }
    }

    #[test]
    fn rules_of_the_server_and_of_its_locations() {
        // What the location sets counts together with what it inherits.
        let (text, _) =
            keys(&format!("satisfy any; allow 10.0.0.0/8; deny all; location /a/ {{ {PASSWORD} }}"));
        let expected = "path = \"/a/\"\nsatisfy = \"any\"\nallow = [\"10.0.0.0/8\"]\n";
        assert_eq!(text, format!("{expected}{WITH}"));
        let (text, _) = keys(&format!(
            "satisfy any; allow 10.0.0.0/8; deny all; {PASSWORD} location /a/ {{ auth_basic off; }}"
        ));
        let expected = "path = \"/a/\"\nsatisfy = \"all\"\nallow = [\"10.0.0.0/8\"]\n";
        assert_eq!(text, format!("{expected}basic_authentication = {{ file = \"off\" }}"));
        // All of a site is shut, also where a location opens a part.
        let (text, _) = keys("deny all;");
        assert_eq!(text, format!("listen = [\"0.0.0.0:80\"]\nroot = \"/srv\"\ndeny = {ALL}"));
        let (_, problems) = keys(&format!(
            "location = /q {{ proxy_pass http://127.0.0.1:1; }} \
             location /a/ {{ satisfy any; auth_request /q; allow 10.0.0.1; deny all; {PASSWORD} }}"
        ));
        assert_eq!(problems, 1);
    }
}
