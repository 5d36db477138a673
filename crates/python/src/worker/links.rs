//! The rings to and from all cores of the server.
//!
//! Answers are written without waking the core: it is woken once for all answers that were written together,
//! when the worker has nothing more to do, or after a while. Waking a core costs a system call, and tens of
//! microseconds if it sleeps.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::SendFlags;

use crate::shared::control;
use crate::shared::frame::Kind;
use crate::shared::ring::{Frame, Reader, Writer};
use crate::shared::segment::{Direction, Segment};

/// A core that has got no notice of an answer for this long is woken before the next request.
const WAKE_AFTER: Duration = Duration::from_micros(100);

/// The pause before the next check whether a full ring has room.
const ROOM_PAUSE: Duration = Duration::from_micros(100);

/// A request's link and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// The index of the link.
    pub link: usize,
    /// The number that the core has assigned to it.
    pub number: u32,
}

/// The direction to one core.
pub struct CoreSender {
    writer: Mutex<Writer>,
    wake: OwnedFd,
    files: OwnedFd,
    segment: Arc<Segment>,
    /// The time since when the core must be notified of something, in nanoseconds since the start; 0: it was
    /// notified.
    unwoken_since: AtomicU64,
    start: Instant,
}

/// The direction from one core.
struct CoreReceiver {
    reader: Reader,
    out: Arc<CoreSender>,
}

/// The rings to and from all cores.
#[derive(Default)]
pub struct Links {
    all: Vec<CoreReceiver>,
    /// The link that is read first next time, so that no core has to wait for another.
    next: usize,
}

/// A frame that was taken from a ring; its payload is in the buffer that was passed.
#[derive(Debug, Clone, Copy)]
pub struct ReceivedFrame {
    /// Its kind.
    pub kind: Kind,
    /// Its flags.
    pub flags: u8,
    /// The request that it belongs to.
    pub key: Key,
}

impl CoreSender {
    fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a frame. If the ring is full, `wait` is called until there is room; the core always makes room.
    pub fn push(&self, kind: Kind, flags: u8, number: u32, parts: &[&[u8]], wait: &mut dyn FnMut(Duration)) {
        while !self.lock().push(kind, flags, number, parts) {
            self.wake_core();
            wait(ROOM_PAUSE);
        }
        if self.unwoken_since.load(Ordering::Relaxed) == 0 {
            self.unwoken_since.store(self.now().max(1), Ordering::Relaxed);
        }
    }

    /// Counts a request of this core that was started; one thread at a time calls this.
    pub fn count_started(&self) {
        self.segment.count_started();
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Notifies the core of everything that was written.
    pub fn wake_core(&self) {
        self.unwoken_since.store(0, Ordering::Relaxed);
        if self.lock().must_wake() {
            self.wake();
        }
    }

    /// Wakes the core.
    fn wake(&self) {
        // If the counter is full, the core was woken often enough.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Whether the core has not been notified of something for this long.
    fn is_unwoken_for(&self, time: Duration) -> bool {
        let since = self.unwoken_since.load(Ordering::Relaxed);
        since != 0 && u128::from(self.now().saturating_sub(since)) >= time.as_nanos()
    }

    /// Sends the descriptor of a file, for the next [`Kind::File`].
    pub fn send_file(&self, file: impl AsFd) -> io::Result<()> {
        control::send(&self.files, b'F', &[], &[file.as_fd()], SendFlags::empty())
    }
}

impl Links {
    /// A link to one more core.
    pub fn add(&mut self, segment: Segment, wake: OwnedFd, files: OwnedFd, start: Instant) {
        let segment = Arc::new(segment);
        let writer = Mutex::new(Writer::new(segment.clone(), Direction::Answers));
        let unwoken_since = AtomicU64::new(0);
        let out =
            Arc::new(CoreSender { writer, wake, files, segment: segment.clone(), unwoken_since, start });
        self.all.push(CoreReceiver { reader: Reader::new(segment, Direction::Requests), out });
    }

    /// The next frame of any core. `buffer` gets its payload. A ring that cannot be read ends the worker.
    pub fn take(&mut self, buffer: &mut Vec<u8>) -> Option<ReceivedFrame> {
        for _ in 0..self.all.len() {
            let index = self.next;
            let Some(link) = self.all.get_mut(index) else {
                self.next = 0;
                continue;
            };
            match link.reader.next_frame() {
                Ok(Some(frame)) => return Some(link.copy(index, frame, buffer)),
                Ok(None) => self.next = (index + 1) % self.all.len(),
                Err(_) => std::process::exit(super::server::EXIT_BAD_RING),
            }
        }
        None
    }

    /// Whether there is a frame.
    pub fn has_frame(&self) -> bool {
        self.all.iter().any(|link| link.reader.has_frame())
    }

    /// The direction to a core.
    pub fn out(&self, link: usize) -> Option<Arc<CoreSender>> {
        self.all.get(link).map(|link| link.out.clone())
    }

    /// Marks the worker as sleeping. Returns false if there is a frame: then it is not marked.
    pub fn fall_asleep(&self) -> bool {
        let may_sleep = self.all.iter().all(|link| link.reader.fall_asleep());
        if !may_sleep {
            self.wake_up();
        }
        may_sleep
    }

    /// Marks the worker as awake.
    pub fn wake_up(&self) {
        self.all.iter().for_each(|link| link.reader.wake_up());
    }

    /// Notifies cores of what was written for them: all cores, or only those that were not notified for a
    /// while.
    pub fn wake_cores(&self, all: bool) {
        for link in &self.all {
            if link.out.is_unwoken_for(if all { Duration::ZERO } else { WAKE_AFTER }) {
                link.out.wake_core();
            }
        }
    }
}

impl CoreReceiver {
    fn copy(&mut self, index: usize, frame: Frame, buffer: &mut Vec<u8>) -> ReceivedFrame {
        buffer.clear();
        buffer.extend_from_slice(self.reader.payload(&frame));
        if self.reader.free_to(frame.end()) {
            self.out.wake();
        }
        ReceivedFrame { kind: frame.kind, flags: frame.flags, key: Key { link: index, number: frame.number } }
    }
}

/// Waits without doing anything in between.
pub fn sleep(time: Duration) {
    std::thread::sleep(time);
}
