//! Processes that the server starts, watches and starts again: php-fpm, or any FastCGI or SCGI program.
//!
//! The server creates the listening socket and passes it to the processes. No request is lost while processes
//! end and start, because connections wait in the socket's queue. A pool exists as long as an `Arc` of it; a
//! reload with the same [`PoolSpec`] keeps the same processes. Each pool has one thread for all of this work,
//! separate from the cores that handle requests.
//!
//! | module | |
//! |---|---|
//! | `spec` | the settings |
//! | `supervisor` | the thread: starts, watches, starts again, ends |
//! | `state` | the state of a pool that requests read |
//! | `log` | the log of a pool |
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

/// All pools of a server. They stay when the configuration is reloaded.
#[derive(Default)]
pub struct Pools {
    registry: Mutex<PoolRegistry>,
    log: Mutex<Option<PoolLog>>,
}

#[derive(Default)]
struct PoolRegistry {
    pools: HashMap<PoolSpec, Weak<Pool>>,
    supervisors: Vec<(Arc<Control>, JoinHandle<()>)>,
}

/// Processes that run the same program and share one socket.
#[derive(Debug)]
pub struct Pool {
    socket: PathBuf,
    control: Arc<Control>,
    state: Arc<State>,
}

/// Ends a supervisor by closing the writing end of a pipe.
#[derive(Debug)]
struct Control {
    writer: Mutex<Option<OwnedFd>>,
}

impl Pools {
    /// Sets the log of pools that are started from now on.
    pub fn log_to(&self, log: PoolLog) {
        *lock(&self.log) = Some(log);
    }

    /// The pool with these settings: the running one, or a new one.
    ///
    /// # Errors
    /// Its socket, its files or its thread cannot be created.
    pub fn get(&self, spec: &PoolSpec) -> io::Result<Arc<Pool>> {
        let mut registry = lock(&self.registry);
        if let Some(pool) = registry.pools.get(spec).and_then(Weak::upgrade) {
            return Ok(pool);
        }
        registry.pools.retain(|_, pool| pool.strong_count() > 0);
        registry.supervisors.retain(|(_, thread)| !thread.is_finished());
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let control = Arc::new(Control { writer: Mutex::new(Some(writer)) });
        let state = Arc::new(State::default());
        let log = lock(&self.log).clone().unwrap_or_else(|| Arc::new(|_, _, _| {}));
        let supervisor = Supervisor::new(spec.clone(), reader, state.clone(), log)?;
        let socket = supervisor.socket().to_path_buf();
        let thread = std::thread::Builder::new().name("pool".to_string()).spawn(move || supervisor.run())?;
        registry.supervisors.push((control.clone(), thread));
        let pool = Arc::new(Pool { socket, control, state });
        registry.pools.insert(spec.clone(), Arc::downgrade(&pool));
        Ok(pool)
    }

    /// Ends all processes, and waits until they have ended. Called when the server ends.
    pub fn stop(&self) {
        let supervisors = std::mem::take(&mut lock(&self.registry).supervisors);
        for (control, _) in &supervisors {
            control.end();
        }
        for (_, thread) in supervisors {
            // The panic of a thread was already reported.
            let _ = thread.join();
        }
    }
}

impl Pool {
    /// The socket on which its processes listen.
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
