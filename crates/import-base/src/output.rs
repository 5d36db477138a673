//! The TOML that the importers produce: sections with their keys and comments.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::directive::Directive;
use crate::toml_text::toml_string;

/// The networks of all clients, for `deny`.
pub const EVERY_CLIENT: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// A section, such as `[[site]]` or `[[site.route]]`, with its subsections.
#[derive(Debug, Default, Clone)]
pub struct Section {
    header: String,
    lines: Vec<String>,
    /// What must hold, for the key `when`.
    conditions: Vec<String>,
    /// Keys whose value is a table that several directives fill: by key, and by name in the table.
    tables: BTreeMap<&'static str, BTreeMap<String, String>>,
    below: Vec<Section>,
}

impl Section {
    /// A section with this header, such as `[[site]]`.
    pub fn new(header: &str) -> Section {
        Section { header: header.to_string(), ..Section::default() }
    }

    /// Adds a comment.
    pub fn note(&mut self, text: impl AsRef<str>) {
        self.lines.extend(text.as_ref().lines().map(|line| format!("# {line}")));
    }

    /// Adds a key; the value is TOML text.
    pub fn key(&mut self, name: &str, value: impl std::fmt::Display) {
        let begin = format!("{name} = ");
        // A later directive with the same meaning replaces an earlier one.
        self.lines.retain(|line| !line.starts_with(&begin));
        self.lines.push(format!("{begin}{value}"));
    }

    /// Adds a condition to `when`: all of its conditions must hold.
    pub fn and_when(&mut self, condition: &str) {
        if !self.conditions.iter().any(|one| one == condition) {
            self.conditions.push(condition.to_string());
        }
    }

    /// Adds an entry to a key whose value is a table.
    pub fn entry(&mut self, name: &'static str, key: &str, value: String) {
        self.tables.entry(name).or_default().insert(key.to_string(), value);
    }

    /// Adds a comment before all others.
    pub fn note_first(&mut self, text: impl AsRef<str>) {
        self.lines.insert(0, format!("# {}", text.as_ref()));
    }

    /// Moves the comments before the keys.
    pub fn notes_first(&mut self) {
        self.lines.sort_by_key(|line| !line.starts_with('#'));
    }

    /// Whether the key has a value.
    pub fn has(&self, name: &str) -> bool {
        let begin = format!("{name} = ");
        self.lines.iter().any(|line| line.starts_with(&begin))
    }

    /// Removes a key.
    pub fn remove(&mut self, name: &str) {
        let begin = format!("{name} = ");
        self.lines.retain(|line| !line.starts_with(&begin));
    }

    /// Whether it has a subsection with this header.
    pub fn has_section(&self, header: &str) -> bool {
        self.below.iter().any(|section| section.header == header)
    }

    /// The subsection with this header.
    pub fn section(&self, header: &str) -> Option<&Section> {
        self.below.iter().find(|section| section.header == header)
    }

    /// The subsection with this header, to be changed.
    pub fn section_mut(&mut self, header: &str) -> Option<&mut Section> {
        self.below.iter_mut().find(|section| section.header == header)
    }

    /// The value of a key, as TOML text.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "))
    }

    /// Whether it is a site.
    pub fn is_site(&self) -> bool {
        self.header == "[[site]]"
    }

    /// Whether the key has table entries.
    pub fn has_entries(&self, name: &str) -> bool {
        self.tables.contains_key(name)
    }

    /// Whether the key has this value.
    pub fn has_value(&self, name: &str, value: &str) -> bool {
        self.lines
            .iter()
            .any(|line| line.strip_prefix(name).and_then(|rest| rest.strip_prefix(" = ")) == Some(value))
    }

    /// Whether it has comments.
    pub fn has_notes(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Takes over the comments of another section.
    pub fn take_notes(&mut self, other: Section) {
        self.lines.extend(other.lines.into_iter().filter(|line| line.starts_with('#')));
    }

    /// Takes over the keys and conditions of another section.
    pub fn take_keys(&mut self, other: Section) {
        self.take_conditions(&other);
        self.lines.extend(other.lines.into_iter().filter(|line| !line.starts_with('#')));
    }

    /// Takes over the conditions of another section.
    pub fn take_conditions(&mut self, other: &Section) {
        other.conditions.iter().for_each(|condition| self.and_when(condition));
    }

    /// Removes all subsections.
    pub fn remove_sections(&mut self) {
        self.below.clear();
    }

    /// Whether it has only comments.
    pub fn is_empty(&self) -> bool {
        self.below.is_empty()
            && self.conditions.is_empty()
            && self.tables.is_empty()
            && self.lines.iter().all(|line| line.starts_with('#'))
    }

    /// Adds a subsection.
    pub fn push(&mut self, section: Section) {
        self.below.push(section);
    }

    /// Keeps only the comments.
    pub fn without_keys(mut self) -> Section {
        self.lines.retain(|line| line.starts_with('#'));
        self.tables.clear();
        self.conditions.clear();
        self.below.clear();
        self
    }

    /// Gives a site without `root` an empty directory if one of its routes serves files.
    pub fn complete_root(&mut self) {
        if !self.has("root") && self.below.last().is_some_and(Section::is_for_the_rest) {
            // Without it the answer is 404, too.
            self.below.pop().into_iter().for_each(|route| self.take_notes(route));
        }
        let routes = || self.below.iter().filter(|route| route.header == "[[site.route]]");
        // Routes after one for all requests have none.
        let last = routes().position(Section::answers_everything).unwrap_or(usize::MAX);
        let needs_it = routes().next().is_none()
            || ["fallback", "error_pages"].iter().any(|key| self.has(key) || self.has_entries(key))
            || routes().take(last.saturating_add(1)).any(Section::serves_files);
        if !self.has("root") && needs_it {
            self.note("There is no directory of files here, but routes need one: create an empty one.");
            self.key("root", toml_string("/var/empty"));
        }
    }

    /// Whether a route is for all other requests, and has no settings for them.
    fn is_for_the_rest(&self) -> bool {
        let keys: Vec<&String> = self.lines.iter().filter(|line| !line.starts_with('#')).collect();
        self.header == "[[site.route]]"
            && keys == ["path = \"/\""]
            && self.conditions.is_empty()
            && self.tables.is_empty()
            && self.below.is_empty()
    }

    /// Whether a route is for all requests, and answers them itself.
    fn answers_everything(&self) -> bool {
        let conditions =
            ["pattern", "suffixes", "methods", "request_headers", "when", "try_files", "rewrite"];
        self.value("path").is_none_or(|path| path == "\"/\"")
            && self.conditions.is_empty()
            && !conditions.iter().any(|key| self.has(key) || self.has_entries(key))
            && !self.serves_files()
    }

    /// Whether a route needs the directory of its site.
    fn serves_files(&self) -> bool {
        if self.has("root") || self.has("alias") {
            return false;
        }
        let has = |key: &str| {
            let header = format!("[site.route.{key}]");
            self.has(key) || self.has_entries(key) || self.has_section(&header)
        };
        let needs_files = ["try_files", "fallback", "error_pages", "cgi", "nsapi", "webdav", "php"];
        let answers = ["redirect", "rewrite", "respond", "proxy", "scgi", "uwsgi", "ajp"];
        let denies = |network: &str| self.value("deny").is_some_and(|list| list.contains(network));
        let refuses = EVERY_CLIENT.into_iter().all(|network| denies(&format!("\"{network}\"")))
            && !has("allow")
            && !has("satisfy");
        needs_files.into_iter().any(has) || !(answers.into_iter().any(has) || refuses)
    }

    /// Changes the header.
    pub fn with_header(mut self, header: &str) -> Section {
        self.header = header.to_string();
        self
    }

    /// Writes the section as text.
    pub fn write(&self, out: &mut String) {
        let header = if self.header.is_empty() { String::new() } else { format!("{}\n", self.header) };
        let _ = write!(out, "\n{header}");
        for line in &self.lines {
            let _ = writeln!(out, "{line}");
        }
        match self.conditions.as_slice() {
            [] => {}
            [one] => _ = writeln!(out, "when = {}", toml_string(one)),
            all => _ = writeln!(out, "when = {}", toml_string(&format!("({})", all.join(") and (")))),
        }
        for (name, entries) in &self.tables {
            let entries: Vec<String> =
                entries.iter().map(|(key, value)| format!("{} = {value}", bare_or_quoted(key))).collect();
            let _ = writeln!(out, "{name} = {{ {} }}", entries.join(", "));
        }
        self.below.iter().for_each(|section| section.write(out));
    }
}

/// A route that is to refuse all requests of a place, because of these directives, which were not translated:
/// so far only its comments.
pub fn untranslated(lines: &[&Directive]) -> Section {
    let mut route = Section::new("[[site.route]]");
    lines.iter().for_each(|line| route.note(line.to_string()));
    route.note("This was not translated: all of these requests are refused until you write what it does,");
    route.note("and remove this route.");
    route
}

fn bare_or_quoted(key: &str) -> String {
    let is_bare = !key.is_empty()
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if is_bare { key.to_string() } else { toml_string(key) }
}
