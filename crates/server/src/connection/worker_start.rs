//! Starts the worker of a core when the first connection is sent there, and takes connections back.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use touchstone_config::LogLevel;

use super::{Connection, worker_thread};
use touchstone_exchange::core::Core;
use touchstone_exchange::core::worker::{
    Arrival, CoreEntries, WorkerLink, WorkerOrder, WorkerReport, WorkerSeed,
};

/// The stack of a worker's thread; the programs run on it.
const STACK_BYTES: usize = 8 * 1024 * 1024;

/// Sends a connection to the worker of its core. Returns the connection if the worker cannot serve it.
pub fn send(core: &Rc<Core>, socket: OwnedFd, left: CoreEntries) {
    let Some(worker) = &core.worker else { return };
    let (peer, listener, requests, number) = (left.peer, left.listener, left.requests, left.number);
    let place = worker.keep(left);
    let arrival = Arrival { place, socket: Arc::new(socket), peer, listener, requests, number };
    let refused = match worker.link(|seed| started(core, seed)) {
        Some(link) => link.send(WorkerOrder::Arrive(arrival)).err(),
        None => Some(WorkerOrder::Arrive(arrival)),
    };
    if let Some(WorkerOrder::Arrive(arrival)) = refused {
        handle_report(core, arrival.return_connection());
    }
}

fn started(core: &Rc<Core>, seed: WorkerSeed) -> Option<Arc<WorkerLink>> {
    match start(core, seed) {
        Ok(link) => Some(link),
        Err(error) => {
            let message = format_args!("no thread for calls of programs: {error}");
            core.error_log.limited(LogLevel::Warning, "no thread for calls", message);
            None
        }
    }
}

fn start(core: &Rc<Core>, seed: WorkerSeed) -> std::io::Result<Arc<WorkerLink>> {
    let (to_core, report) = unbounded_channel();
    let link = Arc::new(WorkerLink::new(to_core)?);
    let snapshot = core.state.borrow().snapshot.clone();
    let (of_thread, error_log) = (link.clone(), core.error_log.clone());
    let run = move || {
        if let Err(error) = worker_thread::run(seed, snapshot, of_thread) {
            error_log.error(format_args!("a worker of programs has ended: {error}"));
        }
    };
    let builder = std::thread::Builder::new().name(format!("worker-{}", core.index));
    builder.stack_size(STACK_BYTES).spawn(run)?;
    tokio::task::spawn_local(handle_reports(core.clone(), report));
    Ok(link)
}

async fn handle_reports(core: Rc<Core>, mut report: UnboundedReceiver<WorkerReport>) {
    while let Some(report) = report.recv().await {
        handle_report(&core, report);
    }
}

fn handle_report(core: &Rc<Core>, report: WorkerReport) {
    let Some(worker) = &core.worker else { return };
    match report {
        WorkerReport::Ended(place) => drop(worker.take(place)),
        WorkerReport::ConnectionReturned(back) => {
            if let Some(left) = worker.take(back.place) {
                Connection::return_to_core(core.clone(), *back, left);
            }
        }
    }
}
