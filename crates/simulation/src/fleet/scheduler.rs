//! Time and tasks: all processes of a fleet in one thread. A task is a coroutine, so the product's own code
//! runs in it unchanged, and waits where it would wait; time passes only when all wait.

use std::cell::{Cell, RefCell};
use std::ptr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::broker::Broker;
use super::sent_load::SentLoad;
use crate::chance;

/// The stack of a task, of which only what is used takes memory.
const STACK_BYTES: usize = 1024 * 1024;

/// More turns than this at one moment mean that a task spins.
const MOST_TURNS_A_MOMENT: u64 = 100_000;

type Task = Coroutine<(), Instant, (), DefaultStack>;

/// Runs the tasks of all processes of a fleet, with virtual time.
pub struct Scheduler {
    now: Cell<Instant>,
    start: Instant,
    tasks: RefCell<Vec<Waiting>>,
    processes: RefCell<Vec<Process>>,
    current: Cell<usize>,
    is_ending: Cell<bool>,
    pub broker: Broker,
    pub sent_load: RefCell<SentLoad>,
}

struct Waiting {
    process: usize,
    name: String,
    task: Task,
    until: Instant,
    is_notified: bool,
}

/// A process on its own machine.
#[derive(Debug, Clone, Copy)]
pub struct Process {
    /// How far its clocks are ahead of the virtual time.
    pub monotonic_ahead_ns: u64,
    pub real_ahead_ns: i64,
    /// It is paused until then.
    pub stalled_until: Instant,
    pub is_dead: bool,
}

thread_local! {
    /// The way out of the task that runs.
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

    /// The process whose task runs, or whose message arrives.
    pub fn current(&self) -> usize {
        self.current.get()
    }

    /// Whether tasks are being removed.
    pub fn is_ending(&self) -> bool {
        self.is_ending.get()
    }

    /// Suspends the task that runs, until this moment or until a value was sent.
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

    /// Makes all tasks check for sent messages.
    pub fn notify(&self) {
        if let Ok(mut tasks) = self.tasks.try_borrow_mut() {
            tasks.iter_mut().for_each(|waiting| waiting.is_notified = true);
        }
    }

    /// A process on a new machine; returns its number.
    pub fn add_process(&self) -> usize {
        let process = Process {
            monotonic_ahead_ns: chance::between(1, 100_000_000) * 1000,
            real_ahead_ns: chance::between(0, 2_000_000_000) as i64 - 1_000_000_000,
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
            Waiting { process, name: name.to_string(), task, until: self.now.get(), is_notified: true };
        self.tasks.borrow_mut().push(waiting);
    }

    /// Kills a process: the effects of its tasks while they are removed do not reach others.
    pub fn kill(&self, number: usize) {
        chance::note(|| format!("{:?} process {number} is killed", self.age()));
        self.processes.borrow_mut()[number].is_dead = true;
        self.broker.member_dies(number);
        self.remove_tasks(|waiting| waiting.process == number);
    }

    fn remove_tasks(&self, is_removed: impl Fn(&Waiting) -> bool) {
        self.is_ending.set(true);
        loop {
            let removed = {
                let mut tasks = self.tasks.borrow_mut();
                tasks.iter().position(&is_removed).map(|place| tasks.remove(place))
            };
            // What it owns is dropped in its own stack, and may call back.
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
        chance::note(|| format!("{:?} process {number} stands still for {time:?}", self.age()));
        // A shorter stall does not end a longer one: its postponed messages would arrive after later ones.
        let process = &mut self.processes.borrow_mut()[number];
        process.stalled_until = process.stalled_until.max(self.now.get() + time);
    }

    /// Sets the clock of the day of a machine.
    pub fn set_clock(&self, number: usize, by_ns: i64) {
        chance::note(|| format!("{:?} the clock of process {number} is set by {by_ns} ns", self.age()));
        self.processes.borrow_mut()[number].real_ahead_ns += by_ns;
    }

    /// Whether a process has tasks.
    pub fn is_at_work(&self, number: usize) -> bool {
        self.tasks.borrow().iter().any(|waiting| waiting.process == number)
    }

    /// Lives until this age, or until `is_over`.
    pub fn run_until(&self, age: Duration, is_over: &dyn Fn() -> bool) {
        let end = self.start + age;
        let mut turns = 0;
        while !is_over() {
            self.deliver();
            if self.run_one() {
                turns += 1;
                assert!(turns < MOST_TURNS_A_MOMENT, "a task spins: {}", self.task_names());
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

    /// Runs a task that may run, any of them.
    fn run_one(&self) -> bool {
        let now = self.now.get();
        let mut waiting = {
            let mut tasks = self.tasks.borrow_mut();
            let processes = self.processes.borrow();
            let may_run = |waiting: &Waiting| {
                processes[waiting.process].stalled_until <= now
                    && (waiting.is_notified || waiting.until <= now)
            };
            let count = tasks.iter().filter(|waiting| may_run(waiting)).count();
            if count == 0 {
                return false;
            }
            let wanted = chance::size(count);
            let place =
                tasks.iter().enumerate().filter(|(_, waiting)| may_run(waiting)).nth(wanted).unwrap().0;
            tasks.remove(place)
        };
        waiting.is_notified = false;
        self.current.set(waiting.process);
        let turn = waiting.task.resume(());
        // Nothing that is not a task waits.
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
            // The stamp of the message is that of the receiver's clocks.
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
    /// Ends all tasks, which hold the scheduler as it holds them.
    pub fn end(&self) {
        if std::thread::panicking() {
            // A fault was found: what its tasks would do now could hide it.
            std::mem::forget(self.tasks.take());
        } else {
            self.remove_tasks(|_| true);
        }
    }
}
