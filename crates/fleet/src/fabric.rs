//! The operations that the fleet needs from the engine under it: messages to the current listeners, documents
//! that are fetched by their hash, and messages that are kept, once each, until they are taken.
//!
//! Subjects are words with dots between; in a pattern `*` matches one word and `>` all that follow.

use crate::clock::Stamp;
use crate::runtime::{Receiver, Sender, channel, sleep};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// The most bytes of messages that wait in one inbox. A published message beyond that is lost; a kept one is
/// delivered again.
const MAXIMUM_WAITING_BYTES: usize = 128 * 1024 * 1024;
/// The memory of a message beside its body.
const MESSAGE_BYTES: usize = 256;

/// The engine of a fleet, for one member.
pub trait Fabric: Send + Sync {
    /// Sends to the current listeners, if there are any.
    fn publish(&self, subject: &str, body: Vec<u8>) -> Result<(), FabricError>;

    /// Receives what is published from now on.
    fn subscribe(&self, pattern: &str) -> Result<Inbox<Message>, FabricError>;

    /// Keeps a document for all members; the answer is its SHA-256 in hexadecimal, by which it is fetched.
    fn store_document(&self, document: &[u8]) -> Result<String, FabricError>;

    /// A published document; its hash is checked.
    fn fetch(&self, sha256: &str) -> Result<Vec<u8>, FabricError>;

    /// Keeps a message until it is taken, through a crash of the engine as well. Of messages with the same id
    /// one is kept. Returns when it is kept for certain.
    fn keep(&self, subject: &str, id: &str, body: Vec<u8>) -> Result<(), FabricError>;

    /// Takes messages that are kept from now on. Each is delivered again until it is acknowledged. `name`
    /// identifies the taker that acknowledges.
    fn kept(&self, pattern: &str, name: &str) -> Result<Inbox<StoredMessage>, FabricError>;

    /// Makes `owner` the holder of `key` for some seconds; a repeated claim extends that. An error while
    /// another member holds the key.
    fn claim(&self, key: &str, owner: &str) -> Result<(), FabricError>;

    /// Releases the claim of `owner`; does nothing if another member holds the key.
    fn release(&self, key: &str, owner: &str) -> Result<(), FabricError>;

    /// Whether the engine can be reached now.
    fn is_connected(&self) -> bool;

    /// Changes of the connection since the last call, and notices of the engine about other members.
    fn notices(&self) -> Vec<Notice>;

    /// What this member has sent and received so far.
    fn traffic(&self) -> Traffic;
}

/// A notice of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The connection is established, perhaps again.
    Connected,
    /// It is lost; the engine tries to restore it.
    Disconnected,
    /// A member was refused: its credentials are not of this fleet. The text is the name that it stated.
    Unauthorised(String),
    /// The engine refused an operation of this member.
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
    /// The subject that it was published under.
    pub subject: String,
    /// Its content.
    pub body: Vec<u8>,
    /// When it arrived here.
    pub received: Stamp,
}

/// The messages of a member under a pattern: published or kept ones.
pub struct Inbox<M> {
    messages: Receiver<(usize, M)>,
    waiting_bytes: Arc<AtomicUsize>,
}

/// The other end of an [`Inbox`].
pub struct InboxSender<M> {
    messages: Sender<(usize, M)>,
    waiting_bytes: Arc<AtomicUsize>,
}

/// An inbox and its sender.
pub fn inbox<M>() -> (InboxSender<M>, Inbox<M>) {
    let (sender, messages) = channel();
    let waiting_bytes = Arc::new(AtomicUsize::new(0));
    (
        InboxSender { messages: sender, waiting_bytes: Arc::clone(&waiting_bytes) },
        Inbox { messages, waiting_bytes },
    )
}

impl<M> InboxSender<M> {
    /// Puts a message of this many bytes into the inbox. It is lost while more than [`MAXIMUM_WAITING_BYTES`]
    /// wait there. False if the inbox no longer exists.
    pub fn send(&self, bytes: usize, message: M) -> bool {
        let bytes = bytes + MESSAGE_BYTES;
        if self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > MAXIMUM_WAITING_BYTES {
            self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return true;
        }
        self.messages.send((bytes, message))
    }
}

impl<M> Inbox<M> {
    /// The next message; `None` if none arrives within this time.
    pub fn next(&self, wait: Duration) -> Option<M> {
        match self.messages.recv_timeout(wait) {
            Ok((bytes, message)) => {
                self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
                Some(message)
            }
            // No message will arrive: the caller's loop must not spin.
            Err(RecvTimeoutError::Disconnected) => {
                sleep(wait);
                None
            }
            Err(RecvTimeoutError::Timeout) => None,
        }
    }
}

/// A stored message. It is delivered again if it is dropped without an acknowledgement.
pub struct StoredMessage {
    /// The subject that it was kept under.
    pub subject: String,
    /// Its content.
    pub body: Vec<u8>,
    pub(crate) acknowledge: Box<dyn FnOnce() -> Result<(), FabricError> + Send>,
}

impl StoredMessage {
    /// A message that an engine has kept; `acknowledge` records that it need not be delivered again.
    pub fn new(
        subject: &str,
        body: Vec<u8>,
        acknowledge: impl FnOnce() -> Result<(), FabricError> + Send + 'static,
    ) -> StoredMessage {
        StoredMessage { subject: subject.to_string(), body, acknowledge: Box::new(acknowledge) }
    }

    /// Confirms that the message need not be delivered again; returns when the engine has recorded that.
    pub fn acknowledge(self) -> Result<(), FabricError> {
        (self.acknowledge)()
    }
}

impl fmt::Debug for StoredMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredMessage").field("bytes", &self.body.len()).finish()
    }
}

/// Why the engine did not carry out an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FabricError {
    /// It cannot be reached.
    Unreachable(String),
    /// It does not accept this member or its credentials.
    Unauthorised(String),
    /// Another member holds the key.
    Held(String),
    /// Another error.
    Failed(String),
}

impl fmt::Display for FabricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FabricError::Unreachable(text)
            | FabricError::Unauthorised(text)
            | FabricError::Held(text)
            | FabricError::Failed(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for FabricError {}

/// Whether a subject matches a pattern.
pub fn matches(pattern: &str, subject: &str) -> bool {
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
