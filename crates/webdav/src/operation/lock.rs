//! LOCK and UNLOCK (RFC 4918 sections 9.10 and 9.11).

use std::time::Duration;

use touchstone_http::hexadecimal;

use super::Reply;
use crate::call::Call;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::fields::{Depth, timeout};
use crate::locks::{may_change, may_change_members, may_lock};
use crate::markup::XML_BEGIN;
use crate::properties::active_lock;
use crate::store::{Lock, Record, Session, unix_seconds};
use crate::temporary::TemporaryFile;
use crate::tree::Place;
use crate::xml::{LockRequest, lock_request};

/// The longest piece of XML about the owner of a lock.
const MOST_OWNER_BYTES: usize = 4096;

/// Creates a lock, or renews one if there is no body.
pub fn lock(context: &Context, call: &Call) -> Result<Reply> {
    let time = timeout(call.timeout.as_deref(), context.settings.lock_timeout);
    if call.body.trim_ascii().is_empty() {
        return context.store.with(|session| renew(context, session, call, time));
    }
    let request = lock_request(&call.body)?;
    if request.owner.len() > MOST_OWNER_BYTES {
        return Err(Failure::new(413));
    }
    let is_deep = match call.depth {
        None | Some(Depth::Infinity) => true,
        Some(Depth::Zero) => false,
        Some(Depth::One) => return Err(Failure::new(400)),
    };
    context.store.with(|session| make(context, session, call, request, is_deep, time))
}

fn make(
    context: &Context,
    session: &mut Session<'_>,
    call: &Call,
    request: LockRequest,
    is_deep: bool,
    time: Duration,
) -> Result<Reply> {
    let place = context.place_to_write(&call.path)?;
    let tables = session.tables();
    context.check(tables, call, &place)?;
    may_lock(tables, &place.key, is_deep, request.is_exclusive)?;
    if tables.locks().count() >= context.settings.most_locks {
        return Err(Failure::new(507).detail("the limit 'locks' is reached"));
    }
    let is_new = place.facts.is_none();
    if is_new {
        make_empty(session, call, &place)?;
    }
    let lock = Lock {
        token: token()?,
        key: place.key.clone(),
        href: place.href(),
        is_deep,
        is_exclusive: request.is_exclusive,
        owner: request.owner,
        user: call.user.clone(),
        until: unix_seconds().saturating_add(time.as_secs()),
    };
    session.add(Record::Lock(lock.clone()))?;
    let reply = lock_reply(if is_new { 201 } else { 200 }, &[&lock]);
    Ok(reply.field("Lock-Token", format!("<{}>", lock.token)))
}

/// A lock of a name that has no resource makes an empty one (section 7.3).
fn make_empty(session: &mut Session<'_>, call: &Call, place: &Place) -> Result<()> {
    if place.is_link || call.path.ends_with(b"/") {
        return Err(Failure::new(409));
    }
    may_change(session.tables(), call.holder(), &place.key)?;
    may_change_members(session.tables(), call.holder(), place)?;
    let (directory, name) = place.within()?;
    TemporaryFile::create(directory)?.finish(name, true)?;
    session.add(Record::Created { key: place.key.clone() })
}

fn renew(context: &Context, session: &mut Session<'_>, call: &Call, time: Duration) -> Result<Reply> {
    let place = context.place_to_write(&call.path)?;
    if call.if_header.is_none() {
        // Section 9.10.2: the field names the lock.
        return Err(Failure::new(400));
    }
    context.check(session.tables(), call, &place)?;
    let is_named = |lock: &&Lock| lock.covers(&place.key) && call.holder().holds(lock);
    let mut locks: Vec<Lock> = session.tables().locks().filter(is_named).cloned().collect();
    if locks.is_empty() {
        return Err(Failure::condition(412, "lock-token-matches-request-uri"));
    }
    for lock in &mut locks {
        lock.until = unix_seconds().saturating_add(time.as_secs());
        session.add(Record::Lock(lock.clone()))?;
    }
    Ok(lock_reply(200, &locks.iter().collect::<Vec<_>>()))
}

/// Ends the lock with a token.
pub fn unlock(context: &Context, call: &Call, token: &str) -> Result<Reply> {
    context.store.with(|session| {
        let place = context.place_to_write(&call.path)?;
        context.check(session.tables(), call, &place)?;
        let lock = session.tables().lock(token).filter(|lock| lock.covers(&place.key));
        let Some(lock) = lock else {
            return Err(Failure::condition(409, "lock-token-matches-request-uri"));
        };
        if !call.holder().is_owner(lock) {
            return Err(Failure::new(403));
        }
        session.add(Record::Unlock { token: token.to_string() })?;
        Ok(Reply::new(204))
    })
}

fn lock_reply(status: u16, locks: &[&Lock]) -> Reply {
    let locks: String = locks.iter().map(|lock| active_lock(lock)).collect();
    let body =
        format!("{XML_BEGIN}<D:prop xmlns:D=\"DAV:\"><D:lockdiscovery>{locks}</D:lockdiscovery></D:prop>\n");
    Reply { body, ..Reply::new(status) }
}

/// A token that no other lock has, and that cannot be guessed: a random UUID (RFC 9562 section 5.4).
fn token() -> Result<String> {
    let mut bytes = [0u8; 16];
    aws_lc_rs::rand::fill(&mut bytes)
        .map_err(|_| Failure::new(500).detail("the system returns no random bytes"))?;
    Ok(format!("urn:uuid:{}", hexadecimal::random_uuid(bytes)))
}
