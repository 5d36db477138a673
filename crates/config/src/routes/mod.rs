//! Routes: the settings of a site for some of its requests.
//!
//! [`Routes`] is the table of a site: [`Routes::find`] returns the first route that matches a request. Paths
//! without wildcards are looked up by hash, so that a site may have thousands of redirects; the others are
//! tried in order. A look-up allocates no memory.
//!
//! `config` has the keys of a route. The conditions of a route on a request, and the texts of redirects,
//! rewrites and fields, are in the crate `touchstone-route`.

pub mod config;

pub use touchstone_config_section::values::check_answer_field;
pub use touchstone_route::AnswerFields;

use std::sync::Arc;

use bytes::Bytes;
use rustc_hash::FxHashMap;
use touchstone_expression::{AvailableFrom, Condition, Scope};
use touchstone_http::path::{PathRules, other_readings};

use crate::IncludesConfig;
use config::{RespondConfig, RouteConfig};
use touchstone_http::request_view::RequestView;
use touchstone_route::matcher::{PathMatch, RequestMatch};
use touchstone_route::template::{Template, Values};

/// A problem of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteProblem {
    /// The route, from 0.
    pub route: usize,
    /// The key, or that of a table and a key in it (`redirect.to`).
    pub key: &'static str,
    /// The problem, with the name of the key.
    pub message: String,
}

impl std::fmt::Display for RouteProblem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "route {}: {}", self.route + 1, self.message)
    }
}

impl std::error::Error for RouteProblem {}

/// The routes of a site, in their order.
pub struct Routes {
    routes: Box<[Route]>,
    /// Routes with a path of their own, by that path.
    exact: FxHashMap<Box<[u8]>, Vec<usize>>,
    /// Routes with a prefix of paths, by that prefix, which ends with a slash.
    below: FxHashMap<Box<[u8]>, Vec<usize>>,
    /// The longest of those prefixes; longer ones need not be looked up.
    longest_below: usize,
    /// The others.
    others: Box<[usize]>,
}

/// One route.
pub struct Route {
    /// Its position, from 0.
    pub index: usize,
    path: PathMatch,
    request: RequestMatch,
    /// What is done with its requests.
    pub action: Action,
    /// If it has its own settings of files: its position among the routes that do.
    pub root: Option<usize>,
    /// Its settings of pages with directives, if they differ from those of the site.
    pub includes: Option<IncludesConfig>,
    /// Whether its directory replaces the beginning of the path.
    pub is_alias: bool,
    /// Files that are tried before its program.
    pub try_files: Box<[TryFile]>,
    /// Fields that the answer gets.
    pub fields: AnswerFields,
    /// Field lines that are sent before an answer that takes time; empty: none.
    pub early_hints: Arc<[u8]>,
    /// It has pages of errors, or uses those of the site when its program answers with an error.
    pub has_error_pages: bool,
}

/// A file of `try_files`.
#[derive(Debug)]
pub struct TryFile {
    path: Template,
    /// The path is that of a directory.
    is_directory: bool,
    /// It is the path of the request.
    is_path: bool,
}

/// What is done with the requests of a route.
#[derive(Debug)]
pub enum Action {
    /// They are served as the site serves them.
    Files,
    /// The client is redirected.
    Redirect(Redirect),
    /// They are served as if the client had requested another path.
    Rewrite(Rewrite),
    /// They are answered with this.
    Respond(RespondConfig),
}

/// The target of a redirect.
#[derive(Debug)]
pub struct Redirect {
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    to: Template,
}

/// The target of a rewrite.
#[derive(Debug)]
pub struct Rewrite {
    to: Template,
}

/// The path and query that a rewrite produced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RewrittenTarget {
    /// The path in its normal form.
    pub path: Bytes,
    /// The same path written again, as other servers receive it.
    pub encoded_path: Bytes,
    /// The query.
    pub query: Option<Bytes>,
}

impl Routes {
    /// Compiles the routes; the error is the first problem.
    pub fn compile(configs: &[RouteConfig]) -> Result<Routes, RouteProblem> {
        let mut routes = Vec::with_capacity(configs.len());
        let mut roots = 0;
        for (index, config) in configs.iter().enumerate() {
            let mut route = compile_route(config)
                .map_err(|mut problems| RouteProblem { route: index, ..problems.swap_remove(0) })?;
            route.index = index;
            if config.has_own_files() {
                route.root = Some(roots);
                roots += 1;
            }
            routes.push(route);
        }
        let mut compiled = Routes {
            routes: Box::default(),
            exact: FxHashMap::default(),
            below: FxHashMap::default(),
            longest_below: 0,
            others: Box::default(),
        };
        let mut others = Vec::new();
        for route in &routes {
            match &route.path {
                PathMatch::Exact(path) => compiled.exact.entry(path.clone()).or_default().push(route.index),
                PathMatch::Below(prefix) => {
                    compiled.longest_below = compiled.longest_below.max(prefix.len());
                    compiled.below.entry(prefix.clone()).or_default().push(route.index);
                }
                PathMatch::Any | PathMatch::Expression(_) => others.push(route.index),
            }
        }
        compiled.others = others.into();
        compiled.routes = routes.into();
        Ok(compiled)
    }

    /// The first route that matches.
    #[inline]
    pub fn find(&self, request: &RequestView<'_>) -> Option<&Route> {
        self.find_unless(request, |_| false)
    }

    /// The first route that matches the same path with a slash after it, if the path is the prefix of that
    /// route's paths.
    pub fn find_below(&self, request: &RequestView<'_>) -> Option<&Route> {
        let path = [request.path, b"/"].concat();
        let has_that_prefix =
            |route: &&Route| matches!(&route.path, PathMatch::Below(prefix) if **prefix == *path);
        self.find(&RequestView { path: &path, ..*request }).filter(has_that_prefix)
    }

    /// All routes in their order.
    pub fn iter(&self) -> std::slice::Iter<'_, Route> {
        self.routes.iter()
    }

    /// Whether another route than this one matches a path that other programs may derive from this path (see
    /// [`other_readings`]).
    pub fn is_ambiguous(
        &self,
        request: &RequestView<'_>,
        route: Option<&Route>,
        with_parameters: bool,
        skip: impl Fn(usize) -> bool + Copy,
    ) -> bool {
        let index = route.map(|route| route.index);
        other_readings(request.path, with_parameters).any(|path| {
            let other = self.find_unless(&RequestView { path: &path, ..*request }, skip);
            other.map(|other| other.index) != index
        })
    }

    /// The first route that matches and is not to be skipped.
    pub fn find_unless(&self, request: &RequestView<'_>, skip: impl Fn(usize) -> bool) -> Option<&Route> {
        let mut first = usize::MAX;
        let mut consider = |candidates: &[usize]| {
            // In their order, so the first that fits is the only one of these that can count.
            let fits = |index: &usize| !skip(*index) && self.routes[*index].matches(request);
            if let Some(index) =
                candidates.iter().take_while(|index| **index < first).copied().find(|index| fits(index))
            {
                first = index;
            }
        };
        if let Some(candidates) = self.exact.get(request.path) {
            consider(candidates);
        }
        if self.longest_below > 0 {
            let window = &request.path[..request.path.len().min(self.longest_below)];
            for slash in memchr::memchr_iter(b'/', window) {
                if let Some(candidates) = self.below.get(&window[..=slash]) {
                    consider(candidates);
                }
            }
        }
        consider(&self.others);
        self.routes.get(first)
    }
}

impl Route {
    /// Whether the request belongs to this route.
    #[inline]
    pub fn matches(&self, request: &RequestView<'_>) -> bool {
        self.path.matches(request.path) && self.request.matches(request)
    }

    /// Whether its conditions or texts have variables that may be those of the client.
    pub fn uses_variables(&self) -> bool {
        let of_action = match &self.action {
            Action::Redirect(redirect) => redirect.to.has_values(),
            Action::Rewrite(rewrite) => rewrite.to.has_values(),
            Action::Files | Action::Respond(_) => false,
        };
        of_action
            || self.request.has_condition()
            || self.fields.have_variables()
            || self.try_files.iter().any(|file| file.path.has_values())
    }

    /// Whether it has a condition on the connection.
    pub fn needs_connection(&self) -> bool {
        self.request.needs_connection()
    }

    /// What the wildcards or groups have matched, where the fields of the answer have it.
    pub fn captures_for_fields(&self, path: &[u8]) -> Vec<Bytes> {
        match self.fields.use_captures() {
            true => self.captures(path).into_iter().map(Bytes::copy_from_slice).collect(),
            false => Vec::new(),
        }
    }

    /// The prefix of its paths without the slash at the end, if it has one.
    pub fn prefix(&self) -> Option<&[u8]> {
        match &self.path {
            PathMatch::Below(prefix) => prefix.strip_suffix(b"/").filter(|prefix| !prefix.is_empty()),
            PathMatch::Any | PathMatch::Exact(_) | PathMatch::Expression(_) => None,
        }
    }

    /// Whether its requests are served as the site's others are, except for access rules.
    #[inline]
    pub fn is_plain(&self) -> bool {
        matches!(self.action, Action::Files) && self.root.is_none() && self.fields.is_empty()
    }

    /// Whether the file at the path, if there is one, answers a request before the route's program.
    #[inline]
    pub fn tries_path_first(&self, path: &[u8]) -> bool {
        self.try_files.first().is_some_and(|first| first.is_path) && !path.ends_with(b"/")
    }

    /// The files of `try_files` in their order, and whether each is a directory.
    pub fn try_file_candidates<'v>(
        &'v self,
        request: &'v RequestView<'v>,
    ) -> impl Iterator<Item = (RewrittenTarget, bool)> + 'v {
        let captures = self.captures(request.path);
        self.try_files.iter().filter_map(move |file| {
            let (path, _) = file.path.target(&self.values(request, &captures))?;
            Some((rewritten(&path, request.query.map(<[u8]>::to_vec))?, file.is_directory))
        })
    }

    /// The matches of the wildcards or groups: those of the pattern, if there is one.
    fn captures<'p>(&self, path: &'p [u8]) -> Vec<&'p [u8]> {
        self.captured().captures(path)
    }

    fn captured(&self) -> &PathMatch {
        match self.request.pattern() {
            PathMatch::Any => &self.path,
            pattern => pattern,
        }
    }

    fn values<'v>(&self, request: &'v RequestView<'v>, captures: &'v [&'v [u8]]) -> Values<'v> {
        Values { captures, path: request.path, query: request.query, host: request.host, source: request }
    }

    /// The value of `Location`; `None` if it cannot be determined, because the request has no host.
    pub fn location(&self, redirect: &Redirect, request: &RequestView<'_>) -> Option<Vec<u8>> {
        let captures = self.captures(request.path);
        redirect.to.location(&self.values(request, &captures))
    }

    /// The new path and query; `None` if they cannot be determined: there is no host, or the path is above
    /// the root.
    pub fn rewritten(&self, rewrite: &Rewrite, request: &RequestView<'_>) -> Option<RewrittenTarget> {
        let captures = self.captures(request.path);
        let (target, query) = rewrite.to.target(&self.values(request, &captures))?;
        rewritten(&target, query)
    }
}

fn rewritten(target: &[u8], query: Option<Vec<u8>>) -> Option<RewrittenTarget> {
    let read = PathRules::USUAL.read(target).ok()?;
    Some(RewrittenTarget {
        path: read.decoded.into(),
        encoded_path: read.encoded.into(),
        query: query.map(Bytes::from),
    })
}

/// Whether the text is valid for the key `path`.
pub fn check_path(text: &str) -> Result<(), String> {
    PathMatch::from_path(text).map(|_| ())
}

/// Whether the text is valid for the key `pattern`.
pub fn check_pattern(text: &str) -> Result<(), String> {
    PathMatch::from_pattern(text).map(|_| ())
}

/// All problems of the combination of a route's keys; its single values are valid.
pub fn problems(config: &RouteConfig) -> Vec<RouteProblem> {
    compile_route(config).err().unwrap_or_default()
}

/// The problems of a route that show only now that the maps are read.
pub fn map_problems(config: &RouteConfig) -> Vec<RouteProblem> {
    let RouteConfig { redirect, rewrite, when, .. } = config;
    let of_actions = redirect.iter().map(|redirect| &redirect.to).chain(rewrite.iter().map(|to| &to.to));
    let texts = of_actions.chain(&config.try_files).chain(config.headers.values()).map(String::as_str);
    let texts = texts.chain(config.targets().map(|(_, text)| text));
    let mut texts = texts.chain(when.as_ref().map(Condition::source));
    if texts.any(|text| text.contains("map{")) { problems(config) } else { Vec::new() }
}

fn compile_route(config: &RouteConfig) -> Result<Route, Vec<RouteProblem>> {
    let mut problems = Vec::new();
    let mut problem =
        |key: &'static str, message: String| problems.push(RouteProblem { route: 0, key, message });
    let path = PathMatch::from_path(&config.path).unwrap_or_else(|message| {
        problem("path", format!("'path': {message}"));
        PathMatch::Any
    });
    let scope = Scope {
        known: AvailableFrom::Connection,
        maps: config.maps.as_ref().map(|maps| maps as _),
        captures: &[],
    };
    let when = compile_condition(config, scope, &mut problem);
    let request =
        RequestMatch::new(&config.pattern, &config.suffixes, &config.methods, &config.request_headers)
            .map_err(|message| problem("pattern", format!("'pattern': {message}")))
            .ok()
            .map(|request| request.with_condition(when));
    let names = match request.as_ref().map(RequestMatch::pattern) {
        None | Some(PathMatch::Any) => path.capture_names(),
        Some(pattern) => pattern.capture_names(),
    };
    let scope = scope.with_captures(&names);
    let action = compile_action(config, scope, &mut problem);
    check_combinations(config, &path, &mut problem);
    let try_files = compile_try_files(config, scope, &mut problem);
    check_targets(config, &mut problem);
    let fields = AnswerFields::new(&config.headers, scope).unwrap_or_else(|message| {
        problem("headers", format!("'headers': {message}"));
        AnswerFields::default()
    });
    match request {
        Some(request) if problems.is_empty() => {
            let hints: String = config.early_hints.iter().map(|value| format!("Link: {value}\r\n")).collect();
            let early_hints = Arc::from(hints.into_bytes());
            let includes = config.includes.clone();
            Ok(Route {
                index: 0,
                path,
                request,
                action,
                root: None,
                includes,
                is_alias: config.alias.is_some(),
                try_files,
                fields,
                early_hints,
                has_error_pages: config.intercept_errors || !config.error_pages.is_empty(),
            })
        }
        _ => Err(problems),
    }
}

/// The paths and queries that programs and origins get.
fn check_targets(config: &RouteConfig, problem: &mut impl FnMut(&'static str, String)) {
    for (key, text) in config.targets() {
        if let Err(message) = config.target(text) {
            let name = key.rsplit('.').next().unwrap_or(key);
            problem(key, format!("'{name}': {message}"));
        }
    }
    if config.proxy.as_ref().is_some_and(|proxy| !proxy.path.is_empty() && !proxy.strip_prefix.is_empty()) {
        problem("proxy.path", "'path' and 'strip_prefix' exclude each other".to_string());
    }
}

/// The condition of `when`.
fn compile_condition(
    config: &RouteConfig,
    scope: Scope<'_>,
    problem: &mut impl FnMut(&'static str, String),
) -> Option<Condition> {
    let read = Condition::read(config.when.as_ref()?.source(), scope);
    read.map_err(|message| problem("when", format!("'when': {message}"))).ok()
}

/// What is done with the requests; the last of several actions.
fn compile_action(
    config: &RouteConfig,
    scope: Scope<'_>,
    problem: &mut impl FnMut(&'static str, String),
) -> Action {
    let mut action = Action::Files;
    if let Some(redirect) = &config.redirect {
        if !matches!(redirect.status, 301 | 302 | 303 | 307 | 308) {
            let message = format!("'status' must be 301, 302, 303, 307 or 308, not {}", redirect.status);
            problem("redirect.status", message);
        }
        match Template::redirect(&redirect.to, scope) {
            Ok(to) => action = Action::Redirect(Redirect { status: redirect.status, to }),
            Err(message) => problem("redirect.to", format!("'to': {message}")),
        }
    }
    if let Some(rewrite) = &config.rewrite {
        match Template::rewrite(&rewrite.to, scope) {
            Ok(to) => action = Action::Rewrite(Rewrite { to }),
            Err(message) => problem("rewrite.to", format!("'to': {message}")),
        }
    }
    if let Some(respond) = &config.respond {
        if matches!(respond.status, 204 | 205 | 304) && !respond.body.is_empty() {
            problem("respond.body", format!("'body': an answer with status {} has none", respond.status));
        }
        if !(200..600).contains(&respond.status) {
            problem("respond.status", format!("'status' must be from 200 to 599, not {}", respond.status));
        }
        action = Action::Respond(respond.clone());
    }
    action
}

/// Finds keys that cannot be combined.
fn check_combinations(
    config: &RouteConfig,
    path: &PathMatch,
    problem: &mut impl FnMut(&'static str, String),
) {
    if config.cache.is_some() && !config.has_program() {
        let message = "'cache' needs a program or another server beside it, such as 'proxy' or 'cgi': files \
                       have a cache already";
        problem("cache", message.to_string());
    }
    for (key, message) in contradictions(config) {
        problem(key, message);
    }
    if !config.middleware.is_empty()
        && let Some(key) = [
            ("redirect", config.redirect.is_some()),
            ("rewrite", config.rewrite.is_some()),
            ("respond", config.respond.is_some()),
        ]
        .iter()
        .find_map(|(key, is_set)| is_set.then_some(key))
    {
        problem("middleware", format!("'middleware' cannot be combined with '{key}'"));
    }
    if config.alias.is_some() && !matches!(path, PathMatch::Below(_)) {
        let message =
            "'alias' needs a 'path' that ends with a slash, without wildcards: the directory replaces it";
        problem("alias", message.to_string());
    }
}

/// The files of `try_files`.
fn compile_try_files(
    config: &RouteConfig,
    scope: Scope<'_>,
    problem: &mut impl FnMut(&'static str, String),
) -> Box<[TryFile]> {
    let mut try_files = Vec::new();
    for text in &config.try_files {
        match Template::rewrite(text, scope) {
            Ok(path) => {
                try_files.push(TryFile { path, is_directory: text.ends_with('/'), is_path: text == "$path" })
            }
            Err(message) => problem("try_files", format!("'try_files': {message}")),
        }
    }
    if !config.try_files.is_empty()
        && (config.php.is_some() || config.cgi.is_some() || config.nsapi.is_some())
    {
        let message = "'try_files' cannot be used with 'php', 'cgi' or 'nsapi', which search for files \
                       themselves and whose programs are files; see 'front_controller' of 'php'";
        problem("try_files", message.to_string());
    }
    try_files.into()
}

/// Keys that exclude each other.
fn contradictions(config: &RouteConfig) -> Vec<(&'static str, String)> {
    let set = [
        ("redirect", config.redirect.is_some()),
        ("rewrite", config.rewrite.is_some()),
        ("respond", config.respond.is_some()),
        ("cgi", config.cgi.is_some()),
        ("fastcgi", config.fastcgi.is_some()),
        ("scgi", config.scgi.is_some()),
        ("uwsgi", config.uwsgi.is_some()),
        ("php", config.php.is_some()),
        ("ajp", config.ajp.is_some()),
        ("proxy", config.proxy.is_some()),
        ("nsapi", config.nsapi.is_some()),
        ("servlet", config.servlet.is_some()),
        ("wasm", config.wasm.is_some()),
        ("python", config.python.is_some()),
        ("webdav", config.webdav.is_some()),
        ("root", config.root.is_some()),
        ("alias", config.alias.is_some()),
    ];
    let given: Vec<&'static str> = set.iter().filter(|(_, given)| *given).map(|(key, _)| *key).collect();
    match given.as_slice() {
        // A rewritten request may still be for a file, and programs are files.
        [] | [_] | ["rewrite" | "cgi" | "fastcgi" | "nsapi" | "scgi" | "uwsgi" | "php", "root"] => Vec::new(),
        // The key sets how programs of an obj.conf run.
        ["cgi", "nsapi"] | ["cgi", "nsapi", "root"] => Vec::new(),
        // The files are those of the directory.
        ["webdav", "root" | "alias"] => Vec::new(),
        // The key names the containers, for `isolation = "ajp"`.
        ["ajp", "servlet"] => Vec::new(),
        [first, others @ ..] => {
            let message = |key: &&'static str| {
                (*key, format!("'{key}' and '{first}' cannot both be done; make two routes"))
            };
            others.iter().map(message).collect()
        }
    }
}
