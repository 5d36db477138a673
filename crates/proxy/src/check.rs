//! Active checks: periodic requests to an origin, each on its own connection. One core of one route makes
//! them for all routes that share the origin.

use std::rc::{Rc, Weak};

use tokio::time::{sleep, timeout};
use touchstone_handler::pipe::Receiver;

use super::check_rules::CheckRules;
use super::failure::Failure;
use super::fields::OutboundRequest;
use super::group::Group;
use super::origin::NewConnection;
use super::origin_attempt::OriginAttempt;
use super::proxy_header;
use super::request_body::RequestBody;
use super::sessions::Sessions;
use super::{http1, http2, http2_connection, http3, http3_connection};

/// Starts the checks of an origin, which end when this core drops the group.
pub fn begin(group: &Rc<Group>, index: usize) {
    tokio::task::spawn_local(check_periodically(Rc::downgrade(group), index));
}

async fn check_periodically(group: Weak<Group>, index: usize) {
    let mut consecutive = 0u32;
    let mut was_healthy = true;
    loop {
        let interval = {
            let Some(group) = group.upgrade() else { return };
            let Some(rules) = group.settings().check.clone() else { return };
            let result = timeout(rules.timeout, check(&group, index, &rules)).await;
            let result = result.unwrap_or_else(|_| Err(format!("no answer within {:?}", rules.timeout)));
            consecutive = if result.is_ok() == was_healthy { consecutive.saturating_add(1) } else { 1 };
            was_healthy = result.is_ok();
            if consecutive >= if was_healthy { rules.rise } else { rules.fall } {
                group.record_check(index, was_healthy, &result.err().unwrap_or_default());
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
    let outbound = Rc::new(OutboundRequest::check(&rules.path, rules.host.as_deref()));
    let body = Rc::new(RequestBody::new(Receiver::of(bytes::Bytes::new())));
    // Checks are not subject to the limits of requests and connections.
    let guard = origin.begin(0).ok_or("the limit of requests is reached")?;
    let attempt = OriginAttempt::new(group.clone(), index, guard, None);
    let permit = origin.connections.extra_permit();
    let proxy_header = settings.proxy_header.map(|version| proxy_header::header(version, None));
    let opened = member.open(settings, permit, &proxy_header.unwrap_or_default(), false).await;
    let text = |failure: Failure| failure.to_string();
    let opened = opened.map_err(text)?;
    if rules.connects_only {
        return Ok(());
    }
    let answer = match opened {
        NewConnection::Http1(connection) => http1::call(attempt, *connection, &outbound, &body).await,
        // The connection is closed after the answer.
        NewConnection::Http2(new) => {
            let sessions = Sessions::default();
            let session = http2_connection::begin(&sessions, new, settings).await.map_err(text)?;
            http2::call(attempt, session, &outbound, &body).await
        }
        NewConnection::Http3(new) => {
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
