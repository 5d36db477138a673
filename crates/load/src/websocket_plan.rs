//! What a client does on a WebSocket, as the plan says it.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What a client does on a WebSocket. A request with such a plan is a whole WebSocket: it opens one, sends
/// its body as a message the given number of times, and closes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebSocketPlan {
    /// How many messages the client sends; `None`: as many as it can until the run ends.
    pub sends: Option<u64>,
    /// Messages are sent as binary ones; text otherwise.
    pub is_binary: bool,
    /// The interval between messages, even if earlier ones are not answered; `None`: each after the answer to
    /// the last.
    pub send_every: Option<Duration>,
    /// The client closes after this number of messages of the server; 0: as soon as all of its own are sent,
    /// without waiting for answers; `None`: after as many as it sends.
    pub receives: Option<u64>,
    /// The interval between pings of the client.
    pub ping_every: Option<Duration>,
}

impl WebSocketPlan {
    /// The messages of the server after which the client closes; `None`: the server closes, or the run's end.
    pub fn wanted(&self) -> Option<u64> {
        self.receives.or(self.sends.filter(|sends| *sends > 0))
    }

    pub(crate) fn waits_for_answers(&self) -> bool {
        self.receives != Some(0)
    }

    /// Each message is sent when the one before it was answered.
    pub(crate) fn sends_after_answers(&self) -> bool {
        self.send_every.is_none() && self.waits_for_answers()
    }

    /// Only the server, or the run's end, closes it.
    pub(crate) fn is_endless(&self) -> bool {
        self.wanted().is_none() || !self.waits_for_answers() && self.sends.is_none()
    }
}
