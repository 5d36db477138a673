//! Threads for computations that would block a core. Each computation yields at every tick, so that all make
//! progress.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

/// The nice value: cores have priority over these threads.
const NICENESS: i32 = 10;

/// Runs a computation in one of the threads. `None`: no thread can be started, and the computation is
/// dropped.
pub fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Option<JoinHandle<T>> {
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
            // For this thread only. If it is not permitted, the threads have the priority of the cores.
            let _ = rustix::process::setpriority_process(None, NICENESS);
        })
        .enable_all()
        .build()
}
