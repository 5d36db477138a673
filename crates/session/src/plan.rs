//! The text forms of a session: what a suite or a file of sessions states, before it is compiled.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// What all requests of a plan share.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ScriptPlan {
    /// Rows whose columns are variables.
    pub data: Vec<DataPlan>,
    /// Whether clients keep the cookies that they are given, for the length of a session.
    pub cookies: bool,
}

/// A table of values: each session takes one row of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DataPlan {
    /// The file that it was read from, for messages.
    pub name: String,
    /// The names of the variables.
    pub columns: Vec<String>,
    /// The values; each row has as many as there are columns.
    pub rows: Arc<[Vec<String>]>,
    /// Which row a session takes.
    pub order: RowOrder,
}

/// Which row of a table a session takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RowOrder {
    /// Client `c` of `n` takes the rows `c`, `c + n`, `c + 2 n` and so on, from the beginning again after the
    /// last: no row is taken twice before the clients have gone through all of them.
    #[default]
    Sequence,
    /// Any row, drawn at random.
    Random,
}

/// What one request does beside being sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepPlan {
    /// Values that are taken from its answer.
    pub extract: Vec<ExtractPlan>,
    /// What must be true of its answer, for example `json $.ok == true`.
    pub assert: Vec<String>,
    /// How many redirects are followed.
    pub redirects: u32,
}

impl StepPlan {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.extract.is_empty() && self.assert.is_empty() && self.redirects == 0
    }
}

/// A value that is taken from an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtractPlan {
    /// The variable that it becomes.
    pub name: String,
    /// Where it is, for example `json $.token`.
    pub from: String,
}

/// Why a session cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptError(pub String);

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ScriptError {}
