//! Sends a plain GET directly from its connection's buffer to an origin, on an idle connection of the same
//! core that accepts all of it at once.
//!
//! In most cases the first received bytes contain the whole response. The answer is then made directly from
//! the receive buffer, without a task, a pipe or a copy of the request. In all other cases (a long response,
//! one in pieces or in chunks, an interim response, an error, a connection that has ended) the
//! [attempt](super::attempt) continues, as if it had sent the request.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use touchstone_handler::answer::Answer;
use touchstone_handler::handler::{Handled, LocalBoxFuture, PendingCall};
use touchstone_handler::request::{PlainGet, Request};
use touchstone_http::response::{BodyFraming, Parsed, ResponseHead, body_framing, parse_response_head};

use super::attempt::{self, StartedAttempt};
use super::connections::Connection;
use super::fields::{append_plain_get, can_append_plain_gets, response_fields};
use super::group::{Group, SharedGroup};
use super::http1;
use super::origin::RequestGuard;
use super::settings::ProxySettings;
use super::version::Version;
use touchstone_upstream::Balance;

/// The longest response that can be read in one piece.
const RECEIVE_BYTES: usize = 32 * 1024;

/// A core's memory for requests that are sent and responses that are received. Its vectors are empty between
/// two polls; the head is the last one, so that an equal one need not be parsed.
pub struct Scratch {
    request: RefCell<Vec<u8>>,
    received: RefCell<Vec<u8>>,
    head: RefCell<ResponseHead>,
}

impl Scratch {
    /// The memory for the requests of a group with these settings.
    pub fn new(settings: &ProxySettings) -> Scratch {
        let head = RefCell::new(ResponseHead::with_limits(settings.head_limits));
        Scratch { request: RefCell::default(), received: RefCell::default(), head }
    }
}

/// Whether plain GETs can be sent directly to the origins of this group.
pub fn is_possible(group: &SharedGroup) -> bool {
    let settings = &group.settings;
    settings.version == Version::Http11
        && settings.tls.is_none()
        && settings.proxy_header.is_none()
        && settings.connections.most_idle > 0
        && !matches!(settings.balance, Balance::Hash(_))
        && can_append_plain_gets(settings)
        && group.members.iter().all(|member| member.spec.route.is_empty() && !member.spec.url.is_tls)
}

/// A request that was sent to an origin.
pub struct PendingGet {
    group: Rc<Group>,
    scratch: Rc<Scratch>,
    index: usize,
    guard: RequestGuard,
    /// The connection that it was sent on. `None` if it was not sent, and after the answer has arrived.
    connection: Option<Connection>,
    began: Instant,
}

impl PendingGet {
    /// Chooses an origin, and sends it the request on an idle connection if there is one. `None`: no origin
    /// accepts it at once.
    pub fn begin(group: &Rc<Group>, scratch: &Rc<Scratch>, get: &PlainGet<'_>) -> Option<PendingGet> {
        let settings = group.settings();
        let index = group.choose(&[], None, None)?;
        let member = group.member(index);
        let guard = member.origin.begin(settings.most_requests)?;
        let request = &mut *scratch.request.borrow_mut();
        request.clear();
        let is_complete = append_plain_get(settings, &member.spec.url, get, request);
        let take_idle = || member.origin.connections.take_own_idle(group.server.core());
        // A connection that accepts only a part of the request is dropped, so the origin sees its end.
        let connection = is_complete
            .then(take_idle)
            .flatten()
            .filter(|connection| connection.stream.try_send_all(request));
        group.shared.budget.earn(&settings.retry);
        let (group, scratch) = (group.clone(), scratch.clone());
        Some(PendingGet { group, scratch, index, guard, connection, began: get.received_at })
    }

    /// Passes the answer on if it was received completely and needs no further action; returns whether it
    /// did, and whether the origin keeps the connection.
    fn give_whole(&self, received: &[u8], give: &mut dyn FnMut(Answer, &[u8])) -> Option<bool> {
        let head = &mut *self.scratch.head.borrow_mut();
        let Ok(Parsed::Complete(head_bytes)) = parse_response_head(received, head) else { return None };
        let body = &received[head_bytes..];
        let settings = self.group.settings();
        let is_whole = body_framing(false, head) == BodyFraming::Length(body.len() as u64);
        // 426 names protocols in a field of the connection. A retry may follow the statuses of `retry`.
        if !is_whole || head.status == 426 || settings.retry.statuses.contains(&head.status) {
            return None;
        }
        let mut answer = http1::answer_of(head, response_fields(head));
        if !settings.answers.is_empty() {
            settings.answers.apply(&mut answer.fields);
        }
        let member = self.group.member(self.index);
        member.counts.attempts.fetch_add(1, Relaxed);
        self.group.record_answer(self.index, head.status, self.began.elapsed());
        let is_kept = head.is_persistent();
        give(answer, body);
        Some(is_kept)
    }
}

impl PendingCall for PendingGet {
    fn limit(&self) -> Duration {
        let times = &self.group.settings().times;
        times.total.map_or(times.response, |total| total.min(times.response))
    }

    fn poll_answer(&mut self, context: &mut Context<'_>, give: &mut dyn FnMut(Answer, &[u8])) -> Poll<()> {
        let Some(mut connection) = self.connection.take() else { return Poll::Ready(()) };
        let scratch = self.scratch.clone();
        let received = &mut *scratch.received.borrow_mut();
        let Poll::Ready(received) = connection.stream.poll_receive_piece(context, received, RECEIVE_BYTES)
        else {
            self.connection = Some(connection);
            return Poll::Pending;
        };
        match self.give_whole(received, give) {
            Some(true) => {
                let connections = &self.group.origin(self.index).connections;
                connections.release(self.group.server.core(), connection);
            }
            Some(false) => {}
            None => {
                connection.received.extend_from_slice(received);
                self.connection = Some(connection);
            }
        }
        Poll::Ready(())
    }

    fn continue_request(self: Box<Self>, request: Request) -> LocalBoxFuture<Handled> {
        let PendingGet { group, index, guard, connection, began, .. } = *self;
        let started = StartedAttempt { index, guard, connection, began };
        Box::pin(async move { Handled::Answer(attempt::answer(group, request, Some(started)).await) })
    }
}
