//! What the fleet asks of the engine under it, and no more: messages that reach whoever listens now,
//! documents that are handed out by their hash, and messages that are kept, once each, until they are taken.
//!
//! Subjects are words with dots between; in a pattern `*` stands for one word and `>` for all that follow.

use crate::clock::Stamp;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// The most bytes of messages that wait in one inbox. A published message that finds no room is lost; a kept
/// one comes again.
const MAXIMUM_WAITING_BYTES: usize = 128 * 1024 * 1024;
/// What a message takes up beside its body.
const MESSAGE_BYTES: usize = 256;

/// The engine under a fleet, as one member sees it.
pub trait Fabric: Send + Sync {
    /// Sends to whoever listens at this moment; nobody may.
    fn publish(&self, subject: &str, body: Vec<u8>) -> Result<(), FabricError>;

    /// Receives what is published from now on.
    fn subscribe(&self, pattern: &str) -> Result<Inbox<Message>, FabricError>;

    /// Keeps a document for all members; the answer is its SHA-256 in hexadecimal, by which it is fetched.
    fn hand_out(&self, document: &[u8]) -> Result<String, FabricError>;

    /// A document that was handed out; its hash is checked.
    fn fetch(&self, sha256: &str) -> Result<Vec<u8>, FabricError>;

    /// Keeps a message until it is taken, through a crash of the engine as well. Of messages with the same id
    /// one is kept. Returns when it is kept for certain.
    fn keep(&self, subject: &str, id: &str, body: Vec<u8>) -> Result<(), FabricError>;

    /// Takes messages that are kept from now on. Each comes again until it is acknowledged. `name` is whose
    /// acknowledgements they are.
    fn kept(&self, pattern: &str, name: &str) -> Result<Inbox<KeptMessage>, FabricError>;

    /// Makes `owner` the one who holds `key` for some seconds, or longer when it is claimed again in time.
    /// Refused while another holds it.
    fn claim(&self, key: &str, owner: &str) -> Result<(), FabricError>;

    /// Gives back what `owner` claimed; nothing happens where another holds it.
    fn release(&self, key: &str, owner: &str) -> Result<(), FabricError>;

    /// Whether the engine can be reached now.
    fn is_connected(&self) -> bool;

    /// What became of the connection since this was asked last, and what the engine says of others.
    fn notices(&self) -> Vec<Notice>;

    /// What this member has sent and received so far.
    fn traffic(&self) -> Traffic;
}

/// Something that the engine says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The connection is there, again perhaps.
    Connected,
    /// It is lost; it is tried again until it is back.
    Disconnected,
    /// A member was refused: its credentials are not those of this fleet. The text is the name that it gave
    /// itself.
    Unauthorised(String),
    /// The engine refused something to this member.
    Refused(String),
}

/// Bytes of messages, without what the protocols under them add.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Traffic {
    /// Sent.
    pub sent_bytes: u64,
    /// Received.
    pub received_bytes: u64,
}

/// A message.
#[derive(Debug, Clone)]
pub struct Message {
    /// What it was published under.
    pub subject: String,
    /// What it says.
    pub body: Vec<u8>,
    /// When it came here.
    pub received: Stamp,
}

/// What comes to a member under a pattern: published messages, or kept ones.
pub struct Inbox<M> {
    messages: Receiver<(usize, M)>,
    waiting_bytes: Arc<AtomicUsize>,
}

/// The other end of an [`Inbox`].
pub(crate) struct InboxSender<M> {
    messages: Sender<(usize, M)>,
    waiting_bytes: Arc<AtomicUsize>,
}

/// An inbox, and what puts messages into it.
pub(crate) fn inbox<M>() -> (InboxSender<M>, Inbox<M>) {
    let (sender, messages) = channel();
    let waiting_bytes = Arc::new(AtomicUsize::new(0));
    (
        InboxSender { messages: sender, waiting_bytes: Arc::clone(&waiting_bytes) },
        Inbox { messages, waiting_bytes },
    )
}

impl<M> InboxSender<M> {
    /// Puts a message of so many bytes into the inbox. It is lost while more than [`MAXIMUM_WAITING_BYTES`]
    /// wait there. False when there is no inbox any more.
    pub(crate) fn send(&self, bytes: usize, message: M) -> bool {
        let bytes = bytes + MESSAGE_BYTES;
        if self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > MAXIMUM_WAITING_BYTES {
            self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return true;
        }
        self.messages.send((bytes, message)).is_ok()
    }
}

impl<M> Inbox<M> {
    /// The next message; `None` when none comes in this time.
    pub fn next(&self, wait: Duration) -> Option<M> {
        match self.messages.recv_timeout(wait) {
            Ok((bytes, message)) => {
                self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
                Some(message)
            }
            // Nothing is ever sent again: the caller's loop must not spin.
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(wait);
                None
            }
            Err(RecvTimeoutError::Timeout) => None,
        }
    }
}

/// A kept message. One that is dropped without an acknowledgement comes again.
pub struct KeptMessage {
    /// What it was kept under.
    pub subject: String,
    /// What it says.
    pub body: Vec<u8>,
    pub(crate) acknowledge: Box<dyn FnOnce() -> Result<(), FabricError> + Send>,
}

impl KeptMessage {
    /// Says that it need not come again; returns when the engine has confirmed that.
    pub fn acknowledge(self) -> Result<(), FabricError> {
        (self.acknowledge)()
    }
}

impl fmt::Debug for KeptMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptMessage").field("bytes", &self.body.len()).finish()
    }
}

/// Why the engine did not do something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FabricError {
    /// It cannot be reached.
    Away(String),
    /// It knows this member, or its credentials, not.
    Unauthorised(String),
    /// Another holds what was claimed.
    Held(String),
    /// Something else.
    Failed(String),
}

impl fmt::Display for FabricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FabricError::Away(text)
            | FabricError::Unauthorised(text)
            | FabricError::Held(text)
            | FabricError::Failed(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for FabricError {}

/// Whether a subject is one of a pattern's.
pub(crate) fn matches(pattern: &str, subject: &str) -> bool {
    let (mut pattern, mut subject) = (pattern.split('.'), subject.split('.'));
    loop {
        match (pattern.next(), subject.next()) {
            (Some(">"), Some(_)) => return true,
            (Some("*"), Some(_)) => {}
            (Some(word), Some(other)) if word == other => {}
            (None, None) => return true,
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_bounded_and_room_comes_back() {
        let (sender, inbox) = inbox();
        let half = MAXIMUM_WAITING_BYTES / 2;
        for number in 0..3 {
            assert!(sender.send(half - MESSAGE_BYTES, number), "the inbox is there");
        }
        let next = || inbox.next(Duration::ZERO);
        assert_eq!([next(), next(), next()], [Some(0), Some(1), None], "the third found no room");
        assert!(sender.send(half, 3));
        assert_eq!(next(), Some(3));
        drop(inbox);
        assert!(!sender.send(1, 4));
    }

    #[test]
    fn patterns_are_those_of_nats() {
        for (pattern, subject, expected) in [
            ("a.b", "a.b", true),
            ("a.*", "a.b", true),
            ("a.*", "a.b.c", false),
            ("a.>", "a.b.c", true),
            ("a.>", "a", false),
            ("a.*.c", "a.b.d", false),
            ("a", "a.b", false),
        ] {
            assert_eq!(matches(pattern, subject), expected, "{pattern} {subject}");
        }
    }
}
