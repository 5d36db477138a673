//! The configuration: what it is once it has been read and checked.
//!
//! These types hold only valid values; reading, defaults, documentation and the refusal of unknown keys are
//! derived from the table in [`keys`].
//!
//! * [`read_file`] and [`parse`] turn a TOML file into a [`Config`], or into every [`ConfigProblem`] that it
//!   has;
//! * [`load_file`] does the same and keeps the [`ConfigPlaces`], so that later problems (a missing root, a
//!   port in use) can be reported with their line and column;
//! * [`quick`] makes the configuration of `touchstone serve --root DIR --listen ADDR:PORT`;
//! * [`documentation_markdown`], [`complete_example`] and [`explain`] write the table out for people.

mod accelerator;
mod access;
mod acme;
mod acme_dns;
mod acme_nats;
mod acme_on_demand;
mod admin;
mod config_reader;
mod control;
mod cors;
mod crawlers;
mod delivery;
mod documentation;
mod forward_auth;
mod geoip;
mod host_address;
mod include;
mod jwt;
pub mod keys;
mod login;
mod logs;
mod maps;
mod names;
mod own_paths;
mod parse;
mod places;
mod roots;
pub mod routes;
mod schema;
mod security_fields;
mod server;
mod signed_link;
mod socket_file;
mod stream;
mod telemetry;
mod unreached;
mod webdav;
mod webdav_rules;

pub use accelerator::AcceleratorConfig;
pub use access::{
    AccessConfig, AnyOf, BasicAuthenticationConfig, ClientField, PasswordSource, ProxiesConfig,
    RateLimitConfig, Satisfy,
};
pub use acme::{AcmeChallenge, AcmeConfig, ExternalAccountConfig};
pub use acme_dns::AcmeDnsConfig;
pub use acme_nats::AcmeNatsConfig;
pub use acme_on_demand::OnDemandConfig;
pub use admin::{AdminConfig, AdminListen};
pub use control::{ControlConfig, Persistence};
pub use cors::CorsConfig;
pub use crawlers::{BotConfig, CHECK_PATH, ChallengedClients, CrawlersConfig};
pub use delivery::{DeliveryConfig, SubstituteConfig};
pub use documentation::{complete_example, documentation_markdown, explain};
pub use forward_auth::ForwardAuthConfig;
pub use geoip::{COUNTRY_FIELD, GeoEntry, GeoIpConfig, GeoRulesConfig, SYSTEM_FIELD};
pub use host_address::host_address;
pub use jwt::{JwtConfig, TOKEN_ALGORITHMS, TokenKeys};
pub use login::{ClientAuthentication, LoginConfig};
pub use names::{names_of_sites, route_name, site_name};
pub use own_paths::{OwnPaths, own_paths};
pub use parse::{
    Omission, load_file, load_server_section, load_sources, load_text, parse, read_file, read_sources,
};
pub use places::ConfigPlaces;
pub use routes::config::{RedirectConfig, RespondConfig, RewriteConfig, RouteConfig};
pub use schema::json_schema;
pub use security_fields::{NONCE, NONCE_FIELD, SecurityFieldsConfig};
pub use server::{ControlSocket, ServerConfig};
pub use signed_link::{SignatureForm, SignedLinkConfig, SignedPart};
pub use socket_file::{SocketFile, listen_addresses, socket_files};
pub use stream::{StreamBalance, StreamCertificate, StreamCheckConfig, StreamConfig, StreamRouteConfig};
pub use touchstone_config_interfaces::cgi::{CgiConfig, parse_umask};
pub use touchstone_config_interfaces::includes::{IncludesConfig, XBitHack};
pub use touchstone_config_interfaces::nsapi::NsapiConfig;
pub use touchstone_config_interfaces::programs::{AjpConfig, ProgramsConfig, Sessions};
pub use touchstone_config_interfaces::proxy::ProxyConfig;
pub use touchstone_config_interfaces::proxy::tables::{
    ProxyCheckConfig, ProxyForwardConfig, ProxyHealthConfig, ProxyRetryConfig,
};
pub use touchstone_config_interfaces::python::PythonConfig;
pub use touchstone_config_interfaces::servlet::{JavaConfig, ServletConfig};
pub use touchstone_config_section::account_name::check_name as check_account_name;
pub use touchstone_config_section::reader::Source;
pub use touchstone_config_section::{
    ConfigProblem, KeyPlaces, ListenAddress, Place, SectionPlaces, UnixSocketName,
};
pub use touchstone_expression::network::{Network, NetworkMap, NetworkSet};
pub use unreached::unreached_routes;
pub use webdav::WebDavConfig;

pub use telemetry::{AcceptParent, Millionths, TelemetryConfig, TelemetryProtocol, TraceConfig};
pub use touchstone_config_interfaces::wasm::{WasmConfig, directory as wasm_directory};
pub use touchstone_observe::log::{AccessLogConfig, ErrorLogConfig, LogDestination, LogLevel};
pub use touchstone_observe::log_line::LineFormat as AccessLogFormat;
pub use touchstone_observe::request_id::{AcceptRequestId, RequestIdConfig};
pub use touchstone_tls::{ClientCertificateMode, MaximumVersion, MinimumVersion};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use touchstone_config_interfaces::proxy::PROXY;
use touchstone_config_section::values;
use touchstone_expression::Maps;
use touchstone_http::content_coding::ContentCoding;
use touchstone_http::path::PathRules;

/// A whole configuration, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `[server]`
    pub server: ServerConfig,
    /// `[limits]`
    pub limits: LimitsConfig,
    /// `[cache]`
    pub cache: CacheConfig,
    /// `[accelerator]`
    pub accelerator: AcceleratorConfig,
    /// `[access_log]`
    pub access_log: AccessLogConfig,
    /// `[error_log]`
    pub error_log: ErrorLogConfig,
    /// `[proxies]`
    pub proxies: ProxiesConfig,
    /// `[acme]`
    pub acme: AcmeConfig,
    /// `[geoip]`
    pub geoip: GeoIpConfig,
    /// `[request_id]`
    pub request_id: RequestIdConfig,
    /// `[telemetry]`
    pub telemetry: TelemetryConfig,
    /// `[admin]`
    pub admin: AdminConfig,
    /// `[control]`
    pub control: ControlConfig,
    /// `[java]`
    pub java: JavaConfig,
    /// `[[map]]`
    pub maps: Maps,
    /// `[[site]]`; at least one, unless there are streams.
    pub sites: Vec<SiteConfig>,
    /// `[[stream]]`
    pub streams: Vec<StreamConfig>,
    /// Its own files, and those that its keys name, which no site gives out; [`own_paths`] adds the others.
    pub own_files: Vec<PathBuf>,
}

/// A configuration and the places of its parts.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigWithPlaces {
    /// The configuration.
    pub config: Config,
    /// The places of its values, for problems that show only later.
    pub places: ConfigPlaces,
}

/// `[limits]`: the limits of one client.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitsConfig {
    /// Longest request line, bytes (414).
    pub request_line_bytes: usize,
    /// Longest header section, bytes (431).
    pub header_bytes: usize,
    /// Most header fields (431).
    pub header_fields: usize,
    /// Largest request body, bytes (413).
    pub body_bytes: u64,
    /// Most ranges in one Range field; more, and the field is ignored.
    pub ranges: usize,
    /// From the first wait to a complete header section (408).
    pub header_timeout: Duration,
    /// Between two requests on a kept connection.
    pub keep_alive_timeout: Duration,
    /// Without progress while a body is read (408) or an answer is written.
    pub stall_timeout: Duration,
    /// Requests on one connection; 0: no limit.
    pub keep_alive_requests: u64,
    /// Connections open at a time, all cores together.
    pub connections: usize,
    /// Connections that one client may have open at a time; 0: no limit.
    pub connections_per_client: u64,
    /// Active requests on one HTTP/3 connection.
    pub http3_streams: u32,
    /// Active HTTP/3 handshakes on one core without a proof of the client's address.
    pub http3_unvalidated_handshakes: usize,
    /// The rate in bytes a second that a body must have after the stall timeout; 0: any progress is enough.
    pub minimum_receive_rate: u64,
    /// Bytes a second that an answer must be taken with; the same.
    pub minimum_send_rate: u64,
}

/// `[cache]`: the memory cache of whole responses (the FastTrack and Enterprise servers' `cache-init`).
#[derive(Debug, Clone, PartialEq)]
pub struct CacheConfig {
    /// Off: every answer is read from the file.
    pub enabled: bool,
    /// Most files (MaxNumberOfCachedFiles).
    pub files: usize,
    /// Most bytes, all files together (MaxTotalCachedFileSize); `None`: derived from the available memory.
    pub bytes: Option<u64>,
    /// Largest file (MaxCachedFileSize).
    pub file_bytes: u64,
    /// Most bytes of parsed pages.
    pub parsed_bytes: u64,
    /// Most bytes of earlier versions of files, with which later ones are compressed.
    pub dictionary_bytes: u64,
}

/// `[[site]]`: hosts with their listeners and what answers them.
#[derive(Debug, Clone, PartialEq)]
pub struct SiteConfig {
    /// Host names that it answers; empty: any that no other site names.
    pub hosts: Vec<String>,
    /// Addresses to listen on.
    pub listen: Vec<ListenAddress>,
    /// The files of the unix sockets among them.
    pub socket_file: SocketFile,
    /// HTTPS on those addresses.
    pub tls: TlsConfig,
    /// The directory that is served; `None`: no files are served, except those of routes with their own.
    pub root: Option<PathBuf>,
    /// Names tried in turn for a directory.
    pub index: Vec<String>,
    /// The permitted targets of symbolic links.
    pub symlinks: SymlinkPolicy,
    /// What is done about `.htaccess` files.
    pub htaccess: HtaccessPolicy,
    /// Serve names that begin with a dot (`/.well-known/` always is).
    pub hidden_files: bool,
    /// Send paths on with one slash for several.
    pub merge_slashes: bool,
    /// Refuse paths with an escaped slash, tab or line end for every interface.
    pub refuse_escapes: bool,
    /// Content types by file name ending, before the built-in table.
    pub mime_types: BTreeMap<String, String>,
    /// Charset to add to text types; empty: none.
    pub charset: String,
    /// `Cache-Control` of every file; empty: none.
    pub cache_control: String,
    /// Send compressed files from the directory of a file.
    pub precompressed: bool,
    /// Content codings in which files are compressed, the preferred one first.
    pub compression: Vec<ContentCoding>,
    /// The level of each content coding, by [`ContentCoding`].
    pub compression_levels: [u8; 3],
    /// Which files are dictionaries for later versions.
    pub dictionaries: Vec<String>,
    /// How a directory without an index file is listed.
    pub listing: DirectoryListing,
    /// Most entries of a listing.
    pub listing_entries: usize,
    /// The file that answers for paths that are not found; empty: none.
    pub fallback: String,
    /// Files that are the bodies of errors, by status.
    pub error_pages: BTreeMap<u16, String>,
    /// Errors of programs and origins get these pages, too.
    pub intercept_errors: bool,
    /// The largest body of a request; 0: the limit of the server.
    pub body_bytes: u64,
    /// Fields of every answer.
    pub headers: BTreeMap<String, String>,
    /// Fields that protect visitors; `None`: not set here.
    pub security_fields: Option<SecurityFieldsConfig>,
    /// Scripts of which other sites may read answers; `None`: not set here.
    pub cors: Option<CorsConfig>,
    /// Pages with directives; `None`: there are none.
    pub includes: Option<IncludesConfig>,
    /// The log of its requests; `None`: that of the server.
    pub access_log: Option<AccessLogConfig>,
    /// The log of problems with them; `None`: that of the server.
    pub error_log: Option<ErrorLogConfig>,
    /// How many of its requests are traced; `None`: there is no collector.
    pub telemetry: Option<TraceConfig>,
    /// How its answers are delivered.
    pub delivery: DeliveryConfig,
    /// The clients that are admitted.
    pub access: AccessConfig,
    /// What it does differently for some requests.
    pub routes: Vec<RouteConfig>,
    /// The maps of the configuration; `None`: they are not read yet.
    pub maps: Option<Maps>,
    /// What `.htaccess` files say; no key sets it.
    pub htaccess_rules: HtaccessRules,
}

impl SiteConfig {
    /// How the paths of its requests are read.
    pub fn path_rules(&self) -> PathRules {
        PathRules { keep_slashes: !self.merge_slashes, refuse_escapes: self.refuse_escapes }
    }
}

/// HTTPS of a site.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsConfig {
    /// The certificate is issued by ACME.
    pub acme: bool,
    /// Each name gets its certificate at its first handshake.
    pub on_demand: bool,
    /// The certificate with the chain to its authority, PEM.
    pub certificate: Option<PathBuf>,
    /// Its private key, PEM; none: in the same file.
    pub key: Option<PathBuf>,
    /// A certificate that is generated at the start instead.
    pub development_certificate: bool,
    /// The oldest version that is negotiated.
    pub minimum_version: MinimumVersion,
    /// The newest version that is negotiated.
    pub maximum_version: MaximumVersion,
    /// HTTP/3 on the same addresses.
    pub http3: bool,
    /// The authorities whose client certificates are trusted, PEM.
    pub client_authorities: Option<PathBuf>,
    /// Whether clients without a certificate are admitted.
    pub client_certificate: ClientCertificateMode,
}

impl TlsConfig {
    /// True when the site serves HTTPS.
    pub fn is_on(&self) -> bool {
        self.certificate.is_some() || self.acme || self.development_certificate
    }
}

/// How a directory without an index file is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectoryListing {
    /// Not at all.
    Off,
    /// As a page.
    Html,
    /// As a JSON array.
    Json,
    /// As the Accept field prefers.
    Auto,
}

/// How `.htaccess` files below the directories of a site are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HtaccessPolicy {
    /// They are named at the start, and the requests that they forbid are refused.
    Refuse,
    /// They have no effect.
    Ignore,
}

/// What was taken from `.htaccess` files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HtaccessRules {
    /// How many routes refuse what they forbid; these are the first ones of the site.
    pub routes: usize,
    /// Whether directories without an index file may be listed: beginnings of paths, with a slash at the end.
    pub lists: Vec<(Vec<u8>, bool)>,
}

/// The permitted targets of symbolic links below a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SymlinkPolicy {
    /// Only to places inside the root.
    Inside,
    /// Anywhere.
    Anywhere,
}

/// The configuration of the quick form: one site for every host, where `*.shtml` is parsed and `cgi-bin`
/// holds programs, and the default of every other key.
///
/// Relative paths are used as they are, so relative to the current directory.
pub fn quick(root: PathBuf, listen: ListenAddress) -> Config {
    let site = SiteConfig {
        includes: Some(IncludesConfig::default()),
        routes: quick_routes(&root),
        ..SiteConfig::new(Some(root), vec![listen])
    };
    of_site(site)
}

/// The configuration of one site, with the default of every other key.
fn of_site(site: SiteConfig) -> Config {
    Config {
        server: ServerConfig::default(),
        limits: LimitsConfig::default(),
        cache: CacheConfig::default(),
        accelerator: AcceleratorConfig::default(),
        access_log: logs::ACCESS_LOG.defaults(),
        error_log: logs::ERROR_LOG.defaults(),
        proxies: ProxiesConfig::default(),
        geoip: GeoIpConfig::default(),
        request_id: admin::REQUEST_ID.defaults(),
        telemetry: TelemetryConfig::default(),
        admin: AdminConfig::default(),
        control: ControlConfig::default(),
        java: JavaConfig::default(),
        acme: AcmeConfig::default(),
        maps: Maps::default(),
        sites: vec![site],
        streams: Vec::new(),
        own_files: Vec::new(),
    }
}

/// Reads a size from a command line: as in a file, but a plain number needs no quotes.
pub fn parse_size_text(text: &str) -> Result<u64, String> {
    text.parse().or_else(|_| values::parse_size(text))
}

/// Reads a destination of a log from a command line: as in a file.
pub fn parse_log_destination_text(text: &str) -> Result<LogDestination, String> {
    values::parse_log_destination(text, Path::new(""))
}

/// Reads a duration from a command line: as in a file.
pub fn parse_duration_text(text: &str) -> Result<Duration, String> {
    values::parse_duration(text)
}

/// The configuration of `touchstone accelerate`: every request of every host is sent to one origin, through
/// the cache.
pub fn accelerate(origin: String, listen: ListenAddress) -> Config {
    let proxy = ProxyConfig { to: vec![origin], ..PROXY.defaults() };
    let route = RouteConfig { proxy: Some(proxy), cache: Some(Default::default()), ..RouteConfig::default() };
    of_site(SiteConfig { routes: vec![route], ..SiteConfig::new(None, vec![listen]) })
}

/// The routes of the quick form: programs in `cgi-bin` of the root, if that directory exists.
fn quick_routes(root: &Path) -> Vec<RouteConfig> {
    let programs = || RouteConfig {
        path: "/cgi-bin/".to_string(),
        cgi: Some(CgiConfig::default()),
        ..RouteConfig::default()
    };
    root.join("cgi-bin").is_dir().then(programs).into_iter().collect()
}

impl SiteConfig {
    /// A site for every host, with the default of every other key.
    pub fn new(root: Option<PathBuf>, listen: Vec<ListenAddress>) -> SiteConfig {
        SiteConfig { root, listen, ..keys::SITE.defaults() }
    }
}

impl Default for LimitsConfig {
    fn default() -> LimitsConfig {
        keys::LIMITS.defaults()
    }
}

impl Default for CacheConfig {
    fn default() -> CacheConfig {
        keys::CACHE.defaults()
    }
}
