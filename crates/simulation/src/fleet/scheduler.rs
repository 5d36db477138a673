//! A scheduler for all processes of a fleet in one thread, with virtual time. A task is a coroutine, so the
//! code of the product runs in it unchanged. Time passes only while all tasks wait.

use std::cell::{Cell, RefCell};
use std::ptr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::broker::Broker;
use super::sent_load::SentLoad;
use crate::random;

/// The stack size of a task; only the used part needs memory.
const STACK_BYTES: usize = 1024 * 1024;

/// The maximum number of turns at one time; more mean that a task does not wait.
const MOST_TURNS_A_MOMENT: u64 = 100_000;

type Task = Coroutine<(), Instant, (), DefaultStack>;

/// Runs the tasks of all processes of a fleet, with virtual time.
pub struct Scheduler {
    now: Cell<Instant>,
    start: Instant,
    tasks: RefCell<Vec<WaitingTask>>,
    processes: RefCell<Vec<Process>>,
    current: Cell<usize>,
    is_ending: Cell<bool>,
    pub broker: Broker,
    pub sent_load: RefCell<SentLoad>,
}

struct WaitingTask {
    process: usize,
    name: String,
    task: Task,
    until: Instant,
    is_notified: bool,
}

/// A process on its own machine.
#[derive(Debug, Clone, Copy)]
pub struct Process {
    /// The differences of its clocks from the virtual time.
    pub monotonic_ahead_ns: u64,
    pub real_ahead_ns: i64,
    /// The time until which it is paused.
    pub stalled_until: Instant,
    pub is_dead: bool,
}

thread_local! {
    /// The yielder of the running task.
    static YIELDER: Cell<*const Yielder<(), Instant>> = const { Cell::new(ptr::null()) };
}

impl Scheduler {
    pub fn new() -> Rc<Scheduler> {
        let start = Instant::now();
        Rc::new(Scheduler {
            now: Cell::new(start),
            start,
            tasks: RefCell::default(),
            processes: RefCell::default(),
            current: Cell::new(0),
            is_ending: Cell::new(false),
            broker: Broker::new(),
            sent_load: RefCell::default(),
        })
    }

    /// The virtual time since the start.
    pub fn age(&self) -> Duration {
        self.now.get() - self.start
    }

    pub fn now(&self) -> Instant {
        self.now.get()
    }

    /// The process of the running task, or of the message that is delivered.
    pub fn current(&self) -> usize {
        self.current.get()
    }

    /// Whether tasks are being removed.
    pub fn is_ending(&self) -> bool {
        self.is_ending.get()
    }

    /// Suspends the running task until this time or until a value is sent.
    pub fn pause(&self, until: Instant) {
        let yielder = YIELDER.get();
        if self.is_ending() || yielder.is_null() {
            return;
        }
        // SAFETY: the running task has set the pointer to the yielder on its own stack, at its start and each
        // time that it continued; only that task is running now, so the yielder is there.
        unsafe { (*yielder).suspend(until) };
        YIELDER.set(yielder);
    }

    /// Wakes all tasks, which check for sent messages.
    pub fn notify(&self) {
        if let Ok(mut tasks) = self.tasks.try_borrow_mut() {
            tasks.iter_mut().for_each(|waiting| waiting.is_notified = true);
        }
    }

    /// Adds a process on a new machine; returns its number.
    pub fn add_process(&self) -> usize {
        let process = Process {
            monotonic_ahead_ns: random::between(1, 100_000_000) * 1000,
            real_ahead_ns: random::between(0, 2_000_000_000) as i64 - 1_000_000_000,
            stalled_until: self.now.get(),
            is_dead: false,
        };
        self.processes.borrow_mut().push(process);
        self.broker.add_member();
        self.processes.borrow().len() - 1
    }

    pub fn process(&self, number: usize) -> Process {
        self.processes.borrow()[number]
    }

    /// Begins a task of a process.
    pub fn begin(&self, process: usize, name: &str, work: impl FnOnce() + 'static) {
        let stack = DefaultStack::new(STACK_BYTES).expect("there is memory for a stack");
        let task = Coroutine::with_stack(stack, move |yielder: &Yielder<(), Instant>, ()| {
            YIELDER.set(ptr::from_ref(yielder));
            work();
        });
        let waiting =
            WaitingTask { process, name: name.to_string(), task, until: self.now.get(), is_notified: true };
        self.tasks.borrow_mut().push(waiting);
    }

    /// Kills a process. The effects of its tasks while they are removed do not reach other processes.
    pub fn kill(&self, number: usize) {
        random::note(|| format!("{:?} process {number} is killed", self.age()));
        self.processes.borrow_mut()[number].is_dead = true;
        self.broker.member_dies(number);
        self.remove_tasks(|waiting| waiting.process == number);
    }

    fn remove_tasks(&self, is_removed: impl Fn(&WaitingTask) -> bool) {
        self.is_ending.set(true);
        loop {
            let removed = {
                let mut tasks = self.tasks.borrow_mut();
                tasks.iter().position(&is_removed).map(|place| tasks.remove(place))
            };
            // Its values are dropped on its own stack, and can call the scheduler.
            match removed {
                Some(waiting) => {
                    self.current.set(waiting.process);
                    drop(waiting);
                }
                None => break,
            }
        }
        self.is_ending.set(false);
    }

    /// Pauses a process.
    pub fn stall(&self, number: usize, time: Duration) {
        random::note(|| format!("{:?} process {number} is paused for {time:?}", self.age()));
        // A shorter stall does not end a longer one: its postponed messages would arrive after later ones.
        let process = &mut self.processes.borrow_mut()[number];
        process.stalled_until = process.stalled_until.max(self.now.get() + time);
    }

    /// Sets the real-time clock of a machine.
    pub fn set_clock(&self, number: usize, by_ns: i64) {
        random::note(|| format!("{:?} the clock of process {number} is set by {by_ns} ns", self.age()));
        self.processes.borrow_mut()[number].real_ahead_ns += by_ns;
    }

    /// Whether a process has tasks.
    pub fn has_tasks(&self, number: usize) -> bool {
        self.tasks.borrow().iter().any(|waiting| waiting.process == number)
    }

    /// Runs until this virtual time, or until `is_over`.
    pub fn run_until(&self, age: Duration, is_over: &dyn Fn() -> bool) {
        let end = self.start + age;
        let mut turns = 0;
        while !is_over() {
            self.deliver();
            if self.run_one() {
                turns += 1;
                assert!(turns < MOST_TURNS_A_MOMENT, "a task does not wait: {}", self.task_names());
                continue;
            }
            turns = 0;
            let next = self.next_moment().min(end);
            if next >= end {
                self.now.set(end.max(self.now.get()));
                return;
            }
            self.now.set(next.max(self.now.get() + Duration::from_nanos(1)));
        }
    }

    fn task_names(&self) -> String {
        self.tasks.borrow().iter().map(|waiting| waiting.name.clone()).collect::<Vec<_>>().join(", ")
    }

    /// Runs a random task of those that can run.
    fn run_one(&self) -> bool {
        let now = self.now.get();
        let mut waiting = {
            let mut tasks = self.tasks.borrow_mut();
            let processes = self.processes.borrow();
            let may_run = |waiting: &WaitingTask| {
                processes[waiting.process].stalled_until <= now
                    && (waiting.is_notified || waiting.until <= now)
            };
            let count = tasks.iter().filter(|waiting| may_run(waiting)).count();
            if count == 0 {
                return false;
            }
            let wanted = random::size(count);
            let place =
                tasks.iter().enumerate().filter(|(_, waiting)| may_run(waiting)).nth(wanted).unwrap().0;
            tasks.remove(place)
        };
        waiting.is_notified = false;
        self.current.set(waiting.process);
        let turn = waiting.task.resume(());
        // Only tasks wait.
        YIELDER.set(ptr::null());
        match turn {
            CoroutineResult::Yield(until) => {
                waiting.until = until;
                self.tasks.borrow_mut().push(waiting);
            }
            CoroutineResult::Return(()) => {}
        }
        true
    }

    fn deliver(&self) {
        while let Some(member) = self.broker.next_due(self.now.get()) {
            let stalled_until = self.processes.borrow()[member].stalled_until;
            if stalled_until > self.now.get() {
                self.broker.postpone(stalled_until);
                continue;
            }
            // The message gets the time of the receiver.
            self.current.set(member);
            self.broker.deliver_next();
        }
    }

    fn next_moment(&self) -> Instant {
        let processes = self.processes.borrow();
        let tasks = self.tasks.borrow();
        let of_tasks = tasks.iter().map(|waiting| {
            let stalled = processes[waiting.process].stalled_until;
            if waiting.is_notified { stalled } else { waiting.until.max(stalled) }
        });
        let far = self.now.get() + Duration::from_secs(3600);
        of_tasks.chain(self.broker.next_moment()).min().unwrap_or(far)
    }
}

impl Scheduler {
    /// Ends all tasks. The tasks and the scheduler have references to each other.
    pub fn end(&self) {
        if std::thread::panicking() {
            // A fault was found: the end of its tasks could hide it.
            std::mem::forget(self.tasks.take());
        } else {
            self.remove_tasks(|_| true);
        }
    }
}
