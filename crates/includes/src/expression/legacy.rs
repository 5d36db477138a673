//! The grammar of Apache 2.2 and older: its parser, and its evaluation.
//!
//! ```text
//! condition  = comparison [ ("&&" | "||") condition ]
//! comparison = text ("=" | "==" | "!=") (text | "/" regex "/")
//!            | text ("<" | "<=" | ">" | ">=") text
//!            | operand
//! operand    = "!" operand | "-A" text | "(" [ condition ] ")" | text
//! ```
//!
//! `&&` and `||` have equal precedence and associate to the right: `a && b || c` is `a && (b || c)`. Texts
//! may be quoted with `'`; several in a row are joined with spaces. Variables are filled in at evaluation.
//! Most conditions of nginx are valid too; named groups become variables. In a regular expression a backslash
//! is kept, unless it precedes another backslash, a quote, a slash or a dollar sign.

use super::error::EvaluationError;
use super::limits::MOST_NESTING;
use super::regular_expression::RegularExpression;
use super::scope::Scope;
use super::tree::Comparison;
use crate::template::Template;

/// A condition.
#[derive(Debug)]
pub struct LegacyCondition {
    chain: Chain,
    /// While a regular expression remains to be evaluated, no operand is skipped: the page may use its
    /// matches.
    regexes: usize,
}

/// Operands with `&&` (true) or `||` (false) between them. Empty: always true.
#[derive(Debug, Default)]
struct Chain {
    operands: Vec<Operand>,
    ands: Vec<bool>,
}

#[derive(Debug)]
enum Operand {
    Text(Template),
    Not(Box<Operand>),
    /// `!` without an operand.
    BareNot,
    Group(Chain),
    Accessible(Template),
    Compare(Comparison, Template, Template),
    Matches {
        negated: bool,
        subject: Template,
        pattern: Pattern,
    },
}

/// A regular expression, which may contain variables.
#[derive(Debug)]
pub(super) enum Pattern {
    /// Without variables.
    Compiled(RegularExpression),
    /// Compiled when its variables are known.
    Template(Template),
}

impl Pattern {
    pub(super) fn new(template: Template) -> Result<Pattern, String> {
        Ok(match template.constant() {
            Some(pattern) => Pattern::Compiled(RegularExpression::new(pattern, b"")?),
            None => Pattern::Template(template),
        })
    }

    /// Whether it matches; stores its groups in the scope.
    pub(super) fn matches(&self, subject: &[u8], scope: &mut impl Scope) -> Result<bool, EvaluationError> {
        match self {
            Pattern::Compiled(pattern) => Ok(matches(subject, pattern, scope)),
            Pattern::Template(template) => {
                let pattern = fill(template, scope);
                let pattern = RegularExpression::new(&pattern, b"").map_err(EvaluationError)?;
                Ok(matches(subject, &pattern, scope))
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Open,
    Close,
    And,
    Or,
    Not,
    Access,
    Operator(Comparison),
    Text(Vec<u8>),
    Regex(Vec<u8>),
}

impl LegacyCondition {
    /// Parses a condition. An empty one is false.
    pub fn parse(text: &[u8]) -> Result<LegacyCondition, String> {
        let tokens = tokens(text);
        if tokens.is_empty() {
            let never = Operand::Text(Template::new(b""));
            return Ok(LegacyCondition {
                chain: Chain { operands: vec![never], ands: Vec::new() },
                regexes: 0,
            });
        }
        let mut parser = Parser { tokens: tokens.into_iter().peekable(), nesting: 0, regexes: 0 };
        let chain = parser.chain()?;
        match parser.tokens.next() {
            None => Ok(LegacyCondition { chain, regexes: parser.regexes }),
            Some(Token::Close) => Err("a ')' without a '('".to_owned()),
            Some(token) => Err(unexpected(&token)),
        }
    }

    /// Evaluates the condition.
    pub fn holds(&self, scope: &mut impl Scope) -> Result<bool, EvaluationError> {
        let mut regexes_left = self.regexes;
        self.chain.holds(scope, &mut regexes_left)
    }
}

struct Parser {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
    nesting: usize,
    regexes: usize,
}

fn unexpected(token: &Token) -> String {
    match token {
        Token::Regex(_) => "a regular expression must follow = or !=".to_owned(),
        Token::Text(text) => format!("{:?} is not expected here", String::from_utf8_lossy(text)),
        _ => "an operator is not expected here".to_owned(),
    }
}

impl Parser {
    fn chain(&mut self) -> Result<Chain, String> {
        if self.nesting == MOST_NESTING {
            return Err(format!("it is nested more than {MOST_NESTING} deep"));
        }
        self.nesting += 1;
        let mut chain = Chain::default();
        loop {
            chain.operands.push(self.comparison()?);
            match self.tokens.peek() {
                Some(Token::And) => chain.ands.push(true),
                Some(Token::Or) => chain.ands.push(false),
                _ => break,
            }
            self.tokens.next();
        }
        self.nesting -= 1;
        Ok(chain)
    }

    fn comparison(&mut self) -> Result<Operand, String> {
        let Some(Token::Text(_)) = self.tokens.peek() else { return self.operand() };
        let subject = self.text();
        let Some(&Token::Operator(operator)) = self.tokens.peek() else { return Ok(Operand::Text(subject)) };
        self.tokens.next();
        match self.tokens.peek() {
            Some(Token::Text(_)) => Ok(Operand::Compare(operator, subject, self.text())),
            Some(Token::Regex(_)) if matches!(operator, Comparison::Equal | Comparison::NotEqual) => {
                let Some(Token::Regex(pattern)) = self.tokens.next() else { return Err(String::new()) };
                self.regexes += 1;
                let pattern = Pattern::new(Template::new(&pattern))?;
                Ok(Operand::Matches { negated: operator == Comparison::NotEqual, subject, pattern })
            }
            Some(token) => Err(unexpected(token)),
            None => Err("the second operand of a comparison is missing".to_owned()),
        }
    }

    fn operand(&mut self) -> Result<Operand, String> {
        let mut negations = 0usize;
        while self.tokens.next_if_eq(&Token::Not).is_some() {
            negations += 1;
        }
        let operand = match self.tokens.next() {
            Some(Token::Text(first)) => {
                let text = self.text_from(first);
                if let Some(Token::Operator(_)) = self.tokens.peek() {
                    return Err("a '!' before a comparison: put the comparison in parentheses".to_owned());
                }
                Operand::Text(text)
            }
            Some(Token::Access) => match self.tokens.peek() {
                Some(Token::Text(_)) => Operand::Accessible(self.text()),
                _ => return Err("-A must be followed by a path".to_owned()),
            },
            Some(Token::Open) => {
                let chain = match self.tokens.peek() {
                    Some(Token::Close) => Chain::default(),
                    _ => self.chain()?,
                };
                match self.tokens.next() {
                    Some(Token::Close) => Operand::Group(chain),
                    Some(token) => return Err(unexpected(&token)),
                    None => return Err("a '(' without a ')'".to_owned()),
                }
            }
            Some(token) => return Err(unexpected(&token)),
            None if negations > 0 => {
                negations -= 1;
                Operand::BareNot
            }
            None => return Err("it is incomplete".to_owned()),
        };
        Ok(if negations % 2 == 1 { Operand::Not(Box::new(operand)) } else { operand })
    }

    fn text(&mut self) -> Template {
        self.text_from(Vec::new())
    }

    /// Joins texts in a row with spaces.
    fn text_from(&mut self, mut text: Vec<u8>) -> Template {
        while let Some(Token::Text(_)) = self.tokens.peek() {
            if let Some(Token::Text(more)) = self.tokens.next() {
                if !text.is_empty() {
                    text.push(b' ');
                }
                text.extend(more);
            }
        }
        Template::new(&text)
    }
}

fn tokens(text: &[u8]) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_ascii_start();
    while !rest.is_empty() {
        let after_access = tokens.last() == Some(&Token::Access);
        let (token, length) = token(rest, after_access);
        tokens.push(token);
        rest = rest[length..].trim_ascii_start();
    }
    tokens
}

/// The first token of `rest`, which is not empty, and its length.
fn token(rest: &[u8], after_access: bool) -> (Token, usize) {
    match (rest[0], rest.get(1)) {
        (b'(', _) => (Token::Open, 1),
        (b')', _) => (Token::Close, 1),
        (b'=', Some(b'=')) => (Token::Operator(Comparison::Equal), 2),
        (b'=', _) => (Token::Operator(Comparison::Equal), 1),
        (b'!', Some(b'=')) => (Token::Operator(Comparison::NotEqual), 2),
        (b'!', _) => (Token::Not, 1),
        (b'|', Some(b'|')) => (Token::Or, 2),
        (b'&', Some(b'&')) => (Token::And, 2),
        (b'>', Some(b'=')) => (Token::Operator(Comparison::GreaterOrEqual), 2),
        (b'>', _) => (Token::Operator(Comparison::Greater), 1),
        (b'<', Some(b'=')) => (Token::Operator(Comparison::LessOrEqual), 2),
        (b'<', _) => (Token::Operator(Comparison::Less), 1),
        (b'-', Some(b'A')) => (Token::Access, 2),
        (b'\'', _) => {
            let (text, length) = quoted(&rest[1..], b'\'');
            (Token::Text(text), 1 + length)
        }
        (b'/', _) if !after_access => {
            let (pattern, length) = quoted(&rest[1..], b'/');
            (Token::Regex(pattern), 1 + length)
        }
        _ => plain(rest),
    }
}

/// The text before the closing quote, without its backslashes; `None` if there is no closing quote. Most
/// backslashes of a regular expression, whose quote is a slash, are kept.
fn quoted(rest: &[u8], quote: u8) -> (Vec<u8>, usize) {
    let mut text = Vec::new();
    let mut at = 0;
    while let Some(&byte) = rest.get(at) {
        match (byte, rest.get(at + 1)) {
            (b'\\', Some(&escaped)) => {
                if quote == b'/' && !b"/\\'\"$".contains(&escaped) {
                    text.push(b'\\');
                }
                text.push(escaped);
                at += 1;
            }
            (b'\\', None) => {}
            (byte, _) if byte == quote => return (text, at + 1),
            (byte, _) => text.push(byte),
        }
        at += 1;
    }
    (Vec::new(), rest.len())
}

/// Reads a text without quotes: up to white space or an operator. Its first byte always belongs to it.
fn plain(rest: &[u8]) -> (Token, usize) {
    let mut text = Vec::new();
    let mut at = 0;
    while let Some(&byte) = rest.get(at) {
        let next = rest.get(at + 1);
        let doubled = matches!(byte, b'|' | b'&') && next == Some(&byte);
        let ends = byte.is_ascii_whitespace() || byte == 0x0b || b"()=!<>".contains(&byte) || doubled;
        if ends && at > 0 {
            break;
        }
        match (byte, next) {
            (b'\\', Some(&escaped)) => {
                text.push(escaped);
                at += 1;
            }
            (b'\\', None) => {}
            (byte, _) => text.push(byte),
        }
        at += 1;
    }
    (Token::Text(text), at)
}

impl Chain {
    fn holds(&self, scope: &mut impl Scope, regexes_left: &mut usize) -> Result<bool, EvaluationError> {
        // `a && (b || (c ...))`: evaluated from the left as far as needed, combined from the right.
        let mut values = Vec::with_capacity(self.operands.len());
        for (index, operand) in self.operands.iter().enumerate() {
            let value = operand.holds(scope, regexes_left)?;
            values.push(value);
            match self.ands.get(index) {
                Some(and) if *and != value && *regexes_left == 0 => break,
                _ => {}
            }
        }
        let Some(last) = values.pop() else { return Ok(true) };
        let combined = values.iter().zip(&self.ands).rev();
        Ok(combined.fold(last, |right, (&left, &and)| if and { left && right } else { left || right }))
    }
}

impl Operand {
    fn holds(&self, scope: &mut impl Scope, regexes_left: &mut usize) -> Result<bool, EvaluationError> {
        Ok(match self {
            Operand::Text(text) => !fill(text, scope).is_empty(),
            Operand::Not(operand) => !operand.holds(scope, regexes_left)?,
            Operand::BareNot => false,
            Operand::Group(chain) => chain.holds(scope, regexes_left)?,
            Operand::Accessible(path) => {
                let path = fill(path, scope);
                scope.is_accessible(&path)
            }
            Operand::Compare(operator, left, right) => {
                let left = fill(left, scope);
                let ordering = left.cmp(&fill(right, scope));
                operator.holds(ordering)
            }
            Operand::Matches { negated, subject, pattern } => {
                *regexes_left = regexes_left.saturating_sub(1);
                let subject = fill(subject, scope);
                pattern.matches(&subject, scope)? != *negated
            }
        })
    }
}

pub(super) fn fill(template: &Template, scope: &mut impl Scope) -> Vec<u8> {
    template.fill(|name| scope.variable(name))
}

fn matches(subject: &[u8], pattern: &RegularExpression, scope: &mut impl Scope) -> bool {
    let groups = pattern.groups(subject);
    if let Some(groups) = &groups {
        for (index, name) in pattern.names() {
            let value = groups.get(index).cloned().flatten().and_then(|range| subject.get(range));
            scope.set_variable(name.as_bytes(), value.unwrap_or_default().to_vec());
        }
    }
    let matched = groups.is_some();
    scope.captures().set(subject, groups);
    matched
}
