//! Requests that other servers answer: one origin or several equal ones, over HTTP/1.1, HTTP/2 or HTTP/3,
//! with or without TLS, over TCP, unix sockets or QUIC.
//!
//! ```text
//! request -> choose origin -> connect -> send -> receive head -> stream body
//!                 ^------ retry, if that is safe ------'
//! ```
//!
//! Request and response are streamed at the same time, so that long uploads, event streams, gRPC and
//! WebSockets work. A request is retried only if no action can happen twice: the origin has not processed it,
//! or its method is idempotent (RFC 9110 section 9.2.2). Its body must still be available, and no part of an
//! answer may have been sent to the client.
//!
//! | module | |
//! |---|---|
//! | `settings`, `origin_url`, `check_rules` | the settings |
//! | `group`, `member`, `check`, `retry`, `upkeep` | the origins of a route: balancing, checks, retries |
//! | `origin_groups` | all groups of a server, and the states that operators set for their origins |
//! | `origin`, `connections`, `resolve`, `tls`, `version`, `proxy_header` | one origin, shared by routes |
//! | `fields`, `forwarded`, `request_body` | the request as it is sent, with fields about the client |
//! | `attempt`, `origin_attempt`, `http1`, `http2`, `http3`, `stream_exchange`, `tunnel` | one request |
//! | `pending_get` | a plain GET, directly from the client's connection |
//! | `sessions`, `core_sessions` | connections that several requests share |
//! | `http2_connection`, `http3_connection`, `quic` | such connections of each version |
//! | `body_limits` | how much of a response is buffered |
//! | `span` | attempts as spans of the trace of their request |
//! | `grpc` | recognises gRPC calls, whose bodies are streams of messages |
//! | `failure`, `counts` | errors, and counts for metrics |
//! | `relay` | the same origins for TCP connections and datagrams that carry no requests |

mod answer_fields;
mod attempt;
mod body_limits;
mod check;
mod check_rules;
mod connections;
mod core_sessions;
mod counts;
mod failure;
mod fields;
mod forwarded;
mod group;
mod grpc;
mod http1;
mod http2;
mod http2_connection;
mod http3;
mod http3_connection;
mod member;
mod origin;
mod origin_attempt;
mod origin_groups;
mod origin_url;
mod pending_get;
mod proxy_header;
mod quic;
mod relay;
mod request_body;
mod resolve;
mod retry;
mod sessions;
mod settings;
mod span;
mod stream_exchange;
mod tls;
mod tunnel;
mod upkeep;
mod version;

pub use answer_fields::AnswerRules;
pub use check_rules::CheckRules;
pub use connections::ConnectionRules;
pub use counts::{OriginCounts, TIME_BOUNDS_S};
pub use failure::FailureLabel;
pub use forwarded::{Forward, ForwardRules};
pub use group::SharedGroup;
pub use member::{Member, OriginOrder, OriginState};
pub use origin_groups::{OriginGroups, OriginOrders};
pub use origin_url::{Address, OriginSpec, OriginUrl, Role, Traffic};
pub use proxy_header::ProxyHeader;
pub use relay::{DatagramLink, Preface, Relay, RelayConnection};
pub use retry::RetryRules;
pub use settings::{GroupName, HostField, ProxySettings, TimeLimits};
pub use tls::{OriginTls, TlsSettings};
pub use touchstone_upstream::stream::Stream;
pub use touchstone_upstream::{Balance, HashBy, HealthRules, State};
pub use version::Version;

use std::rc::Rc;
use std::sync::Arc;

use group::Group;
use pending_get::{PendingGet, Scratch};
use touchstone_handler::handler::{Handled, Handler, ImmediateAnswer, Interface, LocalBoxFuture, Server};
use touchstone_handler::request::{PlainGet, Request};

/// The configured origins of a route.
pub struct Proxy {
    shared: Arc<SharedGroup>,
}

impl Proxy {
    /// Makes the origins of these settings; `groups` are those of the server.
    pub fn new(settings: ProxySettings, groups: &OriginGroups) -> Proxy {
        Proxy { shared: groups.get(settings) }
    }
}

impl Interface for Proxy {
    fn name(&self) -> &'static str {
        "proxy"
    }

    fn judges_parameters(&self) -> bool {
        false
    }

    fn takes_escapes(&self) -> bool {
        true
    }

    fn begins_early(&self) -> bool {
        // With active checks, the state of the origins is known before the first request.
        self.shared.settings.check.is_some()
    }

    fn on_core(&self, server: Rc<dyn Server>) -> Rc<dyn Handler> {
        let group = Group::new(self.shared.clone(), server);
        upkeep::begin(&group);
        let scratch = Rc::new(Scratch::new(&self.shared.settings));
        Rc::new(ProxyOfCore { group, scratch })
    }

    fn answers_at_once(&self) -> bool {
        pending_get::is_possible(&self.shared)
    }
}

struct ProxyOfCore {
    group: Rc<Group>,
    /// Memory for plain GETs.
    scratch: Rc<Scratch>,
}

impl Handler for ProxyOfCore {
    fn handle(self: Rc<Self>, request: Request) -> LocalBoxFuture<Handled> {
        let group = self.group.clone();
        Box::pin(async move { Handled::Answer(attempt::answer(group, request, None).await) })
    }

    fn answer_at_once(self: Rc<Self>, get: &PlainGet<'_>, _body: &mut Vec<u8>) -> ImmediateAnswer {
        match PendingGet::begin(&self.group, &self.scratch, get) {
            Some(pending_get) => ImmediateAnswer::Pending(Box::new(pending_get)),
            None => ImmediateAnswer::Handle,
        }
    }
}
