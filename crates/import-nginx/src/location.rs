//! Translates the contents of a server: keys of the site, and locations as routes in the order in which nginx
//! tries them.
//!
//! nginx takes an exact location first, then the longest prefix if it has `^~`, then the first expression
//! that matches, then the longest prefix. This server tries routes in order, so they are written in that
//! order.

use std::borrow::Cow;

use super::access::{self, access};
use super::cache::is_of_cache;
use super::common::common;
use super::constants;
use super::delivery;
use super::forward_auth::{self, forward_auth};
use super::handler;
use super::keys::{body_limit, error_pages, headers, intercepts, is_file_name};
use super::log::own_logs;
use super::matching::{Match, is_everything};
use super::missing_files::{self, has_answer, missing_files};
use super::named_groups;
use super::refused;
use super::rewriting::{condition, rewriting};
use super::scope::{inherited, refuses_all};
use super::site::Site;
use touchstone_import_base::account::Account;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::{toml_string, toml_strings};

/// Directives of a server that are reported with the locations that they apply to.
const INHERITED_BY_HANDLERS: [&str; 15] = [
    "fastcgi_hide_header",
    "uwsgi_hide_header",
    "scgi_hide_header",
    "proxy_set_header",
    "proxy_read_timeout",
    "proxy_connect_timeout",
    "proxy_send_timeout",
    "proxy_redirect",
    "proxy_hide_header",
    "proxy_cookie_path",
    "proxy_cookie_domain",
    "uwsgi_param",
    "uwsgi_read_timeout",
    "fastcgi_param",
    "fastcgi_read_timeout",
];

/// Writes the contents of the server.
pub fn fill(site: &Site<'_>, section: &mut Section, account: &mut Account) {
    site_keys(site, section, account);
    let mut routes = Vec::new();
    let mut missing = None;
    let flags = site.language().flags;
    for directive in site.server.inside() {
        match directive.name.as_str() {
            "return" | "rewrite" => routes.extend(rewriting(directive, None, None, site, section, account)),
            "if" if flags.sets_only(directive) => {
                account.translated(directive, section);
                directive.inside().iter().for_each(|set| account.translated(set, section));
            }
            "if" if missing_files(directive).is_some() => missing = Some(directive),
            "if" => routes.extend(condition(directive, None, None, site, section, account)),
            _ => {}
        }
    }
    let mut locations = Vec::new();
    for location in site.locations() {
        let location = named_groups::numbered(location);
        let how = Match::of(&location);
        collect(location, how, &mut locations, section, account);
    }
    // The sort is stable: expressions keep their order.
    locations.sort_by_key(|(how, _)| how.rank());
    without_longer_prefixes(&mut locations);
    let locations = with_directories_of_scripts(locations, site);
    let all: Vec<Match> = locations.iter().map(|(how, _)| how.clone()).collect();
    routes
        .extend(locations.iter().filter_map(|(how, location)| handler::slash_redirect(how, location, &all)));
    routes.extend(index_of_root(site));
    for (how, location) in locations.iter().filter(|(how, _)| *how != Match::Named) {
        let location = location.as_ref();
        let added = missing.filter(|_| is_everything(how));
        if let Some(condition) = added.filter(|_| has_answer(location.inside())) {
            account.problem(
                condition,
                section,
                "the location for '/' has an answer of its own: add 'try_files'",
            );
        } else if let Some(condition) = added {
            let mut whole = location.clone();
            whole.block.get_or_insert_default().push(condition.clone());
            routes.extend(handler::routes(how, &whole, site, account));
            continue;
        }
        routes.extend(handler::routes(how, location, site, account));
    }
    let tried = site.server.inside().iter().find(|directive| directive.name == "try_files");
    match (tried, missing) {
        _ if locations.iter().any(|(how, _)| is_everything(how)) => {}
        (Some(tried), _) => routes.push(handler::tried_route(tried, site, account)),
        (None, Some(condition)) => {
            let whole = Directive {
                name: "location".to_string(),
                arguments: vec!["/".to_string()],
                block: Some(vec![condition.clone()]),
                ..condition.clone()
            };
            let how = Match::Prefix { path: "/".to_string(), is_first: false };
            routes.extend(handler::routes(&how, &whole, site, account));
        }
        (None, None) if site.php().is_some() => routes.push(handler::php_route(site)),
        (None, None) => {}
    }
    let mut shut = refused::refused_until(site.scope.innermost(), None, account);
    shut = shut.or_else(|| refused::refused_until(site.around(), None, account));
    shut = shut.or_else(|| refused::route(&refused::of_other_modules(site.around()), None));
    shut = shut.or(missing.filter(|missing| passes_missing(missing, &locations)).and_then(|condition| {
        let advice = "programs answer here for files that are not there: all requests are refused until you \
                      write what it refuses";
        account.problem(condition, section, advice);
        refused::route(&[condition], None)
    }));
    shut.into_iter().chain(routes).for_each(|route| section.push(route));
    section.complete_root();
}

/// Whether a program would answer where a condition of the server refuses what is not a file.
fn passes_missing(missing: &Directive, locations: &[(Match, Cow<'_, Directive>)]) -> bool {
    let refuses = missing.inside().iter().any(|inner| inner.name == "return");
    refuses && locations.iter().any(|(how, location)| missing_files::is_passed(how, location.inside()))
}

/// The route for the script of the root's index, where the scripts of other directories are refused.
fn index_of_root(site: &Site<'_>) -> Option<Section> {
    let index = site.scope.one("index")?;
    let is_named = site.php().is_some() && index.arguments.first().is_some_and(|name| name == "index.php");
    let is_taken = site.locations().any(|location| Match::of(location) == Match::Exact("/".to_string()));
    if !is_named
        || is_taken
        || !site.refuses_script("/directory/index.php")
        || site.refuses_script("/index.php")
    {
        return None;
    }
    let mut route = Section::new("[[site.route]]");
    route.note("The index files of other directories are scripts that a location refuses.");
    route.key("path", toml_string("=/"));
    route.key("rewrite", "{ to = \"/index.php\" }");
    Some(route)
}

/// An expression in a location counts only where the location's prefix is the longest that fits.
fn without_longer_prefixes(locations: &mut [(Match, Cow<'_, Directive>)]) {
    let prefixes: Vec<String> = locations
        .iter()
        .filter_map(|(how, _)| match how {
            Match::Prefix { path, .. } => Some(path.clone()),
            _ => None,
        })
        .collect();
    for (how, _) in locations {
        if let Match::Inside { path, longer, .. } = how {
            let is_longer = |other: &&String| other.len() > path.len() && other.starts_with(path.as_str());
            longer.extend(prefixes.iter().filter(is_longer).cloned());
        }
    }
}

/// Adds locations for directories: nginx searches the location of a directory's index file, so what refuses
/// scripts refuses the directories whose index script they are.
fn with_directories_of_scripts<'d>(
    locations: Vec<(Match, Cow<'d, Directive>)>,
    site: &Site<'_>,
) -> Vec<(Match, Cow<'d, Directive>)> {
    let has_index = |block: &[Directive]| {
        let mut indexes = block.iter().filter(|one| one.name == "index");
        indexes.any(|one| one.arguments.iter().any(|name| name.ends_with(".php")))
    };
    let of_site = site.scope.one("index").is_some_and(|one| has_index(std::slice::from_ref(one)));
    let lists =
        |block: &[Directive]| block.iter().any(|one| one.name == "autoindex" && one.argument(0) == "on");
    let is_needed = site.php().is_some()
        && (of_site || locations.iter().any(|(_, location)| has_index(location.inside())))
        && !lists(site.server.inside())
        && !locations.iter().any(|(_, location)| lists(location.inside()));
    let taken: Vec<Match> = locations.iter().map(|(how, _)| how.clone()).collect();
    let added = |how: &Match, location: &Directive| {
        let is_shut = refuses_all(location.inside());
        let is_guard = is_shut || matches!(how, Match::Exact(_)) && handler::restricts(location.inside());
        let of_scripts = || how.directories().filter(|_| is_needed);
        let directories = directory_of_index(how, site).filter(|one| !taken.contains(one));
        let directories = directories.or_else(of_scripts).filter(|_| is_guard)?;
        let is_kept = |one: &&Directive| match is_shut {
            true => one.name != "location",
            false => handler::is_of_clients(&one.name),
        };
        let block = location.inside().iter().filter(is_kept).cloned().collect();
        Some((directories, Cow::Owned(Directive { block: Some(block), ..location.clone() })))
    };
    let with = |(how, location): (Match, Cow<'d, Directive>)| {
        let directories = added(&how, &location);
        std::iter::once((how, location)).chain(directories)
    };
    locations.into_iter().flat_map(with).collect()
}

/// The directory whose index file an exact location is for.
fn directory_of_index(how: &Match, site: &Site<'_>) -> Option<Match> {
    let Match::Exact(path) = how else { return None };
    let (directory, name) = path.rsplit_once('/')?;
    let first = site.scope.one("index").map_or("index.html", |index| index.argument(0));
    (name == first).then(|| Match::Exact(format!("{directory}/")))
}

/// Adds a location, and before it the locations nested in it, with what they inherit.
fn collect<'d>(
    location: Cow<'d, Directive>,
    how: Match,
    locations: &mut Vec<(Match, Cow<'d, Directive>)>,
    section: &mut Section,
    account: &mut Account,
) {
    for inner in location.inside().iter().filter(|directive| directive.name == "location") {
        let Some(inner_how) = how.inner(inner) else {
            let refuses = handler::restricts(inner.inside());
            let warning = if refuses { refused::REFUSED_UNTIL } else { "" };
            let advice = format!("{warning}move it out of the location that contains it");
            account.problem(inner, section, &advice);
            if refuses {
                let (name, arguments) = ("deny".to_string(), vec!["all".to_string()]);
                let block = Some(vec![Directive { name, arguments, block: None, ..inner.clone() }]);
                locations.push((how.clone(), Cow::Owned(Directive { block, ..inner.clone() })));
            }
            continue;
        };
        let mut whole = inner.clone();
        let block = whole.block.get_or_insert_default();
        let mut added = inherited(location.inside(), block);
        added.iter_mut().for_each(|directive| directive_below(directive, &how, &inner_how));
        block.extend(added);
        collect(Cow::Owned(whole), inner_how, locations, section, account);
    }
    locations.push((how, location));
}

/// An `alias` that a nested location inherits maps to the part below it.
fn directive_below(directive: &mut Directive, outer: &Match, inner: &Match) {
    if let (Match::Prefix { path, .. }, Match::Inside { .. }, "alias") =
        (outer, inner, directive.name.as_str())
    {
        // A directory that ends as the path does is below another one, under the whole path.
        let end = path.trim_end_matches('/').to_string();
        if let Some(root) = directive.argument(0).trim_end_matches('/').strip_suffix(&end) {
            directive.arguments = vec![if root.is_empty() { "/".to_string() } else { root.to_string() }];
            directive.name = "root".to_string();
        }
        return;
    }
    let (Match::Prefix { path: outer, .. }, Match::Prefix { path: inner, .. } | Match::Exact(inner)) =
        (outer, inner)
    else {
        return;
    };
    if directive.name != "alias" {
        return;
    }
    if let (Some(rest), Some(alias)) =
        (inner.strip_prefix(outer.trim_end_matches('/')), directive.arguments.first_mut())
    {
        *alias = format!("{}{rest}", alias.trim_end_matches('/'));
    }
}

fn site_keys(site: &Site<'_>, section: &mut Section, account: &mut Account) {
    // Without one it is written last, if the routes need it.
    if let Some(root) = site.root() {
        account.translated(root, section);
        match root.argument(0).contains('$') {
            true => account.problem(root, section, "a directory has no variables: write a site for each"),
            false => section.key("root", toml_string(root.argument(0))),
        }
    }
    if let Some(index) = site.scope.one("index") {
        account.translated(index, section);
        // A script does not count as a file: the route for PHP runs it.
        let files: Vec<&String> = index.arguments.iter().filter(|name| is_file_name(name)).collect();
        section.key(
            "index",
            if files.is_empty() { "[\"index.html\"]".to_string() } else { toml_strings(files) },
        );
    }
    if site.scope.one("autoindex").is_some_and(|directive| directive.argument(0) == "on") {
        section.key("listing", toml_string("html"));
    }
    if let Some(charset) = site.scope.one("charset").filter(|charset| charset.argument(0) != "off") {
        section.key("charset", toml_string(charset.argument(0)));
    }
    headers(&site.scope, &site.language(), true, section, account);
    error_pages(&site.scope, section, account);
    intercepts(&site.scope, section, account);
    access(&site.scope, &site.scope, section, account);
    forward_auth(&site.scope, &site.scope, site, section, account);
    own_logs(site.server.inside(), &site.scope, section, account);
    delivery::delivery(&of_server(site), &site.scope, section, account);
    let flags = site.language().flags;
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
            | "ssl_certificate"
            | "ssl_certificate_key"
            | "ssl_protocols"
            | "ssl_verify_client"
            | "ssl_client_certificate"
            | "ssl_crl"
            | "return"
            | "rewrite"
            | "if"
            | "location"
            | "fastcgi_intercept_errors"
            | "proxy_intercept_errors"
            | "uwsgi_intercept_errors"
            | "try_files"
            | "access_log"
            | "error_log" => {}
            "set" if constants::is_constant(directive, site.server) => account.translated(directive, section),
            "set" if flags.sets_only(directive) || site.is_of_location(directive) => {
                account.translated(directive, section)
            }
            name if delivery::DIRECTIVES.contains(&name) || forward_auth::DIRECTIVES.contains(&name) => {}
            name if access::DIRECTIVES.contains(&name) => {}
            "client_max_body_size" => body_limit(directive, "body_bytes", section, account),
            "autoindex" => account.translated(directive, section),
            "keepalive_timeout" | "client_header_timeout" => {
                account.problem(directive, section, "this limit applies to all sites: see [limits]");
            }
            name if INHERITED_BY_HANDLERS.contains(&name) || is_of_cache(name) => {}
            _ => common(directive, section, account),
        }
    }
}

/// The server's directives and those of the enclosing blocks that apply to each server, except time limits,
/// which are keys of `[limits]`.
fn of_server(site: &Site<'_>) -> Vec<Directive> {
    let names = delivery::DIRECTIVES.iter().filter(|name| !name.ends_with("_timeout"));
    let around = names.flat_map(|name| site.scope.all(name)).cloned();
    let own = site.server.inside().iter().filter(|directive| directive.name.ends_with("_timeout")).cloned();
    around.chain(own).collect()
}
