//! The thread that increments the epoch of the engines.
//!
//! Compiled code compares the epoch with its deadline, so a time limit needs no timer and no thread for each
//! request. The thread is parked while no instance runs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use wasmtime::Engine;

/// The length of a tick.
pub const TICK: Duration = Duration::from_millis(1);

/// Ticks without an instance after which the thread is parked.
const IDLE_TICKS: u32 = 100;

static TICKS: AtomicU64 = AtomicU64::new(0);
static IS_BUSY: AtomicBool = AtomicBool::new(false);
static IS_PARKED: AtomicBool = AtomicBool::new(false);
static THREAD: OnceLock<Thread> = OnceLock::new();
static ENGINES: Mutex<Vec<Engine>> = Mutex::new(Vec::new());

/// The number of ticks so far. It does not change while the thread is parked.
pub fn now() -> u64 {
    TICKS.load(Ordering::Relaxed)
}

/// The number of ticks in a duration, at least one.
pub fn ticks_of(time: Duration) -> u64 {
    let ticks = time.as_nanos() / TICK.as_nanos();
    u64::try_from(ticks).unwrap_or(u64::MAX).max(1)
}

/// Called when an instance runs.
pub fn note_busy() {
    if IS_BUSY.load(Ordering::Relaxed) {
        return;
    }
    // The thread accesses both flags in the opposite order, so at least one side sees the other's write.
    IS_BUSY.store(true, Ordering::SeqCst);
    if IS_PARKED.load(Ordering::SeqCst)
        && let Some(thread) = THREAD.get()
    {
        thread.unpark();
    }
}

/// Adds an engine. The first call starts the thread.
pub fn start(engine: &Engine) -> std::io::Result<()> {
    let mut engines = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
    if engines.is_empty() {
        let thread = thread::Builder::new().name("wasm-ticker".to_string()).spawn(run)?;
        let _ = THREAD.set(thread.thread().clone());
    }
    engines.push(engine.clone());
    Ok(())
}

fn run() {
    let mut idle = 0;
    loop {
        thread::sleep(TICK);
        TICKS.fetch_add(1, Ordering::Relaxed);
        ENGINES.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(Engine::increment_epoch);
        idle = if IS_BUSY.swap(false, Ordering::SeqCst) { 0 } else { idle + 1 };
        if idle < IDLE_TICKS {
            continue;
        }
        IS_PARKED.store(true, Ordering::SeqCst);
        while !IS_BUSY.load(Ordering::SeqCst) {
            thread::park();
        }
        IS_PARKED.store(false, Ordering::SeqCst);
        idle = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_converted_to_ticks() {
        assert_eq!(ticks_of(Duration::from_secs(2)), 2_000);
        assert_eq!(ticks_of(Duration::ZERO), 1);
    }
}
