//! DELETE (RFC 4918 section 9.6): all resources are removed, or none. A collection gets a hidden name in one
//! step, and is then removed.

use rustix::fs::{AtFlags, unlinkat};

use super::Reply;
use crate::call::Call;
use crate::context::Context;
use crate::copying::remove;
use crate::failure::{Failure, Result};
use crate::fields::Depth;
use crate::store::Record;
use crate::temporary::{hidden_name, rename};

/// Removes a resource with all below it.
pub fn delete(context: &Context, call: &Call) -> Result<Reply> {
    let aside = context.store.with(|session| {
        let place = context.place_to_change(&call.path)?;
        if place.facts.is_none() && !place.is_link {
            context.check(session.tables(), call, &place)?;
            return Err(Failure::new(404));
        }
        if place.is_collection() && call.depth.is_some_and(|depth| depth != Depth::Infinity) {
            return Err(Failure::new(400));
        }
        if !place.is_collection() && call.path.ends_with(b"/") {
            return Err(Failure::new(404));
        }
        context.check(session.tables(), call, &place)?;
        context.may_remove(session.tables(), call, &place)?;
        let (directory, name) = place.within()?;
        if !place.is_collection() || place.is_link {
            unlinkat(directory, name, AtFlags::empty())?;
            session.add(Record::Removed { key: place.name_key.clone() })?;
            return Ok(None);
        }
        let hidden = hidden_name("deleted")?;
        rename(directory, name, directory, hidden.as_bytes(), true)?;
        let key = place.key.clone();
        session.add(Record::Removed { key })?;
        Ok(Some((place, hidden)))
    })?;
    if let Some((place, hidden)) = aside {
        let (directory, name) = place.within()?;
        if let Err(failure) = remove(directory, hidden.as_bytes()) {
            // What could not be removed is visible again.
            let _ = rename(directory, hidden.as_bytes(), directory, name, true);
            return Err(failure);
        }
    }
    Ok(Reply::new(204))
}
