//! The logins of a site and its routes, and the paths that the logins answer.

use std::sync::Arc;

use touchstone_config::{LoginConfig, RouteConfig, SiteConfig, route_name};
use touchstone_http::cookie;
use touchstone_http::request_view::RequestView;
use touchstone_login::{Endpoint, Login, is_own_cookie};

use crate::services::ServerShared;

/// The logins of a site.
pub struct Logins {
    of_site: Option<Arc<Login>>,
    of_routes: Box<[Option<Arc<Login>>]>,
    /// All logins, each once.
    all: Vec<Arc<Login>>,
}

impl Logins {
    /// Opens the logins of a site; `None`: it has none. The errors name the route.
    pub fn open(site: &SiteConfig, shared: &ServerShared) -> Result<Option<Logins>, Vec<String>> {
        let services = &shared.services;
        let open =
            |config: &LoginConfig| Login::open(config, &shared.access, &services.logins, &services.counts);
        let of_site = match &site.access.login {
            Some(config) => open(config).map_err(|problem| vec![problem])?,
            None => None,
        };
        let open_route = |route: &RouteConfig| match &route.access.login {
            Some(config) => open(config)
                .map_err(|problem| vec![format!("route {}: {problem}", route_name(&site.routes, route))]),
            None => Ok(of_site.clone()),
        };
        let of_routes: Box<[_]> = site.routes.iter().map(open_route).collect::<Result<_, _>>()?;
        let mut all: Vec<Arc<Login>> = Vec::new();
        for login in of_site.iter().chain(of_routes.iter().flatten()) {
            if !all.iter().any(|other| Arc::ptr_eq(other, login)) {
                all.push(login.clone());
            }
        }
        if let Some(problem) = shared_path(site) {
            return Err(vec![problem]);
        }
        Ok((!all.is_empty()).then_some(Logins { of_site, of_routes, all }))
    }

    /// The login of a route, by the route's position, or that of the site.
    #[inline]
    pub fn of(&self, route: Option<usize>) -> Option<&Arc<Login>> {
        match route {
            Some(route) => self.of_routes.get(route)?.as_ref(),
            None => self.of_site.as_ref(),
        }
    }

    /// The login that answers a path.
    pub fn endpoint(&self, path: &[u8]) -> Option<(&Arc<Login>, Endpoint)> {
        self.all.iter().find_map(|login| Some((login, login.endpoint(path)?)))
    }

    /// The logins whose back channel uses a path, one for each client.
    pub fn of_back_channel(&self, path: &[u8]) -> Vec<&Login> {
        let mut logins: Vec<&Login> = Vec::new();
        for login in self.all.iter().filter(|login| login.endpoint(path) == Some(Endpoint::BackChannel)) {
            if !logins.iter().any(|other| other.is_same_client(login)) {
                logins.push(login);
            }
        }
        logins
    }

    /// Whether the exchange must process a request, whatever its route is: its path is one of a login, or it
    /// has cookies that programs and origins must not get.
    pub fn concerns(&self, request: &RequestView<'_>) -> bool {
        self.endpoint(request.path).is_some()
            || request.values(b"cookie").any(|field| cookie::has(field, is_own_cookie))
    }
}

/// A conflict between the logins of a site: two providers or clients with the same path, or one client with
/// two files of keys.
pub fn shared_path(site: &SiteConfig) -> Option<String> {
    let configs = || {
        let of_routes = site.routes.iter().filter_map(|route| route.access.login.as_ref());
        site.access.login.iter().chain(of_routes).filter(|login| !login.issuer.is_empty())
    };
    for (position, login) in configs().enumerate() {
        let is_other = |other: &&touchstone_config::LoginConfig| {
            (&other.issuer, &other.client_id) != (&login.issuer, &login.client_id)
        };
        // Logins of the same client share cookies; the first of them processes the callbacks of all.
        let has_other_keys = |other: &&touchstone_config::LoginConfig| other.key_file != login.key_file;
        if let Some(other) = configs().take(position).filter(|other| !is_other(other)).find(has_other_keys) {
            let named = |login: &touchstone_config::LoginConfig| match &login.key_file {
                Some(path) => format!("'{}'", path.display()),
                None => "none".to_string(),
            };
            return Some(format!(
                "'login': 'key_file' is {} and {} for the same client ({} at {}), whose logins share \
                 cookies; give all of them the same file",
                named(other),
                named(login),
                login.client_id,
                login.issuer
            ));
        }
        for other in configs().take(position).filter(is_other) {
            for (key, path) in login.paths() {
                if other.paths().any(|(_, taken)| taken == path) {
                    return Some(format!(
                        "'login': '{key}' is {path:?} for two clients of providers ({} and {}); give each a \
                         path of its own",
                        other.issuer, login.issuer
                    ));
                }
            }
        }
    }
    None
}
