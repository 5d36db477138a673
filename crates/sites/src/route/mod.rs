//! A site's routes and access rules together: applied before a handler answers.
//!
//! ```text
//! request -> at_once: no rule applies, a file of the site -> the cache
//!         -> resolve: routes, after each rewrite again from the first -> gates -> outcome
//! ```

use std::sync::Arc;

use bytes::Bytes;
use rustc_hash::FxHashSet;
use touchstone_accelerator::layer::CachedRoute;
use touchstone_access::{AdmittedRequest, Gate, GeoIp};
use touchstone_config::routes::{Action, AnswerFields, RewrittenTarget, Route, Routes};
use touchstone_config::{RespondConfig, SiteConfig, route_name, site_name};
use touchstone_crawlers::Crawlers;
use touchstone_expression::{AvailableFrom, Scope};
use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::handler::Interface;
use touchstone_http::path::PathRules;
use touchstone_http::request_view::RequestView;
use touchstone_login::Login;
use touchstone_proxy::{GroupName, OriginGroups};

use crate::answer_policy::{self, AnswerPolicy};
use crate::crawlers::SiteCrawlers;
use crate::delivery::{Deliveries, Delivery};
use crate::forward_auth::ForwardAuth;
use crate::interface::{self, RouteInterface};
use crate::login::Logins;
use crate::services::ServerShared;

/// The most rewrites of a request.
const MOST_REWRITES: usize = 10;

/// The rules of a site.
pub struct SiteRules {
    gate: Option<Arc<Gate>>,
    routes: Option<Routes>,
    /// The gate of each route.
    route_gates: Box<[Option<Arc<Gate>>]>,
    /// The program of each route.
    route_interfaces: Box<[RouteInterface]>,
    /// The prefixes of the paths of programs and of other directories, without the slash.
    prefixes: FxHashSet<Box<[u8]>>,
    /// Which routes have no other effect than their program, see [`SiteRules::immediate_program`].
    is_immediate: Box<[bool]>,
    has_immediate_programs: bool,
    has_called_programs: bool,
    /// The server that decides which requests pass.
    authority: Option<Arc<ForwardAuth>>,
    /// The same of each route.
    route_authorities: Box<[Option<Arc<ForwardAuth>>]>,
    /// The site or a route has a login.
    logins: Option<Logins>,
    /// The site or a route has rules on bots and other visitors.
    crawlers: Option<SiteCrawlers>,
    /// The fields of answers for browsers.
    policy: Option<Arc<AnswerPolicy>>,
    /// The same of each route.
    route_policies: Box<[Option<Arc<AnswerPolicy>>]>,
    has_cors: bool,
    has_nonces: bool,
    /// Programs and origins receive the places of clients.
    geoip: Option<Arc<GeoIp>>,
    /// Errors of programs and origins get pages of the site.
    intercepts_errors: bool,
    /// How answers are delivered, if the configuration has such keys.
    deliveries: Option<Deliveries>,
    /// Fields of every answer whose values contain variables.
    fields: Option<AnswerFields>,
    /// A route needs facts about the connection.
    needs_connection: bool,
}

/// Whether a request can be answered from the cache at once.
pub enum CacheAdmission {
    /// It can, and was counted for rate limits; with the route that matches it, if there is one.
    Serve(AdmittedRequest, Option<usize>),
    /// [`SiteRules::resolve`] decides; the request is not counted yet.
    Resolve,
}

/// A route whose program may answer a request at once.
pub struct ImmediateProgram<'r> {
    /// The route.
    pub route: usize,
    /// Its program.
    pub interface: &'r Arc<dyn Interface>,
    /// The cache before it.
    pub cache: Option<&'r CachedRoute>,
    /// The fields for browsers, in addition to those of the program.
    pub policy: Option<&'r AnswerPolicy>,
    gate: Option<&'r Gate>,
}

impl ImmediateProgram<'_> {
    /// Admits the request if it need not wait and no rule refuses it, and counts it.
    pub fn admit(&self, request: &RequestView<'_>) -> Option<AdmittedRequest> {
        match self.gate {
            None => Some(AdmittedRequest::default()),
            // The program must receive fields that differ from those of the client.
            Some(gate) if gate.makes_fields() => None,
            Some(gate) => gate.admit_without_wait(request),
        }
    }
}

/// An authority or a login of a request.
pub struct RequiredCheck<'r, T> {
    /// The authority or login.
    pub rule: &'r Arc<T>,
    /// The gate whose clients need not be known if their address is admitted (`satisfy = "any"`).
    gate: Option<&'r Gate>,
}

impl<'r, T> RequiredCheck<'r, T> {
    /// Adds the rule of a route with this gate. A client is excused from a rule of several routes only if all
    /// of them have the same gate.
    fn add(list: &mut Vec<RequiredCheck<'r, T>>, rule: Option<&'r Arc<T>>, gate: Option<&'r Gate>) {
        let gate = gate.filter(|gate| gate.may_excuse());
        let Some(rule) = rule else { return };
        match list.iter_mut().find(|other| Arc::ptr_eq(other.rule, rule)) {
            Some(other) => {
                let is_same = matches!((other.gate, gate), (Some(one), Some(two)) if std::ptr::eq(one, two));
                other.gate = other.gate.filter(|_| is_same);
            }
            None => list.push(RequiredCheck { rule, gate }),
        }
    }

    /// Whether the address of the client is enough.
    pub fn is_excused(&self, request: &RequestView<'_>) -> bool {
        self.gate.is_some_and(|gate| gate.excuses(request))
    }
}

/// The decisions of the routes for a request.
pub struct RouteDecision<'r> {
    /// The gates that it must pass before the outcome applies, see [`pass`](touchstone_access::pass).
    pub gates: Vec<&'r Gate>,
    /// The servers that must allow it, each once.
    pub authorities: Vec<RequiredCheck<'r, ForwardAuth>>,
    /// The logins of which it must have a session, each once.
    pub logins: Vec<RequiredCheck<'r, Login>>,
    /// The rules on bots and other visitors, each once.
    pub crawlers: Vec<&'r Arc<Crawlers>>,
    /// The path and query that replace those of the request.
    pub rewritten: Option<RewrittenTarget>,
    /// The outcome.
    pub outcome: Outcome<'r>,
    /// Fields for any answer, to be applied in this order, each with the matches of its route's pattern, if
    /// it uses them.
    pub fields: Vec<(&'r AnswerFields, Vec<Bytes>)>,
    /// The last route that matched.
    pub route: Option<&'r Route>,
    /// The fields for browsers.
    pub policy: Option<&'r AnswerPolicy>,
}

/// The outcome of a request.
pub enum Outcome<'r> {
    /// A file answers it.
    Files {
        /// The directory, if it is not the site's: a position in [`SiteRules::roots`].
        root: Option<usize>,
    },
    /// The client is redirected.
    Redirect {
        /// The status.
        status: u16,
        /// The value of `Location`.
        location: Vec<u8>,
    },
    /// It gets this answer.
    Respond(&'r RespondConfig),
    /// A program answers it.
    Handler(Arc<dyn Interface>),
    /// It fails: 400 if the request is wrong, 500 if the routes are.
    Failed {
        /// The status.
        status: u16,
        /// For the error log.
        reason: &'static str,
    },
}

impl Outcome<'_> {
    /// The path can be read as a path of another route by other programs.
    pub const AMBIGUOUS: Outcome<'static> = Outcome::Failed {
        status: 400,
        reason: "a path can be read in two ways (an escaped slash, a backslash or a semicolon in it), \
                 and different routes match these",
    };

    /// The answer; `None`: a file or a program answers.
    pub fn answer(&self) -> Option<Answer> {
        match self {
            Outcome::Files { .. } | Outcome::Handler(_) => None,
            Outcome::Redirect { status, location } => Some(Answer::redirect(*status, location)),
            Outcome::Failed { status, .. } => Some(Answer::error(*status)),
            Outcome::Respond(respond) => Some(match (respond.status, respond.body.as_str()) {
                (status @ 400.., "") => Answer::error(status),
                (status, "") => Answer::new(status),
                (status, body) => Answer::new(status)
                    .field("Content-Type", &respond.content_type)
                    .part(BodyPart::Bytes(body.as_bytes().to_vec().into())),
            }),
        }
    }
}

impl<'r> RouteDecision<'r> {
    /// The route, if its files are tried before its outcome applies.
    pub fn tries_files(&self) -> Option<&'r Route> {
        let may_be_file = matches!(self.outcome, Outcome::Handler(_) | Outcome::Files { .. });
        self.route.filter(|route| may_be_file && !route.try_files.is_empty())
    }
}

impl SiteRules {
    /// Compiles the rules of a site; `None` if it has none. The error lists every problem.
    pub fn open(config: &SiteConfig, shared: &ServerShared) -> Result<Option<SiteRules>, Vec<String>> {
        // The scope stays the same over reloads, so that the counts of rate limits are kept.
        let name = (&config.hosts, &config.listen);
        let access = &shared.access;
        let gate = Gate::open(&config.access, &name, access)?;
        let routes = match config.routes.as_slice() {
            [] => None,
            routes => Some(Routes::compile(routes).map_err(|problem| vec![problem.to_string()])?),
        };
        let open = |(index, route): (usize, &touchstone_config::RouteConfig)| {
            let any = route.access.any_of(Some(&config.access));
            Gate::open_below(gate.as_ref(), (&route.access, any), &(&name, index), access)
        };
        let route_gates = config.routes.iter().enumerate().map(open).collect::<Result<_, _>>()?;
        let open = |(index, route)| {
            interface::open(route, config, shared)
                .map_err(|problem| vec![format!("route {}: {problem}", index + 1)])
        };
        let route_interfaces: Box<[_]> =
            config.routes.iter().enumerate().map(open).collect::<Result<_, _>>()?;
        let (authority, route_authorities) = open_authorities(config, &shared.services.origins)?;
        let logins = Logins::open(config, shared)?;
        let crawlers = SiteCrawlers::open(config, shared)?;
        let policy = AnswerPolicy::open(config, config.security_fields.as_ref(), config.cors.as_ref());
        let open = |route: &touchstone_config::RouteConfig| match (&route.security_fields, &route.cors) {
            (None, None) => policy.clone(),
            (security, cors) => AnswerPolicy::open(
                config,
                security.as_ref().or(config.security_fields.as_ref()),
                cors.as_ref().or(config.cors.as_ref()),
            ),
        };
        let route_policies: Box<[_]> = config.routes.iter().map(open).collect();
        let policies = || policy.iter().chain(route_policies.iter().flatten());
        let has_cors = policies().any(|policy| policy.has_cors());
        let has_nonces = policies().any(|policy| policy.has_nonce());
        let deliveries = Deliveries::open(config).map_err(|problem| vec![problem])?;
        let scope = Scope {
            known: AvailableFrom::Head,
            maps: config.maps.as_ref().map(|maps| maps as _),
            captures: &[],
        };
        let fields = AnswerFields::with_variables(&config.headers, scope)
            .map_err(|problem| vec![format!("'headers': {problem}")])?;
        let is_empty = gate.is_none()
            && fields.is_none()
            && routes.is_none()
            && policy.is_none()
            && authority.is_none()
            && logins.is_none()
            && crawlers.is_none()
            && deliveries.is_none();
        let needs_connection = routes.iter().flat_map(Routes::iter).any(Route::needs_connection);
        let any = |of: fn(&dyn Interface) -> bool| {
            let mut interfaces =
                route_interfaces.iter().filter_map(|route: &RouteInterface| route.interface.as_ref());
            interfaces.any(|interface| of(&**interface))
        };
        let prefixes = routes.iter().flat_map(Routes::iter).filter_map(|route| {
            let is_programs = route_interfaces.get(route.index)?.interface.is_some();
            route.prefix().filter(|_| is_programs || route.is_alias).map(Box::from)
        });
        let prefixes = prefixes.collect();
        let has_immediate_programs = any(|interface| interface.answers_at_once());
        let has_called_programs = any(|interface| interface.is_called());
        let mut rules = SiteRules {
            gate,
            routes,
            route_gates,
            route_interfaces,
            prefixes,
            is_immediate: Box::default(),
            has_immediate_programs,
            has_called_programs,
            authority,
            route_authorities,
            logins,
            crawlers,
            policy,
            route_policies,
            has_cors,
            has_nonces,
            geoip: access.geoip_for_programs(),
            intercepts_errors: config.intercept_errors && !config.error_pages.is_empty(),
            deliveries,
            fields,
            needs_connection,
        };
        let routes = rules.routes.iter().flat_map(Routes::iter);
        rules.is_immediate = routes.map(|route| rules.has_program_only(route)).collect();
        Ok((!is_empty).then_some(rules))
    }

    /// The routes that have the cache.
    pub fn caches(&self) -> impl Iterator<Item = &CachedRoute> {
        self.route_interfaces.iter().filter_map(|route| route.cache.as_ref())
    }

    /// The programs that start work before the first request.
    pub fn early(&self) -> impl Iterator<Item = &Arc<dyn Interface>> {
        let interfaces =
            self.route_interfaces.iter().flat_map(|route| route.interface.iter().chain(&route.middleware));
        interfaces.filter(|interface| interface.begins_early())
    }

    /// Whether these rules need the addresses of clients.
    pub fn needs_peers(&self) -> bool {
        let has_authority = self.authority.is_some() || self.route_authorities.iter().any(Option::is_some);
        let tells_programs = self
            .route_interfaces
            .iter()
            .any(|route| route.interface.is_some() || !route.middleware.is_empty());
        let uses_variables =
            self.fields.is_some() || self.routes.iter().flat_map(Routes::iter).any(Route::uses_variables);
        self.gate.is_some()
            || self.logins.is_some()
            || self.crawlers.is_some()
            || has_authority
            || tells_programs
            || uses_variables
            || self.route_gates.iter().any(Option::is_some)
    }

    /// Whether a GET of a cached file may be answered from the cache.
    #[inline]
    pub fn admit_cached_file(&self, request: &RequestView<'_>) -> CacheAdmission {
        if self.needs_exchange(request) {
            return CacheAdmission::Resolve;
        }
        let route = self.routes.as_ref().and_then(|routes| routes.find(request));
        let is_for_files = |route: &Route| {
            route.is_plain()
                && self.middleware_at(route.index).is_empty()
                && match route.try_files.is_empty() {
                    true => self.interface_of(route).is_none(),
                    false => route.tries_path_first(request.path),
                }
        };
        if !route.is_none_or(is_for_files) {
            return CacheAdmission::Resolve;
        }
        // The fields of the site are part of a cached file; those of a route are not.
        let policy = self.policy_of(route);
        let is_of_site = match (policy, self.policy.as_deref()) {
            (Some(one), Some(other)) => std::ptr::eq(one, other) && one.is_common_for(request),
            (one, other) => one.is_none() && other.is_none(),
        };
        let index = route.map(|route| route.index);
        let is_asked = self.authority_of(route).is_some()
            || self.login_of(route).is_some()
            || self.crawlers_of(route).is_some();
        if !is_of_site || is_asked || self.delivery_at(index).is_some() {
            return CacheAdmission::Resolve;
        }
        let admitted = match self.gate_of(route) {
            None => Some(AdmittedRequest::default()),
            Some(gate) => gate.admit_without_wait(request),
        };
        admitted.map_or(CacheAdmission::Resolve, |admitted| CacheAdmission::Serve(admitted, index))
    }

    /// Whether the routes or fields need facts that only the exchange has.
    #[inline]
    fn needs_exchange(&self, request: &RequestView<'_>) -> bool {
        self.fields.is_some()
            || self.needs_connection && request.connection.is_none()
            || self.logins.as_ref().is_some_and(|logins| logins.concerns(request))
            || self.crawlers.as_ref().is_some_and(|crawlers| crawlers.concerns(request))
    }

    /// Fields of every answer whose values have variables.
    pub fn fields(&self) -> Option<&AnswerFields> {
        self.fields.as_ref()
    }

    /// Whether there is a program that may answer at once.
    pub fn has_immediate_programs(&self) -> bool {
        self.has_immediate_programs
    }

    /// Whether there is a program that may be called on a thread for calls.
    pub fn has_called_programs(&self) -> bool {
        self.has_called_programs
    }

    /// The program that answers a request, if the routes have no other effect on it.
    #[inline]
    pub fn immediate_program(&self, request: &RequestView<'_>) -> Option<ImmediateProgram<'_>> {
        if self.needs_exchange(request) {
            return None;
        }
        let route = self.routes.as_ref()?.find(request)?;
        let policy = self.policy_of(Some(route));
        let is_common = policy.is_none_or(|policy| policy.is_common_for(request));
        if !is_common || !*self.is_immediate.get(route.index)? {
            return None;
        }
        let RouteInterface { interface, cache, .. } = self.route_interfaces.get(route.index)?;
        Some(ImmediateProgram {
            route: route.index,
            interface: interface.as_ref()?,
            cache: cache.as_ref(),
            policy,
            gate: self.gate_of(Some(route)),
        })
    }

    /// Whether a route has no other effect on requests than its program, its gate and the common fields for
    /// browsers. [`SiteRules::resolve`] finds the other effects.
    fn has_program_only(&self, route: &Route) -> bool {
        let Some(of_route) = self.route_interfaces.get(route.index) else { return false };
        let RouteInterface { cache, middleware, is_traced, .. } = of_route;
        matches!(route.action, Action::Files)
            && route.fields.is_empty()
            && route.early_hints.is_empty()
            && route.includes.is_none()
            && route.try_files.is_empty()
            && middleware.is_empty()
            && !is_traced
            && !cache.as_ref().is_some_and(|cache| cache.policy.has_variables())
            && self.geoip.is_none()
            && self.authority_of(Some(route)).is_none()
            && self.login_of(Some(route)).is_none()
            && self.crawlers_of(Some(route)).is_none()
            && self.policy_of(Some(route)).is_none_or(|policy| !policy.has_nonce())
            && !route.has_error_pages
            && !self.intercepts_errors
            && self.delivery_at(Some(route.index)).is_none()
    }

    /// Applies the routes, and again after each rewrite. A route that has rewritten a request is skipped
    /// afterwards, so that its target may match the route itself.
    pub fn resolve(&self, request: &RequestView<'_>) -> RouteDecision<'_> {
        let mut resolved = RouteDecision {
            gates: Vec::new(),
            authorities: Vec::new(),
            logins: Vec::new(),
            crawlers: Vec::new(),
            rewritten: None,
            outcome: Outcome::Files { root: None },
            fields: Vec::new(),
            route: None,
            policy: self.policy.as_deref(),
        };
        resolved.outcome = self.follow(request, &mut resolved);
        resolved
    }

    /// Follows the routes to an outcome, and notes in `resolved` what else they do.
    fn follow<'r>(&'r self, request: &RequestView<'_>, resolved: &mut RouteDecision<'r>) -> Outcome<'r> {
        let mut used = Vec::new();
        let mut root = None;
        loop {
            let now = match &resolved.rewritten {
                None => *request,
                Some(new) => RequestView { path: &new.path, query: new.query.as_deref(), ..*request },
            };
            let routes = self.routes.as_ref();
            let is_used = |index| used.contains(&index);
            let route = routes.and_then(|routes| routes.find_unless(&now, is_used));
            let gate = self.gate_of(route);
            resolved.gates.extend(gate);
            RequiredCheck::add(&mut resolved.authorities, self.authority_of(route), gate);
            RequiredCheck::add(&mut resolved.logins, self.login_of(route), gate);
            add_new(&mut resolved.crawlers, self.crawlers_of(route));
            let interface = route.and_then(|route| self.interface_of(route));
            let with_parameters = !interface.is_some_and(|interface| interface.judges_parameters());
            if routes.is_some_and(|routes| routes.is_ambiguous(&now, route, with_parameters, is_used)) {
                return Outcome::AMBIGUOUS;
            }
            let Some(route) = route else { return Outcome::Files { root } };
            resolved.route = Some(route);
            resolved.policy = self.policy_of(Some(route));
            if !route.fields.is_empty() {
                resolved.fields.push((&route.fields, route.captures_for_fields(now.path)));
            }
            root = route.root.or(root);
            let Action::Rewrite(rewrite) = &route.action else {
                return match interface {
                    Some(interface) => Outcome::Handler(interface.clone()),
                    None => outcome(route, &route.action, root, &now),
                };
            };
            if used.len() == MOST_REWRITES {
                let reason = "a request was rewritten more than ten times; the routes form a loop";
                return Outcome::Failed { status: 500, reason };
            }
            used.push(route.index);
            let Some(new) = route.rewritten(rewrite, &now) else {
                let reason = "a rewrite leads above the root or to a path that can be read in two ways, or \
                              needs a host that the request does not name";
                return Outcome::Failed { status: 400, reason };
            };
            resolved.rewritten = Some(new);
        }
    }

    /// Whether a path with repeated slashes leads to another outcome in a program that does not merge them.
    pub fn differs_with_kept_slashes(
        &self,
        resolved: &RouteDecision<'_>,
        request: &RequestView<'_>,
        encoded_path: &[u8],
    ) -> bool {
        if memchr::memmem::find(encoded_path, b"//").is_none() {
            return false;
        }
        let as_counted = decoded(encoded_path);
        let other = self.resolve(&RequestView { path: &as_counted, ..*request });
        let is_same_gate = |(one, other): (&&Gate, &&Gate)| std::ptr::eq(*one, *other);
        other.route.map(|route| route.index) != resolved.route.map(|route| route.index)
            || other.gates.len() != resolved.gates.len()
            || !other.gates.iter().zip(&resolved.gates).all(is_same_gate)
            || !are_same(&rules_of(&other.logins), &rules_of(&resolved.logins))
            || !are_same(&other.crawlers, &resolved.crawlers)
            || !are_same(&rules_of(&other.authorities), &rules_of(&resolved.authorities))
    }

    /// Whether the path would match a route with a program or an alias if it had a slash at its end.
    pub fn lacks_slash(&self, request: &RequestView<'_>) -> bool {
        self.prefixes.contains(request.path)
            && self
                .routes
                .as_ref()
                .and_then(|routes| routes.find_below(request))
                .is_some_and(|route| route.is_alias || self.interface_of(route).is_some())
    }

    /// The position of the route whose interface, or an interface before it, this is.
    pub fn route_of_interface(&self, interface: &Arc<dyn Interface>) -> Option<usize> {
        let is_it = |other: &Arc<dyn Interface>| Arc::ptr_eq(other, interface);
        self.route_interfaces.iter().position(|route| {
            route.interface.as_ref().is_some_and(is_it) || route.middleware.iter().any(is_it)
        })
    }

    /// The program of a route, by the route's position.
    pub fn interface_at(&self, route: usize) -> Option<&Arc<dyn Interface>> {
        self.route_interfaces.get(route)?.interface.as_ref()
    }

    /// The interfaces before a route's outcome, by the route's position.
    pub fn middleware_at(&self, route: usize) -> &[Arc<dyn Interface>] {
        self.route_interfaces.get(route).map_or(&[], |found| &found.middleware)
    }

    /// A route, by its position.
    pub fn route_at(&self, route: usize) -> Option<&Route> {
        self.routes.as_ref()?.iter().find(|found| found.index == route)
    }

    fn interface_of(&self, route: &Route) -> Option<&Arc<dyn Interface>> {
        self.route_interfaces.get(route.index)?.interface.as_ref()
    }

    #[inline]
    fn authority_of(&self, route: Option<&Route>) -> Option<&Arc<ForwardAuth>> {
        match route {
            Some(route) => self.route_authorities.get(route.index)?.as_ref(),
            None => self.authority.as_ref(),
        }
    }

    #[inline]
    fn login_of(&self, route: Option<&Route>) -> Option<&Arc<Login>> {
        self.logins.as_ref()?.of(route.map(|route| route.index))
    }

    #[inline]
    fn crawlers_of(&self, route: Option<&Route>) -> Option<&Arc<Crawlers>> {
        self.crawlers.as_ref()?.of(route.map(|route| route.index))
    }

    /// The rules on bots and other visitors of the site and its routes.
    pub fn crawlers(&self) -> Option<&SiteCrawlers> {
        self.crawlers.as_ref()
    }

    /// The logins of the site and its routes.
    pub fn logins(&self) -> Option<&Logins> {
        self.logins.as_ref()
    }

    /// The fields for browsers of a route's answers, by the route's position.
    pub fn policy_at(&self, route: Option<usize>) -> Option<&AnswerPolicy> {
        match route {
            Some(route) => self.route_policies.get(route)?.as_deref(),
            None => self.policy.as_deref(),
        }
    }

    /// Adds the fields for browsers that all answers of a route have, by the route's position.
    pub fn add_common_fields(&self, route: Option<usize>, fields: &mut Vec<u8>) {
        if let Some(policy) = self.policy_at(route) {
            policy.common().apply(fields);
        }
    }

    /// The delivery of a route's answers, by the route's position, if it is configured.
    #[inline]
    pub fn delivery_at(&self, route: Option<usize>) -> Option<&Delivery> {
        self.deliveries.as_ref()?.of(route)
    }

    /// Adds the places of clients to requests for programs and origins.
    pub fn geoip(&self) -> Option<&GeoIp> {
        self.geoip.as_deref()
    }

    /// Whether the programs of a route get a nonce.
    pub fn has_nonces(&self) -> bool {
        self.has_nonces
    }

    /// The method of a preflight request, if the site answers such requests.
    pub fn preflight_method<'a>(&self, request: &RequestView<'a>) -> Option<&'a [u8]> {
        if !self.has_cors { None } else { answer_policy::preflight_method(request) }
    }

    #[inline]
    fn policy_of(&self, route: Option<&Route>) -> Option<&AnswerPolicy> {
        self.policy_at(route.map(|route| route.index))
    }

    fn gate_of(&self, route: Option<&Route>) -> Option<&Gate> {
        let gate = match route {
            Some(route) => self.route_gates.get(route.index)?,
            None => &self.gate,
        };
        gate.as_deref()
    }
}

/// Adds a rule that the list does not have yet.
fn add_new<'r, T>(rules: &mut Vec<&'r Arc<T>>, rule: Option<&'r Arc<T>>) {
    rules.extend(rule.filter(|rule| !rules.iter().any(|other| Arc::ptr_eq(other, rule))));
}

fn rules_of<'r, T>(asked: &[RequiredCheck<'r, T>]) -> Vec<&'r Arc<T>> {
    asked.iter().map(|asked| asked.rule).collect()
}

fn are_same<T>(rules: &[&Arc<T>], others: &[&Arc<T>]) -> bool {
    rules.len() == others.len() && rules.iter().zip(others).all(|(one, other)| Arc::ptr_eq(one, other))
}

/// The authorities of a site and of its routes. A route without its own uses that of the site.
type Authorities = (Option<Arc<ForwardAuth>>, Box<[Option<Arc<ForwardAuth>>]>);

fn open_authorities(site: &SiteConfig, origins: &OriginGroups) -> Result<Authorities, Vec<String>> {
    let name = |route: String| GroupName { site: site_name(site), route };
    let of_site = match &site.access.forward_auth {
        Some(config) => {
            ForwardAuth::open(config, name(String::new()), origins).map_err(|problem| vec![problem])?
        }
        None => None,
    };
    let open = |route: &touchstone_config::RouteConfig| match &route.access.forward_auth {
        Some(config) => ForwardAuth::open(config, name(route_name(&site.routes, route)), origins),
        None => Ok(of_site.clone()),
    };
    let of_routes =
        site.routes.iter().map(open).collect::<Result<_, _>>().map_err(|problem| vec![problem])?;
    Ok((of_site, of_routes))
}

/// A path without its escapes, and with its repeated slashes.
fn decoded(encoded: &[u8]) -> Vec<u8> {
    let read = |segment: &[u8]| PathRules::USUAL.read(&[b"/", segment].concat()).unwrap_or_default().decoded;
    let segments = encoded.split(|&byte| byte == b'/').skip(1);
    segments.flat_map(|segment| if segment.is_empty() { b"/".to_vec() } else { read(segment) }).collect()
}

fn outcome<'r>(
    route: &Route,
    action: &'r Action,
    root: Option<usize>,
    request: &RequestView<'_>,
) -> Outcome<'r> {
    match action {
        Action::Redirect(redirect) => match route.location(redirect, request) {
            Some(location) => Outcome::Redirect { status: redirect.status, location },
            None => Outcome::Failed {
                status: 400,
                reason: "a redirect needs a host that the request does not name",
            },
        },
        Action::Respond(respond) => Outcome::Respond(respond),
        Action::Files | Action::Rewrite(_) => Outcome::Files { root },
    }
}

#[cfg(test)]
mod tests;
