//! What placeholders stand for: the values of `vars`, the maps of `map`, the groups of expressions, and maps
//! that are made for parts of a path or a name.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use touchstone_import_base::directive::Directive;
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::{toml_string, toml_strings};

/// The named matchers of a site.
pub type NamedMatchers<'d> = BTreeMap<&'d str, &'d Directive>;

/// The context of a text that has placeholders.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// Clients of the site use HTTPS.
    pub is_secure: bool,
    /// The names of the site, if these are all names of its requests.
    pub hosts: Rc<Vec<String>>,
    /// The expression that the path of the route matches.
    pub expression: Option<String>,
    /// The text of a condition is translated.
    pub is_condition: bool,
    /// The texts that stand in the places of placeholders.
    values: BTreeMap<String, String>,
    /// The maps that give the values of placeholders.
    maps: BTreeMap<String, Table>,
    /// All that `map` and `vars` set anywhere in the site.
    declared: Rc<BTreeSet<String>>,
    /// The named expressions of matchers.
    regexps: Rc<BTreeMap<String, Regexp>>,
    /// All maps of the file.
    tables: Rc<RefCell<Tables>>,
}

/// The map of a placeholder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// All values that it can have; `None`: they depend on the request.
    pub values: Option<Vec<String>>,
    /// All its texts can stand within a path.
    pub is_path: bool,
}

/// An expression of a matcher, by which `{re.NAME.1}` are its groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Regexp {
    /// The text that it is compared with, in Caddy's language.
    pub of: String,
    /// The expression.
    pub expression: String,
}

/// A placeholder and what stands for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlaceholderValue {
    /// A text with placeholders, by `vars`.
    Text(String),
    /// The value of a map.
    Table(Table),
}

impl Context {
    /// The context of a site.
    pub fn of_site(
        is_secure: bool,
        hosts: Vec<String>,
        block: &[Directive],
        named: &NamedMatchers<'_>,
        tables: &Rc<RefCell<Tables>>,
    ) -> Context {
        let mut declared = BTreeSet::new();
        declare(block, &mut declared);
        Context {
            is_secure,
            hosts: hosts.into(),
            declared: declared.into(),
            regexps: regexps(named).into(),
            tables: tables.clone(),
            ..Context::default()
        }
    }

    /// The name of the file with these users, a line each: each list has its own.
    pub fn users_file(&self, users: Vec<String>) -> String {
        self.tables.borrow_mut().users_file(users)
    }

    /// The same for a condition, in which a value that only some requests have is refused.
    pub fn for_condition(&self) -> Context {
        Context { is_condition: true, ..self.clone() }
    }

    /// The text that stands for a placeholder. What is set for other requests only is empty.
    pub fn value(&self, name: &str) -> Option<&str> {
        match self.values.get(name) {
            Some(value) => Some(value),
            None => (name.starts_with("vars.") && self.is_unset(name)).then_some(""),
        }
    }

    /// Whether it is set, but not for the requests of this route.
    pub fn is_unset(&self, name: &str) -> bool {
        self.declared.contains(name) && !self.values.contains_key(name) && !self.maps.contains_key(name)
    }

    /// The map of a placeholder.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.maps.get(name)
    }

    /// The expression of this name.
    pub fn regexp(&self, name: &str) -> Option<&Regexp> {
        self.regexps.get(name)
    }

    /// Sets what a placeholder stands for.
    pub fn bind(&mut self, name: &str, bound: &PlaceholderValue) {
        match bound {
            PlaceholderValue::Text(text) => _ = self.values.insert(name.to_string(), text.clone()),
            // Of two maps the first counts.
            PlaceholderValue::Table(table) => {
                _ = self.maps.entry(name.to_string()).or_insert_with(|| table.clone())
            }
        }
    }

    /// The same with what is bound for some requests, in the order of the directives: of `vars` the last
    /// counts, of `map` the first.
    pub fn with(&self, bound: &[&(String, PlaceholderValue)], expression: Option<&str>) -> Context {
        let mut context = self.clone();
        context.expression = expression.map(str::to_string);
        for (name, bound) in bound.iter().filter(|(_, bound)| matches!(bound, PlaceholderValue::Text(_))) {
            context.bind(name, bound);
        }
        for (name, bound) in bound.iter().rev() {
            if let PlaceholderValue::Table(table) = bound {
                context.maps.insert(name.clone(), table.clone());
            }
        }
        context
    }

    /// Adds a map; returns its name.
    pub fn add(&self, name: &str, body: Section) -> String {
        self.tables.borrow_mut().add(name, body)
    }

    /// A map from what an expression matches to its group 1.
    pub fn part(&self, name: &str, from: &str, expression: &str, default: &str) -> String {
        let mut body = Section::default();
        body.key("from", toml_string(from));
        if !default.is_empty() {
            body.key("default", toml_string(default));
        }
        body.key("patterns", toml_strings([format!("{} ${{1}}", in_quotes(&format!("~{expression}")))]));
        self.add(name, body)
    }
}

/// The maps that have been written, each once.
#[derive(Debug, Default)]
pub struct Tables {
    /// The name and the body of each, and its text without comments.
    written: Vec<(String, Section, String)>,
    /// The users of each file with passwords.
    users: Vec<Vec<String>>,
}

impl Tables {
    /// The name of the file with these users, a line each.
    fn users_file(&mut self, users: Vec<String>) -> String {
        let at = self.users.iter().position(|other| *other == users).unwrap_or_else(|| {
            self.users.push(users);
            self.users.len() - 1
        });
        match at {
            0 => "users.htpasswd".to_string(),
            _ => format!("users-{}.htpasswd", at + 1),
        }
    }

    fn add(&mut self, name: &str, body: Section) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '-' };
        let wanted: String = name.chars().map(plain).collect();
        let wanted = if wanted.is_empty() { "map".to_string() } else { wanted };
        let mut text = String::new();
        body.write(&mut text);
        let text: String = text.lines().filter(|line| !line.starts_with('#')).collect();
        let is_form = |name: &str| {
            let rest = name.strip_prefix(wanted.as_str()).map(|rest| rest.trim_start_matches('-'));
            rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
        };
        if let Some((name, ..)) = self.written.iter().find(|(name, _, other)| *other == text && is_form(name))
        {
            return name.clone();
        }
        let is_free = |name: &String| self.written.iter().all(|(other, ..)| other != name);
        let mut name = wanted.clone();
        let mut number = 2;
        while !is_free(&name) {
            name = format!("{wanted}-{number}");
            number += 1;
        }
        self.written.push((name.clone(), body, text));
        name
    }

    /// Writes all of them.
    pub fn write(&self, out: &mut String) {
        for (name, body, _) in &self.written {
            let mut section = body.clone().with_header("[[map]]");
            section.key("name", toml_string(name));
            section.notes_first();
            section.write(out);
        }
    }
}

/// A word of a line of a map, in quotes where they are needed.
pub fn in_quotes(text: &str) -> String {
    let is_bare = !text.is_empty() && !text.contains([' ', '\t', ';', '"', '\'', '#']);
    match is_bare {
        true => text.to_string(),
        false if text.contains('"') => format!("'{}'", text.replace('\'', "\\'")),
        false => format!("\"{text}\""),
    }
}

/// The placeholders that `map` and `vars` set in a block and the blocks in it.
fn declare(block: &[Directive], declared: &mut BTreeSet<String>) {
    for directive in block {
        match directive.name.as_str() {
            "vars" => {
                let arguments = directive.arguments.iter().rev().nth(1);
                let lines = directive.inside().iter().map(|line| &line.name);
                declared.extend(arguments.into_iter().chain(lines).map(|name| format!("vars.{name}")));
            }
            "map" => {
                let is_matcher = |word: &String| word == "*" || word.starts_with(['/', '@']);
                let matcher = usize::from(directive.arguments.first().is_some_and(is_matcher));
                let words = directive.arguments.iter().skip(matcher + 1);
                declared.extend(words.filter(|word| word.starts_with('{')).map(|word| name_of(word)));
            }
            _ => {}
        }
        declare(directive.inside(), declared);
    }
}

/// The name of a placeholder, in the form in which this command looks for it.
pub fn name_of(placeholder: &str) -> String {
    let name = placeholder.trim_matches(['{', '}']);
    let short = name.strip_prefix("http.request.").unwrap_or(name);
    let short = if short.starts_with("http.vars.") { &short["http.".len()..] } else { short };
    match short.strip_prefix("http.regexp.") {
        Some(group) => format!("re.{group}"),
        None => short.to_string(),
    }
}

/// The expressions of matchers, by their names, or those of their matchers.
fn regexps(named: &NamedMatchers<'_>) -> BTreeMap<String, Regexp> {
    let mut found = BTreeMap::new();
    for (matcher, definition) in named {
        let of_line = definition.arguments.split_first().map(|(kind, rest)| (kind.as_str(), rest));
        let of_block = definition.inside().iter().map(|line| (line.name.as_str(), line.arguments.as_slice()));
        for (kind, arguments) in of_line.into_iter().chain(of_block) {
            let (name, of, expression) = match (kind, arguments) {
                ("path_regexp", [expression]) => (*matcher, "{path}".to_string(), expression),
                ("path_regexp", [name, expression]) => (name.as_str(), "{path}".to_string(), expression),
                ("header_regexp", [field, expression]) => {
                    (*matcher, format!("{{header.{field}}}"), expression)
                }
                ("header_regexp", [name, field, expression]) => {
                    (name.as_str(), format!("{{header.{field}}}"), expression)
                }
                ("vars_regexp", [of, expression]) => (*matcher, variable(of), expression),
                ("vars_regexp", [name, of, expression]) => (name.as_str(), variable(of), expression),
                _ => continue,
            };
            found.insert(name.to_string(), Regexp { of, expression: expression.clone() });
        }
    }
    found
}

/// What the matchers `vars` and `vars_regexp` name: a placeholder, or the name of a variable.
pub fn variable(name: &str) -> String {
    match name.starts_with('{') {
        true => name.to_string(),
        false => format!("{{vars.{name}}}"),
    }
}
