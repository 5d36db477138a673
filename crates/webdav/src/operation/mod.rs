//! The methods: each checks conditions and locks, changes the disk and the state, and says what to answer.
//! They wait for the disk, so they run on threads that may.

mod collection;
mod delete;
mod lock;
mod propfind;
mod proppatch;
mod put;
mod transfer;

use std::sync::Arc;

use crate::conditions::{HttpConditions, check};
use crate::failure::{Failure, Result};
use crate::fields::{Depth, Origin};
use crate::if_header::IfHeader;
use crate::locks::{Holder, may_change_members, may_change_tree};
use crate::names::{is_hidden, is_protected};
use crate::settings::Settings;
use crate::store::{Store, Tables};
use crate::tree::{Entry, Place, Tree, Walk};

pub use collection::make as make_collection;
pub use delete::delete;
pub use lock::{lock, unlock};
pub use propfind::{find as find_properties, tell as tell_properties};
pub use proppatch::change as change_properties;
pub use put::begin as begin_upload;
pub use transfer::{Transfer, transfer};

/// A route's files, with their state.
pub struct Context {
    /// What the configuration says.
    pub settings: Arc<Settings>,
    /// The files.
    pub tree: Tree,
    /// Locks and dead properties.
    pub store: Arc<Store>,
}

/// What a request says.
#[derive(Debug, Clone)]
pub struct Call {
    /// The path, in its normal form.
    pub path: Vec<u8>,
    /// The server as the client knows it.
    pub origin: Origin,
    /// The user that the server has authenticated.
    pub user: Option<String>,
    /// If.
    pub if_header: Option<IfHeader>,
    /// The tokens of If.
    pub tokens: Vec<String>,
    /// If-Match and the like.
    pub conditions: HttpConditions,
    /// Depth.
    pub depth: Option<Depth>,
    /// The values of Timeout.
    pub timeout: Option<Vec<u8>>,
    /// The body, for methods that have one in XML.
    pub body: Vec<u8>,
}

/// What to answer.
#[derive(Debug, Default)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// Fields.
    pub fields: Vec<(&'static str, String)>,
    /// An XML body; empty: none.
    pub body: String,
}

impl Reply {
    /// A reply without fields and body.
    pub fn new(status: u16) -> Reply {
        Reply { status, ..Reply::default() }
    }

    /// The same with a field.
    #[must_use]
    pub fn field(mut self, name: &'static str, value: String) -> Reply {
        self.fields.push((name, value));
        self
    }
}

impl Call {
    /// What the client shows to know.
    pub fn holder(&self) -> Holder<'_> {
        Holder { tokens: &self.tokens, user: self.user.as_deref() }
    }
}

impl Context {
    /// The place of a resource that is read.
    pub fn place_to_read(&self, path: &[u8]) -> Result<Place> {
        if is_hidden(path, self.tree.hidden_files()) {
            return Err(Failure::new(404));
        }
        self.tree.place(path)
    }

    /// The place of a resource that is made, changed or removed. Nobody may do that to the names that
    /// configure servers.
    pub fn place_to_write(&self, path: &[u8]) -> Result<Place> {
        if is_protected(path, self.tree.hidden_files()) {
            return Err(Failure::new(403));
        }
        self.tree.place(path).map_err(Failure::missing_is_conflict)
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
        let walk = Walk { is_deep: true, most_entries: self.settings.most_entries, with_hidden: false };
        let entries = self.tree.walk(&place, &walk)?;
        Ok(entries.into_iter().map(|entry: Entry| entry.path).collect())
    }

    /// Whether what is at a place may be replaced or removed with all below it.
    fn may_remove(&self, tables: &Tables, call: &Call, place: &Place) -> Result<()> {
        may_change_tree(tables, call.holder(), &place.key)?;
        may_change_members(tables, call.holder(), place)
    }

    /// Whether the conditions of a request hold.
    fn check(&self, tables: &Tables, call: &Call, place: &Place) -> Result<()> {
        check(self, tables, call, place)
    }
}
