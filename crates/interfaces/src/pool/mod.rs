//! Processes that the server starts, watches and starts again: php-fpm, or any FastCGI or SCGI program.
//!
//! The server makes the listening socket and hands it down, so that no request is lost while processes come
//! and go: connections wait in the socket's queue. A pool lives as long as somebody holds it; a reload with
//! the same [`PoolSpec`] goes on with the same processes. One thread a pool does all the work, off the way of
//! requests.
//!
//! | module | |
//! |---|---|
//! | `spec` | what a configuration says |
//! | `supervisor` | the thread: starts, watches, starts again, ends |
//! | `state` | what requests know of a pool |
//! | `log` | where a pool tells what happens |
//! | `child` | one process with its group and its outputs |
//! | `php_fpm` | the configuration file for php-fpm |

mod child;
mod log;
mod php_fpm;
mod spec;
mod state;
mod supervisor;

pub use log::PoolLog;
pub use php_fpm::check_setting;
pub use spec::{PoolSpec, ProcessLimits, Program, find_program};

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;

use state::State;
use supervisor::Supervisor;

/// All pools of the process. Kept from one configuration to the next.
#[derive(Default)]
pub struct Pools {
    known: Mutex<Known>,
    log: Mutex<Option<PoolLog>>,
}

/// The pools of this process: its children are its own, whatever configuration asks for them.
pub fn of_process() -> &'static Pools {
    static POOLS: std::sync::LazyLock<Pools> = std::sync::LazyLock::new(Pools::default);
    &POOLS
}

#[derive(Default)]
struct Known {
    pools: HashMap<PoolSpec, Weak<Pool>>,
    supervisors: Vec<(Arc<Control>, JoinHandle<()>)>,
}

/// Processes that do the same, behind one socket.
#[derive(Debug)]
pub struct Pool {
    socket: PathBuf,
    control: Arc<Control>,
    state: Arc<State>,
}

/// Ends a supervisor: by its other end being closed.
#[derive(Debug)]
struct Control {
    writer: Mutex<Option<OwnedFd>>,
}

impl Pools {
    /// Where pools that are started from now on tell what happens.
    pub fn log_to(&self, log: PoolLog) {
        *lock(&self.log) = Some(log);
    }

    /// The pool of this description: the one that runs, or a new one.
    ///
    /// # Errors
    /// Its socket or its files cannot be made, or there can be no thread for it.
    pub fn get(&self, spec: &PoolSpec) -> io::Result<Arc<Pool>> {
        let mut known = lock(&self.known);
        if let Some(pool) = known.pools.get(spec).and_then(Weak::upgrade) {
            return Ok(pool);
        }
        known.pools.retain(|_, pool| pool.strong_count() > 0);
        known.supervisors.retain(|(_, thread)| !thread.is_finished());
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let control = Arc::new(Control { writer: Mutex::new(Some(writer)) });
        let state = Arc::new(State::default());
        let log = lock(&self.log).clone().unwrap_or_else(|| Arc::new(|_, _, _| {}));
        let supervisor = Supervisor::new(spec.clone(), reader, state.clone(), log)?;
        let socket = supervisor.socket().to_path_buf();
        let thread = std::thread::Builder::new().name("pool".to_string()).spawn(move || supervisor.run())?;
        known.supervisors.push((control.clone(), thread));
        let pool = Arc::new(Pool { socket, control, state });
        known.pools.insert(spec.clone(), Arc::downgrade(&pool));
        Ok(pool)
    }

    /// Ends all processes, and waits until they have ended. For the end of the server.
    pub fn stop(&self) {
        let supervisors = std::mem::take(&mut lock(&self.known).supervisors);
        for (control, _) in &supervisors {
            control.end();
        }
        for (_, thread) in supervisors {
            // One that panicked has been reported by its panic.
            let _ = thread.join();
        }
    }
}

impl Pool {
    /// Where its processes listen.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Why no process runs, if none can be kept running.
    pub fn problem(&self) -> Option<String> {
        self.state.problem()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.control.end();
    }
}

impl Control {
    fn end(&self) {
        drop(lock(&self.writer).take());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
