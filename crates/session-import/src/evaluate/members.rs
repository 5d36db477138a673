//! Members of values, elements of lists, and methods.

use super::operators::contains;
use super::values::{AnswerPart, AnswerValue, Condition, Value, literal, plain, step_by_name};
use super::{Interpreter, MAXIMUM_ROUNDS, MAXIMUM_TEXT};

impl Interpreter {
    pub(super) fn member(&mut self, target: &Value, name: &str) -> Value {
        match target {
            Value::Native(module) if module == "__ENV" => Value::Environment(name.to_string()),
            Value::Native(module) if matches!(module.as_str(), "environment" | "globals") => {
                Value::Environment(name.to_string())
            }
            Value::Native(module) => native_member(&format!("{module}.{name}")),
            Value::Object(_) => self.field(target, name).unwrap_or(Value::Undefined),
            Value::List(_) if name == "length" => {
                Value::Number(self.list_at(target).map_or(0, <[Value]>::len) as f64)
            }
            Value::Text(text) if name == "length" => match plain(text) {
                Some(text) => Value::Number(text.chars().count() as f64),
                None => Value::Unknown,
            },
            Value::Rows(file) if name == "data" => Value::Rows(file.clone()),
            Value::Row(file) => {
                let column = crate::variables::plain_name(name);
                let columns = self.files.entry(file.clone()).or_default();
                if !columns.contains(&column) {
                    columns.push(column.clone());
                }
                Value::Text(format!("${{{column}}}"))
            }
            Value::Answer(request) => {
                let place = match name {
                    "status" | "code" => AnswerPart::Status,
                    "to" => return Value::Native("pm.answer".to_string()),
                    "body" => AnswerPart::Body,
                    "headers" => AnswerPart::Headers,
                    "cookies" => AnswerPart::Cookies,
                    _ => return Value::Unknown,
                };
                found(*request, place)
            }
            Value::AnswerValue(AnswerValue { request, place, .. }) => found_member(*request, place, name),
            Value::Expected(..) => self.expectation(target, name),
            _ => Value::Unknown,
        }
    }

    pub(super) fn element(&mut self, target: &Value, place: &Value) -> Value {
        match (target, place) {
            (Value::List(_), Value::Number(number)) => {
                let element = self.list_at(target).and_then(|list| list.get(*number as usize));
                element.cloned().unwrap_or(Value::Undefined)
            }
            (Value::List(_), _) => {
                let list = self.list_at(target).unwrap_or_default();
                let (count, first) = (list.len(), list.first().cloned());
                if count > 1 {
                    self.note(&format!(
                        "only the first of {count} elements is used: to use all, write a file for [[data]]"
                    ));
                }
                first.unwrap_or(Value::Undefined)
            }
            (Value::Rows(file), _) => Value::Row(file.clone()),
            // A test that was executed is assumed to succeed.
            (Value::Native(name), _) if name == "tests" => Value::Bool(true),
            (Value::AnswerValue(AnswerValue { request, place: at, .. }), Value::Number(number))
                if *number >= 0.0 =>
            {
                match at {
                    AnswerPart::Json(steps) => {
                        found(*request, AnswerPart::Json(format!("{steps}[{number:.0}]")))
                    }
                    AnswerPart::Matches(pattern) if *number <= 1.0 => {
                        found(*request, AnswerPart::Pattern(pattern.clone()))
                    }
                    AnswerPart::Cookie(name) => found(*request, AnswerPart::Cookie(name.clone())),
                    _ => Value::Unknown,
                }
            }
            // The list in an answer is not known before the run: its first element is used.
            (
                Value::AnswerValue(AnswerValue { request, place: AnswerPart::Json(steps), .. }),
                Value::Random(..) | Value::Unknown,
            ) => {
                self.note("only the first element of a list in an answer is used");
                found(*request, AnswerPart::Json(format!("{steps}[0]")))
            }
            (_, Value::Text(name)) => match plain(name) {
                Some(name) => self.member(target, &name),
                None => Value::Unknown,
            },
            _ => Value::Unknown,
        }
    }

    pub(super) fn call_method(&mut self, target: &Value, name: &str, arguments: Vec<Value>) -> Value {
        match target {
            Value::Object(_) => match self.field(target, name) {
                Some(function) => self.call_value(&function, arguments),
                None => self.omit(),
            },
            Value::Answer(request) => self.answer_method(*request, name, &arguments),
            Value::Expected(value, is_not) => self.expect(&value.clone(), *is_not, name, &arguments),
            Value::AnswerValue(AnswerValue { request, place, .. }) => {
                self.found_method(target, *request, &place.clone(), name, &arguments)
            }
            Value::List(_) => self.list_method(target, name, arguments),
            Value::Rows(file) if matches!(name, "find" | "filter" | "at" | "slice") => {
                if matches!(name, "find" | "at") { Value::Row(file.clone()) } else { target.clone() }
            }
            Value::Text(text) => self.text_method(text, name, &arguments),
            Value::Number(number) => match (name, arguments.first()) {
                ("toString" | "valueOf", None) => target.clone(),
                ("toFixed", Some(Value::Number(places))) if *places >= 0.0 => {
                    Value::Text(format!("{number:.*}", places.min(20.0) as usize))
                }
                ("toFixed", None) => Value::Text(format!("{number:.0}")),
                _ => self.omit(),
            },
            Value::Random(..) if matches!(name, "toString" | "toFixed") => target.clone(),
            Value::Environment(_) if matches!(name, "trim" | "toString") => target.clone(),
            Value::Pattern(pattern) if name == "test" => match arguments.first() {
                Some(Value::AnswerValue(AnswerValue { request, place, .. })) => {
                    matched(*request, place, pattern)
                }
                _ => Value::Unknown,
            },
            Value::Pattern(pattern) if name == "exec" => match arguments.first() {
                Some(Value::AnswerValue(AnswerValue { request, place: AnswerPart::Body, .. })) => {
                    found(*request, AnswerPart::Matches(pattern.clone()))
                }
                _ => self.omit(),
            },
            Value::Function(function, scope) if matches!(name, "call" | "apply") => {
                let arguments = arguments.into_iter().skip(1).collect();
                self.call(&function.clone(), *scope, arguments)
            }
            _ => self.omit(),
        }
    }

    fn answer_method(&mut self, request: usize, name: &str, arguments: &[Value]) -> Value {
        match (name, arguments.first()) {
            ("json", None | Some(Value::Undefined)) => found(request, AnswerPart::Json(String::new())),
            ("json", Some(Value::Text(path))) => {
                // k6 uses the paths of gjson: names and numbers, separated by dots.
                let is_plain = |path: &String| {
                    path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
                };
                let Some(path) = plain(path).filter(is_plain) else { return self.omit() };
                let step = |step: &str| match step.parse::<usize>() {
                    Ok(place) => format!("[{place}]"),
                    Err(_) => step_by_name(step),
                };
                found(request, AnswerPart::Json(path.split('.').map(step).collect()))
            }
            ("text", None) => found(request, AnswerPart::Body),
            ("html", None) => found(request, AnswerPart::Html),
            ("html", Some(Value::Text(selector))) => match plain(selector) {
                Some(selector) => found(request, AnswerPart::Element(selector)),
                None => self.omit(),
            },
            _ => self.omit(),
        }
    }

    fn found_method(
        &mut self,
        target: &Value,
        request: usize,
        place: &AnswerPart,
        name: &str,
        arguments: &[Value],
    ) -> Value {
        match (place, name, arguments.first().and_then(Value::plain_text)) {
            (_, "toString" | "trim" | "text" | "valueOf", None) if *place != AnswerPart::Html => {
                target.clone()
            }
            (AnswerPart::Html, "find", Some(selector)) => found(request, AnswerPart::Element(selector)),
            (AnswerPart::Element(outer), "find", Some(selector)) => {
                found(request, AnswerPart::Element(format!("{outer} {selector}")))
            }
            (AnswerPart::Element(_), "first" | "html" | "contents", None) => target.clone(),
            (AnswerPart::Element(selector), "attr", Some(attribute)) => {
                found(request, AnswerPart::Attribute(selector.clone(), attribute))
            }
            (AnswerPart::Element(selector), "val", None) => {
                found(request, AnswerPart::Attribute(selector.clone(), "value".to_string()))
            }
            (AnswerPart::Headers | AnswerPart::Cookies, "get", Some(key)) => self.member(target, &key),
            (AnswerPart::Body, "includes" | "contains", Some(text)) => {
                contains(request, &literal(&text)).map_or(Value::Unknown, Value::Condition)
            }
            (AnswerPart::Body, "indexOf" | "search", Some(text)) => Value::Position(request, literal(&text)),
            (AnswerPart::Json(_), "hasOwnProperty", Some(key)) => self.member(target, &key),
            (_, "includes" | "startsWith", Some(text)) => {
                let start = if name == "startsWith" { "^" } else { "" };
                matched(request, place, &format!("{start}{}", regex::escape(&text)))
            }
            (AnswerPart::Body, "match", Some(pattern)) => found(request, AnswerPart::Matches(pattern)),
            (AnswerPart::Body, "match", None) => match arguments.first() {
                Some(Value::Pattern(pattern)) => found(request, AnswerPart::Matches(pattern.clone())),
                _ => self.omit(),
            },
            _ => self.omit(),
        }
    }

    fn list_method(&mut self, target: &Value, name: &str, arguments: Vec<Value>) -> Value {
        if name == "push" {
            let mut length = self.list_at(target).map_or(0, <[Value]>::len);
            for value in arguments {
                self.set_element(target, &length.to_string(), value);
                length += 1;
            }
            return Value::Number(length as f64);
        }
        let elements = self.elements(target).unwrap_or_default();
        match (name, arguments.first()) {
            ("forEach" | "map", Some(function)) => {
                let mut results = Vec::new();
                for (at, element) in elements.into_iter().take(MAXIMUM_ROUNDS).enumerate() {
                    results.push(self.call_value(function, vec![element, Value::Number(at as f64)]));
                }
                if name == "map" { self.list(results) } else { Value::Undefined }
            }
            ("filter" | "find", Some(function)) => {
                let mut kept = Vec::new();
                for element in elements.into_iter().take(MAXIMUM_ROUNDS) {
                    let is_kept = self.call_value(function, vec![element.clone()]);
                    match self.truth(&is_kept) {
                        Some(true) => kept.push(element),
                        Some(false) => {}
                        None => return self.omit(),
                    }
                }
                if name == "filter" {
                    self.list(kept)
                } else {
                    kept.into_iter().next().unwrap_or(Value::Undefined)
                }
            }
            ("join", separator) => {
                let separator = match separator {
                    Some(separator) => self.text(separator),
                    None => Some(",".to_string()),
                };
                let texts: Option<Vec<String>> = elements.iter().map(|element| self.text(element)).collect();
                match (texts, separator) {
                    (Some(texts), Some(separator)) => Value::Text(texts.join(&separator)),
                    _ => self.omit(),
                }
            }
            ("concat", Some(Value::List(_))) => {
                let more = arguments.iter().filter_map(|list| self.elements(list)).flatten();
                let all = elements.into_iter().chain(more.collect::<Vec<_>>()).collect();
                self.list(all)
            }
            ("slice", None) => self.list(elements),
            (
                "includes",
                Some(Value::AnswerValue(AnswerValue { request, place: AnswerPart::Status, .. })),
            ) => {
                let statuses: Vec<f64> = elements
                    .iter()
                    .filter_map(|element| match element {
                        Value::Number(number) => Some(*number),
                        _ => None,
                    })
                    .collect();
                Value::Condition(Condition::statuses(*request, |status| statuses.contains(&status)))
            }
            ("includes", Some(wanted)) => {
                for element in elements {
                    let is_equal = self.compare("===", &element, wanted);
                    match self.truth(&is_equal) {
                        Some(true) => return Value::Bool(true),
                        Some(false) => {}
                        None => return Value::Unknown,
                    }
                }
                Value::Bool(false)
            }
            _ => self.omit(),
        }
    }

    fn text_method(&mut self, text: &str, name: &str, arguments: &[Value]) -> Value {
        let known: Option<Vec<String>> = arguments
            .iter()
            .map(|argument| match argument {
                Value::Number(number) => Some(super::number_text(*number)),
                other => other.plain_text(),
            })
            .collect();
        let arguments = known.unwrap_or_default();
        let own = plain(text);
        match (name, &arguments[..], own) {
            ("toString" | "trim" | "valueOf", [], _) => Value::Text(text.trim().to_string()),
            ("concat", more, _) => Value::Text(format!("{text}{}", literal(&more.concat()))),
            ("toUpperCase", [], Some(own)) => Value::Text(literal(&own.to_uppercase())),
            ("toLowerCase", [], Some(own)) => Value::Text(literal(&own.to_lowercase())),
            ("includes", [part], Some(own)) => Value::Bool(own.contains(part.as_str())),
            ("startsWith", [part], Some(own)) => Value::Bool(own.starts_with(part.as_str())),
            ("endsWith", [part], Some(own)) => Value::Bool(own.ends_with(part.as_str())),
            ("replace" | "replaceAll", [from, to], _)
                if !from.is_empty() && !from.contains(['$', '{', '}']) =>
            {
                let from = from.as_str();
                let to = literal(to);
                let replaced =
                    if name == "replace" { text.replacen(from, &to, 1) } else { text.replace(from, &to) };
                if replaced.len() < MAXIMUM_TEXT { Value::Text(replaced) } else { Value::Unknown }
            }
            ("repeat", [count], _) => match count.parse::<usize>() {
                Ok(count) if text.len().saturating_mul(count) < MAXIMUM_TEXT => {
                    Value::Text(text.repeat(count))
                }
                _ => self.omit(),
            },
            ("split", [separator], Some(own)) => {
                let parts = own.split(separator.as_str()).take(MAXIMUM_ROUNDS);
                let parts = parts.map(|part| Value::Text(literal(part))).collect();
                self.list(parts)
            }
            ("padStart", [length, filling], Some(own)) if filling.len() == 1 => {
                let length = length.parse::<usize>().unwrap_or(0).min(1_000);
                let missing = length.saturating_sub(own.chars().count());
                Value::Text(literal(&format!("{}{own}", filling.repeat(missing))))
            }
            _ => self.omit(),
        }
    }
}

pub(super) fn found(request: usize, place: AnswerPart) -> Value {
    Value::AnswerValue(AnswerValue { request, place, name: None })
}

fn found_member(request: usize, place: &AnswerPart, name: &str) -> Value {
    let place = match (place, name) {
        (AnswerPart::Headers, _) => AnswerPart::Header(name.to_string()),
        (AnswerPart::Cookies, _) => AnswerPart::Cookie(name.to_string()),
        (AnswerPart::Cookie(cookie), "value") => AnswerPart::Cookie(cookie.clone()),
        (AnswerPart::Json(steps), "length") => AnswerPart::Length(steps.clone()),
        (AnswerPart::Json(steps), _) => AnswerPart::Json(format!("{steps}{}", step_by_name(name))),
        _ => return Value::Unknown,
    };
    found(request, place)
}

/// The match of a pattern in a part of an answer.
fn matched(request: usize, place: &AnswerPart, pattern: &str) -> Value {
    match place.source() {
        Some(source) if !pattern.contains('\n') => {
            Value::Condition(Condition::assert(request, format!("{source} ~ {pattern}")))
        }
        _ => Value::Unknown,
    }
}

/// The values that the load tool provides to a script: the answer, or a part of it.
fn native_member(name: &str) -> Value {
    match name {
        // The answer to the only request of a script of Postman.
        "pm.response" => return Value::Answer(0),
        "responseCode.code" => return found(0, AnswerPart::Status),
        _ => {}
    }
    let is_execution = name.starts_with("exec.") || name.starts_with("execution.");
    if is_execution && (name.ends_with(".idInTest") || name.ends_with(".idInInstance")) {
        return Value::Text("${client}".to_string());
    }
    if is_execution && name.contains(".iterationIn") {
        return Value::Text("${session}".to_string());
    }
    Value::Native(name.to_string())
}
