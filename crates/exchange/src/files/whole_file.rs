//! Reads whole files, and detects changes during the reading.

use std::io;
use std::os::fd::AsFd;

use touchstone_files::root::{FileFacts, OpenedFile, ReadWhole, read_whole, read_whole_blocking};

/// Reads a whole file; `None` if its content changed during the reading. If another file replaced it, the old
/// content is whole. Waits for the disk on another thread.
pub async fn read(opened: OpenedFile) -> io::Result<Option<Vec<u8>>> {
    let OpenedFile { descriptor, facts, .. } = opened;
    let (descriptor, outcome) = match read_whole(&descriptor, facts.size)? {
        ReadWhole::WouldBlock => {
            let task = tokio::task::spawn_blocking(move || {
                let outcome = read_whole_blocking(&descriptor, facts.size);
                (descriptor, outcome)
            });
            let (descriptor, outcome) = task.await.map_err(io::Error::other)?;
            (descriptor, outcome?)
        }
        outcome => (descriptor, outcome),
    };
    let ReadWhole::Complete(body) = outcome else { return Ok(None) };
    let unchanged = FileFacts::of(descriptor.as_fd()).is_ok_and(|now| facts.same_content(&now));
    Ok(unchanged.then_some(body))
}
