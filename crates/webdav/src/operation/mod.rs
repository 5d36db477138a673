//! The methods: each checks conditions and locks, changes the disk and the state, and returns the answer.
//! They wait for the disk, so they run on threads that may wait.

mod collection;
mod delete;
mod lock;
mod propfind;
mod proppatch;
mod put;
mod transfer;

use crate::call::Call;
use crate::conditions::check;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::locks::{may_change_members, may_change_tree};
use crate::store::Tables;
use crate::tree::Place;

pub use collection::make as make_collection;
pub use delete::delete;
pub use lock::{lock, unlock};
pub use propfind::{find as find_properties, write_properties};
pub use proppatch::change as change_properties;
pub use put::begin as begin_upload;
pub use transfer::{Transfer, transfer};

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

impl Context {
    /// Whether what is at a place may be replaced or removed with all below it.
    fn may_remove(&self, tables: &Tables, call: &Call, place: &Place) -> Result<()> {
        if !self.tree.may_remove(place)? {
            return Err(Failure::new(403));
        }
        may_change_tree(tables, call.holder(), &place.key)?;
        may_change_members(tables, call.holder(), place)
    }

    /// Whether the conditions of a request hold.
    fn check(&self, tables: &Tables, call: &Call, place: &Place) -> Result<()> {
        check(self, tables, call, place)
    }
}
