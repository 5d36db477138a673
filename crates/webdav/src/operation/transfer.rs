//! COPY and MOVE (RFC 4918 sections 9.8 and 9.9). What is at the destination is replaced in one step, by a
//! resource that is complete.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

use super::Reply;
use crate::call::Call;
use crate::context::Context;
use crate::copying::{CopyRules, TemporaryDirectory, copy_file, copy_tree, remove};
use crate::failure::{Failure, Result};
use crate::fields::Depth;
use crate::locks::may_change_members;
use crate::store::{Record, Tables, is_below};
use crate::temporary::{TemporaryFile, hidden_name, rename};
use crate::tree::Place;

/// What is done.
#[derive(Debug, Clone)]
pub struct Transfer {
    /// The destination's path, in its normal form.
    pub to: Vec<u8>,
    /// An existing resource may be replaced.
    pub overwrite: bool,
    /// The source stays.
    pub is_copy: bool,
}

/// Both ends.
struct Ends {
    from: Place,
    to: Place,
}

/// A copy that is complete and has no name yet.
enum UnnamedCopy {
    File(TemporaryFile),
    Tree(TemporaryDirectory),
}

/// Copies or moves a resource.
pub fn transfer(context: &Context, call: &Call, transfer: &Transfer) -> Result<Reply> {
    if !transfer.is_copy {
        match store_at_destination(context, call, transfer, None) {
            // Another file system is mounted there: the source is copied, and then removed.
            Err(failure) if failure.status == CROSSES => {}
            other => return other,
        }
    }
    let ends = context.store.with(|session| check(context, session.tables(), call, transfer))?;
    let copied = copy(context, call, &ends)?;
    store_at_destination(context, call, transfer, Some(copied))
}

/// Represents `EXDEV`; it is not a status that is sent.
const CROSSES: u16 = 0;

fn check(context: &Context, tables: &Tables, call: &Call, transfer: &Transfer) -> Result<Ends> {
    let from = match transfer.is_copy {
        true => context.place_to_read(&call.path)?,
        false => context.place_to_change(&call.path)?,
    };
    if from.facts.is_none() || !from.is_collection() && call.path.ends_with(b"/") {
        return Err(Failure::new(404));
    }
    let depth = call.depth.unwrap_or(Depth::Infinity);
    // Section 9.9.2: MOVE of a collection moves its whole tree; section 9.8.3: COPY has no depth 1.
    if from.is_collection() && (depth == Depth::One || !transfer.is_copy && depth != Depth::Infinity) {
        return Err(Failure::new(400));
    }
    let to = context.place_to_write(&transfer.to)?;
    let is_within = is_below(&to.key, &from.key) && (from.is_collection() && depth == Depth::Infinity);
    if from.key == to.key || is_within || is_below(&from.key, &to.key) {
        return Err(Failure::new(403));
    }
    context.check(tables, call, &from)?;
    if to.facts.is_some() && !transfer.overwrite {
        return Err(Failure::new(412));
    }
    if to.is_link && to.facts.is_none() && !transfer.overwrite {
        return Err(Failure::new(412));
    }
    if !transfer.is_copy {
        from.within()?;
        context.may_remove(tables, call, &from)?;
    }
    to.within()?;
    if !context.tree.may_remove(&to)? {
        return Err(Failure::new(403));
    }
    crate::locks::may_change_tree(tables, call.holder(), &to.key)?;
    may_change_members(tables, call.holder(), &to)?;
    let (from_bytes, to_bytes) = (tables.property_bytes_at(&from.key), tables.property_bytes_at(&to.key));
    let property_bytes = (tables.property_bytes() + from_bytes).saturating_sub(to_bytes);
    if transfer.is_copy && from_bytes > 0 && property_bytes > context.settings.property_bytes {
        return Err(Failure::new(507).detail("the dead properties exceed the limit 'properties'"));
    }
    Ok(Ends { from, to })
}

fn copy(context: &Context, call: &Call, ends: &Ends) -> Result<UnnamedCopy> {
    let (directory, _) = ends.to.within()?;
    let settings = &context.settings;
    if ends.from.is_collection() {
        let path = match ends.from.path.ends_with(b"/") {
            true => ends.from.path.clone(),
            false => [&ends.from.path[..], b"/"].concat(),
        };
        let source = context.tree.open_directory(&path)?;
        let rules = CopyRules {
            tree: &context.tree,
            hidden_files: settings.hidden_files,
            most_entries: settings.most_entries,
            with_members: call.depth != Some(Depth::Zero),
            sync: settings.sync,
        };
        return Ok(UnnamedCopy::Tree(copy_tree(&source, directory, &rules)?));
    }
    let source = context.tree.open_file(&ends.from.path)?;
    Ok(UnnamedCopy::File(copy_file(source, directory, settings.sync)?))
}

/// Stores a copy, or the source itself, at the destination.
fn store_at_destination(
    context: &Context,
    call: &Call,
    transfer: &Transfer,
    copied: Option<UnnamedCopy>,
) -> Result<Reply> {
    let (reply, to_remove) = context.store.with(|session| {
        let Ends { from, to } = check(context, session.tables(), call, transfer)?;
        let (directory, name) = to.within()?;
        let is_new = to.facts.is_none() && !to.is_link;
        // A directory cannot take the place of a file, nor a file or directory that of a directory.
        let goes_aside = !is_new && (from.is_collection() || to.is_collection());
        let mut to_remove = Vec::new();
        if goes_aside {
            let hidden = hidden_name("replaced")?;
            rename(directory, name, directory, hidden.as_bytes(), true)?;
            to_remove.push((directory.try_clone()?, hidden));
        }
        let is_kept = copied.is_none();
        let placed = place(copied, &from, directory, name, is_new || goes_aside);
        if let Err(failure) = placed {
            for (directory, hidden) in &to_remove {
                let _ = rename(directory, hidden.as_bytes(), directory, name, true);
            }
            return Err(failure);
        }
        if !transfer.is_copy && !is_kept {
            // Moved to another file system: the copy is complete.
            let (source, name) = from.within()?;
            let hidden = hidden_name("moved")?;
            rename(source, name, source, hidden.as_bytes(), true)?;
            to_remove.push((source.try_clone()?, hidden));
        }
        let members = call.depth != Some(Depth::Zero);
        session.add(match transfer.is_copy {
            true => Record::Copied { from: from.key.clone(), to: to.name_key.clone(), members },
            // Of a link only the name moves, without its target.
            false => Record::Moved { from: from.name_key.clone(), to: to.name_key.clone() },
        })?;
        let href = crate::tree::href(&to.path, from.is_collection());
        // A cache in front also removes the resource in this field (RFC 9111 section 4.4).
        let reply = Reply::new(if is_new { 201 } else { 204 }).field("Location", href);
        Ok((reply, to_remove))
    })?;
    for (directory, hidden) in to_remove {
        remove(&directory, hidden.as_bytes())?;
    }
    Ok(reply)
}

fn place(
    copied: Option<UnnamedCopy>,
    from: &Place,
    to: &OwnedFd,
    name: &[u8],
    must_be_new: bool,
) -> Result<()> {
    match copied {
        Some(UnnamedCopy::File(file)) => file.finish(name, must_be_new).map(|_| ()),
        Some(UnnamedCopy::Tree(tree)) => {
            rename(to, tree.name(), to, name, must_be_new)?;
            tree.keep();
            Ok(())
        }
        None => {
            let (source, source_name) = from.within()?;
            rename(source, source_name, to, name, must_be_new).map_err(|error| match error {
                Errno::XDEV => Failure::new(CROSSES),
                error => error.into(),
            })
        }
    }
}
