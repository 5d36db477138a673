//! The same disk without a thread: the simulator runs the writer step by step, and so decides the order of
//! events. Segments are smaller, so that they are dropped soon.

use std::io;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use touchstone_handler::handler::Level;

use super::files::Directory;
use super::writer::{Job, Writer};
use super::{Disk, Shared};

/// The work of the writer, step by step.
pub struct Steps {
    writer: Writer,
    jobs: Receiver<Job>,
}

/// A disk whose writer works only when [`Steps`] is called. Dropping it without [`Steps::leave`] is like
/// killing the process.
pub fn open_stepped(
    directory: Arc<dyn Directory>,
    limit_bytes: u64,
    segment_bytes: u64,
    report: impl Fn(Level, &str) + Send + Sync + 'static,
) -> io::Result<(Disk, Steps)> {
    let shared = Shared::new(&directory, limit_bytes, Box::new(report))?;
    let (sender, jobs) = channel();
    let writer = Writer::new(directory, shared.clone())?.with_segments_of(segment_bytes);
    Ok((Disk { shared, jobs: Mutex::new(Some(sender)), writer: None }, Steps { writer, jobs }))
}

impl Steps {
    /// Runs the next job; false if there is none.
    pub fn step(&mut self) -> bool {
        match self.jobs.try_recv() {
            Ok(job) => {
                self.writer.handle(job);
                true
            }
            Err(_) => {
                self.writer.lock_if_free();
                false
            }
        }
    }

    /// Runs all jobs and leaves the directory in order.
    pub fn leave(mut self) {
        while self.step() {}
        self.writer.leave();
    }
}
