//! MKCOL (RFC 4918 section 9.3).

use rustix::fs::{Mode, mkdirat};
use rustix::io::Errno;

use super::Reply;
use crate::call::Call;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::locks::{may_change, may_change_members};
use crate::store::Record;

/// Makes a collection.
pub fn make(context: &Context, call: &Call) -> Result<Reply> {
    if !call.body.is_empty() {
        // No type of body is understood (section 9.3).
        return Err(Failure::new(415));
    }
    context.store.with(|session| {
        let place = context.place_to_write(&call.path)?;
        if place.facts.is_some() || place.is_link {
            return Err(Failure::new(405));
        }
        context.check(session.tables(), call, &place)?;
        may_change(session.tables(), call.holder(), &place.key)?;
        may_change_members(session.tables(), call.holder(), &place)?;
        let (directory, name) = place.within()?;
        mkdirat(directory, name, Mode::from_raw_mode(0o777)).map_err(|error| match error {
            Errno::EXIST => Failure::new(405),
            error => error.into(),
        })?;
        session.add(Record::Created { key: place.key.clone() })?;
        Ok(Reply::new(201))
    })
}
