//! The expressions of version 7: the conditions of `<If>` and `<ElseIf>`, and texts with variables.
//!
//! An expression consists of literals (`'as it is'`, `"with $uri in it"`, `42`), variables (`$uri`,
//! `$headers{'referer'}`), functions (`lc($uri)`) and operators, with the precedence of version 7. It is
//! parsed when the configuration is read; errors are reported then.

use regex::bytes::Regex;

/// The deepest nesting of parentheses and operators.
const DEEPEST: usize = 32;

/// An expression, ready to be evaluated.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// A text, perhaps with variables in it.
    Text(Template),
    /// A number.
    Number(i64),
    /// A variable.
    Variable(Variable),
    /// A function with its arguments.
    Call(Function, Vec<Expression>),
    /// `not` and `!`
    Not(Box<Expression>),
    /// A negated number.
    Negative(Box<Expression>),
    /// `defined`
    Defined(Variable),
    /// `-d`, `-e` and the like: the letter, and the path.
    File(u8, Box<Expression>),
    /// Two operands and their operator.
    Binary(Operator, Box<Expression>, Box<Expression>),
    /// `a ? b : c`
    Choice(Box<Expression>, Box<Expression>, Box<Expression>),
    /// `=~` and `!~` with a literal.
    Regex(Box<Expression>, LiteralRegex, bool),
}

/// A constant regular expression.
#[derive(Debug, Clone)]
pub struct LiteralRegex(pub Regex);

impl PartialEq for LiteralRegex {
    fn eq(&self, other: &LiteralRegex) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

/// A variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Variable {
    /// `$1` to `$9`, and `$&` as 0: the groups of the last regular expression that matched.
    Group(usize),
    /// A variable of the server, from [`PREDEFINED`].
    Predefined(&'static str),
    /// An entry of one of [`MAPS`].
    Entry(&'static str, Vec<u8>),
    /// A variable that `set-variable` sets.
    Own(Vec<u8>),
}

/// The variables of the server.
pub const PREDEFINED: [&str; 38] = [
    "auth_group",
    "auth_type",
    "auth_user",
    "browser",
    "chunked",
    "code",
    "dns",
    "id",
    "internal",
    "ip",
    "keep_alive",
    "keysize",
    "method",
    "path",
    "path_info",
    "ppath",
    "protocol",
    "query",
    "reason",
    "referer",
    "restarted",
    "secret_keysize",
    "security",
    "senthdrs",
    "server_url",
    "time",
    "time_day",
    "time_hour",
    "time_min",
    "time_mon",
    "time_sec",
    "time_wday",
    "time_year",
    "type",
    "uri",
    "url",
    "urlhost",
    "docroot",
];

/// Variables that have entries: `$headers{'referer'}`.
pub const MAPS: [&str; 7] = ["client", "cookie", "env", "headers", "reqpb", "srvhdrs", "vars"];

/// Functions, with the least and the most arguments.
const FUNCTIONS: [(&str, Function, usize, usize); 13] = [
    ("atime", Function::AccessTime, 1, 1),
    ("choose", Function::Choose, 1, 1),
    ("ctime", Function::ChangeTime, 1, 1),
    ("escape", Function::Escape, 1, 1),
    ("httpdate", Function::HttpDate, 1, 1),
    ("lc", Function::LowerCase, 1, 1),
    ("length", Function::Length, 1, 1),
    ("lookup", Function::Lookup, 2, 3),
    ("mtime", Function::ModificationTime, 1, 1),
    ("owner", Function::Owner, 1, 1),
    ("uc", Function::UpperCase, 1, 1),
    ("unescape", Function::Unescape, 1, 1),
    ("uuid", Function::Uuid, 0, 0),
];

/// A function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    AccessTime,
    ChangeTime,
    ModificationTime,
    Owner,
    Choose,
    Escape,
    Unescape,
    HttpDate,
    LowerCase,
    UpperCase,
    Length,
    Lookup,
    Uuid,
}

/// A binary operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Or,
    Xor,
    And,
    NumberEqual,
    NumberNotEqual,
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
    TextLess,
    TextAtMost,
    TextGreater,
    TextAtLeast,
    Plus,
    Minus,
    Joined,
    Times,
    Divided,
    Modulo,
    Wildcard,
    Matches,
    MatchesNot,
}

/// The operators and their precedence.
const OPERATORS: [(&str, Operator, u8); 27] = [
    ("or", Operator::Or, 1),
    ("xor", Operator::Xor, 1),
    ("and", Operator::And, 2),
    ("||", Operator::Or, 5),
    ("&&", Operator::And, 6),
    ("^", Operator::Xor, 7),
    ("==", Operator::NumberEqual, 8),
    ("!=", Operator::NumberNotEqual, 8),
    ("eq", Operator::Equal, 8),
    ("ne", Operator::NotEqual, 8),
    ("<=", Operator::AtMost, 9),
    (">=", Operator::AtLeast, 9),
    ("<", Operator::Less, 9),
    (">", Operator::Greater, 9),
    ("le", Operator::TextAtMost, 9),
    ("ge", Operator::TextAtLeast, 9),
    ("lt", Operator::TextLess, 9),
    ("gt", Operator::TextGreater, 9),
    ("+", Operator::Plus, 11),
    ("-", Operator::Minus, 11),
    (".", Operator::Joined, 11),
    ("*", Operator::Times, 12),
    ("/", Operator::Divided, 12),
    ("%", Operator::Modulo, 12),
    ("=~", Operator::Matches, 13),
    ("!~", Operator::MatchesNot, 13),
    ("=", Operator::Wildcard, 13),
];

/// The precedence of `not`.
const NOT_BINDS: u8 = 3;

/// The precedence of `? :`.
const CHOICE_BINDS: u8 = 4;

/// The operand of `-f` and the like extends over operators of at least this precedence: `-f $docroot . '/a'`
/// tests the whole path.
const FILE_TEST_TAKES: u8 = 11;

/// A text that consists of pieces.
#[derive(Debug, Clone, PartialEq)]
pub struct Template(pub Vec<Piece>);

/// A piece of a text.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// A constant text.
    Literal(Vec<u8>),
    /// The value of an expression.
    Value(Expression),
}

impl Expression {
    /// Parses an expression.
    pub fn parse(text: &[u8]) -> Result<Expression, String> {
        let mut reader = Reader { text, position: 0, depth: 0 };
        let expression = reader.binary(0)?;
        reader.skip_space();
        match reader.rest() {
            b"" => Ok(expression),
            rest => Err(format!("{:?} is not valid there", shown(rest))),
        }
    }

    /// Calls `each` with every variable of the expression.
    pub fn for_each_variable(&self, each: &mut dyn FnMut(&Variable)) {
        match self {
            Expression::Text(template) => template.for_each_variable(each),
            Expression::Variable(variable) | Expression::Defined(variable) => each(variable),
            Expression::Number(_) => {}
            Expression::Call(_, arguments) => {
                arguments.iter().for_each(|argument| argument.for_each_variable(each));
            }
            Expression::Not(inner) | Expression::Negative(inner) | Expression::File(_, inner) => {
                inner.for_each_variable(each);
            }
            Expression::Regex(inner, ..) => inner.for_each_variable(each),
            Expression::Binary(_, left, right) => {
                left.for_each_variable(each);
                right.for_each_variable(each);
            }
            Expression::Choice(condition, left, right) => {
                [condition, left, right].into_iter().for_each(|one| one.for_each_variable(each));
            }
        }
    }
}

impl Template {
    /// Parses a text: `$uri`, `${uri}`, `$headers{'referer'}` and `$(lc($uri))` are replaced by their values,
    /// `$$` and `\$` by `$`. A `$` before anything else is kept.
    pub fn parse(text: &[u8]) -> Result<Template, String> {
        Reader { text, position: 0, depth: 0 }.template(None)
    }

    /// The text, if it is constant.
    pub fn literal(&self) -> Option<&[u8]> {
        match self.0.as_slice() {
            [] => Some(b""),
            [Piece::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Calls `each` with every variable of the text.
    pub fn for_each_variable(&self, each: &mut dyn FnMut(&Variable)) {
        for piece in &self.0 {
            if let Piece::Value(expression) = piece {
                expression.for_each_variable(each);
            }
        }
    }
}

fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(40)]).into_owned()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

struct Reader<'a> {
    text: &'a [u8],
    position: usize,
    depth: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &[u8] {
        &self.text[self.position.min(self.text.len())..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.position).copied()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.position += 1;
        }
    }

    /// Skips this text if it is next; returns whether it did.
    fn take(&mut self, text: &[u8]) -> bool {
        let is_here = self.rest().starts_with(text)
            && !(is_word(text[text.len() - 1]) && self.rest().get(text.len()).copied().is_some_and(is_word));
        if is_here {
            self.position += text.len();
        }
        is_here
    }

    fn word(&mut self) -> Vec<u8> {
        let length = self.rest().iter().position(|byte| !is_word(*byte)).unwrap_or(self.rest().len());
        let word = self.rest()[..length].to_vec();
        self.position += length;
        word
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        if self.depth == DEEPEST {
            return Err(format!("expressions are nested deeper than {DEEPEST}"));
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn operator(&mut self, at_least: u8) -> Option<(Operator, u8)> {
        self.skip_space();
        let before = self.position;
        let longest = OPERATORS.iter().filter(|(text, ..)| self.rest().starts_with(text.as_bytes()));
        let (text, operator, binds) = *longest.max_by_key(|(text, ..)| text.len())?;
        if binds < at_least || !self.take(text.as_bytes()) {
            self.position = before;
            return None;
        }
        Some((operator, binds))
    }

    fn binary(&mut self, at_least: u8) -> Result<Expression, String> {
        self.deeper(|reader| {
            let mut left = reader.operand(at_least)?;
            loop {
                if let Some((operator, binds)) = reader.operator(at_least) {
                    let right = reader.binary(binds + 1)?;
                    left = combined(operator, left, right)?;
                } else if at_least <= CHOICE_BINDS && reader.take(b"?") {
                    let when_so = reader.binary(0)?;
                    reader.expect(b':')?;
                    let otherwise = reader.binary(CHOICE_BINDS)?;
                    left = Expression::Choice(Box::new(left), Box::new(when_so), Box::new(otherwise));
                } else {
                    return Ok(left);
                }
            }
        })
    }

    fn operand(&mut self, at_least: u8) -> Result<Expression, String> {
        self.skip_space();
        if at_least <= NOT_BINDS && self.take(b"not") {
            return Ok(Expression::Not(Box::new(self.binary(NOT_BINDS)?)));
        }
        self.primary()
    }

    fn primary(&mut self) -> Result<Expression, String> {
        self.skip_space();
        match (self.peek(), self.rest().get(1).copied()) {
            (None, _) => Err("an operand is missing at the end".to_string()),
            (Some(b'('), _) => {
                self.position += 1;
                let inner = self.binary(0)?;
                self.expect(b')')?;
                Ok(inner)
            }
            (Some(b'!'), _) => {
                self.position += 1;
                let inner = self.deeper(Reader::primary)?;
                Ok(Expression::Not(Box::new(inner)))
            }
            (Some(b'-'), Some(test)) if test.is_ascii_alphabetic() => self.file_test(test),
            (Some(sign @ (b'-' | b'+')), _) => {
                self.position += 1;
                let inner = Box::new(self.deeper(Reader::primary)?);
                let zero = Box::new(Expression::Number(0));
                Ok(match sign {
                    b'-' => Expression::Negative(inner),
                    _ => Expression::Binary(Operator::Plus, zero, inner),
                })
            }
            (Some(quote @ (b'"' | b'\'')), _) => {
                self.position += 1;
                let template = if quote == b'"' { self.template(Some(b'"'))? } else { self.plain()? };
                Ok(Expression::Text(template))
            }
            (Some(b'$'), _) => {
                self.position += 1;
                match self.variable()? {
                    Some(variable) => Ok(Expression::Variable(variable)),
                    None => Err("'$' must be followed by a name".to_string()),
                }
            }
            (Some(digit), _) if digit.is_ascii_digit() => self.number(),
            _ => self.named(),
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), String> {
        self.skip_space();
        match self.peek() {
            Some(found) if found == byte => {
                self.position += 1;
                Ok(())
            }
            _ => Err(format!("'{}' is missing before {:?}", char::from(byte), shown(self.rest()))),
        }
    }

    fn file_test(&mut self, test: u8) -> Result<Expression, String> {
        let is_alone = !self.rest().get(2).copied().is_some_and(is_word);
        if !is_alone || !b"deflrs".contains(&test) {
            let reason = "-d, -e, -f, -l, -r and -s test files; -U is not supported";
            return Err(format!("{:?} is unknown: {reason}", shown(self.rest())));
        }
        self.position += 2;
        let path = self.binary(FILE_TEST_TAKES)?;
        Ok(Expression::File(test, Box::new(path)))
    }

    fn number(&mut self) -> Result<Expression, String> {
        let begin = self.position;
        let is_part = |byte: &u8| is_word(*byte) || *byte == b'.';
        let length = self.rest().iter().position(|byte| !is_part(byte)).unwrap_or(self.rest().len());
        self.position += length;
        let text = String::from_utf8_lossy(&self.text[begin..self.position]).into_owned();
        let of_base = |digits: &str, base| i64::from_str_radix(digits, base).ok();
        let number = match text.strip_prefix("0x") {
            Some(digits) => of_base(digits, 16),
            None if text.len() > 1 && text.starts_with('0') => of_base(&text, 8),
            None => of_base(&text, 10),
        };
        number.map(Expression::Number).ok_or(format!("{text:?} is not an integer"))
    }

    /// A function, `defined`, or a variable of the server without its `$`.
    fn named(&mut self) -> Result<Expression, String> {
        let begin = self.position;
        let name = String::from_utf8_lossy(&self.word()).into_owned();
        if name == "defined" {
            self.skip_space();
            self.take(b"$");
            return match self.variable()? {
                Some(variable) => Ok(Expression::Defined(variable)),
                None => Err("'defined' needs a variable".to_string()),
            };
        }
        if let Some((_, function, least, most)) = FUNCTIONS.iter().find(|(known, ..)| *known == name) {
            return self.call(&name, *function, (*least, *most));
        }
        if let Some(known) = predefined(name.as_bytes()) {
            return Ok(Expression::Variable(Variable::Predefined(known)));
        }
        if name == "external" {
            return Err(
                "external() is not supported, because it would run a program for each request".to_string()
            );
        }
        let what = if name.is_empty() { shown(&self.text[begin..]) } else { name };
        Err(format!("{what:?} is neither a function nor a variable of the server"))
    }

    fn call(
        &mut self,
        name: &str,
        function: Function,
        (least, most): (usize, usize),
    ) -> Result<Expression, String> {
        self.expect(b'(')?;
        let mut arguments = Vec::new();
        self.skip_space();
        while self.peek() != Some(b')') {
            if !arguments.is_empty() {
                self.expect(b',')?;
            }
            arguments.push(self.binary(0)?);
            self.skip_space();
        }
        self.expect(b')')?;
        if !(least..=most).contains(&arguments.len()) {
            return Err(format!("{name}() has {} arguments, but needs {least} to {most}", arguments.len()));
        }
        Ok(Expression::Call(function, arguments))
    }

    /// The variable after a `$`; `None` if there is none.
    fn variable(&mut self) -> Result<Option<Variable>, String> {
        if self.take(b"&") {
            return Ok(Some(Variable::Group(0)));
        }
        if let Some(digit @ b'1'..=b'9') = self.peek() {
            self.position += 1;
            return Ok(Some(Variable::Group(usize::from(digit - b'0'))));
        }
        let begin = self.position;
        let is_braced = self.take(b"{");
        if !self.peek().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_') {
            self.position = begin;
            return Ok(None);
        }
        let name = self.word();
        let map = MAPS.into_iter().find(|known| known.as_bytes() == name);
        let variable = match map {
            Some(map) if self.peek() == Some(b'{') => {
                self.position += 1;
                let key = self.key()?;
                self.expect(b'}')?;
                Variable::Entry(map, key)
            }
            _ => predefined(&name).map_or(Variable::Own(name), Variable::Predefined),
        };
        if is_braced {
            self.expect(b'}')?;
        }
        Ok(Some(variable))
    }

    fn key(&mut self) -> Result<Vec<u8>, String> {
        self.skip_space();
        let key = match self.peek() {
            Some(quote @ (b'\'' | b'"')) => {
                self.position += 1;
                let length = self.rest().iter().position(|byte| *byte == quote);
                let length = length.ok_or("the quotation mark of an entry's name is not closed")?;
                let key = self.rest()[..length].to_vec();
                self.position += length + 1;
                key
            }
            _ => {
                let is_part = |byte: &u8| is_word(*byte) || *byte == b'-';
                let length = self.rest().iter().position(|byte| !is_part(byte)).unwrap_or(self.rest().len());
                let key = self.rest()[..length].to_vec();
                self.position += length;
                key
            }
        };
        Ok(key)
    }

    /// A text in single quotes: a backslash escapes only the quote.
    fn plain(&mut self) -> Result<Template, String> {
        let mut text = Vec::new();
        loop {
            match (self.peek(), self.rest().get(1)) {
                (None, _) => return Err("a \"'\" is not closed".to_string()),
                (Some(b'\''), _) => {
                    self.position += 1;
                    return Ok(Template(vec![Piece::Literal(text)]));
                }
                (Some(b'\\'), Some(b'\'')) => {
                    text.push(b'\'');
                    self.position += 2;
                }
                (Some(byte), _) => {
                    text.push(byte);
                    self.position += 1;
                }
            }
        }
    }

    /// A text with variables, up to its quote or the end.
    fn template(&mut self, quote: Option<u8>) -> Result<Template, String> {
        let mut pieces = Vec::new();
        let mut text = Vec::new();
        loop {
            match (self.peek(), self.rest().get(1).copied()) {
                (None, _) if quote.is_some() => return Err("a '\"' is not closed".to_string()),
                (byte, _) if byte == quote => break,
                (Some(b'\\'), Some(b'$')) | (Some(b'$'), Some(b'$')) => {
                    text.push(b'$');
                    self.position += 2;
                    continue;
                }
                (Some(b'\\'), Some(escaped @ (b'"' | b'\\'))) if quote.is_some() => {
                    text.push(escaped);
                    self.position += 2;
                    continue;
                }
                (Some(b'$'), _) => {
                    self.position += 1;
                    if let Some(value) = self.value()? {
                        if !text.is_empty() {
                            pieces.push(Piece::Literal(std::mem::take(&mut text)));
                        }
                        pieces.push(Piece::Value(value));
                        continue;
                    }
                    text.push(b'$');
                    continue;
                }
                (Some(byte), _) => text.push(byte),
                (None, _) => break,
            }
            self.position += 1;
        }
        self.position += 1;
        if !text.is_empty() {
            pieces.push(Piece::Literal(text));
        }
        Ok(Template(pieces))
    }

    /// The value after a `$` in a text.
    fn value(&mut self) -> Result<Option<Expression>, String> {
        if self.peek() != Some(b'(') {
            return Ok(self.variable()?.map(Expression::Variable));
        }
        self.position += 1;
        let inner = self.binary(0)?;
        self.expect(b')')?;
        Ok(Some(inner))
    }
}

fn predefined(name: &[u8]) -> Option<&'static str> {
    PREDEFINED.into_iter().find(|known| known.as_bytes() == name)
}

fn combined(operator: Operator, left: Expression, right: Expression) -> Result<Expression, String> {
    if let (Operator::Matches | Operator::MatchesNot, Expression::Text(template)) = (operator, &right)
        && let Some(text) = template.literal()
    {
        let regex = regular_expression(text)?;
        return Ok(Expression::Regex(Box::new(left), LiteralRegex(regex), operator == Operator::Matches));
    }
    if let (Operator::Wildcard, Expression::Text(template)) = (operator, &right)
        && let Some(text) = template.literal()
    {
        crate::pattern::Pattern::new(text)
            .map_err(|error| format!("the pattern {:?} is not valid: {error}", shown(text)))?;
    }
    if let Operator::NumberEqual | Operator::NumberNotEqual = operator {
        for side in [&left, &right] {
            // The number of such a text is always 0, so the comparison would be always true or always false.
            if let Expression::Text(template) = side
                && let Some(text) = template.literal()
                && !text.iter().any(u8::is_ascii_digit)
            {
                let text = shown(text);
                return Err(format!("== and != compare numbers; use eq, ne or = to compare with {text:?}"));
            }
        }
    }
    Ok(Expression::Binary(operator, Box::new(left), Box::new(right)))
}

/// Compiles a regular expression.
pub fn regular_expression(text: &[u8]) -> Result<Regex, String> {
    let readable =
        std::str::from_utf8(text).map_err(|_| "the regular expression is not UTF-8".to_string())?;
    regex::bytes::RegexBuilder::new(readable).unicode(false).build().map_err(|error| {
        let error = error.to_string();
        let reason = error.lines().last().unwrap_or_default().to_string();
        format!("the regular expression {readable:?} is not valid: {reason}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_wrong_with_an_expression_is_named() {
        for (text, expected) in [
            ("", "an operand is missing"),
            ("$uri =", "an operand is missing"),
            ("$uri = 'a", "is not closed"),
            ("$uri = \"a", "is not closed"),
            ("$uri =~ '(a'", "is not valid: "),
            ("$uri =~ '(?!a)'", "look-around"),
            ("$uri = '(a'", "the pattern \"(a\" is not valid"),
            ("($uri", "')' is missing"),
            ("$uri) and 1", "is not valid there"),
            ("-U $uri", "-U is not supported"),
            ("lc()", "0 arguments"),
            ("external('a')", "not supported"),
            ("someone = 'a'", "neither a function nor a variable"),
            ("$ eq 'a'", "must be followed by a name"),
            ("1x", "is not an integer"),
            ("1.5", "is not an integer"),
            ("$uri != '/a'", "compare numbers"),
            ("'on' == $internal", "compare numbers"),
            ("1 ? 2", "':' is missing"),
            ("defined 'a'", "needs a variable"),
        ] {
            let error = Expression::parse(text.as_bytes()).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
        for deep in ["(".repeat(2_000), "!".repeat(2_000), "not ".repeat(2_000), "-".repeat(2_000)] {
            assert!(Expression::parse(format!("{deep}1").as_bytes()).is_err());
        }
    }

    #[test]
    fn texts_without_variables_stay_as_they_are() {
        for text in ["", "/a/b", "*.gif$", "(a$|b$)", "a$ b", "$-", "${", "$[x]"] {
            let template = Template::parse(text.as_bytes()).unwrap();
            assert_eq!(template.literal(), Some(text.as_bytes()), "{text}");
        }
        assert_eq!(Template::parse(b"a$$b\\$c").unwrap().literal(), Some(&b"a$b$c"[..]));
        assert!(Template::parse(b"${uri}x").unwrap().literal().is_none());
        assert!(Template::parse(b"$(lc('A'))").unwrap().literal().is_none());
    }

    proptest! {
        #[test]
        fn no_expression_panics(text: Vec<u8>) {
            let _ = Expression::parse(&text);
            let _ = Template::parse(&text);
        }

        #[test]
        fn no_expression_of_the_right_words_panics(
            words in proptest::collection::vec(
                proptest::sample::select(vec![
                    "$uri ", "'a' ", "\"$1 ", "\" ", "(", ")", "not ", "and ", "=~ ", "= ", "-d ",
                    "$headers{", "}", "lc(", ", ", "7 ", "- ", "$(", "! ", "defined ", "? ", ": ", "% ",
                    "!= ",
                ]),
                0..40,
            ),
        ) {
            let text = words.concat();
            let _ = Expression::parse(text.as_bytes());
            let _ = Template::parse(text.as_bytes());
        }
    }
}
