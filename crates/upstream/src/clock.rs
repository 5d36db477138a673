//! The clock for the health of origins and backends: one for all of them, because routes share them.

use std::sync::LazyLock;
use std::time::Instant;

/// The time of the first call.
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The present time in milliseconds; never 0, which means never.
pub fn now_ms() -> u64 {
    u64::try_from(EPOCH.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
}
