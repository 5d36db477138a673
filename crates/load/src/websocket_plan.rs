//! The plan of a WebSocket.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The actions of a client on a WebSocket. A request with such a plan opens a WebSocket, sends its body as a
/// message the given number of times, and closes the WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebSocketPlan {
    /// The number of messages that the client sends; `None`: no limit until the end of the run.
    pub sends: Option<u64>,
    /// Messages are sent as binary messages; otherwise as text.
    pub is_binary: bool,
    /// The interval between messages, independent of answers; `None`: each message is sent after the answer
    /// to the previous one.
    pub send_every: Option<Duration>,
    /// The client closes the WebSocket after this number of messages from the server; 0: when all of its own
    /// messages are sent, without waiting for answers; `None`: after the number of messages that it sends.
    pub receives: Option<u64>,
    /// The interval between pings of the client.
    pub ping_every: Option<Duration>,
}

impl WebSocketPlan {
    /// The number of messages from the server after which the client closes the WebSocket; `None`: the server
    /// closes it, or the end of the run.
    pub fn expected_messages(&self) -> Option<u64> {
        self.receives.or(self.sends.filter(|sends| *sends > 0))
    }

    pub(crate) fn waits_for_answers(&self) -> bool {
        self.receives != Some(0)
    }

    /// Whether each message is sent after the answer to the previous one.
    pub(crate) fn sends_after_answers(&self) -> bool {
        self.send_every.is_none() && self.waits_for_answers()
    }

    /// Whether the client closes the WebSocket only at the end of the run.
    pub(crate) fn is_endless(&self) -> bool {
        self.expected_messages().is_none() || !self.waits_for_answers() && self.sends.is_none()
    }
}
