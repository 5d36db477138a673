//! Answers that are complete before their requests (RFC 9113 section 8.1).
//!
//! Such an answer is sent at once. Its stream must then be reset, so that the client sends no more of its
//! body, but some clients take a reset for an error although the answer is complete. Most bodies that no
//! handler reads are short and nearly here, so the client gets a moment to end its request.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};
use touchstone_http::h2::{ServerConnection, StreamKey};

/// How long a client may take to end a request that is answered.
const MOMENT: Duration = Duration::from_millis(250);

/// The streams of a connection whose answers are complete and whose requests are not.
#[derive(Default)]
pub struct EarlyAnswers {
    /// In the order of the times at which the requests are stopped.
    streams: VecDeque<(StreamKey, Instant)>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl EarlyAnswers {
    /// Adds a stream whose answer is complete now.
    pub fn add(&mut self, stream: StreamKey) {
        self.streams.push_back((stream, Instant::now() + MOMENT));
    }

    /// Stops the requests whose time is over. Ready if there are frames to send for it.
    pub fn poll(&mut self, engine: &mut ServerConnection, context: &mut Context<'_>) -> Poll<()> {
        let mut progress = Poll::Pending;
        while let Some(&(stream, at)) = self.streams.front() {
            if engine.is_open(stream) {
                if Instant::now() < at {
                    let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
                    if timer.deadline() != at {
                        timer.as_mut().reset(at);
                    }
                    if timer.as_mut().poll(context).is_pending() {
                        return progress;
                    }
                }
                engine.stop_request(stream);
                progress = Poll::Ready(());
            }
            self.streams.pop_front();
        }
        self.timer = None;
        progress
    }
}
