//! Parses statements. The interpreter reports statements that are not supported, with their line.

use super::syntax::{Binding, Expression, Function, Key, Kind, Statement};
use super::tokens::{PositionedToken, Token, tokens};
use std::rc::Rc;

/// The maximum depth of nested statements and expressions.
const MAXIMUM_DEPTH: usize = 300;
/// The maximum length of a script.
const MAXIMUM_BYTES: usize = 4 << 20;

/// Parses a script; an error has the line.
pub(crate) fn parse(text: &str) -> Result<Vec<Statement>, String> {
    parse_at(text, 1, 0)
}

/// Parses a part of a script that begins at this line.
pub(super) fn parse_at(text: &str, first_line: usize, depth: usize) -> Result<Vec<Statement>, String> {
    if text.len() > MAXIMUM_BYTES {
        return Err(format!("the script has more than {MAXIMUM_BYTES} bytes"));
    }
    let tokens = tokens(text, first_line).map_err(|(line, what)| format!("line {line}: {what}"))?;
    let mut parser = Parser { text, tokens, at: 0, depth };
    let mut found = Vec::new();
    while !parser.is_at_end() {
        found.extend(parser.statement_or_unknown());
    }
    Ok(found)
}

pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) tokens: Vec<PositionedToken>,
    pub(super) at: usize,
    pub(super) depth: usize,
}

impl Parser<'_> {
    pub(super) fn token(&self) -> &Token {
        &self.placed().token
    }

    pub(super) fn placed(&self) -> &PositionedToken {
        // The last token is the end; the position never passes it.
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    pub(super) fn ahead(&self, by: usize) -> &Token {
        self.tokens.get(self.at + by).map_or(&Token::End, |placed| &placed.token)
    }

    fn is_at_end(&self) -> bool {
        *self.token() == Token::End
    }

    pub(super) fn advance(&mut self) {
        if !self.is_at_end() {
            self.at += 1;
        }
    }

    pub(super) fn is_sign(&self, sign: &str) -> bool {
        matches!(self.token(), Token::Sign(found) if *found == sign)
    }

    pub(super) fn take_sign(&mut self, sign: &str) -> bool {
        let exists = self.is_sign(sign);
        if exists {
            self.advance();
        }
        exists
    }

    pub(super) fn expect_sign(&mut self, sign: &str) -> Option<()> {
        self.take_sign(sign).then_some(())
    }

    /// Reads the comma after an element in brackets, or checks for the closing bracket.
    pub(super) fn comma_before(&mut self, close: &str) -> Option<()> {
        (self.take_sign(",") || self.is_sign(close)).then_some(())
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(self.token(), Token::Name(name) if name == word)
    }

    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let exists = self.is_word(word);
        if exists {
            self.advance();
        }
        exists
    }

    pub(super) fn name(&mut self) -> Option<String> {
        let Token::Name(name) = self.token() else { return None };
        let name = name.clone();
        self.advance();
        Some(name)
    }

    pub(super) fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth >= MAXIMUM_DEPTH {
            return None;
        }
        self.depth += 1;
        let found = read(self);
        self.depth -= 1;
        found
    }

    /// Parses a statement. If it is not supported, stores its position and skips to its end.
    fn statement_or_unknown(&mut self) -> Option<Statement> {
        let (begin, depth) = (self.at, self.depth);
        let (line, from) = (self.placed().line, self.placed().begin);
        let kind = self.deeper(|parser| parser.statement()).unwrap_or_else(|| {
            (self.at, self.depth) = (begin, depth);
            self.skip_statement();
            Kind::Unknown
        });
        let last = self.at.saturating_sub(1).max(begin).min(self.tokens.len() - 1);
        let source = &self.text[from..self.tokens[last].end.max(from)];
        let source = source.lines().next().unwrap_or_default().trim_end_matches([';', ' ']).to_string();
        Some(Statement { line, source, kind })
    }

    /// Skips to the end of the statement: a semicolon, a line end outside brackets, or a closing bracket.
    fn skip_statement(&mut self) {
        let (begin, mut open) = (self.at, 0usize);
        while !self.is_at_end() {
            if open == 0 && self.at > begin && self.placed().is_after_line_end {
                return;
            }
            match self.token() {
                Token::Sign("(" | "[" | "{") => open += 1,
                Token::Sign(")" | "]" | "}") if open == 0 => {
                    // A closing bracket without an opening one is skipped, so that parsing continues.
                    if self.at == begin {
                        self.advance();
                    }
                    return;
                }
                Token::Sign(")" | "]" | "}") => open -= 1,
                Token::Sign(";") if open == 0 => return self.advance(),
                _ => {}
            }
            self.advance();
        }
    }

    /// `{ ... }`
    pub(super) fn block(&mut self) -> Option<Vec<Statement>> {
        self.expect_sign("{")?;
        let mut found = Vec::new();
        while !self.is_sign("}") {
            if self.is_at_end() {
                return None;
            }
            found.extend(self.statement_or_unknown());
        }
        self.advance();
        Some(found)
    }

    /// A block, or one statement.
    fn body(&mut self) -> Option<Vec<Statement>> {
        if self.is_sign("{") { self.block() } else { Some(self.statement_or_unknown().into_iter().collect()) }
    }

    fn end_of_statement(&mut self) -> Option<()> {
        let is_end =
            self.take_sign(";") || self.is_sign("}") || self.is_at_end() || self.placed().is_after_line_end;
        is_end.then_some(())
    }

    fn statement(&mut self) -> Option<Kind> {
        if self.take_sign(";") {
            return Some(Kind::Empty);
        }
        if self.is_sign("{") {
            return Some(Kind::Block(self.block()?));
        }
        let Token::Name(word) = self.token().clone() else { return self.expression_statement() };
        match word.as_str() {
            "import" if !matches!(self.ahead(1), Token::Sign("(" | ".")) => self.import(),
            "export" => self.export(),
            "const" | "let" | "var" => {
                self.advance();
                let kind = self.declarations()?;
                self.end_of_statement()?;
                Some(kind)
            }
            "function" => self.named_function(false),
            "async" if *self.ahead(1) == Token::Name("function".to_string()) => {
                self.advance();
                self.named_function(false)
            }
            "if" => self.condition(),
            "for" => self.deeper(|parser| parser.for_loop()),
            "while" => {
                self.advance();
                let test = self.in_brackets()?;
                Some(Kind::While(test, self.body()?))
            }
            "do" => {
                self.advance();
                let body = self.body()?;
                self.take_word("while").then_some(())?;
                let test = self.in_brackets()?;
                self.take_sign(";");
                Some(Kind::While(test, body))
            }
            "switch" => self.switch(),
            "try" => self.attempt(),
            "return" => {
                self.advance();
                let is_empty = self.is_sign(";") || self.is_sign("}") || self.placed().is_after_line_end;
                let value = if is_empty { None } else { Some(self.expression()?) };
                self.end_of_statement()?;
                Some(Kind::Return(value))
            }
            "break" | "continue" => {
                self.advance();
                if !self.placed().is_after_line_end {
                    self.name();
                }
                self.end_of_statement()?;
                Some(if word == "break" { Kind::Break } else { Kind::Continue })
            }
            "throw" => {
                self.advance();
                self.expression()?;
                self.end_of_statement()?;
                Some(Kind::Throw)
            }
            "class" => None,
            _ => self.expression_statement(),
        }
    }

    fn expression_statement(&mut self) -> Option<Kind> {
        let value = self.expression()?;
        self.end_of_statement()?;
        Some(Kind::Expression(value))
    }

    fn in_brackets(&mut self) -> Option<Expression> {
        self.expect_sign("(")?;
        let value = self.expression()?;
        self.expect_sign(")")?;
        Some(value)
    }

    fn declarations(&mut self) -> Option<Kind> {
        let mut list = Vec::new();
        loop {
            let binding = self.binding(false)?;
            let value = if self.take_sign("=") { Some(self.assignment()?) } else { None };
            list.push((binding, value));
            if !self.take_sign(",") {
                return Some(Kind::Declare(list));
            }
        }
    }

    /// A name, or names in an object or a list; within brackets it can have a default.
    pub(super) fn binding(&mut self, is_inside: bool) -> Option<Binding> {
        self.deeper(|parser| {
            let binding = parser.binding_without_default()?;
            if !is_inside || !parser.take_sign("=") {
                return Some(binding);
            }
            let default = parser.assignment()?;
            Some(match binding {
                Binding::Name(name, _) => Binding::Name(name, Some(default)),
                // The argument is assumed to be given.
                other => other,
            })
        })
    }

    fn binding_without_default(&mut self) -> Option<Binding> {
        if self.take_sign("{") {
            return self.object_binding();
        }
        if self.take_sign("[") {
            let mut list = Vec::new();
            while !self.take_sign("]") {
                if self.is_sign(",") {
                    list.push(Binding::Name(String::new(), None));
                } else {
                    list.push(self.binding(true)?);
                }
                self.comma_before("]")?;
            }
            return Some(Binding::List(list));
        }
        self.take_sign("...");
        Some(Binding::Name(self.name()?, None))
    }

    fn object_binding(&mut self) -> Option<Binding> {
        let mut fields = Vec::new();
        while !self.take_sign("}") {
            if self.take_sign("...") {
                let name = self.name()?;
                fields.push((String::new(), Binding::Name(name, None)));
            } else {
                let key = match self.token().clone() {
                    Token::Name(key) | Token::Text(key) => key,
                    _ => return None,
                };
                self.advance();
                let binding = if self.take_sign(":") {
                    self.binding(true)?
                } else if self.take_sign("=") {
                    Binding::Name(key.clone(), Some(self.assignment()?))
                } else {
                    Binding::Name(key.clone(), None)
                };
                fields.push((key, binding));
            }
            self.comma_before("}")?;
        }
        Some(Binding::Object(fields))
    }

    fn named_function(&mut self, is_default: bool) -> Option<Kind> {
        self.advance();
        self.take_sign("*");
        let name = self.name();
        let function = self.function_rest()?;
        if name.is_none() && !is_default {
            return None;
        }
        Some(Kind::Function { name: name.unwrap_or_default(), function, is_default })
    }

    /// Parses the parameters and the body of a function.
    pub(super) fn function_rest(&mut self) -> Option<Rc<Function>> {
        let parameters = self.parameters()?;
        let body = self.deeper(|parser| parser.block())?;
        Some(Rc::new(Function { parameters, body }))
    }

    pub(super) fn parameters(&mut self) -> Option<Vec<Binding>> {
        self.expect_sign("(")?;
        let mut parameters = Vec::new();
        while !self.take_sign(")") {
            parameters.push(self.binding(true)?);
            self.comma_before(")")?;
        }
        Some(parameters)
    }

    fn import(&mut self) -> Option<Kind> {
        self.advance();
        let mut names = Vec::new();
        if let Token::Text(from) = self.token().clone() {
            self.advance();
            self.end_of_statement()?;
            return Some(Kind::Import(names, from));
        }
        loop {
            if self.take_sign("{") {
                while !self.take_sign("}") {
                    let there = self.name()?;
                    let here = if self.take_word("as") { self.name()? } else { there.clone() };
                    names.push((there, here));
                    self.comma_before("}")?;
                }
            } else if self.take_sign("*") {
                self.take_word("as").then_some(())?;
                names.push(("*".to_string(), self.name()?));
            } else {
                names.push(("default".to_string(), self.name()?));
            }
            if !self.take_sign(",") {
                break;
            }
        }
        self.take_word("from").then_some(())?;
        let Token::Text(from) = self.token().clone() else { return None };
        self.advance();
        self.end_of_statement()?;
        Some(Kind::Import(names, from))
    }

    fn export(&mut self) -> Option<Kind> {
        self.advance();
        if self.take_sign("{") {
            let mut default = None;
            while !self.take_sign("}") {
                let here = self.name()?;
                if self.take_word("as") && self.name()? == "default" {
                    default = Some(here);
                }
                self.comma_before("}")?;
            }
            if self.take_word("from") {
                self.advance();
            }
            self.end_of_statement()?;
            return Some(default.map_or(Kind::Empty, |name| Kind::Default(Expression::Name(name))));
        }
        if !self.take_word("default") {
            return self.deeper(|parser| parser.statement());
        }
        if self.is_word("async") && *self.ahead(1) == Token::Name("function".to_string()) {
            self.advance();
        }
        if self.is_word("function") {
            return self.named_function(true);
        }
        let value = self.assignment()?;
        self.end_of_statement()?;
        Some(Kind::Default(value))
    }

    fn condition(&mut self) -> Option<Kind> {
        self.advance();
        let test = self.in_brackets()?;
        let yes = self.body()?;
        let no = if self.take_word("else") { self.body()? } else { Vec::new() };
        Some(Kind::If(test, yes, no))
    }

    fn for_loop(&mut self) -> Option<Kind> {
        self.advance();
        self.take_word("await");
        self.expect_sign("(")?;
        let begin = self.at;
        let is_declared = ["const", "let", "var"].into_iter().any(|word| self.take_word(word));
        if let Some(binding) = self.binding(false) {
            let is_in = self.is_word("in");
            if is_in || self.is_word("of") {
                self.advance();
                let list = self.expression()?;
                self.expect_sign(")")?;
                return Some(Kind::ForEach(binding, list, is_in, self.body()?));
            }
        }
        self.at = begin;
        let (line, source) = (self.placed().line, String::new());
        let first = if self.is_sign(";") {
            None
        } else if is_declared {
            self.advance();
            let kind = self.declarations()?;
            Some(Box::new(Statement { line, source, kind }))
        } else {
            let kind = Kind::Expression(self.expression()?);
            Some(Box::new(Statement { line, source, kind }))
        };
        self.expect_sign(";")?;
        let test = if self.is_sign(";") { None } else { Some(self.expression()?) };
        self.expect_sign(";")?;
        let update = if self.is_sign(")") { None } else { Some(self.expression()?) };
        self.expect_sign(")")?;
        Some(Kind::For { first, test, update, body: self.body()? })
    }

    fn switch(&mut self) -> Option<Kind> {
        self.advance();
        let value = self.in_brackets()?;
        self.expect_sign("{")?;
        let mut cases = Vec::new();
        while !self.take_sign("}") {
            let test = if self.take_word("default") {
                None
            } else {
                self.take_word("case").then_some(())?;
                Some(self.expression()?)
            };
            self.expect_sign(":")?;
            let mut body = Vec::new();
            while !(self.is_sign("}") || self.is_word("case") || self.is_word("default")) {
                if self.is_at_end() {
                    return None;
                }
                body.extend(self.statement_or_unknown());
            }
            cases.push((test, body));
        }
        Some(Kind::Switch(value, cases))
    }

    /// The blocks of `try` and `finally`; no exception occurs while a script is read.
    fn attempt(&mut self) -> Option<Kind> {
        self.advance();
        let mut body = self.block()?;
        if self.take_word("catch") {
            if self.take_sign("(") {
                self.binding(false)?;
                self.expect_sign(")")?;
            }
            self.block()?;
        }
        if self.take_word("finally") {
            body.extend(self.block()?);
        }
        Some(Kind::Block(body))
    }

    /// Parses the fields of an object after its opening brace.
    pub(super) fn object(&mut self) -> Option<Expression> {
        let mut fields = Vec::new();
        while !self.take_sign("}") {
            fields.push(self.field()?);
            self.comma_before("}")?;
        }
        Some(Expression::Object(fields))
    }

    fn field(&mut self) -> Option<(Key, Expression)> {
        if self.take_sign("...") {
            return Some((Key::Spread, self.assignment()?));
        }
        if self.take_sign("[") {
            let key = self.assignment()?;
            self.expect_sign("]")?;
            self.expect_sign(":")?;
            return Some((Key::Computed(key), self.assignment()?));
        }
        let is_modifier = ["async", "get", "set"].into_iter().any(|word| self.is_word(word))
            && !matches!(self.ahead(1), Token::Sign(":" | "," | "}" | "("));
        if is_modifier {
            self.advance();
        }
        let (key, is_name) = match self.token().clone() {
            Token::Name(key) => (key, true),
            Token::Text(key) => (key, false),
            Token::Number(key) => (key.to_string(), false),
            _ => return None,
        };
        self.advance();
        if self.is_sign("(") {
            return Some((Key::Name(key), Expression::Function(self.function_rest()?)));
        }
        if is_name && !self.is_sign(":") {
            return Some((Key::Name(key.clone()), Expression::Name(key)));
        }
        self.expect_sign(":")?;
        Some((Key::Name(key), self.assignment()?))
    }
}
