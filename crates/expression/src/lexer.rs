//! The words of a condition.

use crate::operand::Operand;
use crate::scope::Scope;

/// A word.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Word {
    Variable(Operand),
    /// In quotes, or a number.
    Value(String),
    Compare(Comparison),
    And,
    Or,
    Not,
    In,
    Open,
    Close,
    OpenList,
    CloseList,
    Comma,
}

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Matches,
    MatchesNot,
}

/// Splits a condition into words.
pub(crate) fn words(text: &str, scope: Scope<'_>) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (word, after) = match first {
            '$' => {
                let (operand, after) = Operand::read(&rest[1..], scope)?;
                (Word::Variable(operand), after)
            }
            '"' | '\'' => quoted(rest, first)?,
            '0'..='9' => {
                let end = rest.find(|next: char| !next.is_ascii_digit()).unwrap_or(rest.len());
                (Word::Value(rest[..end].to_string()), &rest[end..])
            }
            'a'..='z' | 'A'..='Z' => bare(rest)?,
            _ => sign(rest)?,
        };
        words.push(word);
        rest = after.trim_start();
    }
    Ok(words)
}

/// Text in quotes. A backslash before the same quote or another backslash takes its meaning away; any other
/// one is itself, as expressions need it.
fn quoted(text: &str, quote: char) -> Result<(Word, &str), String> {
    let mut value = String::new();
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((position, character)) = characters.next() {
        if character == quote {
            return Ok((Word::Value(value), &text[position + 1..]));
        }
        let next = characters.peek().map(|(_, next)| *next);
        if character == '\\' && (next == Some(quote) || next == Some('\\')) {
            if next == Some('\\') {
                // Two backslashes stay two for an expression, in which they denote one.
                value.push('\\');
            }
            value.extend(next);
            characters.next();
        } else {
            value.push(character);
        }
    }
    Err(format!("{text:?} has no quote at its end"))
}

fn bare(text: &str) -> Result<(Word, &str), String> {
    let end = text.find(|next: char| !next.is_ascii_alphanumeric() && next != '_').unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let word = match word {
        "and" => Word::And,
        "or" => Word::Or,
        "not" => Word::Not,
        "in" => Word::In,
        _ => {
            return Err(format!(
                "{word:?} is not a word of a condition; text is in quotes, a variable begins with '$', and \
                 the words are and, or, not, in"
            ));
        }
    };
    Ok((word, rest))
}

fn sign(text: &str) -> Result<(Word, &str), String> {
    const SIGNS: [(&str, Word); 14] = [
        ("==", Word::Compare(Comparison::Equal)),
        ("!=", Word::Compare(Comparison::NotEqual)),
        ("=~", Word::Compare(Comparison::Matches)),
        ("!~", Word::Compare(Comparison::MatchesNot)),
        ("<=", Word::Compare(Comparison::LessOrEqual)),
        (">=", Word::Compare(Comparison::GreaterOrEqual)),
        ("<", Word::Compare(Comparison::Less)),
        (">", Word::Compare(Comparison::Greater)),
        ("!", Word::Not),
        ("(", Word::Open),
        (")", Word::Close),
        ("[", Word::OpenList),
        ("]", Word::CloseList),
        (",", Word::Comma),
    ];
    let pairs = [("&&", Word::And), ("||", Word::Or)];
    let found = SIGNS
        .iter()
        .chain(&pairs)
        .find_map(|(sign, word)| text.strip_prefix(sign).map(|rest| (word.clone(), rest)));
    found.ok_or_else(|| match text.starts_with('=') {
        true => "'=' is not a comparison; write '==' or '=~'".to_string(),
        false => format!("{:?} has no meaning in a condition", text.chars().next().unwrap_or_default()),
    })
}
