//! Checks whether a program is alive, on a connection without a request.
//!
//! When a program hangs or its machine has failed, the connection still appears usable. Some protocols have a
//! message for this case, which the program answers at once (CPing of AJP).

use std::time::Duration;

use bytes::BytesMut;

use touchstone_upstream::stream::Stream;

/// When a ping is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PingRules {
    /// The ping.
    pub ping: Ping,
    /// A kept connection that was idle for this long gets a ping before the next request.
    pub after_idle: Duration,
    /// A new connection gets a ping as well.
    pub on_connect: bool,
}

/// A message with a fixed answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ping {
    /// The bytes to send.
    pub question: &'static [u8],
    /// The expected bytes.
    pub answer: &'static [u8],
    /// The time limit for the answer.
    pub timeout: Duration,
}

/// The result of a ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PingResult {
    /// The expected answer arrived in time.
    Answered,
    /// Other bytes arrived, or the connection ended.
    Refused,
    /// Nothing arrived in time.
    TimedOut,
}

impl Ping {
    /// Sends the ping, and returns whether exactly the expected answer arrived in time. `received` is empty
    /// before and after.
    pub async fn is_answered(&self, stream: &Stream, received: &mut BytesMut) -> bool {
        self.ask(stream, received).await == PingResult::Answered
    }

    /// Sends the ping, and waits for the answer. `received` is empty before and after.
    pub async fn ask(&self, stream: &Stream, received: &mut BytesMut) -> PingResult {
        let asking = async {
            stream.send(self.question, &[]).await.ok()?;
            while received.len() < self.answer.len() {
                stream.receive(received).await.ok().filter(|count| *count > 0)?;
            }
            Some(received[..] == *self.answer)
        };
        let result = match tokio::time::timeout(self.timeout, asking).await {
            Ok(Some(true)) => PingResult::Answered,
            Ok(_) => PingResult::Refused,
            Err(_) => PingResult::TimedOut,
        };
        received.clear();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;

    const PING: Ping = Ping { question: b"ping", answer: b"pong", timeout: Duration::from_secs(60) };

    async fn with_other_side(answer: &'static [u8], ping: Ping) -> bool {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let other_side = async move {
            let mut question = [0; 4];
            theirs.read_exact(&mut question).await.unwrap();
            theirs.write_all(answer).await.unwrap();
            theirs
        };
        let (stream, mut received) = (Stream::Unix(ours), BytesMut::new());
        let (is_answered, _theirs) = tokio::join!(ping.is_answered(&stream, &mut received), other_side);
        assert!(received.is_empty());
        is_answered
    }

    #[tokio::test]
    async fn only_the_right_answer_counts() {
        assert!(with_other_side(b"pong", PING).await);
        for other in [&b"pung"[..], b"pongpong"] {
            assert!(!with_other_side(other, PING).await, "{}", other.escape_ascii());
        }
        let hasty = Ping { timeout: Duration::from_millis(200), ..PING };
        assert!(!with_other_side(b"po", hasty).await);
    }

    #[tokio::test]
    async fn a_closed_connection_and_a_hanging_program_are_distinguished() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        assert_eq!(PING.ask(&Stream::Unix(ours), &mut BytesMut::new()).await, PingResult::Refused);
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let hasty = Ping { timeout: Duration::from_millis(10), ..PING };
        assert_eq!(hasty.ask(&Stream::Unix(ours), &mut BytesMut::new()).await, PingResult::TimedOut);
    }
}
