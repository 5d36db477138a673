//! A connection of HTTP/2 to an origin (RFC 9113).
//!
//! The h2 crate handles frames: the engine of the http crate supports the server's side only, and its
//! advantage there (thousands of cached responses in a few writes) does not matter for a client of origins.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use h2::client::{Builder, SendRequest};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;

use super::body_limits::{CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES};
use super::failure::{Failure, TimedStep};
use super::origin::NewHttp2;
use super::sessions::{Multiplexed, SessionUse, Sessions};
use super::settings::ProxySettings;
use touchstone_upstream::stream::{RECEIVE_BYTES, Stream};

/// One connection.
pub struct Http2Connection {
    pub(super) send: SendRequest<Bytes>,
}

impl Multiplexed for Http2Connection {
    /// The h2 crate opens the stream with the request.
    type Stream = ();

    fn is_usable(&self) -> bool {
        true
    }

    fn try_open(&self, in_progress: usize) -> Option<()> {
        (in_progress < self.send.current_max_send_streams()).then_some(())
    }
}

/// Begins HTTP/2 on a new connection.
pub async fn begin(
    sessions: &Sessions<Http2Connection>,
    new: NewHttp2,
    settings: &ProxySettings,
) -> Result<SessionUse<Http2Connection>, Failure> {
    let limit = settings.times.handshake;
    let mut builder = Builder::new();
    builder
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_header_list_size(settings.head_limits.head_bytes);
    let NewHttp2 { stream, address, permit } = new;
    let io = Io { stream, received: BytesMut::new() };
    let handshake = timeout(limit, builder.handshake::<_, Bytes>(io)).await;
    let handshake = handshake.map_err(|_| Failure::Timeout(TimedStep::Handshake, limit))?;
    let (send, connection) = handshake.map_err(|error| Failure::Connect(io::Error::other(error)))?;
    let connection_task = async move {
        let _ = connection.await;
    };
    Ok(sessions.add_connection(Http2Connection { send }, address, permit, connection_task))
}

/// Implements the traits of tokio for the h2 crate.
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
