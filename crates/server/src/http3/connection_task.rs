//! The life of a connection: its handshake, the streams that its client opens, and its end.
//!
//! A stream with a request is processed at once: cached answers are sent directly, other requests become a
//! task.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use quinn::{Incoming, RecvStream, SendStream, ZeroRttAccepted};
use tokio::time::{sleep, timeout};
use touchstone_access::ConnectionPermit;
use touchstone_admin::connection_info::OpeningFacts;
use touchstone_http::h3::frame::append_goaway;
use touchstone_http::h3::settings::{self, SettingId};
use touchstone_http::h3::unidirectional::CONTROL;
use touchstone_http::h3::{ErrorCode, varint};
use touchstone_tls::QuicFacts;

use super::connection::Connection;
use super::listener::{Handshake, Listener};
use super::request;
use super::stream::{code, poll_once};
use touchstone_exchange::core::deadline::DeadlineGuard;

/// The identifier in the first GOAWAY when the server shuts down: no stream is excluded yet, since some may
/// be in transit (RFC 9114 section 5.2).
const NO_STREAM_EXCLUDED: u64 = varint::MAX - 3;

/// How long a client may take to close a connection after its last answer, when the server shuts down.
const LINGER: Duration = Duration::from_secs(2);

/// How many requests are begun before the connection looks for anything else.
const REQUESTS_TOGETHER: usize = 32;

/// How long the server waits for requests in transit when it leaves.
const LAST_REQUESTS: Duration = Duration::from_secs(1);

/// Serves a connection to its end.
pub async fn serve(
    listener: Rc<Listener>,
    incoming: Incoming,
    permit: Option<ConnectionPermit>,
    handshake: Option<Handshake>,
    deadline: DeadlineGuard,
) {
    let Ok(mut connecting) = incoming.accept() else { return };
    let limit = listener.core.state.borrow().snapshot.config.limits.header_timeout;
    deadline.set(listener.core.clock.coarse_ms(), limit, false);
    let facts = tokio::select! {
        () = expired(&deadline) => return,
        facts = connecting.handshake_data() => facts,
    };
    let Some(facts) = facts.ok().and_then(|facts| facts.downcast::<QuicFacts>().ok()) else { return };
    // A client that must send a certificate has done so only at the end of the handshake; requests of other
    // clients may be answered before.
    let (quic, accepted) = if facts.wants_certificate {
        tokio::select! {
            () = expired(&deadline) => return,
            connected = connecting => match connected {
                Ok(quic) => (quic, None),
                Err(_) => return,
            },
        }
    } else {
        match connecting.into_0rtt() {
            Ok((quic, accepted)) => (quic, Some(accepted)),
            Err(_) => return,
        }
    };
    let session = deadline.session_handle();
    let connection = Rc::new(Connection::new(listener, quic, *facts, session));
    connection.listener.core.counts.http3_connections.add(1);
    deadline.session.open(OpeningFacts {
        peer: Some(connection.quic.remote_address()),
        listener: connection.listener.configured.into(),
        at: Instant::now(),
        protocol: "h3",
    });
    connection.run(accepted, handshake, &deadline).await;
    drop(permit);
}

/// Why a connection ends.
enum CloseReason {
    /// QUIC has ended the connection.
    Closed,
    /// There was no request for a long time, or the handshake took too long.
    Idle,
    /// The server stops, or the connection has reached its maximum of requests.
    Leave,
}

impl Connection {
    async fn run(
        self: &Rc<Connection>,
        mut accepted: Option<ZeroRttAccepted>,
        mut handshake: Option<Handshake>,
        deadline: &DeadlineGuard,
    ) {
        let limit = self.listener.core.state.borrow().snapshot.config.limits.header_timeout;
        let Ok(Some(mut control)) = timeout(limit, self.open_control()).await else {
            let reason = "a client that takes no control stream";
            return self.close(ErrorCode::GENERAL_PROTOCOL_ERROR, reason);
        };
        let control_stopped = control.stopped();
        let mut control_stopped = pin!(control_stopped);
        let mut leaving = self.listener.leaving();
        let mut next_stream = 0;
        let end = loop {
            if accepted.is_none() {
                self.wait_for_requests(deadline);
            }
            tokio::select! {
                biased;
                () = poll_handshake(&mut accepted), if accepted.is_some() => {
                    accepted = None;
                    handshake = None;
                }
                () = expired(deadline) => break CloseReason::Idle,
                _ = leaving.wait_for(|leaving| *leaving) => break CloseReason::Leave,
                () = self.changed.notified() => {
                    if self.has_carried_enough() {
                        break CloseReason::Leave;
                    }
                }
                _ = &mut control_stopped => break CloseReason::Closed,
                stream = self.quic.accept_bi() => match stream {
                    Ok(stream) => next_stream = self.begin_requests(stream).await,
                    Err(_) => break CloseReason::Closed,
                },
                stream = self.quic.accept_uni() => match stream {
                    Ok(receive) => {
                        tokio::task::spawn_local(self.clone().read_unidirectional(receive));
                    }
                    Err(_) => break CloseReason::Closed,
                },
            }
        };
        drop(handshake);
        match end {
            CloseReason::Closed => {
                self.close(ErrorCode::CLOSED_CRITICAL_STREAM, "the control stream was stopped")
            }
            // There are no requests, so the client need not be warned.
            CloseReason::Idle => self.close(ErrorCode::NO_ERROR, "no request arrived for a long time"),
            CloseReason::Leave => self.leave(&mut control, next_stream).await,
        }
    }

    /// Opens the server's control stream, and sends the settings.
    async fn open_control(&self) -> Option<SendStream> {
        let mut control = self.quic.open_uni().await.ok()?;
        let mut begin = Vec::new();
        varint::append(CONTROL, &mut begin);
        let bytes = self.listener.core.state.borrow().limits.header_bytes as u64;
        let own = [(SettingId::MAX_FIELD_SECTION_SIZE, bytes), (SettingId::ENABLE_CONNECT_PROTOCOL, 1)];
        settings::append(&own, &mut begin);
        control.write_all(&begin).await.ok()?;
        // Sent before all bodies: it is short, and all other streams depend on it.
        let _ = control.set_priority(i32::MAX);
        Some(control)
    }

    /// Sets the deadline for a connection without requests.
    fn wait_for_requests(&self, deadline: &DeadlineGuard) {
        if self.open_streams() > 0 {
            return deadline.clear();
        }
        let core = &self.listener.core;
        let limit = core.state.borrow().snapshot.config.limits.keep_alive_timeout;
        deadline.set(core.clock.coarse_ms(), limit, true);
    }

    fn has_carried_enough(&self) -> bool {
        let most = self.listener.core.state.borrow().snapshot.config.limits.keep_alive_requests;
        most != 0 && self.requests.get() >= most
    }

    /// Begins a request, and those that have arrived with it. Returns the identifier of the next stream.
    async fn begin_requests(self: &Rc<Connection>, first: (SendStream, RecvStream)) -> u64 {
        let mut next_stream = self.begin_request(first).await;
        for _ in 1..REQUESTS_TOGETHER {
            if self.has_carried_enough() {
                break;
            }
            // An error appears again at the next call.
            let Some(Ok(stream)) = poll_once(self.quic.accept_bi()).await else { break };
            next_stream = self.begin_request(stream).await;
        }
        next_stream
    }

    /// Answers a request at once, or starts a task for it. Returns the identifier of the next stream.
    async fn begin_request(self: &Rc<Connection>, (send, receive): (SendStream, RecvStream)) -> u64 {
        let next_stream = u64::from(receive.id()) + 4;
        let stream = self.open_stream(receive.id().into());
        let mut answer = Box::pin(request::serve(stream, send, receive));
        if poll_once(answer.as_mut()).await.is_none() {
            tokio::task::spawn_local(answer);
        }
        next_stream
    }

    /// Ends gracefully: GOAWAY is sent in two steps, so that no request in transit is lost (RFC 9114 section
    /// 5.2).
    async fn leave(self: &Rc<Connection>, control: &mut SendStream, mut next_stream: u64) {
        let mut goaway = Vec::new();
        append_goaway(NO_STREAM_EXCLUDED, &mut goaway);
        if control.write_all(&goaway).await.is_err() {
            return;
        }
        let mut last_requests = pin!(sleep((self.quic.rtt() * 2).min(LAST_REQUESTS)));
        let mut excludes = false;
        loop {
            if excludes && self.open_streams() == 0 {
                break;
            }
            tokio::select! {
                biased;
                () = &mut last_requests, if !excludes => {
                    excludes = true;
                    goaway.clear();
                    append_goaway(next_stream, &mut goaway);
                    if control.write_all(&goaway).await.is_err() {
                        return;
                    }
                }
                () = self.changed.notified() => {}
                stream = self.quic.accept_bi() => match stream {
                    Ok(stream) if !excludes => next_stream = self.begin_request(stream).await,
                    Ok((mut send, mut receive)) => {
                        let _ = send.reset(code(ErrorCode::REQUEST_REJECTED));
                        let _ = receive.stop(code(ErrorCode::REQUEST_REJECTED));
                    }
                    Err(_) => return,
                },
                stream = self.quic.accept_uni() => match stream {
                    Ok(receive) => {
                        tokio::task::spawn_local(self.clone().read_unidirectional(receive));
                    }
                    Err(_) => return,
                },
            }
        }
        // Closing discards data that the client has not acknowledged; the client closes when it has all data.
        let _ = timeout(LINGER, self.quic.closed()).await;
        self.close(ErrorCode::NO_ERROR, "the server requested the end of the connection");
    }
}

/// Ready when the deadline has passed.
async fn expired(deadline: &DeadlineGuard) {
    poll_fn(|context| {
        deadline.set_waker(context.waker());
        if deadline.expired() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Ready when the handshake is complete, or has failed, which the streams will show.
async fn poll_handshake(accepted: &mut Option<ZeroRttAccepted>) {
    match accepted {
        Some(accepted) => _ = accepted.await,
        None => std::future::pending().await,
    }
}
