//! The tokens of a script.

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Name(String),
    Number(f64),
    Text(String),
    /// The texts of a template, and the sources between them with their first lines.
    Template(Vec<String>, Vec<(String, usize)>),
    Pattern(String),
    Sign(&'static str),
    End,
}

#[derive(Debug, Clone)]
pub(super) struct PositionedToken {
    pub(super) token: Token,
    pub(super) line: usize,
    /// There is a line end between the previous token and this one.
    pub(super) is_after_line_end: bool,
    pub(super) begin: usize,
    pub(super) end: usize,
}

/// The operators and punctuators; longer ones are before their prefixes.
const SIGNS: [&str; 57] = [
    ">>>=", "...", "===", "!==", "**=", "<<=", ">>=", ">>>", "&&=", "||=", "??=", "=>", "==", "!=", "<=",
    ">=", "&&", "||", "??", "?.", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<", ">>",
    "**", "{", "}", "(", ")", "[", "]", ";", ",", "<", ">", "+", "-", "*", "/", "%", "&", "|", "^", "!", "~",
    "?", ":", "=", ".",
];

/// Splits a script into tokens; an error has the line.
pub(super) fn tokens(text: &str, first_line: usize) -> Result<Vec<PositionedToken>, (usize, String)> {
    let mut lexer = Lexer { text, at: 0, line: first_line, found: Vec::new() };
    while lexer.next()? {}
    Ok(lexer.found)
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    found: Vec<PositionedToken>,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn next(&mut self) -> Result<bool, (usize, String)> {
        let before = self.line;
        self.skip_space();
        let is_after_line_end = self.line > before || self.found.is_empty();
        let (line, begin) = (self.line, self.at);
        let Some(letter) = self.rest().chars().next() else {
            self.push(Token::End, line, begin, true);
            return Ok(false);
        };
        let token = match letter {
            '\'' | '"' => self.quoted(letter)?,
            '`' => self.template()?,
            _ if letter.is_ascii_digit() || self.is_fraction() => self.number(),
            _ if letter.is_alphabetic() || letter == '_' || letter == '$' || letter == '#' => self.name(),
            '/' if self.is_pattern_here() => self.pattern()?,
            _ => {
                let Some(sign) = SIGNS.iter().find(|sign| self.rest().starts_with(**sign)) else {
                    return Err((line, format!("unexpected character {letter:?}")));
                };
                // `a?.5:b` is a choice.
                let sign = if *sign == "?." && self.rest()[2..].starts_with(|c: char| c.is_ascii_digit()) {
                    "?"
                } else {
                    sign
                };
                self.at += sign.len();
                Token::Sign(sign)
            }
        };
        self.push(token, line, begin, is_after_line_end);
        Ok(true)
    }

    fn push(&mut self, token: Token, line: usize, begin: usize, is_after_line_end: bool) {
        self.found.push(PositionedToken { token, line, is_after_line_end, begin, end: self.at });
    }

    fn skip_space(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let length = if rest.starts_with("//") || self.at == 0 && rest.starts_with("#!") {
                rest.find('\n').unwrap_or(rest.len())
            } else if let Some(inside) = rest.strip_prefix("/*") {
                inside.find("*/").map_or(rest.len(), |end| end + 4)
            } else {
                rest.find(|c: char| !c.is_whitespace() && c != '\u{feff}').unwrap_or(rest.len())
            };
            if length == 0 {
                return;
            }
            self.line += rest[..length].matches('\n').count();
            self.at += length;
        }
    }

    fn is_fraction(&self) -> bool {
        let mut letters = self.rest().chars();
        letters.next() == Some('.') && letters.next().is_some_and(|next| next.is_ascii_digit())
    }

    fn number(&mut self) -> Token {
        let rest = self.rest();
        let is_hexadecimal = rest.starts_with("0x") || rest.starts_with("0X");
        let mut end = 0;
        let mut before = ' ';
        for letter in rest.chars() {
            let is_sign = matches!(letter, '+' | '-') && matches!(before, 'e' | 'E') && !is_hexadecimal;
            if !(letter.is_ascii_alphanumeric() || letter == '_' || letter == '.' || is_sign) {
                break;
            }
            before = letter;
            end += letter.len_utf8();
        }
        let plain = rest[..end].replace('_', "");
        let number = match plain.get(2..).filter(|_| is_hexadecimal) {
            Some(digits) => i64::from_str_radix(digits, 16).map_or(f64::NAN, |number| number as f64),
            None => plain.trim_end_matches('n').parse().unwrap_or(f64::NAN),
        };
        self.at += end;
        Token::Number(number)
    }

    fn name(&mut self) -> Token {
        let rest = self.rest();
        let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '$' | '#');
        let end = rest.find(|letter: char| !is_part(letter)).unwrap_or(rest.len());
        let name = rest[..end].to_string();
        self.at += end;
        Token::Name(name)
    }

    /// Whether a slash begins a regular expression: not after a value.
    fn is_pattern_here(&self) -> bool {
        match self.found.last().map(|placed| &placed.token) {
            Some(Token::Number(_) | Token::Text(_) | Token::Template(..) | Token::Pattern(_)) => false,
            Some(Token::Sign(sign)) => !matches!(*sign, ")" | "]" | "}"),
            Some(Token::Name(name)) => matches!(name.as_str(), "return" | "typeof" | "case" | "in" | "of"),
            _ => true,
        }
    }

    fn pattern(&mut self) -> Result<Token, (usize, String)> {
        let (mut is_escaped, mut is_class) = (false, false);
        for (at, letter) in self.text[self.at..].char_indices().skip(1) {
            match letter {
                '\n' => break,
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = true,
                '[' => is_class = true,
                ']' => is_class = false,
                '/' if !is_class => {
                    let inside = self.text[self.at + 1..self.at + at].to_string();
                    self.at += at + 1;
                    let rest = self.rest();
                    let flags = rest.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(rest.len());
                    let is_caseless = rest[..flags].contains('i');
                    self.at += flags;
                    return Ok(Token::Pattern(if is_caseless { format!("(?i){inside}") } else { inside }));
                }
                _ => {}
            }
        }
        Err((self.line, "unterminated regular expression".to_string()))
    }

    fn quoted(&mut self, quote: char) -> Result<Token, (usize, String)> {
        let line = self.line;
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.rest().chars().next() {
                None | Some('\n') => return Err((line, "unterminated string".to_string())),
                Some('\\') => self.escaped(&mut text),
                Some(letter) => {
                    self.at += letter.len_utf8();
                    if letter == quote {
                        return Ok(Token::Text(text));
                    }
                    text.push(letter);
                }
            }
        }
    }

    /// Appends the character of an escape sequence.
    fn escaped(&mut self, text: &mut String) {
        self.at += 1;
        let Some(letter) = self.rest().chars().next() else { return };
        self.at += letter.len_utf8();
        match letter {
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            'b' => text.push('\u{8}'),
            'f' => text.push('\u{c}'),
            'v' => text.push('\u{b}'),
            '0' => text.push('\0'),
            '\n' => self.line += 1,
            'x' | 'u' => {
                let rest = self.rest();
                let (digits, length) = match rest.strip_prefix('{').and_then(|inside| inside.split_once('}'))
                {
                    Some((digits, _)) if letter == 'u' => (digits, digits.len() + 2),
                    _ => {
                        let length = if letter == 'x' { 2 } else { 4 };
                        (rest.get(..length).unwrap_or_default(), length)
                    }
                };
                match u32::from_str_radix(digits, 16) {
                    Ok(number) => {
                        text.push(char::from_u32(number).unwrap_or('\u{fffd}'));
                        self.at += length;
                    }
                    Err(_) => text.push(letter),
                }
            }
            other => text.push(other),
        }
    }

    fn template(&mut self) -> Result<Token, (usize, String)> {
        let line = self.line;
        self.at += 1;
        let (mut texts, mut sources, mut text) = (Vec::new(), Vec::new(), String::new());
        loop {
            let rest = self.rest();
            if let Some(inside) = rest.strip_prefix("${") {
                let length = end_of_expression(inside).ok_or((line, "unterminated template".to_string()))?;
                let source = inside[..length].to_string();
                sources.push((source, self.line));
                self.line += inside[..length].matches('\n').count();
                self.at += length + 3;
                texts.push(std::mem::take(&mut text));
                continue;
            }
            match rest.chars().next() {
                None => return Err((line, "unterminated template".to_string())),
                Some('\\') => self.escaped(&mut text),
                Some(letter) => {
                    self.at += letter.len_utf8();
                    if letter == '`' {
                        texts.push(text);
                        return Ok(Token::Template(texts, sources));
                    }
                    self.line += usize::from(letter == '\n');
                    text.push(letter);
                }
            }
        }
    }
}

/// The position of the brace that ends an expression in a template.
fn end_of_expression(text: &str) -> Option<usize> {
    let (mut depth, mut quotes, mut letters) = (0usize, Vec::new(), text.char_indices().peekable());
    while let Some((at, letter)) = letters.next() {
        match (quotes.last().copied(), letter) {
            (Some(_), '\\') => _ = letters.next(),
            // A nested template: its expressions are skipped with their braces.
            (Some('`'), '$') if letters.peek().is_some_and(|(_, next)| *next == '{') => {
                letters.next();
                quotes.push('{');
            }
            (Some('{'), '}') => _ = quotes.pop(),
            (Some('{') | None, '\'' | '"' | '`') => quotes.push(letter),
            (Some(open), _) if open == letter && open != '{' => _ = quotes.pop(),
            (None, '{') => depth += 1,
            (None, '}') if depth == 0 => return Some(at),
            (None, '}') => depth -= 1,
            _ => {}
        }
    }
    None
}
