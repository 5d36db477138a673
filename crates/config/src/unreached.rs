//! Routes that no request reaches, because an earlier route of their site answers all of their requests.
//!
//! This is a mistake of order. It matters most for a route that refuses clients: what it forbids is allowed.

use super::{Config, ConfigPlaces, ConfigProblem, RouteConfig};

/// A notice for each route that is never reached.
pub fn unreached_routes(config: &Config, places: &ConfigPlaces) -> Vec<ConfigProblem> {
    let mut notices = Vec::new();
    for (site, of_site) in config.sites.iter().zip(&places.sites) {
        for (index, route) in site.routes.iter().enumerate() {
            let Some(earlier) = site.routes[..index].iter().position(|earlier| takes_all(earlier, route))
            else {
                continue;
            };
            let header = |index| of_site.table("route", index).map(|places| places.header);
            let line = header(earlier).map_or(String::new(), |place| format!(" in line {}", place.line));
            let message = format!(
                "no request reaches this route: the earlier route{line} answers all of its requests; put \
                 this route before it"
            );
            notices.push(places.problem(header(index), message));
        }
    }
    notices
}

/// Whether the earlier route answers all requests of the later one.
fn takes_all(earlier: &RouteConfig, later: &RouteConfig) -> bool {
    answers_all_of_its_path(earlier)
        && match earlier.path.as_str() {
            "" | "/" => true,
            path if path.contains('*') || !path.ends_with('/') => false,
            path => later.path.starts_with(path),
        }
}

/// Whether a route has no condition besides its path, and answers itself.
pub(crate) fn answers_all_of_its_path(route: &RouteConfig) -> bool {
    route.pattern.is_empty()
        && route.suffixes.is_empty()
        && route.methods.is_empty()
        && route.request_headers.is_empty()
        && route.when.is_none()
        && route.rewrite.is_none()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::unreached_routes;
    use crate::load_text;

    fn lines(routes: &[&str]) -> Vec<usize> {
        let routes: String = routes.iter().map(|keys| format!("[[site.route]]\n{keys}\n")).collect();
        let text = format!("[[site]]\nlisten = ['127.0.0.1:80']\nroot = 'www'\n{routes}");
        let loaded = load_text(&text, Path::new("site.toml")).unwrap();
        unreached_routes(&loaded.config, &loaded.places).iter().map(|notice| notice.line).collect()
    }

    #[test]
    fn a_route_after_one_for_all_of_its_requests() {
        let all = "path = '/'\nproxy = { to = 'http://127.0.0.1:1' }";
        let admin = "path = '/admin/'\ndeny = ['0.0.0.0/0']";
        assert_eq!(lines(&[all, admin]), [7]);
        assert_eq!(lines(&[admin, all]), [0; 0]);
        assert_eq!(lines(&["path = '/a/'\nrespond = { status = 403 }", "path = '/a/b*'"]), [7]);
        assert_eq!(lines(&["respond = { status = 404 }", "pattern = '/a'", "suffixes = ['.php']"]), [6, 8]);
    }

    #[test]
    fn a_route_after_one_for_some_requests() {
        let later = "path = '/a/b/'";
        for earlier in [
            "path = '/a/'\nmethods = ['GET']",
            "path = '/a/'\nsuffixes = ['.html']",
            "path = '/a/'\nwhen = '$host == \"a\"'",
            "path = '/a/'\nrequest_headers = { Upgrade = '*' }",
            "path = '/a/'\nrewrite = { to = '/a/b/$1' }",
            "path = '/a'",
            "path = '/a/*.html'",
            "pattern = '/a/.*'",
            "path = '/a/b/c/'",
        ] {
            assert_eq!(lines(&[earlier, later]), [0; 0], "{earlier}");
        }
    }

    #[test]
    fn the_notice_names_both_places() {
        let text = "[[site]]\nlisten = ['127.0.0.1:80']\nroot = 'www'\n[[site.route]]\npath = '/a/'\n\
                    [[site.route]]\npath = '/a/b'\n";
        let loaded = load_text(text, Path::new("site.toml")).unwrap();
        let notices = unreached_routes(&loaded.config, &loaded.places);
        assert_eq!(
            notices[0].to_string(),
            "site.toml:6:1: no request reaches this route: the earlier route in line 4 answers all of its \
             requests; put this route before it"
        );
    }
}
