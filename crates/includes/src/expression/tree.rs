//! The tree of a condition of Apache 2.4: what the parser makes and evaluation walks over.

use std::cmp::Ordering;

use super::address::Network;
use super::functions::Function;
use super::regular_expression::RegularExpression;
use super::request_variable::RequestVariable;

/// What is true or false.
#[derive(Debug)]
pub(super) enum Node {
    Constant(bool),
    Not(Box<Node>),
    /// The first that holds decides.
    Any(Vec<Node>),
    /// The first that does not hold decides.
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

/// An order of two values.
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
    /// Whether two values of this order are in it.
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

/// What has a text as its value.
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

/// What has several texts.
#[derive(Debug)]
pub(super) enum List {
    Words(Vec<Word>),
    /// Each word of the list cut apart at the matches.
    Split(RegularExpression, Box<List>),
    /// The same, after the matches have been replaced.
    SplitSubstituted(Box<Substitution>, Box<List>),
}

/// `s/pattern/replacement/flags`
#[derive(Debug)]
pub(super) struct Substitution {
    pub(super) pattern: RegularExpression,
    pub(super) replacement: Word,
    pub(super) everywhere: bool,
}
