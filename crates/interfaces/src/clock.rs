//! The clock by which the health of origins and backends is kept: one for all of them, because routes share
//! them.

use std::sync::LazyLock;
use std::time::Instant;

/// When it was first asked.
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The present time in milliseconds; never 0, which means never.
pub fn now_ms() -> u64 {
    u64::try_from(EPOCH.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
}
