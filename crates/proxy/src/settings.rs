//! The settings of the origins of a route.

use std::sync::Arc;
use std::time::Duration;

use touchstone_http::response::ResponseLimits;
use touchstone_route::RouteTarget;

use super::answer_fields::AnswerRules;
use super::check_rules::CheckRules;
use super::connections::ConnectionRules;
use super::forwarded::ForwardRules;
use super::origin_url::OriginSpec;
use super::proxy_header::ProxyHeader;
use super::retry::RetryRules;
use super::tls::OriginTls;
use super::version::Version;
use touchstone_upstream::SessionRules;
use touchstone_upstream::{Balance, HealthRules};

/// The settings of the origins of a route.
#[derive(Debug, Clone, PartialEq)]
pub struct ProxySettings {
    /// The name of the group in metrics.
    pub name: GroupName,
    /// The origins, at least one.
    pub origins: Vec<OriginSpec>,
    /// How requests are distributed among them.
    pub balance: Balance,
    /// How the session of a request is found, if origins have route names.
    pub sessions: SessionRules,
    /// The prefix that is removed from paths; empty: none.
    pub strip_prefix: Vec<u8>,
    /// The path and query that origins get; `None`: those of the request.
    pub path: Option<RouteTarget>,
    /// The value of `Host`.
    pub host: HostField,
    /// The version of HTTP.
    pub version: Version,
    /// The TLS settings, if TLS is used.
    pub tls: Option<Arc<OriginTls>>,
    /// The time limit of each step.
    pub times: TimeLimits,
    /// The limits of each origin's connections.
    pub connections: ConnectionRules,
    /// The most requests in progress at an origin; 0: any number.
    pub most_requests: u32,
    /// When an origin is ejected because of failed requests.
    pub health: HealthRules,
    /// The active checks; `None`: there are none.
    pub check: Option<CheckRules>,
    /// When a request is retried.
    pub retry: RetryRules,
    /// The fields about the client and this server.
    pub forward: ForwardRules,
    /// How the fields of responses are rewritten.
    pub answers: AnswerRules,
    /// The version of the PROXY header; `None`: it is not sent.
    pub proxy_header: Option<ProxyHeader>,
    /// A request's body up to this length is received before the request is sent to an origin; 0: it is
    /// streamed.
    pub buffered_request_bytes: usize,
    /// The limits of a response's head.
    pub head_limits: ResponseLimits,
    /// How long the addresses of a host are used before they are resolved again.
    pub resolve_interval: Duration,
}

/// The name of a group of origins in metrics.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupName {
    /// The site.
    pub site: String,
    /// The pattern of the route.
    pub route: String,
}

/// The value of `Host` for the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HostField {
    /// The host that the client named.
    Client,
    /// The name of the origin.
    Origin,
}

/// The time limit of each step of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimeLimits {
    /// Resolving a host.
    pub resolve: Duration,
    /// Opening a connection.
    pub connect: Duration,
    /// The TLS handshake.
    pub handshake: Duration,
    /// Until the origin accepts more of the request.
    pub send: Duration,
    /// From the end of the request to the head of the response.
    pub response: Duration,
    /// Between two reads of the response's body.
    pub idle: Duration,
    /// For the whole request; `None`: no limit besides those of the steps.
    pub total: Option<Duration>,
    /// After a switch of protocols, the longest time without bytes in either direction.
    pub tunnel: Duration,
}
