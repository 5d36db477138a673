//! The broker of the fleet, with the faults between machines: messages are late or lost, members are
//! disconnected, the answer to an operation is lost, stored messages are delivered again.
//!
//! It checks that only the member with the claim states that it leads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use touchstone_fleet::runtime::{now, sleep};
use touchstone_fleet::{
    Clock, Fabric, FabricError, Inbox, InboxSender, Message, Notice, Order, StoredMessage, Traffic, inbox,
    matches,
};

use crate::random;

/// The lifetime of a claim.
const CLAIM_TIME: Duration = Duration::from_secs(3);
/// The time after which a stored message without acknowledgement is delivered again.
const ACKNOWLEDGE_TIME: Duration = Duration::from_secs(1);
/// The time that an operation waits for a broker that does not answer.
const ANSWER_TIME: Duration = Duration::from_secs(2);
/// The time until a member detects that it is disconnected, in milliseconds: a machine without power closes
/// no connection.
const NOTICE_MS: [u64; 4] = [0, 0, 1000, 6000];

/// The broker.
#[derive(Clone)]
pub struct Broker(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    members: Vec<Link>,
    listeners: Vec<Listener>,
    documents: BTreeMap<String, Vec<u8>>,
    claims: BTreeMap<String, (String, Instant)>,
    stored: Vec<StoredEntry>,
    consumers: Vec<Consumer>,
    events: BTreeMap<(Instant, u64), Event>,
    last_event: u64,
    /// One of this number of published messages is lost; 0: none.
    lost_one_in: u64,
    /// No message is stored before this time: the store of the broker has no leader, or no space.
    refuses_to_store_until: Option<Instant>,
    /// For each process and run, the last time that a lease or an order to prepare arrived.
    leases: BTreeMap<usize, BTreeMap<String, Instant>>,
    /// The run of the last order to prepare that arrived at a member.
    prepared: BTreeMap<usize, String>,
}

#[derive(Default)]
struct Link {
    is_cut: bool,
    /// The time at which the member detects that it is disconnected; `None`: it has detected it, or is
    /// connected.
    notices_at: Option<Instant>,
    is_dead: bool,
    notices: Vec<Notice>,
    delay_us: u64,
}

struct Listener {
    member: usize,
    pattern: String,
    sender: InboxSender<Message>,
    last: Instant,
}

struct StoredEntry {
    id: String,
    subject: String,
    body: Vec<u8>,
}

struct Consumer {
    member: usize,
    pattern: String,
    sender: InboxSender<StoredMessage>,
    acknowledged: Arc<Mutex<Vec<usize>>>,
}

enum Event {
    Message { listener: usize, subject: String, body: Vec<u8> },
    Stored { consumer: usize, kept: usize },
}

impl Broker {
    pub fn new() -> Broker {
        let lost_one_in = random::pick(&[0, 0, 100, 20]);
        Broker(Arc::new(Mutex::new(State { lost_one_in, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub fn add_member(&self) {
        let delay_us = random::pick(&[100, 500, 3000]);
        self.state().members.push(Link { delay_us, ..Link::default() });
    }

    /// The fabric of a member.
    pub fn fabric(&self, member: usize) -> Arc<dyn Fabric> {
        Arc::new(MemberFabric { broker: self.clone(), member })
    }

    /// Disconnects a member, or connects it again.
    pub fn cut(&self, member: usize, is_cut: bool) {
        let mut state = self.state();
        let link = &mut state.members[member];
        if link.is_cut == is_cut {
            return;
        }
        if is_cut {
            link.is_cut = true;
            link.notices_at = Some(now() + Duration::from_millis(random::pick(&NOTICE_MS)));
        } else {
            link.notice_cut(now());
            link.is_cut = false;
            // A disconnection that was not detected has no effect.
            if link.notices_at.take().is_none() {
                link.notices.push(Notice::Connected);
            }
        }
    }

    /// Makes the broker refuse to store messages for a time.
    pub fn refuse_to_store(&self, time: Duration) {
        self.state().refuses_to_store_until = Some(now() + time);
    }

    /// Connects all members and ends the loss of messages.
    pub fn heal(&self) {
        let count = self.state().members.len();
        (0..count).for_each(|member| self.cut(member, false));
        let mut state = self.state();
        (state.lost_one_in, state.refuses_to_store_until) = (0, None);
    }

    pub fn member_dies(&self, member: usize) {
        self.state().members[member].is_dead = true;
    }

    /// The last time that a lease or an order to prepare of the present run of a member arrived.
    pub fn latest_lease(&self, member: usize) -> Option<Instant> {
        let state = self.state();
        state.leases.get(&member)?.get(state.prepared.get(&member)?).copied()
    }

    /// The subjects and bodies of the stored messages.
    pub fn stored_parts(&self) -> Vec<(String, Vec<u8>)> {
        self.state().stored.iter().map(|kept| (kept.subject.clone(), kept.body.clone())).collect()
    }

    pub fn next_moment(&self) -> Option<Instant> {
        self.state().events.first_key_value().map(|((at, _), _)| *at)
    }

    /// The receiver of the next event, if it is due.
    pub fn next_due(&self, now: Instant) -> Option<usize> {
        let state = self.state();
        let ((at, _), event) = state.events.first_key_value()?;
        (*at <= now).then(|| match event {
            Event::Message { listener, .. } => state.listeners[*listener].member,
            Event::Stored { consumer, .. } => state.consumers[*consumer].member,
        })
    }

    /// Delays the next event.
    pub fn postpone(&self, until: Instant) {
        let mut state = self.state();
        if let Some((_, event)) = state.events.pop_first() {
            state.add(until, event);
        }
    }

    pub fn deliver_next(&self) {
        let mut state = self.state();
        let Some((_, event)) = state.events.pop_first() else { return };
        match event {
            Event::Message { listener, subject, body } => {
                let listener = &state.listeners[listener];
                let member = listener.member;
                if state.members[member].is_disconnected() {
                    return;
                }
                // The time of the receiver.
                let message = Message { subject, body, received: Clock::default().now() };
                let order = serde_json::from_slice::<Order>(&message.body).ok();
                listener.sender.send(message.body.len(), message);
                if let Some(Order::Prepare { run, .. }) = &order {
                    state.prepared.insert(member, run.clone());
                }
                if let Some(Order::Lease { run } | Order::Prepare { run, .. }) = order {
                    state.leases.entry(member).or_default().insert(run, now());
                }
            }
            Event::Stored { consumer: number, kept } => {
                let consumer = &state.consumers[number];
                if state.members[consumer.member].is_dead
                    || consumer.acknowledged.lock().unwrap().contains(&kept)
                {
                    return;
                }
                if !state.members[consumer.member].is_cut {
                    let (acknowledged, broker, member) =
                        (Arc::clone(&consumer.acknowledged), self.clone(), consumer.member);
                    let message = &state.stored[kept];
                    let size = message.body.len();
                    let message = StoredMessage::new(&message.subject, message.body.clone(), move || {
                        broker.round_trip(member)?;
                        if random::one_in(10) {
                            return Err(FabricError::Unreachable("the confirmation was lost".to_string()));
                        }
                        acknowledged.lock().unwrap().push(kept);
                        Ok(())
                    });
                    consumer.sender.send(size, message);
                }
                state.add(now() + ACKNOWLEDGE_TIME, Event::Stored { consumer: number, kept });
            }
        }
    }

    /// Waits for one direction of an operation.
    fn round_trip(&self, member: usize) -> Result<(), FabricError> {
        let (delay_us, is_disconnected) = {
            let state = self.state();
            (state.members[member].delay_us, state.members[member].is_disconnected())
        };
        if is_disconnected {
            sleep(ANSWER_TIME);
            return Err(FabricError::Unreachable("the broker does not answer".to_string()));
        }
        sleep(Duration::from_micros(random::between(delay_us / 2, delay_us)));
        match self.state().members[member].is_disconnected() {
            true => Err(FabricError::Unreachable("the connection broke".to_string())),
            false => Ok(()),
        }
    }
}

impl Link {
    fn is_disconnected(&self) -> bool {
        self.is_cut || self.is_dead
    }

    /// Detects that it is disconnected, if it is time.
    fn notice_cut(&mut self, now: Instant) {
        if self.notices_at.take_if(|at| *at <= now).is_some() {
            self.notices.push(Notice::Disconnected);
        }
    }

    fn is_known_to_be_disconnected(&mut self) -> bool {
        self.notice_cut(now());
        self.is_dead || self.is_cut && self.notices_at.is_none()
    }

    fn delay(&self) -> Duration {
        let most = if random::one_in(100) { 200_000 } else { self.delay_us };
        Duration::from_micros(random::between(self.delay_us / 2, most.max(self.delay_us)))
    }
}

impl State {
    fn add(&mut self, at: Instant, event: Event) {
        self.last_event += 1;
        self.events.insert((at, self.last_event), event);
    }

    /// Checks that a controller that states that it leads has the claim, as long as the claim exists.
    fn check_lease(&self, subject: &str, body: &[u8]) {
        if !subject.ends_with(".all") {
            return;
        }
        let Ok(Order::Lease { run }) = serde_json::from_slice::<Order>(body) else { return };
        for (holder, until) in self.claims.values() {
            let is_other = *holder != run && now() < *until;
            if is_other {
                random::note(|| format!("{run} states that it leads while {holder} has the claim"));
            }
            // The names of runs differ between processes, so only the trace has them.
            assert!(!is_other, "a run states that it leads while another has the claim");
        }
    }
}

/// The connection of a member to the broker.
struct MemberFabric {
    broker: Broker,
    member: usize,
}

impl Fabric for MemberFabric {
    fn publish(&self, subject: &str, body: Vec<u8>) -> Result<(), FabricError> {
        let mut state = self.broker.state();
        let link = &state.members[self.member];
        if link.is_dead {
            return Err(FabricError::Unreachable("dead".to_string()));
        }
        if link.is_cut {
            // Some messages are lost in the buffers of the machine.
            return match !state.members[self.member].is_known_to_be_disconnected() || random::one_in(2) {
                true => Ok(()),
                false => Err(FabricError::Unreachable("the broker is not reachable".to_string())),
            };
        }
        state.check_lease(subject, &body);
        let there = link_delay(&state, self.member);
        for number in 0..state.listeners.len() {
            let listener = &state.listeners[number];
            let is_lost = state.lost_one_in > 0 && random::one_in(state.lost_one_in);
            if is_lost || !matches(&listener.pattern, subject) {
                continue;
            }
            let at = now() + there + link_delay(&state, listener.member);
            let at = at.max(listener.last + Duration::from_nanos(1));
            state.listeners[number].last = at;
            state.add(
                at,
                Event::Message { listener: number, subject: subject.to_string(), body: body.clone() },
            );
        }
        Ok(())
    }

    fn subscribe(&self, pattern: &str) -> Result<Inbox<Message>, FabricError> {
        let (sender, inbox) = inbox();
        let listener = Listener { member: self.member, pattern: pattern.to_string(), sender, last: now() };
        self.broker.state().listeners.push(listener);
        Ok(inbox)
    }

    fn store_document(&self, document: &[u8]) -> Result<String, FabricError> {
        self.broker.round_trip(self.member)?;
        let name = touchstone_lab::machine::sha256(document);
        self.broker.state().documents.insert(name.clone(), document.to_vec());
        self.broker.round_trip(self.member)?;
        Ok(name)
    }

    fn fetch(&self, sha256: &str) -> Result<Vec<u8>, FabricError> {
        self.broker.round_trip(self.member)?;
        let missing = || FabricError::Failed(format!("there is no document {sha256}"));
        self.broker.state().documents.get(sha256).cloned().ok_or_else(missing)
    }

    fn keep(&self, subject: &str, id: &str, body: Vec<u8>) -> Result<(), FabricError> {
        self.broker.round_trip(self.member)?;
        {
            let mut state = self.broker.state();
            if state.refuses_to_store_until.is_some_and(|until| now() < until) {
                return Err(FabricError::Failed("the broker stores no messages at present".to_string()));
            }
            if !state.stored.iter().any(|kept| kept.id == id) {
                state.stored.push(StoredEntry { id: id.to_string(), subject: subject.to_string(), body });
                let kept = state.stored.len() - 1;
                for consumer in 0..state.consumers.len() {
                    if matches(&state.consumers[consumer].pattern, subject) {
                        let at = now() + link_delay(&state, state.consumers[consumer].member);
                        state.add(at, Event::Stored { consumer, kept });
                    }
                }
            }
        }
        if random::one_in(8) {
            return Err(FabricError::Unreachable("the confirmation was lost".to_string()));
        }
        self.broker.round_trip(self.member)
    }

    fn kept(&self, pattern: &str, _name: &str) -> Result<Inbox<StoredMessage>, FabricError> {
        self.broker.round_trip(self.member)?;
        let (sender, inbox) = inbox();
        let acknowledged = Arc::default();
        let consumer = Consumer { member: self.member, pattern: pattern.to_string(), sender, acknowledged };
        self.broker.state().consumers.push(consumer);
        Ok(inbox)
    }

    fn claim(&self, key: &str, owner: &str) -> Result<(), FabricError> {
        self.broker.round_trip(self.member)?;
        let outcome = {
            let mut state = self.broker.state();
            match state.claims.get(key) {
                Some((holder, until)) if holder != owner && now() < *until => {
                    Err(FabricError::Held(holder.clone()))
                }
                _ => {
                    random::note(|| format!("broker: {owner} holds {key}"));
                    state.claims.insert(key.to_string(), (owner.to_string(), now() + CLAIM_TIME));
                    Ok(())
                }
            }
        };
        self.broker.round_trip(self.member)?;
        outcome
    }

    fn release(&self, key: &str, owner: &str) -> Result<(), FabricError> {
        self.broker.round_trip(self.member)?;
        let mut state = self.broker.state();
        if state.claims.get(key).is_some_and(|(holder, _)| holder == owner) {
            random::note(|| format!("broker: {owner} releases {key}"));
            state.claims.remove(key);
        }
        drop(state);
        self.broker.round_trip(self.member)
    }

    fn is_connected(&self) -> bool {
        !self.broker.state().members[self.member].is_known_to_be_disconnected()
    }

    fn notices(&self) -> Vec<Notice> {
        let mut state = self.broker.state();
        let link = &mut state.members[self.member];
        link.notice_cut(now());
        std::mem::take(&mut link.notices)
    }

    fn traffic(&self) -> Traffic {
        Traffic::default()
    }
}

fn link_delay(state: &State, member: usize) -> Duration {
    state.members[member].delay()
}
