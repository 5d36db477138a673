//! The keys of `[limits]`, `[cache]` and `[[site]]`, and the list of all sections: `for_each_section!`.
//!
//! The keys of the other sections are in the modules of those sections, here and in the crate
//! `config-interfaces`. Each key is defined once: its name, its kind with its range, its default, an example,
//! its documentation and how its value is stored in the [`Config`](super::Config). Reading, refusals,
//! defaults, the documentation page and the help of `touchstone check` are all derived from these tables, so
//! a new key is one new entry (and one field).

use std::collections::BTreeMap;
use std::time::Duration;

pub use touchstone_config_section::{ABSENT, Choice, Key, Kind, Section};

use touchstone_config_section::SectionDescription;
use touchstone_config_section::as_usize;
use touchstone_config_section::values::{self, DAY, HOUR, MIB};

use super::access;
use super::cors;
use super::crawlers;
use super::delivery;
use super::forward_auth;
use super::geoip;
use super::jwt;
use super::login;
use super::logs;
use super::routes::config as route;
use super::security_fields;
use super::signed_link;
use super::socket_file::{self, HasSocketFile, SocketFile};
use super::telemetry;
use super::{
    AccessConfig, CacheConfig, ClientCertificateMode, DeliveryConfig, DirectoryListing, HtaccessPolicy,
    HtaccessRules, LimitsConfig, MaximumVersion, MinimumVersion, SiteConfig, SymlinkPolicy, TlsConfig,
};
use touchstone_config_interfaces::includes::INCLUDES;

const GIB: u64 = 1 << 30;
const TIB: u64 = values::TIB;
const ZERO: Duration = Duration::ZERO;
const INSTANT: Duration = Duration::from_millis(100);

/// `[limits]`
pub static LIMITS: Section<LimitsConfig> = Section {
    name: "limits",
    repeated: false,
    documentation: "The limits of what one client may request, and for how long. They hold for every site.",
    blank: || LimitsConfig {
        request_line_bytes: 0,
        header_bytes: 0,
        header_fields: 0,
        body_bytes: 0,
        ranges: 0,
        header_timeout: ZERO,
        keep_alive_timeout: ZERO,
        stall_timeout: ZERO,
        keep_alive_requests: 0,
        connections: 0,
        connections_per_client: 0,
        http3_streams: 0,
        http3_unvalidated_handshakes: 0,
        minimum_receive_rate: 0,
        minimum_send_rate: 0,
    },
    keys: &[
        Key {
            name: "request_line_bytes",
            default: Some("\"8KiB\""),
            example: "\"16KiB\"",
            documentation: "The longest request line, in bytes. A longer one is answered with 414 URI Too \
                Long.",
            kind: Kind::Size {
                least: 64,
                most: MIB,
                set: |limits, value| limits.request_line_bytes = as_usize(value),
            },
        },
        Key {
            name: "header_bytes",
            default: Some("\"32KiB\""),
            example: "\"64KiB\"",
            documentation: "The longest header section, all fields together, in bytes. \
                A longer one is answered with 431 Request Header Fields Too Large.",
            kind: Kind::Size {
                least: 256,
                most: MIB,
                set: |limits, value| limits.header_bytes = as_usize(value),
            },
        },
        Key {
            name: "header_fields",
            default: Some("100"),
            example: "200",
            documentation: "The most header fields in one request. \
                More are answered with 431 Request Header Fields Too Large.",
            kind: Kind::Number {
                least: 1,
                most: 10_000,
                set: |limits, value| limits.header_fields = as_usize(value),
            },
        },
        Key {
            name: "body_bytes",
            default: Some("\"1MiB\""),
            example: "\"10MiB\"",
            documentation: "The largest request body, in bytes. \
                A larger one is answered with 413 Content Too Large, and the connection is closed. It does \
                not limit what a gRPC call sends through a `proxy`.",
            kind: Kind::Size { least: 0, most: TIB, set: |limits, value| limits.body_bytes = value },
        },
        Key {
            name: "ranges",
            default: Some("16"),
            example: "1",
            documentation: "The most ranges in one Range field. A request with more ranges is answered with \
                the whole file, as if it had no Range field; with 0, every request is.",
            kind: Kind::Number {
                least: 0,
                most: 1_000,
                set: |limits, value| limits.ranges = as_usize(value),
            },
        },
        Key {
            name: "header_timeout",
            default: Some("\"10s\""),
            example: "\"5s\"",
            documentation: "How long a request may take from its first byte to the end of its header \
                section. After that it is answered with 408 Request Timeout and the connection is closed. A \
                new connection without any data is closed after the same time, without an answer.",
            kind: Kind::Duration {
                least: INSTANT,
                most: HOUR,
                set: |limits, value| limits.header_timeout = value,
            },
        },
        Key {
            name: "keep_alive_timeout",
            default: Some("\"75s\""),
            example: "\"15s\"",
            documentation: "How long a kept connection may stay idle between two requests before it is \
                closed.",
            kind: Kind::Duration {
                least: INSTANT,
                most: DAY,
                set: |limits, value| limits.keep_alive_timeout = value,
            },
        },
        Key {
            name: "stall_timeout",
            default: Some("\"30s\""),
            example: "\"1m\"",
            documentation: "How long a request body or a response may make no progress at all before the \
                connection is closed. A slow client is not disconnected as long as some bytes are \
                transferred.",
            kind: Kind::Duration {
                least: INSTANT,
                most: HOUR,
                set: |limits, value| limits.stall_timeout = value,
            },
        },
        Key {
            name: "keep_alive_requests",
            default: Some("0"),
            example: "1000",
            documentation: "How many requests one connection may contain before it is closed. 0 means any \
                number; 1 disables persistent connections.",
            kind: Kind::Number {
                least: 0,
                most: u32::MAX as u64,
                set: |limits, value| limits.keep_alive_requests = value,
            },
        },
        Key {
            name: "connections",
            default: Some("65536"),
            example: "10000",
            documentation: "The most connections open at a time, all cores together. \
                Each takes a file descriptor, so the process's own limit (`ulimit -n`) must allow them.",
            kind: Kind::Number {
                least: 1,
                most: 16_777_216,
                set: |limits, value| limits.connections = as_usize(value),
            },
        },
        Key {
            name: "connections_per_client",
            default: Some("0"),
            example: "100",
            documentation: "The most connections that one client may have open at a time, all cores \
                together. A client is an IPv4 address, or the first 64 bits of an IPv6 address. One more is \
                answered with 503 Service Unavailable and closed. The trusted proxies of `[proxies]` are not \
                counted. 0 means any number.",
            kind: Kind::Number {
                least: 0,
                most: 16_777_216,
                set: |limits, value| limits.connections_per_client = value,
            },
        },
        Key {
            name: "http3_streams",
            default: Some("100"),
            example: "250",
            documentation: "The most requests that one HTTP/3 connection may have in progress at a time. The \
                server sends this limit to the client, which then waits before it sends more.",
            kind: Kind::Number {
                least: 1,
                most: 100_000,
                set: |limits, value| limits.http3_streams = u32::try_from(value).unwrap_or(u32::MAX),
            },
        },
        Key {
            name: "http3_unvalidated_handshakes",
            default: Some("64"),
            example: "0",
            documentation: "The most HTTP/3 handshakes in progress on one core with clients that have not \
                yet proven their address. Above this number a client must first prove its address (Retry), \
                which costs the client one round trip and the server no memory, so packets with forged \
                addresses cannot overload the server. 0: every client must prove it.",
            kind: Kind::Number {
                least: 0,
                most: 1_000_000,
                set: |limits, value| limits.http3_unvalidated_handshakes = as_usize(value),
            },
        },
        Key {
            name: "minimum_receive_rate",
            default: Some("240"),
            example: "\"1KiB\"",
            documentation: "The lowest rate of a request body, in bytes a second, once `stall_timeout` is \
                used up: each byte earns the time that it takes at this rate, up to `stall_timeout` in all. \
                A slower body is answered with 408 Request Timeout and the connection is closed. 0: any \
                progress is enough.",
            kind: Kind::Size {
                least: 0,
                most: GIB,
                set: |limits, value| limits.minimum_receive_rate = value,
            },
        },
        Key {
            name: "minimum_send_rate",
            default: Some("240"),
            example: "\"1KiB\"",
            documentation: "The lowest rate at which a client may take an answer, in bytes a second, counted \
                in the same way. The connection of a slower client is closed. 0: any progress is enough.",
            kind: Kind::Size { least: 0, most: GIB, set: |limits, value| limits.minimum_send_rate = value },
        },
    ],
};

/// `[cache]`
pub static CACHE: Section<CacheConfig> = Section {
    name: "cache",
    repeated: false,
    documentation: "The memory cache of whole responses. \
        A file that changes on disk is served with its new content within one second, cached or not.",
    blank: || CacheConfig {
        enabled: false,
        files: 0,
        bytes: None,
        file_bytes: 0,
        parsed_bytes: 0,
        dictionary_bytes: 0,
    },
    keys: &[
        Key {
            name: "enabled",
            default: Some("true"),
            example: "true",
            documentation: "Whether files are kept in memory. With `false`, every response is read from its \
                file.",
            kind: Kind::Boolean(|cache, value| cache.enabled = value),
        },
        Key {
            name: "files",
            default: Some("16384"),
            example: "4096",
            documentation: "The most files in the cache. The ones used least recently make room for new \
                ones.",
            kind: Kind::Number {
                least: 0,
                most: 16_777_216,
                set: |cache, value| cache.files = as_usize(value),
            },
        },
        Key {
            name: "bytes",
            default: Some("\"auto\""),
            example: "\"1GiB\"",
            documentation: "The most memory that cached responses may take, all together, in bytes. \
                `\"auto\"` is 256MiB, or a quarter of the memory that the server may use (its control \
                group's or the machine's) where that is less.",
            kind: Kind::SizeOrAuto {
                least: 0,
                most: 16 * TIB,
                set: |cache, value| cache.bytes = Some(value),
            },
        },
        Key {
            name: "file_bytes",
            default: Some("\"1MiB\""),
            example: "\"4MiB\"",
            documentation: "The largest file that is cached, in bytes. Larger ones are sent from the disk.",
            kind: Kind::Size { least: 0, most: GIB, set: |cache, value| cache.file_bytes = value },
        },
        Key {
            name: "parsed_bytes",
            default: Some("\"32MiB\""),
            example: "\"128MiB\"",
            documentation: "The most memory that parsed pages with directives may take, see \
                `[site.includes]`. A page for which no memory is left is parsed for every request.",
            kind: Kind::Size { least: 0, most: 16 * TIB, set: |cache, value| cache.parsed_bytes = value },
        },
        Key {
            name: "dictionary_bytes",
            default: Some("\"64MiB\""),
            example: "\"256MiB\"",
            documentation: "The most memory that earlier versions of files may take, with which later ones \
                are compressed, see `dictionaries` of a site. The least recently used entries are removed.",
            kind: Kind::Size { least: 0, most: 16 * TIB, set: |cache, value| cache.dictionary_bytes = value },
        },
    ],
};

impl HasSocketFile for SiteConfig {
    fn socket_file(&mut self) -> &mut SocketFile {
        &mut self.socket_file
    }
}

/// `[[site]]`
pub static SITE: Section<SiteConfig> = Section {
    name: "site",
    repeated: true,
    documentation: "Hosts with their listeners, and the files that answer them. At least one is needed; \
        several may share an address, and then the Host field of a request chooses.",
    blank: || SiteConfig {
        hosts: Vec::new(),
        listen: Vec::new(),
        socket_file: SocketFile { mode: 0, user: String::new(), group: String::new() },
        tls: TlsConfig::default(),
        root: None,
        index: Vec::new(),
        symlinks: SymlinkPolicy::Inside,
        htaccess: HtaccessPolicy::Refuse,
        hidden_files: false,
        merge_slashes: true,
        refuse_escapes: false,
        mime_types: BTreeMap::new(),
        charset: String::new(),
        cache_control: String::new(),
        precompressed: false,
        compression: Vec::new(),
        compression_levels: [0; 3],
        dictionaries: Vec::new(),
        listing: DirectoryListing::Off,
        listing_entries: 0,
        fallback: String::new(),
        error_pages: BTreeMap::new(),
        intercept_errors: false,
        body_bytes: 0,
        headers: BTreeMap::new(),
        security_fields: None,
        cors: None,
        includes: None,
        access_log: None,
        error_log: None,
        telemetry: None,
        delivery: DeliveryConfig::default(),
        access: AccessConfig::default(),
        routes: Vec::new(),
        maps: None,
        htaccess_rules: HtaccessRules::default(),
    },
    keys: &[
        Key {
            name: "hosts",
            default: Some("[]"),
            example: "[\"www.example.org\", \"example.org\"]",
            documentation: "The host names that the site answers, without ports; case is ignored. \
                `*.example.org` is every name below `example.org`, at any depth, but not `example.org` \
                itself; a full name takes precedence over a wildcard, and a longer wildcard over a shorter \
                one. An empty array means every host that no other site on the same address names. If no \
                site is for every host, the first one on the address answers unknown hosts.",
            kind: Kind::Hosts(|site, value| site.hosts = value),
        },
        Key {
            name: "listen",
            default: None,
            example: "[\"127.0.0.1:8080\", \"[::1]:8080\"]",
            documentation: "The addresses to listen on, numeric and with their ports. \
                `\"0.0.0.0:80\"` is every IPv4 address of the machine. With port 0 the system chooses one, \
                and the error log names it. `\"unix:/run/touchstone/site.sock\"` is a unix socket for \
                programs of this machine, and `\"unix:@name\"` one of Linux's abstract namespace, which \
                every program of the machine may connect to. See [unix sockets](http.md#unix-sockets).",
            kind: Kind::ListenAddresses(|site, value| site.listen = value),
        },
        socket_file::mode_key(),
        socket_file::user_key(),
        socket_file::group_key(),
        Key {
            name: "certificate",
            default: Some("\"\""),
            example: "\"tls/example.org.pem\"",
            documentation: "A PEM file with the site's certificate and the chain to its authority, or \
                `\"acme\"`: then the authority of `[acme]` issues it for all the site's hosts, and it is \
                renewed before it expires. With a certificate the addresses of the site accept only HTTPS; \
                for plain HTTP add another site with other addresses. When the file changes it is read \
                again, and no connection is lost.",
            kind: Kind::FileOrWord {
                word: "acme",
                set_word: |site| site.tls.acme = true,
                set: |site, value| site.tls.certificate = value,
            },
        },
        Key {
            name: "certificate_on_demand",
            default: Some("false"),
            example: "false",
            documentation: "Whether names of the site get their certificates at their first handshake, with \
                `certificate = \"acme\"` and [`[acme.on_demand]`](acme.md#certificates-on-demand). These are \
                all names that `hosts` matches; without `hosts`, all names that no other site on the address \
                has.",
            kind: Kind::Boolean(|site, value| site.tls.on_demand = value),
        },
        Key {
            name: "key",
            default: Some("\"\""),
            example: "\"tls/example.org.key\"",
            documentation: "The PEM file with the private key of `certificate`. Empty: it is in the same \
                file.",
            kind: Kind::File(|site, value| site.tls.key = value),
        },
        Key {
            name: "development_certificate",
            default: Some("false"),
            example: "false",
            documentation: "Whether the site serves HTTPS with a certificate that is generated at the start, \
                for its hosts and for localhost. Browsers do not trust it. Not together with `certificate`.",
            kind: Kind::Boolean(|site, value| site.tls.development_certificate = value),
        },
        Key {
            name: "tls_minimum",
            default: Some("\"1.2\""),
            example: "\"1.3\"",
            documentation: "The oldest version of TLS that the site accepts.",
            kind: Kind::Choice(&[
                Choice {
                    word: "1.2",
                    meaning: "TLS 1.2 and 1.3",
                    set: |site| site.tls.minimum_version = MinimumVersion::Tls12,
                },
                Choice {
                    word: "1.3",
                    meaning: "TLS 1.3 only",
                    set: |site| site.tls.minimum_version = MinimumVersion::Tls13,
                },
            ]),
        },
        Key {
            name: "tls_maximum",
            default: Some("\"1.3\""),
            example: "\"1.3\"",
            documentation: "The newest version of TLS that the site accepts. 1.2 is for devices between \
                clients and server that block 1.3. Sessions are resumed without a key exchange in 1.2, so \
                that an attacker who gets the key of the tickets can read them. Not below `tls_minimum`; \
                with `http3` it must be 1.3.",
            kind: Kind::Choice(&[
                Choice {
                    word: "1.2",
                    meaning: "TLS 1.2 only",
                    set: |site| site.tls.maximum_version = MaximumVersion::Tls12,
                },
                Choice {
                    word: "1.3",
                    meaning: "TLS 1.3, and 1.2 where `tls_minimum` has it",
                    set: |site| site.tls.maximum_version = MaximumVersion::Tls13,
                },
            ]),
        },
        Key {
            name: "http3",
            default: Some("false"),
            example: "true",
            documentation: "Whether the site also serves HTTP/3, over UDP on the same addresses and ports, \
                and announces it to clients (`Alt-Svc`). It needs `certificate` or \
                `development_certificate`.",
            kind: Kind::Boolean(|site, value| site.tls.http3 = value),
        },
        Key {
            name: "client_authorities",
            default: Some("\"\""),
            example: "\"tls/clients.pem\"",
            documentation: "A PEM file with the authorities whose client certificates are trusted. Empty: no \
                certificates are requested from clients.",
            kind: Kind::File(|site, value| site.tls.client_authorities = value),
        },
        Key {
            name: "client_certificate",
            default: Some("\"required\""),
            example: "\"optional\"",
            documentation: "Whether a client may connect without a certificate, if `client_authorities` is \
                set.",
            kind: Kind::Choice(&[
                Choice {
                    word: "required",
                    meaning: "the handshake fails without one",
                    set: |site| site.tls.client_certificate = ClientCertificateMode::Required,
                },
                Choice {
                    word: "optional",
                    meaning: "the client may have none; a certificate that it sends must be valid",
                    set: |site| site.tls.client_certificate = ClientCertificateMode::Optional,
                },
            ]),
        },
        Key {
            name: "root",
            default: Some("\"\""),
            example: "\"www\"",
            documentation: "The directory that is served. \
                A relative path is relative to the directory of the configuration file. Empty: the site has \
                no files. It needs routes whose handlers answer without files, such as `proxy`; other paths \
                are answered with 404 Not Found.",
            kind: Kind::File(|site, value| site.root = value),
        },
        Key {
            name: "index",
            default: Some("[\"index.html\"]"),
            example: "[\"index.html\", \"index.htm\"]",
            documentation: "The file names that are tried in turn for a directory. \
                If none exists, the directory is listed if `listing` allows it; otherwise the answer is 403 \
                Forbidden.",
            kind: Kind::FileNames(|site, value| site.index = value),
        },
        Key {
            name: "symlinks",
            default: Some("\"inside\""),
            example: "\"anywhere\"",
            documentation: "The permitted targets of symbolic links below the root. A request for a link \
                with another target is answered with 403 Forbidden.",
            kind: Kind::Choice(&[
                Choice {
                    word: "inside",
                    meaning: "only to places inside the root",
                    set: |site| site.symlinks = SymlinkPolicy::Inside,
                },
                Choice {
                    word: "anywhere",
                    meaning: "anywhere that the process may read",
                    set: |site| site.symlinks = SymlinkPolicy::Anywhere,
                },
            ]),
        },
        Key {
            name: "htaccess",
            default: Some("\"refuse\""),
            example: "\"ignore\"",
            documentation: "How `.htaccess` files of Apache below the directories of the site are handled. \
                They have no effect; the server searches for them, and watches their directories.",
            kind: Kind::Choice(&[
                Choice {
                    word: "refuse",
                    meaning: "each is named in the error log, and what it forbids is answered with 403",
                    set: |site| site.htaccess = HtaccessPolicy::Refuse,
                },
                Choice {
                    word: "ignore",
                    meaning: "there is no search, because routes replace them",
                    set: |site| site.htaccess = HtaccessPolicy::Ignore,
                },
            ]),
        },
        Key {
            name: "hidden_files",
            default: Some("false"),
            example: "false",
            documentation: "Whether names that begin with a dot are served. \
                With `false` they are answered with 404 Not Found, except `/.well-known/`, which is always \
                served.",
            kind: Kind::Boolean(|site, value| site.hidden_files = value),
        },
        Key {
            name: "merge_slashes",
            default: Some("true"),
            example: "true",
            documentation: "Whether programs and other servers get one slash for several in a row. With \
                `false` they get the path with all its slashes, as signed addresses of object stores need \
                it. Rules always treat several slashes as one. With `false`, a path is answered with 400 Bad \
                Request if it begins with two slashes, has a dot segment beside repeated slashes, or matches \
                another route when all slashes count.",
            kind: Kind::Boolean(|site, value| site.merge_slashes = value),
        },
        Key {
            name: "refuse_escapes",
            default: Some("false"),
            example: "false",
            documentation: "Whether paths with an escaped slash (`%2F`) are answered with 404 Not Found, and \
                those with an escaped tab or line end (`%09`, `%0A`, `%0D`) with 400 Bad Request, for proxy \
                routes too. With every value of this key, such a path is passed to proxies only.",
            kind: Kind::Boolean(|site, value| site.refuse_escapes = value),
        },
        Key {
            name: "mime_types",
            default: Some("{}"),
            example: "{ md = \"text/markdown\", glb = \"model/gltf-binary\" }",
            documentation: "Media types by the ending of the file name, without its dot; case is ignored. \
                They take precedence over the built-in table.",
            kind: Kind::MediaTypes(|site, value| site.mime_types = value),
        },
        Key {
            name: "charset",
            default: Some("\"\""),
            example: "\"utf-8\"",
            documentation: "The charset to add to the Content-Type of text. Empty: none is added.",
            kind: Kind::Token(|site, value| site.charset = value),
        },
        Key {
            name: "cache_control",
            default: Some("\"\""),
            example: "\"public, max-age=300\"",
            documentation: "The Cache-Control field of every file. Empty: the field is not sent.",
            kind: Kind::HeaderValue(|site, value| site.cache_control = value),
        },
        Key {
            name: "precompressed",
            default: Some("true"),
            example: "true",
            documentation: "Whether compressed files in the directory of a file are sent in its place: \
                `page.html.br`, `page.html.zst` and `page.html.gz` beside `page.html`, to clients that \
                accept the coding. A compressed file that is older than its original, in whole seconds, is \
                not used. Only for compressible types (text, code, JSON, XML, SVG, fonts without a \
                compression of their own) and files of 256 bytes or more.",
            kind: Kind::Boolean(|site, value| site.precompressed = value),
        },
        Key {
            name: "compression",
            default: Some("[\"br\", \"zstd\", \"gzip\"]"),
            example: "[\"zstd\", \"gzip\"]",
            documentation: "The content codings in which files, and answers of programs and origins, are \
                compressed for clients that accept them, the preferred one first; `[]` turns compression \
                off. Each file is compressed once and kept in the cache, so a file larger than \
                `cache.file_bytes` is not compressed, and no file is if `cache.enabled` is `false`.",
            kind: Kind::ContentCodings(|site, value| site.compression = value),
        },
        Key {
            name: "compression_levels",
            default: Some("{ br = 5, zstd = 9, gzip = 6 }"),
            example: "{ br = 9, gzip = 9 }",
            documentation: "The level of each content coding: br 0 to 11, zstd 1 to 19, gzip 1 to 9. A \
                coding that is not named keeps its default. The first client that requests a file waits for \
                its compression.",
            kind: Kind::CompressionLevels(|site, coding, level| {
                site.compression_levels[coding as usize] = level
            }),
        },
        Key {
            name: "dictionaries",
            default: Some("[]"),
            example: "[\"/js/*\", \"/app/*/main.js\"]",
            documentation: "Paths of files that are compression dictionaries for their later versions (RFC \
                9842); `*` matches any part of a path. A browser that has one file of a pattern gets only \
                the differences of the others, as `dcb` or `dcz`. Used over HTTPS only, for the files and \
                codings (`br` or `zstd`) of `compression`, and only if `cache_control` allows the browser to \
                store the files.",
            kind: Kind::CheckedArray {
                what: "array of paths",
                parse: values::parse_dictionary_pattern,
                set: |site, value| site.dictionaries = value,
            },
        },
        Key {
            name: "listing",
            default: Some("\"off\""),
            example: "\"auto\"",
            documentation: "How a directory without an index file is listed.",
            kind: Kind::Choice(&[
                Choice {
                    word: "off",
                    meaning: "not at all: 403 Forbidden",
                    set: |site| site.listing = DirectoryListing::Off,
                },
                Choice {
                    word: "html",
                    meaning: "as a page for people",
                    set: |site| site.listing = DirectoryListing::Html,
                },
                Choice {
                    word: "json",
                    meaning: "as an array for programs",
                    set: |site| site.listing = DirectoryListing::Json,
                },
                Choice {
                    word: "auto",
                    meaning: "as JSON where the Accept field prefers it, else as a page",
                    set: |site| site.listing = DirectoryListing::Auto,
                },
            ]),
        },
        Key {
            name: "listing_entries",
            default: Some("10000"),
            example: "1000",
            documentation: "The most entries in a listing. A longer listing is cut off, and contains a note \
                about it.",
            kind: Kind::Number {
                least: 1,
                most: 1_000_000,
                set: |site, value| site.listing_entries = as_usize(value),
            },
        },
        Key {
            name: "fallback",
            default: Some("\"\""),
            example: "\"/index.html\"",
            documentation: "The file that answers a GET or HEAD for a path that is not found, with status \
                200: the page of an application that routes in the browser. Only for paths whose last \
                segment has no dot, and only where the Accept field allows HTML. Empty: none.",
            kind: Kind::Checked {
                what: "path that begins with `/`, or empty",
                parse: |text, _| values::parse_site_path_or_empty(text),
                set: |site, value| site.fallback = value,
            },
        },
        Key {
            name: "error_pages",
            default: Some("{}"),
            example: "{ 404 = \"/errors/404.html\", 503 = \"/errors/busy.html\" }",
            documentation: "Files that are sent as the body of an error, by its status, 400 to 599. \
                The status stays the same. If the file cannot be read, the built-in page is sent. A request \
                that is refused before its host is read, such as one with a request line that never ends, \
                gets the page of the site for all other hosts of the address.",
            kind: Kind::ErrorPages(|site, value| site.error_pages = value),
        },
        Key {
            name: "intercept_errors",
            default: Some("false"),
            example: "true",
            documentation: "Whether errors that programs and other servers answer with get the pages of \
                `error_pages`, too. An error whose status has no page is passed on unchanged.",
            kind: Kind::Boolean(|site, value| site.intercept_errors = value),
        },
        Key {
            name: "body_bytes",
            default: Some("0"),
            example: "\"100MiB\"",
            documentation: "The largest request body of the site, in bytes, in place of `limits.body_bytes`; \
                it may be larger or smaller. A larger body is answered with 413 Content Too Large. 0: the \
                value of `limits.body_bytes`.",
            kind: Kind::Size { least: 0, most: TIB, set: |site, value| site.body_bytes = value },
        },
        delivery::limit_rate(),
        delivery::limit_rate_after(),
        delivery::stall_timeout(),
        delivery::minimum_receive_rate(),
        delivery::minimum_send_rate(),
        delivery::substitute(),
        Key {
            name: "headers",
            default: Some("{}"),
            example: "{ X-Frame-Options = \"DENY\", Referrer-Policy = \"no-referrer\" }",
            documentation: "Header fields to add to every answer of the site, errors and cached answers \
                included. The values are [texts with variables](expressions.md); a field whose value is \
                empty for an answer is omitted. Fields that the server itself sets, such as Content-Length, \
                are refused.",
            kind: Kind::Fields {
                what: "table from names of header fields to values",
                check: values::check_added_text,
                set: |site, value| site.headers = value,
            },
        },
        security_fields::security_fields(|reader, value, site| {
            security_fields::read(reader, value, &mut site.security_fields)
        }),
        cors::cors(|reader, value, site| cors::read(reader, value, &mut site.cors)),
        access::allow(|site, value| site.access.allow = value),
        access::deny(|site, value| site.access.deny = value),
        access::satisfy(&[
            Choice {
                word: "all",
                meaning: access::SATISFY_ALL,
                set: |site| site.access.satisfy = Some(access::Satisfy::All),
            },
            Choice {
                word: "any",
                meaning: access::SATISFY_ANY,
                set: |site| site.access.satisfy = Some(access::Satisfy::Any),
            },
        ]),
        access::basic_authentication(|reader, value, site| {
            reader.table_into(&access::BASIC_AUTHENTICATION, value, &mut site.access.basic_authentication)
        }),
        jwt::jwt(|reader, value, site| reader.table_into(&jwt::JWT, value, &mut site.access.jwt)),
        signed_link::signed_link(|reader, value, site| {
            signed_link::read(reader, value, &mut site.access.signed_link)
        }),
        access::rate_limit(|reader, value, site| {
            reader.table_into(&access::RATE_LIMIT, value, &mut site.access.rate_limit)
        }),
        geoip::geoip(|reader, value, site| reader.table_into(&geoip::RULES, value, &mut site.access.geoip)),
        forward_auth::forward_auth(|reader, value, site| {
            forward_auth::read(reader, value, &mut site.access.forward_auth)
        }),
        login::login(|reader, value, site| login::read(reader, value, &mut site.access.login)),
        crawlers::crawlers(|reader, value, site| crawlers::read(reader, value, &mut site.access.crawlers)),
        logs::access_log(|reader, value, site| logs::read_access_log(reader, value, &mut site.access_log)),
        logs::error_log(|reader, value, site| logs::read_error_log(reader, value, &mut site.error_log)),
        telemetry::telemetry(|reader, value, site| telemetry::read(reader, value, &mut site.telemetry)),
        Key {
            name: "includes",
            default: Some(ABSENT),
            example: "{ suffixes = [\".shtml\"] }",
            documentation: "Pages with directives in them (SHTML, server-side includes), see \
                `[site.includes]`. Without it the server searches no file for directives.",
            kind: Kind::Table {
                read: |reader, value, site| reader.table_into(&INCLUDES, value, &mut site.includes),
            },
        },
        Key {
            name: "route",
            default: Some(ABSENT),
            example: "[{ path = \"/old/\", redirect = { to = \"/new/$1\" } }]",
            documentation: "What the site does differently for some requests, each written as \
                `[[site.route]]`.",
            kind: Kind::Tables {
                read: |reader, value, site| route::read_routes(reader, value, &mut site.routes),
            },
        },
    ],
};

/// Runs the same code for every section, in the order of the documentation. The sections have different
/// types.
macro_rules! for_each_section {
    ($section:ident => $code:expr) => {{
        {
            let $section = &$crate::server::SERVER;
            $code
        }
        {
            let $section = &$crate::keys::LIMITS;
            $code
        }
        {
            let $section = &$crate::keys::CACHE;
            $code
        }
        {
            let $section = &$crate::accelerator::ACCELERATOR;
            $code
        }
        {
            let $section = &$crate::logs::ACCESS_LOG;
            $code
        }
        {
            let $section = &$crate::logs::ERROR_LOG;
            $code
        }
        {
            let $section = &$crate::access::PROXIES;
            $code
        }
        {
            let $section = &$crate::acme::ACME;
            $code
        }
        {
            let $section = &$crate::acme::EXTERNAL_ACCOUNT;
            $code
        }
        {
            let $section = &$crate::acme_dns::ACME_DNS;
            $code
        }
        {
            let $section = &$crate::acme_nats::ACME_NATS;
            $code
        }
        {
            let $section = &$crate::acme_on_demand::ACME_ON_DEMAND;
            $code
        }
        {
            let $section = &$crate::geoip::GEOIP;
            $code
        }
        {
            let $section = &$crate::admin::REQUEST_ID;
            $code
        }
        {
            let $section = &$crate::telemetry::TELEMETRY;
            $code
        }
        {
            let $section = &$crate::admin::ADMIN;
            $code
        }
        {
            let $section = &$crate::control::CONTROL;
            $code
        }
        {
            let $section = &touchstone_config_interfaces::servlet::JAVA;
            $code
        }
        {
            let $section = &$crate::maps::MAP;
            $code
        }
        {
            let $section = &$crate::keys::SITE;
            $code
        }
        {
            let $section = &$crate::delivery::SUBSTITUTE;
            $code
        }
        {
            let $section = &$crate::logs::SITE_ACCESS_LOG;
            $code
        }
        {
            let $section = &$crate::logs::SITE_ERROR_LOG;
            $code
        }
        {
            let $section = &$crate::telemetry::TRACE;
            $code
        }
        {
            let $section = &$crate::security_fields::SECURITY_FIELDS;
            $code
        }
        {
            let $section = &$crate::cors::CORS;
            $code
        }
        {
            let $section = &touchstone_config_interfaces::includes::INCLUDES;
            $code
        }
        {
            let $section = &$crate::access::BASIC_AUTHENTICATION;
            $code
        }
        {
            let $section = &$crate::jwt::JWT;
            $code
        }
        {
            let $section = &$crate::signed_link::SIGNED_LINK;
            $code
        }
        {
            let $section = &$crate::access::RATE_LIMIT;
            $code
        }
        {
            let $section = &$crate::geoip::RULES;
            $code
        }
        {
            let $section = &$crate::forward_auth::FORWARD_AUTH;
            $code
        }
        {
            let $section = &$crate::login::LOGIN;
            $code
        }
        {
            let $section = &$crate::crawlers::CRAWLERS;
            $code
        }
        {
            let $section = &$crate::crawlers::BOT;
            $code
        }
        {
            let $section = &$crate::routes::config::ROUTE;
            $code
        }
        {
            let $section = &$crate::routes::config::REDIRECT;
            $code
        }
        {
            let $section = &$crate::routes::config::REWRITE;
            $code
        }
        {
            let $section = &$crate::routes::config::RESPOND;
            $code
        }
        {
            let $section = &touchstone_config_interfaces::cgi::CGI;
            $code
        }
        {
            let $section = &touchstone_config_interfaces::programs::fastcgi::FASTCGI;
            $code
        }
        {
            let $section = &touchstone_config_interfaces::programs::fastcgi::SCGI;
            $code
        }
        {
            let $section = &touchstone_config_interfaces::programs::fastcgi::UWSGI;
            $code
        }
        {
            let $section = &touchstone_config_interfaces::programs::fastcgi::PHP;
            $code
        }
        {
            let $section = &touchstone_config_interfaces::programs::ajp::AJP;
            $code
        }
        {
            let $section = &touchstone_config_interfaces::proxy::PROXY;
            $code
        }
        {
            let $section = &$crate::accelerator::CACHE_OF_ROUTE;
            $code
        }
        {
            let $section = &touchstone_config_interfaces::proxy::tables::TLS;
            $code
        }
        {
            let $section = &touchstone_config_interfaces::proxy::tables::CHECK;
            $code
        }
        {
            let $section = &touchstone_config_interfaces::proxy::tables::HEALTH;
            $code
        }
        {
            let $section = &touchstone_config_interfaces::proxy::tables::RETRY;
            $code
        }
        {
            let $section = &touchstone_config_interfaces::proxy::tables::FORWARD;
            $code
        }
        {
            let $section = &touchstone_config_interfaces::nsapi::NSAPI;
            $code
        }
        {
            let $section = &touchstone_config_interfaces::servlet::SERVLET;
            $code
        }
        {
            let $section = &touchstone_config_interfaces::wasm::WASM;
            $code
        }
        {
            let $section = &touchstone_config_interfaces::wasm::MIDDLEWARE;
            $code
        }
        {
            let $section = &touchstone_config_interfaces::python::PYTHON;
            $code
        }
        {
            let $section = &touchstone_config_interfaces::python::LIMITS;
            $code
        }
        {
            let $section = &$crate::webdav::WEBDAV;
            $code
        }
        {
            let $section = &$crate::stream::STREAM;
            $code
        }
        {
            let $section = &$crate::stream::ORIGIN_TLS;
            $code
        }
        {
            let $section = &$crate::stream::CHECK;
            $code
        }
        {
            let $section = &$crate::stream::HEALTH;
            $code
        }
        {
            let $section = &$crate::stream::ROUTE;
            $code
        }
    }};
}
#[cfg(test)]
pub(super) use for_each_section;

/// Every section as data, in the order of the documentation.
pub(super) fn sections() -> Vec<SectionDescription> {
    let mut sections = Vec::new();
    for_each_section!(section => sections.push(section.description()));
    sections
}

/// The names of all sections that are not inside another, each with its header.
pub(super) fn section_names() -> Vec<(&'static str, String)> {
    let outer = sections().into_iter().filter(|section| !section.name.contains('.'));
    outer.map(|section| (section.name, section.header)).collect()
}

/// The headers of the sections that have a key of this name.
pub(super) fn sections_with_key(name: &str) -> Vec<String> {
    let has_key = |section: &SectionDescription| section.keys.iter().any(|key| key.name == name);
    sections().into_iter().filter(has_key).map(|section| section.header).collect()
}
