//! What an attempt holds of its origin as long as it goes on: its place among the requests under way, and the
//! way to give a connection back and to say what became of it.

use std::rc::Rc;
use std::sync::Arc;

use tokio::time::{Instant, timeout_at};

use super::connections::Connection;
use super::group::Group;
use super::member::Member;
use super::origin::{Busy, SharedOrigin};
use super::settings::ProxySettings;

/// An origin, lent to an attempt.
pub struct Lease {
    group: Rc<Group>,
    index: usize,
    _busy: Busy,
    /// When all of it must be done.
    deadline: Option<Instant>,
}

impl Lease {
    /// The origin of this position, for an attempt that was counted.
    pub fn new(group: Rc<Group>, index: usize, busy: Busy, deadline: Option<Instant>) -> Lease {
        Lease { group, index, _busy: busy, deadline }
    }

    /// Waits for what must be done by the deadline; the error says that it was not, or what else is wrong.
    pub async fn in_time<T>(&self, work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
        match self.deadline {
            None => work.await,
            Some(deadline) => match timeout_at(deadline, work).await {
                Ok(done) => done,
                Err(_) => Err("it was not done within the total time".to_string()),
            },
        }
    }

    /// The group.
    pub fn group(&self) -> &Rc<Group> {
        &self.group
    }

    /// The origin's position in the group.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The origin as the group has it.
    pub fn member(&self) -> &Member {
        self.group.member(self.index)
    }

    /// The origin.
    pub fn origin(&self) -> &Arc<SharedOrigin> {
        self.group.origin(self.index)
    }

    /// The configuration.
    pub fn settings(&self) -> &ProxySettings {
        self.group.settings()
    }

    /// Gives a connection back that can be used again.
    pub fn give_back(&self, connection: Connection) {
        // With a PROXY header it is one client's alone.
        if self.settings().proxy_header.is_none() {
            self.origin().connections.give_back(self.group.server.core(), connection);
        }
    }

    /// The response broke off behind its head.
    pub fn broke_off(&self, reason: &str) {
        self.group.broke_off(self.index, reason);
    }
}
