//! The conditions of a request, evaluated: If (RFC 4918 section 10.4), and If-Match and similar fields (RFC
//! 9110 section 13).

use touchstone_files::root::FileFacts;
use touchstone_http::conditional::{Conditions, FieldLines, Precondition, Validators, evaluate};

use crate::call::{Call, HttpConditions};
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::fields::Place as Target;
use crate::if_header::{State, StateList};
use crate::store::Tables;
use crate::tree::Place;

/// Whether all conditions of a request hold for the resource at `place`; otherwise 412.
pub fn check(context: &Context, tables: &Tables, call: &Call, place: &Place) -> Result<()> {
    check_http(&call.conditions, place.facts.as_ref())?;
    let Some(header) = &call.if_header else { return Ok(()) };
    if header.lists.iter().any(|list| holds(context, tables, call, place, list)) {
        return Ok(());
    }
    Err(Failure::new(412))
}

fn holds(context: &Context, tables: &Tables, call: &Call, place: &Place, list: &StateList) -> bool {
    let (key, facts) = match &list.resource {
        None => (Some(place.key.clone()), place.facts),
        Some(url) => {
            let other = match call.origin.place(url, context.settings.path_rules) {
                Some(Target::Here(path)) => context.tree.place(&path).ok(),
                _ => None,
            };
            let facts = other.as_ref().and_then(|other| other.facts);
            (other.map(|other| other.key), facts)
        }
    };
    list.conditions.iter().all(|condition| {
        let is_so = match &condition.state {
            State::Token(token) => {
                let lock = tables.lock(token);
                lock.is_some_and(|lock| key.as_ref().is_some_and(|key| lock.covers(key)))
            }
            State::EntityTag(tag) => facts.is_some_and(|facts| facts.etag().as_bytes() == &tag[..]),
        };
        is_so != condition.not
    })
}

fn check_http(conditions: &HttpConditions, facts: Option<&FileFacts>) -> Result<()> {
    let [matches, none_matches, unmodified] =
        [&conditions.if_match, &conditions.if_none_match, &conditions.if_unmodified_since]
            .map(|values| values.iter().map(Vec::as_slice).collect::<Vec<&[u8]>>());
    let Some(facts) = facts else {
        // There is no current representation (RFC 9110 section 13.1.1).
        return if matches.is_empty() { Ok(()) } else { Err(Failure::new(412)) };
    };
    let lines = |values| FieldLines::Several(values);
    let conditions = Conditions {
        if_match: lines(&matches),
        if_none_match: lines(&none_matches),
        if_unmodified_since: lines(&unmodified),
        ..Conditions::default()
    };
    let etag = facts.etag();
    let validators = Validators { etag: etag.as_bytes(), last_modified: facts.modified_seconds };
    let now = i64::try_from(crate::store::unix_seconds()).unwrap_or(i64::MAX);
    match evaluate(&conditions, &validators, false, now) {
        Precondition::Proceed => Ok(()),
        Precondition::NotModified | Precondition::Failed => Err(Failure::new(412)),
    }
}
