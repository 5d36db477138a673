//! What is known while routes are made: where a block of steps stands, and what is changed beside answers.

use std::collections::BTreeSet;

use super::matcher::{Matcher, Named};
use super::placeholder::Facts;
use crate::account::Account;
use crate::directive::{Directive, Place};
use crate::output::Section;

/// What is known of a block of steps.
#[derive(Clone)]
pub struct Level<'d> {
    /// Which requests come here.
    pub outer: Matcher,
    /// What was taken from the beginning of their paths.
    pub stripped: String,
    /// The directory of their files, if it is not that of the site.
    pub root: Option<String>,
    /// What is done beside the answer.
    pub changes: Vec<Change<'d>>,
}

/// What is done beside an answer, for some requests.
#[derive(Clone)]
pub struct Change<'d> {
    /// Which requests.
    pub matcher: Matcher,
    /// What.
    pub what: What,
    /// Where it is written.
    pub directive: &'d Directive,
}

/// What is done beside an answer.
#[derive(Clone, PartialEq)]
pub enum What {
    /// A field of the answer; empty: it is removed.
    Field(String, String),
    /// A user and a password are asked for.
    Password,
    /// The largest body of a request.
    BodyBytes(u64),
    /// The directory of files.
    Root(String),
    /// Files that come first.
    TryFiles(Vec<String>),
    /// A beginning that is taken from the path.
    StripPrefix(String),
    /// A field for the origin; `None`: it is removed.
    OriginField(String, Option<String>),
    /// Only these clients are let in, or all but these.
    Clients { allow: Vec<String>, deny: Vec<String> },
}

/// What routes are made with, and what was told so far.
pub struct Routing<'a, 'd> {
    /// The matchers of the site.
    pub named: &'a Named<'d>,
    /// What placeholders stand for.
    pub facts: Facts,
    /// What becomes of each directive.
    pub account: &'a mut Account,
    /// What was not translated, for its place in the text.
    pub notes: Section,
    /// Directives that were told.
    pub told: BTreeSet<Place>,
}

impl Routing<'_, '_> {
    /// Counts a directive as translated, once.
    pub fn tell(&mut self, directive: &Directive) {
        if self.told.insert(directive.place.clone()) {
            self.account.translated(directive, &mut Section::default());
        }
    }

    /// The same, with its line as a comment.
    pub fn tell_in(&mut self, directive: &Directive, section: &mut Section) {
        self.tell(directive);
        section.note(directive.to_string());
    }

    /// A directive that was not translated.
    pub fn problem(&mut self, directive: &Directive, advice: &str) {
        self.account.problem(directive, &mut self.notes, advice);
    }
}
