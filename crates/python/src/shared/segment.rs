//! Memory that the server and a worker both map: a page with the positions of two rings and a count of the
//! requests that the worker has started, and the rings.
//!
//! Each ring is mapped twice, one copy after the other, so that a frame that crosses the end of the ring is
//! still one piece in memory. The size of the memory is sealed: a worker that could shorten it could crash
//! the server.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// Bytes of the ring with requests.
pub const REQUEST_RING_BYTES: usize = 256 * 1024;
/// Bytes of the ring with answers.
pub const ANSWER_RING_BYTES: usize = 512 * 1024;

const PAGE_BYTES: usize = 4096;
const FILE_BYTES: usize = PAGE_BYTES + REQUEST_RING_BYTES + ANSWER_RING_BYTES;
const MAPPED_BYTES: usize = PAGE_BYTES + 2 * REQUEST_RING_BYTES + 2 * ANSWER_RING_BYTES;

/// One of the two rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the server to the worker.
    Requests,
    /// From the worker to the server.
    Answers,
}

/// The positions of a ring. They count bytes since the beginning, and only grow.
#[repr(C, align(1024))]
pub struct Positions {
    /// The position up to which it is written.
    pub written: AtomicU64,
    padding: [u64; 15],
    /// The position up to which it was read and is free again.
    pub freed: AtomicU64,
    padding_2: [u64; 15],
    /// The reader sleeps, and must be woken for the next frame.
    pub reader_sleeps: AtomicU32,
    padding_3: [u32; 31],
    /// The writer waits for room, and must be woken when there is some.
    pub writer_waits: AtomicU32,
}

/// The memory.
pub struct Segment {
    base: NonNull<u8>,
    file: OwnedFd,
}

// SAFETY: the memory belongs to the segment until it is dropped. It is only accessed through atomics, and
// through the rings' pointers, whose users access only their own ranges.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// New memory, empty.
    pub fn new() -> io::Result<Segment> {
        let file = memfd_create("touchstone-python", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, FILE_BYTES as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Segment::map(file)
    }

    /// Memory that another process has made.
    pub fn of(file: OwnedFd) -> io::Result<Segment> {
        let is_sealed = fcntl_get_seals(&file)?.contains(SealFlags::SHRINK);
        if !is_sealed || fstat(&file)?.st_size != FILE_BYTES as i64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "this is not the memory of a worker"));
        }
        Segment::map(file)
    }

    fn map(file: OwnedFd) -> io::Result<Segment> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses a range that nothing else uses.
        let base = unsafe {
            mmap_anonymous(std::ptr::null_mut(), MAPPED_BYTES, ProtFlags::empty(), MapFlags::PRIVATE)
        }?;
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let segment = Segment { base, file };
        let requests = PAGE_BYTES;
        let answers = PAGE_BYTES + REQUEST_RING_BYTES;
        let mut at = 0;
        for (offset, length) in [
            (0, PAGE_BYTES),
            (requests, REQUEST_RING_BYTES),
            (requests, REQUEST_RING_BYTES),
            (answers, ANSWER_RING_BYTES),
            (answers, ANSWER_RING_BYTES),
        ] {
            // SAFETY: the range lies in the one that was reserved above, which belongs to the segment.
            unsafe {
                let place = segment.base.as_ptr().add(at).cast::<c_void>();
                mmap(place, length, access, MapFlags::SHARED | MapFlags::FIXED, &segment.file, offset as u64)
            }?;
            at += length;
        }
        Ok(segment)
    }

    /// Its descriptor, for the other process.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The positions of a ring.
    pub fn positions(&self, direction: Direction) -> &Positions {
        let at = if direction == Direction::Requests { 0 } else { size_of::<Positions>() };
        // SAFETY: the first page holds both, and atomics may have any value.
        unsafe { self.base.add(at).cast::<Positions>().as_ref() }
    }

    /// Counts a request that the worker has started. Only the worker calls this.
    pub fn count_started(&self) {
        let counter = self.started_counter();
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// How many requests the worker has started.
    pub fn started_requests(&self) -> u64 {
        self.started_counter().load(Ordering::Relaxed)
    }

    fn started_counter(&self) -> &AtomicU64 {
        // SAFETY: the first page holds it after the positions, and an atomic may have any value.
        unsafe { self.base.add(2 * size_of::<Positions>()).cast::<AtomicU64>().as_ref() }
    }

    /// The size of a ring.
    pub fn ring_bytes(direction: Direction) -> usize {
        if direction == Direction::Requests { REQUEST_RING_BYTES } else { ANSWER_RING_BYTES }
    }

    /// The address of a position of a ring. As many bytes as the ring has are mapped from there.
    pub fn place(&self, direction: Direction, position: u64) -> NonNull<u8> {
        let size = Segment::ring_bytes(direction);
        let before = if direction == Direction::Requests { 0 } else { 2 * REQUEST_RING_BYTES };
        let within = (position % size as u64) as usize;
        // SAFETY: the sum is less than the length of the mapping.
        unsafe { self.base.add(PAGE_BYTES + before + within) }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: the range was mapped for this segment, and nothing outlives it.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), MAPPED_BYTES) };
        debug_assert!(unmapped.is_ok());
    }
}

const _: () = assert!(2 * size_of::<Positions>() + size_of::<AtomicU64>() <= PAGE_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_may_cross_the_end_of_a_ring() {
        let segment = Segment::new().unwrap();
        for direction in [Direction::Requests, Direction::Answers] {
            let size = Segment::ring_bytes(direction);
            // SAFETY: both places are mapped, and nothing else uses them.
            unsafe {
                segment.place(direction, size as u64 - 1).add(1).write(7);
                assert_eq!(segment.place(direction, 0).read(), 7);
            }
        }
    }

    #[test]
    fn other_memory_is_refused_and_the_size_stays() {
        let segment = Segment::new().unwrap();
        assert!(ftruncate(segment.file(), 0).is_err());
        assert!(Segment::of(segment.file().try_clone_to_owned().unwrap()).is_ok());
        let other = memfd_create("other", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&other, FILE_BYTES as u64).unwrap();
        assert!(Segment::of(other).is_err());
    }
}
