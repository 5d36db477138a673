//! Periodic maintenance of a core's origins: closes idle connections and starts the active checks.

use std::rc::{Rc, Weak};
use std::time::Duration;

use super::check;
use super::group::Group;
use super::origin_url::Role;

/// The time between two runs.
const INTERVAL: Duration = Duration::from_secs(1);

/// Starts the maintenance, which ends when this core drops the group.
pub fn begin(group: &Rc<Group>) {
    tokio::task::spawn_local(maintain(Rc::downgrade(group)));
}

/// Closes idle connections periodically, and ensures that one core checks each origin.
async fn maintain(group: Weak<Group>) {
    loop {
        {
            let Some(group) = group.upgrade() else { return };
            let core = group.server.core();
            for (index, (member, sessions)) in group.shared.members.iter().zip(&group.sessions).enumerate() {
                let origin = &member.origin;
                let is_current_address =
                    |address| origin.addresses.as_ref().is_none_or(|addresses| addresses.contains(address));
                origin.connections.close_idle(core, is_current_address);
                sessions.close_idle(group.settings().connections.keep_alive_timeout, is_current_address);
                let gets_requests =
                    [member.spec.role, member.role()].iter().any(|role| *role != Role::Draining);
                let needs_check = group.settings().check.is_some() && gets_requests;
                if needs_check && group.claim_checks(index) {
                    check::begin(&group, index);
                }
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
