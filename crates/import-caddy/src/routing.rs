//! The context while routes are built: the enclosing block, and the changes that apply in addition to an
//! answer.

use std::collections::BTreeSet;

use super::context::{Context, NamedMatchers, PlaceholderValue};
use super::forward_auth::Authority;
use super::matcher::Matcher;
use touchstone_import_base::account::Account;
use touchstone_import_base::directive::{Directive, Place};
use touchstone_import_base::output::Section;

/// The context of a block of steps.
#[derive(Clone)]
pub struct Level<'d> {
    /// The requests that reach this block.
    pub outer: Matcher,
    /// The prefix that was removed from their paths.
    pub stripped: String,
    /// The directory of their files, if it differs from the site's.
    pub root: Option<String>,
    /// What placeholders stand for.
    pub context: Context,
    /// The changes that apply to answers.
    pub changes: Vec<Change<'d>>,
}

impl Level<'_> {
    /// The context of a route to which these changes apply.
    pub fn context_with(&self, changes: &[&Change<'_>], expression: Option<&str>) -> Context {
        let bound: Vec<&(String, PlaceholderValue)> = self
            .applied(changes)
            .filter_map(|change| match &change.what {
                ChangeKind::Bind(bound) => Some(bound),
                _ => None,
            })
            .flatten()
            .collect();
        self.context.with(&bound, expression)
    }

    /// These changes, in the order of the directives.
    pub fn applied<'c>(&'c self, changes: &'c [&Change<'_>]) -> impl Iterator<Item = &'c Change<'c>> {
        let is_one = |change: &&Change<'_>| changes.iter().any(|other| std::ptr::eq(*other, *change));
        self.changes.iter().filter(is_one)
    }
}

/// A change that applies to some requests.
#[derive(Clone)]
pub struct Change<'d> {
    /// The requests.
    pub matcher: Matcher,
    /// The change.
    pub what: ChangeKind,
    /// The directive that makes it.
    pub directive: &'d Directive,
}

/// A change to a request or its answer.
#[derive(Clone, PartialEq)]
pub enum ChangeKind {
    /// A field of the answer, with its value in Caddy's language; empty: it is removed.
    Field(String, String),
    /// A user name and a password are required.
    Password,
    /// The maximum size of a request's body.
    BodyBytes(u64),
    /// The directory of files.
    Root(String),
    /// Files that are tried first.
    TryFiles(Vec<String>),
    /// A prefix that is removed from the path.
    StripPrefix(String),
    /// Placeholders get a meaning.
    Bind(Vec<(String, PlaceholderValue)>),
    /// A field for the origin, with its value in Caddy's language; `None`: it is removed.
    OriginField(String, Option<String>),
    /// The path becomes another one, in Caddy's language.
    Rewrite(String),
    /// Another server decides.
    ForwardAuth(Authority),
    /// The content codings.
    Compression(Vec<String>),
    /// Requests are not logged.
    NoLog,
    /// Only these clients are allowed, or all except these.
    Clients { allow: Vec<String>, deny: Vec<String> },
}

/// The inputs for building routes, and the results so far.
pub struct Routing<'a, 'd> {
    /// The named matchers of the site.
    pub named: &'a NamedMatchers<'d>,
    /// The result of each directive.
    pub account: &'a mut Account,
    /// Directives that were not translated, to be noted at their place in the text.
    pub notes: Section,
    /// Directives that have been counted.
    pub handled: BTreeSet<Place>,
    /// The site has origins or scripts, which may ignore the case of a path.
    pub has_programs: bool,
    /// Directives of the block that refuse requests and were not translated.
    pub shut: Vec<&'d Directive>,
    /// The notes about directives that were reported, each once.
    pub reported_notes: BTreeSet<(Place, String, String)>,
}

impl Routing<'_, '_> {
    /// Counts a directive as translated, once.
    pub fn count_translated(&mut self, directive: &Directive) {
        if self.handled.insert(directive.place.clone()) {
            self.account.translated(directive, &mut Section::default());
        }
    }

    /// Counts a directive as translated and adds its line as a comment.
    pub fn count_as_comment(&mut self, directive: &Directive, section: &mut Section) {
        self.count_translated(directive);
        section.note(directive.to_string());
    }

    /// Records a directive that was not translated, once for each advice.
    pub fn problem(&mut self, directive: &Directive, advice: &str) {
        if self.reported_notes.insert((directive.place.clone(), directive.text(), advice.to_string())) {
            self.account.problem(directive, &mut self.notes, advice);
        }
    }
}
