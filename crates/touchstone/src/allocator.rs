//! The allocator of the program: mimalloc.
//!
//! The crate `mimalloc` calls mimalloc's aligned functions for every size and alignment. They are slower, and
//! they allocate more than is needed if a size of more than a kilobyte is not a power of two, which most
//! futures have. Nearly every allocation has an alignment that `mi_malloc` guarantees anyway
//! (docs/decisions/0012 has the measurements).

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys::{
    mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_realloc_aligned, mi_zalloc, mi_zalloc_aligned,
};

/// The largest alignment that `mi_malloc` guarantees, that of C's `max_align_t` (`MI_MAX_ALIGN_SIZE`).
const LARGEST_USUAL_ALIGNMENT: usize = 16;

/// mimalloc.
pub struct Allocator;

/// Whether `mi_malloc` aligns `size` bytes as needed. Like `malloc` of C, it returns memory for any object of
/// this size, so an alignment that is larger than the size is not guaranteed.
const fn is_usual(size: usize, alignment: usize) -> bool {
    alignment <= LARGEST_USUAL_ALIGNMENT && alignment <= size
}

// SAFETY: mimalloc returns null or memory of at least the size, which is not in use; `is_usual` and the
// aligned functions see to the alignment. Its functions may be called by all threads, and do not unwind. Each
// of them may free or resize what the others have returned.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, alignment) = (layout.size(), layout.align());
        // SAFETY: the alignment is a power of two, as that of every layout.
        unsafe {
            if is_usual(size, alignment) { mi_malloc(size) } else { mi_malloc_aligned(size, alignment) }
                .cast()
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, alignment) = (layout.size(), layout.align());
        // SAFETY: as above.
        unsafe {
            if is_usual(size, alignment) { mi_zalloc(size) } else { mi_zalloc_aligned(size, alignment) }
                .cast()
        }
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, _layout: Layout) {
        // SAFETY: the caller got it from this allocator and does not use it any more.
        unsafe { mi_free(memory.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (memory, alignment) = (memory.cast(), layout.align());
        // SAFETY: the caller got it from this allocator with this layout; the alignment is a power of two.
        unsafe {
            if is_usual(size, alignment) {
                mi_realloc(memory, size)
            } else {
                mi_realloc_aligned(memory, size, alignment)
            }
            .cast()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [usize; 18] =
        [1, 2, 7, 8, 9, 15, 16, 17, 24, 40, 100, 1000, 1024, 1025, 1500, 4096, 70_000, 3_000_000];
    const ALIGNMENTS: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 4096];

    /// Memory of the allocator, freed at the end.
    struct Memory(*mut u8, Layout);

    impl Memory {
        fn new(layout: Layout) -> Memory {
            // SAFETY: the size is not 0.
            let memory = unsafe { Allocator.alloc(layout) };
            assert!(!memory.is_null());
            Memory(memory, layout)
        }

        fn zeroed(layout: Layout) -> Memory {
            // SAFETY: the size is not 0.
            let memory = unsafe { Allocator.alloc_zeroed(layout) };
            assert!(!memory.is_null());
            Memory(memory, layout)
        }

        fn resize(&mut self, size: usize) {
            // SAFETY: the memory has this layout, the new size is not 0 and far below the limit.
            self.0 = unsafe { Allocator.realloc(self.0, self.1, size) };
            assert!(!self.0.is_null());
            self.1 = Layout::from_size_align(size, self.1.align()).unwrap();
        }

        fn fill(&mut self, byte: u8) {
            // SAFETY: the memory has this size, and is only borrowed here.
            unsafe { self.0.write_bytes(byte, self.1.size()) }
        }

        fn begins_with(&self, byte: u8, count: usize) -> bool {
            // SAFETY: the memory has at least this many bytes, which were written.
            unsafe { std::slice::from_raw_parts(self.0, count) }.iter().all(|found| *found == byte)
        }

        fn is_aligned(&self) -> bool {
            self.0.addr().is_multiple_of(self.1.align())
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            // SAFETY: the allocator returned it with this layout.
            unsafe { Allocator.dealloc(self.0, self.1) }
        }
    }

    #[test]
    fn memory_is_aligned_and_keeps_its_content() {
        for alignment in ALIGNMENTS {
            for size in SIZES {
                let layout = Layout::from_size_align(size, alignment).unwrap();
                // Several of each, because the first block of a page is aligned more than the others.
                let mut all: Vec<Memory> = (0..20).map(|_| Memory::new(layout)).collect();
                for (memory, byte) in all.iter_mut().zip(1..) {
                    assert!(memory.is_aligned(), "{layout:?}");
                    memory.fill(byte);
                }
                for new_size in [1, size / 2 + 1, 2 * size + 1] {
                    for (memory, byte) in all.iter_mut().zip(1..) {
                        let kept = memory.1.size().min(new_size);
                        memory.resize(new_size);
                        assert!(memory.is_aligned(), "{layout:?} with {new_size} bytes");
                        assert!(memory.begins_with(byte, kept), "{layout:?} with {new_size} bytes");
                        memory.fill(byte);
                    }
                }
                drop(all);
                let zeroed: Vec<Memory> = (0..20).map(|_| Memory::zeroed(layout)).collect();
                let are_zeros = |memory: &Memory| memory.is_aligned() && memory.begins_with(0, size);
                assert!(zeroed.iter().all(are_zeros), "{layout:?}");
            }
        }
    }

    #[test]
    fn what_cannot_be_had_is_null() {
        for alignment in [8, 64] {
            let layout = Layout::from_size_align(isize::MAX as usize - 4096, alignment).unwrap();
            // SAFETY: the size is not 0.
            assert!(unsafe { Allocator.alloc(layout) }.is_null());
        }
    }
}
