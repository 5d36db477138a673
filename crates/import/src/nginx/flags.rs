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

use super::language::Language;
use crate::directive::Directive;

/// A variable has at most this many values, so that the conditions stay readable.
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

/// When something is so.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Truth {
    Always,
    Never,
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
    /// The variables of a server as they are at one of its directives; `None`: at its end.
    pub fn of(server: &Directive, language: &Language<'_>, at: Option<&Directive>) -> Flags {
        let mut flags = Flags::default();
        let names = names(server);
        for directive in server.inside() {
            if at.is_some_and(|at| std::ptr::eq(at, directive)) {
                break;
            }
            if directive.name == "set" && names.contains(&directive.argument(0)) {
                flags.set(directive, &Truth::Always);
            } else if sets(directive).any(|set| names.contains(&set.argument(0))) {
                let here = Language { flags: flags.clone(), ..language.clone() };
                match here.condition(directive) {
                    Ok(condition) => {
                        sets(directive).for_each(|set| flags.set(set, &Truth::If(condition.clone())));
                    }
                    // What depends on it is not known either.
                    Err(_) => sets(directive).for_each(|set| _ = flags.states.remove(variable(set))),
                }
            }
        }
        flags
    }

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

    fn set(&mut self, set: &Directive, when: &Truth) {
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

fn variable(set: &Directive) -> &str {
    set.argument(0).trim_start_matches('$')
}

/// `set $a "${a}MORE"`: what it appends.
fn appended(set: &Directive) -> Option<&str> {
    let (name, text) = (variable(set), set.argument(1));
    let more = text.strip_prefix(&format!("${{{name}}}")).or_else(|| {
        let more = text.strip_prefix(&format!("${name}"))?;
        (!more.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')).then_some(more)
    })?;
    (!more.contains('$')).then_some(more)
}

/// The `set` directives of an `if`.
fn sets(directive: &Directive) -> impl Iterator<Item = &Directive> {
    let inside: &[Directive] = if directive.name == "if" { directive.inside() } else { &[] };
    inside.iter().filter(|inner| inner.name == "set")
}

/// The variables that are set by nothing but fixed values, in the server and in its conditions.
fn names(server: &Directive) -> Vec<&str> {
    let is_fixed = |set: &Directive| {
        set.arguments.len() == 2 && (!set.argument(1).contains('$') || appended(set).is_some())
    };
    let own = server.inside().iter().filter(|directive| directive.name == "set");
    let all: Vec<&Directive> = own.chain(server.inside().iter().flat_map(sets)).collect();
    let mut names: Vec<&str> = server.inside().iter().flat_map(sets).map(|set| set.argument(0)).collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| {
        let here = all.iter().filter(|set| set.argument(0) == *name);
        name.len() > 1 && here.clone().all(|set| is_fixed(set)) && here.count() == count(server, name)
    });
    names
}

/// How often a variable is set, at any depth.
fn count(block: &Directive, name: &str) -> usize {
    let is_it = |directive: &&Directive| directive.name == "set" && directive.argument(0) == name;
    let inside = block.inside();
    inside.iter().filter(is_it).count() + inside.iter().map(|inner| count(inner, name)).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use crate::nginx::{parse, translate};

    fn keys(server: &str) -> (String, Vec<String>) {
        let imported = translate(&parse("nginx.conf", &format!("server {{ root /srv; {server} }}")).unwrap());
        let lines: Vec<&str> =
            imported.text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        (lines.join("\n"), imported.problems.into_iter().map(|problem| problem.directive).collect())
    }

    #[test]
    fn a_cache_that_some_requests_pass_by() {
        let (text, problems) = keys(
            "set $skip_cache 0; if ($request_method = POST) { set $skip_cache 1; }\n\
             if ($query_string != \"\") { set $skip_cache 1; }\n\
             if ($http_cookie ~* \"wordpress_logged_in\") { set $skip_cache 1; }\n\
             location ~ \\.php$ { fastcgi_pass unix:/run/php.sock; fastcgi_cache zone;\n\
             fastcgi_cache_bypass $skip_cache; fastcgi_no_cache $skip_cache; }",
        );
        assert!(problems.is_empty(), "{problems:?}\n{text}");
        let condition = "$method == 'POST' or $query != '' or $header{cookie} =~ '(?i)wordpress_logged_in'";
        assert!(text.contains(&format!("bypass = \"{condition}\"")), "{text}");
    }

    #[test]
    fn two_conditions_that_both_must_hold() {
        let (text, problems) = keys(
            "if ($request_method = POST) { set $both A; }\n\
             if ($arg_key = \"\") { set $both \"${both}B\"; }\n\
             if ($both = AB) { return 403; }",
        );
        assert!(problems.is_empty(), "{problems:?}\n{text}");
        assert!(text.contains("when = \"$method == 'POST' and $arg{key} == ''\""), "{text}");
    }

    #[test]
    fn a_flag_counts_as_it_is_at_that_place() {
        let (text, problems) = keys(
            "set $a 0; if ($a) { return 403; }\n if ($arg_x) { set $a 1; }\n if ($a != 1) { return 404; }",
        );
        assert!(problems.is_empty(), "{problems:?}\n{text}");
        assert!(!text.contains("403"), "{text}");
        assert!(
            text.contains("when = \"not ($arg{x})\"\npath = \"/\"\nrespond = { status = 404 }"),
            "{text}"
        );
    }

    #[test]
    fn what_is_not_fixed_is_told() {
        for server in [
            "if ($arg_x) { set $a $arg_y; } if ($a) { return 403; }",
            "if (-d $request_filename) { set $a 1; } if ($a) { return 403; }",
            "set $a 0; location / { set $a 1; if ($a) { return 403; } }",
        ] {
            assert!(!keys(server).1.is_empty(), "{server}");
        }
    }
}
