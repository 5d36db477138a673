//! The settings of the origins of a route.

use std::sync::Arc;
use std::time::Duration;

use touchstone_http::response::ResponseLimits;

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
    /// The name of the group in metrics: its site and its route.
    pub name: GroupName,
    /// The origins, at least one.
    pub origins: Vec<OriginSpec>,
    /// How requests are distributed among them.
    pub balance: Balance,
    /// How the origin of a session is found, if origins have route names.
    pub sessions: SessionRules,
    /// The prefix that is removed from paths; empty: none.
    pub strip_prefix: Vec<u8>,
    /// The value of `Host`.
    pub host: HostField,
    /// The versions of HTTP that are used.
    pub version: Version,
    /// The TLS settings, if TLS is used.
    pub tls: Option<Arc<OriginTls>>,
    /// How long each step may take.
    pub times: TimeLimits,
    /// How connections are kept and limited; for each origin.
    pub connections: ConnectionRules,
    /// The most requests in progress at an origin; 0: any number.
    pub most_requests: u32,
    /// When an origin is ejected because of failed requests.
    pub health: HealthRules,
    /// How origins are checked; `None`: only requests show their state.
    pub check: Option<CheckRules>,
    /// When a request is repeated.
    pub retry: RetryRules,
    /// The fields about the client and this server.
    pub forward: ForwardRules,
    /// How the fields of answers are changed.
    pub answers: AnswerRules,
    /// The PROXY header of each connection.
    pub proxy_header: Option<ProxyHeader>,
    /// A request's body up to this length is received before the request is sent to an origin; 0: it is
    /// passed on as it arrives.
    pub buffered_request_bytes: usize,
    /// How large the head of a response may be.
    pub head_limits: ResponseLimits,
    /// How long the addresses of a host are used before they are resolved again.
    pub resolve_interval: Duration,
}

/// The name of a group of origins in metrics.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupName {
    /// The site.
    pub site: String,
    /// What the route matches.
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
    /// Until more of the response's body arrives.
    pub idle: Duration,
    /// For the whole request; `None`: no limit, as long as bytes are moving.
    pub total: Option<Duration>,
    /// After a switch of protocols, the longest time without bytes in either direction.
    pub tunnel: Duration,
}
