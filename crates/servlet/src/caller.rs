//! Calls Java on the thread that has the connection. One thread writes the request to memory that it shares
//! with Java, calls Java, and sends the output of Java, without waking another thread.
//!
//! This suits short answers that are ready at once, which
//! [`CallDurations`](crate::call_durations::CallDurations) predicts. In all other cases the connection
//! returns to its core, if necessary during the call: as soon as Java sends output before the end, or the
//! [`Monitor`](crate::monitor::Monitor) finds that the call takes long. From then on the Java call is like
//! any other, and this thread is like one of the pool's until Java returns.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use touchstone_handler::answer::Answer;
use touchstone_handler::handler::{CallResult, Caller, ConnectionReturn};
use touchstone_handler::request::PlainGet;
use touchstone_http::request::FieldLine;

use crate::answers;
use crate::call_durations::PathKey;
use crate::flat::{self, HandlerFacts, Source};
use crate::head::{self, Piece};
use crate::java_call::{AnswerEnd, JavaCall};
use crate::java_runtime::{self, JavaRuntime};
use crate::java_thread::{self, CallOutcome};
use crate::jvm::AttachedThread;
use crate::monitor::{CheckResult, Checked};
use crate::pool::Pool;
use crate::route::Route;
use crate::route_state::RouteState;
use crate::server_log::log;
use crate::slab::{INPUT_BYTES, Slab};

/// A call of this duration takes long. Most garbage collections are shorter.
const LONG_CALL: Duration = Duration::from_millis(10);

/// The state of a thread's calls that the monitor reads.
#[derive(Default)]
pub struct WatchedCalls {
    /// The number of the request that Java has; 0: none.
    number: AtomicI32,
    /// That number at the last check of the monitor, and the time since when it is the same.
    last_check: Mutex<Option<(i32, Instant)>>,
    slab: Mutex<Option<Arc<Slab>>>,
}

impl WatchedCalls {
    /// Moves the other connections of the thread if a call takes long. Returns whether to check again.
    fn move_connections_if_long(&self) -> bool {
        let number = self.number.load(Ordering::Acquire);
        let mut last_check = self.last_check.lock().unwrap_or_else(PoisonError::into_inner);
        match *last_check {
            Some((before, since)) if before == number && number != 0 => {
                if since.elapsed() >= LONG_CALL {
                    let slab = self.slab.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    if let Some((slab, java_call)) =
                        slab.and_then(|slab| Some((slab.clone(), slab.java_call()?)))
                    {
                        java_call.handle_long_call(number, |length| {
                            // SAFETY: Java does not change a complete answer while the call continues, and
                            // the bytes are copied under the lock that the end of the call takes.
                            head::read(unsafe { slab.output.get(length) })
                        });
                    }
                }
                true
            }
            before => {
                *last_check = Some((number, Instant::now()));
                before.is_some_and(|(before, _)| before != number)
            }
        }
    }

    fn begin(&self, number: i32) {
        self.number.store(number, Ordering::Release);
    }

    fn end(&self) {
        self.number.store(0, Ordering::Release);
    }

    fn uses(&self, slab: &Arc<Slab>) {
        *self.slab.lock().unwrap_or_else(PoisonError::into_inner) = Some(slab.clone());
    }
}

impl Checked for WatchedCalls {
    fn check(self: Arc<Self>) -> CheckResult {
        if self.move_connections_if_long() { CheckResult::Calls } else { CheckResult::Nothing }
    }
}

/// Calls the applications of a route on one thread.
pub struct RouteCaller {
    route: Arc<Route>,
    pool: Arc<Pool>,
    connection_return: Arc<dyn ConnectionReturn>,
    runtime: &'static JavaRuntime,
    java: Rc<AttachedThread<'static>>,
    slab: Option<Arc<Slab>>,
    watched: Arc<WatchedCalls>,
    /// The request in the form for Java, and its path.
    written: Vec<u8>,
    path: PathKey,
    /// The position of the last answer's body in the slab's output.
    body: Range<usize>,
    /// The Java call of the last call, if it is not used elsewhere any more.
    spare: Option<Arc<JavaCall>>,
}

thread_local! {
    /// A thread is attached to the virtual machine once, for all routes that call on it.
    static ATTACHED: RefCell<Weak<AttachedThread<'static>>> = const { RefCell::new(Weak::new()) };
}

fn attached(runtime: &'static JavaRuntime) -> Result<Rc<AttachedThread<'static>>, String> {
    ATTACHED.with_borrow_mut(|known| {
        if let Some(java) = known.upgrade() {
            return Ok(java);
        }
        let machine = runtime.machine().ok_or("Java is not started")?;
        let name = std::thread::current().name().unwrap_or("calls").to_string();
        let java = Rc::new(machine.attach(&name)?);
        *known = Rc::downgrade(&java);
        Ok(java)
    })
}

impl RouteCaller {
    /// A caller for the applications of a route, which must be ready.
    pub fn new(
        route: Arc<Route>,
        connection_return: Arc<dyn ConnectionReturn>,
    ) -> Result<RouteCaller, String> {
        let pool = route.pool().cloned().ok_or("the applications are in another process")?;
        if route.state() != RouteState::Ready {
            return Err("the applications are not ready".to_string());
        }
        let runtime = java_runtime::of_process();
        let java = attached(runtime)?;
        let watched = Arc::new(WatchedCalls::default());
        pool.monitor().watch(&watched);
        Ok(RouteCaller {
            route,
            pool,
            connection_return,
            runtime,
            java,
            slab: None,
            watched,
            written: Vec::new(),
            path: PathKey::default(),
            body: 0..0,
            spare: None,
        })
    }

    /// A Java call for one request.
    fn java_call(&mut self) -> Arc<JavaCall> {
        let connection_return = self.connection_return.clone();
        if let Some(mut java_call) = self.spare.take()
            && let Some(spare) = Arc::get_mut(&mut java_call)
        {
            spare.become_called(self.path, connection_return);
            return java_call;
        }
        JavaCall::called(self.pool.clone(), self.path, connection_return)
    }

    /// A range of the bytes that Java has written in the last call, up to the end of the body.
    fn written(&self, range: Range<usize>) -> &[u8] {
        let Some(slab) = &self.slab else { return &[] };
        // SAFETY: the slab belongs to this thread, and Java writes to it only in the next call, which takes
        // `&mut self`.
        let written = unsafe { slab.output.get(self.body.end) };
        &written[range]
    }

    fn slab(&mut self) -> Result<Arc<Slab>, String> {
        match self.slab.take() {
            Some(slab) => Ok(slab),
            None => {
                let slab = self.runtime.slabs().take(self.pool.route, &self.java)?;
                self.watched.uses(&slab);
                Ok(slab)
            }
        }
    }
}

impl Drop for RouteCaller {
    fn drop(&mut self) {
        if let Some(slab) = self.slab.take() {
            self.runtime.slabs().release_slab(self.pool.route, slab);
        }
    }
}

impl Caller for RouteCaller {
    fn takes(&mut self, get: &PlainGet<'_>) -> bool {
        self.path = PathKey::of(get.path);
        let switches = |line: &FieldLine| line.name.of(get.buffer).eq_ignore_ascii_case(b"upgrade");
        if !self.pool.call_durations().is_quick(self.path)
            || self.route.state() != RouteState::Ready
            || get.path.contains(&b';')
            || get.head.fields.iter().any(switches)
        {
            return false;
        }
        let handler_facts = HandlerFacts { path: get.path, has_body: false, may_switch: false };
        flat::write(&mut self.written, &Source::from(get), handler_facts);
        self.written.len() <= INPUT_BYTES
    }

    fn call(&mut self, get: &PlainGet<'_>) -> CallResult {
        let slab = match self.slab() {
            Ok(slab) => slab,
            Err(message) => {
                log(0, &message);
                return CallResult::Answer(answers::unavailable());
            }
        };
        let number = java_thread::next_number();
        flat::set_number(&mut self.written, number);
        let java_call = self.java_call();
        java_call.enter(slab.number, number);
        slab.set_java_call(Some(java_call.clone()));
        // SAFETY: the slab belongs to this thread, and Java does not read it before it is called.
        let length = unsafe { slab.input.put(&self.written) };
        self.watched.begin(number);
        self.pool.note_call();
        self.pool.monitor().kick();
        let served = java_thread::serve(&self.java, slab.number, length);
        self.watched.end();
        self.pool.call_durations().note(self.path, get.received_at.elapsed());
        let (end, length) = match served {
            CallOutcome::Ended(end, length) => (end, length),
            CallOutcome::Pending => {
                java_call.becomes_async();
                return CallResult::ConnectionReturned;
            }
            CallOutcome::Waits => {
                slab.set_java_call(None);
                self.slab = Some(slab);
                java_call.wait_for_application();
                self.pool.hold(java_call, self.written.clone());
                return CallResult::ConnectionReturned;
            }
        };
        // SAFETY: Java has returned, and writes to the slab only for requests that continue.
        let written = unsafe { slab.output.get(length) };
        let piece = java_thread::read_answer(&self.pool, &self.written, end, written);
        slab.set_java_call(None);
        let is_half = end == AnswerEnd::Broken && piece.as_ref().is_some_and(|piece| piece.head.is_some());
        if is_half {
            // The core sends the bytes that were written, and breaks off.
            java_call.wait_for_application();
        }
        let called = if !java_call.end_direct_call() {
            java_call.finish(piece, end, true);
            CallResult::ConnectionReturned
        } else {
            match (end, piece) {
                (AnswerEnd::Unavailable, _) => CallResult::Answer(answers::unavailable()),
                (AnswerEnd::Whole, Some(Piece { head: Some(head), body: [] })) => {
                    CallResult::Answer(answers::complete_answer(head, Bytes::new(), false))
                }
                (AnswerEnd::Whole, Some(Piece { head: Some(head), body })) => {
                    // The body is at the end of the bytes that Java has written.
                    self.body = length - body.len()..length;
                    CallResult::Written(head.into_answer())
                }
                // No byte of the answer was sent.
                _ => CallResult::Answer(Answer::error(502)),
            }
        };
        self.slab = Some(slab);
        self.spare = Some(java_call);
        called
    }

    fn body(&self) -> &[u8] {
        self.written(self.body.clone())
    }

    fn with_head<'a>(&'a mut self, head: &'a [u8]) -> [&'a [u8]; 2] {
        let start = self.slab.as_ref().and_then(|slab| {
            // SAFETY: as in `written`, and no slice of it is borrowed. The bytes before the body were read
            // when Java returned.
            unsafe { slab.output.write_before(self.body.start, head) }
        });
        match start {
            Some(start) => [self.written(start..self.body.end), &[]],
            None => [head, self.body()],
        }
    }
}
