//! Operators: the result for known values, and the conditions for values of answers.

use super::values::{AnswerPart, AnswerValue, Condition, Value, literal, number_text, plain};
use super::{Interpreter, MAXIMUM_TEXT};
use crate::javascript::syntax::Expression;

/// A known value of a simple type.
enum KnownValue {
    Number(f64),
    Text(String),
    Bool(bool),
    Nothing,
}

impl Interpreter {
    /// Whether a value is true; `None`: it is not known, or depends on an answer.
    pub(super) fn truth(&self, value: &Value) -> Option<bool> {
        match value {
            Value::Undefined | Value::Null | Value::Environment(_) => Some(false),
            Value::Bool(is) => Some(*is),
            Value::Number(number) => Some(*number != 0.0 && !number.is_nan()),
            Value::Text(text) => Some(!text.is_empty()),
            // An expected answer exists and has the value.
            Value::Answer(_) | Value::AnswerValue(_) | Value::File(_) | Value::Rows(_) | Value::Row(_) => {
                Some(true)
            }
            Value::List(_)
            | Value::Object(_)
            | Value::Function(..)
            | Value::Native(_)
            | Value::Pattern(_) => Some(true),
            Value::Random(..)
            | Value::Condition(_)
            | Value::Expected(..)
            | Value::Position(..)
            | Value::Unknown => None,
        }
    }

    /// The condition for an answer under which the value is true.
    pub(crate) fn condition_of(&self, value: &Value) -> Option<Condition> {
        match value {
            Value::Condition(condition) => Some(condition.clone()),
            Value::AnswerValue(AnswerValue { request, place: AnswerPart::Length(steps), .. }) => {
                Some(Condition::assert(*request, format!("json ${steps}[0]")))
            }
            // A body exists even if it is empty.
            Value::AnswerValue(AnswerValue { place: AnswerPart::Body, .. }) => None,
            Value::AnswerValue(found) => Some(Condition::assert(found.request, found.place.source()?)),
            _ => None,
        }
    }

    pub(super) fn unary(&mut self, operator: &str, value: &Value) -> Value {
        match (operator, value) {
            ("!", Value::Condition(condition)) => {
                condition.clone().not().map_or(Value::Unknown, Value::Condition)
            }
            ("!", value) => self.truth(value).map_or(Value::Unknown, |is| Value::Bool(!is)),
            ("-", Value::Number(number)) => Value::Number(-number),
            ("-", Value::Random(low, high)) => Value::Random(-high, -low),
            ("+", Value::Number(number)) => Value::Number(*number),
            ("+", Value::Text(text)) => match plain(text).and_then(|text| text.trim().parse().ok()) {
                Some(number) => Value::Number(number),
                None => value.clone(),
            },
            ("+", _) => value.clone(),
            ("typeof", value) => Value::Text(
                match value {
                    Value::Undefined | Value::Environment(_) => "undefined",
                    Value::Number(_) | Value::Random(..) => "number",
                    Value::Text(_) => "string",
                    Value::Bool(_) => "boolean",
                    Value::Function(..) => "function",
                    Value::List(_) | Value::Object(_) | Value::Null | Value::Answer(_) => "object",
                    _ => return Value::Unknown,
                }
                .to_string(),
            ),
            ("void" | "delete", _) => Value::Undefined,
            _ => Value::Unknown,
        }
    }

    pub(super) fn binary(
        &mut self,
        operator: &'static str,
        left: &Expression,
        right: &Expression,
        scope: usize,
    ) -> Value {
        let value = self.value(left, scope);
        match operator {
            "," => return self.value(right, scope),
            "??" => {
                return match value {
                    Value::Undefined | Value::Null | Value::Environment(_) => self.value(right, scope),
                    value => value,
                };
            }
            "||" | "&&" => return self.either(operator, value, right, scope),
            _ => {}
        }
        let other = self.value(right, scope);
        match operator {
            "+" => self.plus(&value, &other),
            "===" | "!==" | "==" | "!=" | "<" | ">" | "<=" | ">=" => self.compare(operator, &value, &other),
            "in" | "instanceof" => Value::Unknown,
            _ => arithmetic(operator, &value, &other),
        }
    }

    fn either(&mut self, operator: &str, value: Value, right: &Expression, scope: usize) -> Value {
        if let Some(condition) = self.condition_of(&value) {
            let other = self.value(right, scope);
            // `res.json('x') || ''` is a value, not a condition.
            let Some(second) = self.condition_of(&other) else {
                let is_condition = matches!(value, Value::Condition(_));
                return match (operator, self.truth(&other)) {
                    ("&&", Some(true)) | ("||", Some(false)) if is_condition => Value::Condition(condition),
                    ("||", _) if !is_condition => value,
                    ("&&", _) if !is_condition => other,
                    _ => Value::Unknown,
                };
            };
            return match operator {
                "&&" => Value::Condition(condition.and(second)),
                _ if !matches!(value, Value::Condition(_)) => value,
                _ => condition.or(second).map_or(Value::Unknown, Value::Condition),
            };
        }
        match (operator, self.truth(&value)) {
            ("||", Some(false)) | ("&&", Some(true)) => {
                let default = self.value(right, scope);
                match (&value, &default) {
                    // A variable of the environment without a default must be set.
                    (Value::Environment(_), Value::Undefined | Value::Null) => value,
                    _ => default,
                }
            }
            (_, Some(_)) => value,
            (_, None) => {
                self.value(right, scope);
                Value::Unknown
            }
        }
    }

    pub(super) fn plus(&mut self, left: &Value, right: &Value) -> Value {
        let is_text = |value: &Value| {
            matches!(value, Value::Text(_) | Value::AnswerValue(_) | Value::Environment(_) | Value::Bool(_))
        };
        if !is_text(left) && !is_text(right) {
            return arithmetic("+", left, right);
        }
        match (self.text(left), self.text(right)) {
            (Some(left), Some(right)) if left.len() + right.len() < MAXIMUM_TEXT => {
                Value::Text(left + &right)
            }
            _ => Value::Unknown,
        }
    }

    pub(super) fn compare(&mut self, operator: &str, left: &Value, right: &Value) -> Value {
        if let (Value::Environment(_), other) | (other, Value::Environment(_)) = (left, right) {
            // The value is not known; without a variable it is undefined.
            let is_nothing = matches!(other, Value::Undefined | Value::Null);
            return if is_nothing { Value::Bool(operator.starts_with('=')) } else { Value::Unknown };
        }
        if let (Some(one), Some(two)) = (known(left), known(right)) {
            return compare_known(operator, &one, &two).map_or(Value::Unknown, Value::Bool);
        }
        let condition = match (left, right) {
            (Value::AnswerValue(_) | Value::Position(..) | Value::Condition(_), other) => {
                self.compare_found(operator, left, other)
            }
            (other, Value::AnswerValue(_) | Value::Position(..) | Value::Condition(_)) => {
                let turned = match operator {
                    "<" => ">",
                    ">" => "<",
                    "<=" => ">=",
                    ">=" => "<=",
                    same => same,
                };
                self.compare_found(turned, right, other)
            }
            _ => None,
        };
        condition.map_or(Value::Unknown, Value::Condition)
    }

    fn compare_found(&mut self, operator: &str, found: &Value, other: &Value) -> Option<Condition> {
        let is_equal = matches!(operator, "===" | "==");
        let is_unequal = matches!(operator, "!==" | "!=");
        let condition = match (found, known(other)?) {
            (
                Value::AnswerValue(AnswerValue { request, place: AnswerPart::Status, .. }),
                KnownValue::Number(number),
            ) => {
                return Some(Condition::statuses(*request, |status| holds(operator, status, number)));
            }
            (
                Value::AnswerValue(AnswerValue { request, place: AnswerPart::Length(steps), .. }),
                KnownValue::Number(number),
            ) => {
                // There is at least one, or none.
                let is_some =
                    (0..1000).all(|length| holds(operator, f64::from(length), number) == (length > 0));
                let is_none =
                    (0..1000).all(|length| holds(operator, f64::from(length), number) == (length == 0));
                let condition = Condition::assert(*request, format!("json ${steps}[0]"));
                return if is_some { Some(condition) } else { is_none.then(|| condition.not()).flatten() };
            }
            (Value::Position(request, text), KnownValue::Number(number)) => {
                // -1 if the text is missing.
                let condition = contains(*request, text)?;
                return match (holds(operator, -1.0, number), holds(operator, 5.0, number)) {
                    (false, true) => Some(condition),
                    (true, false) => condition.not(),
                    _ => None,
                };
            }
            (Value::Condition(condition), KnownValue::Bool(true)) => condition.clone(),
            (Value::Condition(condition), KnownValue::Bool(false)) => condition.clone().not()?,
            // `!== undefined`: the value exists.
            (Value::AnswerValue(found), KnownValue::Nothing) => {
                Condition::assert(found.request, found.place.source()?).not()?
            }
            (Value::AnswerValue(found), other) => {
                let text = match other {
                    KnownValue::Text(text) => text,
                    KnownValue::Number(number) => number_text(number),
                    KnownValue::Bool(is) => is.to_string(),
                    KnownValue::Nothing => return None,
                };
                if text.contains('\n') || text.trim() != text {
                    return None;
                }
                Condition::assert(found.request, format!("{} == {text}", found.place.source()?))
            }
            _ => return None,
        };
        if is_equal { Some(condition) } else { is_unequal.then(|| condition.not()).flatten() }
    }
}

/// The condition that a body contains a text.
pub(super) fn contains(request: usize, text: &str) -> Option<Condition> {
    let text = plain(text).filter(|text| !text.is_empty() && !text.contains('\n') && text.trim() == text)?;
    Some(Condition::assert(request, format!("contains {}", literal(&text))))
}

fn known(value: &Value) -> Option<KnownValue> {
    Some(match value {
        Value::Undefined | Value::Null => KnownValue::Nothing,
        Value::Bool(is) => KnownValue::Bool(*is),
        Value::Number(number) => KnownValue::Number(*number),
        Value::Text(text) => KnownValue::Text(plain(text)?),
        _ => return None,
    })
}

fn compare_known(operator: &str, left: &KnownValue, right: &KnownValue) -> Option<bool> {
    let is_equal = match (left, right) {
        (KnownValue::Number(left), KnownValue::Number(right)) => {
            return Some(holds(operator, *left, *right));
        }
        (KnownValue::Text(left), KnownValue::Text(right)) => left == right,
        (KnownValue::Bool(left), KnownValue::Bool(right)) => left == right,
        (KnownValue::Nothing, KnownValue::Nothing) => true,
        (KnownValue::Nothing, _) | (_, KnownValue::Nothing) => false,
        _ => return None,
    };
    match operator {
        "===" | "==" => Some(is_equal),
        "!==" | "!=" => Some(!is_equal),
        _ => None,
    }
}

fn holds(operator: &str, left: f64, right: f64) -> bool {
    match operator {
        "===" | "==" => left == right,
        "!==" | "!=" => left != right,
        "<" => left < right,
        ">" => left > right,
        "<=" => left <= right,
        _ => left >= right,
    }
}

fn arithmetic(operator: &str, left: &Value, right: &Value) -> Value {
    let result = |left: f64, right: f64| match operator {
        "+" => Some(left + right),
        "-" => Some(left - right),
        "*" => Some(left * right),
        "/" => Some(left / right),
        "%" => Some(left % right),
        "**" => Some(left.powf(right)),
        _ => None,
    };
    let ends = |value: &Value| match value {
        Value::Number(number) => Some((*number, *number)),
        Value::Random(low, high) => Some((*low, *high)),
        _ => None,
    };
    let (Some((low, high)), Some((other_low, other_high))) = (ends(left), ends(right)) else {
        return Value::Unknown;
    };
    if let (Value::Number(left), Value::Number(right)) = (left, right) {
        return result(*left, *right).map_or(Value::Unknown, Value::Number);
    }
    // The bounds of the result; those of a remainder are not known.
    let corners =
        [result(low, other_low), result(low, other_high), result(high, other_low), result(high, other_high)];
    let corners: Vec<f64> = corners.into_iter().flatten().filter(|end| end.is_finite()).collect();
    if corners.len() < 4 || operator == "%" {
        return Value::Unknown;
    }
    let low = corners.iter().copied().fold(f64::INFINITY, f64::min);
    let high = corners.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Value::Random(low, high)
}
