//! The syntax tree of a condition of Apache 2.4.

use std::cmp::Ordering;

use super::address::Network;
use super::functions::Function;
use super::regular_expression::RegularExpression;
use super::request_variable::RequestVariable;

/// A node with a truth value.
#[derive(Debug)]
pub(super) enum Node {
    Constant(bool),
    Not(Box<Node>),
    /// The first true operand decides.
    Any(Vec<Node>),
    /// The first false operand decides.
    All(Vec<Node>),
    Numbers(Comparison, Word, Word),
    Strings(Comparison, Word, Word),
    Matches {
        negated: bool,
        subject: Word,
        pattern: RegularExpression,
    },
    In(Word, List),
    IsEmpty(Word),
    IsTrue(Word),
    Accessible(Word),
    IsFile(Word),
    RemoteIn(Network),
    AddressIn(Word, Network),
    Wildcard {
        subject: Word,
        pattern: Word,
        any_case: bool,
        paths: bool,
    },
}

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// Whether two values with this order satisfy it.
    pub(super) fn holds(self, ordering: Ordering) -> bool {
        match self {
            Comparison::Equal => ordering.is_eq(),
            Comparison::NotEqual => ordering.is_ne(),
            Comparison::Less => ordering.is_lt(),
            Comparison::LessOrEqual => ordering.is_le(),
            Comparison::Greater => ordering.is_gt(),
            Comparison::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

/// An expression with a text as its value.
#[derive(Debug)]
pub(super) enum Word {
    Text(Vec<u8>),
    Concatenated(Vec<Word>),
    Variable(RequestVariable),
    Function(Function, Box<Word>),
    /// `replace(text, from, to)`
    Replace(Box<[Word; 3]>),
    Capture(usize),
    Condition(Box<Node>),
    Substituted {
        subject: Box<Word>,
        substitution: Box<Substitution>,
    },
    Joined(Box<List>, Option<Box<Word>>),
}

/// An expression with several texts.
#[derive(Debug)]
pub(super) enum List {
    Words(Vec<Word>),
    /// Each word of the list, split at the matches.
    Split(RegularExpression, Box<List>),
    /// The same after the matches have been replaced.
    SplitSubstituted(Box<Substitution>, Box<List>),
}

/// `s/pattern/replacement/flags`
#[derive(Debug)]
pub(super) struct Substitution {
    pub(super) pattern: RegularExpression,
    pub(super) replacement: Word,
    pub(super) everywhere: bool,
}
