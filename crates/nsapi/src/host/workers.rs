//! Threads on which functions may wait.
//!
//! Waking a sleeping thread costs tens of microseconds, so a worker that has just finished a job checks for
//! more for a moment before it sleeps. Threads are started when needed, up to a limit; further requests wait
//! in a queue, and when the queue is full they are refused.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a worker checks for more work before it sleeps.
const SPIN: Duration = Duration::from_micros(30);

/// How long an idle worker is kept.
const IDLE: Duration = Duration::from_secs(60);

/// Work for one thread.
pub type Job = Box<dyn FnOnce() + Send>;

/// The threads.
#[derive(Clone)]
pub struct Workers {
    pool: Arc<WorkerPool>,
}

struct WorkerPool {
    queue: Mutex<Queue>,
    wake: Condvar,
    /// How many jobs wait, readable without the lock.
    waiting: AtomicUsize,
    most_threads: usize,
    most_waiting: usize,
    stack_bytes: usize,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    /// Threads that check for work, or sleep.
    idle: usize,
    /// Threads that hang in a job that was abandoned: others are started in their place.
    hanging: isize,
}

/// The queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooBusy;

impl Workers {
    /// At most this many threads, and this many waiting jobs.
    pub fn new(most_threads: usize, most_waiting: usize, stack_bytes: usize) -> Workers {
        let pool = WorkerPool {
            queue: Mutex::default(),
            wake: Condvar::new(),
            waiting: AtomicUsize::new(0),
            most_threads: most_threads.max(1),
            most_waiting,
            stack_bytes,
        };
        Workers { pool: Arc::new(pool) }
    }

    /// Notes that a thread hangs in its job: another may be started. At most as many threads are replaced as
    /// the limit allows at first.
    pub fn note_hanging(&self) {
        self.pool.lock().hanging += 1;
        // A job may wait because no thread could be started before.
        self.pool.start_for_waiting();
    }

    /// Notes that a hanging thread has returned.
    pub fn note_returned(&self) {
        self.pool.lock().hanging -= 1;
    }

    /// The number of threads that hang.
    pub fn hanging(&self) -> usize {
        usize::try_from(self.pool.lock().hanging).unwrap_or(0)
    }

    /// Runs a job on one of the threads.
    pub fn run(&self, job: Job) -> Result<(), TooBusy> {
        let pool = &self.pool;
        let mut queue = pool.lock();
        let needs_thread = pool.needs_thread(&queue);
        if !needs_thread && queue.jobs.len() >= pool.most_waiting.saturating_add(queue.idle) {
            return Err(TooBusy);
        }
        if needs_thread {
            match pool.start_thread() {
                Ok(()) => queue.threads += 1,
                // Without any thread, the job would wait forever.
                Err(_) if queue.threads == 0 => return Err(TooBusy),
                Err(_) => {}
            }
        }
        queue.jobs.push_back(job);
        pool.waiting.store(queue.jobs.len(), Ordering::Release);
        drop(queue);
        pool.wake.notify_one();
        Ok(())
    }
}

impl WorkerPool {
    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many threads there may be now.
    fn most_now(&self, queue: &Queue) -> usize {
        self.most_threads + usize::try_from(queue.hanging).unwrap_or(0).min(self.most_threads)
    }

    fn needs_thread(&self, queue: &Queue) -> bool {
        queue.idle <= queue.jobs.len() && queue.threads < self.most_now(queue)
    }

    fn start_thread(self: &Arc<WorkerPool>) -> std::io::Result<()> {
        let for_thread = self.clone();
        let builder = std::thread::Builder::new().name("nsapi-worker".to_string());
        builder.stack_size(self.stack_bytes).spawn(move || for_thread.work()).map(|_| ())
    }

    fn start_for_waiting(self: &Arc<WorkerPool>) {
        let mut queue = self.lock();
        let is_needed = queue.idle < queue.jobs.len() && queue.threads < self.most_now(&queue);
        if is_needed && self.start_thread().is_ok() {
            queue.threads += 1;
        }
    }

    fn work(self: Arc<WorkerPool>) {
        loop {
            let Some(job) = self.next() else { return };
            job();
            let until = Instant::now() + SPIN;
            while self.waiting.load(Ordering::Acquire) == 0 && Instant::now() < until {
                std::hint::spin_loop();
            }
        }
    }

    /// The next job; `None` if the thread is not needed any more.
    fn next(&self) -> Option<Job> {
        let mut queue = self.lock();
        if queue.threads > self.most_now(&queue) {
            // A thread that was hanging has returned, but was replaced.
            queue.threads -= 1;
            return None;
        }
        queue.idle += 1;
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                queue.idle -= 1;
                self.waiting.store(queue.jobs.len(), Ordering::Release);
                return Some(job);
            }
            let (locked, timeout) =
                self.wake.wait_timeout(queue, IDLE).unwrap_or_else(PoisonError::into_inner);
            queue = locked;
            if timeout.timed_out() && queue.jobs.is_empty() {
                queue.idle -= 1;
                queue.threads -= 1;
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn jobs_run_and_what_is_beyond_the_queue_is_refused() {
        let workers = Workers::new(1, 2, 256 * 1024);
        let (started, has_started) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        workers
            .run(Box::new(move || {
                started.send(()).unwrap();
                released.recv().unwrap();
            }))
            .unwrap();
        has_started.recv().unwrap();
        let (done, is_done) = mpsc::channel();
        for number in 0..2 {
            let done = done.clone();
            workers.run(Box::new(move || done.send(number).unwrap())).unwrap();
        }
        assert_eq!(workers.run(Box::new(|| ())), Err(TooBusy));
        release.send(()).unwrap();
        assert_eq!([is_done.recv().unwrap(), is_done.recv().unwrap()], [0, 1]);
    }

    #[test]
    fn threads_that_hang_are_replaced_up_to_a_bound() {
        let workers = Workers::new(1, 2, 256 * 1024);
        let hang = || {
            let (started, has_started) = mpsc::channel();
            let (release, released) = mpsc::channel::<()>();
            workers
                .run(Box::new(move || {
                    started.send(()).unwrap();
                    let _ = released.recv();
                }))
                .unwrap();
            (has_started, release)
        };
        let (first_started, first) = hang();
        first_started.recv().unwrap();
        // The second waits until the first is abandoned.
        let (second_started, second) = hang();
        assert_eq!(second_started.try_recv(), Err(mpsc::TryRecvError::Empty));
        workers.note_hanging();
        second_started.recv().unwrap();
        workers.note_hanging();
        let (third_started, third) = hang();
        assert_eq!((workers.hanging(), third_started.try_recv()), (2, Err(mpsc::TryRecvError::Empty)));
        drop((first, second, third));
        third_started.recv().unwrap();
        workers.note_returned();
        workers.note_returned();
        let (done, is_done) = mpsc::channel();
        workers.run(Box::new(move || done.send(()).unwrap())).unwrap();
        is_done.recv().unwrap();
        assert_eq!(workers.hanging(), 0);
    }
}
