//! A queue of frames in shared memory, with one writer and one reader, in two processes.
//!
//! A frame is 16 bytes (length, kind, flags, number) and its payload, rounded up to 8 bytes. The other
//! process may write anything at any time, so each number is read once and checked; a ring with impossible
//! numbers is not used any more.
//!
//! Writing needs no system call. A reader that has read everything marks itself as sleeping, and checks once
//! more; a writer that finds a sleeping reader must wake it (by an eventfd, which is not part of the ring).

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use super::frame::Kind;
use super::segment::{Direction, Positions, Segment};

const HEADER_BYTES: usize = 16;

/// The end that writes.
pub struct Writer {
    segment: Arc<Segment>,
    direction: Direction,
    written: u64,
    /// The last value of `freed` that was read; there may be more room now.
    freed: u64,
}

/// The end that reads.
pub struct Reader {
    segment: Arc<Segment>,
    direction: Direction,
    read: u64,
    /// The last value of `written` that was read; there may be more frames now.
    written: u64,
}

/// A frame in the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Its kind.
    pub kind: Kind,
    /// Its flags.
    pub flags: u8,
    /// The request that it belongs to.
    pub number: u32,
    /// The position of the payload.
    pub at: u64,
    /// The length of the payload.
    pub length: usize,
}

/// The ring contains data that no worker or server of this version can have written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CorruptRing;

impl Frame {
    /// The position of the next frame.
    pub fn end(&self) -> u64 {
        (self.at + self.length as u64).next_multiple_of(8)
    }
}

impl Writer {
    /// The writer of one direction; there must be only one.
    pub fn new(segment: Arc<Segment>, direction: Direction) -> Writer {
        Writer { segment, direction, written: 0, freed: 0 }
    }

    fn positions(&self) -> &Positions {
        self.segment.positions(self.direction)
    }

    /// Writes a frame with a payload in parts, if there is room for it; returns whether there was. If there
    /// was none, the reader will wake the writer when there is room.
    pub fn push(&mut self, kind: Kind, flags: u8, number: u32, parts: &[&[u8]]) -> bool {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let needed = (HEADER_BYTES + length).next_multiple_of(8) as u64;
        if !self.has_room(needed) {
            self.positions().writer_waits.store(1, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            if !self.has_room(needed) {
                return false;
            }
        }
        let mut header = [0u8; HEADER_BYTES];
        header[..4].copy_from_slice(&(length as u32).to_le_bytes());
        header[4] = kind as u8;
        header[5] = flags;
        header[8..12].copy_from_slice(&number.to_le_bytes());
        let mut place = self.segment.place(self.direction, self.written);
        for part in std::iter::once(&&header[..]).chain(parts) {
            // SAFETY: there is room for all parts, which the reader does not read before `written` is stored,
            // and a whole ring is mapped from every position.
            unsafe {
                std::ptr::copy_nonoverlapping(part.as_ptr(), place.as_ptr(), part.len());
                place = place.add(part.len());
            }
        }
        self.written += needed;
        self.positions().written.store(self.written, Ordering::Release);
        true
    }

    fn has_room(&mut self, needed: u64) -> bool {
        let size = Segment::ring_bytes(self.direction) as u64;
        if self.written - self.freed + needed <= size {
            return true;
        }
        let freed = self.positions().freed.load(Ordering::Acquire);
        // An invalid number of the other process gives no room.
        if freed >= self.freed && freed <= self.written {
            self.freed = freed;
        }
        self.written - self.freed + needed <= size
    }

    /// Whether the reader sleeps and must be woken now. Called once after some frames.
    pub fn must_wake(&self) -> bool {
        fence(Ordering::SeqCst);
        let sleeps = &self.positions().reader_sleeps;
        sleeps.load(Ordering::Relaxed) != 0 && sleeps.swap(0, Ordering::SeqCst) != 0
    }
}

impl Reader {
    /// The reader of one direction; there must be only one.
    pub fn new(segment: Arc<Segment>, direction: Direction) -> Reader {
        Reader { segment, direction, read: 0, written: 0 }
    }

    fn positions(&self) -> &Positions {
        self.segment.positions(self.direction)
    }

    /// Whether there is a frame, valid or not.
    pub fn has_frame(&self) -> bool {
        self.positions().written.load(Ordering::Acquire) != self.read
    }

    /// The next frame. Its memory is not free before [`Reader::free_to`].
    ///
    /// # Errors
    /// The ring cannot be read any more.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, CorruptRing> {
        if self.read == self.written {
            self.written = self.positions().written.load(Ordering::Acquire);
            if self.read == self.written {
                return Ok(None);
            }
        }
        let there = self.written.wrapping_sub(self.read);
        if there > Segment::ring_bytes(self.direction) as u64 || there < HEADER_BYTES as u64 {
            return Err(CorruptRing);
        }
        let mut header = [0u8; HEADER_BYTES];
        header.copy_from_slice(self.bytes(self.read, HEADER_BYTES));
        let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let number = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
        let kind = Kind::of(header[4]).ok_or(CorruptRing)?;
        let frame = Frame { kind, flags: header[5], number, at: self.read + HEADER_BYTES as u64, length };
        if frame.end() - self.read > there {
            return Err(CorruptRing);
        }
        self.read = frame.end();
        Ok(Some(frame))
    }

    /// The payload of a frame that is not freed yet.
    pub fn payload(&self, frame: &Frame) -> &[u8] {
        self.bytes(frame.at, frame.length)
    }

    /// The other process may change these bytes while they are read. Code must not rely on reading the same
    /// bytes twice: data must be copied before it is checked.
    fn bytes(&self, at: u64, length: usize) -> &[u8] {
        let length = length.min(Segment::ring_bytes(self.direction));
        // SAFETY: a whole ring is mapped from every position, for as long as the segment lives.
        unsafe { std::slice::from_raw_parts(self.segment.place(self.direction, at).as_ptr(), length) }
    }

    /// Frees all frames before this position. Returns whether the writer waits for room and must be woken.
    pub fn free_to(&self, position: u64) -> bool {
        let positions = self.positions();
        positions.freed.store(position, Ordering::Release);
        fence(Ordering::SeqCst);
        positions.writer_waits.load(Ordering::Relaxed) != 0
            && positions.writer_waits.swap(0, Ordering::SeqCst) != 0
    }

    /// Marks the reader as sleeping. Returns false if there is already a frame: then it is not marked.
    pub fn fall_asleep(&self) -> bool {
        let sleeps = &self.positions().reader_sleeps;
        sleeps.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.has_frame() {
            sleeps.store(0, Ordering::SeqCst);
            return false;
        }
        true
    }

    /// Marks the reader as awake.
    pub fn wake_up(&self) {
        self.positions().reader_sleeps.store(0, Ordering::SeqCst);
    }
}

/// Reads a ring that contains these bytes.
pub fn read_anything(bytes: &[u8]) {
    let Ok(segment) = Segment::new().map(Arc::new) else { return };
    for (index, byte) in bytes.iter().enumerate().take(Segment::ring_bytes(Direction::Answers)) {
        // SAFETY: the place is mapped, and nothing else uses this memory.
        unsafe { segment.place(Direction::Answers, index as u64).write(*byte) };
    }
    segment.positions(Direction::Answers).written.store(bytes.len() as u64, Ordering::Release);
    let mut reader = Reader::new(segment, Direction::Answers);
    while let Ok(Some(frame)) = reader.next_frame() {
        assert_eq!(reader.payload(&frame).len(), frame.length);
        reader.free_to(frame.end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ring() -> (Writer, Reader, Arc<Segment>) {
        let segment = Arc::new(Segment::new().unwrap());
        let writer = Writer::new(segment.clone(), Direction::Requests);
        (writer, Reader::new(segment.clone(), Direction::Requests), segment)
    }

    #[test]
    fn a_full_ring_takes_no_more_until_some_is_freed() {
        let (mut writer, mut reader, _segment) = ring();
        let payload = vec![1u8; Segment::ring_bytes(Direction::Requests) / 2 - HEADER_BYTES];
        assert!(writer.push(Kind::Body, 0, 1, &[&payload]));
        assert!(writer.push(Kind::Body, 0, 2, &[&payload]));
        assert!(!writer.push(Kind::Body, 0, 3, &[b"x"]));
        let frame = reader.next_frame().unwrap().unwrap();
        assert_eq!((frame.number, frame.length), (1, payload.len()));
        assert!(reader.free_to(frame.end()), "the writer waits");
        assert!(!reader.free_to(frame.end()), "it is woken once");
        assert!(writer.push(Kind::Body, 0, 3, &[b"x"]));
    }

    #[test]
    fn a_sleeping_reader_is_woken_once() {
        let (mut writer, reader, _segment) = ring();
        assert!(!writer.must_wake());
        assert!(reader.fall_asleep());
        writer.push(Kind::Gone, 0, 1, &[]);
        assert!(writer.must_wake());
        assert!(!writer.must_wake());
        assert!(!reader.fall_asleep(), "there is a frame");
        assert!(!writer.must_wake());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            frames in proptest::collection::vec((0usize..70_000, any::<u8>(), any::<u32>(), 1usize..4), 1..60)
        ) {
            let (mut writer, mut reader, _segment) = ring();
            for (length, byte, number, parts) in frames {
                let payload = vec![byte; length];
                let parts: Vec<&[u8]> = payload.chunks(length.div_ceil(parts).max(1)).collect();
                prop_assert!(writer.push(Kind::Body, byte, number, &parts));
                let frame = reader.next_frame().unwrap().unwrap();
                prop_assert_eq!((frame.kind, frame.flags, frame.number), (Kind::Body, byte, number));
                prop_assert_eq!(reader.payload(&frame), &payload[..]);
                prop_assert!(reader.next_frame().unwrap().is_none());
                reader.free_to(frame.end());
            }
        }

        #[test]
        fn no_bytes_of_the_other_process_cause_a_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200), written: u64, short in 0u64..300
        ) {
            for written in [written, short] {
                let (_writer, mut reader, segment) = ring();
                for (index, byte) in bytes.iter().enumerate() {
                    // SAFETY: the place is mapped, and only this test uses it.
                    unsafe { segment.place(Direction::Requests, index as u64).write(*byte) };
                }
                segment.positions(Direction::Requests).written.store(written, Ordering::Release);
                for _ in 0..100 {
                    match reader.next_frame() {
                        Ok(Some(frame)) => prop_assert_eq!(reader.payload(&frame).len(), frame.length),
                        Ok(None) | Err(CorruptRing) => break,
                    }
                }
            }
        }
    }
}
