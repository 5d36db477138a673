//! Passes bytes on in both directions until both sides have ended.
//!
//! Bytes are received into memory that all connections of the core share, and sent at once. Only bytes that
//! the other side does not accept now are stored in memory of the connection, at most `most_bytes` in each
//! direction, and nothing more is received before they are sent: so a slow side limits the speed of the other
//! one. When a side ends its direction, the end is passed on to the other side, whose own direction
//! continues.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};
use touchstone_handler::stream_counts::End;
use touchstone_proxy::Stream;
use touchstone_transport::Transport;

use crate::record::Record;
use crate::stream_of_core::Scratch;

/// How often a direction may receive before other connections of the core get their turn.
const TURNS: usize = 16;

/// How long a client may still send, after its origin has broken off, before its connection is closed: if a
/// connection is closed with unread bytes, the client could lose the last bytes that were sent to it.
const LINGER: Duration = Duration::from_secs(2);

/// One direction.
#[derive(Default)]
struct Direction {
    /// Received bytes that the other side has not accepted.
    waiting: Vec<u8>,
    /// How many of these bytes have been sent.
    sent: usize,
    /// The sender has ended.
    is_ended: bool,
    /// The end was passed on to the receiver.
    is_done: bool,
}

impl Direction {
    fn wait_with(&mut self, bytes: &[u8]) {
        self.waiting = bytes.to_vec();
        self.sent = 0;
    }

    fn rest(&self) -> &[u8] {
        &self.waiting[self.sent..]
    }
}

/// A connection with both of its sides.
struct Both<'c> {
    client: Transport,
    origin: &'c Stream,
    scratch: &'c Scratch,
    record: &'c Record,
    most_bytes: usize,
    up: Direction,
    down: Direction,
    has_moved: bool,
}

/// Copies in both directions until both sides have ended, a side has failed, or no byte was copied for this
/// long.
pub async fn copy(
    client: Transport,
    origin: &Stream,
    scratch: &Scratch,
    record: &Record,
    idle_timeout: Duration,
    most_bytes: usize,
) -> End {
    let (up, down) = (Direction::default(), Direction::default());
    let mut both = Both { client, origin, scratch, record, most_bytes, up, down, has_moved: false };
    let mut moved_at = Instant::now();
    let mut timer = pin!(sleep_until(moved_at + idle_timeout));
    let end = poll_fn(|context| {
        let moved = both.poll_up(context).and_then(|()| both.poll_down(context));
        if let Err(end) = moved {
            return Poll::Ready(end);
        }
        if both.up.is_done && both.down.is_done {
            return Poll::Ready(End::Done);
        }
        if std::mem::take(&mut both.has_moved) {
            moved_at = Instant::now();
        }
        // The timer is set again only when it has run out.
        while timer.as_mut().poll(context).is_ready() {
            if moved_at.elapsed() >= idle_timeout {
                return Poll::Ready(End::Idle);
            }
            timer.as_mut().reset(moved_at + idle_timeout);
        }
        Poll::Pending
    })
    .await;
    if end == End::Origin {
        both.linger().await;
    }
    end
}

impl Both<'_> {
    /// Copies from the client to the origin, as far as possible now.
    fn poll_up(&mut self, context: &mut Context<'_>) -> Result<(), End> {
        // After the origin's own end, it is no error that the origin accepts no more.
        let end = if self.down.is_done { End::Done } else { End::Origin };
        for _ in 0..TURNS {
            while !self.up.rest().is_empty() {
                match self.origin.poll_send_some(context, self.up.rest()) {
                    Poll::Ready(Ok(count)) if count > 0 => self.up.sent += count,
                    Poll::Ready(_) => return Err(end),
                    Poll::Pending => return Ok(()),
                }
                self.has_moved = true;
            }
            self.up.waiting = Vec::new();
            self.up.sent = 0;
            match self.origin.poll_flush(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Err(end),
                Poll::Pending => return Ok(()),
            }
            if self.up.is_ended {
                if !self.up.is_done {
                    self.up.is_done = true;
                    self.origin.shut_down_sending();
                }
                return Ok(());
            }
            if !self.receive_up(context, end)? {
                return Ok(());
            }
        }
        context.waker().wake_by_ref();
        Ok(())
    }

    /// Receives once from the client, and sends what the origin accepts at once. Returns false if there was
    /// nothing to receive.
    fn receive_up(&mut self, context: &mut Context<'_>, end: End) -> Result<bool, End> {
        let (scratch, most_bytes) = (self.scratch, self.most_bytes);
        scratch.with(most_bytes, |buffer| {
            let count = match self.client.poll_receive(context, buffer) {
                Poll::Ready(Ok(count)) => count,
                Poll::Ready(Err(_)) => return Err(End::Client),
                Poll::Pending => return Ok(false),
            };
            self.has_moved = true;
            if count == 0 {
                self.up.is_ended = true;
                return Ok(true);
            }
            self.record.received(count);
            let received = &buffer[..count];
            match self.origin.poll_send_some(context, received) {
                Poll::Ready(Ok(sent)) if sent == count => {}
                Poll::Ready(Ok(sent)) => self.up.wait_with(&received[sent..]),
                Poll::Ready(Err(_)) => return Err(end),
                Poll::Pending => self.up.wait_with(received),
            }
            Ok(true)
        })
    }

    /// Copies from the origin to the client, as far as possible now.
    fn poll_down(&mut self, context: &mut Context<'_>) -> Result<(), End> {
        for _ in 0..TURNS {
            while !self.down.rest().is_empty() {
                let requested = self.down.rest().len();
                let sent = self.client.try_send(self.down.rest(), &[]).map_err(|_| End::Client)?;
                self.down.sent += sent;
                self.has_moved |= sent > 0;
                if sent < requested && !is_ready(self.client.poll_sendable(context))? {
                    return Ok(());
                }
            }
            self.down.waiting = Vec::new();
            self.down.sent = 0;
            if !is_ready(self.client.poll_flush(context))? {
                return Ok(());
            }
            if self.down.is_ended {
                if !self.down.is_done {
                    self.down.is_done = true;
                    self.client.shut_down_sending();
                }
                return Ok(());
            }
            if !self.receive_down(context)? {
                return Ok(());
            }
        }
        context.waker().wake_by_ref();
        Ok(())
    }

    /// Receives once from the origin, and sends what the client accepts at once. Returns false if there was
    /// nothing to receive.
    fn receive_down(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        let buffer = &mut *self.scratch.from_origin.borrow_mut();
        buffer.clear();
        let count = match self.origin.poll_receive(context, buffer, self.most_bytes) {
            Poll::Ready(Ok(count)) => count,
            Poll::Ready(Err(_)) => return Err(End::Origin),
            Poll::Pending => return Ok(false),
        };
        self.has_moved = true;
        if count == 0 {
            self.down.is_ended = true;
            return Ok(true);
        }
        self.record.sent(count);
        let sent = self.client.try_send(buffer, &[]).map_err(|_| End::Client)?;
        if sent < buffer.len() {
            self.down.wait_with(&buffer[sent..]);
            // The event loop is polled when these bytes are sent, in the next turn.
        }
        Ok(true)
    }

    /// Ends the direction to the client, and lets it finish sending.
    async fn linger(&mut self) {
        self.client.shut_down_sending();
        let rest = poll_fn(|context| {
            loop {
                let discarded =
                    self.scratch.with(self.most_bytes, |buffer| self.client.poll_discard(context, buffer));
                match discarded {
                    Poll::Ready(Ok(count)) if count > 0 => {}
                    Poll::Ready(_) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
        });
        let _ = timeout(LINGER, rest).await;
    }
}

/// Whether a step of the client's side is done.
fn is_ready(step: Poll<io::Result<()>>) -> Result<bool, End> {
    match step {
        Poll::Ready(Ok(())) => Ok(true),
        Poll::Ready(Err(_)) => Err(End::Client),
        Poll::Pending => Ok(false),
    }
}
