//! The error that a condition could not be evaluated.

use std::fmt;

/// A condition could not be evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvaluationError(pub(super) String);

impl fmt::Display for EvaluationError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for EvaluationError {}
