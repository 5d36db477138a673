//! Returns memory to the system after a burst of connections.
//!
//! The allocator keeps freed memory for its thread, and returns it when the thread allocates again. A core
//! whose connections have become idle or ended allocates little, so it requests the return.

use crate::core::clock::CoreClock;
use crate::core::deadline::Deadlines;

/// How often memory is returned, in seconds.
const PERIOD_S: i64 = 10;
/// Fewer released connections do not matter.
const LEAST_RELEASED: usize = 64;

/// Returns memory in every tenth second in which many connections have released theirs. Called in every new
/// second.
pub fn release_after_burst(clock: &CoreClock, deadlines: &Deadlines) {
    let is_time = clock.second().unix_seconds % PERIOD_S == 0;
    if is_time && deadlines.take_released() >= LEAST_RELEASED {
        release_unused();
    }
}

/// Returns the memory that this thread has freed and does not need.
fn release_unused() {
    // SAFETY: the function takes no pointer, and may be called by every thread at any time. It changes only
    // what the allocator knows of freed memory.
    unsafe { libmimalloc_sys::mi_collect(false) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_in_use_stays_as_it_is() {
        let kept: Vec<Box<[u8]>> = (0..1000_u32).map(|byte| vec![byte as u8; 4096].into()).collect();
        drop((0..1000).map(|_| vec![1_u8; 4096]).collect::<Vec<_>>());
        release_unused();
        assert!(kept.iter().zip(0_u32..).all(|(bytes, byte)| bytes.iter().all(|found| *found == byte as u8)));
    }
}
