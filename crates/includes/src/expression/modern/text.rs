//! Parses the parts of a condition that have their own rules: strings, regular expressions, and variables in
//! strings.

use super::parser::{Operand, Parser};
use crate::expression::functions::Function;
use crate::expression::lexer::Token;
use crate::expression::request_variable::RequestVariable;
use crate::expression::tree::Word;

impl Parser<'_> {
    /// Reads up to the delimiter, which cannot be escaped.
    pub(super) fn delimited(&mut self, delimiter: u8) -> Result<Vec<u8>, String> {
        let rest = self.lexer.rest();
        let end = memchr::memchr(delimiter, rest).ok_or("a regular expression has no end")?;
        self.lexer.at += end + 1;
        Ok(rest[..end].to_vec())
    }

    pub(super) fn flags(&mut self) -> Result<Vec<u8>, String> {
        let rest = self.lexer.rest();
        let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        self.lexer.at += length;
        match rest[..length].iter().find(|flag| !b"ismg".contains(flag)) {
            Some(&flag) => Err(format!("{:?} is not a flag of regular expressions", char::from(flag))),
            None => Ok(rest[..length].to_vec()),
        }
    }

    /// Reads a string up to its end; `%{...}` and `$0` in it are filled in later.
    pub(super) fn string(&mut self, end: u8) -> Result<Word, String> {
        self.deeper(|parser| parser.text(end, "a string has no end"))
    }

    /// Reads text up to `end`, and consumes `end`.
    fn text(&mut self, end: u8, unfinished: &str) -> Result<Word, String> {
        let mut words = Vec::new();
        let mut text = Vec::new();
        let flush = |text: &mut Vec<u8>, words: &mut Vec<Word>| {
            if !text.is_empty() {
                words.push(Word::Text(std::mem::take(text)));
            }
        };
        loop {
            let rest = self.lexer.rest();
            let Some(&byte) = rest.first() else { return Err(unfinished.to_owned()) };
            self.lexer.at += 1;
            match (byte, rest.get(1)) {
                (byte, _) if byte == end => break,
                (b'\\', _) => text.push(self.escape()?),
                (b'$', Some(digit @ b'0'..=b'9')) => {
                    self.lexer.at += 1;
                    flush(&mut text, &mut words);
                    words.push(Word::Capture(usize::from(digit - b'0')));
                }
                (b'%', Some(b'{')) => {
                    self.lexer.at += 1;
                    flush(&mut text, &mut words);
                    let is_expression = rest.get(2) == Some(&b':');
                    self.lexer.at += usize::from(is_expression);
                    words.push(if is_expression {
                        self.inner_expression()?
                    } else {
                        self.deeper(Parser::variable)?
                    });
                }
                (byte, _) if byte.is_ascii_control() => {
                    return Err(format!("a string contains the control character {byte:#04x}"));
                }
                (byte, _) => text.push(byte),
            }
        }
        flush(&mut text, &mut words);
        Ok(match words.len() {
            0 => Word::Text(Vec::new()),
            1 => words.swap_remove(0),
            _ => Word::Concatenated(words),
        })
    }

    /// Parses the character after a backslash.
    fn escape(&mut self) -> Result<u8, String> {
        let rest = self.lexer.rest();
        let Some(&byte) = rest.first() else { return Err("a backslash is the last character".to_owned()) };
        let digits = |most: usize, is_digit: fn(&u8) -> bool| {
            rest[usize::from(byte == b'x')..].iter().take(most).take_while(|digit| is_digit(digit)).count()
        };
        let (value, length) = match byte {
            b'0'..=b'7' => {
                let length = digits(3, |digit| matches!(digit, b'0'..=b'7'));
                let value =
                    rest[..length].iter().fold(0u32, |value, digit| value * 8 + u32::from(digit - b'0'));
                let value = u8::try_from(value).map_err(|_| "an octal escape is larger than \\377")?;
                (value, length)
            }
            b'8' | b'9' => return Err("8 and 9 are not octal digits".to_owned()),
            b'x' if digits(2, u8::is_ascii_hexdigit) > 0 => {
                let length = digits(2, u8::is_ascii_hexdigit);
                let value = rest[1..=length]
                    .iter()
                    .filter_map(|&digit| char::from(digit).to_digit(16).map(|digit| digit as u8));
                (value.fold(0, |value, digit| value << 4 | digit), 1 + length)
            }
            b'n' => (b'\n', 1),
            b'r' => (b'\r', 1),
            b't' => (b'\t', 1),
            b'b' => (8, 1),
            b'f' => (12, 1),
            other => (other, 1),
        };
        self.lexer.at += length;
        Ok(value)
    }

    /// Parses `%{NAME}` or `%{function:text}`, after its brace.
    pub(super) fn variable(&mut self) -> Result<Word, String> {
        let rest = self.lexer.rest();
        let is_name = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
        let name: String = rest.iter().take_while(is_name).map(|&byte| char::from(byte)).collect();
        self.lexer.at += name.len() + 1;
        match rest.get(name.len()) {
            Some(b'}') if !name.is_empty() => RequestVariable::named(&name).map(Word::Variable),
            Some(b':') if !name.is_empty() => {
                let argument = self.text(b'}', "'}' is missing")?;
                Ok(Word::Function(Function::named(&name)?, Box::new(argument)))
            }
            Some(&byte) => Err(format!("the name of a variable contains {:?}", char::from(byte))),
            None => Err("'}' is missing".to_owned()),
        }
    }

    /// Parses `%{:` condition or value `:}`, after its beginning.
    pub(super) fn inner_expression(&mut self) -> Result<Word, String> {
        let inner = self.any()?;
        self.expect(Token::ExpressionEnd, "':}'")?;
        Ok(match inner {
            Operand::Node(node) => Word::Condition(Box::new(node)),
            Operand::Word(word) => word,
        })
    }
}
