//! The text forms of a session: the contents of a suite or session file, before it is compiled.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The settings that all requests of a plan share.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ScriptPlan {
    /// Rows whose columns are variables.
    pub data: Vec<DataPlan>,
    /// Whether clients keep cookies for the length of a session.
    pub cookies: bool,
}

/// A table of values: each session takes one row of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DataPlan {
    /// The name of the file, for messages.
    pub name: String,
    /// The names of the variables.
    pub columns: Vec<String>,
    /// The values; each row has one for each column.
    pub rows: Arc<[Vec<String>]>,
    /// The order in which sessions take rows.
    pub order: RowOrder,
}

/// The order in which sessions take the rows of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RowOrder {
    /// Client `c` of `n` takes the rows `c`, `c + n`, `c + 2 n` and so on, and starts again after the last:
    /// no row is taken twice before the clients have used all of them.
    #[default]
    Sequence,
    /// Any row, drawn at random.
    Random,
}

/// The actions for one request besides sending it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepPlan {
    /// Values to extract from its answer.
    pub extract: Vec<ExtractPlan>,
    /// Assertions about its answer, for example `json $.ok == true`.
    pub assert: Vec<String>,
    /// The number of redirects to follow.
    pub redirects: u32,
}

impl StepPlan {
    /// Whether there are no actions.
    pub fn is_empty(&self) -> bool {
        self.extract.is_empty() && self.assert.is_empty() && self.redirects == 0
    }
}

/// A value that is extracted from an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtractPlan {
    /// The name of the variable.
    pub name: String,
    /// The query that finds it, for example `json $.token`.
    pub from: String,
}

/// An error in the text of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptError(pub String);

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ScriptError {}
