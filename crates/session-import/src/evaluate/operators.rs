//! Operators: of what is known, their value; of places in answers, what must be true of them.

use super::values::{Claim, Found, Place, Value, literal, number_text, plain};
use super::{Interpreter, MAXIMUM_TEXT};
use crate::javascript::syntax::Expression;

/// Two values, where what they are is known.
enum Known {
    Number(f64),
    Text(String),
    Bool(bool),
    Nothing,
}

impl Interpreter {
    /// Whether a value counts as true; `None`: not known, or a matter of an answer.
    pub(super) fn truth(&self, value: &Value) -> Option<bool> {
        match value {
            Value::Undefined | Value::Null | Value::Environment(_) => Some(false),
            Value::Bool(is) => Some(*is),
            Value::Number(number) => Some(*number != 0.0 && !number.is_nan()),
            Value::Text(text) => Some(!text.is_empty()),
            // An answer that is expected is there, and has what is looked for.
            Value::Answer(_) | Value::Found(_) | Value::File(_) | Value::Rows(_) | Value::Row(_) => {
                Some(true)
            }
            Value::List(_)
            | Value::Object(_)
            | Value::Function(..)
            | Value::Native(_)
            | Value::Pattern(_) => Some(true),
            Value::Random(..)
            | Value::Claim(_)
            | Value::Expected(..)
            | Value::Position(..)
            | Value::Unknown => None,
        }
    }

    /// What must be true of an answer so that the value counts as true.
    pub(crate) fn claim(&self, value: &Value) -> Option<Claim> {
        match value {
            Value::Claim(claim) => Some(claim.clone()),
            Value::Found(Found { request, place: Place::Length(steps), .. }) => {
                Some(Claim::assert(*request, format!("json ${steps}[0]")))
            }
            // A body may be empty where it "is there".
            Value::Found(Found { place: Place::Body, .. }) => None,
            Value::Found(found) => Some(Claim::assert(found.request, found.place.source()?)),
            _ => None,
        }
    }

    pub(super) fn unary(&mut self, operator: &str, value: &Value) -> Value {
        match (operator, value) {
            ("!", Value::Claim(claim)) => claim.clone().not().map_or(Value::Unknown, Value::Claim),
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
        if let Some(claim) = self.claim(&value) {
            let other = self.value(right, scope);
            // `res.json('x') || ''` is a value, not a condition.
            let Some(second) = self.claim(&other) else {
                let is_condition = matches!(value, Value::Claim(_));
                return match (operator, self.truth(&other)) {
                    ("&&", Some(true)) | ("||", Some(false)) if is_condition => Value::Claim(claim),
                    ("||", _) if !is_condition => value,
                    ("&&", _) if !is_condition => other,
                    _ => Value::Unknown,
                };
            };
            return match operator {
                "&&" => Value::Claim(claim.and(second)),
                _ if !matches!(value, Value::Claim(_)) => value,
                _ => claim.or(second).map_or(Value::Unknown, Value::Claim),
            };
        }
        match (operator, self.truth(&value)) {
            ("||", Some(false)) | ("&&", Some(true)) => {
                let default = self.value(right, scope);
                match (&value, &default) {
                    // A variable of the environment without a default has to be given.
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
            matches!(value, Value::Text(_) | Value::Found(_) | Value::Environment(_) | Value::Bool(_))
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
            // It is not known what it will be; without one it is not there.
            let is_nothing = matches!(other, Value::Undefined | Value::Null);
            return if is_nothing { Value::Bool(operator.starts_with('=')) } else { Value::Unknown };
        }
        if let (Some(one), Some(two)) = (known(left), known(right)) {
            return compare_known(operator, &one, &two).map_or(Value::Unknown, Value::Bool);
        }
        let claim = match (left, right) {
            (Value::Found(_) | Value::Position(..) | Value::Claim(_), other) => {
                self.compare_found(operator, left, other)
            }
            (other, Value::Found(_) | Value::Position(..) | Value::Claim(_)) => {
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
        claim.map_or(Value::Unknown, Value::Claim)
    }

    fn compare_found(&mut self, operator: &str, found: &Value, other: &Value) -> Option<Claim> {
        let is_equal = matches!(operator, "===" | "==");
        let is_unequal = matches!(operator, "!==" | "!=");
        let claim = match (found, known(other)?) {
            (Value::Found(Found { request, place: Place::Status, .. }), Known::Number(number)) => {
                return Some(Claim::statuses(*request, |status| holds(operator, status, number)));
            }
            (Value::Found(Found { request, place: Place::Length(steps), .. }), Known::Number(number)) => {
                // One is there, or none.
                let is_some =
                    (0..1000).all(|length| holds(operator, f64::from(length), number) == (length > 0));
                let is_none =
                    (0..1000).all(|length| holds(operator, f64::from(length), number) == (length == 0));
                let claim = Claim::assert(*request, format!("json ${steps}[0]"));
                return if is_some { Some(claim) } else { is_none.then(|| claim.not()).flatten() };
            }
            (Value::Position(request, text), Known::Number(number)) => {
                // -1 where it is not there.
                let claim = contains(*request, text)?;
                return match (holds(operator, -1.0, number), holds(operator, 5.0, number)) {
                    (false, true) => Some(claim),
                    (true, false) => claim.not(),
                    _ => None,
                };
            }
            (Value::Claim(claim), Known::Bool(true)) => claim.clone(),
            (Value::Claim(claim), Known::Bool(false)) => claim.clone().not()?,
            // `!== undefined`: it is there.
            (Value::Found(found), Known::Nothing) => {
                Claim::assert(found.request, found.place.source()?).not()?
            }
            (Value::Found(found), other) => {
                let text = match other {
                    Known::Text(text) => text,
                    Known::Number(number) => number_text(number),
                    Known::Bool(is) => is.to_string(),
                    Known::Nothing => return None,
                };
                if text.contains('\n') || text.trim() != text {
                    return None;
                }
                Claim::assert(found.request, format!("{} == {text}", found.place.source()?))
            }
            _ => return None,
        };
        if is_equal { Some(claim) } else { is_unequal.then(|| claim.not()).flatten() }
    }
}

/// The claim that a body has a text in it.
pub(super) fn contains(request: usize, text: &str) -> Option<Claim> {
    let text = plain(text).filter(|text| !text.is_empty() && !text.contains('\n') && text.trim() == text)?;
    Some(Claim::assert(request, format!("contains {}", literal(&text))))
}

fn known(value: &Value) -> Option<Known> {
    Some(match value {
        Value::Undefined | Value::Null => Known::Nothing,
        Value::Bool(is) => Known::Bool(*is),
        Value::Number(number) => Known::Number(*number),
        Value::Text(text) => Known::Text(plain(text)?),
        _ => return None,
    })
}

fn compare_known(operator: &str, left: &Known, right: &Known) -> Option<bool> {
    let is_equal = match (left, right) {
        (Known::Number(left), Known::Number(right)) => {
            return Some(holds(operator, *left, *right));
        }
        (Known::Text(left), Known::Text(right)) => left == right,
        (Known::Bool(left), Known::Bool(right)) => left == right,
        (Known::Nothing, Known::Nothing) => true,
        (Known::Nothing, _) | (_, Known::Nothing) => false,
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
    let of = |left: f64, right: f64| match operator {
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
        return of(*left, *right).map_or(Value::Unknown, Value::Number);
    }
    // The bounds of the result; for a remainder they are not known.
    let corners = [of(low, other_low), of(low, other_high), of(high, other_low), of(high, other_high)];
    let corners: Vec<f64> = corners.into_iter().flatten().filter(|end| end.is_finite()).collect();
    if corners.len() < 4 || operator == "%" {
        return Value::Unknown;
    }
    let low = corners.iter().copied().fold(f64::INFINITY, f64::min);
    let high = corners.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Value::Random(low, high)
}
