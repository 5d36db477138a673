//! The parser of conditions of Apache 2.4: recursive descent without backtracking, at most [`MOST_NESTING`]
//! deep.

use crate::expression::address::Network;
use crate::expression::functions::Function;
use crate::expression::lexer::{Lexer, Token};
use crate::expression::limits::MOST_NESTING;
use crate::expression::regular_expression::RegularExpression;
use crate::expression::tree::{Comparison, List, Node, Substitution, Word};

/// Parses a condition.
pub(super) fn parse(text: &[u8]) -> Result<Node, String> {
    let mut parser = Parser { lexer: Lexer::new(text), nesting: 0 };
    let node = parser.condition()?;
    match parser.lexer.next()? {
        Token::End => Ok(node),
        token => Err(unexpected(&token)),
    }
}

pub(super) struct Parser<'a> {
    pub(super) lexer: Lexer<'a>,
    nesting: usize,
}

/// The contents of parentheses, which may be either until they have been parsed.
pub(super) enum Operand {
    Node(Node),
    Word(Word),
}

fn unexpected(token: &Token) -> String {
    match token {
        Token::End => "it is incomplete".to_owned(),
        Token::Mark(mark) => format!("{:?} is not expected here", char::from(*mark)),
        Token::Name(name) => format!("{name:?} is not expected here; strings stand in quotes"),
        Token::Operator(operator) => format!("the operator {operator} is not expected here"),
        Token::Binary(name) => format!("the operator -{name} is not expected here"),
        Token::Unary(letter) => format!("the operator -{} is not expected here", char::from(*letter)),
        Token::Regex { .. } => "a regular expression must follow =~ or !~".to_owned(),
        _ => "a value is not expected here".to_owned(),
    }
}

impl Parser<'_> {
    fn condition(&mut self) -> Result<Node, String> {
        match self.any()? {
            Operand::Node(node) => Ok(node),
            Operand::Word(_) => {
                Err("a comparison is missing after a value; use -n to test whether it is empty".to_owned())
            }
        }
    }

    pub(super) fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        if self.nesting == MOST_NESTING {
            return Err(format!("it is nested more than {MOST_NESTING} deep"));
        }
        self.nesting += 1;
        let result = read(self);
        self.nesting -= 1;
        result
    }

    pub(super) fn any(&mut self) -> Result<Operand, String> {
        self.deeper(|parser| parser.chain("||", Parser::all, Node::Any))
    }

    fn all(&mut self) -> Result<Operand, String> {
        self.chain("&&", Parser::negation, Node::All)
    }

    fn chain(
        &mut self,
        operator: &'static str,
        mut operand: impl FnMut(&mut Self) -> Result<Operand, String>,
        make: impl FnOnce(Vec<Node>) -> Node,
    ) -> Result<Operand, String> {
        let first = operand(self)?;
        if self.lexer.peek()? != Token::Operator(operator) {
            return Ok(first);
        }
        let mut nodes = vec![node(first)?];
        while self.lexer.peek()? == Token::Operator(operator) {
            self.lexer.next()?;
            nodes.push(node(operand(self)?)?);
        }
        Ok(Operand::Node(make(nodes)))
    }

    fn negation(&mut self) -> Result<Operand, String> {
        let mut negations = 0;
        while self.lexer.peek()? == Token::Operator("!") {
            self.lexer.next()?;
            negations += 1;
        }
        let operand = self.comparison()?;
        if negations == 0 {
            return Ok(operand);
        }
        let inner = node(operand)?;
        Ok(Operand::Node(if negations % 2 == 1 { Node::Not(Box::new(inner)) } else { inner }))
    }

    fn comparison(&mut self) -> Result<Operand, String> {
        match self.lexer.peek()? {
            Token::Operator("true") => {
                self.lexer.next()?;
                return Ok(Operand::Node(Node::Constant(true)));
            }
            Token::Operator("false") => {
                self.lexer.next()?;
                return Ok(Operand::Node(Node::Constant(false)));
            }
            Token::Unary(letter) => {
                self.lexer.next()?;
                let word = self.word()?;
                return Ok(Operand::Node(unary(letter, word)?));
            }
            _ => {}
        }
        let left = match self.concatenation()? {
            Operand::Word(word) => word,
            node => return Ok(node),
        };
        let token = self.lexer.peek()?;
        let node = match token {
            Token::Operator("=~" | "!~") => {
                self.lexer.next()?;
                let negated = token == Token::Operator("!~");
                Node::Matches { negated, subject: left, pattern: self.regex()? }
            }
            Token::Operator("-in") => {
                self.lexer.next()?;
                Node::In(left, self.list()?)
            }
            Token::Operator(operator) => {
                let Some((numbers, comparison)) = comparison(operator) else {
                    return Ok(Operand::Word(left));
                };
                self.lexer.next()?;
                let right = self.word()?;
                if numbers {
                    Node::Numbers(comparison, left, right)
                } else {
                    Node::Strings(comparison, left, right)
                }
            }
            Token::Binary(name) => {
                self.lexer.next()?;
                let right = self.word()?;
                binary(&name, left, right)?
            }
            _ => return Ok(Operand::Word(left)),
        };
        Ok(Operand::Node(node))
    }

    fn word(&mut self) -> Result<Word, String> {
        match self.concatenation()? {
            Operand::Word(word) => Ok(word),
            Operand::Node(_) => Err("a condition is in the place of a value".to_owned()),
        }
    }

    fn concatenation(&mut self) -> Result<Operand, String> {
        let first = match self.primary()? {
            Operand::Word(word) if self.lexer.peek()? == Token::Operator(".") => word,
            operand => return Ok(operand),
        };
        let mut words = vec![first];
        while self.lexer.peek()? == Token::Operator(".") {
            self.lexer.next()?;
            match self.primary()? {
                Operand::Word(word) => words.push(word),
                Operand::Node(_) => return Err("a condition is in the place of a value".to_owned()),
            }
        }
        Ok(Operand::Word(Word::Concatenated(words)))
    }

    fn primary(&mut self) -> Result<Operand, String> {
        let word = match self.lexer.next()? {
            Token::Mark(b'(') => {
                let inner = self.any()?;
                self.expect(Token::Mark(b')'), "')'")?;
                return Ok(inner);
            }
            Token::Digits(digits) => Word::Text(digits),
            Token::Quote(quote) => self.string(quote)?,
            Token::Capture(index) => Word::Capture(usize::from(index)),
            Token::VariableStart => self.deeper(Parser::variable)?,
            Token::ExpressionStart => self.inner_expression()?,
            Token::Operator("sub") => self.substituted()?,
            Token::Operator("join") => self.joined()?,
            Token::Name(name) => self.function(&name)?,
            token => return Err(unexpected(&token)),
        };
        Ok(Operand::Word(word))
    }

    pub(super) fn expect(&mut self, expected: Token, written: &str) -> Result<(), String> {
        match self.lexer.next()? {
            token if token == expected => Ok(()),
            Token::End => Err(format!("{written} is missing")),
            token => Err(format!("{}; {written} is missing", unexpected(&token))),
        }
    }

    fn function(&mut self, name: &str) -> Result<Word, String> {
        if self.lexer.peek()? != Token::Mark(b'(') {
            return Err(unexpected(&Token::Name(name.to_owned())));
        }
        self.lexer.next()?;
        let mut arguments = self.deeper(Parser::words)?;
        self.expect(Token::Mark(b')'), "')'")?;
        if name.eq_ignore_ascii_case("replace") {
            let arguments: [Word; 3] =
                arguments.try_into().map_err(|_| "replace takes three values".to_owned())?;
            return Ok(Word::Replace(Box::new(arguments)));
        }
        let function = Function::named(name)?;
        match (arguments.pop(), arguments.is_empty()) {
            (Some(argument), true) => Ok(Word::Function(function, Box::new(argument))),
            _ => Err(format!("{name} takes one value")),
        }
    }

    fn words(&mut self) -> Result<Vec<Word>, String> {
        let mut words = vec![self.word()?];
        while self.lexer.peek()? == Token::Mark(b',') {
            self.lexer.next()?;
            words.push(self.word()?);
        }
        Ok(words)
    }

    fn list(&mut self) -> Result<List, String> {
        self.deeper(|parser| match parser.lexer.next()? {
            Token::Mark(b'{') => {
                let words = parser.words()?;
                parser.expect(Token::Mark(b'}'), "'}'")?;
                Ok(List::Words(words))
            }
            Token::Mark(b'(') => {
                let list = parser.list()?;
                parser.expect(Token::Mark(b')'), "')'")?;
                Ok(list)
            }
            Token::Operator("split") => parser.split(),
            Token::Name(name) => Err(format!("no function {name} returns a list")),
            token => Err(unexpected(&token)),
        })
    }

    /// Parses `what`, which may be in parentheses.
    fn parenthesised<T>(&mut self, what: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        let parentheses = self.lexer.peek()? == Token::Mark(b'(');
        if parentheses {
            self.lexer.next()?;
        }
        let result = what(self)?;
        if parentheses {
            self.expect(Token::Mark(b')'), "')'")?;
        }
        Ok(result)
    }

    fn substituted(&mut self) -> Result<Word, String> {
        self.deeper(|parser| {
            parser.parenthesised(|parser| {
                let substitution = Box::new(parser.substitution()?);
                parser.expect(Token::Mark(b','), "','")?;
                Ok(Word::Substituted { subject: Box::new(parser.word()?), substitution })
            })
        })
    }

    fn joined(&mut self) -> Result<Word, String> {
        self.deeper(|parser| {
            parser.parenthesised(|parser| {
                let list = Box::new(parser.list()?);
                let mut separator = None;
                if parser.lexer.peek()? == Token::Mark(b',') {
                    parser.lexer.next()?;
                    separator = Some(Box::new(parser.word()?));
                }
                Ok(Word::Joined(list, separator))
            })
        })
    }

    fn split(&mut self) -> Result<List, String> {
        self.parenthesised(|parser| {
            let substitution = match parser.lexer.peek()? {
                Token::Regex { substitution: true, .. } => Err(parser.substitution()?),
                _ => Ok(parser.regex()?),
            };
            parser.expect(Token::Mark(b','), "','")?;
            let is_list = matches!(parser.lexer.peek()?, Token::Mark(b'{') | Token::Operator("split"));
            let list = Box::new(if is_list { parser.list()? } else { List::Words(vec![parser.word()?]) });
            Ok(match substitution {
                Ok(pattern) => List::Split(pattern, list),
                Err(substitution) => List::SplitSubstituted(Box::new(substitution), list),
            })
        })
    }

    fn regex(&mut self) -> Result<RegularExpression, String> {
        match self.lexer.next()? {
            Token::Regex { delimiter, substitution: false } => {
                let pattern = self.delimited(delimiter)?;
                let flags = self.flags()?;
                RegularExpression::new(&pattern, &flags)
            }
            token => Err(format!("{}; a regular expression is missing", unexpected(&token))),
        }
    }

    fn substitution(&mut self) -> Result<Substitution, String> {
        let Token::Regex { delimiter, substitution: true } = self.lexer.next()? else {
            return Err("a substitution, such as s/from/to/, is missing".to_owned());
        };
        let pattern = self.delimited(delimiter)?;
        let replacement = self.string(delimiter)?;
        let flags = self.flags()?;
        let everywhere = flags.contains(&b'g');
        Ok(Substitution { pattern: RegularExpression::new(&pattern, &flags)?, replacement, everywhere })
    }
}

fn node(operand: Operand) -> Result<Node, String> {
    match operand {
        Operand::Node(node) => Ok(node),
        Operand::Word(_) => {
            Err("a comparison is missing after a value; use -n to test whether it is empty".to_owned())
        }
    }
}

/// Whether the operator compares numbers, and its comparison.
fn comparison(operator: &str) -> Option<(bool, Comparison)> {
    Some(match operator {
        "=" => (false, Comparison::Equal),
        "!=" => (false, Comparison::NotEqual),
        "<" => (false, Comparison::Less),
        "<=" => (false, Comparison::LessOrEqual),
        ">" => (false, Comparison::Greater),
        ">=" => (false, Comparison::GreaterOrEqual),
        "-eq" => (true, Comparison::Equal),
        "-ne" => (true, Comparison::NotEqual),
        "-lt" => (true, Comparison::Less),
        "-le" => (true, Comparison::LessOrEqual),
        "-gt" => (true, Comparison::Greater),
        "-ge" => (true, Comparison::GreaterOrEqual),
        _ => return None,
    })
}

fn unary(letter: u8, word: Word) -> Result<Node, String> {
    match letter {
        b'z' => Ok(Node::IsEmpty(word)),
        b'n' => Ok(Node::Not(Box::new(Node::IsEmpty(word)))),
        b'T' => Ok(Node::IsTrue(word)),
        b'A' | b'U' => Ok(Node::Accessible(word)),
        b'F' => Ok(Node::IsFile(word)),
        b'R' => match word {
            Word::Text(network) => Network::parse(&network).map(Node::RemoteIn),
            _ => Err("-R needs a constant network".to_owned()),
        },
        b'd' | b'e' | b'f' | b's' | b'L' | b'h' | b'x' => {
            Err(format!("-{} reads files, which is not allowed in pages", char::from(letter)))
        }
        _ => Err(format!("unknown operator -{}", char::from(letter))),
    }
}

fn binary(name: &str, left: Word, right: Word) -> Result<Node, String> {
    let (any_case, paths) = match name.to_ascii_lowercase().as_str() {
        "strmatch" => (false, false),
        "strcmatch" => (true, false),
        "fnmatch" => (false, true),
        "ipmatch" => match right {
            Word::Text(network) => return Ok(Node::AddressIn(left, Network::parse(&network)?)),
            _ => return Err("-ipmatch needs a constant network".to_owned()),
        },
        _ => return Err(format!("unknown operator -{name}")),
    };
    Ok(Node::Wildcard { subject: left, pattern: right, any_case, paths })
}
