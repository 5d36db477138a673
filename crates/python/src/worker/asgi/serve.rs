//! Reads the rings in the event loop, and calls the application for each request.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use super::call::{self, AsgiContext, Call, RECEIVE, SEND, Socket, State};
use super::loop_watch::{LoopWatch, WatchAction};
use super::names::Names;
use super::scope::Scopes;
use super::tasks::{Objects, RequestStart, Tasks};
use super::websocket;
use crate::api::{Api, Calls, Form, Function, Functions, Gil, NativeType, PythonException};
use crate::shared::control;
use crate::shared::frame::Kind;
use crate::shared::request::{self, EXPECTS_CONTINUE, Fields, HAS_BODY, MAY_SWITCH, WorkerRequestHead};
use crate::worker::application::Application;
use crate::worker::links::Key;
use crate::worker::monitor::{Monitor, MonitorCheck};
use crate::worker::parts::Worker;
use crate::worker::server;

/// The most frames that are read before the event loop has a turn.
const MOST_FRAMES: usize = 256;

/// The state of the event loop, besides that of requests.
struct Serve {
    context: &'static AsgiContext,
    wake_kind: NativeType<Wake>,
    tasks: Tasks,
    scopes: Mutex<Scopes>,
    monitor: OnceLock<Arc<Monitor>>,
    /// How often the event loop has read the rings.
    turns: AtomicU64,
}

static SERVE: OnceLock<Serve> = OnceLock::new();

fn serve() -> &'static Serve {
    SERVE.get().expect("objects are made after the start")
}

/// The object that the event loop calls.
struct Wake;
struct ReadRings;
struct WakeCores;
struct TakeFirstStep;
struct TakeHanded;
struct End;

impl Functions for Wake {
    fn api() -> &'static Api {
        serve().context.api
    }

    fn offset() -> usize {
        serve().wake_kind.offset()
    }
}

impl Calls<Wake> for ReadRings {
    const FORM: Form<Wake> = Form::None(|gil, _| gil.truth(serve().read_rings(gil)));
}

impl Calls<Wake> for WakeCores {
    const FORM: Form<Wake> = Form::None(|gil, _| {
        serve().context.will_wake_cores.store(false, Ordering::Relaxed);
        serve().context.worker.hub.wake_cores(true);
        Ok(gil.none())
    });
}

impl Calls<Wake> for TakeFirstStep {
    const FORM: Form<Wake> = Form::Named(|gil, _, arguments| serve().tasks.take(gil, &arguments));
}

impl Calls<Wake> for TakeHanded {
    const FORM: Form<Wake> = Form::None(|gil, _| Ok(serve().tasks.take_handed(gil)));
}

impl Calls<Wake> for End {
    const FORM: Form<Wake> = Form::Some(|gil, _, arguments| {
        let request = arguments.get(gil, 0);
        if let (Some(call), Some(error)) =
            (request.as_ref().and_then(|request| serve().context.kind.held(request)), arguments.get(gil, 1))
        {
            call.end(gil, error);
        }
        Ok(gil.none())
    });
}

static READ_RINGS: Function = Function::of::<Wake, ReadRings>(c"read_rings");
static TAKE_FIRST_STEP: Function = Function::of::<Wake, TakeFirstStep>(c"take_first_step");
static TAKE_HANDED: Function = Function::of::<Wake, TakeHanded>(c"take_handed");
static END: Function = Function::of::<Wake, End>(c"end");
static WAKE_CORES: Function = Function::of::<Wake, WakeCores>(c"wake_cores");

/// Runs the application's lifespan and the event loop, until the worker must end.
pub fn run(
    gil: Gil,
    worker: &'static Worker,
    application: &Application,
    ready: impl FnOnce(),
) -> Result<(), String> {
    let failed = |what: &str| {
        let error = gil.take_error().map(|error| application.describe(gil, &error)).unwrap_or_default();
        format!("{}: {what}\n{error}", worker.settings.app)
    };
    let set_up = |PythonException| failed("the worker cannot be set up");
    let find = |name| application.find(gil, name);
    let class = find(c"TouchstoneAsgi")?;
    let server = gil.call1(&class, &application.app).map_err(set_up)?;
    let begin = gil.attribute(&server, c"begin").map_err(set_up)?;
    let state = gil.call0(&begin).map_err(|PythonException| failed("its startup has failed"))?;
    let attribute = |name| gil.attribute(&server, name).map_err(set_up);
    let names = Names::new(gil).map_err(set_up)?;
    let dicts = [attribute(c"versions")?, attribute(c"extensions")?, attribute(c"socket_extensions")?];
    let state = (!gil.is_none(&state)).then_some(state);
    let scopes = Scopes::new(gil, &names, dicts.each_ref(), state, &worker.settings.script_name);
    let context = AsgiContext {
        api: gil.api(),
        worker,
        names,
        kind: NativeType::new(gil, c"touchstone.Request").map_err(set_up)?,
        application: application.clone(),
        create_future: attribute(c"create_future")?,
        done: attribute(c"done")?,
        call_soon: attribute(c"call_soon")?,
        wake_cores: OnceLock::new(),
        calls: Mutex::default(),
        is_reading: AtomicBool::new(false),
        will_wake_cores: AtomicBool::new(false),
    };
    let wake_kind = NativeType::new(gil, c"touchstone.Wake").map_err(set_up)?;
    let wake = wake_kind.hold(gil, Arc::new(Wake)).map_err(set_up)?;
    let bind = |function: &'static Function| function.bind(gil, &wake).map_err(set_up);
    let end = bind(&END)?;
    let objects = Objects {
        app: application.app.clone(),
        task_class: attribute(c"task_class")?,
        event_loop: attribute(c"loop")?,
        take_first_step: bind(&TAKE_FIRST_STEP)?,
        serve: gil.call1(&attribute(c"make_serve")?, &end).map_err(set_up)?,
        go_on: gil.call2(&attribute(c"make_go_on")?, &end, &bind(&TAKE_HANDED)?).map_err(set_up)?,
        keep: attribute(c"keep")?,
        as_coroutine: attribute(c"as_coroutine")?,
        coroutine_class: attribute(c"coroutine_class")?,
        cancel: attribute(c"cancel")?,
        has_items: attribute(c"has_items")?,
        enter_task: attribute(c"enter_task")?,
        leave_task: attribute(c"leave_task")?,
        register_task: attribute(c"register_task")?,
        unregister_task: attribute(c"unregister_task")?,
        count_references: attribute(c"count_references")?,
        count_weak_references: attribute(c"count_weak_references")?,
    };
    let tasks = Tasks::new(gil, objects).map_err(set_up)?;
    let serve = Serve {
        context: call::set_context(context),
        wake_kind,
        tasks,
        scopes: Mutex::new(scopes.map_err(set_up)?),
        monitor: OnceLock::new(),
        turns: AtomicU64::new(0),
    };
    let serve = SERVE.get_or_init(|| serve);
    let read_rings = bind(&READ_RINGS)?;
    let _ = serve.context.wake_cores.set(bind(&WAKE_CORES)?);
    let duty = LoopCheck { serve, watch: worker.settings.limits.answer.map(LoopWatch::new) };
    let _ = serve.monitor.set(Monitor::start(&worker.hub, duty));
    ready();
    // Frames that arrived before are read now.
    worker.hub.wake();
    let run = attribute(c"run")?;
    let descriptor = gil.number(worker.hub.descriptor().into()).map_err(set_up)?;
    gil.call2(&run, &descriptor, &read_rings)
        .map_err(|PythonException| failed("the event loop has ended"))?;
    worker.hub.wake_cores(true);
    Ok(())
}

/// The monitor's duty for an event loop.
struct LoopCheck {
    serve: &'static Serve,
    watch: Option<LoopWatch>,
}

impl MonitorCheck for LoopCheck {
    fn has_requests(&self) -> bool {
        !self.serve.context.calls().is_empty()
    }

    /// Waiting requests hold no thread, and may wait for hours.
    fn is_urgent(&self) -> bool {
        false
    }

    fn check(&mut self, _: bool) {
        let hub = &self.serve.context.worker.hub;
        hub.wake_cores(false);
        let Some(watch) = &mut self.watch else { return };
        let turns = self.serve.turns.load(Ordering::Relaxed);
        let has_requests = !self.serve.context.calls().is_empty();
        match watch.check(turns, has_requests, Instant::now()) {
            WatchAction::Nothing => {}
            WatchAction::Wake => hub.wake(),
            WatchAction::Report(time) => {
                let text = format!("has an event loop that has been blocked for {} s", time.as_secs());
                server::report(control::HUNG, text.as_bytes());
            }
        }
    }
}

impl Serve {
    /// Reads the rings. Returns whether the event loop must end.
    fn read_rings(&'static self, gil: Gil) -> bool {
        self.context.is_reading.store(true, Ordering::Relaxed);
        let hub = &self.context.worker.hub;
        hub.take_wake();
        hub.with_links(|links| links.wake_up());
        let mut payload = Vec::new();
        for count in 0.. {
            let Some(taken) = hub.with_links(|links| links.take(&mut payload)) else {
                hub.wake_cores(true);
                if hub.with_links(|links| links.fall_asleep()) {
                    break;
                }
                continue;
            };
            if taken.kind == Kind::Request {
                self.begin(gil, taken.key, &payload);
            } else {
                let call = self.context.calls().get(&taken.key).cloned();
                if let Some(call) = call {
                    call.take_frame(gil, taken.kind, taken.flags, &payload);
                }
            }
            if count >= MOST_FRAMES {
                hub.wake_cores(true);
                hub.wake();
                break;
            }
            hub.wake_cores(false);
        }
        self.context.is_reading.store(false, Ordering::Relaxed);
        self.turns.fetch_add(1, Ordering::Relaxed);
        let must_end = hub.is_quitting() && self.context.calls().is_empty();
        if must_end {
            self.tasks.end_spare(gil);
        }
        must_end
    }

    /// Called when a request has arrived.
    fn begin(&'static self, gil: Gil, key: Key, payload: &[u8]) {
        let hub = &self.context.worker.hub;
        hub.started_requests.fetch_add(1, Ordering::Relaxed);
        if let Some(monitor) = self.monitor.get() {
            monitor.kick();
        }
        let (Some((request_head, fields)), Some(out)) =
            (request::read(payload), hub.with_links(|links| links.out(key.link)))
        else {
            std::process::exit(server::EXIT_BAD_RING);
        };
        out.count_started();
        let mut state = State::new();
        state.is_head = request_head.method == b"HEAD";
        state.must_ask = request_head.flags & EXPECTS_CONTINUE != 0;
        if request_head.flags & HAS_BODY == 0 {
            state.body_end = Some(false);
        }
        state.socket = socket(&request_head, fields.clone()).map(Box::new);
        let is_websocket = state.socket.is_some();
        let name = [request_head.method, b" ", request_head.raw_path].concat();
        let id = String::from_utf8_lossy(request_head.id).into_owned();
        let call = Arc::new(Call { context: self.context, key, out, name, id, state: Mutex::new(state) });
        self.context.calls().insert(key, call.clone());
        let started = self.context.kind.hold(gil, call.clone()).and_then(|object| {
            let scope = {
                let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
                scopes.of(gil, &self.context.names, &request_head, fields, is_websocket)?
            };
            let (receive, send) = (RECEIVE.bind(gil, &object)?, SEND.bind(gil, &object)?);
            if let RequestStart::Ended(error) = self.tasks.start(gil, &object, [&scope, &receive, &send])? {
                call.end(gil, error.unwrap_or_else(|| gil.none()));
            }
            Ok(())
        });
        if started.is_err() {
            let error = gil.take_error();
            if let Some(error) = error {
                let text = self.context.application.describe(gil, &error);
                let (app, name) = (&self.context.worker.settings.app, call.name.escape_ascii());
                server::log('e', &format!("{app}: {name} cannot be called\n{text}"));
            }
            self.context.forget(key);
        }
    }
}

/// The WebSocket that a request would open (RFC 6455 section 4.2.1).
fn socket(request_head: &WorkerRequestHead<'_>, fields: Fields<'_>) -> Option<Socket> {
    if request_head.flags & MAY_SWITCH == 0 || request_head.method != b"GET" {
        return None;
    }
    let value = |wanted: &[u8]| {
        fields.clone().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value)
    };
    let is_socket = value(b"upgrade").is_some_and(|value| value.eq_ignore_ascii_case(b"websocket"));
    if !is_socket || value(b"sec-websocket-version") != Some(b"13") {
        return None;
    }
    // In HTTP/2 there is no key (RFC 8441 section 5), and nothing to accept.
    let accept = websocket::accept(value(b"sec-websocket-key").unwrap_or_default());
    Some(Socket::new(accept))
}
