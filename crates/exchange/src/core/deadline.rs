//! Deadlines of waiting connections, without a timer for each.
//!
//! A busy connection starts and stops waiting for every request. Arming and disarming a timer each time would
//! cost more than the answer, so a connection only notes its deadline, and the core checks all notes once in
//! each tick. Deadlines are therefore late by up to one tick, never early.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use touchstone_admin::connection_info::{ConnectionInfo, CoreSessions, UnderWayGuard};

use crate::core::clock::TICK;

/// One connection's note.
#[derive(Default)]
pub struct Deadline {
    /// In milliseconds of the core's clock; 0: none.
    at_ms: Cell<u64>,
    /// It waits for the next request, and nothing of it has arrived: it may be ended without harm.
    idle: Cell<bool>,
    expired: Cell<bool>,
    /// The time at which the connection is [parked](crate::core::parking), in milliseconds of the core's
    /// clock; 0: never.
    park_at_ms: Cell<u64>,
    parking: Cell<ParkingState>,
    /// No further timeout is counted for the client: one was counted, or the connection was ended to make
    /// room.
    is_timeout_counted: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    /// The state of the connection that operators see.
    pub session: ConnectionInfo,
}

/// Whether a connection is [parked](crate::core::parking).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ParkingState {
    /// It is not.
    #[default]
    Task,
    /// Its task was woken to park it.
    Due,
    /// It is.
    Parked,
}

impl AsRef<ConnectionInfo> for Deadline {
    fn as_ref(&self) -> &ConnectionInfo {
        &self.session
    }
}

impl Deadline {
    /// Begins a wait with this limit.
    #[inline]
    pub fn set(&self, now_ms: u64, limit: Duration, idle: bool) {
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        // The clock may be one tick behind; adding it keeps a deadline from coming early.
        self.at_ms.set(now_ms.saturating_add(limit_ms).saturating_add(TICK.as_millis() as u64));
        self.idle.set(idle);
        self.park_at_ms.set(0);
    }

    /// Wakes the task after so long, to [park](crate::core::parking) the connection, unless the wait has
    /// ended.
    #[inline]
    pub fn set_parking(&self, now_ms: u64, after: Duration) {
        self.park_at_ms.set(now_ms + after.as_millis() as u64);
        self.parking.set(ParkingState::Task);
    }

    /// Whether the task was woken to park the connection.
    #[inline]
    pub fn is_due_for_parking(&self) -> bool {
        self.parking.get() == ParkingState::Due
    }

    /// Called when the parked connection is served again.
    pub fn unpark(&self) {
        self.parking.set(ParkingState::Task);
    }

    /// Ends the wait.
    #[inline]
    pub fn clear(&self) {
        self.at_ms.set(0);
        self.park_at_ms.set(0);
        self.idle.set(false);
    }

    /// Ends the wait without counting it, even if its deadline has passed.
    #[inline]
    pub fn forget(&self) {
        self.clear();
        self.expired.set(false);
    }

    /// Called before another task continues with the connection. From then on that task is woken, and the
    /// time does not count as a wait.
    pub fn leave_task(&self) {
        self.clear();
        *self.waker.borrow_mut() = None;
    }

    /// True once the deadline has passed; stays so.
    #[inline]
    pub fn expired(&self) -> bool {
        self.expired.get()
    }

    /// Whether a timeout is counted: once for each connection, and not if it was ended to make room.
    pub fn claim_timeout_count(&self) -> bool {
        !self.is_timeout_counted.replace(true)
    }

    /// Sets the task to wake when the deadline passes. A task's waker is always the same, so it is stored
    /// once.
    #[inline]
    pub fn set_waker(&self, waker: &Waker) {
        if self.waker.borrow().is_none() {
            *self.waker.borrow_mut() = Some(waker.clone());
        }
    }

    fn request_parking(&self) {
        self.park_at_ms.set(0);
        self.parking.set(ParkingState::Due);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

/// All notes of one core.
#[derive(Default)]
pub struct Deadlines {
    slots: RefCell<Vec<Option<Rc<Deadline>>>>,
    free: RefCell<Vec<usize>>,
    /// How many connections have ended or released their task since [`Deadlines::take_released`].
    released: Cell<usize>,
    /// Signalled when a parked connection has expired: it has no task to wake.
    pub parked_expired: Notify,
}

/// A connection's entry among the notes; removed when it is dropped.
pub struct DeadlineGuard {
    deadline: Rc<Deadline>,
    deadlines: Rc<Deadlines>,
    slot: usize,
}

impl std::ops::Deref for DeadlineGuard {
    type Target = Deadline;

    fn deref(&self) -> &Deadline {
        &self.deadline
    }
}

/// The session of a connection, for its requests.
#[derive(Clone)]
pub struct SessionHandle(Rc<Deadline>);

impl SessionHandle {
    /// Notes a request while it is answered.
    pub fn begin_request(&self, method: &[u8], target: &[u8]) -> UnderWayGuard {
        UnderWayGuard::begin(self.0.clone(), method, target)
    }

    /// The session.
    pub fn session(&self) -> &ConnectionInfo {
        &self.0.session
    }
}

impl DeadlineGuard {
    /// Called when the connection releases its task: its wait continues without one.
    pub fn park(&self) {
        self.deadline.park_at_ms.set(0);
        self.deadline.parking.set(ParkingState::Parked);
        *self.deadline.waker.borrow_mut() = None;
        self.deadlines.note_release();
    }

    /// The connection's session, for its requests.
    pub fn session_handle(&self) -> SessionHandle {
        SessionHandle(self.deadline.clone())
    }

    /// Notes a request while it is answered.
    pub fn begin_request(&self, method: &[u8], target: &[u8]) -> UnderWayGuard {
        UnderWayGuard::begin(self.deadline.clone(), method, target)
    }
}

impl Drop for DeadlineGuard {
    fn drop(&mut self) {
        self.deadlines.slots.borrow_mut()[self.slot] = None;
        self.deadlines.free.borrow_mut().push(self.slot);
        self.deadlines.note_release();
    }
}

impl Deadlines {
    /// A note for a new connection.
    pub fn register(self: &Rc<Deadlines>) -> DeadlineGuard {
        let deadline = Rc::new(Deadline::default());
        let mut slots = self.slots.borrow_mut();
        let slot = self.free.borrow_mut().pop().unwrap_or_else(|| {
            slots.push(None);
            slots.len() - 1
        });
        slots[slot] = Some(deadline.clone());
        DeadlineGuard { deadline, deadlines: self.clone(), slot }
    }

    /// How many connections have released memory since the last call.
    pub fn take_released(&self) -> usize {
        self.released.take()
    }

    fn note_release(&self) {
        self.released.set(self.released.get() + 1);
    }

    /// Connections that have a note.
    pub fn connections(&self) -> usize {
        self.slots.borrow().len() - self.free.borrow().len()
    }

    /// Expires due deadlines; returns how many connections are in each
    /// [state](touchstone_observe::metrics::ConnectionState).
    pub fn sweep(&self, now_ms: u64) -> [u64; 4] {
        let mut states = [0; 4];
        for deadline in self.slots.borrow().iter().flatten() {
            let at_ms = deadline.at_ms.get();
            if at_ms != 0 && at_ms <= now_ms && !deadline.expired.get() {
                self.expire(deadline);
            }
            let park_at_ms = deadline.park_at_ms.get();
            if park_at_ms != 0 && park_at_ms <= now_ms {
                deadline.request_parking();
            }
            states[deadline.session.state(deadline.idle.get()) as usize] += 1;
        }
        states
    }

    /// A copy of up to `most` sessions, those with requests in progress first.
    pub fn sessions(&self, core: usize, most: usize) -> CoreSessions {
        let now = Instant::now();
        let slots = self.slots.borrow();
        let with_state =
            |busy: bool| slots.iter().flatten().filter(move |deadline| deadline.session.is_busy() == busy);
        let facts = with_state(true)
            .chain(with_state(false))
            .filter_map(|deadline| deadline.session.facts(deadline.idle.get(), now));
        CoreSessions { core, connections: self.connections(), sessions: facts.take(most).collect() }
    }

    /// Wakes every waiting connection, because something has changed for all of them.
    pub fn wake_all(&self) {
        for deadline in self.slots.borrow().iter().flatten() {
            deadline.wake();
        }
    }

    fn expire(&self, deadline: &Deadline) {
        deadline.expired.set(true);
        match deadline.parking.get() {
            ParkingState::Parked => self.parked_expired.notify_one(),
            ParkingState::Task | ParkingState::Due => deadline.wake(),
        }
    }

    /// Expires up to `most` connections that only wait for a next request; returns how many.
    pub fn expire_idle(&self, most: usize) -> usize {
        let slots = self.slots.borrow();
        let idle = slots.iter().flatten().filter(|deadline| deadline.idle.get() && !deadline.expired.get());
        let let_go = |deadline: &Rc<Deadline>| {
            deadline.is_timeout_counted.set(true);
            self.expire(deadline);
        };
        idle.take(most).map(let_go).count()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn expires_late_by_a_tick_at_most_and_never_early() {
        let deadlines = Rc::new(Deadlines::default());
        let guard = deadlines.register();
        guard.set(1000, Duration::from_millis(500), false);
        let tick = TICK.as_millis() as u64;
        deadlines.sweep(1499 + tick);
        assert!(!guard.expired());
        deadlines.sweep(1500 + tick);
        assert!(guard.expired());
    }

    #[test]
    fn a_cleared_deadline_never_expires() {
        let deadlines = Rc::new(Deadlines::default());
        let guard = deadlines.register();
        guard.set(0, Duration::from_millis(1), true);
        guard.clear();
        deadlines.sweep(u64::MAX);
        assert!(!guard.expired());
        assert_eq!(deadlines.expire_idle(9), 0);
    }

    #[test]
    fn the_task_that_continues_is_woken() {
        let count = |waker: &Arc<Woken>| waker.0.load(Ordering::Relaxed);
        let (before, after): (Arc<Woken>, Arc<Woken>) = Default::default();
        let deadlines = Rc::new(Deadlines::default());
        let guard = deadlines.register();
        guard.set_waker(&before.clone().into());
        guard.leave_task();
        guard.set_waker(&after.clone().into());
        guard.set(0, Duration::from_secs(1), true);
        assert_eq!(deadlines.expire_idle(9), 1);
        assert_eq!((count(&before), count(&after)), (0, 1));
    }

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Woken>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_long_wait_is_due_for_parking_and_others_are_not() {
        let deadlines = Rc::new(Deadlines::default());
        let guards = [(); 3].map(|()| deadlines.register());
        for guard in &guards {
            guard.set(0, Duration::from_secs(60), true);
            guard.set_parking(0, Duration::from_secs(1));
        }
        // A request arrives; another wait begins.
        guards[1].clear();
        guards[2].set(900, Duration::from_secs(60), true);
        guards[2].set_parking(900, Duration::from_secs(1));
        deadlines.sweep(999);
        assert!(guards.iter().all(|guard| !guard.is_due_for_parking()));
        deadlines.sweep(1000);
        assert_eq!(guards.each_ref().map(|guard| guard.is_due_for_parking()), [true, false, false]);
        deadlines.sweep(1900);
        assert_eq!(guards.each_ref().map(|guard| guard.is_due_for_parking()), [true, false, true]);
    }

    #[test]
    fn a_parked_connection_expires_and_is_announced() {
        let deadlines = Rc::new(Deadlines::default());
        let guard = deadlines.register();
        guard.set(0, Duration::from_secs(60), true);
        guard.set_parking(0, Duration::from_secs(1));
        deadlines.sweep(1000);
        guard.park();
        deadlines.sweep(2000);
        assert!(!guard.expired() && !guard.is_due_for_parking());
        let announced = deadlines.parked_expired.notified();
        let mut announced = std::pin::pin!(announced);
        assert!(!announced.as_mut().enable());
        assert_eq!(deadlines.expire_idle(9), 1);
        assert!(guard.expired() && announced.as_mut().enable());
    }

    #[test]
    fn slots_are_used_again() {
        let deadlines = Rc::new(Deadlines::default());
        let first = deadlines.register();
        let second = deadlines.register();
        assert_eq!(deadlines.connections(), 2);
        drop(first);
        let third = deadlines.register();
        assert_eq!(deadlines.connections(), 2);
        assert_eq!(deadlines.slots.borrow().len(), 2);
        drop((second, third));
        assert_eq!(deadlines.connections(), 0);
    }

    #[test]
    fn only_idle_connections_make_room() {
        let deadlines = Rc::new(Deadlines::default());
        let (busy, idle) = (deadlines.register(), deadlines.register());
        busy.set(0, Duration::from_secs(1), false);
        idle.set(0, Duration::from_secs(1), true);
        assert_eq!(deadlines.expire_idle(9), 1);
        assert!(idle.expired() && !busy.expired());
    }
}
