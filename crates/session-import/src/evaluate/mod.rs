//! Evaluates a script once without sending requests: calls functions, runs loops over known values, and
//! assumes that answers are as the script expects. The requests, checks and extractions of the script become
//! requests of a session; unknown values are reported with their line.

mod members;
mod natives;
mod operators;
mod postman_tests;
pub(crate) mod values;

use crate::draft::DraftRequest;
use crate::javascript::syntax::{Binding, Expression, Function, Key, Kind, Statement};
use crate::variables::{PREDEFINED, plain_name};
use std::collections::BTreeMap;
use std::rc::Rc;
use values::{AnswerValue, Value, literal, number_text, put};

/// The maximum depth of nested expressions and calls.
const MAXIMUM_DEPTH: usize = 120;
/// The maximum number of evaluated expressions of a script.
const MAXIMUM_STEPS: usize = 200_000;
/// The maximum number of iterations of a loop.
const MAXIMUM_ROUNDS: usize = 200;
const MAXIMUM_REQUESTS: usize = 10_000;
const MAXIMUM_TEXT: usize = 1 << 20;

#[derive(Default)]
pub(crate) struct Scope {
    outer: Option<usize>,
    names: BTreeMap<String, Value>,
}

/// An entry of the interpreter's memory, so that values can be shared and changed.
pub(crate) enum StoredValue {
    List(Vec<Value>),
    Object(Vec<(String, Value)>),
}

#[derive(Default)]
pub(crate) struct Interpreter {
    scopes: Vec<Scope>,
    memory: Vec<StoredValue>,
    pub(crate) requests: Vec<DraftRequest>,
    pub(crate) notes: Vec<String>,
    /// Data files and their used columns.
    pub(crate) files: BTreeMap<String, Vec<String>>,
    pub(crate) origin: Option<String>,
    /// The variable of the environment for the server.
    pub(crate) environment_origin: Option<String>,
    pub(crate) pause_s: f64,
    /// Variables that a script of Postman sets to known values.
    pub(crate) set: Vec<(String, String)>,
    /// The maximum number of redirects that are followed.
    pub(crate) redirects: u32,
    pub(crate) line: usize,
    source: String,
    /// A part of the statement has no counterpart.
    pub(crate) has_omission: bool,
    depth: usize,
    steps: usize,
}

pub(crate) enum Flow {
    Next,
    Break,
    Continue,
    Return(Value),
}

impl Interpreter {
    pub(crate) fn new() -> Interpreter {
        Interpreter { scopes: vec![Scope::default()], redirects: 10, ..Interpreter::default() }
    }

    /// Executes statements in the outermost scope.
    pub(crate) fn run(&mut self, statements: &[Statement]) {
        self.statements(statements, 0);
    }

    pub(crate) fn note(&mut self, words: &str) {
        let note = format!("line {}: {words}", self.line);
        if !self.notes.contains(&note) && self.notes.len() < 1_000 {
            self.notes.push(note);
        }
    }

    /// Adds a note with the current statement.
    fn note_statement(&mut self, words: &str) {
        let note = format!("{words}: {}", self.source);
        self.note(&note);
    }

    /// Adds a note without a line unless it exists already.
    pub(crate) fn note_once(&mut self, words: &str) {
        if !self.notes.iter().any(|note| note == words) {
            self.notes.push(words.to_string());
        }
    }

    pub(crate) fn omit(&mut self) -> Value {
        self.has_omission = true;
        Value::Unknown
    }

    pub(crate) fn global(&self, name: &str) -> Option<Value> {
        self.scopes[0].names.get(name).cloned()
    }

    pub(crate) fn define_global(&mut self, name: &str, value: Value) {
        self.scopes[0].names.insert(name.to_string(), value);
    }

    pub(crate) fn list(&mut self, values: Vec<Value>) -> Value {
        self.memory.push(StoredValue::List(values));
        Value::List(self.memory.len() - 1)
    }

    pub(crate) fn object(&mut self, fields: Vec<(String, Value)>) -> Value {
        self.memory.push(StoredValue::Object(fields));
        Value::Object(self.memory.len() - 1)
    }

    /// A list in the memory.
    fn list_at(&self, value: &Value) -> Option<&[Value]> {
        let Value::List(at) = value else { return None };
        match &self.memory[*at] {
            StoredValue::List(values) => Some(values),
            StoredValue::Object(_) => None,
        }
    }

    /// The fields of an object in the memory.
    fn object_at(&self, value: &Value) -> Option<&[(String, Value)]> {
        let Value::Object(at) = value else { return None };
        match &self.memory[*at] {
            StoredValue::Object(fields) => Some(fields),
            StoredValue::List(_) => None,
        }
    }

    /// The elements of a list.
    pub(crate) fn elements(&self, value: &Value) -> Option<Vec<Value>> {
        self.list_at(value).map(<[Value]>::to_vec)
    }

    /// The fields of an object.
    pub(crate) fn fields(&self, value: &Value) -> Option<Vec<(String, Value)>> {
        self.object_at(value).map(<[(String, Value)]>::to_vec)
    }

    pub(crate) fn field(&self, value: &Value, name: &str) -> Option<Value> {
        self.object_at(value)?.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.clone())
    }

    fn set_element(&mut self, target: &Value, key: &str, value: Value) -> bool {
        let (Value::List(at) | Value::Object(at)) = target else { return false };
        match &mut self.memory[*at] {
            StoredValue::Object(fields) => match fields.iter_mut().find(|(name, _)| name == key) {
                Some(field) => field.1 = value,
                None => fields.push((key.to_string(), value)),
            },
            StoredValue::List(values) => match key.parse::<usize>() {
                Ok(place) if place < values.len() => values[place] = value,
                Ok(place) if place == values.len() && place < MAXIMUM_REQUESTS => values.push(value),
                _ => return false,
            },
        }
        true
    }

    /// The text of a value in the syntax of sessions. A value of an answer becomes an extraction of its
    /// request.
    pub(crate) fn text(&mut self, value: &Value) -> Option<String> {
        Some(match value {
            Value::Null => "null".to_string(),
            Value::Bool(is) => is.to_string(),
            Value::Number(number) => number_text(*number),
            Value::Random(..) => {
                self.note_once(
                    "random and generated values of the script are replaced by the random number ${random}",
                );
                "${random}".to_string()
            }
            Value::Text(text) => text.clone(),
            Value::Environment(name) => format!("${{{}}}", plain_name(name)),
            Value::AnswerValue(found) => format!("${{{}}}", self.extracted(found)?),
            _ => return None,
        })
    }

    /// The name of the variable that a request extracts from its answer.
    pub(crate) fn extracted(&mut self, found: &AnswerValue) -> Option<String> {
        let source = found.place.source()?;
        if source.contains('\n') {
            return None;
        }
        let taken = &self.requests.get(found.request)?.extract;
        if let Some((name, _)) = taken.iter().find(|(_, from)| *from == source) {
            return Some(name.clone());
        }
        let derived = || {
            let last = source.rsplit([' ', '[', '.']).next().unwrap_or_default();
            last.trim_matches(['\'', ']', '$', '"']).to_string()
        };
        let wanted = found.name.clone().unwrap_or_else(derived);
        let wanted = match plain_name(&wanted).trim_matches('_') {
            name if name.is_empty() || PREDEFINED.contains(&name) => "value".to_string(),
            name => plain_name(name),
        };
        let mut name = wanted.clone();
        let mut number = 2;
        while self.requests.iter().any(|request| request.takes(&name)) {
            name = format!("{wanted}{number}");
            number += 1;
        }
        self.requests[found.request].extract.push((name.clone(), source));
        Some(name)
    }

    fn new_scope(&mut self, outer: usize) -> usize {
        self.scopes.push(Scope { outer: Some(outer), names: BTreeMap::new() });
        self.scopes.len() - 1
    }

    fn look_up(&self, name: &str, scope: usize) -> Option<(usize, &Value)> {
        let mut at = Some(scope);
        while let Some(scope) = at {
            if let Some(value) = self.scopes[scope].names.get(name) {
                return Some((scope, value));
            }
            at = self.scopes[scope].outer;
        }
        None
    }

    pub(crate) fn bind(&mut self, binding: &Binding, value: Value, scope: usize) {
        match binding {
            Binding::Name(name, default) => {
                let value = match (value, default) {
                    (Value::Undefined, Some(default)) => self.value(default, scope),
                    (value, _) => value,
                };
                // A value of an answer keeps its name in the script.
                let value = match value {
                    Value::AnswerValue(mut found) if found.name.is_none() => {
                        found.name = Some(name.clone());
                        Value::AnswerValue(found)
                    }
                    value => value,
                };
                self.scopes[scope].names.insert(name.clone(), value);
            }
            Binding::Object(fields) => {
                for (key, inside) in fields {
                    let field = if key.is_empty() { value.clone() } else { self.member(&value, key) };
                    self.bind(inside, field, scope);
                }
            }
            Binding::List(list) => {
                for (place, inside) in list.iter().enumerate() {
                    let element = self.element(&value, &Value::Number(place as f64));
                    self.bind(inside, element, scope);
                }
            }
        }
    }

    fn statements(&mut self, statements: &[Statement], scope: usize) -> Flow {
        for statement in statements {
            if let Kind::Function { name, function, .. } = &statement.kind {
                let value = Value::Function(function.clone(), scope);
                self.scopes[scope].names.insert(name.clone(), value);
            }
        }
        for statement in statements {
            match self.statement(statement, scope) {
                Flow::Next => {}
                flow => return flow,
            }
        }
        Flow::Next
    }

    fn is_over(&mut self) -> bool {
        self.steps += 1;
        if self.steps == MAXIMUM_STEPS {
            self.note("the script is too long: the rest of it is left out");
        }
        self.steps >= MAXIMUM_STEPS || self.requests.len() >= MAXIMUM_REQUESTS
    }

    fn statement(&mut self, statement: &Statement, scope: usize) -> Flow {
        if self.is_over() {
            return Flow::Return(Value::Unknown);
        }
        let outer_omission = std::mem::take(&mut self.has_omission);
        let (line, source) = (self.line, std::mem::take(&mut self.source));
        if !statement.source.is_empty() {
            (self.line, self.source) = (statement.line, statement.source.clone());
        }
        let flow = self.kind(&statement.kind, scope);
        if self.has_omission && !statement.source.is_empty() {
            self.line = statement.line;
            self.note(&format!("left out: {}", statement.source));
        }
        // A statement without text is a part of the outer statement.
        self.has_omission = outer_omission || self.has_omission && statement.source.is_empty();
        (self.line, self.source) = (line, source);
        flow
    }

    fn kind(&mut self, kind: &Kind, scope: usize) -> Flow {
        match kind {
            Kind::Empty | Kind::Function { .. } => {}
            Kind::Unknown => self.has_omission = true,
            Kind::Expression(value) => _ = self.value(value, scope),
            Kind::Declare(list) => {
                for (binding, value) in list {
                    let value = value.as_ref().map_or(Value::Undefined, |value| self.value(value, scope));
                    self.bind(binding, value, scope);
                }
            }
            Kind::Default(value) => {
                let value = self.value(value, scope);
                self.define_global("default", value);
            }
            Kind::Import(names, from) => self.import(names, from, scope),
            Kind::If(test, yes, no) => return self.condition(test, yes, no, scope),
            Kind::Block(body) => {
                let inner = self.new_scope(scope);
                return self.statements(body, inner);
            }
            Kind::ForEach(binding, list, is_in, body) => {
                return self.for_each(binding, list, *is_in, body, scope);
            }
            Kind::For { first, test, update, body } => {
                let inner = self.new_scope(scope);
                if let Some(first) = first {
                    self.statement(first, inner);
                }
                return self.iterate(test.as_ref(), update.as_ref(), body, inner);
            }
            Kind::While(test, body) => return self.iterate(Some(test), None, body, scope),
            Kind::Switch(value, cases) => return self.switch(value, cases, scope),
            Kind::Return(value) => {
                let value = value.as_ref().map_or(Value::Undefined, |value| self.value(value, scope));
                return Flow::Return(value);
            }
            Kind::Break => return Flow::Break,
            Kind::Continue => return Flow::Continue,
            Kind::Throw => return Flow::Return(Value::Unknown),
        }
        Flow::Next
    }

    fn import(&mut self, names: &[(String, String)], from: &str, scope: usize) {
        for (there, here) in names {
            let module = from.rsplit(['/', ':']).next().unwrap_or_default();
            let value = match (from, there.as_str()) {
                ("k6", "*" | "default") => Value::Native("k6".to_string()),
                ("k6/http" | "k6/encoding" | "k6/execution" | "k6/crypto", "*" | "default") => {
                    Value::Native(module.to_string())
                }
                ("k6/http" | "k6/encoding" | "k6/crypto" | "k6/execution", name) => {
                    Value::Native(format!("{module}.{name}"))
                }
                ("k6/metrics", _) => Value::Native("metric".to_string()),
                (from, name) if from.starts_with('.') || from.starts_with('/') => {
                    self.note(&format!("{name} from {from} is not known: define it in this file"));
                    Value::Unknown
                }
                (_, "*" | "default") => Value::Native(here.clone()),
                (_, name) => Value::Native(name.to_string()),
            };
            self.scopes[scope].names.insert(here.clone(), value);
        }
    }

    /// Executes a branch; if the condition is not known before the run, the branch that does not end the
    /// function.
    fn condition(&mut self, test: &Expression, yes: &[Statement], no: &[Statement], scope: usize) -> Flow {
        let value = self.value(test, scope);
        let ends = |body: &[Statement]| {
            body.last().is_some_and(|last| matches!(last.kind, Kind::Return(_) | Kind::Throw | Kind::Break))
        };
        let is_true = match (self.truth(&value), &value) {
            (Some(is_true), _) => is_true,
            (None, Value::Condition(condition)) => {
                let is_true = condition.is_expected();
                if !no.is_empty() || is_true {
                    self.note_statement(&format!(
                        "assumed to be {is_true}: the condition depends on the answer"
                    ));
                }
                is_true
            }
            (None, _) => {
                let is_true = !ends(yes);
                self.note_statement(&format!(
                    "assumed to be {is_true}: the condition is not known before the run"
                ));
                is_true
            }
        };
        let inner = self.new_scope(scope);
        self.statements(if is_true { yes } else { no }, inner)
    }

    fn switch(
        &mut self,
        value: &Expression,
        cases: &[(Option<Expression>, Vec<Statement>)],
        scope: usize,
    ) -> Flow {
        let value = self.value(value, scope);
        let mut start = None;
        for (place, (test, _)) in cases.iter().enumerate() {
            let Some(test) = test else { continue };
            let test = self.value(test, scope);
            let is_equal = self.compare("===", &value, &test);
            match self.truth(&is_equal) {
                Some(true) => {
                    start = Some(place);
                    break;
                }
                Some(false) => {}
                None => {
                    self.note_statement("only the first case is used");
                    start = Some(place);
                    break;
                }
            }
        }
        let start = start.or_else(|| cases.iter().position(|(test, _)| test.is_none()));
        let inner = self.new_scope(scope);
        for (_, body) in cases.iter().skip(start.unwrap_or(cases.len())) {
            match self.statements(body, inner) {
                Flow::Next => {}
                Flow::Break => break,
                flow => return flow,
            }
        }
        Flow::Next
    }

    fn for_each(
        &mut self,
        binding: &Binding,
        list: &Expression,
        is_in: bool,
        body: &[Statement],
        scope: usize,
    ) -> Flow {
        let value = self.value(list, scope);
        let mut elements = match (self.fields(&value), self.elements(&value)) {
            (Some(fields), _) if is_in => {
                fields.into_iter().map(|(key, _)| Value::Text(literal(&key))).collect()
            }
            (None, Some(elements)) if is_in => {
                (0..elements.len()).map(|at| Value::Number(at as f64)).collect()
            }
            (None, Some(elements)) => elements,
            _ => {
                self.note_statement("executed once: the number of iterations is not known before the run");
                vec![self.element(&value, &Value::Unknown)]
            }
        };
        if elements.len() > MAXIMUM_ROUNDS {
            self.note_statement(&format!("made {MAXIMUM_ROUNDS} times"));
            elements.truncate(MAXIMUM_ROUNDS);
        }
        for element in elements {
            let inner = self.new_scope(scope);
            self.bind(binding, element, inner);
            match self.statements(body, inner) {
                Flow::Next | Flow::Continue => {}
                Flow::Break => break,
                flow => return flow,
            }
        }
        Flow::Next
    }

    fn iterate(
        &mut self,
        test: Option<&Expression>,
        update: Option<&Expression>,
        body: &[Statement],
        scope: usize,
    ) -> Flow {
        for round in 0.. {
            let value = test.map_or(Value::Unknown, |test| self.value(test, scope));
            let is_endless = matches!(test, Some(Expression::Name(name)) if name == "true");
            let is_known = match self.truth(&value).filter(|_| !is_endless) {
                Some(false) => return Flow::Next,
                Some(true) => true,
                None => false,
            };
            if round == MAXIMUM_ROUNDS {
                self.note_statement(&format!("made {MAXIMUM_ROUNDS} times"));
                return Flow::Next;
            }
            if !is_known {
                self.note_statement("executed once: the number of iterations is not known before the run");
            }
            let inner = self.new_scope(scope);
            match self.statements(body, inner) {
                Flow::Next | Flow::Continue if is_known => {}
                Flow::Return(value) => return Flow::Return(value),
                _ => return Flow::Next,
            }
            if let Some(update) = update {
                self.value(update, scope);
            }
        }
        Flow::Next
    }

    /// Calls a function of the script.
    pub(crate) fn call(&mut self, function: &Rc<Function>, scope: usize, arguments: Vec<Value>) -> Value {
        if self.depth >= MAXIMUM_DEPTH || self.is_over() {
            return self.omit();
        }
        self.depth += 10;
        let inner = self.new_scope(scope);
        let mut arguments = arguments.into_iter();
        for parameter in &function.parameters {
            let value = arguments.next().unwrap_or(Value::Undefined);
            self.bind(parameter, value, inner);
        }
        let flow = self.statements(&function.body, inner);
        self.depth -= 10;
        match flow {
            Flow::Return(value) => value,
            _ => Value::Undefined,
        }
    }

    /// Calls a value if it is a function.
    pub(crate) fn call_value(&mut self, value: &Value, arguments: Vec<Value>) -> Value {
        match value {
            Value::Function(function, scope) => self.call(&function.clone(), *scope, arguments),
            Value::Native(name) => self.call_native(&name.clone(), arguments),
            _ => self.omit(),
        }
    }

    pub(crate) fn value(&mut self, expression: &Expression, scope: usize) -> Value {
        if self.depth >= MAXIMUM_DEPTH || self.is_over() {
            return self.omit();
        }
        self.depth += 1;
        let value = self.value_of(expression, scope);
        self.depth -= 1;
        value
    }

    fn value_of(&mut self, expression: &Expression, scope: usize) -> Value {
        match expression {
            Expression::Text(text) => Value::Text(literal(text)),
            Expression::Template(texts, expressions) => self.template(texts, expressions, scope),
            Expression::Number(number) => Value::Number(*number),
            Expression::Name(name) => self.named(name, scope),
            Expression::Pattern(pattern) => Value::Pattern(pattern.clone()),
            Expression::List(list) => {
                let values = self.all(list, scope);
                self.list(values)
            }
            Expression::Object(fields) => self.object_of(fields, scope),
            Expression::Function(function) => Value::Function(function.clone(), scope),
            Expression::Member(target, name) => {
                let target = self.value(target, scope);
                self.member(&target, name)
            }
            Expression::Index(target, place) => {
                let target = self.value(target, scope);
                let place = self.value(place, scope);
                self.element(&target, &place)
            }
            Expression::Call(callee, arguments) => self.called(callee, arguments, scope),
            Expression::New(target, arguments) => {
                let target = self.value(target, scope);
                let arguments = self.all(arguments, scope);
                match target {
                    Value::Native(name) => self.call_native(&format!("new {name}"), arguments),
                    _ => self.omit(),
                }
            }
            Expression::Spread(inside) => self.value(inside, scope),
            Expression::Unary(operator, value) => {
                let value = self.value(value, scope);
                self.unary(operator, &value)
            }
            Expression::Binary(operator, left, right) => self.binary(operator, left, right, scope),
            Expression::Choice(test, yes, no) => {
                let test = self.value(test, scope);
                let is_true = match (self.truth(&test), &test) {
                    (Some(is_true), _) => is_true,
                    (None, Value::Condition(condition)) => condition.is_expected(),
                    (None, _) => true,
                };
                self.value(if is_true { yes } else { no }, scope)
            }
            Expression::Assign(target, operator, value) => self.assign(target, operator, value, scope),
        }
    }

    fn named(&mut self, name: &str, scope: usize) -> Value {
        if let Some((_, value)) = self.look_up(name, scope) {
            return value.clone();
        }
        match name {
            "undefined" => Value::Undefined,
            "null" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "responseBody" => members::found(0, values::AnswerPart::Body),
            "responseHeaders" => members::found(0, values::AnswerPart::Headers),
            "__VU" => Value::Text("${client}".to_string()),
            "__ITER" => Value::Text("${session}".to_string()),
            _ => Value::Native(name.to_string()),
        }
    }

    fn template(&mut self, texts: &[String], expressions: &[Expression], scope: usize) -> Value {
        let mut whole = literal(texts.first().map_or("", String::as_str));
        for (expression, text) in expressions.iter().zip(&texts[1..]) {
            let value = self.value(expression, scope);
            let Some(inside) = self.text(&value).filter(|inside| whole.len() + inside.len() < MAXIMUM_TEXT)
            else {
                return Value::Unknown;
            };
            whole += &inside;
            whole += &literal(text);
        }
        Value::Text(whole)
    }

    /// The values of a list of expressions; `...list` is replaced by its elements.
    fn all(&mut self, list: &[Expression], scope: usize) -> Vec<Value> {
        let mut values = Vec::new();
        for one in list {
            let value = self.value(one, scope);
            match (one, self.elements(&value)) {
                (Expression::Spread(_), Some(elements)) if values.len() < MAXIMUM_REQUESTS => {
                    values.extend(elements)
                }
                _ => values.push(value),
            }
        }
        values
    }

    fn object_of(&mut self, written: &[(Key, Expression)], scope: usize) -> Value {
        let mut fields: Vec<(String, Value)> = Vec::new();
        for (key, expression) in written {
            let value = self.value(expression, scope);
            let new = match key {
                Key::Name(name) => vec![(name.clone(), value)],
                Key::Computed(key) => {
                    let key = self.value(key, scope);
                    self.text(&key).map(|key| (key, value)).into_iter().collect()
                }
                Key::Spread => self.fields(&value).unwrap_or_default(),
            };
            for (name, value) in new {
                put(&mut fields, name, value);
            }
        }
        self.object(fields)
    }

    fn called(&mut self, callee: &Expression, written: &[Expression], scope: usize) -> Value {
        if let Expression::Member(target, name) = callee {
            let target = self.value(target, scope);
            let arguments = self.all(written, scope);
            return match &target {
                Value::Native(module) => self.call_native(&format!("{module}.{name}"), arguments),
                _ => self.call_method(&target, name, arguments),
            };
        }
        let callee = self.value(callee, scope);
        let arguments = self.all(written, scope);
        self.call_value(&callee, arguments)
    }

    fn assign(
        &mut self,
        target: &Expression,
        operator: &'static str,
        value: &Expression,
        scope: usize,
    ) -> Value {
        let value = match operator {
            "" => self.value(value, scope),
            operator => self.binary(operator, target, value, scope),
        };
        match target {
            Expression::Name(name) => {
                let at = self.look_up(name, scope).map_or(0, |(at, _)| at);
                self.bind(&Binding::Name(name.clone(), None), value.clone(), at);
            }
            Expression::Member(owner, name) => {
                let owner = self.value(owner, scope);
                self.set_element(&owner, name, value.clone());
            }
            Expression::Index(owner, place) => {
                let owner = self.value(owner, scope);
                let place = self.value(place, scope);
                if matches!(&owner, Value::Native(name) if name == "tests") {
                    self.test(&place, &value);
                    return Value::Undefined;
                }
                if let Some(key) = self.text(&place) {
                    self.set_element(&owner, &key, value.clone());
                }
            }
            Expression::Object(_) | Expression::List(_) => return self.omit(),
            _ => {}
        }
        value
    }
}
