//! The thread that receives the server's messages: links to more cores, and the order to end. If configured,
//! another thread checks source files for changes.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rustix::net::RecvFlags;

use super::parts::Worker;
use super::server;
use crate::shared::control::{self, Message};
use crate::shared::segment::Segment;

/// How often source files are checked.
const FILE_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Starts the thread.
pub fn start(socket: BorrowedFd<'static>, worker: &'static Worker) -> io::Result<()> {
    let run = move || {
        loop {
            match control::receive(socket, RecvFlags::empty()) {
                Ok(Some(message)) => process(message, worker),
                // The server has ended.
                Ok(None) | Err(_) => std::process::exit(0),
            }
        }
    };
    std::thread::Builder::new().name("control".to_string()).spawn(run).map(drop)
}

fn process(message: Message, worker: &Worker) {
    match message.kind {
        control::LINK => {
            let mut descriptors = message.descriptors.into_iter();
            let (Some(memory), Some(wake), Some(files)) =
                (descriptors.next(), descriptors.next(), descriptors.next())
            else {
                return;
            };
            match Segment::of(memory) {
                Ok(segment) => {
                    worker.hub.with_links(|links| links.add(segment, wake, files, worker.start));
                    worker.hub.wake();
                }
                Err(error) => server::log('e', &format!("a core cannot be linked: {error}")),
            }
        }
        control::QUIT => worker.hub.quit(),
        _ => {}
    }
}

/// Starts a thread that notifies the server when one of these files changes. It also reports a change since
/// `loaded_at`, when the worker began to load the application.
///
/// The times of the files are read here and not in the thread, so that a change after the worker has become
/// ready is never taken for the initial state.
pub fn watch_files(files: Vec<PathBuf>, loaded_at: SystemTime) {
    let changed = |file: &PathBuf| std::fs::metadata(file).and_then(|facts| facts.modified()).ok();
    let mut known: Vec<Option<SystemTime>> = files.iter().map(changed).collect();
    let now = SystemTime::now();
    for time in &mut known {
        // A time in the future is no information about this worker.
        if time.is_some_and(|time| time > loaded_at && time <= now) {
            *time = None;
        }
    }
    let run = move || {
        loop {
            std::thread::sleep(FILE_CHECK_INTERVAL);
            let now: Vec<Option<SystemTime>> = files.iter().map(changed).collect();
            let mut pairs = files.iter().zip(now.iter().zip(&known));
            if let Some((file, _)) = pairs.find(|(_, (now, before))| now != before) {
                // The worker continues if its replacement does not start.
                server::report(control::CHANGED, file.to_string_lossy().as_bytes());
            }
            known = now;
        }
    };
    if let Err(error) = std::thread::Builder::new().name("files".to_string()).spawn(run) {
        server::log('w', &format!("source files are not watched: {error}"));
    }
}
