//! A route's files with their state, and which places of it may be read and written.

use std::sync::Arc;

use crate::failure::{Failure, Result};
use crate::names::{is_hidden, is_protected};
use crate::settings::Settings;
use crate::store::Store;
use crate::tree::{Entry, Place, Tree, Walk};

/// A route's files, with their state.
pub struct Context {
    /// The settings of the route.
    pub settings: Arc<Settings>,
    /// The files.
    pub tree: Tree,
    /// Locks and dead properties.
    pub store: Arc<Store>,
}

impl Context {
    /// The place of a resource that is read.
    pub fn place_to_read(&self, path: &[u8]) -> Result<Place> {
        if is_hidden(path, self.tree.hidden_files()) {
            return Err(Failure::new(404));
        }
        self.tree.place(path)
    }

    /// The place of a resource that is created. A collection that is missing on the way is a conflict.
    pub fn place_to_write(&self, path: &[u8]) -> Result<Place> {
        self.place_to_change(path).map_err(Failure::missing_is_conflict)
    }

    /// The place of a resource that is changed or removed, which those with the names that configure servers
    /// are not. Where a collection is missing on the way, the resource is.
    pub fn place_to_change(&self, path: &[u8]) -> Result<Place> {
        if is_protected(path, self.tree.hidden_files()) {
            return Err(Failure::new(403));
        }
        self.tree.place(path)
    }

    /// The paths of a resource and of all below it, for the rules of other routes; none if there is no
    /// resource, or if no other route can have such paths.
    pub fn paths_below(&self, path: &[u8]) -> Result<Vec<Vec<u8>>> {
        if !self.settings.shares_paths {
            return Ok(Vec::new());
        }
        let Ok(place) = self.tree.place(path) else { return Ok(Vec::new()) };
        if place.facts.is_none() {
            return Ok(Vec::new());
        }
        let walk = Walk { is_deep: true, most_entries: self.settings.most_entries };
        let entries = self.tree.walk(&place, &walk)?;
        Ok(entries.into_iter().map(|entry: Entry| entry.path).collect())
    }
}
