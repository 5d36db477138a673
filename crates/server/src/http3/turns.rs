//! The order in which the answers of a connection use its send window.
//!
//! All streams of a connection share one send window. When the client has acknowledged data, quinn wakes the
//! streams that wait for the window, and the last one that waited first; the first one that writes takes all
//! the room. So an answer that has waited for long would wait until all newer answers are sent. Here the
//! answers that wait form a queue, and each writes up to [`TURN_BYTES`] in its turn.
//!
//! An answer may also wait because its client does not read its stream. quinn does not tell which of the two
//! it is, so an answer that cannot write keeps its place, and the next one tries. One pass over the queue is
//! a *round*; a stream that quinn wakes begins one.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

/// How many bytes an answer writes in its turn, while others wait.
const TURN_BYTES: usize = 64 * 1024;

/// The answers of a connection that wait for its send window.
#[derive(Default)]
pub struct Turns(RefCell<Queue>);

#[derive(Default)]
struct Queue {
    /// In the order in which they may write.
    waiting: VecDeque<Waiting>,
    /// The place of the answer whose turn it is; `None`: no round is in progress.
    turn: Option<usize>,
    /// An answer before `turn` was woken: another round follows this one.
    repeats: bool,
}

struct Waiting {
    stream: u64,
    waker: Waker,
}

/// A stream that writes. It leaves the queue when it is dropped.
pub struct Place<'a> {
    turns: &'a Turns,
    stream: u64,
}

impl Turns {
    /// A place for a stream. It enters the queue when it first has to wait.
    pub fn place(&self, stream: u64) -> Place<'_> {
        Place { turns: self, stream }
    }
}

impl Place<'_> {
    /// Writes a part of `left_bytes` when it is the turn of the stream. `write` is called with the most bytes
    /// that it may write, and writes as many of them as there is room for; `Pending`: there is no room, and
    /// quinn wakes the task when this changes.
    pub fn poll_write<T>(
        &self,
        left_bytes: usize,
        context: &mut Context<'_>,
        write: impl FnOnce(&mut Context<'_>, usize) -> Poll<T>,
    ) -> Poll<T> {
        let stream = self.stream;
        let is_alone = {
            let queue = &mut *self.turns.0.borrow_mut();
            match queue.position(stream) {
                Some(place) if queue.may_write(place, context) => queue.waiting.len() == 1,
                Some(_) => return Poll::Pending,
                // What is short is written at once: it takes little of the window, and a client often needs
                // it first.
                None if queue.turn.is_some() && left_bytes > TURN_BYTES => {
                    queue.waiting.push_back(Waiting { stream, waker: context.waker().clone() });
                    return Poll::Pending;
                }
                None => queue.waiting.is_empty(),
            }
        };
        let written = write(context, if is_alone { usize::MAX } else { TURN_BYTES });
        let queue = &mut *self.turns.0.borrow_mut();
        match (queue.position(stream), written.is_ready()) {
            (Some(place), true) => queue.remove(place),
            (Some(place), false) => queue.pass_on(place + 1),
            (None, true) => {}
            (None, false) => queue.waiting.push_back(Waiting { stream, waker: context.waker().clone() }),
        }
        written
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let queue = &mut *self.turns.0.borrow_mut();
        if let Some(place) = queue.position(self.stream) {
            queue.remove(place);
        }
    }
}

impl Queue {
    fn position(&self, stream: u64) -> Option<usize> {
        self.waiting.iter().position(|waiting| waiting.stream == stream)
    }

    /// Whether it is the turn of this place; begins a round if none is in progress.
    fn may_write(&mut self, place: usize, context: &Context<'_>) -> bool {
        self.waiting[place].waker.clone_from(context.waker());
        match self.turn {
            Some(turn) => {
                self.repeats |= place < turn;
                place == turn
            }
            None => {
                self.turn = Some(0);
                if place > 0 {
                    self.waiting[0].waker.wake_by_ref();
                }
                place == 0
            }
        }
    }

    fn remove(&mut self, place: usize) {
        self.waiting.remove(place);
        match self.turn {
            Some(turn) if place < turn => self.turn = Some(turn - 1),
            Some(turn) if place == turn => self.pass_on(place),
            _ => {}
        }
    }

    /// Gives the turn to the answer at this place; behind the last one the round ends.
    fn pass_on(&mut self, place: usize) {
        self.turn = Some(place);
        if place >= self.waiting.len() {
            let repeats = std::mem::take(&mut self.repeats) && !self.waiting.is_empty();
            self.turn = repeats.then_some(0);
        }
        if let Some(turn) = self.turn {
            self.waiting[turn].waker.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;
    use std::mem::ManuallyDrop;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Wake;

    use super::*;

    struct Flag(AtomicBool);

    impl Wake for Flag {
        fn wake(self: Arc<Flag>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Answers that share a window, as quinn shares it.
    struct Connection {
        turns: Turns,
        room: Cell<usize>,
        /// For each answer: what is left, whether its client reads it, and whether its task was woken.
        answers: BTreeMap<u64, (usize, bool, Arc<Flag>)>,
        /// Those that wait for the window, as quinn keeps them.
        blocked: RefCell<Vec<u64>>,
    }

    impl Connection {
        fn new(answers: &[(u64, usize, bool)]) -> Connection {
            let woken = || Arc::new(Flag(AtomicBool::new(true)));
            Connection {
                turns: Turns::default(),
                room: Cell::new(0),
                answers: answers.iter().map(|&(id, left, reads)| (id, (left, reads, woken()))).collect(),
                blocked: RefCell::default(),
            }
        }

        /// The client acknowledges data: quinn wakes all that wait for the window, the last one first.
        fn acknowledge(&mut self, bytes: usize) {
            self.room.set(self.room.get() + bytes);
            let woken: Vec<u64> = self.blocked.borrow_mut().drain(..).rev().collect();
            for id in woken {
                if let Some((_, _, flag)) = self.answers.get(&id) {
                    flag.wake_by_ref();
                }
                self.run(id);
            }
            while let Some(id) = self.answers.keys().copied().find(|id| self.is_woken(*id)) {
                self.run(id);
            }
        }

        fn is_woken(&self, id: u64) -> bool {
            self.answers[&id].2.0.load(Ordering::Relaxed)
        }

        /// Runs the task of an answer until it waits or is done.
        fn run(&mut self, id: u64) {
            let Some((mut left, reads, flag)) = self.answers.get(&id).cloned() else { return };
            if !flag.0.swap(false, Ordering::Relaxed) {
                return;
            }
            let waker = flag.clone().into();
            let mut context = Context::from_waker(&waker);
            while left > 0 {
                let place = ManuallyDrop::new(self.turns.place(id));
                let written = place.poll_write(left, &mut context, |_, most| {
                    let fits = left.min(most).min(self.room.get());
                    if self.room.get() == 0 && !self.blocked.borrow().contains(&id) {
                        self.blocked.borrow_mut().push(id);
                    }
                    if !reads || fits == 0 {
                        return Poll::Pending;
                    }
                    self.room.set(self.room.get() - fits);
                    Poll::Ready(fits)
                });
                match written {
                    Poll::Ready(bytes) => left -= bytes,
                    Poll::Pending => break,
                }
            }
            match left {
                0 => drop(self.answers.remove(&id)),
                left => self.answers.get_mut(&id).expect("it is there").0 = left,
            }
        }
    }

    #[test]
    fn answers_that_wait_share_the_window() {
        let answers: Vec<_> = (0..16).map(|id| (id, 1 << 20, true)).collect();
        let mut connection = Connection::new(&answers);
        connection.acknowledge(0);
        for sent in (1..=240).map(|turns| turns * TURN_BYTES) {
            connection.acknowledge(TURN_BYTES);
            let left: Vec<usize> = connection.answers.values().map(|answer| answer.0).collect();
            assert_eq!(left.iter().sum::<usize>(), (16 << 20) - sent);
            let difference = left.iter().max().expect("16") - left.iter().min().expect("16");
            assert!(difference <= TURN_BYTES, "after {sent} bytes: {left:?}");
        }
    }

    #[test]
    fn an_answer_that_its_client_does_not_read_holds_up_no_other() {
        let mut connection =
            Connection::new(&[(0, 1 << 20, false), (4, 1 << 20, true), (8, 1 << 20, true), (12, 9, false)]);
        connection.acknowledge(0);
        for _ in 0..64 {
            connection.acknowledge(TURN_BYTES / 2);
        }
        assert_eq!(connection.answers.keys().copied().collect::<Vec<_>>(), [0, 12]);
    }

    #[test]
    fn an_answer_that_leaves_passes_its_turn_on() {
        let mut connection = Connection::new(&[(0, 1 << 20, true), (4, 1 << 20, true), (8, 1 << 20, true)]);
        connection.acknowledge(0);
        // The last one begins a round, and the first one, whose turn it is, leaves before it is run.
        connection.room.set(TURN_BYTES);
        connection.answers[&8].2.wake_by_ref();
        connection.run(8);
        assert!(connection.is_woken(0));
        connection.answers.remove(&0);
        drop(connection.turns.place(0));
        assert!(connection.is_woken(4));
        connection.acknowledge(0);
        assert_eq!(connection.answers[&4].0, (1 << 20) - TURN_BYTES);
    }

    #[test]
    fn a_short_answer_does_not_wait_for_long_ones() {
        let mut connection = Connection::new(&[(0, 1 << 20, true), (4, 1 << 20, true), (8, 100, true)]);
        for id in [0, 4] {
            connection.run(id);
        }
        connection.room.set(200);
        connection.run(8);
        assert!(!connection.answers.contains_key(&8));
    }
}
