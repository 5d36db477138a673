//! Checks routes with `webdav` as parts of their sites: the clients that may write must be restricted.

use super::access::PasswordSource;
use super::config_reader::ConfigReader;
use super::jwt::TokenKeys;
use super::{ClientCertificateMode, ConfigWithPlaces, RouteConfig, SiteConfig};

impl ConfigReader<'_> {
    /// Checks the routes of all sites.
    pub(super) fn check_webdav(&mut self, loaded: &ConfigWithPlaces) {
        for (site, places) in loaded.config.sites.iter().zip(&loaded.places.sites) {
            for (index, route) in site.routes.iter().enumerate() {
                for (key, message) in problems(route, site) {
                    let within = places.table("route", index);
                    let place = within.map(|within| within.key_below(&format!("webdav.{key}")));
                    self.problem(place.unwrap_or_else(|| places.key("route")), message);
                }
            }
        }
    }
}

/// What is wrong with a route as a part of its site, with the keys of `webdav`.
fn problems(route: &RouteConfig, site: &SiteConfig) -> Vec<(&'static str, String)> {
    let Some(webdav) = &route.webdav else { return Vec::new() };
    let mut problems = Vec::new();
    if let (false, Some(method)) = (webdav.write, webdav.methods.iter().find(|method| method.writes())) {
        let message = format!("'methods': {} changes files, which needs 'write = true'", method.name());
        problems.push(("methods", message));
    }
    if webdav.write && !webdav.open && !is_guarded(route, site) {
        let message = "'write': every client could change files: the route and its site have none of \
                       'basic_authentication', 'jwt', 'login', 'forward_auth', 'signed_link', 'allow' and \
                       required client certificates; 'open = true' of 'webdav' allows it";
        problems.push(("write", message.to_string()));
    }
    problems
}

/// Whether a key of the route or its site restricts the clients that are admitted.
fn is_guarded(route: &RouteConfig, site: &SiteConfig) -> bool {
    let (own, other) = (&route.access, &site.access);
    let basic = own.basic_authentication.as_ref().or(other.basic_authentication.as_ref());
    let token = own.jwt.as_ref().or(other.jwt.as_ref());
    let login = own.login.as_ref().or(other.login.as_ref());
    let link = own.signed_link.as_ref().or(other.signed_link.as_ref());
    let authority = own.forward_auth.as_ref().or(other.forward_auth.as_ref());
    !own.allow.is_empty()
        || !other.allow.is_empty()
        || basic.is_some_and(|basic| basic.file != PasswordSource::Off)
        || token.is_some_and(|token| token.keys != TokenKeys::Off)
        || login.is_some_and(|login| !login.issuer.is_empty())
        || link.is_some_and(|link| link.secret_file.is_some())
        || authority.is_some_and(|authority| authority.url.is_some())
        || site.tls.client_authorities.is_some()
            && site.tls.client_certificate == ClientCertificateMode::Required
}
