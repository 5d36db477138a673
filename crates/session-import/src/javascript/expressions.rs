//! Parses expressions by the precedence of their operators.

use super::parser::{Parser, parse_at};
use super::syntax::{Expression, Function, Kind, Statement};
use super::tokens::Token;
use std::rc::Rc;

/// The maximum number of successive operators of one kind.
const LONGEST_CHAIN: usize = 100;

const ASSIGNMENTS: [(&str, &str); 16] = [
    ("=", ""),
    ("+=", "+"),
    ("-=", "-"),
    ("*=", "*"),
    ("/=", "/"),
    ("%=", "%"),
    ("**=", "**"),
    ("<<=", "<<"),
    (">>=", ">>"),
    (">>>=", ">>>"),
    ("&=", "&"),
    ("|=", "|"),
    ("^=", "^"),
    ("&&=", "&&"),
    ("||=", "||"),
    ("??=", "??"),
];

/// Binary operators and their precedence.
const BINARY: [(&str, u8); 24] = [
    ("??", 1),
    ("||", 2),
    ("&&", 3),
    ("|", 4),
    ("^", 5),
    ("&", 6),
    ("===", 7),
    ("!==", 7),
    ("==", 7),
    ("!=", 7),
    ("<=", 8),
    (">=", 8),
    ("<", 8),
    (">", 8),
    ("in", 8),
    ("instanceof", 8),
    ("<<", 9),
    (">>", 9),
    (">>>", 9),
    ("+", 10),
    ("-", 10),
    ("*", 11),
    ("/", 11),
    ("%", 11),
];

impl Parser<'_> {
    /// One or more expressions with commas: the last is the value.
    pub(super) fn expression(&mut self) -> Option<Expression> {
        let mut value = self.assignment()?;
        let mut count = 0;
        while self.take_sign(",") {
            count += 1;
            if count > LONGEST_CHAIN {
                return None;
            }
            value = Expression::Binary(",", Box::new(value), Box::new(self.assignment()?));
        }
        Some(value)
    }

    pub(super) fn assignment(&mut self) -> Option<Expression> {
        self.deeper(|parser| {
            if let Some(function) = parser.arrow_function() {
                return function;
            }
            let target = parser.choice()?;
            let Token::Sign(sign) = parser.token() else { return Some(target) };
            let Some((_, operator)) = ASSIGNMENTS.iter().find(|(written, _)| written == sign) else {
                return Some(target);
            };
            parser.advance();
            let value = parser.assignment()?;
            Some(Expression::Assign(Box::new(target), operator, Box::new(value)))
        })
    }

    /// `x => ...`, `(a, b) => ...`, `async () => ...`; the outer `None` if there is no function.
    fn arrow_function(&mut self) -> Option<Option<Expression>> {
        let begin = self.at;
        let is_async = self.is_word("async") && !matches!(self.ahead(1), Token::Sign("=>" | "," | ")" | "."));
        if is_async {
            self.advance();
            if self.is_word("function") {
                self.at = begin;
                return None;
            }
        }
        let is_arrow = match self.token() {
            Token::Name(_) => matches!(self.ahead(1), Token::Sign("=>")),
            Token::Sign("(") => self.is_arrow_after_brackets(),
            _ => false,
        };
        if !is_arrow {
            self.at = begin;
            return None;
        }
        Some(self.arrow_rest())
    }

    fn arrow_rest(&mut self) -> Option<Expression> {
        let parameters = if self.is_sign("(") { self.parameters()? } else { vec![self.binding(false)?] };
        self.expect_sign("=>")?;
        let body = if self.is_sign("{") {
            self.deeper(|parser| parser.block())?
        } else {
            let line = self.placed().line;
            let value = self.assignment()?;
            vec![Statement { line, source: String::new(), kind: Kind::Return(Some(value)) }]
        };
        Some(Expression::Function(Rc::new(Function { parameters, body })))
    }

    fn is_arrow_after_brackets(&self) -> bool {
        let mut open = 0usize;
        for (at, placed) in self.tokens.iter().enumerate().skip(self.at) {
            match placed.token {
                Token::Sign("(" | "[" | "{") => open += 1,
                Token::Sign(")" | "]" | "}") => {
                    open = open.saturating_sub(1);
                    if open == 0 {
                        return self.tokens.get(at + 1).is_some_and(|next| next.token == Token::Sign("=>"));
                    }
                }
                _ => {}
            }
        }
        false
    }

    fn choice(&mut self) -> Option<Expression> {
        let test = self.binary(1)?;
        if !self.take_sign("?") {
            return Some(test);
        }
        let yes = self.assignment()?;
        self.expect_sign(":")?;
        let no = self.assignment()?;
        Some(Expression::Choice(Box::new(test), Box::new(yes), Box::new(no)))
    }

    fn operator(&self) -> Option<(&'static str, u8)> {
        let written = match self.token() {
            Token::Sign(sign) => sign,
            Token::Name(name) => name.as_str(),
            _ => return None,
        };
        BINARY.iter().find(|(operator, _)| *operator == written).copied()
    }

    fn binary(&mut self, least: u8) -> Option<Expression> {
        self.deeper(|parser| {
            let mut left = parser.unary()?;
            let mut count = 0;
            while let Some((operator, precedence)) =
                parser.operator().filter(|(_, precedence)| *precedence >= least)
            {
                count += 1;
                if count > LONGEST_CHAIN {
                    return None;
                }
                parser.advance();
                let right = parser.binary(precedence + 1)?;
                left = Expression::Binary(operator, Box::new(left), Box::new(right));
            }
            Some(left)
        })
    }

    fn unary(&mut self) -> Option<Expression> {
        self.deeper(|parser| {
            let operator = match parser.token() {
                Token::Sign(sign) => ["!", "-", "+", "~", "++", "--"].into_iter().find(|one| one == sign),
                Token::Name(name) => {
                    ["typeof", "void", "delete", "await", "yield"].into_iter().find(|one| one == name)
                }
                _ => None,
            };
            if let Some(operator) = operator {
                parser.advance();
                let value = parser.unary()?;
                return Some(match operator {
                    "await" | "yield" => value,
                    "++" | "--" => step(operator, value),
                    _ => Expression::Unary(operator, Box::new(value)),
                });
            }
            let value = parser.postfix()?;
            if parser.take_sign("**") {
                let power = parser.unary()?;
                return Some(Expression::Binary("**", Box::new(value), Box::new(power)));
            }
            if !parser.placed().is_after_line_end {
                for operator in ["++", "--"] {
                    if parser.take_sign(operator) {
                        return Some(step(operator, value));
                    }
                }
            }
            Some(value)
        })
    }

    /// Members, indexes and calls.
    fn postfix(&mut self) -> Option<Expression> {
        let mut value = if self.take_word("new") {
            let mut target = self.primary()?;
            while self.take_sign(".") {
                target = Expression::Member(Box::new(target), self.name()?);
            }
            let arguments = if self.take_sign("(") { self.arguments(")")? } else { Vec::new() };
            Expression::New(Box::new(target), arguments)
        } else {
            self.primary()?
        };
        for _ in 0..LONGEST_CHAIN {
            if self.take_sign("?.") {
                if !(self.is_sign("(") || self.is_sign("[")) {
                    value = Expression::Member(Box::new(value), self.name()?);
                    continue;
                }
            } else if self.take_sign(".") {
                value = Expression::Member(Box::new(value), self.name()?);
                continue;
            }
            value = if self.take_sign("(") {
                Expression::Call(Box::new(value), self.arguments(")")?)
            } else if self.take_sign("[") {
                let place = self.expression()?;
                self.expect_sign("]")?;
                Expression::Index(Box::new(value), Box::new(place))
            } else if matches!(self.token(), Token::Template(..)) {
                // http.url`...`: only the text is used.
                let template = self.primary()?;
                Expression::Call(Box::new(value), vec![template])
            } else {
                return Some(value);
            };
        }
        None
    }

    /// The contents of brackets, after the opening one.
    fn arguments(&mut self, close: &str) -> Option<Vec<Expression>> {
        let mut list = Vec::new();
        while !self.take_sign(close) {
            if self.is_sign(",") {
                list.push(Expression::Name("undefined".to_string()));
            } else if self.take_sign("...") {
                list.push(Expression::Spread(Box::new(self.assignment()?)));
            } else {
                list.push(self.assignment()?);
            }
            self.comma_before(close)?;
        }
        Some(list)
    }

    fn primary(&mut self) -> Option<Expression> {
        let token = self.token().clone();
        match token {
            Token::Number(number) => {
                self.advance();
                Some(Expression::Number(number))
            }
            Token::Text(text) => {
                self.advance();
                Some(Expression::Text(text))
            }
            Token::Pattern(pattern) => {
                self.advance();
                Some(Expression::Pattern(pattern))
            }
            Token::Template(texts, sources) => {
                self.advance();
                let mut expressions = Vec::new();
                for (source, line) in sources {
                    expressions.push(self.deeper(|parser| template_expression(&source, line, parser.depth))?);
                }
                Some(Expression::Template(texts, expressions))
            }
            Token::Sign("(") => {
                self.advance();
                let value = self.expression()?;
                self.expect_sign(")")?;
                Some(value)
            }
            Token::Sign("[") => {
                self.advance();
                Some(Expression::List(self.arguments("]")?))
            }
            Token::Sign("{") => {
                self.advance();
                self.object()
            }
            Token::Name(name) if name == "function" || name == "async" => {
                self.advance();
                if name == "async" && !self.take_word("function") {
                    return Some(Expression::Name(name));
                }
                self.take_sign("*");
                self.name();
                Some(Expression::Function(self.function_rest()?))
            }
            Token::Name(name) if name == "class" => None,
            Token::Name(name) => {
                self.advance();
                Some(Expression::Name(name))
            }
            _ => None,
        }
    }
}

/// `x++`: the new value is used.
fn step(operator: &str, target: Expression) -> Expression {
    let operator = if operator == "++" { "+" } else { "-" };
    Expression::Assign(Box::new(target), operator, Box::new(Expression::Number(1.0)))
}

/// The expression in a template.
fn template_expression(source: &str, line: usize, depth: usize) -> Option<Expression> {
    // In parentheses, so that an object is not parsed as a block.
    let mut found = parse_at(&format!("({source}\n)"), line, depth).ok()?;
    match (found.pop()?.kind, found.is_empty()) {
        (Kind::Expression(value), true) => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::super::syntax::{Expression, Kind};
    use proptest::prelude::*;

    fn one(text: &str) -> Kind {
        let mut found = parse(text).expect("a good script");
        assert_eq!(found.len(), 1, "{found:#?}");
        found.remove(0).kind
    }

    #[test]
    fn operators_have_their_precedence() {
        let Kind::Expression(Expression::Binary("||", left, _)) = one("a.b(1)[2] === -3 + 4 * 5 && !c || d")
        else {
            panic!()
        };
        let Expression::Binary("&&", left, _) = *left else { panic!() };
        assert!(matches!(*left, Expression::Binary("===", ..)));
        assert!(matches!(one("x = a ? b : c ?? d"), Kind::Expression(Expression::Assign(..))));
        assert!(matches!(one("i++"), Kind::Expression(Expression::Assign(_, "+", _))));
    }

    #[test]
    fn current_syntax_is_supported() {
        for text in [
            "import http, { get as fetch } from 'k6/http'",
            "export default async function main({ token, ...rest }, [a, , b] = [1, 2, 3]) { await f(token) }",
            "const { a: { b }, c = 1 } = f({ a, b, ...c, [d]: 1, 'e-f'() { return 1 } })",
            "for (const [key, value] of Object.entries(x)) { if (y) break; else continue }",
            "for (let i = 0, n = 3; i < n; i += 1) f(i)",
            "switch (x) { case 1: f(); break; default: g() }",
            "try { f() } catch { g() } finally { h() }",
            "const s = `a${b ? `c${d}` : { e: '}' }.e}f`, r = /[/]\\/x/gi.test(s)",
            "const f = async (x, { y } = {}) => ({ x, y }), g = z => z?.a?.[0]?.(1) ** 2",
            "do { f() } while (false)",
            "export { f as default, options }",
            "new Map([[1, 2]]).get(1)",
            "http.get(http.url`http://h/${id}`)",
        ] {
            let found = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert!(found.iter().all(|statement| statement.kind != Kind::Unknown), "{text}: {found:#?}");
        }
    }

    #[test]
    fn an_unsupported_statement_ends_with_its_line() {
        let found = parse("class A {\n  b() {}\n}\nf()\nlet x: number = 1\n}\ng()").expect("a script");
        let lines: Vec<(usize, bool)> =
            found.iter().map(|statement| (statement.line, statement.kind == Kind::Unknown)).collect();
        assert_eq!(lines, [(1, true), (4, false), (5, true), (6, true), (7, false)]);
        assert_eq!(found[0].source, "class A {");
    }

    #[test]
    fn deep_nesting_is_refused() {
        for (open, close) in [("(", ")"), ("[", "]"), ("{", "}"), ("`${", "}`"), ("f(() => ", ")"), ("!", "")]
        {
            let text = format!("{}1{}", open.repeat(5_000), close.repeat(5_000));
            let _ = parse(&text);
        }
        for chain in ["1+", "a.", "a,", "a=", "a?b:", "a??"] {
            let _ = parse(&format!("{}1", chain.repeat(20_000)));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text: String, part in "[a-z'\"`(){}\\[\\],;:+$=>/*\\n .é?!&|-]{0,80}") {
            let _ = parse(&text);
            let _ = parse(&part);
            let _ = parse(&format!("const x = {part}; function f() {{ {part} }} `${{{part}}}`"));
        }
    }
}
