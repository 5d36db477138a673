//! `/sessions`: the open connections that have waited at least once, and their states. A connection whose
//! requests are answered at once is closed before it would be listed.

use std::cmp::Reverse;
use std::net::SocketAddr;

use maud::{DOCTYPE, Markup, html};
use serde_json::{Value, json};
use touchstone_http::request_view::{UNIX_CLIENT, UNIX_CLIENT_NAME, client_name};

use super::frame::{Html, page_of, policy};
use super::words;
use crate::connection_info::{CoreSessions, RequestFacts, SessionFacts};

/// The sessions as JSON.
pub fn sessions_json(cores: &[CoreSessions]) -> Value {
    let sessions = in_order(cores).into_iter();
    json!({
        "connections": cores.iter().map(|core| core.connections).sum::<usize>(),
        "sessions": sessions.map(|(core, session)| json!({
            "core": core,
            "client": session.peer.map(peer_text),
            "listener": session.listener.to_string(),
            "protocol": session.protocol,
            "age_ms": session.age_ms,
            "state": session.state.label(),
            "requests": session.requests,
            "under_way_count": session.under_way_count,
            "under_way": session.under_way.iter().map(|request| json!({
                "client": request.client.map(client_name),
                "method": request.method,
                "target": request.target,
                "site": known(&request.site),
                "route": known(&request.route),
                "handler": known(request.handler),
                "age_ms": request.age_ms,
            })).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
    })
}

/// The sessions of all cores, each with its core: those with active requests first, then the oldest.
fn in_order(cores: &[CoreSessions]) -> Vec<(usize, &SessionFacts)> {
    let mut all: Vec<(usize, &SessionFacts)> =
        cores.iter().flat_map(|core| core.sessions.iter().map(move |session| (core.core, session))).collect();
    all.sort_by_key(|(_, session)| (session.under_way_count == 0, Reverse(session.age_ms)));
    all
}

/// The sessions as an HTML page.
pub fn sessions_page(cores: &[CoreSessions], refresh: Option<u32>) -> Html {
    let connections: usize = cores.iter().map(|core| core.connections).sum();
    let shown: usize = cores.iter().map(|core| core.sessions.len()).sum();
    let content = html! {
        section id="sessions" aria-labelledby="sessions-title" {
            h2 id="sessions-title" { "Sessions" }
            div data-live="sessions" {
                p.note {
                    (words::whole(shown as u64)) " of " (words::whole(connections as u64))
                    " connections, those with active requests first. "
                    a href="/sessions?limit=10000" { "All of them" } " \u{b7} "
                    a href="/sessions.json" { "as JSON" }
                }
                (sessions_table(cores))
            }
        }
    };
    let text = html! {
        (DOCTYPE)
        (page_of("Sessions", "sessions", refresh, &content))
    };
    Html { text: text.into_string(), policy: policy() }
}

/// The table of sessions: one line for each active request, or for the connection if there is none.
pub fn sessions_table(cores: &[CoreSessions]) -> Markup {
    let sessions = in_order(cores);
    html! {
        @if sessions.is_empty() {
            p.note { "No connection waits." }
        } @else {
            div.scroll tabindex="0" role="region" aria-label="Sessions" {
                table {
                    thead { tr {
                        th scope="col" { "Client" }
                        th scope="col" { "State" }
                        th.number scope="col" { "Age" }
                        th.number scope="col" { "Requests" }
                        th scope="col" { "Active" }
                        th.number scope="col" { "For" }
                        th scope="col" { "Site" }
                        th scope="col" { "Handler" }
                        th scope="col" { "Protocol" }
                        th.number scope="col" { "Core" }
                    } }
                    tbody {
                        @for (core, session) in sessions { (session_rows(core, session)) }
                    }
                }
            }
        }
    }
}

fn session_rows(core: usize, session: &SessionFacts) -> Markup {
    let peer = session.peer.map_or_else(|| "\u{2013}".to_string(), peer_text);
    let more = session.under_way_count.saturating_sub(session.under_way.len());
    html! {
        @if session.under_way.is_empty() {
            tr {
                td { (peer) }
                td { (state(session)) }
                td.number { (words::age(session.age_ms)) }
                td.number { (words::whole(session.requests)) }
                td { } td { } td { } td { }
                td { (session.protocol) }
                td.number { (core) }
            }
        }
        @for request in &session.under_way {
            tr {
                td { (client(session, request)) }
                td { (state(session)) }
                td.number { (words::age(session.age_ms)) }
                td.number { (words::whole(session.requests)) }
                td.target { (request.method) " " (request.target) }
                td.number { (words::age(request.age_ms)) }
                td { (request.site) @if !matches!(request.route.as_str(), "" | "-") { " " (request.route) } }
                td { (request.handler) }
                td { (session.protocol) }
                td.number { (core) }
            }
        }
        @if more > 0 {
            tr { td colspan="10" { "and " (more) " more requests of " (peer) } }
        }
    }
}

/// The other end of a connection.
fn peer_text(peer: SocketAddr) -> String {
    if peer.ip() == UNIX_CLIENT { UNIX_CLIENT_NAME.to_string() } else { peer.to_string() }
}

/// The client: the other end of the connection, or the client behind it if that is a proxy.
fn client(session: &SessionFacts, request: &RequestFacts) -> String {
    match (session.peer, request.client) {
        (Some(peer), Some(client)) if peer.ip().to_canonical() != client => {
            format!("{} through {}", client_name(client), peer_text(peer))
        }
        (Some(peer), _) => peer_text(peer),
        (None, client) => client.map_or_else(|| "\u{2013}".to_string(), client_name),
    }
}

fn state(session: &SessionFacts) -> Markup {
    let label = session.state.label();
    html! { span class={ "state " (label) } { (label) } }
}

fn known(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}
