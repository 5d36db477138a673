//! A directive of another server's configuration: its name, arguments, block and place.

use std::fmt;
use std::rc::Rc;

/// The place of a directive in the source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    file: Rc<str>,
    line: usize,
}

impl Place {
    /// A line of a file.
    pub fn new(file: Rc<str>, line: usize) -> Place {
        Place { file, line }
    }

    /// The file.
    pub fn file(&self) -> &str {
        &self.file
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            // The whole file.
            0 => write!(formatter, "{}", self.file),
            line => write!(formatter, "{}:{line}", self.file),
        }
    }
}

/// A directive with its arguments and its block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    /// The name.
    pub name: String,
    /// The arguments, without quotes.
    pub arguments: Vec<String>,
    /// The directives in its block, if it has one.
    pub block: Option<Vec<Directive>>,
    /// The place in the source.
    pub place: Place,
    /// The syntax in which it is written.
    pub form: Form,
}

/// The syntax of a server's directives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `name arguments;` or `name arguments { ... }`
    Nginx,
    /// `name arguments` or `name arguments { ... }`, a line each
    Caddy,
    /// `Name arguments` or `<Name arguments>`, a line each
    Apache,
}

impl Directive {
    /// The argument with this index, or an empty text.
    pub fn argument(&self, index: usize) -> &str {
        self.arguments.get(index).map_or("", String::as_str)
    }

    /// The directives in its block.
    pub fn inside(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }

    /// The directive as it was written, in one line and without the contents of its block.
    pub fn text(&self) -> String {
        let words = std::iter::once(&self.name).chain(&self.arguments);
        let text = words.map(|word| shown(word)).collect::<Vec<String>>().join(" ");
        match (self.form, self.block.is_some()) {
            (Form::Nginx, false) => format!("{text};"),
            (Form::Nginx | Form::Caddy, true) => format!("{text} {{ ... }}"),
            (Form::Caddy | Form::Apache, false) => text,
            (Form::Apache, true) => format!("<{text}>"),
        }
    }
}

/// The directives and those in their blocks with their places, in the order of the source. For tests of what
/// was read.
pub fn shown_in_order(directives: &[Directive]) -> Vec<String> {
    directives
        .iter()
        .flat_map(|directive| {
            std::iter::once(directive.to_string()).chain(shown_in_order(directive.inside()))
        })
        .collect()
}

impl fmt::Display for Directive {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.text())
    }
}

fn shown(word: &str) -> String {
    let needs_quotes =
        word.is_empty() || word.chars().any(|c| c.is_whitespace() || c.is_control() || c == ';');
    if needs_quotes { format!("{word:?}") } else { word.to_string() }
}
