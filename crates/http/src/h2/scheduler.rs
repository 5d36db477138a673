//! Decides which stream may send next (RFC 9218 section 10).
//!
//! The streams that have bytes to send, and a window for them, wait in queues: two for each urgency. The
//! responses in the first queue are useful only when complete, so they are sent one after the other, in the
//! order of their requests. The responses in the second queue are useful in pieces, so they take turns of one
//! frame. Streams without a known priority are in the second queue too, because a client that does not use
//! priorities expects its streams to be served equally. The two queues of an urgency also take turns.
//!
//! The queues are linked through the streams themselves, so nothing is allocated.

use super::priority::Priority;
use super::streams::{NONE, QueueLinks, Streams};

const URGENCIES: usize = Priority::LOWEST_URGENCY as usize + 1;

/// The queues.
#[derive(Debug, Clone)]
pub(crate) struct Scheduler {
    levels: [Level; URGENCIES],
    /// A bit for each urgency in which a stream waits; the lowest is the most urgent.
    waiting: u8,
}

#[derive(Debug, Clone, Copy)]
struct Level {
    /// Streams that send one after the other, in the order of identifiers.
    in_order: Queue,
    /// Streams that take turns.
    in_turns: Queue,
    /// The queue whose turn it is, if both hold streams.
    turn_is_in_turns: bool,
}

#[derive(Debug, Clone, Copy)]
struct Queue {
    first: u32,
    last: u32,
}

const EMPTY: Queue = Queue { first: NONE, last: NONE };

impl Scheduler {
    pub(crate) fn new() -> Scheduler {
        let level = Level { in_order: EMPTY, in_turns: EMPTY, turn_is_in_turns: false };
        Scheduler { levels: [level; URGENCIES], waiting: 0 }
    }

    /// Whether no stream waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Whether a stream that arrives now may send a frame at once, because no waiting stream goes before it.
    #[inline]
    pub(crate) fn is_free_for(&self, priority: Priority, takes_turns: bool) -> bool {
        // The bits of more urgent streams. For a stream that must keep the order, also that of equal urgency.
        let before = (1u16 << (u16::from(priority.urgency) + u16::from(!takes_turns))) - 1;
        u16::from(self.waiting) & before == 0
    }

    /// Puts a stream into its queue, if it is not there yet.
    pub(crate) fn push(&mut self, streams: &mut Streams, slot: u32) {
        if streams.slot(slot).queue.is_queued {
            return;
        }
        let (urgency, takes_turns) = self.place_of(streams, slot);
        let queue = self.queue(urgency, takes_turns);
        let mut before = queue.last;
        if !takes_turns {
            let id = streams.slot(slot).id;
            while before != NONE && streams.slot(before).id > id {
                before = streams.slot(before).queue.before;
            }
        }
        self.link(streams, slot, before);
    }

    /// Takes a stream out of its queue, if it is in one.
    pub(crate) fn remove(&mut self, streams: &mut Streams, slot: u32) {
        let links = std::mem::replace(&mut streams.slot(slot).queue, QueueLinks::NOT_QUEUED);
        if !links.is_queued {
            return;
        }
        let (urgency, takes_turns) = self.place_of(streams, slot);
        let queue = self.queue(urgency, takes_turns);
        match links.before {
            NONE => queue.first = links.behind,
            before => streams.slot(before).queue.behind = links.behind,
        }
        match links.behind {
            NONE => queue.last = links.before,
            behind => streams.slot(behind).queue.before = links.before,
        }
        let level = &self.levels[urgency];
        if level.in_order.first == NONE && level.in_turns.first == NONE {
            self.waiting &= !(1 << urgency);
        }
    }

    /// The stream that may send next; it stays in its queue.
    #[inline]
    pub(crate) fn first(&self) -> Option<u32> {
        if self.waiting == 0 {
            return None;
        }
        let level = &self.levels[self.waiting.trailing_zeros() as usize];
        let one_is_empty = level.in_order.first == NONE || level.in_turns.first == NONE;
        let takes_turns = if one_is_empty { level.in_order.first == NONE } else { level.turn_is_in_turns };
        Some(if takes_turns { level.in_turns.first } else { level.in_order.first })
    }

    /// Called when the first stream has sent a frame: the next one gets its turn. The stream stays in its
    /// queue, even if it has no more bytes.
    pub(crate) fn pass_turn(&mut self, streams: &mut Streams, slot: u32) {
        let (urgency, takes_turns) = self.place_of(streams, slot);
        self.levels[urgency].turn_is_in_turns = !takes_turns;
        if takes_turns && streams.slot(slot).queue.behind != NONE {
            self.remove(streams, slot);
            self.push(streams, slot);
        }
    }

    /// Changes the priority of a stream, and its place in the queues if it waits.
    pub(crate) fn set_priority(&mut self, streams: &mut Streams, slot: u32, priority: Priority) {
        let is_queued = streams.slot(slot).queue.is_queued;
        self.remove(streams, slot);
        let stream = streams.slot(slot);
        stream.priority = priority;
        stream.priority_is_default = false;
        if is_queued {
            self.push(streams, slot);
        }
    }

    fn place_of(&self, streams: &mut Streams, slot: u32) -> (usize, bool) {
        let stream = streams.slot(slot);
        (usize::from(stream.priority.urgency.min(Priority::LOWEST_URGENCY)), stream.takes_turns())
    }

    fn queue(&mut self, urgency: usize, takes_turns: bool) -> &mut Queue {
        let level = &mut self.levels[urgency];
        if takes_turns { &mut level.in_turns } else { &mut level.in_order }
    }

    /// Links a stream after `before`, or as the first.
    fn link(&mut self, streams: &mut Streams, slot: u32, before: u32) {
        let (urgency, takes_turns) = self.place_of(streams, slot);
        let queue = self.queue(urgency, takes_turns);
        let behind = match before {
            NONE => std::mem::replace(&mut queue.first, slot),
            before => std::mem::replace(&mut streams.slot(before).queue.behind, slot),
        };
        match behind {
            NONE => queue.last = slot,
            behind => streams.slot(behind).queue.before = slot,
        }
        streams.slot(slot).queue = QueueLinks { is_queued: true, before, behind };
        self.waiting |= 1 << urgency;
    }
}

#[cfg(test)]
mod tests {
    use super::super::streams::tests::stream;
    use super::*;
    use proptest::prelude::*;

    /// Streams with identifiers 1, 3, 5 and so on, one for each priority; `None`: a stream without a
    /// priority.
    fn streams_of(priorities: &[Option<(u8, bool)>]) -> (Streams, Scheduler, Vec<u32>) {
        let (mut streams, mut scheduler) = (Streams::new(), Scheduler::new());
        let mut slots = Vec::new();
        for (number, priority) in priorities.iter().enumerate() {
            let mut stream = stream(2 * number as u32 + 1);
            if let Some((urgency, incremental)) = *priority {
                stream.priority = Priority { urgency, incremental };
                stream.priority_is_default = false;
            }
            slots.push(streams.insert(stream));
        }
        for &slot in &slots {
            scheduler.push(&mut streams, slot);
        }
        (streams, scheduler, slots)
    }

    /// The identifiers in the order in which streams of two frames each would send.
    fn order(priorities: &[Option<(u8, bool)>]) -> Vec<u32> {
        let (mut streams, mut scheduler, _) = streams_of(priorities);
        let mut left = vec![2; priorities.len()];
        let mut order = Vec::new();
        while let Some(slot) = scheduler.first() {
            order.push(streams.slot(slot).id);
            left[slot as usize] -= 1;
            scheduler.pass_turn(&mut streams, slot);
            if left[slot as usize] == 0 {
                scheduler.remove(&mut streams, slot);
            }
        }
        assert!(scheduler.is_empty());
        order
    }

    #[test]
    fn orders() {
        assert_eq!(order(&[Some((3, false)), Some((1, false)), Some((7, true))]), [3, 3, 1, 1, 5, 5]);
        assert_eq!(order(&[Some((3, false)), Some((3, false))]), [1, 1, 3, 3]);
        assert_eq!(order(&[Some((3, true)), Some((3, true)), Some((3, true))]), [1, 3, 5, 1, 3, 5]);
        assert_eq!(order(&[None, None]), [1, 3, 1, 3]);
        assert_eq!(order(&[Some((3, false)), Some((3, true)), Some((3, false))]), [1, 3, 1, 3, 5, 5]);
    }

    #[test]
    fn order_is_that_of_requests_however_late_a_stream_becomes_ready() {
        let (mut streams, mut scheduler, slots) = streams_of(&[Some((3, false)); 3]);
        scheduler.remove(&mut streams, slots[0]);
        scheduler.remove(&mut streams, slots[1]);
        scheduler.push(&mut streams, slots[1]);
        scheduler.push(&mut streams, slots[0]);
        scheduler.push(&mut streams, slots[0]);
        let mut found = Vec::new();
        while let Some(slot) = scheduler.first() {
            found.push(streams.slot(slot).id);
            scheduler.remove(&mut streams, slot);
        }
        assert_eq!(found, [1, 3, 5]);
    }

    #[test]
    fn a_changed_priority_changes_the_place() {
        let (mut streams, mut scheduler, slots) = streams_of(&[Some((3, false)), None, None]);
        scheduler.set_priority(&mut streams, slots[1], Priority { urgency: 0, incremental: false });
        assert_eq!(scheduler.first(), Some(slots[1]));
        scheduler.set_priority(&mut streams, slots[1], Priority { urgency: 7, incremental: true });
        assert_eq!(scheduler.first(), Some(slots[0]));
        scheduler.remove(&mut streams, slots[2]);
        scheduler.set_priority(&mut streams, slots[2], Priority { urgency: 0, incremental: false });
        assert_eq!(scheduler.first(), Some(slots[0]));
    }

    #[test]
    fn who_may_go_at_once() {
        let (_, scheduler, _) = streams_of(&[Some((3, false))]);
        let free = |urgency, takes_turns| {
            scheduler.is_free_for(Priority { urgency, incremental: takes_turns }, takes_turns)
        };
        assert!(free(2, false) && free(2, true) && free(3, true));
        assert!(!free(3, false) && !free(4, true) && !free(7, false));
        assert!(Scheduler::new().is_free_for(Priority { urgency: 7, incremental: false }, false));
    }

    proptest! {
        /// No stream is lost, and no stream sends out of turn.
        #[test]
        fn the_most_urgent_goes_first(
            priorities in proptest::collection::vec(proptest::option::of((0u8..8, any::<bool>())), 1..20),
            steps in proptest::collection::vec((0usize..20, 0u8..3), 0..100),
        ) {
            let (mut streams, mut scheduler, slots) = streams_of(&priorities);
            let mut queued = vec![true; slots.len()];
            for (which, step) in steps {
                let which = which % slots.len();
                match step {
                    0 => {
                        scheduler.push(&mut streams, slots[which]);
                        queued[which] = true;
                    }
                    1 => {
                        scheduler.remove(&mut streams, slots[which]);
                        queued[which] = false;
                    }
                    _ => if let Some(slot) = scheduler.first() {
                        scheduler.pass_turn(&mut streams, slot);
                    },
                }
                let urgency = |slot: usize| priorities[slot].map_or(3, |(urgency, _)| urgency);
                let most_urgent = (0..slots.len()).filter(|&slot| queued[slot]).map(urgency).min();
                let first = scheduler.first().map(|slot| slot as usize);
                prop_assert_eq!(first.map(urgency), most_urgent);
                prop_assert!(first.is_none_or(|slot| queued[slot]));
            }
            let mut found = 0;
            while let Some(slot) = scheduler.first() {
                prop_assert!(queued[slot as usize]);
                scheduler.remove(&mut streams, slot);
                found += 1;
            }
            prop_assert_eq!(found, queued.iter().filter(|&&queued| queued).count());
        }
    }
}
