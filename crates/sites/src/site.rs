//! Sites as the cores use them: the checked configuration with its roots opened and a lookup for its hosts.
//!
//! A [`Snapshot`] never changes. A reload makes a new one; each core begins to use it between two requests.

use std::hash::{Hash, Hasher};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use rustc_hash::FxHasher;
use touchstone_accelerator::layer::Accelerator;
use touchstone_access::{ConnectionGate, MinimumRate};
use touchstone_acme::HttpChallenges;
use touchstone_config::routes::AnswerFields;
use touchstone_config::{
    Config, DeliveryConfig, LimitsConfig, ListenAddress, LogLevel, SiteConfig, names_of_sites, own_paths,
};
use touchstone_expression::AvailableFrom;
use touchstone_files::cache::{CacheLimits, FileCache};
use touchstone_files::coding::CodingSettings;
use touchstone_files::dictionary::{Dictionaries, Pattern, SiteDictionaries};
use touchstone_files::mime::ContentTypes;
use touchstone_files::root::Root;
use touchstone_http::request_view::AddressLocator;
use touchstone_includes::PageCache;
use touchstone_observe::log::error::ErrorLog;
use touchstone_observe::metrics::RouteTable;
use touchstone_telemetry::TraceRules;
use touchstone_tls::{ServerNames, TlsEndpoint, host_name};

use crate::compression;
use crate::file_access::symlink_policy;
use crate::htaccess;
use crate::includes::SiteIncludes;
use crate::logs::{ServerLogs, SiteLogs};
use crate::memory_limit;
use crate::plugin_directories;
use crate::route::SiteRules;
use crate::services::ServerShared;
use crate::site_tls::open_endpoint;
use crate::streams::{self, StreamSetup};
use crate::unusable::Unusable;

/// One generation of the configuration, ready for use.
pub struct Snapshot {
    /// The configuration from which it was made.
    pub config: Config,
    /// The sites, in the order of the configuration.
    pub sites: Vec<Site>,
    /// The rules for connections.
    pub connection_gate: ConnectionGate,
    /// Rules need the addresses of clients.
    pub needs_peers: bool,
    /// Each address with the sites that listen on it.
    pub listeners: Vec<ListenerSites>,
    /// Parsed pages with directives.
    pub pages: PageCache,
    /// The answers to challenges of an ACME authority in plain HTTP.
    pub acme_challenges: Arc<HttpChallenges>,
    /// The memory cache; `None`: it is off.
    pub cache: Option<Arc<FileCache>>,
    /// Earlier versions of files, which serve as dictionaries for the compression of later ones. They remain
    /// after a reload.
    pub dictionaries: Arc<Dictionaries>,
    /// The cache before programs and origins; `None`: no route uses it.
    pub accelerator: Option<Arc<Accelerator>>,
    /// The names of the sites and routes in counts and logs.
    pub route_table: Arc<RouteTable>,
    /// The error of the file watcher: changes on disk are then found only by comparison.
    pub watcher_problem: Option<io::Error>,
    /// The largest request body that any site or route accepts.
    pub most_body_bytes: u64,
    /// A site or route has its own time limits or minimum rates for clients.
    has_paces: bool,
    /// `[limits]` with the longest times and lowest rates of all sites and routes, for connections that
    /// several sites share.
    pub patient_limits: LimitsConfig,
    /// The logs of sites and routes; `None`: there are none.
    pub logs: Option<Arc<SiteLogs>>,
    /// Connections and datagrams that are passed on unchanged.
    pub streams: Vec<Arc<StreamSetup>>,
    /// Which requests are traced; `None`: none.
    pub trace_rules: Option<Arc<TraceRules>>,
    /// Finds the locations of clients; `None`: no files are configured for that.
    pub locator: Option<Arc<dyn AddressLocator>>,
    /// The directories that were searched for `.htaccess` files.
    pub htaccess_directories: Vec<PathBuf>,
}

/// One site.
pub struct Site {
    /// Its configuration.
    pub config: SiteConfig,
    /// Its document root.
    pub root: Arc<Root>,
    /// Content types by file name ending.
    pub content_types: ContentTypes,
    /// Routes and access rules, if it has any.
    pub rules: Option<SiteRules>,
    /// The position in [`Snapshot::sites`] of the first site that stands for a directory of its routes.
    pub first_root: usize,
    /// The sites in [`Snapshot::sites`] that stand for directories which handlers find by their own rules.
    pub plugin_directories: Range<usize>,
    /// Pages with directives, if it has any.
    pub includes: Option<SiteIncludes>,
    /// Its content codings.
    pub codings: CodingSettings,
    /// The field lines that are added to every answer, each with its CRLF.
    pub fields: Arc<[u8]>,
    /// The same for cached files, with the fields for browsers.
    pub file_fields: Arc<[u8]>,
}

/// The minimum rates of clients.
#[derive(Debug, Clone, Copy)]
pub struct MinimumRates {
    /// For the body of a request.
    pub receive: MinimumRate,
    /// For an answer.
    pub send: MinimumRate,
}

/// The sites of one address.
pub struct ListenerSites {
    /// The address as configured.
    pub address: ListenAddress,
    /// The index of the site of each host name and wildcard.
    hosts: ServerNames<usize>,
    /// The site for hosts that no site names.
    any: Option<usize>,
    /// All hosts lead to the same site, so host names need not be looked up.
    single: bool,
    /// HTTPS; `None`: plain HTTP.
    pub tls: Option<Arc<TlsEndpoint>>,
}

impl ListenerSites {
    /// The site that answers `host` (with or without port); `None`: there is none.
    #[inline]
    pub fn site(&self, host: Option<&[u8]>) -> Option<usize> {
        if self.single {
            return self.any;
        }
        self.look_up(host.unwrap_or_default())
    }

    fn look_up(&self, host: &[u8]) -> Option<usize> {
        host_name(Some(host)).and_then(|name| self.hosts.find(&name).copied()).or(self.any)
    }
}

/// The scheme of URLs of these sites.
pub fn scheme(sites: &ListenerSites) -> &'static str {
    if sites.tls.is_some() { "https" } else { "http" }
}

impl Snapshot {
    /// The site that stands for the files of a route, see [`Route::root`](touchstone_config::routes::Route),
    /// or the site itself.
    pub fn files_of(&self, site: usize, root: Option<usize>) -> usize {
        root.map_or(site, |root| self.sites[site].first_root + root)
    }

    /// Opens all roots and certificates, and prepares the lookups.
    pub fn open(
        config: Config,
        shared: &ServerShared,
        acme_challenges: &Arc<HttpChallenges>,
        dictionaries: &Arc<Dictionaries>,
        logs: &ServerLogs<'_>,
    ) -> Result<Snapshot, Unusable> {
        let ServerShared { tls, access, accelerator, .. } = shared;
        let error_log = logs.error_log;
        access.open_geoip(&config.geoip).map_err(Unusable)?;
        let own = own_paths(&config);
        shared.services.own_files.add(&own.files, &own.directories);
        let mut config = config;
        let htaccess_directories = refuse_htaccess(&mut config, error_log);
        let config = config;
        let open = |site: &SiteConfig| open_site(site, b"/", shared);
        let mut sites = config.sites.iter().map(open).collect::<Result<Vec<Site>, Unusable>>()?;
        // A route with its own settings for files gets a site of its own that no host leads to, so that its
        // files have their own cache.
        for index in 0..config.sites.len() {
            sites[index].first_root = sites.len();
            let site = &config.sites[index];
            for route in site.routes.iter().filter(|route| route.has_own_files()) {
                let mount = if route.alias.is_some() { route.path.as_bytes() } else { b"/" };
                sites.push(open_site(&route.files_of(site), mount, shared)?);
            }
        }
        accelerator.store.set_budget(memory_limit::cache_bytes(config.accelerator.memory_bytes));
        let has_caches =
            sites.iter().filter_map(|site| site.rules.as_ref()).any(|rules| rules.caches().next().is_some());
        for index in 0..config.sites.len() {
            let begin = sites.len();
            sites.extend(
                plugin_directories::of_plug_ins(&config.sites[index])
                    .iter()
                    .filter_map(|below| open(below).ok()),
            );
            sites[index].plugin_directories = begin..sites.len();
        }
        let connection_gate = ConnectionGate::new(&config, access);
        let needs_peers = connection_gate.needs_peers()
            || sites.iter().filter_map(|site| site.rules.as_ref()).any(SiteRules::needs_peers);
        let mut addresses: Vec<ListenAddress> = Vec::new();
        for &address in config.sites.iter().flat_map(|site| &site.listen) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        let listeners = addresses
            .into_iter()
            .map(|address| {
                let endpoint = open_endpoint(address, &config, tls, error_log)?;
                Ok(listener_sites(address, &config.sites, endpoint))
            })
            .collect::<Result<Vec<ListenerSites>, Unusable>>()?;
        dictionaries.set_limit(config.cache.dictionary_bytes);
        let (cache, watcher_problem) = if config.cache.enabled {
            let limits = CacheLimits {
                files: config.cache.files,
                bytes: memory_limit::cache_bytes(config.cache.bytes),
                file_bytes: config.cache.file_bytes,
            };
            let codings: Vec<CodingSettings> = sites.iter().map(|site| site.codings).collect();
            let of_sites = sites.iter().map(|site| site_dictionaries(&site.config)).collect();
            let (cache, problem) =
                FileCache::with_dictionaries(limits, &codings, of_sites, dictionaries.clone());
            (Some(cache), problem)
        } else {
            (None, None)
        };
        let pages = PageCache::new(usize::try_from(config.cache.parsed_bytes).unwrap_or(usize::MAX));
        let route_table = Arc::new(RouteTable::new(names_of_sites(&config.sites)));
        let most_body_bytes = most_body_bytes(&config);
        let trace_rules = TraceRules::new(&config, logs.spans);
        let streams = streams::open(&config, shared, logs)?;
        let logs = SiteLogs::open(&config, logs)?;
        let (has_paces, patient_limits) = patient_limits(&config);
        Ok(Snapshot {
            config,
            sites,
            connection_gate,
            needs_peers,
            listeners,
            acme_challenges: acme_challenges.clone(),
            cache,
            dictionaries: dictionaries.clone(),
            accelerator: has_caches.then(|| accelerator.clone()),
            pages,
            route_table,
            watcher_problem,
            most_body_bytes,
            has_paces,
            patient_limits,
            logs,
            streams,
            trace_rules,
            locator: access.geoip().map(|geoip| geoip as Arc<dyn AddressLocator>),
            htaccess_directories,
        })
    }

    /// The largest request body for a route of a site, or for requests that match no route.
    pub fn body_bytes(&self, site: usize, route: Option<usize>) -> u64 {
        let site = &self.sites[site].config;
        let of_route = route.and_then(|route| site.routes.get(route)).map_or(0, |route| route.body_bytes);
        let given = [of_route, site.body_bytes].into_iter().find(|&bytes| bytes != 0);
        given.unwrap_or(self.config.limits.body_bytes)
    }

    /// The minimum rates for the client of a request, if its site or route has any.
    pub fn minimum_rates(&self, site: usize, route: Option<usize>) -> Option<MinimumRates> {
        if !self.has_paces {
            return None;
        }
        let of_site = &self.sites[site].config;
        let of_route = route.and_then(|route| of_site.routes.get(route)).map(|route| &route.delivery);
        let of_site = &of_site.delivery;
        let stall_timeout = of_route.and_then(|own| own.stall_timeout).or(of_site.stall_timeout);
        let stall_timeout = stall_timeout.unwrap_or(self.config.limits.stall_timeout);
        let minimum = |rate: fn(&DeliveryConfig) -> Option<u64>, usual: u64| MinimumRate {
            stall_timeout,
            bytes_per_second: of_route.and_then(rate).or_else(|| rate(of_site)).unwrap_or(usual),
        };
        let limits = &self.config.limits;
        Some(MinimumRates {
            receive: minimum(|own| own.minimum_receive_rate, limits.minimum_receive_rate),
            send: minimum(|own| own.minimum_send_rate, limits.minimum_send_rate),
        })
    }

    /// The page of an error, if the route or its site has one.
    pub fn error_page(&self, site: usize, route: Option<usize>, status: u16) -> Option<&str> {
        let site = &self.sites[site].config;
        let route = route.and_then(|route| site.routes.get(route));
        let of_route = route.and_then(|route| route.error_pages.get(&status));
        of_route.or(site.error_pages.get(&status)).map(String::as_str)
    }

    /// Whether errors of a route's program or origin get a page.
    pub fn intercepts_errors(&self, site: usize, route: Option<usize>) -> bool {
        let site = &self.sites[site].config;
        site.intercept_errors
            || route.and_then(|route| site.routes.get(route)).is_some_and(|route| route.intercept_errors)
    }
}

/// Refuses what `.htaccess` files forbid. Returns the directories that were searched.
fn refuse_htaccess(config: &mut Config, error_log: &ErrorLog) -> Vec<PathBuf> {
    let mut directories = Vec::new();
    for searched in config.sites.iter_mut().map(htaccess::refuse) {
        for line in searched.messages {
            error_log.write(LogLevel::Warning, format_args!("{line}"));
        }
        directories.extend(searched.directories);
    }
    directories
}

/// Whether sites or routes have their own time limits or minimum rates for clients, and `[limits]` with the
/// longest times and lowest rates of all.
fn patient_limits(config: &Config) -> (bool, LimitsConfig) {
    let mut limits = config.limits.clone();
    let of_routes = config.sites.iter().flat_map(|site| &site.routes).map(|route| &route.delivery);
    let deliveries = config.sites.iter().map(|site| &site.delivery).chain(of_routes);
    let mut has_paces = false;
    for delivery in deliveries.filter(|delivery| delivery.has_minimum_rate()) {
        has_paces = true;
        let least = |own: Option<u64>, other: u64| own.map_or(other, |own| own.min(other));
        limits.stall_timeout = delivery.stall_timeout.unwrap_or_default().max(limits.stall_timeout);
        limits.minimum_receive_rate = least(delivery.minimum_receive_rate, limits.minimum_receive_rate);
        limits.minimum_send_rate = least(delivery.minimum_send_rate, limits.minimum_send_rate);
    }
    (has_paces, limits)
}

/// The largest request body of all sites and routes.
fn most_body_bytes(config: &Config) -> u64 {
    let of_routes = config.sites.iter().flat_map(|site| &site.routes).map(|route| route.body_bytes);
    let of_sites = config.sites.iter().map(|site| site.body_bytes);
    of_routes.chain(of_sites).chain([config.limits.body_bytes]).max().unwrap_or_default()
}

/// Opens the files of a site, for the paths below `mount`.
fn open_site(config: &SiteConfig, mount: &[u8], shared: &ServerShared) -> Result<Site, Unusable> {
    let root = match &config.root {
        None => Root::without_files(),
        Some(path) => Root::new(path, symlink_policy(config.symlinks))
            .map_err(|error| Unusable(format!("cannot serve {}: {error}", path.display())))?,
    };
    let charset = Some(config.charset.as_str()).filter(|charset| !charset.is_empty());
    let content_types = ContentTypes::new(config.mime_types.clone(), charset)
        .map_err(|error| Unusable(format!("cannot serve {}: {error}", root.path().display())))?;
    let rules = SiteRules::open(config, shared).map_err(|problems| Unusable(problems.join("; ")))?;
    let fields = field_lines(config);
    let mut file_fields = fields.to_vec();
    if let Some(rules) = &rules {
        rules.add_common_fields(None, &mut file_fields);
    }
    Ok(Site {
        config: config.clone(),
        root: Arc::new(root.mounted_at(mount).without(shared.services.own_files.clone())),
        content_types,
        rules,
        first_root: 0,
        plugin_directories: 0..0,
        includes: config.includes.as_ref().map(SiteIncludes::new),
        codings: compression::settings(config),
        fields,
        file_fields: file_fields.into(),
    })
}

/// Which files of a site are dictionaries. Their scope stays the same over reloads.
fn site_dictionaries(config: &SiteConfig) -> SiteDictionaries {
    let mut hasher = FxHasher::default();
    (&config.hosts, &config.listen).hash(&mut hasher);
    // The patterns are valid, because the configuration was checked.
    let patterns = config.dictionaries.iter().filter_map(|text| Pattern::parse(text).ok()).collect();
    SiteDictionaries { patterns, scope: hasher.finish() }
}

fn field_lines(config: &SiteConfig) -> Arc<[u8]> {
    // Fields with variables are added to each answer separately.
    let fields = AnswerFields::new(&config.headers, AvailableFrom::Head.into()).unwrap_or_default();
    let services = alternative_services(config).unwrap_or_default();
    Arc::from([fields.lines(), services.as_bytes()].concat())
}

/// Announces HTTP/3 to clients (RFC 7838, RFC 9114 section 3.1). A port that the system chooses is not known
/// yet and is not announced.
fn alternative_services(config: &SiteConfig) -> Option<String> {
    let is_configured = config.headers.keys().any(|name| name.eq_ignore_ascii_case("alt-svc"));
    let mut ports: Vec<u16> =
        config.listen.iter().filter_map(|address| address.ip()).map(|ip| ip.port()).collect();
    ports.retain(|&port| port != 0);
    ports.sort_unstable();
    ports.dedup();
    if !config.tls.http3 || is_configured || ports.is_empty() {
        return None;
    }
    let services: Vec<String> = ports.iter().map(|port| format!("h3=\":{port}\"; ma=86400")).collect();
    Some(format!("Alt-Svc: {}\r\n", services.join(", ")))
}

fn listener_sites(
    address: ListenAddress,
    sites: &[SiteConfig],
    tls: Option<Arc<TlsEndpoint>>,
) -> ListenerSites {
    let here = || sites.iter().enumerate().filter(move |(_, site)| site.listen.contains(&address));
    let mut hosts = ServerNames::new();
    for (index, site) in here() {
        for host in &site.hosts {
            hosts.entry(host, || index);
        }
    }
    // If no site is for every host, the first site also answers requests for other hosts, as in most servers.
    let any = here().find(|(_, site)| site.hosts.is_empty()).or(here().next()).map(|(index, _)| index);
    let single = here().count() == 1;
    ListenerSites { address, hosts, any, single, tls }
}
