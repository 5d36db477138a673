//! Threads for computations that would hold up a core. Each computation yields at every tick, so all that are
//! under way advance.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

/// The threads give way to those of the cores.
const NICENESS: i32 = 10;

/// Goes on with a computation in one of the threads; `None` if there can be none, with the computation lost.
pub fn go_on<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Option<JoinHandle<T>> {
    static THREADS: OnceLock<Option<Runtime>> = OnceLock::new();
    let threads = THREADS.get_or_init(|| start().ok()).as_ref()?;
    Some(threads.spawn(work))
}

fn start() -> std::io::Result<Runtime> {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    Builder::new_multi_thread()
        .worker_threads(count)
        .thread_name("wasm")
        .on_thread_start(|| {
            // Of this thread alone. Without the right to it, the threads share evenly with the cores.
            let _ = rustix::process::setpriority_process(None, NICENESS);
        })
        .enable_all()
        .build()
}
