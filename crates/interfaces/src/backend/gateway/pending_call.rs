//! A plain GET that is sent to a program from where it lies in its connection's buffer, over a kept
//! connection that takes all of it at once.
//!
//! Mostly the whole answer is there when the program is next heard of. It is then made from where it was
//! received, and neither request nor answer is ever in more places than the sockets and the answer itself;
//! that is half of what a call through a program costs otherwise. Whatever comes differently (a long answer,
//! one in pieces, a message, an error, a connection that has ended) goes on as the
//! [`Caller`](crate::backend::caller::Caller)'s, as if that had sent the request.

use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use touchstone_handler::answer::Answer;
use touchstone_handler::handler::{Handled, OnCore, PendingCall};
use touchstone_handler::request::{PlainGet, Request};

use super::Gateway;
use crate::backend::connections::Connection;
use crate::backend::exchange::Exchange;
use crate::backend::group::Busy;
use crate::backend::protocol::{ProgramProtocol, WholeAnswer};
use crate::backend::respond::{self, Body};
use crate::backend::variables::ProgramVariables;
use crate::cgi_response::{ProgramResponse, ResponseParser};

/// Answers up to this, with what the protocol adds, are looked for in one piece.
const RECEIVE_BYTES: usize = 64 * 1024;

/// A core's memory for requests that are being sent and answers that are being received: between two polls
/// there is nothing in it.
#[derive(Default)]
pub struct Scratch {
    request: Vec<u8>,
    received: Vec<u8>,
}

/// A request that a program has.
pub struct PendingGet<P> {
    gateway: Rc<Gateway<P>>,
    busy: Busy,
    /// What it was sent on. Absent where there was no kept connection, and once the answer has come.
    connection: Option<Connection>,
    began: Instant,
}

impl<P: ProgramProtocol> PendingGet<P> {
    /// Chooses a backend, and sends it the request over a kept connection if there is one. `None`: it is for
    /// no script, or no program can have it.
    pub fn begin(gateway: Rc<Gateway<P>>, get: &PlainGet<'_>) -> Option<PendingGet<P>> {
        let settings = gateway.settings.clone();
        if settings.pool.as_ref().is_some_and(|pool| pool.problem().is_some()) {
            return None;
        }
        let mut buffer = std::mem::take(&mut gateway.scratch.borrow_mut().request);
        buffer.clear();
        let script = gateway.script(get.path).ok()?;
        let variables = ProgramVariables::of_plain_get(get, &script, &settings);
        let request = P::request_head(&variables, true, buffer).ok()?;
        let index = gateway.group.choose(&[])?;
        let kept = gateway.group.connections(index).take_kept().map(|(connection, _)| connection);
        // A connection that takes only a part of it is dropped: the program hears the end of it.
        let connection = kept.filter(|connection| connection.stream.try_send_all(&request));
        gateway.scratch.borrow_mut().request = request;
        let busy = gateway.group.begin(index);
        Some(PendingGet { gateway, busy, connection, began: get.received_at })
    }

    /// The backend, and the exchange with it where there is one.
    pub fn into_exchange(self) -> (Busy, Option<Box<Exchange<P>>>) {
        let times = self.gateway.settings.times;
        let exchange =
            |connection| Exchange::sent(connection, P::Decoder::default(), times, self.began.into());
        (self.busy, self.connection.map(|connection| Box::new(exchange(connection))))
    }

    /// Gives the answer, where all of it is among what was received, and nothing in it is for the server;
    /// says whether.
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
        received.resize(RECEIVE_BYTES, 0);
        let Poll::Ready(count) = connection.stream.poll_receive_into(context, received) else {
            self.connection = Some(connection);
            return Poll::Pending;
        };
        // An error shows again to who receives next.
        let received = &received[..count.unwrap_or(0)];
        if self.give_whole(received, give) {
            gateway.group.succeeded(self.busy.index());
            gateway.group.connections(self.busy.index()).give_back(connection);
        } else {
            connection.received.extend_from_slice(received);
            self.connection = Some(connection);
        }
        Poll::Ready(())
    }

    fn go_on(self: Box<Self>, request: Request) -> OnCore<Handled> {
        let gateway = self.gateway.clone();
        Box::pin(async move { gateway.go_on(*self, request).await })
    }
}
