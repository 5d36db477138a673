//! PROPPATCH (RFC 4918 section 9.2): all changes are made, or none.

use std::collections::BTreeMap;

use super::Reply;
use crate::call::Call;
use crate::context::Context;
use crate::failure::Result;
use crate::locks::may_change;
use crate::multistatus::Multistatus;
use crate::properties::is_protected;
use crate::store::{Record, Tables, property_size};
use crate::xml::{PropertyChange, PropertyName, property_update};

/// The most bytes of the dead properties of one resource.
const MOST_RESOURCE_BYTES: usize = 64 * 1024;

/// Sets and removes dead properties.
pub fn change(context: &Context, call: &Call) -> Result<Reply> {
    let changes = property_update(&call.body)?;
    context.store.with(|session| {
        let place = context.place_to_change(&call.path)?;
        let entry = place.entry()?;
        context.check(session.tables(), call, &place)?;
        may_change(session.tables(), call.holder(), &place.key)?;
        let refused = refused(context, session.tables(), &entry.key, &changes);
        let mut body = Multistatus::new();
        let mut names: Vec<&PropertyName> = changes.iter().map(|change| &change.name).collect();
        names.sort_unstable();
        names.dedup();
        if let Some((status, error, these)) = refused {
            let others = names.iter().filter(|name| !these.contains(name)).copied().collect();
            body.properties(&place.href(), "", &[(status, error, these), (424, "", others)]);
        } else {
            let mut last = BTreeMap::new();
            for change in &changes {
                last.insert(change.name.clone(), change.value.clone());
            }
            session.add(Record::properties(entry.key, last.into_iter().collect()))?;
            let mut set = String::new();
            for name in names {
                name.write_empty(&mut set);
            }
            body.properties(&place.href(), &set, &[]);
        }
        Ok(Reply { body: body.finish(), ..Reply::new(207) })
    })
}

/// The properties that cannot be changed so, with the status and the condition.
fn refused<'a>(
    context: &Context,
    tables: &Tables,
    key: &[u8],
    changes: &'a [PropertyChange],
) -> Option<(u16, &'static str, Vec<&'a PropertyName>)> {
    let mut protected: Vec<&PropertyName> =
        changes.iter().map(|change| &change.name).filter(|name| is_protected(name)).collect();
    if !protected.is_empty() {
        protected.sort_unstable();
        protected.dedup();
        return Some((403, "cannot-modify-protected-property", protected));
    }
    let mut after = tables.properties_of(key).cloned().unwrap_or_default();
    let before: usize = after.iter().map(|(name, value)| property_size(name, value)).sum();
    for change in changes {
        match &change.value {
            Some(value) => after.insert(change.name.clone(), value.clone()),
            None => after.remove(&change.name),
        };
    }
    let own: usize = after.iter().map(|(name, value)| property_size(name, value)).sum();
    let all = tables.property_bytes() - before.min(tables.property_bytes()) + own;
    let is_too_much = own > MOST_RESOURCE_BYTES || all > context.settings.property_bytes;
    // Who only removes may do so at any size.
    if !is_too_much || own <= before {
        return None;
    }
    let set = changes.iter().filter(|change| change.value.is_some());
    let mut names: Vec<&PropertyName> = set.map(|change| &change.name).collect();
    names.sort_unstable();
    names.dedup();
    Some((507, "", names))
}
