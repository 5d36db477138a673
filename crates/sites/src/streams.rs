//! Streams as the cores use them: how the ClientHello of a connection chooses its route, the settings of the
//! connection, and the origins.

use std::sync::Arc;
use std::time::Duration;

use touchstone_access::StreamGate;
use touchstone_config::{Config, NetworkSet, StreamBalance, StreamConfig};
use touchstone_handler::stream_counts::Counts;
use touchstone_http::response::ResponseLimits;
use touchstone_observe::log::access::{AccessLog, CoreBuffer};
use touchstone_proxy::{
    AnswerRules, Balance, CheckRules, ConnectionRules, Forward, ForwardRules, GroupName, HashBy, HostField,
    OriginTls, ProxySettings, RetryRules, SharedGroup, TimeLimits, Version,
};
use touchstone_tls::{Destination, ServerNames, TlsEndpoint};
use touchstone_upstream::SessionRules;

use crate::logs::ServerLogs;
use crate::proxy::health_rules;
use crate::services::ServerShared;
use crate::site_tls::open_stream_endpoint;
use crate::unusable::Unusable;

/// The name that replaces the site for groups of origins of streams, in metrics and on the status page.
pub const STREAM_SITE: &str = "(stream)";

/// One stream.
pub struct StreamSetup {
    /// Its configuration.
    pub config: StreamConfig,
    /// The rules for clients that may connect.
    pub gate: StreamGate,
    /// The networks whose connections begin with a PROXY header.
    pub proxies: NetworkSet,
    /// The TLS endpoint, if TLS ends at this server.
    pub endpoint: Option<Arc<TlsEndpoint>>,
    /// Its groups of origins: those of the routes, then that of `to`, if there is one.
    pub targets: Vec<StreamTarget>,
    /// Its counts.
    pub counts: Arc<Counts>,
    tables: Vec<RouteTable>,
    /// The position of the target for connections that match no route.
    default: Option<usize>,
    log: Option<Arc<AccessLog>>,
}

/// A group of origins.
pub struct StreamTarget {
    /// The origins.
    pub group: Arc<SharedGroup>,
    /// The TLS of clients ends at this server.
    pub ends_tls: bool,
}

/// The routes with the same application protocols.
struct RouteTable {
    /// Empty: any protocol.
    protocols: Vec<Box<[u8]>>,
    names: ServerNames<usize>,
    any: Option<usize>,
}

/// Opens the streams of a configuration.
pub fn open(
    config: &Config,
    shared: &ServerShared,
    logs: &ServerLogs<'_>,
) -> Result<Vec<Arc<StreamSetup>>, Unusable> {
    let open = |stream| StreamSetup::open(stream, config, shared, logs).map(Arc::new);
    config.streams.iter().map(open).collect()
}

/// The fault of the TLS to the origins of a stream. Reads its files.
pub fn problem_of_origin_tls(config: &StreamConfig) -> Option<String> {
    open_origin_tls(config).err()
}

impl StreamSetup {
    fn open(
        stream: &StreamConfig,
        config: &Config,
        shared: &ServerShared,
        logs: &ServerLogs<'_>,
    ) -> Result<StreamSetup, Unusable> {
        let unusable = |problem: String| Unusable(format!("stream {}: {problem}", stream.name));
        let origin_tls = open_origin_tls(stream).map_err(unusable)?;
        let target = |to: &[String], name: String, ends_tls: bool| StreamTarget {
            group: shared.services.origins.get(settings(stream, to, name, origin_tls.clone())),
            ends_tls,
        };
        let mut targets = Vec::new();
        for (position, route) in stream.routes.iter().enumerate() {
            let what = route.names.first().or(route.alpn.first());
            let what = what.map_or_else(|| position.to_string(), Clone::clone);
            let ends_tls = route.ends_tls.unwrap_or(stream.ends_tls);
            targets.push(target(&route.to, format!("{} {what}", stream.name), ends_tls));
        }
        let default = (!stream.to.is_empty()).then_some(targets.len());
        if default.is_some() {
            targets.push(target(&stream.to, stream.name.clone(), stream.ends_tls));
        }
        let log = shared.services.stream_logs.open(&stream.access_log, &logs.lost_lines);
        let log = log.map_err(|error| unusable(error.to_string()))?;
        Ok(StreamSetup {
            gate: StreamGate::new(stream, &shared.access),
            proxies: NetworkSet::new(&stream.proxy_protocol_from),
            endpoint: open_stream_endpoint(stream, config, &shared.tls, logs.error_log)?,
            targets,
            counts: shared.services.counts.streams.of((stream.name.clone(), stream.protocol())),
            tables: route_tables(stream),
            default,
            log,
            config: stream.clone(),
        })
    }

    /// Whether the ClientHello chooses the route of a connection.
    pub fn reads_hello(&self) -> bool {
        !self.tables.is_empty()
    }

    /// The position of the target for connections that state no destination.
    pub fn default_target(&self) -> Option<usize> {
        self.default
    }

    /// The position of the target for a destination.
    pub fn target_of(&self, destination: &Destination) -> Option<usize> {
        self.tables.iter().find_map(|table| table.find(destination)).or(self.default)
    }

    /// A buffer of its log for one core; `None`: it has no log.
    pub fn log_buffer(&self) -> Option<CoreBuffer> {
        self.log.as_ref().map(|log| log.core_buffer())
    }

    /// Opens the file of its log again.
    pub fn reopen_log(&self) {
        self.log.iter().for_each(|log| log.reopen());
    }

    /// Writes everything, and ends the writer of its log. The buffers of the cores must be dropped before.
    pub fn finish_log(&self) {
        self.log.iter().for_each(|log| log.finish());
    }

    /// How long its connections continue after an upgrade or a stop.
    pub fn drain_timeout(&self, of_server: Duration) -> Duration {
        if self.config.drain_timeout.is_zero() { of_server } else { self.config.drain_timeout }
    }
}

impl RouteTable {
    fn find(&self, destination: &Destination) -> Option<usize> {
        let is_offered = self.protocols.iter().any(|wanted| destination.protocols.contains(wanted));
        if !self.protocols.is_empty() && !is_offered {
            return None;
        }
        let named = destination.server_name.as_ref().and_then(|name| self.names.find(name));
        named.copied().or(self.any)
    }
}

/// The tables in the order in which they are searched: those with protocols come first.
fn route_tables(stream: &StreamConfig) -> Vec<RouteTable> {
    let mut tables: Vec<RouteTable> = Vec::new();
    for (position, route) in stream.routes.iter().enumerate() {
        let protocols: Vec<Box<[u8]>> = route.alpn.iter().map(|name| name.as_bytes().into()).collect();
        let known = tables.iter().position(|table| table.protocols == protocols);
        let index = known.unwrap_or_else(|| {
            tables.push(RouteTable { protocols, names: ServerNames::new(), any: None });
            tables.len() - 1
        });
        for name in &route.names {
            tables[index].names.entry(name, || position);
        }
        if route.names.is_empty() {
            tables[index].any.get_or_insert(position);
        }
    }
    tables.sort_by_key(|table| table.protocols.is_empty());
    tables
}

fn open_origin_tls(stream: &StreamConfig) -> Result<Option<Arc<OriginTls>>, String> {
    if !stream.has_tls_origin() {
        return Ok(None);
    }
    let opened = OriginTls::of_stream(stream.origin_tls.clone(), &stream.origin_alpn);
    opened.map(|tls| Some(Arc::new(tls))).map_err(|problem| format!("'origin_tls': {problem}"))
}

/// The settings of the client of a group of origins. Most of them are for HTTP, and have no effect here.
fn settings(
    stream: &StreamConfig,
    to: &[String],
    name: String,
    tls: Option<Arc<OriginTls>>,
) -> ProxySettings {
    let count = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    let origins = stream.origins(to);
    let is_tls = origins.iter().any(|origin| origin.url.is_tls);
    ProxySettings {
        name: GroupName { site: STREAM_SITE.to_string(), route: name },
        origins,
        balance: match stream.balance {
            StreamBalance::LeastConnections => Balance::LeastOutstanding,
            StreamBalance::RoundRobin => Balance::RoundRobin,
            StreamBalance::Hash => Balance::Hash(HashBy::Client),
        },
        sessions: SessionRules { cookie: String::new(), parameter: String::new(), is_binding: false },
        strip_prefix: Vec::new(),
        path: None,
        host: HostField::Origin,
        version: Version::Http11,
        tls: tls.filter(|_| is_tls),
        times: TimeLimits {
            resolve: stream.connect_timeout,
            connect: stream.connect_timeout,
            handshake: stream.connect_timeout,
            send: stream.connect_timeout,
            response: stream.connect_timeout,
            idle: stream.idle_timeout,
            total: None,
            tunnel: stream.idle_timeout,
        },
        connections: ConnectionRules {
            keep_alive_timeout: Duration::ZERO,
            most_idle: 0,
            most_uses: 1,
            most_open: 0,
            most_waiting: 0,
            wait_timeout: Duration::ZERO,
        },
        most_requests: count(stream.origin_connections),
        health: health_rules(&stream.health),
        check: stream.check.as_ref().map(|check| CheckRules {
            connects_only: true,
            path: String::new(),
            host: None,
            interval: check.interval,
            timeout: check.timeout,
            statuses: (100, 599),
            rise: count(check.rise),
            fall: count(check.fall),
        }),
        retry: RetryRules { most: count(stream.attempts), budget_percent: 100, statuses: Default::default() },
        forward: ForwardRules {
            x_forwarded: Forward::Off,
            forwarded: Forward::Off,
            via: String::new(),
            set: Default::default(),
            remove: Default::default(),
            upgrades: Default::default(),
        },
        answers: AnswerRules::default(),
        proxy_header: stream.proxy_protocol,
        buffered_request_bytes: 0,
        head_limits: ResponseLimits { head_bytes: 0, fields: 0, bare_line_feeds: false },
        resolve_interval: stream.resolve_interval,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = r#"
        [[stream]]
        name = "a"
        listen = ["127.0.0.1:1"]
        to = "127.0.0.1:2"
        [[stream.route]]
        names = ["*.example.org"]
        to = "127.0.0.1:3"
        [[stream.route]]
        names = ["mail.example.org", "*.mail.example.org"]
        to = "127.0.0.1:4"
        [[stream.route]]
        names = ["mail.example.org"]
        alpn = ["imap", "pop3"]
        to = "127.0.0.1:5"
        [[stream.route]]
        alpn = ["acme-tls/1"]
        to = "127.0.0.1:6"
    "#;

    #[test]
    fn the_best_route_is_found() {
        let config = touchstone_config::parse(STREAM, "test.toml".as_ref()).expect("a configuration");
        let tables = route_tables(&config.streams[0]);
        let find = |name: Option<&str>, protocols: &[&str]| {
            let destination = Destination {
                server_name: name.map(Box::from),
                protocols: protocols.iter().map(|name| name.as_bytes().into()).collect(),
            };
            tables.iter().find_map(|table| table.find(&destination))
        };
        for (name, protocols, expected) in [
            (Some("a.example.org"), &[][..], Some(0)),
            (Some("a.b.example.org"), &[], Some(0)),
            (Some("example.org"), &[], None),
            (Some("mail.example.org"), &[], Some(1)),
            (Some("a.mail.example.org"), &["imap"], Some(1)),
            (Some("mail.example.org"), &["h2", "pop3"], Some(2)),
            (Some("mail.example.org"), &["h2"], Some(1)),
            (Some("mail.example.org"), &["acme-tls/1"], Some(3)),
            (None, &["acme-tls/1"], Some(3)),
            (None, &["imap"], None),
            (None, &[], None),
        ] {
            assert_eq!(find(name, protocols), expected, "{name:?} {protocols:?}");
        }
    }
}
