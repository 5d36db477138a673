//! Functions of the language and of k6 that send nothing.

use super::Interpreter;
use super::values::{AnswerPart, AnswerValue, Value, literal, plain, put};
use base64::Engine as _;

impl Interpreter {
    pub(super) fn call_native(&mut self, name: &str, arguments: Vec<Value>) -> Value {
        if let Some(value) = self.call_http(name, &arguments) {
            return value;
        }
        if let Some(value) = self.call_postman(name, &arguments) {
            return value;
        }
        let first = arguments.first().cloned().unwrap_or(Value::Undefined);
        match name {
            "group" | "k6.group" | "new SharedArray" => match arguments.get(1) {
                Some(function) => self.call_value(&function.clone(), Vec::new()),
                None => self.omit(),
            },
            "check" | "k6.check" => self.check(&first, arguments.get(1)),
            "sleep" | "k6.sleep" => self.sleep(&first),
            // Calls that end the session are ignored.
            "fail" | "k6.fail" => Value::Undefined,
            "open" => match &first {
                Value::Text(path) => Value::File(plain(path).unwrap_or_default()),
                _ => self.omit(),
            },
            "papaparse.parse" | "Papa.parse" | "csv.parse" => match first {
                Value::File(file) | Value::Rows(file) => Value::Rows(file),
                _ => self.omit(),
            },
            "randomItem" => {
                let place = Value::Random(0.0, 1.0);
                self.element(&first, &place)
            }
            "randomIntBetween" => match (&first, arguments.get(1)) {
                (Value::Number(low), Some(Value::Number(high))) => Value::Random(*low, *high),
                _ => Value::Unknown,
            },
            "uuidv4" | "randomString" | "crypto.randomUUID" | "Date.now" | "new Date" => {
                Value::Random(0.0, 1e9)
            }
            "Math.random" => Value::Random(0.0, 1.0),
            "findBetween" => self.find_between(&arguments),
            "new URL" | "String" | "http.url" | "url" => first,
            "new Counter" | "new Gauge" | "new Rate" | "new Trend" | "new metric" => {
                Value::Native("metric".into())
            }
            name if name.starts_with("new metric.") => Value::Native("metric".into()),
            name if name.starts_with("Math.") => self.mathematics(name, &arguments),
            name if name.starts_with("JSON.") => self.json(name, &first),
            name if name.starts_with("Object.") => self.object_function(name, &first, &arguments),
            "encodeURIComponent" | "encodeURI" => match &first {
                Value::Text(text) if plain(text).is_some() => {
                    let encoded = crate::variables::form_text(&plain(text).unwrap_or_default());
                    Value::Text(literal(&encoded.replace('+', "%20")))
                }
                other => self.text(other).map_or(Value::Unknown, |text| {
                    Value::Text(crate::variables::with_filter(&text, "query"))
                }),
            },
            "encoding.b64encode" | "b64encode" | "btoa" => {
                match self.text(&first).and_then(|text| plain(&text)) {
                    Some(text) => Value::Text(base64::prelude::BASE64_STANDARD.encode(text)),
                    None => self.omit(),
                }
            }
            "parseInt" | "Number" | "parseFloat" => match &first {
                Value::Text(text) => match plain(text).and_then(|text| text.trim().parse::<f64>().ok()) {
                    Some(number) => Value::Number(if name == "parseInt" { number.trunc() } else { number }),
                    None => first,
                },
                Value::Environment(_) => Value::Undefined,
                _ => first,
            },
            "Boolean" => self.truth(&first).map_or(Value::Unknown, Value::Bool),
            "Array.isArray" => Value::Bool(matches!(first, Value::List(_))),
            _ => self.omit(),
        }
    }

    fn find_between(&mut self, arguments: &[Value]) -> Value {
        let text = |at: usize| arguments.get(at).and_then(Value::plain_text);
        match (arguments.first(), text(1), text(2)) {
            (
                Some(Value::AnswerValue(AnswerValue { request, place: AnswerPart::Body, .. })),
                Some(left),
                Some(right),
            ) => {
                let pattern = format!("{}(.*?){}", regex::escape(&left), regex::escape(&right));
                Value::AnswerValue(AnswerValue {
                    request: *request,
                    place: AnswerPart::Pattern(pattern),
                    name: None,
                })
            }
            _ => self.omit(),
        }
    }

    fn sleep(&mut self, value: &Value) -> Value {
        let seconds = match value {
            Value::Number(seconds) => *seconds,
            Value::Random(low, high) => {
                self.note("a random pause is replaced by its mean");
                (low + high) / 2.0
            }
            _ => return self.omit(),
        };
        if !(0.0..=86_400.0).contains(&seconds) {
            return self.omit();
        }
        self.pause_s = (self.pause_s + seconds).min(86_400.0);
        Value::Undefined
    }

    fn mathematics(&mut self, name: &str, arguments: &[Value]) -> Value {
        let rounding: fn(f64) -> f64 = match name {
            "Math.floor" => f64::floor,
            "Math.ceil" => f64::ceil,
            "Math.round" => f64::round,
            "Math.trunc" => f64::trunc,
            "Math.abs" => f64::abs,
            _ => |number| number,
        };
        match (name, arguments) {
            ("Math.min" | "Math.max", [Value::Number(one), Value::Number(two)]) => {
                Value::Number(if name == "Math.min" { one.min(*two) } else { one.max(*two) })
            }
            ("Math.min" | "Math.max" | "Math.pow", _) => Value::Unknown,
            (_, [Value::Number(number)]) => Value::Number(rounding(*number)),
            (_, [Value::Random(low, high)]) => Value::Random(rounding(*low), rounding(*high)),
            _ => Value::Unknown,
        }
    }

    fn json(&mut self, name: &str, first: &Value) -> Value {
        match (name, first) {
            ("JSON.parse", Value::AnswerValue(AnswerValue { request, place: AnswerPart::Body, .. })) => {
                Value::AnswerValue(AnswerValue {
                    request: *request,
                    place: AnswerPart::Json(String::new()),
                    name: None,
                })
            }
            ("JSON.parse", Value::File(file)) => Value::Rows(file.clone()),
            ("JSON.parse", Value::Text(text)) => {
                match plain(text).and_then(|text| serde_json::from_str(&text).ok()) {
                    Some(value) => self.value_of_json(&value, 0),
                    None => self.omit(),
                }
            }
            ("JSON.stringify", value) => match self.json_text(value, 0) {
                Some(text) => Value::Text(text),
                None => self.omit(),
            },
            _ => self.omit(),
        }
    }

    fn value_of_json(&mut self, value: &serde_json::Value, depth: usize) -> Value {
        use serde_json::Value as Json;
        match value {
            Json::Null => Value::Null,
            Json::Bool(is) => Value::Bool(*is),
            Json::Number(number) => Value::Number(number.as_f64().unwrap_or(f64::NAN)),
            Json::String(text) => Value::Text(literal(text)),
            _ if depth > 30 => Value::Unknown,
            Json::Array(list) => {
                let values = list.iter().map(|one| self.value_of_json(one, depth + 1)).collect();
                self.list(values)
            }
            Json::Object(fields) => {
                let fields = fields
                    .iter()
                    .map(|(key, one)| (key.clone(), self.value_of_json(one, depth + 1)))
                    .collect();
                self.object(fields)
            }
        }
    }

    /// A value as JSON; a value of an answer is inserted in it as the contents of a text.
    pub(crate) fn json_text(&mut self, value: &Value, depth: usize) -> Option<String> {
        if depth > 30 {
            return None;
        }
        if let Some(elements) = self.elements(value) {
            let parts: Option<Vec<String>> =
                elements.iter().map(|one| self.json_text(one, depth + 1)).collect();
            return parts.map(|parts| format!("[{}]", parts.join(",")));
        }
        if let Some(fields) = self.fields(value) {
            let mut parts = Vec::new();
            for (key, one) in fields {
                if !matches!(one, Value::Undefined) {
                    let inside = self.json_text(&one, depth + 1)?;
                    parts.push(format!("{}:{inside}", serde_json::Value::from(literal(&key))));
                }
            }
            return Some(format!("{{{}}}", parts.join(",")));
        }
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Random(..) => self.text(value),
            Value::Text(_) | Value::AnswerValue(_) | Value::Environment(_) => {
                let text = self.text(value)?;
                Some(crate::variables::with_filter(&serde_json::Value::from(text).to_string(), "json"))
            }
            _ => {
                self.note("a value of the body is not known before the run and is replaced by null");
                Some("null".to_string())
            }
        }
    }

    fn object_function(&mut self, name: &str, first: &Value, arguments: &[Value]) -> Value {
        let Some(mut fields) = self.fields(first) else { return self.omit() };
        match name {
            "Object.keys" => {
                let keys = fields.iter().map(|(key, _)| Value::Text(literal(key))).collect();
                self.list(keys)
            }
            "Object.values" => {
                let values = fields.into_iter().map(|(_, value)| value).collect();
                self.list(values)
            }
            "Object.entries" => {
                let mut entries = Vec::new();
                for (key, value) in fields {
                    entries.push(self.list(vec![Value::Text(literal(&key)), value]));
                }
                self.list(entries)
            }
            "Object.assign" => {
                for more in &arguments[1..] {
                    for (key, value) in self.fields(more).unwrap_or_default() {
                        put(&mut fields, key, value);
                    }
                }
                self.object(fields)
            }
            "Object.freeze" => first.clone(),
            _ => self.omit(),
        }
    }
}
