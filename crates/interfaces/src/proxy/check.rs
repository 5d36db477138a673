//! Active checks: a request to each origin from time to time, on a connection of its own. One core makes them
//! for all.

use std::rc::{Rc, Weak};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::failure::Failure;
use super::fields::Outbound;
use super::group::Group;
use super::lease::Lease;
use super::origin::Opened;
use super::origin_url::Role;
use super::proxy_header;
use super::request_body::RequestBody;
use super::{http1, http2};
use crate::pipe::Receiver;

/// How origins are asked whether they are well.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CheckRules {
    /// What is asked for: path and query.
    pub path: String,
    /// What `Host` says; `None`: the origin's own name.
    pub host: Option<String>,
    /// How often.
    pub interval: Duration,
    /// How long an answer may take, from the beginning.
    pub timeout: Duration,
    /// The statuses of one that is well: the least and the most.
    pub statuses: (u16, u16),
    /// So many good answers in a row bring one back.
    pub rise: u32,
    /// So many bad ones in a row take it out.
    pub fall: u32,
}

impl CheckRules {
    /// Reads `200` or `200-399`.
    pub fn parse_statuses(text: &str) -> Result<(u16, u16), String> {
        let status = |text: &str| text.parse().ok().filter(|status| (100..=599).contains(status));
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        match (status(least), status(most)) {
            (Some(least), Some(most)) if least <= most => Ok((least, most)),
            _ => Err(format!("{text:?} is no status such as \"200\", and no range such as \"200-399\"")),
        }
    }
}

/// Begins to check all origins of a group, for as long as this core has it.
pub fn begin(group: &Rc<Group>) {
    for (index, origin) in group.shared.origins.iter().enumerate() {
        if origin.spec.role != Role::Draining {
            tokio::task::spawn_local(keep_checking(Rc::downgrade(group), index));
        }
    }
}

async fn keep_checking(group: Weak<Group>, index: usize) {
    let mut in_a_row = 0u32;
    let mut was_well = true;
    loop {
        let interval = {
            let Some(group) = group.upgrade() else { return };
            let Some(rules) = group.settings().check.clone() else { return };
            let found = timeout(rules.timeout, check(&group, index, &rules)).await;
            let found = found.unwrap_or_else(|_| Err(format!("no answer within {:?}", rules.timeout)));
            in_a_row = if found.is_ok() == was_well { in_a_row.saturating_add(1) } else { 1 };
            was_well = found.is_ok();
            if in_a_row >= if was_well { rules.rise } else { rules.fall } {
                group.checked(index, was_well, &found.err().unwrap_or_default());
            }
            rules.interval
        };
        sleep(interval).await;
    }
}

/// One check; the error says why the origin is not well.
async fn check(group: &Rc<Group>, index: usize, rules: &CheckRules) -> Result<(), String> {
    let settings = group.settings();
    let origin = group.origin(index);
    let outbound = Rc::new(Outbound::check(&rules.path, rules.host.as_deref()));
    let body = Rc::new(RequestBody::new(Receiver::of(bytes::Bytes::new())));
    // Not one of the requests that are counted or limited.
    let busy = origin.begin(0).ok_or("it is busy")?;
    let lease = Lease::new(group.clone(), index, busy, None);
    let place = origin.connections.extra_place();
    let begins_with = settings.proxy_header.map(|version| proxy_header::header(version, None));
    let opened = origin.open(settings, place, &begins_with.unwrap_or_default(), false).await;
    let text = |failure: Failure| failure.to_string();
    let answer = match opened.map_err(text)? {
        Opened::Http1(connection) => http1::exchange(lease, *connection, &outbound, &body).await,
        Opened::Http2(new) => {
            // A connection of its own, which goes with its answer.
            let sessions = http2::Sessions::default();
            let session = sessions.begin(new, settings).await.map_err(text)?;
            http2::exchange(lease, session, &outbound, &body).await
        }
    };
    let status = answer.map_err(text)?.status;
    let (least, most) = rules.statuses;
    match (least..=most).contains(&status) {
        true => Ok(()),
        false => Err(format!("it answers with status {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_read() {
        assert_eq!(CheckRules::parse_statuses("200"), Ok((200, 200)));
        assert_eq!(CheckRules::parse_statuses("200-399"), Ok((200, 399)));
        for text in ["", "99", "600", "300-200", "2xx", "200-", "-200"] {
            assert!(CheckRules::parse_statuses(text).is_err(), "{text}");
        }
    }
}
