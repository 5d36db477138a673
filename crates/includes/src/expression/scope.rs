//! The scope of a condition: what it reads from the page and the request, and what it stores there.

use std::ops::Range;

/// The scope of a condition.
pub trait Scope {
    /// A variable of the page or the request; `None`: undefined.
    fn variable(&mut self, name: &[u8]) -> Option<Vec<u8>>;

    /// A variable of the server's environment that pages may use.
    fn system_variable(&mut self, name: &[u8]) -> Option<Vec<u8>>;

    /// A field of the request's head.
    fn request_field(&mut self, name: &[u8]) -> Option<Vec<u8>>;

    /// The current time in seconds since 1970.
    fn now(&mut self) -> i64;

    /// Whether a request for this path would be allowed.
    fn is_accessible(&mut self, path: &[u8]) -> bool;

    /// Whether this is the path of a file that requests can get.
    fn is_file(&mut self, path: &[u8]) -> bool;

    /// The captures of the last regular expression.
    fn captures(&mut self) -> &mut Captures;

    /// Stores a named group of a regular expression as a variable.
    fn set_variable(&mut self, name: &[u8], value: Vec<u8>);
}

/// The captures of the last regular expression: `$0` to `$9`.
#[derive(Debug, Default)]
pub struct Captures {
    subject: Vec<u8>,
    groups: Vec<Option<Range<usize>>>,
    /// False before the first regular expression, and after one that did not match.
    matched: bool,
}

impl Captures {
    /// Group `index`; `None` if it was not part of the match, or if nothing matched.
    pub fn group(&self, index: usize) -> Option<&[u8]> {
        let range = self.groups.get(index).filter(|_| self.matched)?.clone()?;
        self.subject.get(range)
    }

    pub(super) fn set(&mut self, subject: &[u8], groups: Option<Vec<Option<Range<usize>>>>) {
        self.matched = groups.is_some();
        self.groups = groups.unwrap_or_default();
        self.subject.clear();
        if self.matched {
            self.subject.extend_from_slice(subject);
        }
    }
}
