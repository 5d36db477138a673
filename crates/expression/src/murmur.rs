//! MurmurHash2 of 32 bits with the seed 0, by which nginx's `split_clients` divides clients.

/// The factor of the hash.
const FACTOR: u32 = 0x5bd1_e995;

/// The hash of these bytes.
pub fn hash(bytes: &[u8]) -> u32 {
    // nginx takes the low bits of longer texts, too.
    let mut hash = bytes.len() as u32;
    let mut chunks = bytes.chunks_exact(4);
    for chunk in &mut chunks {
        let mut word = u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
        word = word.wrapping_mul(FACTOR);
        word ^= word >> 24;
        word = word.wrapping_mul(FACTOR);
        hash = hash.wrapping_mul(FACTOR) ^ word;
    }
    let rest = chunks.remainder();
    if !rest.is_empty() {
        for (position, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * position);
        }
        hash = hash.wrapping_mul(FACTOR);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(FACTOR);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rule as nginx writes it, byte by byte (`src/core/ngx_murmurhash.c`).
    fn plain(bytes: &[u8]) -> u32 {
        let (mut hash, mut at) = (bytes.len() as u32, 0);
        let byte = |at: usize| u32::from(bytes[at]);
        while bytes.len() - at >= 4 {
            let mut word = byte(at) | byte(at + 1) << 8 | byte(at + 2) << 16 | byte(at + 3) << 24;
            word = word.wrapping_mul(0x5bd1_e995);
            word ^= word >> 24;
            word = word.wrapping_mul(0x5bd1_e995);
            hash = hash.wrapping_mul(0x5bd1_e995) ^ word;
            at += 4;
        }
        let left = bytes.len() - at;
        if left == 3 {
            hash ^= byte(at + 2) << 16;
        }
        if left >= 2 {
            hash ^= byte(at + 1) << 8;
        }
        if left >= 1 {
            hash = (hash ^ byte(at)).wrapping_mul(0x5bd1_e995);
        }
        hash = (hash ^ (hash >> 13)).wrapping_mul(0x5bd1_e995);
        hash ^ (hash >> 15)
    }

    #[test]
    fn known_values() {
        assert_eq!(hash(b""), 0);
        assert_eq!(hash(b"127.0.0.1AAA"), plain(b"127.0.0.1AAA"));
    }

    proptest! {
        #[test]
        fn every_text_has_the_hash_of_the_rule(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(hash(&bytes), plain(&bytes));
        }
    }
}
