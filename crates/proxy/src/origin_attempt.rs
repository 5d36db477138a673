//! The origin of an attempt: counts the attempt as a request in progress, releases connections and reports
//! results.

use std::rc::Rc;
use std::sync::Arc;

use tokio::time::{Instant, timeout_at};

use super::connections::Connection;
use super::group::Group;
use super::member::Member;
use super::origin::{RequestGuard, SharedOrigin};
use super::settings::ProxySettings;

/// An origin in use by an attempt.
pub struct OriginAttempt {
    group: Rc<Group>,
    index: usize,
    _guard: RequestGuard,
    /// When the whole request must be complete.
    deadline: Option<Instant>,
}

impl OriginAttempt {
    /// The origin with this index; `guard` counts the attempt.
    pub fn new(
        group: Rc<Group>,
        index: usize,
        guard: RequestGuard,
        deadline: Option<Instant>,
    ) -> OriginAttempt {
        OriginAttempt { group, index, _guard: guard, deadline }
    }

    /// Waits for `work` until the deadline; the error is a timeout or the error of `work`.
    pub async fn within_deadline<T>(
        &self,
        work: impl Future<Output = Result<T, String>>,
    ) -> Result<T, String> {
        match self.deadline {
            None => work.await,
            Some(deadline) => match timeout_at(deadline, work).await {
                Ok(done) => done,
                Err(_) => Err("the request was not completed within the total time".to_string()),
            },
        }
    }

    /// The group.
    pub fn group(&self) -> &Rc<Group> {
        &self.group
    }

    /// The origin's index in the group.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The origin as a member of the group.
    pub fn member(&self) -> &Member {
        self.group.member(self.index)
    }

    /// The origin.
    pub fn origin(&self) -> &Arc<SharedOrigin> {
        self.group.origin(self.index)
    }

    /// The settings.
    pub fn settings(&self) -> &ProxySettings {
        self.group.settings()
    }

    /// Releases a connection that can be used again to the pool.
    pub fn release(&self, connection: Connection) {
        // A connection with a PROXY header belongs to one client.
        if self.settings().proxy_header.is_none() {
            self.origin().connections.release(self.group.server.core(), connection);
        }
    }

    /// Records that the response's body is incomplete.
    pub fn record_broken_body(&self, reason: &str) {
        self.group.record_broken_body(self.index, reason);
    }
}
