//! Sends a plain GET directly from its connection's buffer to a program, on a kept connection that accepts
//! all of it at once.
//!
//! In most cases the first received bytes contain the whole answer. The answer is then made directly from the
//! receive buffer, without further copies of request or answer; this saves half of the cost of a call through
//! a program. In all other cases (a long answer, one in pieces, a message, an error, a connection that has
//! ended) the [`Caller`](crate::backend::caller::Caller) continues, as if it had sent the request.

use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use touchstone_handler::answer::Answer;
use touchstone_handler::handler::{Handled, LocalBoxFuture, PendingCall};
use touchstone_handler::request::{PlainGet, Request};

use super::Gateway;
use crate::backend::backend_call::BackendCall;
use crate::backend::connections::Connection;
use crate::backend::group::RequestGuard;
use crate::backend::protocol::{ProgramProtocol, WholeAnswer};
use crate::backend::respond::{self, Body};
use crate::backend::variables::ProgramVariables;
use crate::cgi_response::{ProgramResponse, ResponseParser};

/// The largest answer, with the bytes of the protocol, that can be read in one piece.
const RECEIVE_BYTES: usize = 64 * 1024;

/// A core's memory for requests that are sent and answers that are received; it is empty between two polls.
#[derive(Default)]
pub struct Scratch {
    request: Vec<u8>,
    received: Vec<u8>,
}

/// A request that was sent to a program.
pub struct PendingGet<P> {
    gateway: Rc<Gateway<P>>,
    guard: RequestGuard,
    /// The connection that it was sent on. `None` if there was no kept connection, and after the answer has
    /// arrived.
    connection: Option<Connection>,
    began: Instant,
}

impl<P: ProgramProtocol> PendingGet<P> {
    /// Chooses a backend, and sends it the request on a kept connection if there is one. `None`: the path has
    /// no script, or no program can take the request.
    pub fn begin(gateway: Rc<Gateway<P>>, get: &PlainGet<'_>) -> Option<PendingGet<P>> {
        let settings = gateway.settings.clone();
        if settings.pool.as_ref().is_some_and(|pool| pool.problem().is_some()) {
            return None;
        }
        let mut buffer = std::mem::take(&mut gateway.scratch.borrow_mut().request);
        buffer.clear();
        let script = gateway.script(get.path).ok()?;
        let variables = ProgramVariables::of_plain_get(get, &script, &settings)?;
        let request = P::request_head(&variables, true, buffer).ok()?;
        let index = gateway.group.choose(&[])?;
        let kept = gateway.group.connections(index).take_kept().map(|(connection, _)| connection);
        // A connection that accepts only a part of the request is dropped, so the program sees its end.
        let connection = kept.filter(|connection| connection.stream.try_send_all(&request));
        gateway.scratch.borrow_mut().request = request;
        let guard = gateway.group.begin(index);
        Some(PendingGet { gateway, guard, connection, began: get.received_at })
    }

    /// The backend, and the call of it if there is one.
    pub fn into_backend_call(self) -> (RequestGuard, Option<Box<BackendCall<P>>>) {
        let times = self.gateway.settings.times;
        let backend_call =
            |connection| BackendCall::sent(connection, P::Decoder::default(), times, self.began.into());
        (self.guard, self.connection.map(|connection| Box::new(backend_call(connection))))
    }

    /// Passes the answer on if it was received completely and needs no action of the server; returns whether
    /// it did.
    fn give_whole(&self, received: &[u8], give: &mut dyn FnMut(Answer, &[u8])) -> bool {
        let Some(WholeAnswer { first, more }) = P::whole_answer(received) else { return false };
        let settings = &self.gateway.settings;
        let mut parser = ResponseParser::new(settings.header);
        let Ok(Some((ProgramResponse::Document(head), end))) = parser.feed(first) else { return false };
        let joined;
        let body = match more.as_slice() {
            [] => &first[end..],
            more => {
                joined = [&[&first[end..]], more].concat().concat();
                &joined[..]
            }
        };
        let names_a_file = settings.send_files_from.is_some()
            && (head.accel_redirect.is_some() || head.field(b"x-sendfile").is_some());
        if names_a_file
            || !parser.take_interim().is_empty()
            || head.is_chunked
            || head.content_length.is_some_and(|length| length != body.len() as u64)
        {
            return false;
        }
        give(respond::answer(head, false, Body::Whole(Bytes::new())), body);
        true
    }
}

impl<P: ProgramProtocol> PendingCall for PendingGet<P> {
    fn limit(&self) -> Duration {
        let times = &self.gateway.settings.times;
        times.total.map_or(times.first_byte, |total| total.min(times.first_byte))
    }

    fn poll_answer(&mut self, context: &mut Context<'_>, give: &mut dyn FnMut(Answer, &[u8])) -> Poll<()> {
        let Some(mut connection) = self.connection.take() else { return Poll::Ready(()) };
        let gateway = self.gateway.clone();
        let received = &mut gateway.scratch.borrow_mut().received;
        let Poll::Ready(received) = connection.stream.poll_receive_piece(context, received, RECEIVE_BYTES)
        else {
            self.connection = Some(connection);
            return Poll::Pending;
        };
        if self.give_whole(received, give) {
            gateway.group.succeeded(self.guard.index());
            gateway.group.connections(self.guard.index()).release(connection);
        } else {
            connection.received.extend_from_slice(received);
            self.connection = Some(connection);
        }
        Poll::Ready(())
    }

    fn continue_request(self: Box<Self>, request: Request) -> LocalBoxFuture<Handled> {
        let gateway = self.gateway.clone();
        Box::pin(async move { gateway.continue_request(*self, request).await })
    }
}
