//! Checks that sites and routes which serve files have a directory of files.
//!
//! A site without `root` is complete if the handlers of its routes answer without files. Other paths are
//! answered with 404.

use super::config_reader::ConfigReader;
use super::unreached::answers_all_of_its_path;
use super::{ConfigWithPlaces, RouteConfig, SectionPlaces};

impl ConfigReader<'_> {
    /// Checks all sites.
    pub(super) fn check_roots(&mut self, loaded: &ConfigWithPlaces) {
        let sites = loaded.config.sites.iter().zip(&loaded.places.sites);
        for (site, places) in sites.filter(|(site, _)| site.root.is_none()) {
            if places.is_unread("root") {
                continue;
            }
            // Faulty routes are reported elsewhere.
            if site.routes.is_empty() && !places.keys.contains_key("route") {
                let message = "[[site]] needs 'root', such as root = \"www\", or a [[site.route]] whose \
                               handler answers without files, such as 'proxy'";
                self.problem(places.header, message.to_string());
                continue;
            }
            for (key, is_set) in
                [("fallback", !site.fallback.is_empty()), ("error_pages", !site.error_pages.is_empty())]
            {
                if is_set {
                    let message = format!("'{key}' names files below 'root', which the site does not have");
                    self.problem(places.key(key), message);
                }
            }
            for (index, route) in site.routes.iter().enumerate() {
                self.check_root_of_route(route, places.table("route", index), places);
                if answers_everything(route) {
                    // No request reaches those after it.
                    break;
                }
            }
        }
    }

    fn check_root_of_route(
        &mut self,
        route: &RouteConfig,
        places: Option<&SectionPlaces>,
        of_site: &SectionPlaces,
    ) {
        // A handler whose keys are wrong is reported already.
        let Some(need) = need(route).filter(|_| places.is_none_or(|places| places.unread.is_empty())) else {
            return;
        };
        let header = places.map_or_else(|| of_site.key("route"), |places| places.header);
        let (place, message) = match need {
            Need::Key(key) => (
                places.map_or(header, |places| places.key_below(key)),
                format!("'{key}' needs files, but neither the route nor its site has 'root'"),
            ),
            Need::NoHandler => (
                header,
                "[[site.route]] has no handler, so it serves files, but neither the route nor its site has \
                 'root'; add 'root', or a handler such as 'proxy' or 'respond'"
                    .to_string(),
            ),
        };
        self.problem(place, message);
    }
}

/// Why a route needs a directory of files.
enum Need {
    /// What this key says needs it.
    Key(&'static str),
    /// It has no other handler.
    NoHandler,
}

fn need(route: &RouteConfig) -> Option<Need> {
    if route.root.is_some() || route.alias.is_some() {
        return None;
    }
    let programs = [
        ("fastcgi", &route.fastcgi),
        ("scgi", &route.scgi),
        ("uwsgi", &route.uwsgi),
        ("php", &route.php),
        ("ajp", &route.ajp),
    ];
    let runs_scripts = |(_, programs): &(&str, &Option<_>)| {
        programs.as_ref().is_some_and(|programs: &super::ProgramsConfig| !programs.scripts.is_empty())
    };
    let runs_files = |cgi: &super::CgiConfig| cgi.program.is_none() && cgi.directory.is_none();
    let is_answered = route.redirect.is_some() || route.rewrite.is_some() || route.respond.is_some();
    let needs = [
        ("try_files", !route.try_files.is_empty()),
        ("fallback", !matches!(route.fallback.as_str(), "" | super::routes::config::NO_FALLBACK)),
        ("error_pages", !route.error_pages.is_empty()),
        ("cgi", route.cgi.as_ref().is_some_and(runs_files)),
        ("nsapi", route.nsapi.is_some()),
        ("webdav", route.webdav.is_some()),
    ];
    let of_program = programs.iter().copied().find(runs_scripts).map(|(key, _)| key);
    let key = needs.iter().find_map(|(key, is_set)| is_set.then_some(*key)).or(of_program);
    if let Some(key) = key {
        return Some(Need::Key(key));
    }
    (!is_answered && !route.has_program() && !refuses_everyone(route)).then_some(Need::NoHandler)
}

fn answers_everything(route: &RouteConfig) -> bool {
    matches!(route.path.as_str(), "" | "/") && answers_all_of_its_path(route)
}

/// Whether no client gets an answer from the route.
fn refuses_everyone(route: &RouteConfig) -> bool {
    let access = &route.access;
    let is_denied = |all: &str| access.deny.iter().any(|network| network.to_string() == all);
    access.allow.is_empty() && access.satisfy.is_none() && is_denied("0.0.0.0/0") && is_denied("::/0")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::parse;

    fn problems(text: &str) -> Vec<String> {
        let text = format!("[[site]]\nlisten = ['127.0.0.1:80']\n{text}");
        let found = parse(&text, Path::new("site.toml")).err().unwrap_or_default();
        found.iter().map(ToString::to_string).collect()
    }

    fn route(keys: &str) -> Vec<String> {
        problems(&format!("[[site.route]]\n{keys}"))
    }

    #[test]
    fn handlers_without_files_need_no_root() {
        for keys in [
            "proxy = { to = 'http://127.0.0.1:1' }",
            "path = '/a/'\nproxy = { to = 'http://127.0.0.1:1' }",
            "redirect = { to = 'https://$host$path' }",
            "respond = { status = 403 }",
            "uwsgi = { backends = ['127.0.0.1:1'] }",
            "scgi = { backends = ['127.0.0.1:1'] }",
            "ajp = { backends = ['127.0.0.1:1'] }",
            "cgi = { program = '/usr/lib/cgit.cgi' }",
            "cgi = { directory = '/usr/lib/cgi-bin' }\npath = '/cgi-bin/'",
            "servlet = { app = 'a.war' }",
            "wasm = { component = 'a.wasm' }",
            "python = { app = 'a:b' }",
            "root = 'www'",
            "path = '/a/'\nalias = 'www'",
            "root = 'www'\nphp = '127.0.0.1:1'",
            "deny = ['0.0.0.0/0', '::/0', 'unix:']",
            "path = '/'\nrespond = { status = 404 }\n[[site.route]]\npath = '/never/'",
        ] {
            assert_eq!(route(keys), [""; 0], "{keys}");
        }
        assert_eq!(problems("root = ''\n[[site.route]]\nrespond = { status = 404 }"), [""; 0]);
    }

    #[test]
    fn files_need_a_root() {
        let no_root = "needs files, but neither the route nor its site has 'root'";
        for (keys, expected) in [
            (
                "path = '/a/'",
                "3:1: [[site.route]] has no handler, so it serves files, but neither the route nor its site \
                 has 'root'; add 'root', or a handler such as 'proxy' or 'respond'"
                    .to_string(),
            ),
            ("php = '127.0.0.1:1'", format!("4:7: 'php' {no_root}")),
            ("cgi = {}", format!("4:7: 'cgi' {no_root}")),
            ("nsapi = { directives = ['A'] }", format!("4:9: 'nsapi' {no_root}")),
            ("webdav = {}", format!("4:10: 'webdav' {no_root}")),
            (
                "try_files = ['$path']\nproxy = { to = 'http://127.0.0.1:1' }",
                format!("4:13: 'try_files' {no_root}"),
            ),
            (
                "error_pages = { 502 = '/502.html' }\nproxy = { to = 'http://127.0.0.1:1' }",
                format!("4:15: 'error_pages' {no_root}"),
            ),
            (
                "deny = ['0.0.0.0/0', '::/0']\nallow = ['10.0.0.0/8']",
                "3:1: [[site.route]] has no handler, so it serves files, but neither the route nor its site \
                 has 'root'; add 'root', or a handler such as 'proxy' or 'respond'"
                    .to_string(),
            ),
        ] {
            assert_eq!(route(keys), [format!("site.toml:{expected}")], "{keys}");
        }
        assert_eq!(
            problems("fallback = '/index.html'\n[[site.route]]\nrespond = { status = 404 }"),
            ["site.toml:3:12: 'fallback' names files below 'root', which the site does not have"]
        );
        assert_eq!(
            problems(""),
            ["site.toml:1:1: [[site]] needs 'root', such as root = \"www\", or a [[site.route]] whose \
              handler answers without files, such as 'proxy'"]
        );
    }
}
