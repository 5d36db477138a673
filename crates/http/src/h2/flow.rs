//! Flow control: how much each side may still send (RFC 9113 sections 5.2 and 6.9).

use super::settings::MAX_WINDOW_BYTES;

/// A window became larger than 2^31-1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WindowOverflow;

/// How much this side may send, on a stream or on the connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SendWindow {
    /// Negative after the peer made its initial window smaller (section 6.9.2).
    available: i32,
}

impl SendWindow {
    /// A window of `bytes`, at most 2^31-1.
    #[inline]
    pub(crate) fn new(bytes: u32) -> SendWindow {
        SendWindow { available: bytes.min(MAX_WINDOW_BYTES) as i32 }
    }

    /// How many bytes may be sent now.
    #[inline]
    pub(crate) fn available(self) -> usize {
        self.available.max(0) as usize
    }

    /// Subtracts `bytes` that were sent, at most those available.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.available());
        self.available -= bytes as i32;
    }

    /// Applies a `WINDOW_UPDATE`.
    pub(crate) fn open(&mut self, bytes: u32) -> Result<(), WindowOverflow> {
        self.adjust(i64::from(bytes))
    }

    /// Applies a change of the initial window, which may make the window smaller.
    pub(crate) fn adjust(&mut self, difference: i64) -> Result<(), WindowOverflow> {
        let available = i64::from(self.available) + difference;
        if available > i64::from(MAX_WINDOW_BYTES) {
            return Err(WindowOverflow);
        }
        // The initial window is at most 2^31-1 and at least 0, so this is never less than -(2^31-1).
        self.available = available as i32;
        Ok(())
    }
}

/// How much the peer may send, on a stream or on the connection, and how many of the received bytes were not
/// released to it yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReceiveWindow {
    /// Bytes that the peer may still send.
    available: u32,
    /// Bytes that were consumed, but not released yet.
    consumed: u32,
    /// Bytes that were received, but not consumed yet.
    unconsumed: u32,
}

impl ReceiveWindow {
    #[inline]
    pub(crate) fn new(bytes: u32) -> ReceiveWindow {
        ReceiveWindow { available: bytes, consumed: 0, unconsumed: 0 }
    }

    /// Counts `bytes` that were received. Returns false if the peer was not allowed to send that many.
    #[inline]
    #[must_use]
    pub(crate) fn receive(&mut self, bytes: u32) -> bool {
        let allowed = bytes <= self.available;
        if allowed {
            self.available -= bytes;
            self.unconsumed += bytes;
        }
        allowed
    }

    /// Bytes that the peer may still send.
    #[inline]
    pub(crate) fn available(&self) -> u32 {
        self.available
    }

    /// Bytes that were received and not consumed.
    #[inline]
    pub(crate) fn unconsumed(&self) -> u32 {
        self.unconsumed
    }

    /// Counts `bytes` as consumed, at most those that were received. Returns the increment for a
    /// `WINDOW_UPDATE` once it is at least half of `target`, the intended window.
    #[inline]
    pub(crate) fn consume(&mut self, bytes: u32, target: u32) -> Option<u32> {
        let bytes = bytes.min(self.unconsumed);
        self.unconsumed -= bytes;
        self.consumed += bytes;
        if self.consumed == 0 || self.consumed < target / 2 {
            return None;
        }
        let increment = self.consumed;
        self.available += increment;
        self.consumed = 0;
        Some(increment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_send_window_can_be_negative_but_not_too_large() {
        let mut window = SendWindow::new(100);
        window.sent(80);
        window.adjust(-50).unwrap();
        assert_eq!(window.available(), 0);
        window.open(31).unwrap();
        assert_eq!(window.available(), 1);
        assert_eq!(window.open(MAX_WINDOW_BYTES), Err(WindowOverflow));
        assert_eq!(window.available(), 1);
        window.open(MAX_WINDOW_BYTES - 1).unwrap();
        assert_eq!(window.available(), MAX_WINDOW_BYTES as usize);
        let mut lowest = SendWindow::new(MAX_WINDOW_BYTES);
        lowest.sent(MAX_WINDOW_BYTES as usize);
        lowest.adjust(-i64::from(MAX_WINDOW_BYTES)).unwrap();
        assert_eq!(lowest.available(), 0);
        lowest.adjust(i64::from(MAX_WINDOW_BYTES)).unwrap();
        assert_eq!(lowest, SendWindow::new(0));
    }

    #[test]
    fn a_receive_window_is_released_by_halves() {
        let mut window = ReceiveWindow::new(100);
        assert!(window.receive(100));
        assert!(!window.receive(1));
        assert_eq!(window.consume(49, 100), None);
        assert_eq!(window.consume(1, 100), Some(50));
        assert!(!window.receive(51));
        assert!(window.receive(50));
        // A call cannot consume more bytes than were received.
        assert_eq!(window.consume(u32::MAX, 100), Some(100));
        assert_eq!(window.consume(1, 100), None);
        // A window of one byte, and one of no bytes.
        let mut window = ReceiveWindow::new(1);
        assert!(window.receive(1));
        assert_eq!(window.consume(1, 1), Some(1));
        assert_eq!(window.consume(0, 0), None);
    }

    proptest! {
        /// Every byte is in one of three places, and no byte is released that was not received.
        #[test]
        fn no_byte_is_lost_or_made(
            target in 0u32..1000,
            steps in proptest::collection::vec((any::<bool>(), 0u32..400), 0..60),
        ) {
            let mut window = ReceiveWindow::new(target);
            let mut given_back = 0u64;
            let mut received = 0u64;
            for (receives, bytes) in steps {
                if receives {
                    received += if window.receive(bytes) { u64::from(bytes) } else { 0 };
                } else if let Some(increment) = window.consume(bytes, target) {
                    given_back += u64::from(increment);
                }
                prop_assert!(given_back <= received);
                prop_assert_eq!(window.available + window.consumed + window.unconsumed, target);
            }
            if window.unconsumed > 0 {
                let rest = window.unconsumed;
                window.consume(rest, target);
            }
            // When everything was consumed, the peer always has at least half of the window.
            prop_assert!(window.available >= target.div_ceil(2));
        }
    }
}
