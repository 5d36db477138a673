//! Reads obj.conf and magnus.conf: from text to directives, without input and output.

pub(crate) mod expression;
pub mod lines;
pub mod magnus;
pub mod media_types;
pub mod objects;
pub(crate) mod parameters;
pub(crate) mod templates;

use std::fmt;
use std::sync::Arc;

use self::expression::{Expression, Template};
pub use self::parameters::{Parameters, parameter};

/// A line in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLocation {
    /// The file, or a name for another source.
    pub file: Arc<str>,
    /// The line, counted from 1.
    pub line: usize,
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A problem and its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Its location.
    pub location: SourceLocation,
    /// The fault and its remedy.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.message)
    }
}

/// A stage of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Identifies the client.
    AuthTrans,
    /// Translates the path to a file or program.
    NameTrans,
    /// Checks whether the client may access the file, and whether it exists.
    PathCheck,
    /// Finds the type of the file.
    ObjectType,
    /// Makes the answer.
    Service,
    /// Makes the answer if a stage has failed.
    Error,
    /// Logs the request.
    AddLog,
}

impl Stage {
    /// All of them, in their order.
    pub const ALL: [Stage; 7] = [
        Stage::AuthTrans,
        Stage::NameTrans,
        Stage::PathCheck,
        Stage::ObjectType,
        Stage::Service,
        Stage::Error,
        Stage::AddLog,
    ];

    /// Its name in obj.conf.
    pub fn name(self) -> &'static str {
        match self {
            Stage::AuthTrans => "AuthTrans",
            Stage::NameTrans => "NameTrans",
            Stage::PathCheck => "PathCheck",
            Stage::ObjectType => "ObjectType",
            Stage::Service => "Service",
            Stage::Error => "Error",
            Stage::AddLog => "AddLog",
        }
    }
}

/// `<Client>`: a condition for the directives inside it.
#[derive(Debug, Clone, PartialEq)]
pub struct Client {
    /// The patterns that the request must match, by name.
    pub conditions: Parameters,
    /// How many of them must match.
    pub needed: ClientMatch,
}

/// `match` of a `<Client>`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientMatch {
    /// `all`, the default.
    All,
    /// `any`
    Any,
    /// `none`
    None,
}

/// The condition of an `<If>` or `<ElseIf>`.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// Its location.
    pub location: SourceLocation,
    /// The expression that must be true.
    pub expression: Expression,
}

/// `<If>`, `<ElseIf>` or `<Else>`: a condition for the directives inside it.
#[derive(Debug, Clone, PartialEq)]
pub struct Branch {
    /// Its condition; `<Else>` has none.
    pub condition: Option<Arc<Condition>>,
    /// The conditions of the `<If>` and `<ElseIf>` before it, which must all be false.
    pub earlier: Vec<Arc<Condition>>,
    /// The branch that contains it.
    pub parent: Option<Arc<Branch>>,
}

/// A line of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Directive {
    /// The stage in which it runs.
    pub stage: Stage,
    /// Its location.
    pub location: SourceLocation,
    /// `fn` and other parameters.
    pub parameters: Parameters,
    /// The `<Client>` that contains it.
    pub client: Option<Arc<Client>>,
    /// The `<If>`, `<ElseIf>` or `<Else>` that contains it.
    pub branch: Option<Arc<Branch>>,
    /// Parameters with variables in their values, by their indexes.
    pub templates: Vec<(usize, Template)>,
}

/// An `Init` line.
#[derive(Debug, Clone, PartialEq)]
pub struct Init {
    /// Its location.
    pub location: SourceLocation,
    /// `fn` and other parameters.
    pub parameters: Parameters,
}

/// A line of magnus.conf that is not `Init`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its location.
    pub location: SourceLocation,
    /// Its name, unchanged.
    pub name: String,
    /// Its value, without quotes around it.
    pub value: String,
}

/// `<Object>`
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// The line at which it begins.
    pub location: SourceLocation,
    /// Its name, for `name=` of NameTrans.
    pub name: Option<Vec<u8>>,
    /// The pattern of the paths that it applies to.
    pub ppath: Option<Vec<u8>>,
    /// Its directives, in order.
    pub directives: Vec<Directive>,
    /// Lines of unknown stages: an error if a request may reach the object.
    pub refused: Vec<Problem>,
}

/// The contents of obj.conf and magnus.conf.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Configuration {
    /// `Init` lines, those of magnus.conf first.
    pub init: Vec<Init>,
    /// The objects.
    pub objects: Vec<Object>,
    /// The other lines of magnus.conf.
    pub settings: Vec<Setting>,
    /// Extensions with their types, of the files that `load-types` names.
    pub media_types: Vec<(String, String)>,
}
