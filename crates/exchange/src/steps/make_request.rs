//! Makes a request with its site from a received head, or the answer to a head that is not a valid request.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use touchstone_config::{ListenAddress, LogLevel};
use touchstone_handler::answer::Answer;
use touchstone_handler::pipe::Receiver;
use touchstone_handler::request::{Protocol, ReceivedHead, Request, RequestDetails, TlsFacts};
use touchstone_http::path::{PathRules, ReadPath};
use touchstone_http::request::{Expectation, Method, RequestBody, RequestHead};
use touchstone_http::request_view::HeadFields;
use touchstone_http::target::{RequestTarget, is_plain_path, parse_target};
use touchstone_observe::log::error::ErrorLog;
use touchstone_sites::site::{ListenerSites, Snapshot};

use crate::files::static_files;

/// How a request arrived.
pub struct Arrival {
    /// The version of HTTP.
    pub protocol: Protocol,
    /// The client's end of the connection, or the address that a PROXY header named.
    pub peer: Option<SocketAddr>,
    /// The address that accepted the connection, as configured.
    pub listener: ListenAddress,
    /// The TLS session.
    pub tls: Option<Arc<TlsFacts>>,
    /// The number of the connection.
    pub connection: u64,
    /// The identifier of the stream, in HTTP/2 and HTTP/3.
    pub stream: Option<u64>,
}

/// Refuses requests that can be refused by the head, before a handler is chosen. `buffer` holds the head.
pub fn refuse(
    error_log: &ErrorLog,
    snapshot: &Snapshot,
    head: &RequestHead,
    buffer: &[u8],
) -> Option<Answer> {
    if head.expectation == Expectation::Unknown {
        return Some(Answer::error(417));
    }
    let most_bytes = snapshot.most_body_bytes;
    if let RequestBody::Length(length) = head.body
        && length > most_bytes
    {
        // A client may send any bytes, so unsafe ones are escaped.
        let (method, target) = (head.method_span.of(buffer), head.target.of(buffer));
        let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
        let message = format_args!(
            "{} {} is refused: its body has {length} bytes, and body_bytes allows {most_bytes}",
            method.escape_ascii(),
            path.escape_ascii(),
        );
        error_log.limited(LogLevel::Warning, "request body too long", message);
        return Some(Answer::error(413));
    }
    None
}

/// Finds the site, and makes a request of a head. An error is the answer.
///
/// `sites` are those of the address; `may_serve` returns whether the connection may be used for a host.
pub fn make_request(
    snapshot: &Snapshot,
    sites: Option<&ListenerSites>,
    arrival: Arrival,
    received: Rc<ReceivedHead>,
    may_serve: impl FnOnce(Option<&[u8]>) -> bool,
    body: Option<Receiver>,
) -> Result<Request, Answer> {
    let (path, query, host) = target_of(&received)?;
    if let Some(proof) = snapshot.acme_challenges.answer(path, host) {
        return Err(proof);
    }
    // RFC 9110 section 15.5.20: the host does not belong to this address, or not to this connection.
    let site = sites.and_then(|sites| sites.site(host)).ok_or_else(|| Answer::error(421))?;
    if !may_serve(host) {
        return Err(Answer::error(421));
    }
    let sent = received.share(path);
    let (query, host) = (query.map(|query| received.share(query)), host.map(|host| received.share(host)));
    let Paths { decoded: path, encoded: encoded_path, received } =
        paths(snapshot.sites[site].config.path_rules(), sent, received)?;
    let is_trusted = |peer: &IpAddr| snapshot.connection_gate.trusts_fields_of(*peer);
    let trusted_proxy = arrival.peer.map(|peer| peer.ip()).filter(is_trusted);
    let of_arrival = details_of(snapshot, arrival, received, site, host);
    let details = RequestDetails { path, encoded_path, query, trusted_proxy, ..of_arrival };
    Ok(Request::new(details, body.unwrap_or_else(|| Receiver::of(Bytes::new()))))
}

/// The details of a request for the path `/` of a site, as it arrived: no rule has looked at it.
pub(super) fn details_of(
    snapshot: &Snapshot,
    arrival: Arrival,
    received: Rc<ReceivedHead>,
    site: usize,
    host: Option<Bytes>,
) -> RequestDetails {
    let fields = HeadFields { head: &received.head, buffer: &received.buffer };
    RequestDetails {
        protocol: arrival.protocol,
        path: Bytes::new(),
        encoded_path: Bytes::from_static(b"/"),
        query: None,
        host,
        site,
        client: client_of(snapshot, arrival.peer, &fields),
        locator: snapshot.locator.clone(),
        trusted_proxy: None,
        server: arrival.listener.for_programs(arrival.tls.is_some()),
        tls: arrival.tls,
        user: None,
        claims: None,
        bot: None,
        is_admitted: false,
        session: None,
        id: Box::default(),
        depth: 0,
        connection: arrival.connection,
        stream: arrival.stream,
        page_variables: None,
        route: None,
        trace: None,
        received,
    }
}

/// The client, behind trusted proxies; the port is 0 if only the address is known.
pub fn client_of(
    snapshot: &Snapshot,
    peer: Option<SocketAddr>,
    fields: &HeadFields<'_>,
) -> Option<SocketAddr> {
    peer.map(|peer| {
        let address = snapshot.connection_gate.client(peer.ip(), fields);
        let port = if address == peer.ip().to_canonical() { peer.port() } else { 0 };
        SocketAddr::new(address, port)
    })
}

/// The path, the query and the host that a request is for.
type Target<'a> = (&'a [u8], Option<&'a [u8]>, Option<&'a [u8]>);

/// Reads the target of a request. An error is the answer.
fn target_of(received: &ReceivedHead) -> Result<Target<'_>, Answer> {
    let head = &received.head;
    let (is_connect, is_options) = (head.method == Method::Connect, head.method == Method::Options);
    let Ok(target) = parse_target(is_connect, is_options, received.target()) else {
        return Err(Answer::error(400));
    };
    match target {
        RequestTarget::Origin { path, query } => {
            Ok((path, query, head.host.map(|host| host.of(&received.buffer))))
        }
        // RFC 9112 section 3.2.2: the authority of an absolute target replaces Host.
        RequestTarget::Absolute { authority, path, query, .. } => Ok((path, query, Some(authority))),
        RequestTarget::Asterisk => Err(Answer::new(204).field("Allow", static_files::ALLOWED_METHODS)),
        RequestTarget::Authority(_) => Err(Answer::error(405).field("Allow", static_files::ALLOWED_METHODS)),
    }
}

/// The path that rules judge, the normalised path, and the head that contains it.
struct Paths {
    decoded: Bytes,
    encoded: Bytes,
    received: Rc<ReceivedHead>,
}

/// Reads the path. `decoded` is empty if the path is refused; the refusal follows later, with the page of the
/// site.
fn paths(rules: PathRules, sent: Bytes, received: Rc<ReceivedHead>) -> Result<Paths, Answer> {
    if is_plain_path(&sent) {
        return Ok(Paths { decoded: sent.clone(), encoded: sent, received });
    }
    let Ok(ReadPath { decoded, encoded }) = rules.read(&sent) else {
        return Ok(Paths { decoded: Bytes::new(), encoded: sent, received });
    };
    let decoded = Bytes::from(decoded);
    if *encoded == *sent {
        return Ok(Paths { decoded, encoded: sent, received });
    }
    let received = received.with_path(&sent, &encoded).ok_or_else(|| Answer::error(400))?;
    Ok(Paths { decoded, encoded: encoded.into(), received: Rc::new(received) })
}
