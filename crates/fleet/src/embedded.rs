//! The fabric within one process, for one machine and for tests: it does in memory what NATS does between
//! machines. Its contents last as long as the process.

use crate::clock::{Clock, Stamp};
use crate::fabric::{
    Fabric, FabricError, Inbox, InboxSender, Message, Notice, StoredMessage, Traffic, inbox, matches,
};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use touchstone_lab::machine::sha256;

/// How long a claim holds.
const CLAIM_TIME: Duration = Duration::from_secs(3);

/// One member's way to the engine; a clone is another member's.
#[derive(Clone, Default)]
pub struct EmbeddedFabric {
    state: Arc<Mutex<EngineState>>,
    clock: Clock,
    traffic: Arc<ByteCounts>,
}

#[derive(Default)]
struct ByteCounts {
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
}

#[derive(Default)]
struct EngineState {
    listeners: Vec<Listener>,
    documents: HashMap<String, Vec<u8>>,
    kept_ids: HashSet<String>,
    takers: Vec<(String, InboxSender<StoredMessage>)>,
    claims: HashMap<String, (String, Instant)>,
}

struct Listener {
    pattern: String,
    messages: InboxSender<Message>,
    clock: Clock,
    traffic: Arc<ByteCounts>,
}

impl EmbeddedFabric {
    /// The same engine for another member, with its own clock and counters.
    pub fn member(&self, clock: Clock) -> EmbeddedFabric {
        EmbeddedFabric { state: Arc::clone(&self.state), clock, traffic: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, EngineState> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn kept_message(subject: &str, body: Vec<u8>) -> StoredMessage {
    StoredMessage { subject: subject.to_string(), body, acknowledge: Box::new(|| Ok(())) }
}

impl Fabric for EmbeddedFabric {
    fn publish(&self, subject: &str, body: Vec<u8>) -> Result<(), FabricError> {
        self.traffic.sent_bytes.fetch_add(body.len() as u64, Ordering::Relaxed);
        self.lock().listeners.retain(|listener| {
            if !matches(&listener.pattern, subject) {
                return true;
            }
            listener.traffic.received_bytes.fetch_add(body.len() as u64, Ordering::Relaxed);
            let received: Stamp = listener.clock.now();
            let message = Message { subject: subject.to_string(), body: body.clone(), received };
            listener.messages.send(body.len(), message)
        });
        Ok(())
    }

    fn subscribe(&self, pattern: &str) -> Result<Inbox<Message>, FabricError> {
        let (sender, inbox) = inbox();
        self.lock().listeners.push(Listener {
            pattern: pattern.to_string(),
            messages: sender,
            clock: self.clock.clone(),
            traffic: Arc::clone(&self.traffic),
        });
        Ok(inbox)
    }

    fn store_document(&self, document: &[u8]) -> Result<String, FabricError> {
        let sha256 = sha256(document);
        self.lock().documents.insert(sha256.clone(), document.to_vec());
        Ok(sha256)
    }

    fn fetch(&self, sha256: &str) -> Result<Vec<u8>, FabricError> {
        let missing = || FabricError::Failed(format!("no document has the hash {sha256}"));
        self.lock().documents.get(sha256).cloned().ok_or_else(missing)
    }

    fn keep(&self, subject: &str, id: &str, body: Vec<u8>) -> Result<(), FabricError> {
        self.traffic.sent_bytes.fetch_add(body.len() as u64, Ordering::Relaxed);
        let mut state = self.lock();
        if !state.kept_ids.insert(id.to_string()) {
            return Ok(());
        }
        for (pattern, taker) in &state.takers {
            if matches(pattern, subject) {
                // A dropped taker receives no messages.
                let _ = taker.send(body.len(), kept_message(subject, body.clone()));
            }
        }
        Ok(())
    }

    fn kept(&self, pattern: &str, _name: &str) -> Result<Inbox<StoredMessage>, FabricError> {
        let (sender, inbox) = inbox();
        self.lock().takers.push((pattern.to_string(), sender));
        Ok(inbox)
    }

    fn claim(&self, key: &str, owner: &str) -> Result<(), FabricError> {
        let mut state = self.lock();
        match state.claims.get(key) {
            Some((holder, until)) if holder != owner && Instant::now() < *until => {
                Err(FabricError::Held(holder.clone()))
            }
            _ => {
                state.claims.insert(key.to_string(), (owner.to_string(), Instant::now() + CLAIM_TIME));
                Ok(())
            }
        }
    }

    fn release(&self, key: &str, owner: &str) -> Result<(), FabricError> {
        let mut state = self.lock();
        if state.claims.get(key).is_some_and(|(holder, _)| holder == owner) {
            state.claims.remove(key);
        }
        Ok(())
    }

    fn is_connected(&self) -> bool {
        true
    }

    fn notices(&self) -> Vec<Notice> {
        Vec::new()
    }

    fn traffic(&self) -> Traffic {
        Traffic {
            sent_bytes: self.traffic.sent_bytes.load(Ordering::Relaxed),
            received_bytes: self.traffic.received_bytes.load(Ordering::Relaxed),
        }
    }
}
