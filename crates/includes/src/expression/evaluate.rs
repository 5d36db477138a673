//! Evaluates conditions in the grammar of Apache 2.4.
//!
//! The recursion is as deep as the parser allowed. Values that can grow (concatenations of variables) are
//! limited.

use super::error::EvaluationError;
use super::limits::MOST_VALUE_BYTES;
use super::regular_expression::RegularExpression;
use super::scope::Scope;
use super::tree::{List, Node, Substitution, Word};
use super::{functions, wildcard};

impl Node {
    pub(super) fn holds(&self, scope: &mut impl Scope) -> Result<bool, EvaluationError> {
        Ok(match self {
            Node::Constant(value) => *value,
            Node::Not(node) => !node.holds(scope)?,
            Node::Any(nodes) => {
                for node in nodes {
                    if node.holds(scope)? {
                        return Ok(true);
                    }
                }
                false
            }
            Node::All(nodes) => {
                for node in nodes {
                    if !node.holds(scope)? {
                        return Ok(false);
                    }
                }
                true
            }
            Node::Numbers(comparison, left, right) => {
                let left = number(&left.value(scope)?);
                comparison.holds(left.cmp(&number(&right.value(scope)?)))
            }
            Node::Strings(comparison, left, right) => {
                let left = left.value(scope)?;
                comparison.holds(left.cmp(&right.value(scope)?))
            }
            Node::Matches { negated, subject, pattern } => {
                let subject = subject.value(scope)?;
                matches(&subject, pattern, scope) != *negated
            }
            Node::In(word, list) => {
                let word = word.value(scope)?;
                list.values(scope)?.contains(&word)
            }
            Node::IsEmpty(word) => word.value(scope)?.is_empty(),
            Node::IsTrue(word) => is_true(&word.value(scope)?),
            Node::Accessible(word) => {
                let path = word.value(scope)?;
                scope.is_accessible(&path)
            }
            Node::IsFile(word) => {
                let path = word.value(scope)?;
                scope.is_file(&path)
            }
            Node::RemoteIn(network) => {
                let address = scope.variable(b"REMOTE_ADDR").unwrap_or_default();
                network.contains(&address)
            }
            Node::AddressIn(word, network) => network.contains(&word.value(scope)?),
            Node::Wildcard { subject, pattern, any_case, paths } => {
                let subject = subject.value(scope)?;
                wildcard::matches(&pattern.value(scope)?, &subject, *any_case, *paths)
            }
        })
    }
}

/// A pattern without groups does not change `$0` to `$9`, so that a page can use them later.
fn matches(subject: &[u8], pattern: &RegularExpression, scope: &mut impl Scope) -> bool {
    if !pattern.has_groups() {
        return pattern.is_match(subject);
    }
    let groups = pattern.groups(subject);
    let matched = groups.is_some();
    scope.captures().set(subject, groups);
    matched
}

/// Parses a number as C does: trailing text is ignored, and a text that is not a number is 0.
fn number(text: &[u8]) -> i64 {
    let text = text.trim_ascii_start();
    let (negative, digits) = match text.first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let value =
        digits.fold(0i64, |value, digit| value.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    if negative { -value } else { value }
}

fn is_true(value: &[u8]) -> bool {
    let false_values: [&[u8]; 4] = [b"off", b"no", b"false", b"0"];
    !value.is_empty() && !false_values.iter().any(|known| known.eq_ignore_ascii_case(value))
}

impl Word {
    pub(super) fn value(&self, scope: &mut impl Scope) -> Result<Vec<u8>, EvaluationError> {
        let value = match self {
            Word::Text(text) => text.clone(),
            Word::Concatenated(words) => {
                let mut value = Vec::new();
                for word in words {
                    value.extend(word.value(scope)?);
                    check_length(&value)?;
                }
                value
            }
            Word::Variable(variable) => variable.value(scope),
            Word::Function(function, argument) => {
                let argument = argument.value(scope)?;
                functions::apply(*function, argument, scope)
            }
            Word::Replace(arguments) => {
                let [text, from, to] = &**arguments;
                replace(&text.value(scope)?, &from.value(scope)?, &to.value(scope)?)?
            }
            Word::Capture(index) => scope.captures().group(*index).unwrap_or_default().to_vec(),
            Word::Condition(node) => if node.holds(scope)? { &b"true"[..] } else { b"false" }.to_vec(),
            Word::Substituted { subject, substitution } => {
                let subject = subject.value(scope)?;
                substitution.apply(&subject, scope)?
            }
            Word::Joined(list, separator) => {
                let separator = match separator {
                    Some(word) => word.value(scope)?,
                    None => Vec::new(),
                };
                list.values(scope)?.join(&separator[..])
            }
        };
        check_length(&value)?;
        Ok(value)
    }
}

impl List {
    fn values(&self, scope: &mut impl Scope) -> Result<Vec<Vec<u8>>, EvaluationError> {
        let (pattern, list, substitution) = match self {
            List::Words(words) => return words.iter().map(|word| word.value(scope)).collect(),
            List::Split(pattern, list) => (pattern, list, None),
            List::SplitSubstituted(substitution, list) => (&substitution.pattern, list, Some(substitution)),
        };
        let mut values = Vec::new();
        for value in list.values(scope)? {
            match substitution {
                // The replacement of each match ends a piece.
                Some(substitution) => values.push(substitution.apply(&value, scope)?),
                None => split(&value, pattern, &mut values),
            }
        }
        Ok(values)
    }
}

fn split(value: &[u8], pattern: &RegularExpression, pieces: &mut Vec<Vec<u8>>) {
    let mut from = 0;
    let mut at = 0;
    while let Some(found) = pattern.find_at(value, at) {
        if found.is_empty() {
            at = found.end + 1;
            if at > value.len() {
                break;
            }
            continue;
        }
        pieces.push(value[from..found.start].to_vec());
        from = found.end;
        at = found.end;
    }
    pieces.push(value[from..].to_vec());
}

impl Substitution {
    fn apply(&self, subject: &[u8], scope: &mut impl Scope) -> Result<Vec<u8>, EvaluationError> {
        let mut result = Vec::with_capacity(subject.len());
        let mut from = 0;
        let mut at = 0;
        while let Some(groups) = self.pattern.groups_at(subject, at) {
            let Some(found) = groups.first().cloned().flatten() else { break };
            result.extend_from_slice(&subject[from..found.start]);
            scope.captures().set(subject, Some(groups));
            result.extend(self.replacement.value(scope)?);
            check_length(&result)?;
            from = found.end;
            // An empty match must not be found again.
            at = if found.is_empty() { found.end + 1 } else { found.end };
            if !self.everywhere || at > subject.len() {
                break;
            }
        }
        result.extend_from_slice(&subject[from..]);
        Ok(result)
    }
}

fn replace(text: &[u8], from: &[u8], to: &[u8]) -> Result<Vec<u8>, EvaluationError> {
    if from.is_empty() {
        return Ok(text.to_vec());
    }
    let mut result = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(found) = memchr::memmem::find(rest, from) {
        result.extend_from_slice(&rest[..found]);
        result.extend_from_slice(to);
        check_length(&result)?;
        rest = &rest[found + from.len()..];
    }
    result.extend_from_slice(rest);
    Ok(result)
}

fn check_length(value: &[u8]) -> Result<(), EvaluationError> {
    if value.len() > MOST_VALUE_BYTES {
        return Err(EvaluationError(format!("a value is longer than {MOST_VALUE_BYTES} bytes")));
    }
    Ok(())
}
