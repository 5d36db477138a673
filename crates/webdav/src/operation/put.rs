//! PUT (RFC 9110 section 9.3.4, RFC 4918 section 9.7).
//!
//! Conditions and locks are checked before the body is read, so that a client with `Expect: 100-continue`
//! does not send it for nothing, and again when the file gets its name.

use std::os::fd::OwnedFd;

use touchstone_files::root::FileFacts;

use super::Reply;
use crate::call::Call;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::locks::{may_change, may_change_members};
use crate::store::{Record, Tables};
use crate::temporary::TemporaryFile;
use crate::tree::Place;

/// A started upload.
pub struct Upload {
    file: TemporaryFile,
}

fn check(context: &Context, tables: &Tables, call: &Call) -> Result<Place> {
    let place = context.place_to_write(&call.path)?;
    if place.is_collection() || call.path.ends_with(b"/") {
        return Err(Failure::new(405));
    }
    context.check(tables, call, &place)?;
    may_change(tables, call.holder(), &place.key)?;
    if place.facts.is_none() {
        may_change_members(tables, call.holder(), &place)?;
    }
    Ok(place)
}

/// Checks whether the file may be written, and begins one without a name.
pub fn begin(context: &Context, call: &Call) -> Result<Upload> {
    let place = context.store.with(|session| check(context, session.tables(), call))?;
    let (directory, _) = place.within()?;
    Ok(Upload { file: TemporaryFile::create(directory)? })
}

impl Upload {
    /// Adds to the content.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.file.write(bytes)?)
    }

    /// Renames the complete file to its final name.
    pub fn finish(self, context: &Context, call: &Call) -> Result<Reply> {
        if context.settings.sync {
            self.file.sync()?;
        }
        context.store.with(|session| {
            let place = check(context, session.tables(), call)?;
            let (_, name) = place.within()?;
            if let Some(facts) = place.facts {
                self.file.set_permissions(facts.permissions)?;
            }
            let is_new = place.facts.is_none() && !place.is_link;
            let file: OwnedFd = self.file.finish(name, is_new).map_err(|failure| match failure.status {
                // The name was created after the look-up, without WebDAV.
                409 => Failure::new(412),
                _ => failure,
            })?;
            if is_new {
                session.add(Record::Created { key: place.name_key.clone() })?;
            }
            let etag = FileFacts::of(&file)?.etag().to_string();
            Ok(Reply::new(if is_new { 201 } else { 204 }).field("ETag", etag))
        })
    }
}
