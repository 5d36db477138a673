//! What a configuration says of the origins behind a route.

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
use crate::ajp::SessionRules;
use crate::upstream::{Balance, HealthRules};

/// Everything about the origins behind a route.
#[derive(Debug, Clone, PartialEq)]
pub struct ProxySettings {
    /// What the group is called in metrics: its site and its route.
    pub name: GroupName,
    /// The origins, at least one.
    pub origins: Vec<OriginSpec>,
    /// How requests are shared out among them.
    pub balance: Balance,
    /// How sessions find the origin that has begun them, where origins have routes.
    pub sessions: SessionRules,
    /// What is left out at the beginning of paths; empty: nothing.
    pub strip_prefix: Vec<u8>,
    /// What `Host` says.
    pub host: HostField,
    /// Which versions of HTTP are spoken to them.
    pub version: Version,
    /// How TLS is spoken, where it is.
    pub tls: Option<Arc<OriginTls>>,
    /// How long each step may take.
    pub times: TimeLimits,
    /// How connections are kept and limited; for each origin.
    pub connections: ConnectionRules,
    /// The most requests under way at an origin; 0: any number.
    pub most_requests: u32,
    /// When an origin is left alone because of what requests have met.
    pub health: HealthRules,
    /// How origins are asked whether they are well; `None`: requests show it.
    pub check: Option<CheckRules>,
    /// When a request is sent again.
    pub retry: RetryRules,
    /// What origins are told of the client and of this server.
    pub forward: ForwardRules,
    /// What is changed in the fields of answers.
    pub answers: AnswerRules,
    /// What each connection begins with.
    pub proxy_header: Option<ProxyHeader>,
    /// A request's body up to this length is there before an origin is asked; 0: it is passed on as it comes.
    pub buffered_request_bytes: usize,
    /// How large the head of a response may be.
    pub head_limits: ResponseLimits,
    /// How old the addresses of a host may become.
    pub resolve_interval: Duration,
}

/// What a group of origins is called in metrics.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupName {
    /// The site.
    pub site: String,
    /// What the route matches.
    pub route: String,
}

/// What `Host` says to the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HostField {
    /// What the client said.
    Client,
    /// The name of the origin.
    Origin,
}

/// How long each step of a request may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimeLimits {
    /// Looking up a host.
    pub resolve: Duration,
    /// Until a connection has come about.
    pub connect: Duration,
    /// Until TLS has been agreed on.
    pub handshake: Duration,
    /// Until the origin takes more of the request.
    pub send: Duration,
    /// From the end of the request to the head of the response.
    pub response: Duration,
    /// Until more of the response's body comes.
    pub idle: Duration,
    /// For all of it; `None`: any time, as long as something moves.
    pub total: Option<Duration>,
    /// After a switch of protocols, until either side says something.
    pub tunnel: Duration,
}
