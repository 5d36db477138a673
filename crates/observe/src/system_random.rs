//! Random bytes of the kernel, for ids and for keys that end with the process.
//!
//! The generator of the TLS library measures the jitter of the processor when it is first used, for 25 ms of
//! processor time. A server without TLS starts without it.

use rustix::rand::{GetRandomFlags, getrandom};

/// The most bytes that the kernel returns in one call under all circumstances (getrandom(2)).
const MOST_BYTES: usize = 256;

/// Fills the bytes; the kernel first waits until its generator is initialised. Returns false if it has none.
pub fn fill(bytes: &mut [u8]) -> bool {
    bytes.chunks_mut(MOST_BYTES).all(|chunk| {
        let length = chunk.len();
        rustix::io::retry_on_intr(|| getrandom(&mut *chunk, GetRandomFlags::empty()))
            .is_ok_and(|filled| filled == length)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_every_length_are_filled_and_differ() {
        for length in [0, 1, 32, 256, 257, 1000] {
            let (mut one, mut other) = (vec![0; length], vec![0; length]);
            assert!(fill(&mut one) && fill(&mut other));
            assert!(length < 32 || one != other, "{length}");
            // A part that was not filled would be zero: 2^-128 by chance.
            assert!(length < 32 || one[length - 16..] != [0; 16], "{length}");
        }
    }
}
