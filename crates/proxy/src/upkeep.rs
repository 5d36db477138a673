//! Periodic work of a core for its origins: closes old connections and starts the active checks.

use std::rc::{Rc, Weak};
use std::time::Duration;

use super::check;
use super::group::Group;
use super::origin_url::Role;

/// How often idle connections are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Starts the work, until this core drops the group.
pub fn begin(group: &Rc<Group>) {
    tokio::task::spawn_local(keep_up(Rc::downgrade(group)));
}

/// Closes old connections from time to time, and makes sure that one core checks each origin.
async fn keep_up(group: Weak<Group>) {
    loop {
        {
            let Some(group) = group.upgrade() else { return };
            let core = group.server.core();
            for (index, (member, sessions)) in group.shared.members.iter().zip(&group.sessions).enumerate() {
                let origin = &member.origin;
                let leads_there =
                    |address| origin.addresses.as_ref().is_none_or(|addresses| addresses.contains(address));
                origin.connections.close_idle(core, leads_there);
                sessions.close_idle(group.settings().connections.keep_alive_timeout, leads_there);
                let gets_requests =
                    [member.spec.role, member.role()].iter().any(|role| *role != Role::Draining);
                let wants_check = group.settings().check.is_some() && gets_requests;
                if wants_check && group.takes_checks(index) {
                    check::begin(&group, index);
                }
            }
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}
