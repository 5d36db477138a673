//! Tokens of the grammar of Apache 2.4. Strings and regular expressions have their own rules, so the parser
//! requests the tokens that are allowed at a position.

/// One token outside strings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    End,
    /// One of `(` `)` `{` `}` `,`.
    Mark(u8),
    /// The opening quote of a string.
    Quote(u8),
    /// `%{`
    VariableStart,
    /// `%{:`
    ExpressionStart,
    /// `:}`
    ExpressionEnd,
    /// A `$` with its digit.
    Capture(u8),
    /// The beginning of a regular expression: its delimiter, and whether it belongs to a substitution.
    Regex {
        delimiter: u8,
        substitution: bool,
    },
    /// `=`, `&&`, `-eq` and similar, by their first name.
    Operator(&'static str),
    /// `-ipmatch` and similar, without the hyphen.
    Binary(String),
    /// `-z` and similar.
    Unary(u8),
    Digits(Vec<u8>),
    Name(String),
}

/// The text of a condition and the position in it.
#[derive(Debug, Clone)]
pub(super) struct Lexer<'a> {
    pub(super) text: &'a [u8],
    pub(super) at: usize,
}

/// The delimiters of a regular expression after `m` and `s`.
const DELIMITERS: &[u8] = b"/#$%^|?!'\",;:._-";

const SYMBOLS: &[(&str, &str)] = &[
    ("==", "="),
    ("=~", "=~"),
    ("=", "="),
    ("!=", "!="),
    ("!~", "!~"),
    ("!", "!"),
    ("<=", "<="),
    ("<", "<"),
    (">=", ">="),
    (">", ">"),
    ("&&", "&&"),
    ("||", "||"),
    (".", "."),
];

const WORDS: &[(&str, &str)] = &[
    ("and", "&&"),
    ("or", "||"),
    ("not", "!"),
    ("eq", "-eq"),
    ("ne", "-ne"),
    ("lt", "-lt"),
    ("le", "-le"),
    ("gt", "-gt"),
    ("ge", "-ge"),
    ("in", "-in"),
    ("true", "true"),
    ("false", "false"),
    ("sub", "sub"),
    ("join", "join"),
    ("split", "split"),
];

const HYPHENATED: &[(&str, &str)] = &[
    ("in", "-in"),
    ("eq", "-eq"),
    ("ne", "-ne"),
    ("lt", "-lt"),
    ("le", "-le"),
    ("gt", "-gt"),
    ("ge", "-ge"),
];

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a [u8]) -> Lexer<'a> {
        Lexer { text, at: 0 }
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    /// The next token, without consuming it.
    pub(super) fn peek(&self) -> Result<Token, String> {
        self.clone().next()
    }

    /// Consumes the next token.
    pub(super) fn next(&mut self) -> Result<Token, String> {
        while matches!(self.rest().first(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        let rest = self.rest();
        let Some(&first) = rest.first() else { return Ok(Token::End) };
        let (token, length) = token(rest, first)?;
        self.at += length;
        Ok(token)
    }
}

fn token(rest: &[u8], first: u8) -> Result<(Token, usize), String> {
    let second = rest.get(1).copied();
    let digits = |from: usize| rest[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    Ok(match (first, second) {
        (b'(' | b')' | b'{' | b'}' | b',', _) => (Token::Mark(first), 1),
        (b'"' | b'\'', _) => (Token::Quote(first), 1),
        (b'%', Some(b'{')) if rest.get(2) == Some(&b':') => (Token::ExpressionStart, 3),
        (b'%', Some(b'{')) => (Token::VariableStart, 2),
        (b':', Some(b'}')) => (Token::ExpressionEnd, 2),
        (b'$', Some(digit @ b'0'..=b'9')) => (Token::Capture(digit - b'0'), 2),
        (b'/', _) => (Token::Regex { delimiter: b'/', substitution: false }, 1),
        (b'0'..=b'9', _) => (Token::Digits(rest[..digits(0)].to_vec()), digits(0)),
        (b'-', Some(b'0'..=b'9')) => (Token::Digits(rest[..1 + digits(1)].to_vec()), 1 + digits(1)),
        (b'-', _) => return hyphenated(rest),
        (b'a'..=b'z' | b'A'..=b'Z', _) => return Ok(word(rest, first, second)),
        _ => {
            let symbol = SYMBOLS.iter().find(|(symbol, _)| rest.starts_with(symbol.as_bytes()));
            let Some((symbol, operator)) = symbol else {
                return Err(format!("{:?} is not expected here", char::from(first)));
            };
            (Token::Operator(operator), symbol.len())
        }
    })
}

fn hyphenated(rest: &[u8]) -> Result<(Token, usize), String> {
    let is_name = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
    let name: String = rest[1..].iter().take_while(is_name).map(|&byte| char::from(byte)).collect();
    let length = 1 + name.len();
    if let Some((_, operator)) = HYPHENATED.iter().find(|(known, _)| *known == name) {
        return Ok((Token::Operator(operator), length));
    }
    match name.as_bytes() {
        [] => Err("a hyphen must be followed by a number or the name of an operator".to_owned()),
        [letter] => Ok((Token::Unary(*letter), length)),
        _ => Ok((Token::Binary(name), length)),
    }
}

fn word(rest: &[u8], first: u8, second: Option<u8>) -> (Token, usize) {
    let is_name = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
    let name: String = rest.iter().take_while(is_name).map(|&byte| char::from(byte)).collect();
    // The longest token wins; of equal ones, the regular expression.
    if name.len() <= 2
        && let (b'm' | b's', Some(delimiter)) = (first, second)
        && DELIMITERS.contains(&delimiter)
    {
        return (Token::Regex { delimiter, substitution: first == b's' }, 2);
    }
    let length = name.len();
    match WORDS.iter().find(|(known, _)| *known == name) {
        Some((_, operator)) => (Token::Operator(operator), length),
        None => (Token::Name(name), length),
    }
}
