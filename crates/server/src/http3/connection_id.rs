//! Connection identifiers that contain the core of a connection.
//!
//! The remainder of the first byte by the number of cores is the core's index. The client's first, random
//! choice is read in the same way, so all packets of a connection reach the same core.

use quinn::{ConnectionId, ConnectionIdGenerator};
use quinn_proto::RandomConnectionIdGenerator;

/// Long enough that an identifier cannot be guessed.
pub const LENGTH: usize = 9;

/// Makes the identifiers of one core.
pub struct CoreConnectionIds {
    random: RandomConnectionIdGenerator,
    core: u8,
    cores: u8,
}

impl CoreConnectionIds {
    /// The generator of the core with this index, of this many. More than 256 cores cannot be distinguished.
    pub fn new(core: usize, cores: usize) -> CoreConnectionIds {
        let cores = u8::try_from(cores).unwrap_or(u8::MAX).max(1);
        let core = u8::try_from(core).unwrap_or(0) % cores;
        CoreConnectionIds { random: RandomConnectionIdGenerator::new(LENGTH), core, cores }
    }

    /// The byte next to `random` whose remainder is the core.
    fn first_byte(&self, random: u8) -> u8 {
        let below = random - random % self.cores;
        // Above the last whole round, the sum could exceed 255.
        below.checked_add(self.core).unwrap_or_else(|| below - self.cores + self.core)
    }
}

impl ConnectionIdGenerator for CoreConnectionIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut bytes = [0; LENGTH];
        bytes.copy_from_slice(&self.random.generate_cid());
        bytes[0] = self.first_byte(bytes[0]);
        ConnectionId::new(&bytes)
    }

    fn cid_len(&self) -> usize {
        LENGTH
    }

    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_identifier_says_its_core() {
        for cores in [1, 2, 3, 7, 64, 255] {
            for core in [0, cores / 2, cores - 1] {
                let ids = CoreConnectionIds::new(core, cores);
                for random in 0..=255 {
                    assert_eq!(usize::from(ids.first_byte(random)) % cores, core);
                }
            }
        }
        let mut ids = CoreConnectionIds::new(2, 3);
        let (one, two) = (ids.generate_cid(), ids.generate_cid());
        assert_eq!((one.len(), one[0] % 3), (LENGTH, 2));
        assert_ne!(one, two);
    }
}
