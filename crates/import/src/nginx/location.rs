//! What stands in a server beside its addresses: keys of the site, and locations as routes in the order in
//! which nginx tries them.
//!
//! nginx takes an exact location first, then the longest prefix if it says `^~`, then the first expression
//! that matches, then the longest prefix. Routes are tried in their order, so they are written in that one.

use super::Directive;
use super::account::Account;
use super::common::common;
use super::handler;
use super::keys::{access, error_pages, headers};
use super::matching::{Match, is_everything};
use super::rewriting::{condition, rewriting};
use super::site::Site;
use crate::output::{Section, array, quoted};

/// Writes what stands in the server.
pub fn fill(site: &Site<'_>, section: &mut Section, account: &mut Account) {
    site_keys(site, section, account);
    let mut routes = Vec::new();
    for directive in site.server.inside() {
        match directive.name.as_str() {
            "return" | "rewrite" => routes.extend(rewriting(directive, None, site, section, account)),
            "if" => routes.extend(condition(directive, site, section, account)),
            _ => {}
        }
    }
    let mut locations: Vec<(Match, &Directive)> =
        site.locations().map(|location| (Match::of(location), location)).collect();
    // Stable: expressions stay in their order.
    locations.sort_by_key(|(how, _)| how.rank());
    for (how, location) in &locations {
        match how {
            Match::Named => {}
            _ => routes.extend(handler::routes(how, location, site, account)),
        }
    }
    if site.php().is_some() && !locations.iter().any(|(how, _)| is_everything(how)) {
        routes.extend(handler::php_route(site, account));
    }
    routes.into_iter().for_each(|route| section.push(route));
}

fn site_keys(site: &Site<'_>, section: &mut Section, account: &mut Account) {
    match site.root() {
        Some(root) => {
            account.translated(root, section);
            section.key("root", quoted(root.argument(0)));
        }
        None => {
            section.note("A site has a directory; this one serves nothing of it. Make an empty one.");
            section.key("root", quoted("/var/empty"));
        }
    }
    if let Some(index) = site.scope.one("index") {
        account.translated(index, section);
        // A script is no file here: the route for PHP runs it.
        let files = index.arguments.iter().filter(|name| !name.ends_with(".php") && !name.starts_with('/'));
        let files: Vec<&String> = files.collect();
        section.key("index", if files.is_empty() { "[\"index.html\"]".to_string() } else { array(files) });
    }
    if site.scope.one("autoindex").is_some_and(|directive| directive.argument(0) == "on") {
        section.key("listing", quoted("html"));
    }
    if let Some(charset) = site.scope.one("charset").filter(|charset| charset.argument(0) != "off") {
        section.key("charset", quoted(charset.argument(0)));
    }
    headers(&site.scope, true, section, account);
    error_pages(&site.scope, section, account);
    let is_own = ["allow", "deny", "auth_basic"].iter().any(|name| !site.scope.all(name).is_empty());
    if is_own {
        access(&site.scope, section, account);
    }
    for directive in site.server.inside() {
        match directive.name.as_str() {
            "listen"
            | "server_name"
            | "root"
            | "index"
            | "charset"
            | "add_header"
            | "expires"
            | "error_page"
            | "allow"
            | "deny"
            | "auth_basic"
            | "auth_basic_user_file"
            | "ssl_certificate"
            | "ssl_certificate_key"
            | "ssl_protocols"
            | "return"
            | "rewrite"
            | "if"
            | "location"
            | "client_max_body_size" => {}
            "autoindex" => account.translated(directive, section),
            "access_log" | "error_log" => {
                account.problem(
                    directive,
                    section,
                    "there is one log for the server, see [access_log] and [error_log]",
                );
            }
            name if name.starts_with("proxy_") || name.starts_with("fastcgi_param") => {}
            _ => common(directive, section, account),
        }
    }
}
