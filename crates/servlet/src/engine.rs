//! The one virtual machine of a process, and the routes that use it.
//!
//! Starting it takes most of a second, so another thread does it while the server already answers requests
//! for files. Then a thread opens and closes routes.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::class_archive::ClassArchive;
use crate::directory::{PrivateDirectory, make_directory, private_directory_in, stable_name};
use crate::java_runtime::JavaRuntime;
use crate::java_thread;
use crate::jvm::{AttachedThread, Machine, Start, find};
use crate::natives;
use crate::pool::Pool;
use crate::route::Route;
use crate::route_state::RouteState;
use crate::server_log::log;
use crate::settings::{Convert, JavaSettings, RouteSettings};

/// The stack of the thread that starts the machine, the same size as in Java's own launcher.
const START_STACK_BYTES: usize = 8 * 1024 * 1024;

/// How long the server waits for applications to stop before it ends.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// The machine and its state.
pub struct Engine {
    settings: JavaSettings,
    runtime: &'static JavaRuntime,
    /// The routes that were opened.
    routes: Mutex<Vec<Weak<Route>>>,
    tasks: Sender<Task>,
    /// The archive of classes. The thread that has started Java takes it.
    archive: Mutex<Option<ClassArchive>>,
    /// Takes the result of starting the machine. The thread that reports the result takes the sender.
    start_outcome: Mutex<Option<SyncSender<Result<(), String>>>>,
    /// The directory for files that the process needs only while it runs. It is removed at the end.
    private: PathBuf,
    /// Keeps the lock of `private`, so that the next server removes it if this process is killed; `None` in a
    /// process that ends with Java, whose parent removes it.
    _directory: Option<PrivateDirectory>,
    last_route: AtomicI32,
    is_stopping: AtomicBool,
    /// The process only runs Java, and ends with it.
    ends_with_java: bool,
}

enum Task {
    Open(Arc<Route>),
    Close(i32),
    Stop(SyncSender<()>),
}

static ENGINE: OnceLock<Engine> = OnceLock::new();
static STARTING: Mutex<()> = Mutex::new(());
/// The directory of a process that ends with Java.
static OWN_DIRECTORY: OnceLock<PathBuf> = OnceLock::new();

/// States that this process only runs Java and ends with it. Its parent removes its directory. Must be called
/// before Java is started.
pub fn end_with_java(directory: PathBuf) {
    let _ = OWN_DIRECTORY.set(directory);
}

/// Starts the machine, or returns the one that was already started. Does not wait until it has started.
pub fn start(settings: &JavaSettings) -> Result<&'static Engine, String> {
    let _guard = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(engine) = ENGINE.get() {
        if engine.settings != *settings {
            log(
                1,
                "[java] has changed: restart the server to apply the change, because Java can be \
                started only once",
            );
        }
        return Ok(engine);
    }
    let library = find::find(settings.home.as_deref())?;
    let jars = jars(settings)?;
    let archive = archive(&library, &jars, settings);
    let no_directory = |error| format!("a directory for Java cannot be created: {error}");
    let (private, directory) = match OWN_DIRECTORY.get() {
        Some(own) => (own.clone(), None),
        None => {
            let directory = PrivateDirectory::new().map_err(no_directory)?;
            (directory.path().to_path_buf(), Some(directory))
        }
    };
    let runtime = JavaRuntime::start().map_err(|error| {
        format!(
            "a thread for Java cannot be started: \
        {error}"
        )
    })?;
    let (tasks, to_do) = channel();
    let (start_outcome, started) = sync_channel(1);
    let engine = Engine {
        settings: settings.clone(),
        runtime,
        routes: Mutex::default(),
        tasks,
        archive: Mutex::new(Some(archive)),
        start_outcome: Mutex::new(Some(start_outcome)),
        private,
        _directory: directory,
        last_route: AtomicI32::new(0),
        is_stopping: AtomicBool::new(false),
        ends_with_java: OWN_DIRECTORY.get().is_some(),
    };
    let engine = ENGINE.get_or_init(|| engine);
    let no_thread = |error| format!("a thread for Java cannot be started: {error}");
    std::thread::Builder::new()
        .name("java-start".to_string())
        .stack_size(START_STACK_BYTES)
        .spawn(move || engine.report_start(engine.start_machine(&library, &jars)))
        .map_err(no_thread)?;
    std::thread::Builder::new()
        .name("java".to_string())
        .stack_size(START_STACK_BYTES)
        .spawn(move || engine.run(&started, &to_do))
        .map_err(no_thread)?;
    Ok(engine)
}

/// Stops all applications of the machine, if there are any, and waits until they have stopped.
pub fn stop() {
    let Some(engine) = ENGINE.get() else { return };
    if engine.is_stopping.swap(true, Ordering::AcqRel) {
        return;
    }
    let (done, is_done) = sync_channel(1);
    if engine.runtime.machine().is_some()
        && !engine.runtime.has_ended()
        && engine.tasks.send(Task::Stop(done)).is_ok()
        && is_done.recv_timeout(STOP_TIMEOUT).is_err()
    {
        log(1, "Java applications did not stop in time: the server ends without waiting for them");
    }
    // Files that stay are in a directory for temporary files.
    let _ = std::fs::remove_dir_all(&engine.private);
}

/// The class path: the jars of the library, then those that the configuration names.
pub fn jars(settings: &JavaSettings) -> Result<Vec<PathBuf>, String> {
    let library = match &settings.jar_directory {
        Some(library) => library.clone(),
        None => usual_library()?,
    };
    // Java finds shared classes only under the paths with which they were archived.
    let library = library.canonicalize().unwrap_or(library);
    let mut jars: Vec<PathBuf> = std::fs::read_dir(&library)
        .map_err(|error| format!("{}: {error}", library.display()))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "jar"))
        .collect();
    jars.sort();
    if !jars.iter().any(|jar| jar.ends_with(OWN_JAR)) {
        return Err(format!("{} does not contain {OWN_JAR}: run 'make java'", library.display()));
    }
    jars.extend(settings.class_path.iter().cloned());
    Ok(jars)
}

/// The archive of classes for these jars.
fn archive(libjvm: &Path, jars: &[PathBuf], settings: &JavaSettings) -> ClassArchive {
    let library = jars.first().and_then(|jar| jar.parent()).unwrap_or(Path::new("/"));
    let of_library: Vec<PathBuf> = jars.iter().filter(|jar| jar.parent() == Some(library)).cloned().collect();
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    ClassArchive::find(libjvm, library, &of_library, settings.work.as_deref(), variable)
}

const OWN_JAR: &str = "touchstone-servlet.jar";

/// The library relative to the program: `target/java` for a program that was just built,
/// `share/touchstone/java` for an installed one.
fn usual_library() -> Result<PathBuf, String> {
    let program =
        std::env::current_exe().map_err(|error| format!("the directory of the program: {error}"))?;
    let directory = program.parent().unwrap_or(Path::new("/"));
    let mut is_forbidden = false;
    for candidate in ["../java", "../../java", "../share/touchstone/java"] {
        let library = directory.join(candidate);
        match std::fs::metadata(library.join(OWN_JAR)) {
            Ok(found) if found.is_file() => return Ok(library),
            Err(error) => is_forbidden |= error.kind() == std::io::ErrorKind::PermissionDenied,
            Ok(_) => {}
        }
    }
    Err(if is_forbidden {
        // For example, the program is below /root, and the server has dropped root's rights.
        format!(
            "the user of the server has no permission to read the jars for servlets beside {}: copy them \
             elsewhere, and set 'library' of [java] to their directory",
            directory.display()
        )
    } else {
        "the jars for servlets are missing: run 'make java', or set 'library' of [java] to their \
         directory"
            .to_string()
    })
}

impl Engine {
    /// Starts the applications of a route. Does not wait until they have started.
    pub fn open(&'static self, settings: &RouteSettings) -> Arc<Route> {
        let id = self.last_route.fetch_add(1, Ordering::Relaxed) + 1;
        let pool = Pool::new(id, settings.limits(), self.runtime.monitor().clone(), java_thread::work);
        self.runtime.add_pool(&pool);
        let route = Route::here(settings.clone(), pool, Box::new(move || self.close(id)));
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        routes.retain(|route| route.strong_count() > 0);
        routes.push(Arc::downgrade(&route));
        drop(routes);
        // The receiving thread ends only with the process.
        let _ = self.tasks.send(Task::Open(route.clone()));
        route
    }

    /// Stops the applications of a route, and ends their remaining requests.
    fn close(&self, id: i32) {
        let _ = self.tasks.send(Task::Close(id));
    }

    fn run(&'static self, started: &Receiver<Result<(), String>>, to_do: &Receiver<Task>) {
        let work = self.settings.work.clone().unwrap_or_else(|| self.private.join("work"));
        let started =
            started.recv().unwrap_or_else(|_| Err("its thread has ended".to_string())).and_then(|()| {
                let machine = self.runtime.machine().ok_or("Java is not started")?;
                let java = machine.attach("java")?;
                make_directory(&work).map_err(|error| format!("{}: {error}", work.display()))?;
                java.boot(&work).map(|()| java)
            });
        let java = match started {
            Ok(java) => java,
            Err(message) => {
                log(0, &format!("requests to servlets cannot be answered: {message}"));
                return self.refuse(to_do, &message);
            }
        };
        if let Some(archive) = self.archive.lock().unwrap_or_else(PoisonError::into_inner).take() {
            archive.make_if_missing();
        }
        let mut routes: HashMap<i32, (Sender<()>, JoinHandle<()>)> = HashMap::new();
        for task in to_do {
            match task {
                Task::Open(route) => {
                    let (close, is_closed) = channel();
                    let (id, work) = (route.id, work.clone());
                    match self.route_thread(route, work, is_closed) {
                        Ok(thread) => drop(routes.insert(id, (close, thread))),
                        Err(error) => log(
                            0,
                            &format!(
                                "a thread for the applications of a route cannot \
                            be started: {error}"
                            ),
                        ),
                    }
                }
                // The route's thread closes it. This may take as long as its applications take to stop.
                Task::Close(id) => drop(routes.remove(&id)),
                Task::Stop(done) => {
                    let threads: Vec<JoinHandle<()>> =
                        routes.drain().map(|(_, (_, thread))| thread).collect();
                    threads.into_iter().for_each(|thread| drop(thread.join()));
                    self.note(java.stop());
                    let _ = done.send(());
                }
            }
        }
    }

    /// Opens a route, waits until it is to be closed, and closes it. Each route has its own thread, so that
    /// applications that take long to start or to stop do not delay others.
    fn route_thread(
        &'static self,
        route: Arc<Route>,
        work: PathBuf,
        is_closed: Receiver<()>,
    ) -> io::Result<JoinHandle<()>> {
        let builder = std::thread::Builder::new().name(format!("java-{}", route.id));
        builder.stack_size(START_STACK_BYTES).spawn(move || {
            let attached = self.runtime.machine().ok_or_else(|| "Java is not started".to_string());
            let java = match attached.and_then(|machine| machine.attach("java")) {
                Ok(java) => java,
                Err(message) => {
                    log(0, &message);
                    return route.set(RouteState::Failed);
                }
            };
            let id = route.id;
            self.open_now(&java, &route, &work);
            // The route ends when its last reference is dropped.
            drop(route);
            // Its sender is dropped when the route is to be closed.
            let _ = is_closed.recv();
            self.note(java.close(id));
            self.runtime.slabs().end_all_of(id);
        })
    }

    fn open_now(&self, java: &AttachedThread<'_>, route: &Arc<Route>, work: &Path) {
        let opened = self.directories_of(route.settings(), work).and_then(|(work, converted)| {
            java.open(route.id, &route.settings().properties(&work, converted.as_deref()))
        });
        match opened {
            Ok(()) => route.set(RouteState::Ready),
            Err(message) => {
                log(0, &format!("the applications of {} do not start: {message}", route.settings().name()));
                route.set(RouteState::Failed);
            }
        }
    }

    /// The directory for the files that Tomcat keeps for a route's applications, and the one for converted
    /// applications, if there is one. Compiled pages and stored sessions are used again as they are found.
    fn directories_of(
        &self,
        settings: &RouteSettings,
        work: &Path,
    ) -> Result<(PathBuf, Option<PathBuf>), String> {
        let name = stable_name(settings);
        if self.settings.work.is_none() {
            // The directory is below one that only this process uses, which is removed at its end.
            let work = work.join(name);
            return make_directory(&work).map_err(|error| error.to_string()).map(|()| (work, None));
        }
        let work = private_directory_in(work, &name)?;
        if settings.convert == Convert::No {
            return Ok((work, None));
        }
        let converted = work.join("converted");
        make_directory(&converted).map_err(|error| format!("{}: {error}", converted.display()))?;
        Ok((work, Some(converted)))
    }

    fn note(&self, result: Result<(), String>) {
        if let Err(message) = result {
            log(0, &message);
        }
    }

    /// Marks each route as failed, because there is no machine.
    fn refuse(&self, to_do: &Receiver<Task>, message: &str) {
        for task in to_do {
            match task {
                Task::Open(route) => {
                    log(
                        0,
                        &format!("the applications of {} do not start: {message}", route.settings().name()),
                    );
                    route.set(RouteState::Failed);
                }
                Task::Close(_) => {}
                Task::Stop(done) => {
                    let _ = done.send(());
                }
            }
        }
    }

    /// Starts the machine. If that fails, this may never return: see [`on_abort`].
    fn start_machine(&self, library: &Path, jars: &[PathBuf]) -> Result<(), String> {
        let start = Start {
            libjvm: library,
            options: self.options(jars),
            on_exit,
            on_abort,
            natives: &natives::table(),
            keeps_fault_handlers: false,
        };
        let machine = Machine::start(&start)?;
        self.runtime.set_machine(machine);
        Ok(())
    }

    /// Reports whether the machine has started. Returns false if that was reported before.
    fn report_start(&self, outcome: Result<(), String>) -> bool {
        let sender = self.start_outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
        sender.is_some_and(|sender| sender.send(outcome).is_ok())
    }

    fn options(&self, jars: &[PathBuf]) -> Vec<String> {
        let class_path: Vec<String> = jars.iter().map(|jar| jar.display().to_string()).collect();
        let mut options = vec![
            format!("-Djava.class.path={}", class_path.join(":")),
            // The server handles its signals itself.
            "-Xrs".to_string(),
            "-Djava.awt.headless=true".to_string(),
            "--enable-native-access=ALL-UNNAMED".to_string(),
        ];
        // Tomcat needs access to these packages to end threads of a stopped application, as in its own
        // catalina.sh.
        for package in ["java.lang", "java.lang.reflect", "java.io", "java.util", "java.util.concurrent"] {
            options.push(format!("--add-opens=java.base/{package}=ALL-UNNAMED"));
        }
        options.push("--add-opens=java.rmi/sun.rmi.transport=ALL-UNNAMED".to_string());
        let archive = self.archive.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(archive) = archive.as_ref().and_then(ClassArchive::path) {
            // If the machine cannot use it, it need not report that.
            options.push(format!("-XX:SharedArchiveFile={}", archive.display()));
            options.extend(["-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"].map(str::to_string));
        }
        drop(archive);
        if self.ends_with_java {
            // After any end of the process, its parent removes the files of it and its applications.
            options.push(format!("-Djava.io.tmpdir={}", self.private.join("tmp").display()));
            options.push("-XX:+PerfDisableSharedMem".to_string());
        }
        if self.settings.heap_bytes > 0 {
            options.push(format!("-Xmx{}", self.settings.heap_bytes));
        }
        options.extend(self.settings.options.iter().cloned());
        options
    }
}

/// Called when the machine is about to end the process: an application has called Runtime.exit, or the
/// machine has failed.
///
/// All of Java's threads have stopped by then and do not run again. A process that only runs applications
/// ends, and the next one replaces it. The server has its own threads and continues without Java, so this
/// thread, which belongs to the machine, never returns.
extern "C" fn on_exit(code: std::ffi::c_int) {
    on_abort();
    if let Some(engine) = ENGINE.get()
        && !engine.runtime.end()
    {
        engine.end(code);
    }
    loop {
        std::thread::park();
    }
}

/// Called when the machine has aborted. If it was running, this is a fault in it, and the process ends as
/// Java ends it, with all information for finding the fault. If it was starting, it cannot run with its
/// options. It has not run yet, so the server continues without it. The thread that was starting it never
/// returns.
extern "C" fn on_abort() {
    let Some(engine) = ENGINE.get() else { return };
    let message = "Java did not start; its messages are in the standard error of the server";
    if !engine.ends_with_java && engine.report_start(Err(message.to_string())) {
        loop {
            std::thread::park();
        }
    }
}

impl Engine {
    fn end(&self, code: i32) {
        let message = format!("an application has ended Java (exit code {code})");
        if self.ends_with_java {
            log(0, &message);
            // SAFETY: this ends the process at once, without a step that might wait for Java.
            unsafe { libc::_exit(code) };
        }
        log(
            0,
            &format!(
                "{message}: requests to servlets are answered with 503 until the server is restarted; \
                 isolation = \"isolated\" prevents this"
            ),
        );
        self.all_have_failed();
        self.runtime.slabs().end_all();
    }

    /// Called when Java has ended.
    fn all_have_failed(&self) {
        let routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for route in routes.iter().filter_map(Weak::upgrade) {
            route.set(RouteState::Failed);
            if let Some(pool) = route.pool() {
                pool.give_up();
            }
        }
    }
}
