//! Variables that conditions of a server set, such as `$skip_cache`: what they hold is a condition on the
//! request.
//!
//! ```text
//! set $skip 0;
//! if ($request_method = POST) { set $skip 1; }
//! if ($http_cookie ~ "session") { set $skip 1; }
//!
//! $skip: $method == 'POST' or $header{cookie} =~ 'session'
//! ```
//!
//! Each value that such a variable may have is kept with the condition under which it has it.

use std::collections::BTreeMap;

use touchstone_import_base::directive::Directive;

/// A variable has at most this many values, so that the conditions remain readable.
const MOST_VALUES: usize = 8;

/// The longest condition, which is half of what the language allows.
const MOST_BYTES: usize = 2_048;

/// A condition that never holds.
pub const NEVER: &str = "$method == ''";

/// The variables of a server that conditions set.
#[derive(Debug, Default, Clone)]
pub struct Flags {
    states: BTreeMap<String, States>,
}

/// The values of a variable, each with its condition.
type States = BTreeMap<String, Truth>;

/// When a condition holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Truth {
    /// For all requests.
    Always,
    /// For none.
    Never,
    /// For those of this condition.
    If(String),
}

impl Truth {
    fn not(&self) -> Truth {
        match self {
            Truth::Always => Truth::Never,
            Truth::Never => Truth::Always,
            Truth::If(condition) => Truth::If(format!("not ({condition})")),
        }
    }

    fn and(&self, other: &Truth) -> Truth {
        match (self, other) {
            (Truth::Never, _) | (_, Truth::Never) => Truth::Never,
            (Truth::Always, truth) | (truth, Truth::Always) => truth.clone(),
            (Truth::If(one), Truth::If(other)) => {
                Truth::If(format!("{} and {}", grouped(one), grouped(other)))
            }
        }
    }

    fn or(&self, other: &Truth) -> Truth {
        match (self, other) {
            (Truth::Always, _) | (_, Truth::Always) => Truth::Always,
            (Truth::Never, truth) | (truth, Truth::Never) => truth.clone(),
            (Truth::If(one), Truth::If(other)) => Truth::If(format!("{one} or {other}")),
        }
    }

    fn condition(&self) -> String {
        match self {
            Truth::Always => "$method != ''".to_string(),
            Truth::Never => NEVER.to_string(),
            Truth::If(condition) => condition.clone(),
        }
    }
}

/// A condition as one side of `and`.
fn grouped(condition: &str) -> String {
    match condition.contains(" or ") {
        true => format!("({condition})"),
        false => condition.to_string(),
    }
}

impl Flags {
    /// Whether a variable is one of these.
    pub fn has(&self, name: &str) -> bool {
        self.states.contains_key(name)
    }

    /// Whether all that a directive does is to set such variables.
    pub fn sets_only(&self, directive: &Directive) -> bool {
        match directive.name.as_str() {
            "set" => self.has(variable(directive)),
            _ => {
                directive.name == "if"
                    && !directive.inside().is_empty()
                    && directive.inside().iter().all(|set| set.name == "set" && self.has(variable(set)))
            }
        }
    }

    /// Forgets a variable whose values are not known any more.
    pub fn forget(&mut self, name: &str) {
        self.states.remove(name);
    }

    /// When the variable is neither empty nor `0`.
    pub fn holds(&self, name: &str) -> Option<String> {
        let states = self.states.get(name)?;
        let truths = states.iter().filter(|(value, _)| !matches!(value.as_str(), "" | "0"));
        Some(truths.fold(Truth::Never, |sum, (_, truth)| sum.or(truth)).condition())
    }

    /// When the variable has this value, or with `is_equal` false another one.
    pub fn equals(&self, name: &str, value: &str, is_equal: bool) -> Option<String> {
        let truth = self.states.get(name)?.get(value).cloned().unwrap_or(Truth::Never);
        Some(if is_equal { truth } else { truth.not() }.condition())
    }

    /// Takes a `set` into account.
    pub fn set(&mut self, set: &Directive, when: &Truth) {
        let name = variable(set);
        let before = match self.states.get(name) {
            Some(states) => states.clone(),
            None => States::from([(String::new(), Truth::Always)]),
        };
        let mut after = States::new();
        let mut add = |value: String, truth: Truth| {
            if truth != Truth::Never {
                let sum = after.get(&value).map_or(truth.clone(), |other: &Truth| other.or(&truth));
                after.insert(value, sum);
            }
        };
        match appended(set) {
            Some(more) => {
                for (value, truth) in &before {
                    add(format!("{value}{more}"), truth.and(when));
                    add(value.clone(), truth.and(&when.not()));
                }
            }
            None => {
                let value = set.argument(1);
                // Where it has the value already, the condition does not matter.
                let same = before.get(value).cloned().unwrap_or(Truth::Never);
                add(value.to_string(), same.or(when));
                for (other, truth) in before.iter().filter(|(other, _)| *other != value) {
                    add(other.clone(), truth.and(&when.not()));
                }
            }
        }
        let is_long = |truth: &Truth| matches!(truth, Truth::If(text) if text.len() > MOST_BYTES);
        if after.len() > MOST_VALUES || after.values().any(is_long) {
            self.states.remove(name);
        } else {
            self.states.insert(name.to_string(), after);
        }
    }
}

/// The name of the variable that a `set` changes.
pub fn variable(set: &Directive) -> &str {
    set.argument(0).trim_start_matches('$')
}

/// `set $a "${a}MORE"`: what it appends.
pub fn appended(set: &Directive) -> Option<&str> {
    let (name, text) = (variable(set), set.argument(1));
    let more = text.strip_prefix(&format!("${{{name}}}")).or_else(|| {
        let more = text.strip_prefix(&format!("${name}"))?;
        (!more.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')).then_some(more)
    })?;
    (!more.contains('$')).then_some(more)
}
