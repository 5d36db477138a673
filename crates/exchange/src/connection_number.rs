//! The number of a connection, by which applications distinguish it from others of the same process.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

/// The last number that was assigned.
static LAST: AtomicU64 = AtomicU64::new(0);

/// The number of one connection. It is assigned when it is first needed, because all cores share the counter.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConnectionNumber(Option<NonZeroU64>);

impl ConnectionNumber {
    /// The number, which stays the same.
    pub fn get(&mut self) -> u64 {
        self.0
            .get_or_insert_with(|| NonZeroU64::MIN.saturating_add(LAST.fetch_add(1, Ordering::Relaxed)))
            .get()
    }

    /// The same number, assigned.
    pub fn assigned(mut self) -> ConnectionNumber {
        self.get();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stays_and_no_two_connections_have_the_same() {
        let (mut one, mut other) = (ConnectionNumber::default(), ConnectionNumber::default());
        let number = one.get();
        let mut copy = one;
        assert_ne!(other.get(), number);
        assert_eq!((one.get(), copy.get()), (number, number));
    }
}
