//! PROPFIND (RFC 4918 section 9.1): first the resources are found, then the rules of other routes are
//! applied, and then the properties are sent.

use std::fmt::Write as _;

use touchstone_files::root::FileKind;

use super::Reply;
use crate::call::Call;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::fields::Depth;
use crate::multistatus::Multistatus;
use crate::properties::{has, names, value};
use crate::store::Tables;
use crate::tree::{Entry, Walk, href};
use crate::xml::{PropertyName, PropertyQuery, property_query};

/// Finds the requested resources and the requested properties.
pub fn find(context: &Context, call: &Call) -> Result<(Vec<Entry>, PropertyQuery)> {
    let query = property_query(&call.body)?;
    let depth = call.depth.unwrap_or(Depth::Infinity);
    let place = context.place_to_read(&call.path)?;
    if !place.is_collection() && call.path.ends_with(b"/") {
        return Err(Failure::new(404));
    }
    if depth == Depth::Infinity && place.is_collection() && !context.settings.infinite_depth {
        return Err(Failure::condition(403, "propfind-finite-depth"));
    }
    if depth == Depth::Zero {
        return Ok((vec![place.entry()?], query));
    }
    let walk = Walk { is_deep: depth == Depth::Infinity, most_entries: context.settings.most_entries };
    Ok((context.tree.walk(&place, &walk)?, query))
}

/// Writes the properties of resources.
pub fn write_properties(
    context: &Context,
    call: &Call,
    entries: &[Entry],
    query: &PropertyQuery,
) -> Result<Reply> {
    context.store.read(|tables| {
        if call.if_header.is_some() {
            let place = context.place_to_read(&call.path)?;
            context.check(tables, call, &place)?;
        }
        let mut body = Multistatus::new();
        for entry in entries {
            write_entry(context, tables, entry, query, &mut body);
        }
        Ok(Reply { body: body.finish(), ..Reply::new(207) })
    })
}

fn write_entry(
    context: &Context,
    tables: &Tables,
    entry: &Entry,
    query: &PropertyQuery,
    body: &mut Multistatus,
) {
    let link = href(&entry.path, entry.facts.kind == FileKind::Directory);
    let dead = tables.properties_of(&entry.key);
    let mut found = String::new();
    let live = |local: &str, found: &mut String| match value(context, tables, entry, local) {
        Some(content) if content.is_empty() => write!(found, "<D:{local}/>").is_ok(),
        Some(content) => write!(found, "<D:{local}>{content}</D:{local}>").is_ok(),
        None => false,
    };
    match query {
        PropertyQuery::Names => {
            for local in names(context, entry) {
                let _ = write!(found, "<D:{local}/>");
            }
            for name in dead.into_iter().flat_map(|dead| dead.keys()) {
                name.write_empty(&mut found);
            }
            body.properties(&link, &found, &[]);
        }
        PropertyQuery::All(include) => {
            for local in names(context, entry) {
                live(local, &mut found);
            }
            for element in dead.into_iter().flat_map(|dead| dead.values()) {
                found.push_str(element);
            }
            for local in include.iter().filter_map(PropertyName::as_dav) {
                if !has(context, entry, local) {
                    live(local, &mut found);
                }
            }
            body.properties(&link, &found, &[]);
        }
        PropertyQuery::These(asked) => {
            let mut missing = Vec::new();
            for name in asked {
                let is_found = match dead.and_then(|dead| dead.get(name)) {
                    Some(element) => {
                        found.push_str(element);
                        true
                    }
                    None => name.as_dav().is_some_and(|local| live(local, &mut found)),
                };
                if !is_found {
                    missing.push(name);
                }
            }
            body.properties(&link, &found, &[(404, "", missing)]);
        }
    }
}
