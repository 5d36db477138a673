//! What prints and what does not.
//!
//! Conditions switch printing on and off as in Apache, with one flag for whether this branch prints, one for
//! whether a branch was taken, and a count of conditions inside what does not print. So a page whose `if` and
//! `endif` do not match looks as it does there.

/// Whether what comes next prints.
pub(super) struct Flow {
    pub(super) prints: bool,
    /// A branch of the innermost condition was taken.
    pub(super) taken: bool,
    /// Conditions inside what does not print.
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
