//! The data of a store: the limits of an instance, its WASI context, and its hooks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use touchstone_handler::component_counts::Counts;
use wasmtime::component::ResourceTable;
use wasmtime::{Engine, ResourceLimiter, Store, UpdateDeadline};
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_config::WasiConfigVariables;
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use crate::bucket::Buckets;
use crate::hooks::Hooks;
use crate::output::Output;
use crate::settings::Settings;
use crate::ticker;

/// The most handles of an instance to resources of the server.
const MOST_RESOURCES: usize = 16_384;

/// The most bytes that one call of an instance may pass to the server.
const MOST_CALL_BYTES: usize = 8 << 20;

/// The most bytes of the fields of one message.
const MOST_FIELD_BYTES: usize = 128 << 10;

/// The most entries of all tables of an instance.
const MOST_TABLE_ENTRIES: usize = 200_000;

/// The number of ticks after which compiled code checks its time again.
const TICKS_BETWEEN_CHECKS: u64 = 2;

/// The length of a tick.
const TICK_NANOSECONDS: u64 = ticker::TICK.as_nanos() as u64;

/// The values for the imports of a route's component.
#[derive(Clone)]
pub struct Imports {
    /// The values of `wasi:config`.
    pub config: Arc<WasiConfigVariables>,
    /// The buckets of `wasi:keyvalue`.
    pub buckets: Arc<Buckets>,
    /// The counts of the component.
    pub counts: Arc<Counts>,
}

/// The data of a store.
pub struct State {
    table: ResourceTable,
    /// The context for `wasi:cli`, `wasi:filesystem` and other interfaces of wasmtime; created at their first
    /// use.
    wasi: Option<Box<WasiCtx>>,
    settings: Arc<Settings>,
    http: WasiHttpCtx,
    /// Its hooks for outgoing requests.
    pub hooks: Hooks,
    imports: Imports,
    limiter: Limiter,
    /// Its standard output and error.
    pub output: Output,
    /// Limits its computing time for the request.
    pub compute_limit: Arc<ComputeLimit>,
}

impl State {
    /// The resources of the instance.
    pub fn table(&mut self) -> &mut ResourceTable {
        &mut self.table
    }

    /// The same, to read.
    pub fn resources(&self) -> &ResourceTable {
        &self.table
    }

    /// The values for `wasi:config`.
    pub fn config(&self) -> &WasiConfigVariables {
        &self.imports.config
    }

    /// The buckets for `wasi:keyvalue`, and the handles of the instance.
    pub fn buckets(&mut self) -> (&Buckets, &mut ResourceTable) {
        (&self.imports.buckets, &mut self.table)
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let new = || Box::new(wasi(&self.settings, &self.output).build());
        WasiCtxView { ctx: self.wasi.get_or_insert_with(new), table: &mut self.table }
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { hooks: &mut self.hooks, table: &mut self.table, ctx: &mut self.http }
    }
}

/// Counts and limits the computing time of an instance, without the time that it waits. It uses the thread's
/// processor time, because the thread may be preempted. Reading that is a system call, so a short turn on a
/// core counts ticks instead.
pub struct ComputeLimit {
    /// Nanoseconds in earlier turns.
    spent: AtomicU64,
    /// The tick in which the present turn began.
    since: AtomicU64,
    /// The thread's processor time when the present turn began, or was first checked, in nanoseconds; 0 on a
    /// core before that.
    since_of_thread: AtomicU64,
    /// The limit in nanoseconds.
    most: u64,
    is_over: AtomicBool,
    /// The turn was so long that the instance should continue in a thread.
    is_long: AtomicBool,
    memory_refused: AtomicBool,
    /// The instance has failed. Its body cannot show this: it ends like a complete one.
    has_failed: AtomicBool,
}

impl ComputeLimit {
    /// A limit of this computing time.
    pub fn new(most: Duration) -> Arc<ComputeLimit> {
        Arc::new(ComputeLimit {
            spent: AtomicU64::new(0),
            since: AtomicU64::new(0),
            since_of_thread: AtomicU64::new(0),
            most: u64::try_from(most.as_nanos()).unwrap_or(u64::MAX),
            is_over: AtomicBool::new(false),
            is_long: AtomicBool::new(false),
            memory_refused: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
        })
    }

    /// Called before each turn on a core.
    pub fn begin_turn(&self) {
        ticker::note_busy();
        self.since_of_thread.store(0, Ordering::Relaxed);
        self.since.store(ticker::now(), Ordering::Relaxed);
    }

    /// Called before each turn in a thread.
    pub fn begin_turn_in_thread(&self) {
        self.begin_turn();
        self.since_of_thread.store(thread_time(), Ordering::Relaxed);
    }

    /// Called after each turn.
    pub fn end_turn(&self) {
        let turn = self.turn();
        if turn > 0 {
            self.spent.fetch_add(turn, Ordering::Relaxed);
        }
    }

    /// The nanoseconds of the present turn. Compiled code checks its time after `TICKS_BETWEEN_CHECKS` ticks
    /// at the latest; during further ticks it was preempted.
    fn turn(&self) -> u64 {
        match self.since_of_thread.load(Ordering::Relaxed) {
            0 => {
                let ticks = ticker::now().wrapping_sub(self.since.load(Ordering::Relaxed));
                ticks.min(TICKS_BETWEEN_CHECKS) * TICK_NANOSECONDS
            }
            since => thread_time().saturating_sub(since),
        }
    }

    /// Whether the time limit was reached.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Whether the last turn was long, so that the instance should continue in a thread. Resets the flag.
    pub fn take_long(&self) -> bool {
        self.is_long.load(Ordering::Relaxed) && self.is_long.swap(false, Ordering::Relaxed)
    }

    /// Called when the instance has failed, before its body ends.
    pub fn note_failure(&self) {
        self.has_failed.store(true, Ordering::Release);
    }

    /// Whether the instance has failed.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Whether the instance was refused memory.
    pub fn memory_was_refused(&self) -> bool {
        self.memory_refused.load(Ordering::Relaxed)
    }

    /// Called when compiled code checks its time.
    ///
    /// Ticks also count time in which the thread was preempted. So the first check of a turn on a core starts
    /// to count processor time, and the second one decides.
    fn check(&self) -> wasmtime::Result<UpdateDeadline> {
        ticker::note_busy();
        let is_counted = self.since_of_thread.load(Ordering::Relaxed) != 0;
        if !is_counted && ticker::now() == self.since.load(Ordering::Relaxed) {
            // No tick has passed in this turn: the instance was waiting before.
            return Ok(UpdateDeadline::Continue(TICKS_BETWEEN_CHECKS));
        }
        let turn = self.turn();
        let spent = self.spent.load(Ordering::Relaxed).saturating_add(turn);
        if spent >= self.most {
            self.is_over.store(true, Ordering::Relaxed);
            return Ok(UpdateDeadline::Interrupt);
        }
        if !is_counted {
            self.spent.store(spent, Ordering::Relaxed);
            self.since_of_thread.store(thread_time(), Ordering::Relaxed);
        }
        if !is_counted || turn < TICK_NANOSECONDS {
            return Ok(UpdateDeadline::Continue(TICKS_BETWEEN_CHECKS));
        }
        self.is_long.store(true, Ordering::Relaxed);
        Ok(UpdateDeadline::Yield(TICKS_BETWEEN_CHECKS))
    }
}

/// The processor time of this thread, in nanoseconds.
fn thread_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0).max(1)
}

/// Enforces the limits of an instance, and counts it and its memory while it exists.
struct Limiter {
    counts: Arc<Counts>,
    memory_bytes: usize,
    most_memory_bytes: usize,
    table_entries: usize,
    compute_limit: Arc<ComputeLimit>,
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let bytes = self.memory_bytes + desired.saturating_sub(current);
        if bytes > self.most_memory_bytes {
            self.compute_limit.memory_refused.store(true, Ordering::Relaxed);
            return Ok(false);
        }
        self.counts.memory_bytes.add((bytes - self.memory_bytes) as u64);
        self.memory_bytes = bytes;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let entries = self.table_entries + desired.saturating_sub(current);
        if entries > MOST_TABLE_ENTRIES {
            return Ok(false);
        }
        self.table_entries = entries;
        Ok(true)
    }
}

impl Drop for Limiter {
    fn drop(&mut self) {
        self.counts.memory_bytes.take(self.memory_bytes as u64);
        self.counts.instances.take(1);
    }
}

/// Creates the store of an instance.
pub fn store(
    engine: &Engine,
    settings: &Arc<Settings>,
    imports: &Imports,
    hooks: Hooks,
    compute_limit: Arc<ComputeLimit>,
) -> wasmtime::Result<Store<State>> {
    let output = Output::new(settings.limits.output_bytes);
    let wasi = match settings.directories.is_empty() {
        true => None,
        // If a directory cannot be opened, the request fails.
        false => {
            let mut wasi = wasi(settings, &output);
            for (name, directory) in &settings.directories {
                wasi.preopened_dir(directory, name, FsPerms::ReadOnly)?;
            }
            Some(Box::new(wasi.build()))
        }
    };
    let mut table = ResourceTable::new();
    table.set_max_capacity(MOST_RESOURCES);
    let mut http = WasiHttpCtx::new();
    http.set_field_size_limit(MOST_FIELD_BYTES);
    let counts = imports.counts.clone();
    counts.made.add(1);
    counts.instances.add(1);
    let limiter = Limiter {
        counts,
        memory_bytes: 0,
        most_memory_bytes: settings.limits.memory_bytes,
        table_entries: 0,
        compute_limit: compute_limit.clone(),
    };
    let imports = imports.clone();
    let settings = settings.clone();
    let state = State { table, wasi, settings, http, hooks, imports, limiter, output, compute_limit };
    let mut store = Store::new(engine, state);
    store.limiter(|state| &mut state.limiter);
    store.set_hostcall_fuel(MOST_CALL_BYTES);
    store.set_epoch_deadline(TICKS_BETWEEN_CHECKS);
    store.epoch_deadline_callback(|context| context.data().compute_limit.check());
    Ok(store)
}

fn wasi(settings: &Settings, output: &Output) -> WasiCtxBuilder {
    let mut wasi = WasiCtx::builder();
    wasi.envs(&settings.environment)
        .stdout(output.clone())
        .stderr(output.clone())
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false);
    wasi
}

/// Prepares the store of a kept instance for another request. Returns its new output.
pub fn reset(store: &mut Store<State>, hooks: Hooks, compute_limit: Arc<ComputeLimit>) -> Output {
    let state = store.data_mut();
    state.hooks = hooks;
    state.limiter.compute_limit = compute_limit.clone();
    state.compute_limit = compute_limit;
    let output = state.output.clone();
    store.set_epoch_deadline(TICKS_BETWEEN_CHECKS);
    output
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_thread_that_sleeps_uses_no_computing_time() {
        let compute_limit = ComputeLimit::new(Duration::from_millis(20));
        compute_limit.begin_turn_in_thread();
        thread::sleep(Duration::from_millis(50));
        assert!(matches!(compute_limit.check(), Ok(UpdateDeadline::Continue(_) | UpdateDeadline::Yield(_))));
        assert!(!compute_limit.is_over());
    }

    #[test]
    fn turns_of_a_thread_add_up_to_the_limit() {
        let compute_limit = ComputeLimit::new(Duration::from_millis(20));
        let (mut turns, begin) = (0, thread_time());
        while !compute_limit.is_over() {
            compute_limit.begin_turn_in_thread();
            let since = thread_time();
            while thread_time() - since < 5_000_000 {
                std::hint::spin_loop();
            }
            compute_limit.check().unwrap();
            compute_limit.end_turn();
            turns += 1;
        }
        // Each has had 5 ms; the kernel may count more for one of them, of a virtual machine that stood
        // still.
        assert!(turns == 4 || turns < 4 && thread_time() - begin >= 20_000_000, "{turns}");
    }

    #[test]
    fn a_turn_on_a_core_is_long_only_if_it_used_the_processor() {
        let compute_limit = ComputeLimit::new(Duration::from_secs(10));
        compute_limit.begin_turn();
        // Two ticks have passed.
        compute_limit.since.store(ticker::now().wrapping_sub(2), Ordering::Relaxed);
        assert!(matches!(compute_limit.check(), Ok(UpdateDeadline::Continue(_))));
        assert!(matches!(compute_limit.check(), Ok(UpdateDeadline::Continue(_))));
        assert!(!compute_limit.take_long());
        let since = thread_time();
        while thread_time() - since < 2 * TICK_NANOSECONDS {
            std::hint::spin_loop();
        }
        assert!(matches!(compute_limit.check(), Ok(UpdateDeadline::Yield(_))));
        assert!(compute_limit.take_long());
    }
}
