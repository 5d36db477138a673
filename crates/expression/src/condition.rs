//! A condition: `$status >= 500 or $path =~ "^/admin/" and not $client in ["192.0.2.1"]`.
//!
//! ```text
//! condition  = all *( "or" all )
//! all        = one *( "and" one )
//! one        = "not" one / "(" condition ")" / value [ comparison value / [ "not" ] "in" "[" values "]" ]
//! comparison = "==" / "!=" / "<" / "<=" / ">" / ">=" / "=~" / "!~"
//! value      = $variable / "text" / number
//! ```
//!
//! A value alone holds where it is neither empty nor `0`. The four comparisons of size are of numbers, and do
//! not hold where one side is none. `=~` takes an expression of the crate regex, which works on bytes and may
//! match anywhere in the value.

use std::borrow::Cow;

use regex::bytes::Regex;

use crate::LONGEST;
use crate::lexer::{Comparison, Word, words};
use crate::operand::Operand;
use crate::pattern;
use crate::scope::Scope;
use crate::source::Source;
use crate::variable::Variable;

/// How deep parentheses and `not` may be in each other.
const DEEPEST: usize = 32;

/// A condition, read once. Two are equal if they are written in the same way and their maps are equal.
#[derive(Clone, PartialEq)]
pub struct Condition {
    /// As it was written.
    source: Box<str>,
    node: Node,
}

#[derive(Clone, PartialEq)]
enum Node {
    All(Box<[Node]>),
    Any(Box<[Node]>),
    Not(Box<Node>),
    Is(Value),
    Compare(Value, Comparison, Value),
    Matches(Value, Expression),
    In(Value, Box<[Value]>),
}

/// A regular expression. It is equal to another one that is written in the same way.
#[derive(Clone)]
struct Expression(Regex);

impl PartialEq for Expression {
    fn eq(&self, other: &Expression) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

#[derive(Clone, PartialEq)]
enum Value {
    Variable(Operand),
    Plain(Box<[u8]>),
}

impl Condition {
    /// Reads a condition; the error describes its problem.
    pub fn read<'s>(text: &str, scope: impl Into<Scope<'s>>) -> Result<Condition, String> {
        if text.len() > LONGEST {
            return Err(format!("is longer than {LONGEST} bytes"));
        }
        let words = words(text, scope.into())?;
        if words.is_empty() {
            return Err("a condition has at least one value, such as $status >= 400".to_string());
        }
        let mut parser = Parser { words: &words, depth: 0 };
        let node = parser.any()?;
        match parser.words {
            [] => Ok(Condition { source: text.into(), node }),
            [Word::Close, ..] => Err("a ')' has no '(' before it".to_string()),
            _ => Err(format!("{text:?} continues where 'and', 'or' or its end is expected")),
        }
    }

    /// The condition as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether it uses a variable for which this is so.
    pub fn uses(&self, is_meant: impl Fn(&Variable) -> bool) -> bool {
        self.node.uses(&is_meant)
    }

    /// Whether it holds.
    pub fn holds(&self, source: &dyn Source) -> bool {
        self.node.holds(source)
    }
}

impl std::fmt::Debug for Condition {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Condition").field(&self.source).finish()
    }
}

impl Node {
    fn holds(&self, source: &dyn Source) -> bool {
        match self {
            Node::All(nodes) => nodes.iter().all(|node| node.holds(source)),
            Node::Any(nodes) => nodes.iter().any(|node| node.holds(source)),
            Node::Not(node) => !node.holds(source),
            Node::Is(value) => !matches!(&*value.of(source), b"" | b"0"),
            Node::Matches(value, expression) => expression.0.is_match(&value.of(source)),
            Node::In(value, values) => {
                let value = value.of(source);
                values.iter().any(|other| other.of(source) == value)
            }
            Node::Compare(one, comparison, other) => compare(&one.of(source), *comparison, &other.of(source)),
        }
    }

    fn uses(&self, is_meant: &dyn Fn(&Variable) -> bool) -> bool {
        let uses = |value: &Value| matches!(value, Value::Variable(operand) if operand.uses(is_meant));
        match self {
            Node::All(nodes) | Node::Any(nodes) => nodes.iter().any(|node| node.uses(is_meant)),
            Node::Not(node) => node.uses(is_meant),
            Node::Is(value) | Node::Matches(value, _) => uses(value),
            Node::In(value, values) => uses(value) || values.iter().any(uses),
            Node::Compare(one, _, other) => uses(one) || uses(other),
        }
    }
}

impl Value {
    fn of<'a>(&'a self, source: &'a dyn Source) -> Cow<'a, [u8]> {
        match self {
            Value::Variable(operand) => operand.value(source),
            Value::Plain(bytes) => Cow::Borrowed(bytes),
        }
    }
}

fn compare(one: &[u8], comparison: Comparison, other: &[u8]) -> bool {
    let numbers = |holds: fn(u64, u64) -> bool| match (number(one), number(other)) {
        (Some(one), Some(other)) => holds(one, other),
        _ => false,
    };
    match comparison {
        Comparison::Equal => one == other,
        Comparison::NotEqual => one != other,
        Comparison::Less => numbers(|one, other| one < other),
        Comparison::LessOrEqual => numbers(|one, other| one <= other),
        Comparison::Greater => numbers(|one, other| one > other),
        Comparison::GreaterOrEqual => numbers(|one, other| one >= other),
        // These have nodes of their own.
        Comparison::Matches | Comparison::MatchesNot => false,
    }
}

fn number(bytes: &[u8]) -> Option<u64> {
    std::str::from_utf8(bytes)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?
        .parse()
        .ok()
}

struct Parser<'w> {
    words: &'w [Word],
    depth: usize,
}

impl<'w> Parser<'w> {
    fn next(&mut self) -> Option<&'w Word> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first)
    }

    fn consume_if(&mut self, word: &Word) -> bool {
        let is_next = self.words.first() == Some(word);
        if is_next {
            self.next();
        }
        is_next
    }

    fn any(&mut self) -> Result<Node, String> {
        let mut nodes = vec![self.all()?];
        while self.consume_if(&Word::Or) {
            nodes.push(self.all()?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::Any(nodes.into()) })
    }

    fn all(&mut self) -> Result<Node, String> {
        let mut nodes = vec![self.one()?];
        while self.consume_if(&Word::And) {
            nodes.push(self.one()?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::All(nodes.into()) })
    }

    fn one(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("more than {DEEPEST} parentheses and 'not' are nested"));
        }
        let node = if self.consume_if(&Word::Not) {
            Node::Not(Box::new(self.one()?))
        } else if self.consume_if(&Word::Open) {
            let node = self.any()?;
            if !self.consume_if(&Word::Close) {
                return Err("a '(' has no ')'".to_string());
            }
            node
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn comparison(&mut self) -> Result<Node, String> {
        let value = self.value()?;
        match self.words {
            [Word::Compare(comparison), ..] => {
                let comparison = *comparison;
                self.next();
                match comparison {
                    Comparison::Matches => Ok(Node::Matches(value, self.expression()?)),
                    Comparison::MatchesNot => {
                        Ok(Node::Not(Box::new(Node::Matches(value, self.expression()?))))
                    }
                    _ => Ok(Node::Compare(value, comparison, self.value()?)),
                }
            }
            [Word::Not, Word::In, ..] => {
                self.next();
                self.next();
                Ok(Node::Not(Box::new(Node::In(value, self.list()?))))
            }
            [Word::In, ..] => {
                self.next();
                Ok(Node::In(value, self.list()?))
            }
            _ => Ok(Node::Is(value)),
        }
    }

    fn value(&mut self) -> Result<Value, String> {
        match self.next() {
            Some(Word::Variable(operand)) => Ok(Value::Variable(operand.clone())),
            // Outside of expressions two backslashes are one.
            Some(Word::Value(text)) => Ok(Value::Plain(text.replace("\\\\", "\\").into_bytes().into())),
            Some(_) | None => Err("a value is missing: a variable, a text in quotes or a number".to_string()),
        }
    }

    fn expression(&mut self) -> Result<Expression, String> {
        let Some(Word::Value(text)) = self.next() else {
            return Err("'=~' and '!~' take an expression in quotes".to_string());
        };
        pattern::read(text, false)
            .map(Expression)
            .map_err(|problem| format!("{text:?} is not an expression: {problem}"))
    }

    fn list(&mut self) -> Result<Box<[Value]>, String> {
        let misses = || "'in' takes a list, such as [\"GET\", \"HEAD\"]".to_string();
        if !self.consume_if(&Word::OpenList) {
            return Err(misses());
        }
        let mut values = Vec::new();
        while !self.consume_if(&Word::CloseList) {
            if !values.is_empty() && !self.consume_if(&Word::Comma) {
                return Err(misses());
            }
            // A comma may follow the last value.
            if self.consume_if(&Word::CloseList) {
                break;
            }
            values.push(self.value()?);
        }
        Ok(values.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variable::{AvailableFrom, Fact};
    use proptest::prelude::*;
    use touchstone_http::request_view::RequestView;

    struct Answered<'a>(RequestView<'a>, u16);

    impl Source for Answered<'_> {
        fn value<'a>(&'a self, variable: &'a Variable) -> Option<Cow<'a, [u8]>> {
            match variable.fact {
                Fact::Status => Some(Cow::Owned(self.1.to_string().into_bytes())),
                _ => self.0.value(variable),
            }
        }
    }

    fn holds(text: &str) -> bool {
        let fields = [("Accept", "text/html"), ("X-Zero", "0")];
        let view = RequestView { fields: &fields, query: Some(b"n=10"), ..RequestView::example("/a/b.php") };
        Condition::read(text, AvailableFrom::Answer).unwrap().holds(&Answered(view, 404))
    }

    #[test]
    fn conditions() {
        for (text, expected) in [
            ("$status >= 400", true),
            ("$status < 400", false),
            ("$status == 404", true),
            ("$status == \"404\"", true),
            ("$status != 404", false),
            ("$method == \"GET\"", true),
            ("$method in [\"HEAD\", 'GET',]", true),
            ("$method not in [\"HEAD\", 'GET']", false),
            ("$method in []", false),
            ("$path =~ \"\\.php$\"", true),
            ("$path !~ '\\.php$'", false),
            ("$path =~ '^/A'", false),
            ("$path =~ '(?i)^/A'", true),
            ("$header{accept}", true),
            ("$header{x-zero}", false),
            ("$header{none}", false),
            ("not $header{none}", true),
            ("!$header{none} && $arg{n} > 9", true),
            ("$arg{n} > \"x\"", false),
            ("$status == 200 or $status == 404 and $method == 'POST'", false),
            ("($status == 200 or $status == 404) and $method == 'GET'", true),
            ("$client == '192.0.2.1'", true),
            ("'a\\\\b' == 'a\\\\b'", true),
            ("'it\\'s' == \"it's\"", true),
            ("0 or 1", true),
        ] {
            assert_eq!(holds(text), expected, "{text}");
        }
    }

    #[test]
    fn refused() {
        let problem = |text: &str| Condition::read(text, AvailableFrom::Answer).unwrap_err();
        assert!(problem("").contains("at least one value"));
        assert!(problem("$status = 4").contains("'=='"));
        assert!(problem("$status == ").contains("value is missing"));
        assert!(problem("$status 4").contains("continues"));
        assert!(problem("status == 4").contains("begins with '$'"));
        assert!(problem("($status").contains("no ')'"));
        assert!(problem("$status)").contains("no '('"));
        assert!(problem("$path =~ $method").contains("expression in quotes"));
        assert!(problem("$path =~ '('").contains("is not an expression"));
        assert!(problem("$path == 'a").contains("no quote"));
        assert!(problem("$path in 'a'").contains("takes a list"));
        assert!(problem(&"(".repeat(40)).contains("more than 32"));
        assert!(problem("$status # 1").contains("no meaning"));
        assert!(
            Condition::read("$status", AvailableFrom::Request).unwrap_err().contains("is not valid here")
        );
    }

    #[test]
    fn what_is_used_is_told() {
        let condition =
            Condition::read("not ($path =~ 'a' or $duration_us > 5)", AvailableFrom::Answer).unwrap();
        assert!(condition.uses(|variable| variable.fact == Fact::Duration));
        assert!(!condition.uses(|variable| variable.fact == Fact::Status));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[$a-z{}()\\[\\]=~!<>'\"0-9 ,]{0,40}|\\PC{0,40}") {
            if let Ok(condition) = Condition::read(&text, AvailableFrom::Answer) {
                condition.holds(&RequestView::example("/"));
            }
        }
    }
}
