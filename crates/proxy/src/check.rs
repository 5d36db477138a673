//! Active checks: a request to an origin from time to time, on its own connection. One core of one route
//! makes them for all routes that share the origin.

use std::rc::{Rc, Weak};

use tokio::time::{sleep, timeout};
use touchstone_handler::pipe::Receiver;

use super::check_rules::CheckRules;
use super::failure::Failure;
use super::fields::Outbound;
use super::group::Group;
use super::origin::Opened;
use super::origin_attempt::OriginAttempt;
use super::proxy_header;
use super::request_body::RequestBody;
use super::sessions::Sessions;
use super::{http1, http2, http2_connection, http3, http3_connection};

/// Starts to check an origin, until this core drops the group.
pub fn begin(group: &Rc<Group>, index: usize) {
    tokio::task::spawn_local(keep_checking(Rc::downgrade(group), index));
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

/// One check; the error says why the origin is unhealthy.
async fn check(group: &Rc<Group>, index: usize, rules: &CheckRules) -> Result<(), String> {
    let settings = group.settings();
    let (member, origin) = (group.member(index), group.origin(index));
    let outbound = Rc::new(Outbound::check(&rules.path, rules.host.as_deref()));
    let body = Rc::new(RequestBody::new(Receiver::of(bytes::Bytes::new())));
    // Checks are neither counted nor limited like requests.
    let guard = origin.begin(0).ok_or("it is busy")?;
    let attempt = OriginAttempt::new(group.clone(), index, guard, None);
    let permit = origin.connections.extra_permit();
    let begins_with = settings.proxy_header.map(|version| proxy_header::header(version, None));
    let opened = member.open(settings, permit, &begins_with.unwrap_or_default(), false).await;
    let text = |failure: Failure| failure.to_string();
    let opened = opened.map_err(text)?;
    if rules.connects_only {
        return Ok(());
    }
    let answer = match opened {
        Opened::Http1(connection) => http1::call(attempt, *connection, &outbound, &body).await,
        // A new connection, which is closed after the answer.
        Opened::Http2(new) => {
            let sessions = Sessions::default();
            let session = http2_connection::begin(&sessions, new, settings).await.map_err(text)?;
            http2::call(attempt, session, &outbound, &body).await
        }
        Opened::Http3(new) => {
            let sessions = Sessions::default();
            let session = http3_connection::begin(&sessions, new, settings).await.map_err(text)?;
            http3::call(attempt, session, &outbound, &body).await
        }
    };
    let status = answer.map_err(text)?.status;
    let (least, most) = rules.statuses;
    match (least..=most).contains(&status) {
        true => Ok(()),
        false => Err(format!("it answers with status {status}")),
    }
}
