//! The facts about a request that was answered.

use std::borrow::Cow;

use touchstone_expression::{Fact, Source, Variable, source};
use touchstone_handler::request::{BotFacts, ClaimValues};
use touchstone_http::request_view::{AddressLocator, RequestFields, values};
use touchstone_http::trace_context::write_hexadecimal;

use super::number::append_seconds;

/// The facts about a request that was answered. Everything is borrowed: data is copied only into the line.
#[derive(Clone, Copy, Default)]
pub struct Record<'a> {
    /// The client's address, as text (made once for each connection).
    pub client: &'a str,
    /// The request line as received, without its end; empty: none was received.
    pub request_line: &'a [u8],
    /// Its method; empty if it could not be read, as are the next two.
    pub method: &'a [u8],
    /// Its target.
    pub target: &'a [u8],
    /// Its version, such as `HTTP/1.1`.
    pub version: &'a str,
    /// The status that was sent.
    pub status: u16,
    /// The bytes of the body that were sent.
    pub body_bytes: u64,
    /// The Host field.
    pub host: Option<&'a [u8]>,
    /// The Referer field.
    pub referer: Option<&'a [u8]>,
    /// The User-Agent field.
    pub user_agent: Option<&'a [u8]>,
    /// The time from the first byte of the request to the last byte of the response; used only if the format
    /// [needs it](super::LineFormat::needs_duration).
    pub duration_us: u64,
    /// Finds the location of the client.
    pub locator: Option<&'a dyn AddressLocator>,
    /// All header fields of the request.
    pub fields: Option<&'a dyn RequestFields>,
    /// The user that was authenticated.
    pub user: Option<&'a str>,
    /// The claims of a token or a provider about that user.
    pub claims: Option<&'a dyn ClaimValues>,
    /// The facts about the bot that has signed the request.
    pub bot: Option<&'a BotFacts>,
    /// The request's id; used only if the format [needs it](super::LineFormat::needs_request_id).
    pub request_id: Option<&'a [u8]>,
    /// The ids of the request's trace and span, if the server traces it.
    pub trace_ids: Option<&'a TraceIds>,
    /// The facts about the TLS session; `None` without TLS.
    pub tls: Option<TlsRecord<'a>>,
    /// The site's name; empty: no site was found.
    pub site: &'a str,
    /// The route's name; empty: no route matched.
    pub route: &'a str,
    /// The handler or action, such as `files`; empty: unknown.
    pub handler: &'a str,
    /// The result of the cache before it, such as `hit`; empty: there is none.
    pub cache: &'a str,
}

/// The ids of a trace and of the span of the request in it, in hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceIds {
    /// The trace.
    pub trace: [u8; 32],
    /// The span.
    pub span: [u8; 16],
}

impl TraceIds {
    /// The ids as text.
    pub fn new(trace_id: [u8; 16], span_id: [u8; 8]) -> TraceIds {
        let mut ids = TraceIds { trace: [0; 32], span: [0; 16] };
        write_hexadecimal(&trace_id, &mut ids.trace);
        write_hexadecimal(&span_id, &mut ids.span);
        ids
    }
}

/// The facts about a TLS session.
#[derive(Debug, Clone, Copy, Default)]
pub struct TlsRecord<'a> {
    /// The version, such as `TLSv1.3`.
    pub version: &'a str,
    /// The cipher suite.
    pub cipher: &'a str,
    /// The name that the client requested.
    pub server_name: Option<&'a str>,
    /// The subject of the client's certificate.
    pub subject: Option<&'a str>,
}

impl<'a> Record<'a> {
    /// The target's path, without the query.
    pub fn path(&self) -> &'a [u8] {
        let end = memchr::memchr(b'?', self.target).unwrap_or(self.target.len());
        &self.target[..end]
    }

    /// The query, without its question mark.
    pub fn query(&self) -> Option<&'a [u8]> {
        memchr::memchr(b'?', self.target).map(|mark| &self.target[mark + 1..])
    }

    /// The first value of a field of the request, whose name is given in lower case.
    pub fn field(&self, name: &[u8]) -> Option<&'a [u8]> {
        let fields = self.fields?;
        let all = (0..).map_while(|position| fields.field(position));
        all.into_iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The trace context of the request, if it has a valid one: the whole value, and the id of the trace in
    /// it.
    pub fn trace(&self) -> Option<touchstone_http::trace_context::TraceParent<'a>> {
        let fields = self.fields?;
        let all = (0..).map_while(move |position| fields.field(position));
        touchstone_http::trace_context::from_fields(all)
    }
}

/// The values of variables in conditions of a log. The path is that of the target as it was sent.
impl Source for Record<'_> {
    fn value<'a>(&'a self, variable: &'a Variable) -> Option<Cow<'a, [u8]>> {
        let text = |text: &'a str| Some(text.as_bytes()).filter(|bytes| !bytes.is_empty());
        let number = |number: u64| Some(Cow::Owned(number.to_string().into_bytes()));
        let borrowed = match variable.fact {
            Fact::Client => text(self.client),
            Fact::Method => Some(self.method),
            Fact::Path => Some(self.path()),
            Fact::Query => self.query(),
            Fact::Target => Some(self.target),
            Fact::Host => return self.host.map(source::host),
            Fact::Header => self.field(variable.name.as_bytes()),
            Fact::Cookie => {
                let mut cookies = values(self.fields?, b"cookie");
                cookies.find_map(|value| source::cookie(value, &variable.name))
            }
            Fact::Argument => source::argument(self.query()?, &variable.name),
            Fact::Country | Fact::System => {
                return source::place(variable.fact, self.locator, self.client.parse().ok()?);
            }
            Fact::Scheme => Some(if self.tls.is_some() { &b"https"[..] } else { b"http" }),
            Fact::Protocol => text(self.version),
            Fact::Claim => return self.claims?.value(&variable.name).map(source::text),
            Fact::Bot => text(self.bot.map_or("", |bot| &*bot.name)),
            Fact::BotVerified => text(self.bot.map_or("", |bot| bot.state)),
            Fact::User => self.user.map(str::as_bytes),
            Fact::RequestId => self.request_id,
            Fact::TlsVersion => self.tls.and_then(|tls| text(tls.version)),
            Fact::TlsCipher => self.tls.and_then(|tls| text(tls.cipher)),
            Fact::TlsServerName => self.tls.and_then(|tls| tls.server_name).map(str::as_bytes),
            Fact::TlsSubject => self.tls.and_then(|tls| tls.subject).map(str::as_bytes),
            Fact::TlsVerified => self.tls.and_then(|tls| tls.subject).map(|_| source::VERIFIED.as_bytes()),
            // A line has no pattern; maps are looked up before this is called, and the time is the clock's.
            Fact::Capture | Fact::Map | Fact::Time | Fact::TimeRfc3339 | Fact::TimeUnix => None,
            Fact::Status => return number(self.status.into()),
            Fact::BodyBytes => return number(self.body_bytes),
            Fact::Duration => return number(self.duration_us),
            Fact::DurationSeconds => {
                let mut seconds = Vec::new();
                append_seconds(self.duration_us, &mut seconds);
                return Some(Cow::Owned(seconds));
            }
            Fact::RequestLine => Some(self.request_line),
            Fact::Referer => self.referer,
            Fact::UserAgent => self.user_agent,
            Fact::TraceParent => self.trace().map(|trace| trace.text()),
            Fact::TraceId => match self.trace_ids {
                Some(ids) => Some(&ids.trace[..]),
                None => self.trace().map(|trace| trace.trace_id()),
            },
            Fact::SpanId => self.trace_ids.map(|ids| &ids.span[..]),
            Fact::Site => text(self.site),
            Fact::Route => text(self.route),
            Fact::Handler => text(self.handler),
            Fact::Cache => text(self.cache),
        };
        borrowed.map(Cow::Borrowed)
    }
}
