//! The work of a route's thread: takes requests, calls Java with them, and passes on the answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use crate::core_queue::CoreQueue;
use crate::flat;
use crate::head::{self, Fault, Piece};
use crate::java_call::{AnswerEnd, JavaCall};
use crate::java_runtime::{self, JavaRuntime};
use crate::jvm::AttachedThread;
use crate::pool::{Job, Pool};
use crate::server_log::log;
use crate::slab::Slab;

/// The result of a call, stored above the length of its output. `Exchange.java` has the same value.
const KIND_SHIFT: u32 = 28;
const LENGTH_MASK: i32 = (1 << KIND_SHIFT) - 1;

/// How long finished answers may wait for others, so that their core is notified of all together.
const TOGETHER: Duration = Duration::from_micros(100);

/// The number of the last request; events refer to requests by number.
static LAST_NUMBER: AtomicI32 = AtomicI32::new(0);

/// A number for a request.
pub fn next_number() -> i32 {
    LAST_NUMBER.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
}

/// The result of a call.
pub enum CallOutcome {
    /// How it has ended, and how many bytes are in the slab's output.
    Ended(AnswerEnd, usize),
    /// It continues asynchronously. Java returns the slab when it ends the request; it may have done so
    /// already.
    Pending,
    /// Its application is being started.
    Waits,
}

/// Calls Java to answer the request in a slab.
pub fn serve(java: &AttachedThread<'_>, slab: i32, length: usize) -> CallOutcome {
    let result = java.serve(slab, i32::try_from(length).unwrap_or(0)).unwrap_or(2 << KIND_SHIFT);
    let end = match result >> KIND_SHIFT {
        0 => AnswerEnd::Whole,
        1 => return CallOutcome::Pending,
        3 => AnswerEnd::Unavailable,
        4 => return CallOutcome::Waits,
        _ => AnswerEnd::Broken,
    };
    CallOutcome::Ended(end, usize::try_from(result & LENGTH_MASK).unwrap_or(0))
}

/// Reads the answer to a request; if it is invalid, the log has the reason.
pub fn read_answer<'a>(pool: &Pool, request: &[u8], end: AnswerEnd, written: &'a [u8]) -> Option<Piece<'a>> {
    if end == AnswerEnd::Unavailable {
        return None;
    }
    let refused = |fault: Fault| {
        let what = flat::description(request);
        log(0, &format!("the answer to {what} of route {} is refused: {fault}", pool.route));
    };
    head::read(written).map_err(refused).ok()
}

/// Runs a thread of the pool.
pub fn work(pool: &Arc<Pool>) {
    let runtime = java_runtime::of_process();
    let Some(machine) = runtime.machine() else { return pool.thread_has_failed() };
    let java = match machine.attach(&format!("servlet-{}", pool.route)) {
        Ok(java) => java,
        Err(message) => {
            log(0, &message);
            return pool.thread_has_failed();
        }
    };
    let mut thread = JavaThread {
        runtime,
        pool,
        java: &java,
        slab: None,
        unwoken: Vec::new(),
        since: None,
        is_running: false,
    };
    while let Some(job) = thread.next() {
        thread.run(job);
    }
    if let Some(slab) = thread.slab.take() {
        runtime.slabs().release_slab(pool.route, slab);
    }
}

struct JavaThread<'w> {
    runtime: &'static JavaRuntime,
    pool: &'w Arc<Pool>,
    java: &'w AttachedThread<'w>,
    slab: Option<Arc<Slab>>,
    /// Cores that must still be notified of answers.
    unwoken: Vec<Arc<CoreQueue>>,
    since: Option<Instant>,
    is_running: bool,
}

impl JavaThread<'_> {
    /// The next job. Cores are notified before the thread waits for one.
    fn next(&mut self) -> Option<Job> {
        if self.since.is_some_and(|since| since.elapsed() > TOGETHER) {
            self.wake_cores();
        }
        let waiting = self.pool.take_waiting(std::mem::replace(&mut self.is_running, true));
        if waiting.is_some() {
            return waiting;
        }
        self.wake_cores();
        self.pool.next()
    }

    fn wake_cores(&mut self) {
        self.unwoken.drain(..).for_each(|core| core.wake());
        self.since = None;
    }

    fn wake_core_later(&mut self, core: &Arc<CoreQueue>) {
        if !self.unwoken.iter().any(|other| Arc::ptr_eq(other, core)) {
            self.unwoken.push(core.clone());
        }
        if self.since.is_none() {
            self.since = Some(Instant::now());
            if self.pool.has_waiting() {
                // The next request may take long.
                self.pool.monitor().kick();
            }
        }
    }

    fn run(&mut self, job: Job) {
        match job {
            Job::Event(slab, number, event) => {
                if let Err(message) = self.java.event(slab, number, event as i32) {
                    log(0, &message);
                }
            }
            Job::Request(java_call, request) => self.serve(&java_call, request),
        }
    }

    fn serve(&mut self, java_call: &Arc<JavaCall>, mut request: Vec<u8>) {
        if java_call.has_no_client() {
            return java_call.finish(None, AnswerEnd::Broken, false);
        }
        let slab = match self
            .slab
            .take()
            .map_or_else(|| self.runtime.slabs().take(self.pool.route, self.java), Ok)
        {
            Ok(slab) => slab,
            Err(message) => {
                log(0, &message);
                return java_call.finish(None, AnswerEnd::Unavailable, true);
            }
        };
        let number = next_number();
        flat::set_number(&mut request, number);
        java_call.enter(slab.number, number);
        slab.set_java_call(Some(java_call.clone()));
        // SAFETY: the slab is this thread's, and Java does not read it before it is called.
        let length = unsafe { slab.input.put(&request) };
        let began = Instant::now();
        self.pool.note_wait(began.saturating_duration_since(java_call.since()));
        let (end, length) = match serve(self.java, slab.number, length) {
            CallOutcome::Ended(end, length) => (end, length),
            CallOutcome::Pending => return java_call.becomes_async(),
            CallOutcome::Waits => {
                slab.set_java_call(None);
                self.slab = Some(slab);
                java_call.wait_for_application();
                return self.pool.hold(java_call.clone(), request);
            }
        };
        // SAFETY: Java has returned, and writes to the slab only for requests that continue.
        let written = unsafe { slab.output.get(length) };
        let piece = read_answer(self.pool, &request, end, written);
        slab.set_java_call(None);
        self.pool.call_durations().note(java_call.path(), began.elapsed());
        java_call.finish_into(piece, end, false, request);
        self.slab = Some(slab);
        if let Some(core) = java_call.core() {
            self.wake_core_later(&core);
        }
    }
}
