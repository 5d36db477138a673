//! `[telemetry]`: traces and metrics for OpenTelemetry, and `telemetry` of a site or route: how many of its
//! requests are traced.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use toml::de::DeValue;

use touchstone_config_section::reader::{Reader, Value};
use touchstone_config_section::{ABSENT, Choice, Key, Kind, Section, SectionPlaces, as_usize, values};

use super::config_reader::ConfigReader;
use super::{Config, ConfigWithPlaces};

/// A part of all requests, in millionths.
pub type Millionths = u32;

/// `[telemetry]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TelemetryConfig {
    /// The collector; empty: there is none, and no request is traced.
    pub endpoint: String,
    /// The protocol of the collector.
    pub protocol: TelemetryProtocol,
    /// The file of the header fields, which may be secret.
    pub headers_file: Option<PathBuf>,
    /// The file of the authorities that are trusted.
    pub ca_certificate: Option<PathBuf>,
    /// Whether what is sent is compressed.
    pub is_compressed: bool,
    /// How often spans are sent.
    pub interval: Duration,
    /// How long the collector may take.
    pub timeout: Duration,
    /// The most spans that wait.
    pub queue: usize,
    /// The name of the service.
    pub service_name: String,
    /// Other attributes of the resource.
    pub resource: BTreeMap<String, String>,
    /// Which requests are traced.
    pub sample: Millionths,
    /// Whose decision to trace is followed.
    pub parent: AcceptParent,
    /// The most requests a second that are traced because clients request it.
    pub parent_rate: u32,
    /// Whether spans have the query.
    pub query: bool,
    /// How often metrics are sent; `None`: never.
    pub metrics: Option<Duration>,
}

impl TelemetryConfig {
    /// Whether there is a collector.
    pub fn is_on(&self) -> bool {
        !self.endpoint.is_empty()
    }
}

impl Default for TelemetryConfig {
    fn default() -> TelemetryConfig {
        TELEMETRY.defaults()
    }
}

/// The protocol of a collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TelemetryProtocol {
    /// OTLP over HTTP/1.1, as Protocol Buffers.
    Http,
    /// OTLP over gRPC.
    Grpc,
}

/// Whose trace context is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptParent {
    /// That of no client.
    Never,
    /// That of the trusted proxies.
    Proxies,
    /// That of every client.
    Always,
}

/// `telemetry` of a site or route
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TraceConfig {
    /// Which of its requests are traced; `None`: none, and their trace fields are forwarded unchanged.
    pub sample: Option<Millionths>,
}

impl TraceConfig {
    /// Which requests of a site, or of a route in it, are traced, by their keys after the configuration was
    /// read; `None`: none is. A route does as its site, and a site as the server.
    pub fn share(site: Option<TraceConfig>, route: Option<TraceConfig>) -> Option<Millionths> {
        route.or(site)?.sample
    }
}

/// `[telemetry]`
pub static TELEMETRY: Section<TelemetryConfig> = Section {
    name: "telemetry",
    repeated: false,
    documentation: "Traces and metrics for a collector of OpenTelemetry, by OTLP: see \
        [telemetry](telemetry.md). Without `endpoint` no data is recorded or sent.",
    blank: || TelemetryConfig {
        endpoint: String::new(),
        protocol: TelemetryProtocol::Http,
        headers_file: None,
        ca_certificate: None,
        is_compressed: false,
        interval: Duration::ZERO,
        timeout: Duration::ZERO,
        queue: 0,
        service_name: String::new(),
        resource: BTreeMap::new(),
        sample: 0,
        parent: AcceptParent::Never,
        parent_rate: 0,
        query: false,
        metrics: None,
    },
    keys: &[
        Key {
            name: "endpoint",
            default: Some("\"\""),
            example: "\"http://127.0.0.1:4318\"",
            documentation: "The collector, as `http://HOST:PORT` or `https://HOST:PORT`; the default ports \
                are 4318 for `http` and 4317 for `grpc`. With `http`, `/v1/traces` and `/v1/metrics` are \
                added to it. Empty: there is none.",
            kind: Kind::Checked {
                what: "URL",
                parse: |text, _| check_endpoint(text).map(|()| text.trim_end_matches('/').to_string()),
                set: |config, value| config.endpoint = value,
            },
        },
        Key {
            name: "protocol",
            default: Some("\"http\""),
            example: "\"grpc\"",
            documentation: "The form of OTLP.",
            kind: Kind::Choice(&[
                Choice {
                    word: "http",
                    meaning: "Protocol Buffers over HTTP/1.1",
                    set: |config| config.protocol = TelemetryProtocol::Http,
                },
                Choice {
                    word: "grpc",
                    meaning: "gRPC, over HTTP/2; without TLS where `endpoint` begins with `http:`",
                    set: |config| config.protocol = TelemetryProtocol::Grpc,
                },
            ]),
        },
        Key {
            name: "headers_file",
            default: Some("\"\""),
            example: "\"telemetry-headers\"",
            documentation: "A file of header fields for the collector, each line `NAME: VALUE`, such as an \
                API key. It is read at the start and at each reload, and its values are never logged. \
                Empty: none.",
            kind: Kind::File(|config, value| config.headers_file = value),
        },
        Key {
            name: "ca_certificate",
            default: Some("\"\""),
            example: "\"collector-ca.pem\"",
            documentation: "The authorities that may have signed the certificate of the collector, PEM. \
                Empty: those of the system.",
            kind: Kind::File(|config, value| config.ca_certificate = value),
        },
        Key {
            name: "compression",
            default: Some("\"none\""),
            example: "\"gzip\"",
            documentation: "How what is sent is compressed.",
            kind: Kind::Choice(&[
                Choice { word: "none", meaning: "not at all", set: |config| config.is_compressed = false },
                Choice {
                    word: "gzip",
                    meaning: "by gzip, on the thread that sends",
                    set: |config| config.is_compressed = true,
                },
            ]),
        },
        Key {
            name: "interval",
            default: Some("\"5s\""),
            example: "\"1s\"",
            documentation: "How often spans are sent. They are sent sooner when 512 wait.",
            kind: Kind::Duration {
                least: Duration::from_millis(100),
                most: values::HOUR,
                set: |config, value| config.interval = value,
            },
        },
        Key {
            name: "timeout",
            default: Some("\"10s\""),
            example: "\"3s\"",
            documentation: "How long the collector may take to accept what is sent to it.",
            kind: Kind::Duration {
                least: Duration::from_millis(100),
                most: Duration::from_secs(300),
                set: |config, value| config.timeout = value,
            },
        },
        Key {
            name: "queue",
            default: Some("8192"),
            example: "65536",
            documentation: "The most spans that wait to be sent. Further ones are dropped and counted.",
            kind: Kind::Number {
                least: 64,
                most: 1_000_000,
                set: |config, value| config.queue = as_usize(value),
            },
        },
        Key {
            name: "service_name",
            default: Some("\"touchstone\""),
            example: "\"shop\"",
            documentation: "The attribute `service.name` of all that is sent.",
            kind: Kind::Checked {
                what: "name of 1 to 255 characters",
                parse: |text, _| check_attribute("service.name", text).map(|()| text.to_string()),
                set: |config, value| config.service_name = value,
            },
        },
        Key {
            name: "resource",
            default: Some("{}"),
            example: "{ \"deployment.environment.name\" = \"production\" }",
            documentation: "Other attributes of all that is sent.",
            kind: Kind::Pairs {
                what: "table from names of attributes to values",
                check: |name, value| match name {
                    "service.name" => Err("'service.name' is written as 'service_name'".to_string()),
                    "service.instance.id" | "service.version" => {
                        Err(format!("'{name}' is set by the server"))
                    }
                    _ => check_attribute(name, value),
                },
                set: |config, value| config.resource = value,
            },
        },
        Key {
            name: "sample",
            default: Some("0.01"),
            example: "0.1",
            documentation: "Which part of the requests is traced, chosen at random; 1: all of them.",
            kind: Kind::Share(|config, value| config.sample = value),
        },
        Key {
            name: "parent",
            default: Some("\"proxies\""),
            example: "\"always\"",
            documentation: "The clients whose `traceparent` is accepted: its trace is continued, and its \
                flag for recording replaces `sample`. Other requests begin a new trace, with a link to the \
                trace in their `traceparent`.",
            kind: Kind::Choice(&[
                Choice {
                    word: "never",
                    meaning: "every request begins a new trace",
                    set: |config| config.parent = AcceptParent::Never,
                },
                Choice {
                    word: "proxies",
                    meaning: "from the trusted proxies of `[proxies]`",
                    set: |config| config.parent = AcceptParent::Proxies,
                },
                Choice {
                    word: "always",
                    meaning: "from every client; at most `parent_rate` a second of those not trusted",
                    set: |config| config.parent = AcceptParent::Always,
                },
            ]),
        },
        Key {
            name: "parent_rate",
            default: Some("100"),
            example: "10",
            documentation: "With `parent = \"always\"`: the most requests a second, of all clients together, \
                that are recorded because their clients request it. For the others `sample` applies.",
            kind: Kind::Number {
                least: 0,
                most: 1_000_000,
                set: |config, value| config.parent_rate = u32::try_from(value).unwrap_or(u32::MAX),
            },
        },
        Key {
            name: "query",
            default: Some("false"),
            example: "true",
            documentation: "Whether spans contain the query of the request, which may hold secrets. Values \
                of some parameters that usually are secrets are replaced.",
            kind: Kind::Boolean(|config, value| config.query = value),
        },
        Key {
            name: "metrics",
            default: Some("\"off\""),
            example: "\"60s\"",
            documentation: "How often the metrics of [the admin listener](metrics.md) are sent, too: from 1s \
                to 1h, or `\"off\"`.",
            kind: Kind::Checked {
                what: "duration, or `\"off\"`",
                parse: |text, _| metrics_interval(text).map(|_| text.to_string()),
                set: |config, value| config.metrics = metrics_interval(&value).ok().flatten(),
            },
        },
    ],
};

/// `[site.telemetry]`
pub static TRACE: Section<TraceConfig> = Section {
    name: "site.telemetry",
    repeated: false,
    documentation: "How many of the requests of a site are traced, where `[telemetry]` names a collector. \
        `[site.route.telemetry]` has the same keys. `telemetry = \"off\"`: none is.",
    blank: TraceConfig::default,
    keys: &[Key {
        name: "sample",
        default: None,
        example: "0.5",
        documentation: "The share of requests that are traced, selected at random, if no accepted \
            `traceparent` decides. 1: all of them; 0: only those with such a `traceparent`.",
        kind: Kind::Share(|trace, value| trace.sample = Some(value)),
    }],
};

/// `telemetry` of a site or route
pub(super) const fn telemetry<C>(
    read: fn(&mut Reader<'_>, &Value<'_>, &mut C) -> Vec<SectionPlaces>,
) -> Key<C> {
    Key {
        name: "telemetry",
        default: Some(ABSENT),
        example: "{ sample = 0.5 }",
        documentation: "How many of its requests are traced, see `[site.telemetry]`; `\"off\"`: none, and \
            `traceparent` is forwarded unchanged. A route without this key uses the setting of its site, and \
            a site that of `[telemetry]`.",
        kind: Kind::Table { read },
    }
}

/// Reads `telemetry` of a site or route.
pub(super) fn read(
    reader: &mut Reader<'_>,
    value: &Value<'_>,
    target: &mut Option<TraceConfig>,
) -> Vec<SectionPlaces> {
    let DeValue::String(text) = value.get_ref() else { return reader.table_into(&TRACE, value, target) };
    if text == "off" {
        *target = Some(TraceConfig { sample: None });
    } else {
        let place = reader.place(value.span().start);
        let written = values::shorten(text);
        reader.problem(place, format!("'telemetry' must be a table or \"off\", not {written:?}"));
    }
    Vec::new()
}

/// Sets the share of the server for each site without its own. Without a collector, no site or route has one.
pub(super) fn apply_to_sites(config: &mut Config) {
    let usual = config.telemetry.is_on().then_some(TraceConfig { sample: Some(config.telemetry.sample) });
    for site in &mut config.sites {
        site.telemetry = usual.map(|usual| site.telemetry.unwrap_or(usual));
        if usual.is_none() {
            site.routes.iter_mut().for_each(|route| route.telemetry = None);
        }
    }
}

impl ConfigReader<'_> {
    /// Keys that have no effect without a collector are refused.
    pub(super) fn check_telemetry(&mut self, loaded: &ConfigWithPlaces) {
        if loaded.config.telemetry.is_on() || loaded.places.is_unread(TELEMETRY.name, "endpoint") {
            return;
        }
        if let Some(places) = loaded.places.sections.get(TELEMETRY.name)
            && !places.keys.is_empty()
        {
            self.problem(places.header, "[telemetry] needs 'endpoint', the URL of a collector".to_string());
        }
        let message = || "'telemetry' needs 'endpoint' in [telemetry], the URL of a collector".to_string();
        for (site, places) in loaded.config.sites.iter().zip(&loaded.places.sites) {
            if site.telemetry.is_some_and(|own| own.sample.is_some()) {
                self.problem(places.key("telemetry"), message());
            }
            for (index, route) in site.routes.iter().enumerate() {
                if route.telemetry.is_some_and(|own| own.sample.is_some()) {
                    let within = places.table("route", index);
                    let place = within.map_or(places.header, |within| within.key("telemetry"));
                    self.problem(place, message());
                }
            }
        }
    }
}

/// Checks the URL of a collector.
fn check_endpoint(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Ok(());
    }
    let written = values::shorten(text);
    let uri: http::Uri = text.parse().map_err(|error| format!("{written:?} is not a URL: {error}"))?;
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    let Some(authority) = uri.authority().filter(|_| is_http) else {
        return Err(format!("{written:?} must begin with http:// or https:// and name a host"));
    };
    if authority.as_str().contains('@') {
        return Err("a URL with a password is not accepted; write the field 'Authorization' into \
                    'headers_file'"
            .to_string());
    }
    if uri.query().is_some() || text.contains('#') {
        return Err(format!("{written:?} must have neither a query nor a fragment"));
    }
    if uri.path().ends_with("/v1/traces") || uri.path().ends_with("/v1/metrics") {
        return Err(format!("{written:?} must not have '/v1/traces', which is added to it"));
    }
    Ok(())
}

fn check_attribute(name: &str, value: &str) -> Result<(), String> {
    let is_text = |text: &str| (1..=255).contains(&text.len()) && !text.chars().any(char::is_control);
    match is_text(name) && is_text(value) {
        true => Ok(()),
        false => {
            Err(format!("'{}' must have 1 to 255 bytes without control characters", values::shorten(name)))
        }
    }
}

/// How often metrics are sent; `None`: never.
fn metrics_interval(text: &str) -> Result<Option<Duration>, String> {
    if text == "off" {
        return Ok(None);
    }
    let interval = values::parse_duration(text)?;
    match (Duration::from_secs(1)..=values::HOUR).contains(&interval) {
        true => Ok(Some(interval)),
        false => Err(format!("must be from 1s to 1h or \"off\", not {text:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use std::path::Path;

    fn config(text: &str) -> Result<Config, String> {
        let site = "[[site]]\nlisten = ['127.0.0.1:1']\nroot = '/'\n";
        parse(&format!("{text}\n{site}"), Path::new("/etc/a.toml"))
            .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn keys() {
        let read = config(
            "[telemetry]\nendpoint = 'https://a.example:4317/'\nprotocol = 'grpc'\nheaders_file = 'h'\n\
             compression = 'gzip'\ninterval = '1s'\ntimeout = '2s'\nqueue = 100\nservice_name = 'shop'\n\
             resource = { a = 'b' }\nsample = 0.25\nparent = 'always'\nparent_rate = 7\nquery = true\n\
             metrics = '30s'",
        );
        let read = read.unwrap().telemetry;
        assert_eq!(
            (read.endpoint.as_str(), read.protocol),
            ("https://a.example:4317", TelemetryProtocol::Grpc)
        );
        assert_eq!((read.sample, read.parent, read.parent_rate), (250_000, AcceptParent::Always, 7));
        assert_eq!(read.headers_file.as_deref(), Some(Path::new("/etc/h")));
        assert!(read.is_compressed && read.query && read.is_on());
        assert_eq!(read.metrics, Some(Duration::from_secs(30)));
        let usual = config("").unwrap().telemetry;
        assert!(!usual.is_on() && usual.metrics.is_none());
        assert_eq!((usual.sample, usual.parent), (10_000, AcceptParent::Proxies));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (line, expected) in [
            ("endpoint = 'collector:4318'", "http://"),
            ("endpoint = 'ftp://a'", "http://"),
            ("endpoint = 'http://u:p@a'", "headers_file"),
            ("endpoint = 'http://a/?b'", "query"),
            ("endpoint = 'http://a/v1/traces'", "is added"),
            ("sample = 0.5", "needs 'endpoint'"),
            ("endpoint = 'http://a'\nsample = 1.5", "from 0 to 1"),
            ("endpoint = 'http://a'\nsample = -0.1", "from 0 to 1"),
            ("endpoint = 'http://a'\nsample = nan", "from 0 to 1"),
            ("endpoint = 'http://a'\nsample = '1%'", "0.01"),
            ("endpoint = 'http://a'\nmetrics = '10ms'", "1s to 1h"),
            ("endpoint = 'http://a'\nresource = { 'service.name' = 'a' }", "service_name"),
            ("endpoint = 'http://a'\nprotocol = 'grcp'", "did you mean \"grpc\""),
        ] {
            let problem = config(&format!("[telemetry]\n{line}")).unwrap_err();
            assert!(problem.contains(expected), "{line}: {problem}");
            assert!(!problem.contains("u:p"), "{problem}");
        }
    }

    #[test]
    fn sites_and_routes() {
        let parse_with = |on: &str| {
            let site = "[[site]]\nlisten = ['127.0.0.1:1']\nroot = '/'\ntelemetry = 'off'\n\
                        [[site.route]]\npath = '/a'\ntelemetry = { sample = 1 }\n";
            parse(&format!("{on}{site}"), Path::new("/etc/a.toml"))
        };
        let read = parse_with("[telemetry]\nendpoint = 'http://a'\n").unwrap();
        let site = &read.sites[0];
        assert_eq!(site.telemetry, Some(TraceConfig { sample: None }));
        assert_eq!(site.routes[0].telemetry, Some(TraceConfig { sample: Some(1_000_000) }));
        let problems = parse_with("").unwrap_err();
        assert!(problems[0].to_string().contains("needs 'endpoint'"), "{}", problems[0]);
        let site = "[[site]]\nlisten = ['127.0.0.1:1']\nroot = '/'\ntelemetry = 'on'\n";
        let problems = parse(site, Path::new("/etc/a.toml")).unwrap_err();
        assert!(problems[0].to_string().contains("\"off\""), "{}", problems[0]);
    }
}
