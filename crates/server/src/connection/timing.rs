//! The waits of a connection, their deadlines, and how fast its client reads an answer.

use std::task::Context;
use std::time::Duration;

use touchstone_access::{MinimumRate, RateCheck};

use super::Connection;
use touchstone_exchange::core::deadline::DeadlineGuard;

/// The purpose of the current wait for input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WaitPurpose {
    /// No bytes yet.
    #[default]
    Nothing,
    /// The first byte of a request.
    Idle,
    /// The rest of a head.
    Head,
}

/// The waits of a connection.
#[derive(Default)]
pub struct Timing {
    /// The purpose of the current wait for input.
    pub waiting: WaitPurpose,
    /// The deadline of the current wait; `None` while the connection is not a task.
    pub deadline: Option<DeadlineGuard>,
    /// Bytes sent since the last wait for the client.
    pub sent_since_wait: u64,
    /// How slow the client may be with the current answer, if the site or route limits it.
    pub minimum: Option<MinimumRate>,
    /// How fast the client reads the current answer; `None`: there was no wait for the client.
    pub send_check: Option<RateCheck>,
}

impl Connection {
    /// The time of the core's clock in milliseconds.
    pub(super) fn now_ms(&self) -> u64 {
        self.core.clock.coarse_ms()
    }

    pub(super) fn set_writing(&self, writing: bool) {
        if let Some(deadline) = &self.timing.deadline {
            deadline.session.set_writing(writing);
        }
    }

    pub(super) fn set_deadline(&mut self, limit: Duration) {
        self.begin_wait(limit, false);
    }

    /// The same for a connection that may be ended without harm.
    pub(super) fn set_idle_deadline(&mut self, limit: Duration) {
        self.begin_wait(limit, true);
    }

    fn begin_wait(&mut self, limit: Duration, is_idle: bool) {
        self.timing.waiting = WaitPurpose::Nothing;
        if let Some(deadline) = &self.timing.deadline {
            deadline.set(self.now_ms(), limit, is_idle);
        }
    }

    pub(super) fn clear_deadline(&mut self) {
        if let Some(deadline) = &self.timing.deadline {
            deadline.clear();
        }
    }

    /// Ends a wait whose deadline must not count against the client.
    pub(super) fn forget_deadline(&mut self) {
        if let Some(deadline) = &self.timing.deadline {
            deadline.forget();
        }
    }

    pub(super) fn deadline_expired(&self, context: &mut Context<'_>) -> bool {
        self.timing.deadline.as_ref().is_some_and(|deadline| {
            deadline.set_waker(context.waker());
            deadline.expired()
        })
    }
}
