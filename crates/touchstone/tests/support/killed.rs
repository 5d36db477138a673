//! Processes of a server killed one after another while clients send requests.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::wait_until;

/// Far longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many requests are active at a time.
const CLIENTS: usize = 5;

/// Lets clients send requests until this many processes are killed. `ask` gets its own number and returns
/// whether the answer is good; `kill` kills a process for this round, if there is one. Between two of them
/// there is a good answer, however slow the machine.
pub(crate) fn kill_while_asked(
    kills: usize,
    ask: impl Fn(usize) -> bool + Sync,
    mut kill: impl FnMut(usize) -> bool,
) {
    let (stop, asked, good) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let one_client = || {
            while !stop.load(Ordering::Relaxed) {
                let is_good = ask(asked.fetch_add(1, Ordering::Relaxed));
                good.fetch_add(usize::from(is_good), Ordering::Relaxed);
            }
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(one_client)).collect();
        // However this ends, the clients do.
        let _stop = StopAtTheEnd(&stop);
        for round in 0..kills {
            let before = good.load(Ordering::Relaxed);
            wait_until(&format!("a good answer before kill {round}"), PATIENCE, || {
                good.load(Ordering::Relaxed) > before || clients.iter().any(|client| client.is_finished())
            });
            wait_until(&format!("a process for kill {round}"), PATIENCE, || kill(round));
            std::thread::sleep(Duration::from_millis(40));
        }
    });
}

struct StopAtTheEnd<'a>(&'a AtomicBool);

impl Drop for StopAtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
