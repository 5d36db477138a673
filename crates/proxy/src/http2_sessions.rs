//! A core's HTTP/2 connections to an origin (RFC 9113), each shared by many requests.
//!
//! The h2 crate handles frames: the engine of the http crate supports the server's side only, and its
//! advantage there (thousands of cached responses in a few writes) does not matter for a client of origins.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use h2::client::{Builder, SendRequest};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;

use super::failure::{Failure, TimedStep};
use super::origin::{NewSession, SharedOrigin};
use super::settings::ProxySettings;
use touchstone_upstream::core_local::CoreLocal;
use touchstone_upstream::stream::{RECEIVE_BYTES, Stream};

/// How many bytes of each response's body may be in transit.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;

/// How many bytes of all bodies together.
const CONNECTION_WINDOW_BYTES: u32 = 4 * 1024 * 1024;

/// A core's connections to one origin.
#[derive(Default)]
pub struct Sessions {
    open: RefCell<Vec<Rc<Session>>>,
    /// One request connects, while others that could use the same connection wait for it.
    pub connecting: tokio::sync::Mutex<()>,
    /// The origin has agreed to HTTP/2 before.
    pub was_agreed_on: Cell<bool>,
}

/// One connection.
pub struct Session {
    pub(super) send: SendRequest<Bytes>,
    streams: Cell<usize>,
    pub(super) is_dead: Cell<bool>,
    used: Cell<Instant>,
    /// Requests that it has served.
    uses: Cell<u64>,
    /// The address that it is connected to, if the origin's address can change.
    address: Option<SocketAddr>,
}

/// A request on a connection.
pub struct SessionUse {
    pub(super) session: Rc<Session>,
}

impl Drop for SessionUse {
    fn drop(&mut self) {
        self.session.streams.set(self.session.streams.get() - 1);
        self.session.used.set(Instant::now());
    }
}

impl SessionUse {
    fn new(session: &Rc<Session>) -> SessionUse {
        session.streams.set(session.streams.get() + 1);
        session.uses.set(session.uses.get() + 1);
        SessionUse { session: session.clone() }
    }
}

thread_local! {
    static OF_CORE: CoreLocal<SharedOrigin, Sessions> = const { CoreLocal::new() };
}

impl Sessions {
    /// This core's connections to an origin, shared by all groups.
    pub fn of_core(origin: &Arc<SharedOrigin>) -> Rc<Sessions> {
        OF_CORE.with(|sessions| sessions.get(origin, Rc::default))
    }

    /// A connection with room for a request.
    pub fn find(&self, most_uses: u64) -> Option<SessionUse> {
        let mut open = self.open.borrow_mut();
        let is_good = |session: &Rc<Session>| {
            !session.is_dead.get() && (most_uses == 0 || session.uses.get() < most_uses)
        };
        open.retain(is_good);
        let has_room =
            |session: &&Rc<Session>| session.streams.get() < session.send.current_max_send_streams();
        open.iter().find(has_room).map(SessionUse::new)
    }

    /// Begins HTTP/2 on a new connection.
    pub async fn begin(&self, new: NewSession, settings: &ProxySettings) -> Result<SessionUse, Failure> {
        let limit = settings.times.handshake;
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_header_list_size(settings.head_limits.head_bytes);
        let NewSession { stream, address, permit } = new;
        let io = Io { stream, received: BytesMut::new() };
        let begun = timeout(limit, builder.handshake::<_, Bytes>(io)).await;
        let begun = begun.map_err(|_| Failure::Timeout(TimedStep::Handshake, limit))?;
        let (send, connection) = begun.map_err(|error| Failure::Connect(io::Error::other(error)))?;
        let session = Rc::new(Session {
            send,
            streams: Cell::new(0),
            is_dead: Cell::new(false),
            used: Cell::new(Instant::now()),
            uses: Cell::new(0),
            address,
        });
        let driven = Rc::downgrade(&session);
        tokio::task::spawn_local(async move {
            let _permit = permit;
            // Errors of the connection are reported to its requests.
            let _ = connection.await;
            if let Some(session) = driven.upgrade() {
                session.is_dead.set(true);
            }
        });
        self.open.borrow_mut().push(session.clone());
        self.was_agreed_on.set(true);
        Ok(SessionUse::new(&session))
    }

    /// Drops connections that have been idle for too long, or are connected to a former address of the
    /// origin; the requests on them continue.
    pub fn close_idle(&self, keep_alive_timeout: Duration, leads_to_origin: impl Fn(SocketAddr) -> bool) {
        self.open.borrow_mut().retain(|session| {
            let is_used = session.streams.get() > 0 || session.used.get().elapsed() < keep_alive_timeout;
            is_used && !session.is_dead.get() && session.address.is_none_or(&leads_to_origin)
        });
    }
}

/// A connection in the form that the h2 crate needs.
struct Io {
    stream: Stream,
    received: BytesMut,
}

impl AsyncRead for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Io { stream, received } = self.get_mut();
        if received.is_empty() {
            ready!(stream.poll_receive(context, received, RECEIVE_BYTES))?;
        }
        let count = received.len().min(buffer.remaining());
        buffer.put_slice(&received.split_to(count));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Io {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream.poll_send_some(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.shut_down_sending();
        Poll::Ready(Ok(()))
    }
}
