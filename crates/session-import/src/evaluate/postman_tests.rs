//! The functions of Postman scripts: `pm.test`, `pm.expect`, `tests[...]`, and those that set variables.

use super::Interpreter;
use super::values::{AnswerPart, AnswerValue, Condition, Value, put};
use crate::variables::plain_name;

/// Words of chai without an effect.
const LINKS: [&str; 16] = [
    "to", "be", "been", "is", "that", "which", "and", "has", "have", "with", "at", "of", "same", "but",
    "does", "deep",
];

impl Interpreter {
    /// Calls a function of Postman; `None` if the name is not one of its functions.
    pub(super) fn call_postman(&mut self, name: &str, arguments: &[Value]) -> Option<Value> {
        let first = arguments.first();
        let word = |at: usize| arguments.get(at).and_then(Value::plain_text);
        if let Some(rest) = name.strip_prefix("postman.") {
            return Some(match (rest, word(0), arguments.get(1)) {
                ("setEnvironmentVariable" | "setGlobalVariable", Some(name), Some(value)) => {
                    self.set_variable(&name, &value.clone())
                }
                ("getEnvironmentVariable" | "getGlobalVariable", Some(name), _) => Value::Environment(name),
                ("getResponseHeader", Some(name), _) => super::members::found(0, AnswerPart::Header(name)),
                _ => self.omit(),
            });
        }
        let rest = name.strip_prefix("pm.")?;
        Some(match rest {
            "test" => self.pm_test(arguments),
            "expect" => Value::Expected(Box::new(first.cloned().unwrap_or(Value::Undefined)), false),
            "answer.have.status" => match first {
                Some(Value::Number(wanted)) => {
                    let condition = Condition::statuses(0, |status| status == *wanted);
                    self.expected(&Value::Condition(condition))
                }
                _ => self.omit(),
            },
            "answer.have.header" => match word(0) {
                Some(name) => self.expected(&super::members::found(0, AnswerPart::Header(name))),
                None => self.omit(),
            },
            "answer.have.jsonBody" if arguments.is_empty() => Value::Undefined,
            _ => match (rest.rsplit_once('.'), word(0), arguments.get(1)) {
                (Some((_, "set")), Some(name), Some(value)) => self.set_variable(&name, &value.clone()),
                (Some((_, "get")), Some(name), _) => Value::Environment(name),
                (Some((_, "unset" | "has" | "clear")), _, _) => Value::Undefined,
                _ => self.omit(),
            },
        })
    }

    /// `pm.test("name", () => { ... })`
    fn pm_test(&mut self, arguments: &[Value]) -> Value {
        match arguments.get(1) {
            Some(function @ Value::Function(..)) => {
                let value = self.call_value(&function.clone(), Vec::new());
                if self.condition_of(&value).is_some() { self.expected(&value) } else { Value::Undefined }
            }
            _ => self.omit(),
        }
    }

    /// `tests["name"] = value`
    pub(super) fn test(&mut self, name: &Value, value: &Value) {
        if !self.require_value(value) {
            let name = self.text(name).unwrap_or_default();
            self.note(&format!("left out: the test {name:?}"));
        }
    }

    fn set_variable(&mut self, name: &str, value: &Value) -> Value {
        if let Value::AnswerValue(AnswerValue { request, place, .. }) = value {
            let source = place.source().filter(|source| !source.contains('\n'));
            let (Some(source), Some(request)) = (source, self.requests.get_mut(*request)) else {
                return self.omit();
            };
            put(&mut request.extract, plain_name(name), source);
            return Value::Undefined;
        }
        match self.text(value) {
            Some(text) => self.set.push((name.to_string(), text)),
            None => return self.omit(),
        }
        Value::Undefined
    }

    /// Requires that a value is true.
    fn expected(&mut self, value: &Value) -> Value {
        let is_taken = match self.condition_of(value) {
            Some(condition) => self.require(&condition),
            None => self.truth(value) == Some(true),
        };
        if is_taken { Value::Undefined } else { self.omit() }
    }

    /// A word after `pm.expect(...)`.
    pub(super) fn expectation(&mut self, target: &Value, word: &str) -> Value {
        let Value::Expected(value, is_not) = target else { return Value::Unknown };
        match word {
            "not" => Value::Expected(value.clone(), !is_not),
            "true" | "false" => {
                let wanted = (word == "true") != *is_not;
                let value = self.compare("===", value, &Value::Bool(wanted));
                self.expected(&value)
            }
            "ok" | "exist" => self.exists(&value.clone(), *is_not),
            "undefined" | "null" => self.exists(&value.clone(), !is_not),
            _ if LINKS.contains(&word) => target.clone(),
            // Types of values, such as "an" and "empty", are called or have no counterpart.
            _ => Value::Unknown,
        }
    }

    fn exists(&mut self, value: &Value, is_not: bool) -> Value {
        let operator = if is_not { "===" } else { "!==" };
        let condition = self.compare(operator, value, &Value::Undefined);
        self.expected(&condition)
    }

    /// A method after `pm.expect(...)`.
    pub(super) fn expect(&mut self, value: &Value, is_not: bool, name: &str, arguments: &[Value]) -> Value {
        let other = arguments.first().cloned().unwrap_or(Value::Undefined);
        let condition = match name {
            "equal" | "equals" | "eql" | "eqls" | "eq" => self.compare("===", value, &other),
            "above" | "gt" | "greaterThan" => self.compare(">", value, &other),
            "below" | "lt" | "lessThan" => self.compare("<", value, &other),
            "least" | "gte" => self.compare(">=", value, &other),
            "most" | "lte" => self.compare("<=", value, &other),
            "oneOf" => self.call_method(&other, "includes", vec![value.clone()]),
            "include" | "contain" | "includes" | "contains" | "string" => {
                self.call_method(value, "includes", vec![other])
            }
            "match" => self.call_method(&other, "test", vec![value.clone()]),
            "property" => {
                let inside = self.element(value, &other);
                match arguments.get(1) {
                    Some(wanted) => self.compare("===", &inside, wanted),
                    None => inside,
                }
            }
            // A session cannot check the type of a value.
            "a" | "an" => return Value::Undefined,
            _ => return self.omit(),
        };
        let condition = match (is_not, self.condition_of(&condition)) {
            (false, Some(condition)) => Value::Condition(condition),
            (true, Some(condition)) => condition.not().map_or(Value::Unknown, Value::Condition),
            (true, None) => self.unary("!", &condition),
            (false, None) => condition,
        };
        self.expected(&condition)
    }
}
