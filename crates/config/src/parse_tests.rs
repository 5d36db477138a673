//! Tests of reading a configuration: the exact text of every refusal, the defaults, and that no text makes it
//! panic.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;
use touchstone_config_section::reader::Reader;
use touchstone_files::compress::default_level;
use touchstone_http::content_coding::ContentCoding;

use super::*;
use crate::keys::{ABSENT, for_each_section};
use crate::{
    AccessConfig, AccessLogConfig, AccessLogFormat, CacheConfig, DeliveryConfig, DirectoryListing,
    ErrorLogConfig, HtaccessPolicy, HtaccessRules, IncludesConfig, LimitsConfig, ListenAddress,
    LogDestination, LogLevel, ServerConfig, SocketFile, SymlinkPolicy, TlsConfig, complete_example, quick,
};

const SITE: &str = "[[site]]\nlisten = ['127.0.0.1:80']\nroot = 'www'\n";

/// The problems of a text, one a line.
fn problems(text: &str) -> Vec<String> {
    match parse(text, Path::new("site.toml")) {
        Ok(config) => panic!("accepted: {config:#?}"),
        Err(problems) => problems.iter().map(ConfigProblem::to_string).collect(),
    }
}

/// The one problem of a text, to which a correct site is added (before it, so on lines 1 to 3).
fn problem_beside_a_site(text: &str) -> String {
    let all = problems(&format!("{SITE}{text}"));
    assert_eq!(all.len(), 1, "{all:#?}");
    all.into_iter().next().unwrap_or_default()
}

/// The one problem of a site with this line as its fourth.
fn problem_in_site(line: &str) -> String {
    problem_beside_a_site(line)
}

#[test]
fn defaults() {
    let config = parse(SITE, Path::new("/etc/touchstone/site.toml")).unwrap();
    assert_eq!(
        config.server,
        ServerConfig { drain_timeout: Duration::from_secs(30), ..ServerConfig::default() }
    );
    assert_eq!(
        config.limits,
        LimitsConfig {
            request_line_bytes: 8192,
            header_bytes: 32768,
            header_fields: 100,
            body_bytes: 1 << 20,
            ranges: 16,
            header_timeout: Duration::from_secs(10),
            keep_alive_timeout: Duration::from_secs(75),
            stall_timeout: Duration::from_secs(30),
            keep_alive_requests: 0,
            connections: 65536,
            connections_per_client: 0,
            http3_streams: 100,
            http3_unvalidated_handshakes: 64,
            minimum_receive_rate: 240,
            minimum_send_rate: 240,
        }
    );
    assert_eq!(
        config.cache,
        CacheConfig {
            enabled: true,
            files: 16384,
            bytes: None,
            file_bytes: 1 << 20,
            parsed_bytes: 32 << 20,
            dictionary_bytes: 64 << 20
        }
    );
    assert_eq!(config.access_log, AccessLogConfig::new(LogDestination::Off, AccessLogFormat::Combined));
    assert_eq!(config.error_log, ErrorLogConfig::new(LogDestination::Stderr, LogLevel::Info));
    assert_eq!(
        config.sites,
        [SiteConfig {
            hosts: vec![],
            listen: vec!["127.0.0.1:80".parse().unwrap()],
            socket_file: SocketFile { mode: 0o660, user: String::new(), group: String::new() },
            tls: TlsConfig::default(),
            root: Some(PathBuf::from("/etc/touchstone/www")),
            index: vec!["index.html".to_string()],
            symlinks: SymlinkPolicy::Inside,
            htaccess: HtaccessPolicy::Refuse,
            hidden_files: false,
            merge_slashes: true,
            refuse_escapes: false,
            mime_types: BTreeMap::new(),
            charset: String::new(),
            cache_control: String::new(),
            precompressed: true,
            compression: vec![ContentCoding::Brotli, ContentCoding::Zstd, ContentCoding::Gzip],
            compression_levels: ContentCoding::ALL.map(default_level),
            dictionaries: vec![],
            listing: DirectoryListing::Off,
            listing_entries: 10_000,
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
            routes: vec![],
            maps: None,
            htaccess_rules: HtaccessRules::default(),
        }]
    );
    let mut quick = quick(PathBuf::from("/etc/touchstone/www"), "127.0.0.1:80".parse().unwrap());
    assert_eq!(quick.sites[0].includes.take(), Some(IncludesConfig::default()));
    // It has no file.
    quick.own_files = vec![PathBuf::from("/etc/touchstone/site.toml")];
    assert_eq!(quick, config);
}

/// The table's own texts are correct: every default and example reads without a problem.
#[test]
fn the_table_is_right() {
    for_each_section!(section => for key in section.keys {
        for text in key.default.into_iter().filter(|text| *text != ABSENT).chain([key.example]) {
            let mut reader = Reader::new(text, Path::new("keys"), Path::new(""));
            let value = DeValue::parse(text).unwrap();
            reader.value(key, &value, &mut (section.blank)());
            let problems = reader.into_problems();
            assert!(problems.is_empty(), "{}: {text}: {problems:?}", key.name);
        }
        assert!(key.documentation.ends_with('.'), "{}", key.name);
        assert!(!key.documentation.contains("  "), "{}", key.name);
    });
}

/// A configuration with most keys of the general sections.
const MOST_KEYS: &str = "\
server = { cores = 3, pin_cores = true, drain_timeout = '1s' }
[limits]
request_line_bytes = 1000
header_bytes = '64 KiB'
header_fields = 0x10
body_bytes = '1GB'
ranges = 1_000
header_timeout = '500ms'
keep_alive_timeout = '2m'
stall_timeout = '1h'
keep_alive_requests = 7
connections = 9
connections_per_client = 4
http3_streams = 7
http3_unvalidated_handshakes = 0
minimum_receive_rate = 0
minimum_send_rate = '1KB'
[cache]
enabled = false
files = 1
bytes = 2
file_bytes = 3
[access_log]
path = 'stdout'
format = 'common'
[error_log]
path = '../error.log'
level = 'debug'
[[site]]
hosts = ['A.example', 'b.example.']
listen = ['127.0.0.1:1', '[::1]:2']
root = '/srv/a'
index = []
symlinks = 'anywhere'
hidden_files = true
charset = 'utf-8'
cache_control = 'no-cache'
precompressed = false
compression = ['gzip', 'br']
compression_levels = { br = 11, gzip = 1 }
listing = 'auto'
listing_entries = 5
fallback = '/app/./index.html'
error_pages = { 404 = '/e/404.html', '500' = '/e/500.html' }
headers = { X-Frame-Options = 'DENY' }
[site.mime_types]
WASM = 'application/wasm'
'tar.gz' = 'application/gzip'
[[site]]
hosts = ['c.example']
listen = ['127.0.0.1:1']
root = 'b'
";

#[test]
fn every_key_is_read() {
    let config = parse(MOST_KEYS, Path::new("conf/site.toml")).unwrap();
    assert_eq!(
        config.server,
        ServerConfig {
            cores: 3,
            pin_cores: true,
            drain_timeout: Duration::from_secs(1),
            ..ServerConfig::default()
        }
    );
    assert_eq!(
        config.limits,
        LimitsConfig {
            request_line_bytes: 1000,
            header_bytes: 65536,
            header_fields: 16,
            body_bytes: 1_000_000_000,
            ranges: 1000,
            header_timeout: Duration::from_millis(500),
            keep_alive_timeout: Duration::from_secs(120),
            stall_timeout: Duration::from_secs(3600),
            keep_alive_requests: 7,
            connections: 9,
            connections_per_client: 4,
            http3_streams: 7,
            http3_unvalidated_handshakes: 0,
            minimum_receive_rate: 0,
            minimum_send_rate: 1000,
        }
    );
    assert_eq!(
        config.cache,
        CacheConfig {
            enabled: false,
            files: 1,
            bytes: Some(2),
            file_bytes: 3,
            parsed_bytes: 32 << 20,
            dictionary_bytes: 64 << 20
        }
    );
    assert_eq!(config.access_log, AccessLogConfig::new(LogDestination::Stdout, AccessLogFormat::Common));
    assert_eq!(
        config.error_log,
        ErrorLogConfig::new(LogDestination::File(PathBuf::from("conf/../error.log")), LogLevel::Debug)
    );
    assert_eq!(config.sites.len(), 2);
    let site = &config.sites[0];
    assert_eq!(site.hosts, ["a.example", "b.example"]);
    let listen: [ListenAddress; 2] = ["127.0.0.1:1", "[::1]:2"].map(|text| text.parse().unwrap());
    assert_eq!(site.listen, listen);
    assert_eq!(site.root.as_deref(), Some(Path::new("/srv/a")));
    assert!(site.index.is_empty());
    assert_eq!(site.symlinks, SymlinkPolicy::Anywhere);
    assert!(site.hidden_files);
    assert_eq!(site.charset, "utf-8");
    assert_eq!(site.cache_control, "no-cache");
    assert!(!site.precompressed);
    assert_eq!(site.compression, [ContentCoding::Gzip, ContentCoding::Brotli]);
    assert_eq!(site.compression_levels, [11, default_level(ContentCoding::Zstd), 1]);
    assert_eq!(site.listing, DirectoryListing::Auto);
    assert_eq!(site.listing_entries, 5);
    assert_eq!(site.fallback, "/app/index.html");
    assert_eq!(site.error_pages[&404], "/e/404.html");
    assert_eq!(site.error_pages[&500], "/e/500.html");
    assert_eq!(site.headers["X-Frame-Options"], "DENY");
    assert_eq!(
        site.mime_types.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect::<Vec<_>>(),
        [("tar.gz", "application/gzip"), ("wasm", "application/wasm")]
    );
    assert_eq!(config.sites[1].root.as_deref(), Some(Path::new("conf/b")));
}

#[test]
fn unknown_names() {
    assert_eq!(
        problems(&format!("[server]\ncores = 1\n\n{SITE}idnex = ['a']\n")),
        ["site.toml:7:1: unknown key 'idnex' in [[site]]; did you mean 'index'?"]
    );
    assert_eq!(
        problem_in_site("  keep-alive-timeout = '1s'"),
        "site.toml:4:3: unknown key 'keep-alive-timeout' in [[site]]; the keys are hosts, listen, \
         socket_mode, socket_user, socket_group, certificate, certificate_on_demand, key, \
         development_certificate, tls_minimum, tls_maximum, http3, client_authorities, \
         client_certificate, root, index, symlinks, htaccess, hidden_files, merge_slashes, refuse_escapes, \
         mime_types, charset, cache_control, precompressed, compression, compression_levels, dictionaries, \
         listing, listing_entries, fallback, error_pages, intercept_errors, body_bytes, limit_rate, \
         limit_rate_after, stall_timeout, minimum_receive_rate, minimum_send_rate, substitute, headers, \
         security_fields, cors, allow, deny, satisfy, basic_authentication, jwt, signed_link, rate_limit, \
         geoip, forward_auth, login, crawlers, access_log, error_log, telemetry, includes and route"
    );
    assert_eq!(
        problem_in_site("drain_timeout = '1s'"),
        "site.toml:4:1: unknown key 'drain_timeout' in [[site]]; it belongs in [server]"
    );
    assert_eq!(
        problem_beside_a_site("[limit]\nranges = 1"),
        "site.toml:4:2: unknown section 'limit'; did you mean [limits]?"
    );
    assert_eq!(
        problem_beside_a_site("[backend]\nranges = 1"),
        "site.toml:4:2: unknown section 'backend'; the sections are [server], [limits], [cache], \
         [accelerator], [access_log], [error_log], [proxies], [acme], [geoip], [request_id], \
         [telemetry], [admin], [control], [java], [[map]], [[site]] and [[stream]]"
    );
    assert_eq!(
        problems("[[sites]]\nroot = 'x'\n"),
        ["site.toml:1:3: unknown section 'sites'; did you mean [[site]]?"]
    );
    assert_eq!(
        problems(&format!("root = 'x'\n{SITE}")),
        ["site.toml:1:1: key 'root' must be in a section, [[site]] and [[site.route]]"]
    );
    assert_eq!(
        problems(&format!("path = 'x'\n{SITE}")),
        ["site.toml:1:1: key 'path' must be in a section, [access_log], [error_log], [site.access_log], \
          [site.error_log], [[site.route]], [site.route.proxy], [site.route.proxy.check] and \
         [site.route.python]"]
    );
    assert_eq!(
        problems(&format!("'odd\u{e9}' = 'x'\n{SITE}")),
        ["site.toml:1:1: unknown key 'odd\u{e9}' outside of every section"]
    );
}

#[test]
fn sections_in_the_wrong_form() {
    assert_eq!(
        problems("[site]\nlisten = ['127.0.0.1:80']\nroot = 'www'\n"),
        ["site.toml:1:2: a site is written with two pairs of brackets, because there may be several: \
             [[site]]"]
    );
    assert_eq!(
        problem_beside_a_site("[[server]]\ncores = 1"),
        "site.toml:4:3: [server] may appear only once; write one pair of brackets"
    );
    assert_eq!(
        problems(&format!("cache = true\n{SITE}")),
        ["site.toml:1:1: 'cache' is a section, not a key; write [cache]"]
    );
    assert_eq!(problems("site = 'www'\n"), ["site.toml:1:1: 'site' is a section, not a key; write [[site]]"]);
    assert_eq!(problems("site = []\n"), ["site.toml:1:1: 'site' is a section, not a key; write [[site]]"]);
}

#[test]
fn what_is_missing() {
    let no_site = "site.toml:1:1: no [[site]]: at least one is needed, with 'listen', and 'root' or a route";
    assert_eq!(problems(""), [no_site]);
    assert_eq!(problems("[server]\ncores = 1\n"), [no_site]);
    assert_eq!(
        problems("\n  [[site]]\n"),
        [
            "site.toml:2:3: [[site]] needs 'listen', such as listen = [\"127.0.0.1:8080\", \"[::1]:8080\"]",
            "site.toml:2:3: [[site]] needs 'root', such as root = \"www\", or a [[site.route]] whose handler \
             answers without files, such as 'proxy'",
        ]
    );
    assert_eq!(
        problems("[[site]]\nroot = 'x'\nlisten = []\n"),
        ["site.toml:3:10: 'listen' must hold at least one address"]
    );
}

/// A misspelt key is not reported as missing too.
#[test]
fn misspelt_keys_are_not_missing() {
    assert_eq!(
        problems("[[site]]\nrot = 'x'\nlistne = ['127.0.0.1:80']\n"),
        [
            "site.toml:2:1: unknown key 'rot' in [[site]]; did you mean 'root'?",
            "site.toml:3:1: unknown key 'listne' in [[site]]; did you mean 'listen'?",
        ]
    );
}

#[test]
fn wrong_types() {
    for (line, message) in [
        (
            "hosts = 'a.example'",
            "4:9: 'hosts' must be an array of strings (write [\"a.example\"]), not a string",
        ),
        ("hosts = 5", "4:9: 'hosts' must be an array of strings, not an integer"),
        ("hosts = ['a', 5]", "4:15: 'hosts' must be a string, not an integer"),
        ("index = [['a']]", "4:10: 'index' must be a string, not an array"),
        ("hidden_files = 1", "4:16: 'hidden_files' must be true or false, not an integer"),
        ("hidden_files = 'yes'", "4:16: 'hidden_files' must be true or false, not a string"),
        ("symlinks = true", "4:12: 'symlinks' must be \"inside\" or \"anywhere\", not a boolean"),
        ("charset = 1.5", "4:11: 'charset' must be a string, not a float"),
        ("cache_control = 2020-01-01", "4:17: 'cache_control' must be a string, not a date or time"),
        (
            "mime_types = 'x'",
            "4:14: 'mime_types' must be a table such as { md = \"text/markdown\" }, not a string",
        ),
        ("mime_types = { a = 5 }", "4:20: 'mime_types' must be a string, not an integer"),
        (
            "compression = 'br'",
            "4:15: 'compression' must be an array of strings (write [\"br\"]), not a string",
        ),
        (
            "compression = ['deflate']",
            "4:16: 'compression': \"deflate\" is not a content coding; write \"br\", \"zstd\" or \"gzip\"",
        ),
        ("compression = ['br', 'br']", "4:22: 'compression': 'br' is listed twice"),
        (
            "compression_levels = 5",
            "4:22: 'compression_levels' must be a table such as { br = 5, gzip = 6 }, not an integer",
        ),
        ("compression_levels = { gzip = 10 }", "4:31: 'compression_levels.gzip' must be from 1 to 9, not 10"),
        (
            "compression_levels = { lz4 = 1 }",
            "4:24: 'compression_levels': \"lz4\" is not a content coding; write \"br\", \"zstd\" or \"gzip\"",
        ),
        ("listing = true", "4:11: 'listing' must be \"off\", \"html\", \"json\" or \"auto\", not a boolean"),
        (
            "fallback = 'index.html'",
            "4:12: 'fallback': \"index.html\" does not begin with '/'; write the path from the root of the \
             site",
        ),
        (
            "error_pages = { 200 = '/a' }",
            "4:17: 'error_pages': \"200\" is not the status of an error, 400 to 599",
        ),
        ("error_pages = { 404 = '/a/' }", "4:23: 'error_pages': \"/a/\" is a directory; name a file"),
        ("headers = []", "4:11: 'headers' must be a table such as { X-Name = \"value\" }, not an array"),
        ("headers = { ETag = 'x' }", "4:13: 'headers': the server itself sets \"ETag\""),
        ("headers = { A = \"\" }", "4:13: 'headers': \"A\" has an empty value; leave the field out"),
        ("headers = { X-A = 'b', x-a = 'c' }", "4:24: 'headers': \"x-a\" is listed twice; case is ignored"),
    ] {
        assert_eq!(problem_in_site(line), format!("site.toml:{message}"));
    }
    for (line, message) in [
        ("ranges = '5'", "5:10: 'ranges' must be an integer, not a string"),
        ("ranges = 5.0", "5:10: 'ranges' must be an integer, not a float"),
        (
            "body_bytes = true",
            "5:14: 'body_bytes' must be a size (an integer of bytes, or a string such as \"64KiB\"), not a \
             boolean",
        ),
        (
            "header_timeout = true",
            "5:18: 'header_timeout' must be a duration (a string such as \"10s\"), not a boolean",
        ),
        ("header_timeout = 10", "5:18: 'header_timeout' must name its unit; write \"10s\" for 10 seconds"),
    ] {
        assert_eq!(problem_beside_a_site(&format!("[limits]\n{line}")), format!("site.toml:{message}"));
    }
}

#[test]
fn values_out_of_range() {
    for (line, message) in [
        ("ranges = -1", "5:10: 'ranges' must be from 0 to 1000, not -1"),
        ("ranges = 0x10000", "5:10: 'ranges' must be from 0 to 1000, not 0x10000"),
        (
            "ranges = 999999999999999999999999999999999999999999999",
            "5:10: 'ranges' must be from 0 to 1000, not 999999999999999999999999999999999999999999999",
        ),
        ("request_line_bytes = 10", "5:22: 'request_line_bytes' must be from 64 to 1MiB, not 10"),
        ("header_bytes = '2 MiB'", "5:16: 'header_bytes' must be from 256 to 1MiB, not '2 MiB'"),
        ("body_bytes = -5", "5:14: 'body_bytes' must be from 0 to 1TiB, not -5"),
        ("header_timeout = \"10ms\"", "5:18: 'header_timeout' must be from 100ms to 1h, not \"10ms\""),
        ("connections = 0", "5:15: 'connections' must be from 1 to 16777216, not 0"),
    ] {
        assert_eq!(problem_beside_a_site(&format!("[limits]\n{line}")), format!("site.toml:{message}"));
    }
}

#[test]
fn values_that_cannot_be() {
    for (line, message) in [
        ("hosts = ['a', 'A']", "4:15: 'hosts': 'A' is listed twice"),
        ("hosts = ['a b']", "4:10: 'hosts': \"a b\" is not a host name, such as \"www.example.org\""),
        ("index = ['a/b']", "4:10: 'index': \"a/b\" is a path; write the name of a file, without '/'"),
        ("index = ['']", "4:10: 'index': \"\" is not the name of a file"),
        (
            "symlinks = 'insde'",
            "4:12: 'symlinks' must be \"inside\" or \"anywhere\", not \"insde\"; did you mean \"inside\"?",
        ),
        ("symlinks = 'never'", "4:12: 'symlinks' must be \"inside\" or \"anywhere\", not \"never\""),
        (
            "charset = \"utf-8\\r\\nX: y\"",
            "4:11: 'charset': \"utf-8\\r\\nX: y\" is not a name of letters, digits and '-', such as \
             \"utf-8\"",
        ),
        (
            "cache_control = \"a\\nb\"",
            "4:17: 'cache_control': \"a\\nb\" holds a control character, which a header value must not",
        ),
        (
            "mime_types = { a = \"text/a\\u0000\" }",
            "4:20: 'mime_types': \"text/a\\0\" holds a control character, which a header value must not",
        ),
        ("mime_types = { a = 'x' }", "4:20: 'mime_types': \"x\" is not a media type, such as \"text/html\""),
        ("mime_types = { '.a' = 'x/y' }", "4:16: 'mime_types': \".a\" begins with a dot; write \"a\""),
        (
            "mime_types = { A = 'x/y', a = 'x/z' }",
            "4:27: 'mime_types': the ending \"a\" is listed twice; case is ignored",
        ),
    ] {
        assert_eq!(problem_in_site(line), format!("site.toml:{message}"));
    }
    assert_eq!(
        problems("[[site]]\nroot = ''\nlisten = ['localhost:80', '127.0.0.1:80', '127.0.0.1:80']\n"),
        [
            "site.toml:1:1: [[site]] needs 'root', such as root = \"www\", or a [[site.route]] whose handler \
             answers without files, such as 'proxy'",
            "site.toml:3:11: 'listen': \"localhost:80\" is not an address to listen on; write a numeric \
             address and a port, such as \"127.0.0.1:8080\" or \"[::1]:8080\"",
            "site.toml:3:43: 'listen': '127.0.0.1:80' is listed twice",
        ]
    );
    assert_eq!(
        problem_beside_a_site("[access_log]\nformat = 'comon'"),
        "site.toml:5:10: 'format': 'comon' is not a format; did you mean 'common'?"
    );
    assert_eq!(
        problem_beside_a_site("[access_log]\npath = 'log/'"),
        "site.toml:5:8: 'path': \"log/\" is a directory; name a file"
    );
    assert_eq!(
        problem_beside_a_site("[cache]\nbytes = '64K'"),
        "site.toml:5:9: 'bytes': \"64K\" has an ambiguous unit; write \"64KiB\" (1,024 each) or \"64KB\" \
         (1,000 each)"
    );
    assert_eq!(
        problem_beside_a_site("[server]\ndrain_timeout = '10'"),
        "site.toml:5:17: 'drain_timeout': \"10\" has no unit; write \"500ms\", \"10s\", \"2m\" or \"1h\""
    );
}

#[test]
fn hosts_of_two_sites() {
    let text = "\
[[site]]
hosts = ['a', 'b']
listen = ['127.0.0.1:80', '127.0.0.1:81']
root = 'x'
[[site]]
hosts = ['c', 'B']
listen = ['127.0.0.1:81', '127.0.0.1:80']
root = 'y'
[[site]]
hosts = ['a']
listen = ['127.0.0.1:82']
root = 'z'
";
    assert_eq!(
        problems(text),
        ["site.toml:6:15: 'hosts': \"b\" on 127.0.0.1:81 already belongs to the [[site]] of line 1"]
    );
    assert_eq!(
        problems(&format!("{SITE}{SITE}")),
        ["site.toml:4:1: a [[site]] without 'hosts' answers every host on 127.0.0.1:80, and so does the \
             one of line 1; name the hosts of one of them"]
    );
}

#[test]
fn texts_that_are_not_toml() {
    assert_eq!(
        problems("[[site]]\nroot = www\n"),
        ["site.toml:2:8: not TOML: string values must be quoted, expected literal string"]
    );
    assert_eq!(
        problems("[server\ncores = 1\n[cache]\nfiles == 1\n"),
        ["site.toml:1:8: not TOML: unclosed table, expected `]`", "site.toml:4:8: not TOML: extra `=`",]
    );
    assert_eq!(problems("[server]\ncores = 1\ncores = 2\n"), ["site.toml:3:1: not TOML: duplicate key"]);
    let deep = problems(&format!("a = {}", "[".repeat(100_000)));
    assert_eq!(deep, ["site.toml:1:85: not TOML: cannot recurse further; max recursion depth met"]);
}

#[test]
fn all_problems_are_said_in_the_order_of_the_text() {
    let text = "[[site]]\nroot = 5\nlisten = ['x']\n[limits]\nfoo = 1\nranges = -1\n[cache]\nenabled = 0\n";
    let places: Vec<String> =
        problems(text).iter().map(|line| line.split(": ").next().unwrap().to_string()).collect();
    assert_eq!(
        places,
        ["site.toml:2:8", "site.toml:3:11", "site.toml:5:1", "site.toml:6:10", "site.toml:8:11"]
    );
}

#[test]
fn columns_count_characters() {
    let line = "index = ['\u{e9}\u{20ac}\u{1f600}', 5]";
    assert_eq!(problem_in_site(line), "site.toml:4:17: 'index' must be a string, not an integer");
    assert_eq!(
        problems(&format!("\u{feff}foo = 1\r\n{SITE}")),
        ["site.toml:1:1: unknown key 'foo' outside of every section"]
    );
    assert_eq!(
        problems(&format!("[server]\r\ncores = 1\r\n  bar = 1\r\n{SITE}"))[0].split(';').next(),
        Some("site.toml:3:3: unknown key 'bar' in [server]")
    );
}

#[test]
fn files_that_cannot_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let problem_text = |path: &Path| {
        let problems = read_file(path).unwrap_err();
        assert_eq!(problems.len(), 1);
        problems[0].to_string().replace(&format!("{}/", directory.path().display()), "")
    };
    let path = directory.path().join("none.toml");
    assert_eq!(problem_text(&path), "none.toml: cannot be read: No such file or directory (os error 2)");
    let path = directory.path().join("directory.toml");
    std::fs::create_dir(&path).unwrap();
    assert_eq!(problem_text(&path), "directory.toml: cannot be read: Is a directory (os error 21)");
    let path = directory.path().join("latin.toml");
    std::fs::write(&path, b"[server]\n# caf\xe9\n").unwrap();
    assert_eq!(problem_text(&path), "latin.toml:2:6: is not UTF-8 from here on");
    assert_eq!(
        problem_text(Path::new("/dev/zero")),
        "/dev/zero: is larger than 16MiB, which no configuration should be"
    );
}

#[test]
fn places_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("site.toml");
    std::fs::write(&path, format!("[access_log]\npath = 'a'\n{SITE}")).unwrap();
    let ConfigWithPlaces { config, places } = load_file(&path).unwrap();
    assert_eq!(config.sites[0].root.as_ref(), Some(&directory.path().join("www")));
    assert_eq!(
        places.problem_in_section("access_log", "path", "m").to_string(),
        format!("{}:2:8: m", path.display())
    );
    assert_eq!(
        places.problem_in_section("error_log", "path", "m").to_string(),
        format!("{}: m", path.display())
    );
    assert_eq!(places.problem_in_site(0, "root", "m").to_string(), format!("{}:5:8: m", path.display()));
    assert_eq!(places.problem_in_site(0, "index", "m").to_string(), format!("{}:3:1: m", path.display()));
}

/// Pieces from which nearly correct texts are made.
fn piece() -> impl Strategy<Value = String> {
    let known: Vec<String> = complete_example().lines().map(str::to_string).collect();
    prop_oneof![
        4 => prop::sample::select(known),
        1 => prop::sample::select(vec![
            "[", "]]", "=", "'", "\"\"\"", "{", "site", "[site.mime_types]", "\u{feff}", "\0",
        ])
        .prop_map(str::to_string),
        1 => ("[a-z_]{1,8}", "\\PC{0,12}").prop_map(|(key, value)| format!("{key} = {value}")),
        1 => any::<String>(),
    ]
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        let _ = parse(&text, Path::new("site.toml"));
    }

    #[test]
    fn no_nearly_right_text_makes_it_panic(pieces in prop::collection::vec(piece(), 0..40)) {
        let text = pieces.join("\n");
        if let Err(problems) = parse(&text, Path::new("site.toml")) {
            prop_assert!(!problems.is_empty());
            let lines = text.lines().count().max(1) + 1;
            for problem in problems {
                prop_assert!(problem.line >= 1 && problem.line <= lines && problem.column >= 1, "{problem}");
                prop_assert!(!problem.to_string().contains('\n'), "{problem}");
            }
        }
    }

    /// A text of which one byte was changed is accepted or refused at places that exist.
    #[test]
    fn no_changed_byte_makes_it_panic(at in any::<prop::sample::Index>(), byte in 0u8..128) {
        let mut bytes = complete_example().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(text) = String::from_utf8(bytes) {
            let _ = parse(&text, Path::new("site.toml"));
        }
    }

    /// A number is accepted exactly if it is in its range.
    #[test]
    fn ranges_hold(number in any::<i64>(), small in -2i64..1100) {
        for number in [number, small] {
            let text = format!("{SITE}[limits]\nranges = {number}\n");
            prop_assert_eq!(parse(&text, Path::new("site.toml")).is_ok(), (0..=1000).contains(&number));
        }
    }
}

#[test]
fn https_is_asked_for_in_one_way() {
    let site = |lines: &str| format!("[[site]]\nlisten = [\"127.0.0.1:443\"]\nroot = \"www\"\n{lines}");
    let config =
        parse(&site("certificate = \"tls/a.pem\"\n"), Path::new("/etc/touchstone/site.toml")).unwrap();
    let tls = &config.sites[0].tls;
    assert!(tls.is_on());
    assert_eq!(tls.certificate.as_deref(), Some(Path::new("/etc/touchstone/tls/a.pem")));
    assert_eq!(tls.key, None);
    for (lines, message) in [
        ("key = \"k\"\n", "4:7: 'key' has no effect without 'certificate'"),
        ("http3 = true\n", "4:9: 'http3' has no effect without 'certificate'"),
        ("client_authorities = \"c\"\n", "4:22: 'client_authorities' has no effect without 'certificate'"),
        (
            "certificate = \"c\"\ndevelopment_certificate = true\n",
            "5:27: 'development_certificate' and 'certificate' cannot both be set",
        ),
        (
            "certificate = \"c\"\ntls_minimum = \"1.3\"\ntls_maximum = \"1.2\"\n",
            "5:15: 'tls_minimum' needs TLS 1.3, which 'tls_maximum' excludes",
        ),
        (
            "certificate = \"c\"\nhttp3 = true\ntls_maximum = \"1.2\"\n",
            "5:9: 'http3' needs TLS 1.3, which 'tls_maximum' excludes",
        ),
    ] {
        let found = problems(&site(lines));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(message), "{found:?}");
    }
    let mixed = site("certificate = \"c\"\nhosts = [\"a.org\"]\n") + &site("hosts = [\"b.org\"]\n");
    let found = problems(&mixed);
    assert!(found.len() == 1 && found[0].contains("serves HTTPS or plain HTTP, not both"), "{found:?}");
}

#[test]
fn parts_that_do_not_count_are_left_out_and_places_stay() {
    let site = |port: u16| format!("[[site]]\nlisten = ['127.0.0.1:{port}']\nroot = '/'\n");
    let text = format!("[limits]\nranges = 3\n{}{}{}", site(1), site(2), site(3));
    let source = |text: String| Source { name: "/etc/a.toml".into(), base: "/etc".into(), text };
    let omit = |section: &str, position| Omission { source: 0, section: section.to_string(), position };
    let ports = |loaded: &ConfigWithPlaces| -> Vec<u16> {
        loaded.config.sites.iter().filter_map(|site| Some(site.listen[0].ip()?.port())).collect()
    };
    let sources = [source(text.clone()), source(site(4))];
    let omissions = [omit("site", Some(0)), omit("site", Some(2)), omit("limits", None)];
    let loaded = super::load_sources(&sources, &omissions).unwrap();
    assert_eq!((ports(&loaded), loaded.config.limits.ranges), (vec![2, 4], 16));
    assert_eq!(loaded.places.sites[0].header.line, 6);
    // A problem in a part that is left out does not count, and others keep their lines.
    let wrong = text.replace("127.0.0.1:1", "x").replace("127.0.0.1:3", "y");
    let problems = super::load_sources(&[source(wrong)], &omissions[..1]).unwrap_err();
    assert_eq!((problems.len(), problems[0].line), (1, 10), "{problems:?}");
    let none = [omit("site", Some(0)), omit("site", Some(1)), omit("site", Some(2))];
    assert!(super::load_sources(&[source(text)], &none).unwrap_err()[0].message.contains("no [[site]]"));
}

#[test]
fn a_method_in_lower_case_matches_no_request() {
    let route = |methods: &str| format!("{SITE}[[site.route]]\nmethods = {methods}\nrespond = {{}}\n");
    assert_eq!(
        problems(&route("['GET', 'get']")),
        ["site.toml:5:19: 'methods': \"get\" matches no request, because case counts; write \"GET\""]
    );
    assert!(parse(&route("['GET', 'purge']"), Path::new("site.toml")).is_ok());
}

/// The complete example with this value at the n-th key of every section, for each n: the lines that were
/// changed, and the problems.
fn examples_with(value: &str) -> Vec<(Vec<usize>, Vec<ConfigProblem>)> {
    let known: Vec<String> = complete_example().lines().map(str::to_string).collect();
    let mut position = 0;
    // Of each key that is in force its line and its position in its section.
    let mut keys: Vec<(usize, usize)> = Vec::new();
    for (index, line) in known.iter().enumerate() {
        if line.starts_with('[') {
            position = 0;
        } else if line.contains(" = ") && !line.starts_with('#') {
            keys.push((index, position));
            position += 1;
        }
    }
    let most = keys.iter().map(|(_, position)| position + 1).max().unwrap_or_default();
    let change = |position: usize| {
        let mut changed = known.clone();
        let of_position = keys.iter().filter(|(_, own)| *own == position).map(|(index, _)| *index);
        for index in of_position.clone() {
            let (key, _) = known[index].split_once(" = ").unwrap();
            changed[index] = format!("{key} = {value}");
        }
        let problems = parse(&changed.join("\n"), Path::new("/etc/x/site.toml")).err().unwrap_or_default();
        (of_position.map(|index| index + 1).collect(), problems)
    };
    (0..most).map(change).collect()
}

/// What follows from a wrong value is not reported as well.
#[test]
fn a_wrong_value_is_one_problem() {
    for (lines, problems) in examples_with("1979-05-27") {
        let found: Vec<usize> = problems.iter().map(|problem| problem.line).collect();
        assert_eq!(found, lines, "{problems:#?}");
    }
    // Keys of a section are judged together, and with those of other sections.
    for (line, value) in [
        (" to = ", "'x'"),
        ("endpoint = ", "'x'"),
        ("user = ", "1"),
        ("trusted = ", "['x']"),
        ("files = ", "'x'"),
        ("certificate = ", "1"),
        ("send = ", "1"),
        ("agent = ", "'x'"),
    ] {
        let example = complete_example();
        for (index, found) in
            example.lines().enumerate().filter(|(_, found)| found.starts_with(line.trim_start()))
        {
            let mut lines: Vec<&str> = example.lines().collect();
            let changed = format!("{}{value}", found.split_inclusive("= ").next().unwrap());
            lines[index] = &changed;
            let problems = parse(&lines.join("\n"), Path::new("/etc/x/site.toml")).err().unwrap_or_default();
            assert!(problems.len() <= 1, "{changed}: {problems:#?}");
        }
    }
}

/// A key that must be given, or whose absence means something else than an empty text, is not empty.
#[test]
fn values_that_must_not_be_empty() {
    let route = |keys: &str| problem_in_site(&format!("[[site.route]]\n{keys}"));
    for (keys, expected) in [
        (
            "path = ''\nrespond = {}",
            "site.toml:5:8: 'path' must not be empty; write a value such as \"/old/\", or leave the key out",
        ),
        (
            "path = '/a/'\nalias = ''",
            "site.toml:6:9: 'alias' must not be empty; write a value such as \"/usr/share/doc\", or leave \
             the key out",
        ),
        (
            "pattern = ''\nrespond = {}",
            "site.toml:5:11: 'pattern' must not be empty; write a value such as \"/old/([0-9]+)(/.*)?\", or \
             leave the key out",
        ),
        (
            "wasm = { component = '' }",
            "site.toml:5:22: 'component' must not be empty; write a value such as \"hello.wasm\"",
        ),
        ("servlet = { app = '' }", "site.toml:5:19: 'app' must not be empty; write a value such as"),
    ] {
        let found = route(keys);
        assert!(found.starts_with(expected), "{found}");
    }
    // Every key without a default, in the complete example.
    for section in crate::keys::sections() {
        for key in section.keys.iter().filter(|key| key.default.is_none()) {
            let line = format!("{} = {}", key.name, key.example);
            let example = complete_example();
            if example.lines().any(|own| own == line) {
                let empty = format!("\n{} = ''\n", key.name);
                let text = example.replace(&format!("\n{line}\n"), &empty);
                let problems = parse(&text, Path::new("/etc/x/site.toml")).err().unwrap_or_default();
                let is_told = problems.iter().any(|problem| problem.message.contains(key.name));
                assert!(is_told, "{} {} = ''", section.header, key.name);
            }
        }
    }
}
