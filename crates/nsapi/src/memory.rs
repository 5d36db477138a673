//! Memory for plug-ins: that of a request, which is freed as a whole, and memory that lasts.
//!
//! `MALLOC` takes memory from the pool of the thread's request, or from the heap if there is none (in Init,
//! and on the plug-in's own threads). Every piece has a header with its origin, so that `FREE` and `REALLOC`
//! work for both, on any thread, and also for memory of libc's `malloc`.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;

/// Bytes of the first block of a pool, which it keeps for the next request.
const FIRST_BLOCK_BYTES: usize = 16 * 1024;

/// The origin of a piece. It is combined with its address, so that other memory is not mistaken for a piece.
const FROM_POOL: usize = 0x706f_6f6c_5eed_0001;
const FROM_HEAP: usize = 0x6865_6170_5eed_0002;

/// The header before every piece.
#[repr(C, align(16))]
struct Header {
    size: usize,
    tag: usize,
}

const HEADER_BYTES: usize = size_of::<Header>();

/// The pool of one request, or a pool that a plug-in has made.
pub struct Pool {
    /// The next free byte of the current block, and its end.
    free: *mut u8,
    end: *mut u8,
    /// The first block, then the additional ones.
    blocks: Vec<Block>,
}

struct Block {
    begin: *mut u8,
    size: usize,
}

impl Pool {
    /// An empty pool.
    pub fn new() -> Pool {
        Pool { free: ptr::null_mut(), end: ptr::null_mut(), blocks: Vec::new() }
    }

    /// A piece of at least `size` bytes, aligned to 16; null if there is no memory.
    #[inline]
    pub fn allocate(&mut self, size: usize) -> *mut u8 {
        let Some(needed) = size.checked_add(HEADER_BYTES + 15).map(|bytes| bytes & !15) else {
            return ptr::null_mut();
        };
        if (self.end as usize) - (self.free as usize) < needed && !self.grow(needed) {
            return ptr::null_mut();
        }
        let header = self.free.cast::<Header>();
        // SAFETY: `needed` bytes from `free` on are within the current block, and `free` is a multiple of 16.
        unsafe {
            let piece = self.free.add(HEADER_BYTES);
            header.write(Header { size, tag: FROM_POOL ^ piece as usize });
            self.free = self.free.add(needed);
            piece
        }
    }

    /// A piece of zeros.
    pub fn allocate_zeroed(&mut self, size: usize) -> *mut u8 {
        let piece = self.allocate(size);
        if !piece.is_null() {
            // SAFETY: the piece has `size` bytes.
            unsafe { ptr::write_bytes(piece, 0, size) };
        }
        piece
    }

    /// A copy of `bytes`, followed by a NUL. If the bytes hold a NUL, the text ends there for C.
    #[inline]
    pub fn text(&mut self, bytes: &[u8]) -> *mut c_char {
        self.joined(&[bytes])
    }

    /// The same for several pieces, one after the other.
    #[inline]
    pub fn joined(&mut self, pieces: &[&[u8]]) -> *mut c_char {
        let length: usize = pieces.iter().map(|bytes| bytes.len()).sum();
        let begin = self.allocate(length + 1);
        if !begin.is_null() {
            let mut end = begin;
            for bytes in pieces {
                // SAFETY: there is room for the bytes of all pieces, and one more.
                unsafe {
                    ptr::copy_nonoverlapping(bytes.as_ptr(), end, bytes.len());
                    end = end.add(bytes.len());
                }
            }
            // SAFETY: as above.
            unsafe { *end = 0 };
        }
        begin.cast()
    }

    /// Frees all pieces, and keeps the first block.
    pub fn reset(&mut self) {
        for block in self.blocks.drain(1.min(self.blocks.len())..) {
            // SAFETY: each block is from malloc and is freed once.
            unsafe { libc::free(block.begin.cast()) };
        }
        match self.blocks.first() {
            Some(first) => {
                self.free = first.begin;
                self.end = first.begin.wrapping_add(first.size);
            }
            None => {
                self.free = ptr::null_mut();
                self.end = ptr::null_mut();
            }
        }
    }

    /// Adds a block with room for `needed` bytes. The rest of the current block stays unused.
    #[cold]
    fn grow(&mut self, needed: usize) -> bool {
        let size = if self.blocks.is_empty() { FIRST_BLOCK_BYTES } else { 4 * FIRST_BLOCK_BYTES }.max(needed);
        // SAFETY: malloc may be called with any size; its memory is aligned to 16.
        let begin = unsafe { libc::malloc(size) }.cast::<u8>();
        if begin.is_null() {
            return false;
        }
        self.blocks.push(Block { begin, size });
        self.free = begin;
        self.end = begin.wrapping_add(size);
        true
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for block in self.blocks.drain(..) {
            // SAFETY: each block is from malloc, and freed once.
            unsafe { libc::free(block.begin.cast()) };
        }
    }
}

// SAFETY: a pool owns its blocks and is used by one thread at a time.
unsafe impl Send for Pool {}

thread_local! {
    /// The pool of this thread's request.
    static CURRENT: Cell<*mut Pool> = const { Cell::new(ptr::null_mut()) };
}

/// Takes memory from `pool` from now on, or from the heap if `pool` is null. Returns the previous pool.
pub fn set_current_pool(pool: *mut Pool) -> *mut Pool {
    CURRENT.replace(pool)
}

/// The pool of this thread's request, or null.
pub fn current_pool() -> *mut Pool {
    CURRENT.get()
}

/// A piece from the current pool, or the heap.
#[inline]
pub fn allocate(size: usize) -> *mut u8 {
    let pool = CURRENT.get();
    if pool.is_null() {
        return allocate_for_good(size);
    }
    // SAFETY: the caller of `set_current_pool` keeps the pool alive and unused elsewhere until it is
    // replaced.
    unsafe { (*pool).allocate(size) }
}

/// A copy of `bytes` from the current pool or the heap, followed by a NUL.
#[inline]
pub fn text(bytes: &[u8]) -> *mut c_char {
    let piece = allocate(bytes.len() + 1);
    if !piece.is_null() {
        // SAFETY: the piece has room for the bytes and one more.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), piece, bytes.len());
            *piece.add(bytes.len()) = 0;
        }
    }
    piece.cast()
}

/// A piece from the heap.
pub fn allocate_for_good(size: usize) -> *mut u8 {
    let Some(all) = size.checked_add(HEADER_BYTES) else { return ptr::null_mut() };
    // SAFETY: malloc may be called with any size, its memory is aligned to 16, and has room for the header.
    unsafe {
        let begin = libc::malloc(all).cast::<u8>();
        if begin.is_null() {
            return begin;
        }
        let piece = begin.add(HEADER_BYTES);
        begin.cast::<Header>().write(Header { size, tag: FROM_HEAP ^ piece as usize });
        piece
    }
}

/// Frees a piece of any origin.
///
/// # Safety
/// `piece` must be null or come from one of the functions here or from `malloc`, and must not be used any
/// more.
pub unsafe fn free(piece: *mut u8) {
    if piece.is_null() {
        return;
    }
    match origin(piece) {
        // The memory is freed with the pool.
        Origin::Pool(_) => {}
        Origin::Heap(_) => {
            // The header is cleared, so that a second free of this piece is noticed.
            (*piece.sub(HEADER_BYTES).cast::<Header>()).tag = 0;
            libc::free(piece.sub(HEADER_BYTES).cast());
        }
        Origin::Elsewhere => libc::free(piece.cast()),
    }
}

/// A piece of another size with the bytes of this one. It has the same origin.
///
/// # Safety
/// As [`free`].
pub unsafe fn reallocate(piece: *mut u8, size: usize) -> *mut u8 {
    if piece.is_null() {
        return allocate(size);
    }
    let (old_size, new) = match origin(piece) {
        Origin::Pool(old) if old >= size => return piece,
        Origin::Pool(old) => (old, allocate(size)),
        Origin::Heap(old) => (old, allocate_for_good(size)),
        Origin::Elsewhere => return libc::realloc(piece.cast(), size).cast(),
    };
    if !new.is_null() {
        ptr::copy_nonoverlapping(piece, new, old_size.min(size));
        free(piece);
    }
    new
}

enum Origin {
    Pool(usize),
    Heap(usize),
    Elsewhere,
}

/// # Safety
/// The 16 bytes before `piece` must be readable, as for pieces of this file and of malloc.
unsafe fn origin(piece: *mut u8) -> Origin {
    if !(piece as usize).is_multiple_of(16) {
        return Origin::Elsewhere;
    }
    let header = &*piece.sub(HEADER_BYTES).cast::<Header>();
    match header.tag ^ piece as usize {
        FROM_POOL => Origin::Pool(header.size),
        FROM_HEAP => Origin::Heap(header.size),
        _ => Origin::Elsewhere,
    }
}

/// The bytes of a C text; empty if it is null.
///
/// # Safety
/// `text` must be null or end with NUL, and live as long as the result is used.
pub unsafe fn bytes<'a>(text: *const c_char) -> &'a [u8] {
    if text.is_null() { &[] } else { std::ffi::CStr::from_ptr(text).to_bytes() }
}

// ---- Functions that plug-ins call
// --------------------------------------------------------------------------------------------

fn wanted(size: c_int) -> usize {
    usize::try_from(size).unwrap_or(0)
}

pub unsafe extern "C" fn system_malloc(size: c_int) -> *mut c_void {
    allocate(wanted(size)).cast()
}

pub unsafe extern "C" fn system_calloc(size: c_int) -> *mut c_void {
    zeroed(allocate(wanted(size)), wanted(size))
}

pub unsafe extern "C" fn system_realloc(piece: *mut c_void, size: c_int) -> *mut c_void {
    reallocate(piece.cast(), wanted(size)).cast()
}

pub unsafe extern "C" fn system_free(piece: *mut c_void) {
    free(piece.cast());
}

pub unsafe extern "C" fn system_strdup(str: *const c_char) -> *mut c_char {
    if str.is_null() { ptr::null_mut() } else { text(bytes(str)) }
}

pub unsafe extern "C" fn system_malloc_perm(size: c_int) -> *mut c_void {
    allocate_for_good(wanted(size)).cast()
}

pub unsafe extern "C" fn system_calloc_perm(size: c_int) -> *mut c_void {
    zeroed(allocate_for_good(wanted(size)), wanted(size))
}

pub unsafe extern "C" fn system_realloc_perm(piece: *mut c_void, size: c_int) -> *mut c_void {
    if piece.is_null() {
        return allocate_for_good(wanted(size)).cast();
    }
    reallocate(piece.cast(), wanted(size)).cast()
}

pub unsafe extern "C" fn system_free_perm(piece: *mut c_void) {
    free(piece.cast());
}

pub unsafe extern "C" fn system_strdup_perm(str: *const c_char) -> *mut c_char {
    if str.is_null() {
        return ptr::null_mut();
    }
    let all = std::ffi::CStr::from_ptr(str).to_bytes_with_nul();
    let piece = allocate_for_good(all.len());
    if !piece.is_null() {
        ptr::copy_nonoverlapping(all.as_ptr(), piece, all.len());
    }
    piece.cast()
}

pub unsafe extern "C" fn pool_create() -> *mut c_void {
    Box::into_raw(Box::new(Pool::new())).cast()
}

pub unsafe extern "C" fn pool_destroy(pool: *mut c_void) {
    if !pool.is_null() && pool.cast() != CURRENT.get() {
        drop(Box::from_raw(pool.cast::<Pool>()));
    }
}

pub unsafe extern "C" fn pool_enabled() -> c_int {
    c_int::from(!CURRENT.get().is_null())
}

pub unsafe extern "C" fn pool_malloc(pool: *mut c_void, size: usize) -> *mut c_void {
    match pool.cast::<Pool>().as_mut() {
        Some(pool) => pool.allocate(size).cast(),
        None => allocate(size).cast(),
    }
}

pub unsafe extern "C" fn pool_free(_pool: *mut c_void, piece: *mut c_void) {
    free(piece.cast());
}

pub unsafe extern "C" fn pool_calloc(pool: *mut c_void, count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        Some(all) => zeroed(pool_malloc(pool, all).cast(), all),
        None => ptr::null_mut(),
    }
}

pub unsafe extern "C" fn pool_realloc(pool: *mut c_void, piece: *mut c_void, size: usize) -> *mut c_void {
    let before = set_current_pool(pool.cast());
    let new = reallocate(piece.cast(), size);
    set_current_pool(before);
    new.cast()
}

pub unsafe extern "C" fn pool_strdup(pool: *mut c_void, str: *const c_char) -> *mut c_char {
    if str.is_null() {
        return ptr::null_mut();
    }
    match pool.cast::<Pool>().as_mut() {
        Some(pool) => pool.text(bytes(str)),
        None => text(bytes(str)),
    }
}

/// The key of the thread's data for its pool. There is none, because the pool is not kept there.
pub unsafe extern "C" fn get_thread_malloc_key() -> c_int {
    -1
}

unsafe fn zeroed(piece: *mut u8, size: usize) -> *mut c_void {
    if !piece.is_null() {
        ptr::write_bytes(piece, 0, size);
    }
    piece.cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_apart_aligned_and_kept_through_growth() {
        let mut pool = Pool::new();
        let pieces: Vec<(*mut u8, u8, usize)> = (0..2_000usize)
            .map(|index| {
                let size = (index * 37) % 4_000;
                let piece = pool.allocate(size);
                assert_eq!(piece as usize % 16, 0);
                // SAFETY: the piece has `size` bytes.
                unsafe { ptr::write_bytes(piece, index as u8, size) };
                (piece, index as u8, size)
            })
            .collect();
        for (piece, fill, size) in pieces {
            // SAFETY: as above.
            assert!(unsafe { std::slice::from_raw_parts(piece, size) }.iter().all(|byte| *byte == fill));
        }
        pool.reset();
        assert_eq!(pool.blocks.len(), 1);
        assert!(pool.allocate(usize::MAX).is_null());
    }

    #[test]
    fn free_and_realloc_know_where_a_piece_is_from() {
        let mut pool = Pool::new();
        let before = set_current_pool(&mut pool);
        // SAFETY: all pieces are used as they may be.
        unsafe {
            let from_pool = system_strdup(c"abc".as_ptr());
            let longer = system_realloc(from_pool.cast(), 100).cast::<c_char>();
            assert_eq!(bytes(longer), b"abc");
            system_free(longer.cast());
            let for_good = system_strdup_perm(c"good".as_ptr());
            system_free(libc::malloc(10));
            let other = libc::strdup(c"libc".as_ptr());
            let other = system_realloc(other.cast(), 50).cast::<c_char>();
            assert_eq!(bytes(other), b"libc");
            system_free(other.cast());
            set_current_pool(before);
            let for_good = system_realloc(for_good.cast(), 1_000).cast::<c_char>();
            assert_eq!(bytes(for_good), b"good");
            system_free(for_good.cast());
        }
    }
}
