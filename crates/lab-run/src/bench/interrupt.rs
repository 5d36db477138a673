//! Ctrl-C and the like: a run that is interrupted ends in order, keeps what it measured and stops what it
//! started.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A flag that becomes true when a signal requests the end of the process (SIGINT, SIGTERM, SIGHUP). After
/// the first call these signals no longer end the process immediately.
pub fn interrupt_on_signals() -> io::Result<Arc<AtomicBool>> {
    let interrupt = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupt))?;
    }
    Ok(interrupt)
}
