//! Frames for the other process: collected as they are created, and sent with as few writes as possible.

use std::cell::{Cell, RefCell};

use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::Notify;

/// The frames of one connection, on its own thread.
#[derive(Default)]
pub struct OutgoingFrames {
    frames: RefCell<Vec<u8>>,
    has_changed: Notify,
    is_closed: Cell<bool>,
}

impl OutgoingFrames {
    /// Sends the frame that `append` adds to the waiting ones, with the next write.
    pub fn send(&self, append: impl FnOnce(&mut Vec<u8>)) {
        append(&mut self.frames.borrow_mut());
        self.has_changed.notify_one();
    }

    /// Called when no more frames will be added: the waiting frames are sent, then the connection is closed.
    pub fn close(&self) {
        self.is_closed.set(true);
        self.has_changed.notify_one();
    }

    /// Whether more frames may be added.
    pub fn is_open(&self) -> bool {
        !self.is_closed.get()
    }

    /// Writes frames until the queue is closed; false if the other end does not accept more.
    pub async fn write(&self, mut to: OwnedWriteHalf) -> bool {
        let mut writing = Vec::new();
        loop {
            std::mem::swap(&mut writing, &mut *self.frames.borrow_mut());
            if writing.is_empty() {
                if !self.is_open() {
                    return true;
                }
                self.has_changed.notified().await;
                continue;
            }
            if to.write_all(&writing).await.is_err() {
                return false;
            }
            writing.clear();
        }
    }
}
