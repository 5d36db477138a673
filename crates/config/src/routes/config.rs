//! `[[site.route]]`: what a site does differently for some requests.

use std::collections::BTreeMap;
use std::path::PathBuf;

use touchstone_accelerator::rules::policy::Policy;
use touchstone_config_section::reader::{Reader, Value};
use touchstone_config_section::{ABSENT, Choice, Key, Kind, Section, SectionPlaces, values};
use touchstone_expression::{AvailableFrom, Condition, Maps};
use touchstone_http::content_coding::ContentCoding;
use touchstone_route::RouteTarget;

use crate::accelerator::CACHE_OF_ROUTE;
use crate::access::{self, AccessConfig};
use crate::cors::{self, CorsConfig};
use crate::crawlers;
use crate::forward_auth;
use crate::geoip;
use crate::jwt;
use crate::login;
use crate::security_fields::{self, SecurityFieldsConfig};
use crate::webdav::{WEBDAV, WebDavConfig};
use crate::{
    AccessLogConfig, DeliveryConfig, DirectoryListing, ErrorLogConfig, SiteConfig, TraceConfig, delivery,
    logs, routes, signed_link, telemetry,
};
use touchstone_config_interfaces::cgi::{CGI, CgiConfig};
use touchstone_config_interfaces::includes::{INCLUDES, IncludesConfig};
use touchstone_config_interfaces::nsapi::{NSAPI, NsapiConfig};
use touchstone_config_interfaces::programs::ProgramsConfig;
use touchstone_config_interfaces::programs::ajp::AJP;
use touchstone_config_interfaces::programs::fastcgi::{FASTCGI, SCGI, UWSGI, read_php};
use touchstone_config_interfaces::proxy::{PROXY, ProxyConfig};
use touchstone_config_interfaces::python::{PYTHON, PythonConfig};
use touchstone_config_interfaces::servlet::{SERVLET, ServletConfig};
use touchstone_config_interfaces::wasm::{MIDDLEWARE, WASM, WasmConfig};

/// `[[site.route]]`: which requests, and what is done with them.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteConfig {
    /// A path, a prefix of paths, or a path with wildcards; empty: any.
    pub path: String,
    /// A regular expression for the whole path; empty: any.
    pub pattern: String,
    /// Suffixes of the path; empty: any.
    pub suffixes: Vec<String>,
    /// Methods; empty: any.
    pub methods: Vec<String>,
    /// Header fields that the request must have, with their values.
    pub request_headers: BTreeMap<String, String>,
    /// A condition that must hold.
    pub when: Option<Condition>,
    /// Answered with a redirect to another address.
    pub redirect: Option<RedirectConfig>,
    /// Answered as if the client had requested another path.
    pub rewrite: Option<RewriteConfig>,
    /// Answered with this status and body.
    pub respond: Option<RespondConfig>,
    /// Answered by CGI programs.
    pub cgi: Option<CgiConfig>,
    /// Answered by FastCGI programs.
    pub fastcgi: Option<ProgramsConfig>,
    /// Answered by SCGI programs.
    pub scgi: Option<ProgramsConfig>,
    /// Answered by programs of a uWSGI server.
    pub uwsgi: Option<ProgramsConfig>,
    /// Answered by servlet containers.
    pub ajp: Option<ProgramsConfig>,
    /// Answered by PHP scripts.
    pub php: Option<ProgramsConfig>,
    /// Answered by another server.
    pub proxy: Option<ProxyConfig>,
    /// How its answers are cached.
    pub cache: Option<Policy>,
    /// Answered by plug-ins.
    pub nsapi: Option<NsapiConfig>,
    /// Answered by Java applications.
    pub servlet: Option<ServletConfig>,
    /// Answered by a WebAssembly component.
    pub wasm: Option<WasmConfig>,
    /// Components that run before the action of the route, in this order.
    pub middleware: Vec<WasmConfig>,
    /// Answered by a Python application.
    pub python: Option<PythonConfig>,
    /// Its files may be listed and changed.
    pub webdav: Option<WebDavConfig>,
    /// Files below another directory.
    pub root: Option<PathBuf>,
    /// The directory that replaces the beginning of the path.
    pub alias: Option<PathBuf>,
    /// Files that are served instead of the program's answer, if they exist.
    pub try_files: Vec<String>,
    /// File names for a directory; empty: those of the site.
    pub index: Vec<String>,
    /// How a directory is listed; `None`: as in the site.
    pub listing: Option<DirectoryListing>,
    /// The file for paths that are not found; empty: that of the site; [`NO_FALLBACK`]: none.
    pub fallback: String,
    /// The Cache-Control field of its files; empty: that of the site.
    pub cache_control: String,
    /// Pages of errors, before those of the site.
    pub error_pages: BTreeMap<u16, String>,
    /// Errors of its program or origin get these pages, too.
    pub intercept_errors: bool,
    /// The largest body of a request; 0: that of the site.
    pub body_bytes: u64,
    /// Which of its files and answers are pages with directives.
    pub includes: Option<IncludesConfig>,
    /// Header fields that the answer gets.
    pub headers: BTreeMap<String, String>,
    /// Values of Link that are sent before an answer that takes time.
    pub early_hints: Vec<String>,
    /// Fields that protect visitors; `None`: those of the site.
    pub security_fields: Option<SecurityFieldsConfig>,
    /// Scripts of which other sites may read answers; `None`: as in the site.
    pub cors: Option<CorsConfig>,
    /// The log of its requests; `None`: that of the site.
    pub access_log: Option<AccessLogConfig>,
    /// The log of problems with them; `None`: that of the site.
    pub error_log: Option<ErrorLogConfig>,
    /// How many of its requests are traced; `None`: that of its site.
    pub telemetry: Option<TraceConfig>,
    /// The content codings in which its answers are compressed; `None`: those of the site.
    pub compression: Option<Vec<ContentCoding>>,
    /// How its answers are delivered, where that is not as in the site.
    pub delivery: DeliveryConfig,
    /// Which clients are admitted.
    pub access: AccessConfig,
    /// The maps of the configuration; `None`: they are not read yet.
    pub maps: Option<Maps>,
}

impl delivery::HasDelivery for RouteConfig {
    fn delivery(&mut self) -> &mut DeliveryConfig {
        &mut self.delivery
    }
}

/// The value of `fallback` that switches off that of the site.
pub const NO_FALLBACK: &str = "none";

impl RouteConfig {
    /// Whether a program or another server answers its requests.
    pub fn has_program(&self) -> bool {
        self.proxy.is_some()
            || self.cgi.is_some()
            || self.fastcgi.is_some()
            || self.scgi.is_some()
            || self.uwsgi.is_some()
            || self.php.is_some()
            || self.ajp.is_some()
            || self.nsapi.is_some()
            || self.servlet.is_some()
            || self.wasm.is_some()
            || self.python.is_some()
    }

    /// The directory in which whole paths are looked up: its own, or that of its site.
    pub fn root_in<'r>(&'r self, site: &'r SiteConfig) -> Option<&'r PathBuf> {
        self.root.as_ref().or(site.root.as_ref())
    }

    /// Whether its files are served differently from those of the site.
    pub fn has_own_files(&self) -> bool {
        self.root.is_some()
            || self.alias.is_some()
            || self.includes.is_some()
            || !self.index.is_empty()
            || self.listing.is_some()
            || !self.fallback.is_empty()
            || !self.cache_control.is_empty()
            || self.compression.is_some()
    }

    /// The path and query for a program or an origin, of this text with variables.
    ///
    /// # Errors
    /// The problem of the text.
    pub fn target(&self, text: &str) -> Result<RouteTarget, String> {
        RouteTarget::new(text, (&self.path, &self.pattern), self.maps.as_ref().map(|maps| maps as _))
    }

    /// The texts of which targets are made, with their keys.
    pub fn targets(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let fronts = [
            ("fastcgi.front_controller", &self.fastcgi),
            ("scgi.front_controller", &self.scgi),
            ("uwsgi.front_controller", &self.uwsgi),
            ("php.front_controller", &self.php),
        ];
        let fronts = fronts.into_iter().filter_map(|(key, programs)| Some((key, programs.as_ref()?)));
        let fronts = fronts.filter(|(_, programs)| programs.has_front_query());
        let path = self.proxy.iter().filter(|proxy| !proxy.path.is_empty());
        fronts
            .map(|(key, programs)| (key, programs.front_controller.as_str()))
            .chain(path.map(|proxy| ("proxy.path", proxy.path.as_str())))
    }

    /// The site with the route's own settings of files, and without rules.
    pub fn files_of(&self, site: &SiteConfig) -> SiteConfig {
        let or = |own: &String, other: &String| if own.is_empty() { other.clone() } else { own.clone() };
        // The fallback of a site is a path in the site, not below an alias.
        let fallback = if self.alias.is_some() { String::new() } else { site.fallback.clone() };
        let fallback = or(&self.fallback, &fallback);
        SiteConfig {
            root: self.alias.as_ref().or(self.root_in(site)).cloned(),
            includes: self.includes.clone().or(site.includes.clone()),
            index: if self.index.is_empty() { site.index.clone() } else { self.index.clone() },
            listing: self.listing.unwrap_or(site.listing),
            fallback: if fallback == NO_FALLBACK { String::new() } else { fallback },
            cache_control: or(&self.cache_control, &site.cache_control),
            compression: self.compression.clone().unwrap_or_else(|| site.compression.clone()),
            security_fields: None,
            cors: None,
            delivery: DeliveryConfig::default(),
            access: AccessConfig::default(),
            routes: Vec::new(),
            ..site.clone()
        }
    }
}

/// `redirect`
#[derive(Debug, Clone, PartialEq)]
pub struct RedirectConfig {
    /// Where to, with variables.
    pub to: String,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
}

/// `rewrite`
#[derive(Debug, Clone, PartialEq)]
pub struct RewriteConfig {
    /// The new path, with variables.
    pub to: String,
}

/// `respond`
#[derive(Debug, Clone, PartialEq)]
pub struct RespondConfig {
    /// The status.
    pub status: u16,
    /// The body; empty: the page of the status if that is an error, otherwise none.
    pub body: String,
    /// Its media type.
    pub content_type: String,
}

impl Default for RouteConfig {
    fn default() -> RouteConfig {
        ROUTE.defaults()
    }
}

/// `[[site.route]]`
pub static ROUTE: Section<RouteConfig> = Section {
    name: "site.route",
    repeated: true,
    documentation: "What the site does differently for some requests. \
        The routes of a site are tried in order, and the first that matches counts; so routes that refuse \
        clients belong first. A route matches if all its conditions hold. A site may have any number of \
        routes, written after its own keys.",
    blank: || RouteConfig {
        path: String::new(),
        pattern: String::new(),
        suffixes: Vec::new(),
        methods: Vec::new(),
        request_headers: BTreeMap::new(),
        when: None,
        redirect: None,
        rewrite: None,
        respond: None,
        cgi: None,
        fastcgi: None,
        scgi: None,
        uwsgi: None,
        php: None,
        ajp: None,
        proxy: None,
        cache: None,
        nsapi: None,
        servlet: None,
        wasm: None,
        middleware: Vec::new(),
        python: None,
        webdav: None,
        root: None,
        alias: None,
        try_files: Vec::new(),
        index: Vec::new(),
        listing: None,
        fallback: String::new(),
        cache_control: String::new(),
        error_pages: BTreeMap::new(),
        intercept_errors: false,
        body_bytes: 0,
        includes: None,
        headers: BTreeMap::new(),
        early_hints: Vec::new(),
        security_fields: None,
        cors: None,
        access_log: None,
        error_log: None,
        telemetry: None,
        compression: None,
        delivery: DeliveryConfig::default(),
        access: AccessConfig::default(),
        maps: None,
    },
    keys: &[
        Key {
            name: "path",
            default: Some(ABSENT),
            example: "\"/old/\"",
            documentation: "The path: `\"/a\"` is that path alone, `\"/a/\"` is that path and all below it, \
                and `\"=/a/\"` is `/a/` alone. As wildcards, `*` matches any text without a slash, and `**` \
                matches any text. Percent escapes and `..` in a request are resolved before the comparison. \
                Without it: any path.",
            kind: Kind::Checked {
                what: "path, with `*` and `**` as wildcards",
                parse: |text, _| routes::check_path(text).map(|()| text.to_string()),
                set: |route, value| route.path = value,
            },
        },
        Key {
            name: "pattern",
            default: Some(ABSENT),
            example: "\"/old/([0-9]+)(/.*)?\"",
            documentation: "A regular expression for the whole path, instead of `path`. \
                It has the syntax of the Rust crate regex, which takes linear time, and works on bytes: \
                `\\w` and similar classes are ASCII.",
            kind: Kind::Checked {
                what: "regular expression",
                parse: |text, _| routes::check_pattern(text).map(|()| text.to_string()),
                set: |route, value| route.pattern = value,
            },
        },
        Key {
            name: "suffixes",
            default: Some("[]"),
            example: "[\".html\", \"/\"]",
            documentation: "Endings, one of which the path must have. Empty: any.",
            kind: Kind::CheckedArray {
                what: "array of endings of paths",
                parse: |text| match text {
                    "" => Err("an empty string is the ending of every path; omit 'suffixes'".to_string()),
                    _ => Ok(text.to_string()),
                },
                set: |route, value| route.suffixes = value,
            },
        },
        Key {
            name: "methods",
            default: Some("[]"),
            example: "[\"GET\"]",
            documentation: "The methods, one of which the request must have. GET includes HEAD. Empty: any.",
            kind: Kind::CheckedArray {
                what: "array of methods",
                parse: values::parse_method,
                set: |route, value| route.methods = value,
            },
        },
        Key {
            name: "request_headers",
            default: Some("{}"),
            example: "{ X-Beta = \"*\", Accept = \"*image/avif*\" }",
            documentation: "Header fields that the request must have, with their values, in which `*` \
                matches any text; the case of letters is ignored. `\"*\"` alone: the field is present. \
                `\"\"`: it is absent or empty.",
            kind: Kind::Fields {
                what: "table from names of header fields to values",
                check: |_, _| Ok(()),
                set: |route, value| route.request_headers = value,
            },
        },
        Key {
            name: "when",
            default: Some("\"\""),
            example: "'$cookie{beta} == \"1\" and $tls_version != \"TLSv1.2\"'",
            documentation: "A [condition](expressions.md) on the request and its connection that must hold. \
                Empty: none.",
            kind: Kind::Checked {
                what: "condition",
                parse: |text, _| values::check_condition(text, AvailableFrom::Connection),
                set: |route, value| route.when = Condition::read(&value, AvailableFrom::Connection).ok(),
            },
        },
        Key {
            name: "redirect",
            default: Some(ABSENT),
            example: "{ to = \"/new/$1\", status = 308 }",
            documentation: "Sends the client to another address, see `[site.route.redirect]`. \
                Not together with `rewrite`, `respond` or `root`.",
            kind: Kind::Table {
                read: |reader, value, route| reader.table_into(&REDIRECT, value, &mut route.redirect),
            },
        },
        Key {
            name: "rewrite",
            default: Some(ABSENT),
            example: "{ to = \"/new/$1\" }",
            documentation: "Answers as if the client had requested another path, see `[site.route.rewrite]`. \
                Not together with `redirect` or `respond`.",
            kind: Kind::Table {
                read: |reader, value, route| reader.table_into(&REWRITE, value, &mut route.rewrite),
            },
        },
        Key {
            name: "respond",
            default: Some(ABSENT),
            example: "{ status = 410 }",
            documentation: "Answers with a status and a text, see `[site.route.respond]`. \
                Not together with `redirect`, `rewrite` or `root`.",
            kind: Kind::Table {
                read: |reader, value, route| reader.table_into(&RESPOND, value, &mut route.respond),
            },
        },
        Key {
            name: "cgi",
            default: Some(ABSENT),
            example: "{ user = \"www-data\" }",
            documentation: "Answers with CGI programs, see `[site.route.cgi]`. Together with `nsapi` it sets \
                how the programs of an obj.conf run. Not together with `redirect`, `rewrite` or `respond`.",
            kind: Kind::Table { read: |reader, value, route| reader.table_into(&CGI, value, &mut route.cgi) },
        },
        Key {
            name: "fastcgi",
            default: Some(ABSENT),
            example: "{ backends = [\"unix:/run/app.sock\"] }",
            documentation: "Answers with FastCGI programs, see `[site.route.fastcgi]`. \
                Not together with `redirect`, `rewrite`, `respond` or other programs.",
            kind: Kind::Table {
                read: |reader, value, route| reader.table_into(&FASTCGI, value, &mut route.fastcgi),
            },
        },
        Key {
            name: "scgi",
            default: Some(ABSENT),
            example: "{ backends = [\"127.0.0.1:4000\"] }",
            documentation: "Answers with SCGI programs, see `[site.route.scgi]`. \
                Not together with `redirect`, `rewrite`, `respond` or other programs.",
            kind: Kind::Table {
                read: |reader, value, route| reader.table_into(&SCGI, value, &mut route.scgi),
            },
        },
        Key {
            name: "uwsgi",
            default: Some(ABSENT),
            example: "{ backends = [\"unix:/run/uwsgi/app.sock\"] }",
            documentation: "Answers with programs of a uWSGI server, see `[site.route.uwsgi]`. \
                Not together with `redirect`, `rewrite`, `respond` or other programs.",
            kind: Kind::Table {
                read: |reader, value, route| reader.table_into(&UWSGI, value, &mut route.uwsgi),
            },
        },
        Key {
            name: "php",
            default: Some(ABSENT),
            example: "{ backends = [\"unix:/run/php/php-fpm.sock\"] }",
            documentation: "Answers with PHP scripts, see `[site.route.php]`; the address of a php-fpm or \
                `\"managed\"` may replace the table, with the defaults for all other keys. Not together with \
                `redirect`, `rewrite`, `respond` or other programs.",
            kind: Kind::Table { read: |reader, value, route| read_php(reader, value, &mut route.php) },
        },
        Key {
            name: "ajp",
            default: Some(ABSENT),
            example: "{ backends = [\"127.0.0.1:8009\"], secret_file = \"ajp.secret\" }",
            documentation: "Answers with servlet containers, see `[site.route.ajp]`. \
                Not together with `redirect`, `rewrite`, `respond` or other programs.",
            kind: Kind::Table { read: |reader, value, route| reader.table_into(&AJP, value, &mut route.ajp) },
        },
        Key {
            name: "proxy",
            default: Some(ABSENT),
            example: "{ to = \"http://127.0.0.1:3000\" }",
            documentation: "Another server answers, see `[site.route.proxy]`. \
                Not together with `redirect`, `respond` or `root`.",
            kind: Kind::Table {
                read: |reader, value, route| reader.table_into(&PROXY, value, &mut route.proxy),
            },
        },
        Key {
            name: "cache",
            default: Some(ABSENT),
            example: "{ stale_while_revalidate = \"10s\" }",
            documentation: "The answers of a program or of another server are cached, see \
                `[site.route.cache]`. Together with `proxy`, `cgi`, `fastcgi`, `scgi`, `uwsgi`, \
                `php`, `ajp`, `nsapi` or `wasm`.",
            kind: Kind::Table {
                read: |reader, value, route| reader.table_into(&CACHE_OF_ROUTE, value, &mut route.cache),
            },
        },
        Key {
            name: "nsapi",
            default: Some(ABSENT),
            example: "{ obj_conf = \"config/obj.conf\" }",
            documentation: "Plug-ins answer, see `[site.route.nsapi]`. \
                Not together with `redirect`, `rewrite` or `respond`.",
            kind: Kind::Table {
                read: |reader, value, route| reader.table_into(&NSAPI, value, &mut route.nsapi),
            },
        },
        Key {
            name: "servlet",
            default: Some(ABSENT),
            example: "{ app = \"shop.war\" }",
            documentation: "Java web applications answer, see `[site.route.servlet]`. \
                Not together with `redirect`, `rewrite`, `respond` or `root`.",
            kind: Kind::Table {
                read: |reader, value, route| reader.table_into(&SERVLET, value, &mut route.servlet),
            },
        },
        Key {
            name: "wasm",
            default: Some(ABSENT),
            example: "{ component = \"hello.wasm\" }",
            documentation: "A WebAssembly component answers, see `[site.route.wasm]`. \
                Not together with `redirect`, `rewrite`, `respond` or `root`.",
            kind: Kind::Table {
                read: |reader, value, route| reader.table_into(&WASM, value, &mut route.wasm),
            },
        },
        Key {
            name: "middleware",
            default: Some(ABSENT),
            example: "[{ component = \"auth.wasm\" }]",
            documentation: "WebAssembly components that run before the action of the route, in this order, \
                see `[[site.route.middleware]]`. Not together with `redirect`, `rewrite` or `respond`.",
            kind: Kind::Tables { read: read_middleware },
        },
        Key {
            name: "python",
            default: Some(ABSENT),
            example: "{ app = \"shop.wsgi:application\" }",
            documentation: "A Python application answers, see `[site.route.python]`. \
                Not together with `redirect`, `rewrite`, `respond` or `root`.",
            kind: Kind::Table {
                read: |reader, value, route| reader.table_into(&PYTHON, value, &mut route.python),
            },
        },
        Key {
            name: "webdav",
            default: Some(ABSENT),
            example: "{ write = true }",
            documentation: "Clients list the route's files, and may change them, see `[site.route.webdav]`. \
                Not together with `redirect`, `rewrite`, `respond` or a program.",
            kind: Kind::Table {
                read: |reader, value, route| reader.table_into(&WEBDAV, value, &mut route.webdav),
            },
        },
        Key {
            name: "root",
            default: Some("\"\""),
            example: "\"downloads\"",
            documentation: "The directory of the route's files, instead of the site's. \
                The whole path is looked up there, as in the site's root. Empty: the site's root.",
            kind: Kind::File(|route, value| route.root = value),
        },
        Key {
            name: "alias",
            default: Some(ABSENT),
            example: "\"/usr/share/doc\"",
            documentation: "The directory that replaces the beginning of the path, as in nginx and Apache: \
                with `path = \"/doc/\"`, `/doc/a.html` is the file `a.html` of the directory. `path` must \
                end with a slash. Not together with `root`, `rewrite`, a program or another server.",
            kind: Kind::File(|route, value| route.alias = value),
        },
        Key {
            name: "try_files",
            default: Some("[]"),
            example: "[\"$path\", \"$path/\"]",
            documentation: "Files that are tried before the route's program or other server: the first that \
                exists is the answer to a GET or HEAD. They are paths below the route's `root` or that of \
                the site, with the variables of `redirect`. A path that ends with a slash is a directory \
                with an index file. Not together with `php`, `cgi` or `nsapi`, which search for files \
                themselves.",
            kind: Kind::CheckedArray {
                what: "array of paths with variables",
                parse: |text| Ok(text.to_string()),
                set: |route, value| route.try_files = value,
            },
        },
        Key {
            name: "index",
            default: Some("[]"),
            example: "[\"index.html\", \"index.htm\"]",
            documentation: "The file names that are tried in turn for a directory. Empty: those of the site.",
            kind: Kind::FileNames(|route, value| route.index = value),
        },
        Key {
            name: "listing",
            default: Some("\"site\""),
            example: "\"html\"",
            documentation: "How a directory without an index file is listed.",
            kind: Kind::Choice(&[
                Choice {
                    word: "site",
                    meaning: "the setting of the \
                    site",
                    set: |route| route.listing = None,
                },
                Choice {
                    word: "off",
                    meaning: "not at all: 403 Forbidden",
                    set: |route| route.listing = Some(DirectoryListing::Off),
                },
                Choice {
                    word: "html",
                    meaning: "as a page for people",
                    set: |route| route.listing = Some(DirectoryListing::Html),
                },
                Choice {
                    word: "json",
                    meaning: "as JSON",
                    set: |route| route.listing = Some(DirectoryListing::Json),
                },
                Choice {
                    word: "auto",
                    meaning: "as the client's Accept field prefers",
                    set: |route| route.listing = Some(DirectoryListing::Auto),
                },
            ]),
        },
        Key {
            name: "fallback",
            default: Some("\"\""),
            example: "\"/app/index.html\"",
            documentation: "The file that answers for a path that is not found, as `fallback` of the site \
                does. Empty: that of the site. `\"none\"`: none.",
            kind: Kind::Checked {
                what: "path that begins with `/`, `none`, or empty",
                parse: |text, _| match text {
                    NO_FALLBACK => Ok(text.to_string()),
                    _ => values::parse_site_path_or_empty(text),
                },
                set: |route, value| route.fallback = value,
            },
        },
        Key {
            name: "cache_control",
            default: Some("\"\""),
            example: "\"public, max-age=31536000, immutable\"",
            documentation: "The Cache-Control field of every file of the route. Empty: the setting of the \
                site.",
            kind: Kind::HeaderValue(|route, value| route.cache_control = value),
        },
        Key {
            name: "compression",
            default: Some(ABSENT),
            example: "[\"gzip\"]",
            documentation: "The content codings in which the answers of the route are compressed, as \
                `compression` of the site; `[]`: they are not. Without it: the setting of the site.",
            kind: Kind::ContentCodings(|route, value| route.compression = Some(value)),
        },
        Key {
            name: "error_pages",
            default: Some("{}"),
            example: "{ 502 = \"/errors/starting.html\" }",
            documentation: "Files of the site that are sent as the body of an error, by its status, before \
                those that the site names.",
            kind: Kind::ErrorPages(|route, value| route.error_pages = value),
        },
        Key {
            name: "intercept_errors",
            default: Some("false"),
            example: "true",
            documentation: "Whether the pages of `error_pages` also replace error answers of the route's \
                program or other server. They do if the key is `true` in the route or in the site.",
            kind: Kind::Boolean(|route, value| route.intercept_errors = value),
        },
        Key {
            name: "body_bytes",
            default: Some("0"),
            example: "\"2GiB\"",
            documentation: "The largest request body of the route, in bytes. A larger one is answered with \
                413 Content Too Large. 0: the setting of the site.",
            kind: Kind::Size { least: 0, most: values::TIB, set: |route, value| route.body_bytes = value },
        },
        delivery::limit_rate(),
        delivery::limit_rate_after(),
        delivery::stall_timeout(),
        delivery::minimum_receive_rate(),
        delivery::minimum_send_rate(),
        delivery::substitute(),
        Key {
            name: "includes",
            default: Some(ABSENT),
            example: "{ exec = true }",
            documentation: "Pages with directives, instead of the settings of `[site.includes]`: which of \
                the route's files are pages, and what these may do. If a program or another server answers, \
                its answers of these `types` are pages. The keys are those of `[site.includes]`, with their \
                own defaults.",
            kind: Kind::Table {
                read: |reader, value, route| reader.table_into(&INCLUDES, value, &mut route.includes),
            },
        },
        Key {
            name: "headers",
            default: Some("{}"),
            example: "{ Cache-Control = \"public, max-age=31536000\" }",
            documentation: "Header fields of the answer, which replace its own fields with the same names; \
                an empty value removes a field. The values are [texts with variables](expressions.md), also \
                with those of `redirect`; a field whose value is empty for an answer is omitted. Fields that \
                frame the message cannot be set.",
            kind: Kind::Fields {
                what: "table from names of header fields to values",
                check: |name, _| routes::check_answer_field(name),
                set: |route, value| route.headers = value,
            },
        },
        Key {
            name: "early_hints",
            default: Some("[]"),
            example: "[\"</app.css>; rel=preload; as=style\"]",
            documentation: "Values of `Link`, sent in an interim response 103 (RFC 8297) while a program or \
                an origin generates the answer, so that a browser fetches the resources of the page in \
                advance. Sent only over HTTP/2 and HTTP/3, where all clients support it, and only if the \
                answer is not ready at once.",
            kind: Kind::CheckedArray {
                what: "array of values of Link",
                parse: |text| match values::parse_header_value(text) {
                    Ok(value) if value.starts_with('<') && value.contains('>') => Ok(value),
                    Ok(_) => {
                        Err(format!("{text:?} is not a link, such as \"</app.css>; rel=preload; as=style\""))
                    }
                    Err(problem) => Err(problem),
                },
                set: |route, value| route.early_hints = value,
            },
        },
        logs::access_log(|reader, value, route| logs::read_access_log(reader, value, &mut route.access_log)),
        logs::error_log(|reader, value, route| logs::read_error_log(reader, value, &mut route.error_log)),
        telemetry::telemetry(|reader, value, route| telemetry::read(reader, value, &mut route.telemetry)),
        security_fields::security_fields(|reader, value, route| {
            security_fields::read(reader, value, &mut route.security_fields)
        }),
        cors::cors(|reader, value, route| cors::read(reader, value, &mut route.cors)),
        access::allow(|route, value| route.access.allow = value),
        access::deny(|route, value| route.access.deny = value),
        access::satisfy(&[
            Choice {
                word: "all",
                meaning: access::SATISFY_ALL,
                set: |route| route.access.satisfy = Some(access::Satisfy::All),
            },
            Choice {
                word: "any",
                meaning: access::SATISFY_ANY,
                set: |route| route.access.satisfy = Some(access::Satisfy::Any),
            },
        ]),
        access::basic_authentication(|reader, value, route| {
            reader.table_into(&access::BASIC_AUTHENTICATION, value, &mut route.access.basic_authentication)
        }),
        jwt::jwt(|reader, value, route| reader.table_into(&jwt::JWT, value, &mut route.access.jwt)),
        signed_link::signed_link(|reader, value, route| {
            signed_link::read(reader, value, &mut route.access.signed_link)
        }),
        access::rate_limit(|reader, value, route| {
            reader.table_into(&access::RATE_LIMIT, value, &mut route.access.rate_limit)
        }),
        geoip::geoip(|reader, value, route| reader.table_into(&geoip::RULES, value, &mut route.access.geoip)),
        forward_auth::forward_auth(|reader, value, route| {
            forward_auth::read(reader, value, &mut route.access.forward_auth)
        }),
        login::login(|reader, value, route| login::read(reader, value, &mut route.access.login)),
        crawlers::crawlers(|reader, value, route| crawlers::read(reader, value, &mut route.access.crawlers)),
    ],
};

fn read_middleware(
    reader: &mut Reader<'_>,
    value: &Value<'_>,
    route: &mut RouteConfig,
) -> Vec<SectionPlaces> {
    let (components, places) = reader.tables(&MIDDLEWARE, value).into_iter().unzip();
    route.middleware = components;
    places
}

/// `[site.route.redirect]`
pub static REDIRECT: Section<RedirectConfig> = Section {
    name: "site.route.redirect",
    repeated: false,
    documentation: "Another address for the client to request.",
    blank: || RedirectConfig { to: String::new(), status: 0 },
    keys: &[
        Key {
            name: "to",
            default: None,
            example: "\"https://www.example.org/new/$1\"",
            documentation: "The address: a path, or a URL with `http://` or `https://`. `$1` to `$9` are the \
                matches of the wildcards, of the part below a path with a slash at its end, or of the groups \
                of `pattern`; `$name` is a named group, `$path` the whole path, `$query` the query, `$host` \
                the host without its port, `$$` a dollar. The [variables](expressions.md) of the request and \
                the connection are also available. Values are percent-encoded. `$map{name}` at the beginning \
                may be a whole path or URL. The query of the request is kept unless the address has a `?`.",
            kind: Kind::Checked {
                what: "path or URL with variables",
                parse: |text, _| Ok(text.to_string()),
                set: |redirect, value| redirect.to = value,
            },
        },
        Key {
            name: "status",
            default: Some("302"),
            example: "308",
            documentation: "301 or 308: permanent, and browsers store it. 302 or 307: temporary. 303: the \
                target is requested with GET, as after a form. 307 and 308 keep the method.",
            kind: Kind::Number {
                least: 301,
                most: 308,
                set: |redirect, value| redirect.status = value as u16,
            },
        },
    ],
};

/// `[site.route.rewrite]`
pub static REWRITE: Section<RewriteConfig> = Section {
    name: "site.route.rewrite",
    repeated: false,
    documentation: "Another path, which is not visible to the client. The routes are then tried again from \
        the first, without those that have already rewritten the request.",
    blank: || RewriteConfig { to: String::new() },
    keys: &[Key {
        name: "to",
        default: None,
        example: "\"/app/index.html\"",
        documentation: "The path, with the variables of `redirect`; with a `?` also the query.",
        kind: Kind::Checked {
            what: "path with variables",
            parse: |text, _| Ok(text.to_string()),
            set: |rewrite, value| rewrite.to = value,
        },
    }],
};

/// `[site.route.respond]`
pub static RESPOND: Section<RespondConfig> = Section {
    name: "site.route.respond",
    repeated: false,
    documentation: "An answer that is always the same.",
    blank: || RespondConfig { status: 0, body: String::new(), content_type: String::new() },
    keys: &[
        Key {
            name: "status",
            default: Some("200"),
            example: "200",
            documentation: "The status, from 200 on.",
            kind: Kind::Number { least: 200, most: 599, set: |respond, value| respond.status = value as u16 },
        },
        Key {
            name: "body",
            default: Some("\"\""),
            example: "\"ok\\n\"",
            documentation: "The body. Empty: the page of the status if that is an error, otherwise no \
                body.",
            kind: Kind::Checked {
                what: "string",
                parse: |text, _| Ok(text.to_string()),
                set: |respond, value| respond.body = value,
            },
        },
        Key {
            name: "content_type",
            default: Some("\"text/plain; charset=utf-8\""),
            example: "\"text/plain; charset=utf-8\"",
            documentation: "The media type of the body.",
            kind: Kind::Checked {
                what: "media type",
                parse: |text, _| values::parse_media_type(text),
                set: |respond, value| respond.content_type = value,
            },
        },
    ],
};

/// Reads the routes of a site, and checks the keys of each together.
pub(crate) fn read_routes(
    reader: &mut Reader<'_>,
    value: &Value<'_>,
    routes: &mut Vec<RouteConfig>,
) -> Vec<SectionPlaces> {
    let problems_before = reader.problems().len();
    let read = reader.tables(&ROUTE, value);
    // If a value is wrong, a check of all keys would only report that again.
    let values_are_right = reader.problems().len() == problems_before;
    let mut all_places = Vec::with_capacity(read.len());
    for (route, places) in read {
        if values_are_right {
            let whole = routes::problems(&route).into_iter().map(|problem| (problem.key, problem.message));
            for (key, message) in whole.chain(access::problems(&route.access)) {
                reader.problem(places.key_below(key), message);
            }
        }
        routes.push(route);
        all_places.push(places);
    }
    all_places
}
