//! The open streams of a connection, found by their identifiers without hashing.
//!
//! Streams are stored in slots that are used again and again, so a connection that has run for a while
//! allocates nothing. A stream keeps its slot for as long as it is open: a [`StreamKey`], the slot and the
//! identifier, finds a stream by one comparison, and its [`index`](StreamKey::index) can index tables of the
//! caller.
//!
//! The client names streams by identifiers only. A table with open addressing maps these to the slots; since
//! clients count their streams up by two, nearly every stream is found at the first place.

use super::flow::{ReceiveWindow, SendWindow};
use super::priority::Priority;

/// A stream, as events name it and as calls take it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamKey {
    index: u32,
    id: u32,
}

impl StreamKey {
    /// The stream identifier.
    #[inline]
    pub fn id(self) -> u32 {
        self.id
    }

    /// A small number that no other open stream of the connection has. It is used again when the stream is
    /// closed.
    #[inline]
    pub fn index(self) -> usize {
        self.index as usize
    }
}

/// How far the response is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Response {
    /// No header section was sent but those of interim responses.
    Awaited,
    /// The header section was sent.
    Started,
    /// Everything was sent.
    Complete,
}

/// An open stream.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    /// The stream identifier; 0 in a slot that is free.
    pub(crate) id: u32,
    pub(crate) send_window: SendWindow,
    pub(crate) receive_window: ReceiveWindow,
    /// Bytes of the body that the caller has and that are not in a frame yet.
    pub(crate) unsent: u64,
    /// Bytes of the request body that were not received yet, if there is a `Content-Length`.
    pub(crate) content_left: Option<u64>,
    pub(crate) response: Response,
    /// The client has sent everything.
    pub(crate) request_ended: bool,
    /// Nothing more will be sent except what is `unsent`, and perhaps trailers.
    pub(crate) ends: bool,
    /// There are trailers to be sent at the end.
    pub(crate) has_trailers: bool,
    /// A tunnel: each direction ends on its own.
    pub(crate) is_tunnel: bool,
    pub(crate) priority: Priority,
    /// The client has set no priority.
    pub(crate) priority_is_default: bool,
    pub(crate) queue: QueueLinks,
}

impl Stream {
    /// Whether it takes turns with others of its urgency: responses that are useful in pieces, and those
    /// without a known priority.
    #[inline]
    pub(crate) fn takes_turns(&self) -> bool {
        self.priority.incremental || self.priority_is_default
    }
}

/// The position of a stream in a queue of the scheduler.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueLinks {
    pub(crate) is_queued: bool,
    pub(crate) before: u32,
    pub(crate) behind: u32,
}

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

impl QueueLinks {
    pub(crate) const NOT_QUEUED: QueueLinks = QueueLinks { is_queued: false, before: NONE, behind: NONE };
}

/// How many places the table has at least.
const LEAST_PLACES: usize = 16;

/// The open streams.
#[derive(Debug, Clone)]
pub(crate) struct Streams {
    slots: Vec<Stream>,
    free: Vec<u32>,
    /// For each place the slot, or [`NONE`]. The number of places is a power of two, and at least twice that
    /// of slots.
    places: Vec<u32>,
}

impl Streams {
    pub(crate) fn new() -> Streams {
        Streams { slots: Vec::new(), free: Vec::new(), places: vec![NONE; LEAST_PLACES] }
    }

    /// How many are open.
    #[inline]
    pub(crate) fn open(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The slot of the stream with an identifier.
    #[inline]
    pub(crate) fn find(&self, id: u32) -> Option<u32> {
        let mut place = self.home(id);
        loop {
            let slot = self.places[place];
            match self.slots.get(slot as usize) {
                None => return None,
                Some(stream) if stream.id == id => return Some(slot),
                Some(_) => place = self.next(place),
            }
        }
    }

    /// The stream of a key, if it is still open.
    #[inline]
    pub(crate) fn get(&mut self, key: StreamKey) -> Option<&mut Stream> {
        self.slots.get_mut(key.index as usize).filter(|stream| stream.id == key.id)
    }

    /// Whether the stream of a key is still open.
    #[inline]
    pub(crate) fn contains(&self, key: StreamKey) -> bool {
        self.slots.get(key.index as usize).is_some_and(|stream| stream.id == key.id)
    }

    /// The stream in a slot that is known to be in use.
    #[inline]
    pub(crate) fn slot(&mut self, slot: u32) -> &mut Stream {
        &mut self.slots[slot as usize]
    }

    /// The key of the stream in a slot that is known to be in use.
    #[inline]
    pub(crate) fn key(&self, slot: u32) -> StreamKey {
        StreamKey { index: slot, id: self.slots[slot as usize].id }
    }

    /// How many slots there are, in use or free.
    pub(crate) fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Whether a slot is in use.
    pub(crate) fn is_used(&self, slot: u32) -> bool {
        self.slots.get(slot as usize).is_some_and(|stream| stream.id != 0)
    }

    /// Whether any stream has something to send.
    pub(crate) fn any_unsent(&self) -> bool {
        self.slots.iter().any(|stream| stream.id != 0 && stream.unsent > 0)
    }

    /// Adds a stream, whose identifier no open stream has.
    #[inline]
    pub(crate) fn insert(&mut self, stream: Stream) -> u32 {
        let id = stream.id;
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = stream;
                slot
            }
            None => {
                self.slots.push(stream);
                (self.slots.len() - 1) as u32
            }
        };
        if self.slots.len() * 2 > self.places.len() {
            self.grow();
        } else {
            self.place(id, slot);
        }
        slot
    }

    /// Frees the slot of a stream.
    #[inline]
    pub(crate) fn remove(&mut self, slot: u32) {
        let stream = &mut self.slots[slot as usize];
        let id = std::mem::take(&mut stream.id);
        self.free.push(slot);
        let mut hole = self.home(id);
        while self.places[hole] != slot {
            hole = self.next(hole);
        }
        // Each entry after the free place that is not at its first place moves up by one, so that a search
        // can stop at the first empty place. Because entries are ordered by first place, the first entry that
        // stays ends the loop.
        loop {
            let place = self.next(hole);
            let mover = self.places[place];
            if self.distance(place, mover).unwrap_or(0) == 0 {
                break;
            }
            self.places[hole] = mover;
            hole = place;
        }
        self.places[hole] = NONE;
    }

    /// How far a place is from the first place (`home`) of the slot's stream; `None` for an empty place.
    #[inline]
    fn distance(&self, place: usize, slot: u32) -> Option<usize> {
        let stream = self.slots.get(slot as usize)?;
        Some(place.wrapping_sub(self.home(stream.id)) & (self.places.len() - 1))
    }

    /// The first place where a stream is looked for. Clients use odd identifiers only.
    #[inline]
    fn home(&self, id: u32) -> usize {
        (id >> 1) as usize & (self.places.len() - 1)
    }

    #[inline]
    fn next(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }

    /// Inserts a slot into the table, at its first place or after it. An entry that is nearer to its own
    /// first place moves on, so that entries stay ordered by first place ("Robin Hood hashing").
    #[inline]
    fn place(&mut self, id: u32, slot: u32) {
        let (mut place, mut slot, mut distance) = (self.home(id), slot, 0);
        while let Some(other_distance) = self.distance(place, self.places[place]) {
            if other_distance < distance {
                std::mem::swap(&mut self.places[place], &mut slot);
                distance = other_distance;
            }
            place = self.next(place);
            distance += 1;
        }
        self.places[place] = slot;
    }

    #[cold]
    fn grow(&mut self) {
        self.places = vec![NONE; 2 * self.places.len()];
        for slot in 0..self.slots.len() {
            let id = self.slots[slot].id;
            if id != 0 {
                self.place(id, slot as u32);
            }
        }
    }
}

/// How many closed streams are recorded.
const REMEMBERED: usize = 128;

/// How a stream was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamClosing {
    /// Both sides have ended it, or the client reset it: the client has noticed the end.
    Known,
    /// This side reset it: frames that the client sent before it noticed may still arrive (RFC 9113 section
    /// 5.1).
    ByReset,
}

/// The streams that were closed last. They distinguish a frame that was sent before the client noticed the
/// end from one that the client should not have sent.
#[derive(Debug, Clone)]
pub(crate) struct ClosedStreams {
    /// Identifiers, shifted by one; the lowest bit holds the [`StreamClosing`] value. Each stream has one
    /// place.
    entries: Box<[u32; REMEMBERED]>,
}

impl ClosedStreams {
    pub(crate) fn new() -> ClosedStreams {
        ClosedStreams { entries: Box::new([0; REMEMBERED]) }
    }

    #[inline]
    pub(crate) fn remember(&mut self, id: u32, how: StreamClosing) {
        let entry = &mut self.entries[(id >> 1) as usize % REMEMBERED];
        *entry = id << 1 | u32::from(how == StreamClosing::ByReset);
    }

    /// How a stream was closed, if that is still known.
    #[inline]
    pub(crate) fn recall(&self, id: u32) -> Option<StreamClosing> {
        let entry = self.entries[(id >> 1) as usize % REMEMBERED];
        if entry >> 1 != id || id == 0 {
            return None;
        }
        Some(if entry & 1 == 1 { StreamClosing::ByReset } else { StreamClosing::Known })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    pub(crate) fn stream(id: u32) -> Stream {
        Stream {
            id,
            send_window: SendWindow::new(100),
            receive_window: ReceiveWindow::new(100),
            unsent: 0,
            content_left: None,
            response: Response::Awaited,
            request_ended: true,
            ends: false,
            has_trailers: false,
            is_tunnel: false,
            priority: Priority::default(),
            priority_is_default: true,
            queue: QueueLinks::NOT_QUEUED,
        }
    }

    #[test]
    fn a_key_does_not_find_the_next_stream_of_its_slot() {
        let mut streams = Streams::new();
        let slot = streams.insert(stream(1));
        let key = streams.key(slot);
        assert!(streams.contains(key) && streams.get(key).is_some());
        streams.remove(slot);
        assert_eq!(streams.insert(stream(3)), slot);
        assert!(!streams.contains(key) && streams.get(key).is_none());
        assert_eq!((key.id(), key.index()), (1, 0));
    }

    #[test]
    fn closed_streams_are_remembered_for_a_while() {
        let mut closed = ClosedStreams::new();
        assert_eq!(closed.recall(1), None);
        closed.remember(1, StreamClosing::Known);
        closed.remember(3, StreamClosing::ByReset);
        closed.remember(0x7fff_ffff, StreamClosing::ByReset);
        assert_eq!(closed.recall(1), Some(StreamClosing::Known));
        assert_eq!(closed.recall(3), Some(StreamClosing::ByReset));
        assert_eq!(closed.recall(0x7fff_ffff), Some(StreamClosing::ByReset));
        closed.remember(1 + 2 * REMEMBERED as u32, StreamClosing::Known);
        assert_eq!(closed.recall(1), None);
    }

    proptest! {
        /// The same as an ordinary map, also with identifiers that all hash to the same place.
        #[test]
        fn agrees_with_a_map(
            steps in proptest::collection::vec(
                (any::<bool>(), prop_oneof![0u32..40, (0u32..40).prop_map(|n| n * 64)]),
                0..200,
            )
        ) {
            let mut streams = Streams::new();
            let mut map: BTreeMap<u32, u32> = BTreeMap::new();
            for (inserts, number) in steps {
                let id = 2 * number + 1;
                match map.get(&id).copied() {
                    None if inserts => {
                        let slot = streams.insert(stream(id));
                        prop_assert!(!map.values().any(|&other| other == slot));
                        map.insert(id, slot);
                    }
                    Some(slot) if !inserts => {
                        streams.remove(slot);
                        map.remove(&id);
                    }
                    _ => {}
                }
                prop_assert_eq!(streams.open(), map.len());
                for candidate in (0..40).flat_map(|n| [2 * n + 1, 2 * 64 * n + 1]) {
                    prop_assert_eq!(streams.find(candidate), map.get(&candidate).copied());
                }
                let open: Vec<u32> = (0..streams.slots()).filter(|&slot| streams.is_used(slot)).collect();
                prop_assert_eq!(open.len(), map.len());
                for slot in open {
                    let id = streams.slot(slot).id;
                    prop_assert_eq!(map.get(&id), Some(&slot));
                }
            }
        }
    }
}
