//! The engines and their linkers, at most two for the process.
//!
//! Components of 0.2 use an engine without support for concurrency. With that support, wasmtime creates a
//! task for each call between a component and the server, which costs more than the rest of the call.

use std::sync::OnceLock;

use wasmtime::component::Linker;
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};
use wasmtime_wasi_config::WasiConfig;

use crate::state::State;
use crate::{http_types, keyvalue, streams, ticker};

/// The most instances of an engine at a time.
const MOST_INSTANCES: u32 = 2_000;

/// The most bytes of one memory of a component.
pub const MOST_MEMORY_BYTES: usize = 1 << 30;

/// The most entries of one table of a component.
const MOST_TABLE_ENTRIES: usize = 100_000;

/// The bytes of an instance's memory that are cleared instead of freed at its end, so that the next instance
/// reuses the pages: the first bytes or, if the kernel can report the written pages, those pages. Compilers
/// place stack and heap far apart.
const KEPT_BYTES: usize = 128 << 10;
const KEPT_BYTES_OF_WRITTEN: usize = 1 << 20;

/// The bytes of a table that are cleared instead of freed.
const KEPT_TABLE_BYTES: usize = 128 << 10;

/// The stack of an instance, and the stack for it and its calls to the server.
const WASM_STACK_BYTES: usize = 1 << 20;
const STACK_BYTES: usize = 2 << 20;

/// The version of the WASI interfaces of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// 0.2: without concurrency.
    P2,
    /// 0.3: functions, streams and futures are concurrent. It may import interfaces of 0.2.
    P3,
}

/// An engine and its linker.
pub struct Runtime {
    /// Compiles and runs components.
    pub engine: Engine,
    /// The functions that components may import.
    pub linker: Linker<State>,
}

/// Creates the engines. A process that gives up root's rights calls it before: an engine opens
/// `/proc/self/pagemap`, which tells it the pages that an instance has written, and which belongs to root
/// afterwards. Without it, a fresh instance costs twice as much.
pub fn create_engines() {
    for version in [Version::P2, Version::P3] {
        // An error is reported for the component that needs the engine.
        let _ = engine(version);
    }
}

/// The engine of this process for a version.
fn engine(version: Version) -> Result<&'static Engine, String> {
    static P2: OnceLock<Result<Engine, String>> = OnceLock::new();
    static P3: OnceLock<Result<Engine, String>> = OnceLock::new();
    let engine = match version {
        Version::P2 => &P2,
        Version::P3 => &P3,
    };
    let create = || {
        let mut config = config(version);
        // Without enough address space for the pool, instances are allocated on demand, which is slower.
        Engine::new(&config)
            .or_else(|_| Engine::new(config.allocation_strategy(InstanceAllocationStrategy::OnDemand)))
            .map_err(|error| format!("{error:#}"))
    };
    engine.get_or_init(create).as_ref().map_err(Clone::clone)
}

/// The runtime of this process for a version. The error says why it cannot be created.
pub fn of_process(version: Version) -> Result<&'static Runtime, String> {
    static P2: OnceLock<Result<Runtime, String>> = OnceLock::new();
    static P3: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let runtime = match version {
        Version::P2 => &P2,
        Version::P3 => &P3,
    };
    let open = || open(version).map_err(|error| format!("{error:#}"));
    runtime.get_or_init(open).as_ref().map_err(Clone::clone)
}

fn open(version: Version) -> wasmtime::Result<Runtime> {
    let engine = engine(version).map_err(wasmtime::Error::msg)?.clone();
    let mut linker = Linker::new(&engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker)?;
    // The handler of a component that needs concurrency may be of 0.2 as well.
    linker.allow_shadowing(true);
    http_types::add_to_linker(&mut linker)?;
    streams::add_to_linker(&mut linker)?;
    linker.allow_shadowing(false);
    if version == Version::P3 {
        wasmtime_wasi::p3::add_to_linker(&mut linker)?;
        wasmtime_wasi_http::p3::add_to_linker(&mut linker)?;
    }
    wasmtime_wasi_config::add_to_linker(&mut linker, |state: &mut State| WasiConfig::from(state.config()))?;
    keyvalue::add_to_linker(&mut linker)?;
    ticker::start(&engine)?;
    Ok(Runtime { engine, linker })
}

fn config(version: Version) -> Config {
    let mut pool = PoolingAllocationConfig::default();
    let has_pagemap_scan = PoolingAllocationConfig::is_pagemap_scan_available();
    pool.total_component_instances(MOST_INSTANCES)
        .total_core_instances(MOST_INSTANCES * 10)
        .total_memories(MOST_INSTANCES)
        .total_tables(MOST_INSTANCES * 5)
        .total_stacks(MOST_INSTANCES)
        .max_memory_size(MOST_MEMORY_BYTES)
        .table_elements(MOST_TABLE_ENTRIES)
        .max_component_instance_size(8 << 20)
        .max_core_instance_size(8 << 20)
        .pagemap_scan(if has_pagemap_scan { Enabled::Yes } else { Enabled::No })
        .linear_memory_keep_resident(if has_pagemap_scan { KEPT_BYTES_OF_WRITTEN } else { KEPT_BYTES })
        .table_keep_resident(KEPT_TABLE_BYTES);
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .wasm_component_model_async(version == Version::P3)
        .concurrency_support(version == Version::P3)
        .epoch_interruption(true)
        .max_wasm_stack(WASM_STACK_BYTES)
        .async_stack_size(STACK_BYTES)
        .memory_reservation(MOST_MEMORY_BYTES as u64)
        .memory_guard_size(0)
        .guard_before_linear_memory(false)
        // Java and plug-ins in the same process have their own handlers for SIGSEGV, which would treat a trap
        // as a crash. Explicit bounds checks need no signals.
        .signals_based_traps(false)
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    config
}
