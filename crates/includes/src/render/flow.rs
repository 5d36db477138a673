//! The state that decides whether the page's text is printed.
//!
//! Conditions switch printing on and off as in Apache: one flag for whether this branch prints, one for
//! whether a branch was taken, and a count of conditions inside a part that does not print. So a page whose
//! `if` and `endif` do not match has the same output as there.

/// Whether the following nodes print.
pub(super) struct Flow {
    pub(super) prints: bool,
    /// A branch of the innermost condition was taken.
    pub(super) taken: bool,
    /// The number of nested conditions in a part that does not print.
    pub(super) skipped: usize,
}

impl Flow {
    pub(super) fn new() -> Flow {
        Flow { prints: true, taken: true, skipped: 0 }
    }

    pub(super) fn take(&mut self, holds: bool) {
        self.prints = holds;
        self.taken = holds;
    }
}
