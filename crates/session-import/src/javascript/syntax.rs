//! The syntax tree of a script.

use std::rc::Rc;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expression {
    Text(String),
    /// The texts of a template and the expressions between them: one text more than expressions.
    Template(Vec<String>, Vec<Expression>),
    Number(f64),
    Name(String),
    /// The pattern of a regular expression.
    Pattern(String),
    List(Vec<Expression>),
    Object(Vec<(Key, Expression)>),
    Function(Rc<Function>),
    Member(Box<Expression>, String),
    Index(Box<Expression>, Box<Expression>),
    Call(Box<Expression>, Vec<Expression>),
    New(Box<Expression>, Vec<Expression>),
    /// All elements of a list, or fields of an object: `...list`.
    Spread(Box<Expression>),
    Unary(&'static str, Box<Expression>),
    Binary(&'static str, Box<Expression>, Box<Expression>),
    /// `condition ? yes : no`
    Choice(Box<Expression>, Box<Expression>, Box<Expression>),
    /// The target of an assignment, the operator before `=`, and the value.
    Assign(Box<Expression>, &'static str, Box<Expression>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Key {
    Name(String),
    Computed(Expression),
    Spread,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Function {
    pub(crate) parameters: Vec<Binding>,
    pub(crate) body: Vec<Statement>,
}

/// The names that a declaration defines.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Binding {
    Name(String, Option<Expression>),
    Object(Vec<(String, Binding)>),
    List(Vec<Binding>),
}

/// A statement and its position.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Statement {
    /// From 1.
    pub(crate) line: usize,
    /// Its first line.
    pub(crate) source: String,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Expression(Expression),
    Declare(Vec<(Binding, Option<Expression>)>),
    /// A function with a name; `is_default` if it is the default export.
    Function {
        name: String,
        function: Rc<Function>,
        is_default: bool,
    },
    /// `export default EXPRESSION`
    Default(Expression),
    /// Imported names as (exported name, local name), and the module.
    Import(Vec<(String, String)>, String),
    If(Expression, Vec<Statement>, Vec<Statement>),
    Block(Vec<Statement>),
    /// `for (const name of list)`; true: `in`.
    ForEach(Binding, Expression, bool, Vec<Statement>),
    For {
        first: Option<Box<Statement>>,
        test: Option<Expression>,
        update: Option<Expression>,
        body: Vec<Statement>,
    },
    While(Expression, Vec<Statement>),
    Switch(Expression, Vec<(Option<Expression>, Vec<Statement>)>),
    Return(Option<Expression>),
    Break,
    Continue,
    Throw,
    Empty,
    /// A statement that is not supported.
    Unknown,
}
