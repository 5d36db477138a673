//! obj.conf and magnus.conf, read as they are: from text to directives, without input and output.

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

/// Where something stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file, or what stands for it.
    pub file: Arc<str>,
    /// The line, from 1 on.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it stands.
    pub place: Place,
    /// What it is, and what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// A stage of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Who the client is.
    AuthTrans,
    /// Which file or program the path stands for.
    NameTrans,
    /// Whether the client may have it, and whether it is there.
    PathCheck,
    /// What type it is of.
    ObjectType,
    /// The answer.
    Service,
    /// The answer where a stage has failed.
    Error,
    /// What is written down of it.
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

/// `<Client>`: for which requests the directives in it are.
#[derive(Debug, Clone, PartialEq)]
pub struct Client {
    /// What the request must be like: names with patterns.
    pub conditions: Parameters,
    /// How many of them must be so.
    pub needed: Needed,
}

/// `match` of a `<Client>`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needed {
    /// `all`, as it is without.
    All,
    /// `any`
    Any,
    /// `none`
    None,
}

/// The condition of an `<If>` or `<ElseIf>`.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// Where it stands.
    pub place: Place,
    /// What must be so.
    pub expression: Expression,
}

/// `<If>`, `<ElseIf>` or `<Else>`: for which requests the directives in it are.
#[derive(Debug, Clone, PartialEq)]
pub struct Branch {
    /// Its condition; `<Else>` has none.
    pub condition: Option<Arc<Condition>>,
    /// Those of the `<If>` and the `<ElseIf>` before it, none of which may be so.
    pub earlier: Vec<Arc<Condition>>,
    /// The one that it stands in.
    pub parent: Option<Arc<Branch>>,
}

/// A line of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Directive {
    /// When it is looked at.
    pub stage: Stage,
    /// Where it stands.
    pub place: Place,
    /// `fn` and the others.
    pub parameters: Parameters,
    /// The `<Client>` that it stands in, if any.
    pub client: Option<Arc<Client>>,
    /// The `<If>`, `<ElseIf>` or `<Else>` that it stands in, if any.
    pub branch: Option<Arc<Branch>>,
    /// Parameters with variables in their values, by their places.
    pub templates: Vec<(usize, Template)>,
}

/// An `Init` line.
#[derive(Debug, Clone, PartialEq)]
pub struct Init {
    /// Where it stands.
    pub place: Place,
    /// `fn` and the others.
    pub parameters: Parameters,
}

/// A line of magnus.conf that is no `Init`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Where it stands.
    pub place: Place,
    /// Its name, as it is written.
    pub name: String,
    /// Its value, without quotes around it.
    pub value: String,
}

/// `<Object>`
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// Where it begins.
    pub place: Place,
    /// Its name, for `name=` of NameTrans.
    pub name: Option<Vec<u8>>,
    /// The pattern of the paths that it is for.
    pub ppath: Option<Vec<u8>>,
    /// Its lines, in their order.
    pub directives: Vec<Directive>,
    /// Lines of stages that there are none of: wrong where a request may reach the object.
    pub refused: Vec<Problem>,
}

/// All that obj.conf and magnus.conf say.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Configuration {
    /// `Init` lines, of magnus.conf first.
    pub init: Vec<Init>,
    /// The objects.
    pub objects: Vec<Object>,
    /// The other lines of magnus.conf.
    pub settings: Vec<Setting>,
    /// Endings with their types, of the files that `load-types` names.
    pub media_types: Vec<(String, String)>,
}
