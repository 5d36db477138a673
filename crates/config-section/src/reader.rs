//! Reads sections and their keys from TOML, with the place of every value.
//!
//! All problems are collected, each at its place. [`kinds`](super::kinds) reads the values of keys.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::problem::problem_at;
use crate::{ABSENT, ConfigProblem, Key, Kind, Place, Section, SectionPlaces, values};

/// One file of a configuration.
#[derive(Debug, Clone)]
pub struct Source {
    /// Its name in problems.
    pub name: PathBuf,
    /// What relative paths in it are taken from: its directory.
    pub base: PathBuf,
    /// Its text.
    pub text: String,
}

/// A file or directory that a key names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFile {
    /// The section of the key.
    pub section: &'static str,
    /// The key.
    pub key: &'static str,
    /// Its path.
    pub path: PathBuf,
}

/// One pass over a text: its position, and the problems found.
pub struct Reader<'t> {
    /// The text.
    pub text: &'t str,
    lines: Lines<'t>,
    file: &'t Path,
    /// The position of the file in `sources`.
    file_position: usize,
    /// All files, if there are several.
    sources: &'t [Source],
    /// The directory of relative paths.
    pub base: &'t Path,
    problems: Vec<ConfigProblem>,
    named_files: Vec<NamedFile>,
    /// The headers of all sections that have a key of a name, for messages.
    sections_with_key: fn(&str) -> Vec<String>,
}

/// A value with its place.
pub type Value<'i> = Spanned<DeValue<'i>>;

impl<'t> Reader<'t> {
    /// A reader of one file.
    pub fn new(text: &'t str, file: &'t Path, base: &'t Path) -> Reader<'t> {
        let lines = Lines::of(text);
        let sections_with_key: fn(&str) -> Vec<String> = |_| Vec::new();
        let (problems, named_files) = (Vec::new(), Vec::new());
        let sources = &[];
        Reader {
            text,
            lines,
            file,
            file_position: 0,
            sources,
            base,
            problems,
            named_files,
            sections_with_key,
        }
    }

    /// Continues in this file.
    pub fn enter(&mut self, position: usize) {
        let source = &self.sources[position];
        self.file_position = position;
        (self.text, self.file, self.base) = (&source.text, &source.name, &source.base);
        self.lines = Lines::of(&source.text);
    }

    /// The place of a byte of the text.
    pub fn place(&self, offset: usize) -> Place {
        Place { file: self.file_position, ..self.lines.place(offset) }
    }

    /// A line for a message about the place `here`, with its file if that is another.
    pub fn line(&self, place: Place, here: Place) -> String {
        match self.sources.get(place.file) {
            Some(source) if place.file != here.file => {
                format!("line {} of {}", place.line, source.name.display())
            }
            _ => format!("line {}", place.line),
        }
    }

    /// Reads the files of a configuration, the first of which it is in.
    pub fn with_sources(
        self,
        sources: &'t [Source],
        sections_with_key: fn(&str) -> Vec<String>,
    ) -> Reader<'t> {
        Reader { sources, sections_with_key, ..self }
    }

    /// All files, if there are several.
    pub fn sources(&self) -> &'t [Source] {
        self.sources
    }

    /// The problems that were found.
    pub fn into_problems(self) -> Vec<ConfigProblem> {
        self.problems
    }

    /// The problems that were found so far.
    pub fn problems(&self) -> &[ConfigProblem] {
        &self.problems
    }

    /// The files and directories that were read so far.
    pub fn named_files(&self) -> &[NamedFile] {
        &self.named_files
    }

    /// Notes a file of the key that is being read. Its section is known when all keys have been read.
    pub(crate) fn note_file(&mut self, key: &'static str, path: &Path) {
        self.named_files.push(NamedFile { section: "", key, path: path.to_path_buf() });
    }

    /// Adds a problem.
    pub fn problem(&mut self, place: Place, message: String) {
        let file = self.sources.get(place.file).map_or(self.file, |source| &source.name);
        self.problems.push(problem_at(file, Some(place), message));
    }

    /// A table inside a section; `None`, with a problem, if it is not a table.
    pub fn table<C>(
        &mut self,
        section: &'static Section<C>,
        value: &Value<'_>,
    ) -> Option<(C, SectionPlaces)> {
        let place = self.place(value.span().start);
        match value.get_ref() {
            DeValue::Table(table) => Some(self.section(section, table, place)),
            _ => {
                let message =
                    format!("'{}' must be a table; write {}", last_name(section.name), section.header());
                self.problem(place, message);
                None
            }
        }
    }

    /// A table inside a section, for a [`Kind::Table`](super::Kind::Table), into its place. Returns where its
    /// keys are.
    pub fn table_into<C>(
        &mut self,
        section: &'static Section<C>,
        value: &Value<'_>,
        target: &mut Option<C>,
    ) -> Vec<SectionPlaces> {
        self.table(section, value).map_or(Vec::new(), |(config, places)| {
            *target = Some(config);
            vec![places]
        })
    }

    /// The same, and checks the keys of the table together, unless a value in it is wrong: what follows from
    /// that is not reported as well.
    pub fn checked_table_into<C>(
        &mut self,
        section: &'static Section<C>,
        value: &Value<'_>,
        target: &mut Option<C>,
        check: impl Fn(&C) -> Option<String>,
    ) -> Vec<SectionPlaces> {
        let before = self.problems.len();
        let places = self.table_into(section, value, target);
        if self.problems.len() == before
            && let Some(message) = target.as_ref().and_then(check)
        {
            let place = self.place(value.span().start);
            self.problem(place, format!("'{}': {message}", last_name(section.name)));
        }
        places
    }

    /// Tables inside a section, each written with two pairs of brackets.
    pub fn tables<C>(&mut self, section: &'static Section<C>, value: &Value<'_>) -> Vec<(C, SectionPlaces)> {
        match value.get_ref() {
            DeValue::Array(items) if is_array_of_tables(items) => {
                items.iter().filter_map(|item| self.table(section, item)).collect()
            }
            _ => {
                let place = self.place(value.span().start);
                let (name, header) = (last_name(section.name), section.header());
                self.problem(
                    place,
                    format!(
                        "'{name}' is written with two pairs of brackets, \
                         because there may be several: {header}"
                    ),
                );
                Vec::new()
            }
        }
    }

    /// The keys of one section.
    pub fn section<C>(
        &mut self,
        section: &'static Section<C>,
        table: &DeTable<'_>,
        header: Place,
    ) -> (C, SectionPlaces) {
        let mut target = section.defaults();
        let mut places = SectionPlaces { header, ..SectionPlaces::default() };
        let files_before = self.named_files.len();
        for (name, value) in table.iter() {
            match section.key(name.get_ref()) {
                Some(key) => {
                    let before = self.problems.len();
                    let key_places = self.value(key, value, &mut target);
                    if self.problems.len() == before {
                        self.check_filled(key, value);
                    }
                    // Each table of an array is judged by itself.
                    let is_list = matches!(key.kind, Kind::Tables { .. }) && !key_places.tables.is_empty();
                    if self.problems.len() > before && !is_list {
                        places.unread.push(key.name);
                    }
                    places.keys.insert(key.name, key_places);
                }
                None => {
                    let names: Vec<&str> = section.keys.iter().map(|key| key.name).collect();
                    places.unread.extend(self.unknown_key(&section.header(), &names, name));
                }
            }
        }
        // Those of the sections in this one have theirs already.
        for file in self.named_files.iter_mut().skip(files_before).filter(|file| file.section.is_empty()) {
            file.section = section.name;
        }
        // A misspelt key is not reported as missing as well.
        let is_missing = |key: &&Key<C>| !table.contains_key(key.name) && !places.is_unread(key.name);
        for key in section.keys.iter().filter(|key| key.default.is_none()).filter(is_missing) {
            let message =
                format!("{} needs '{}', such as {} = {}", section.header(), key.name, key.name, key.example);
            self.problem(header, message);
        }
        (target, places)
    }

    /// Reports an empty string as the value of a key that has no default, or whose absence means something
    /// else than an empty value. (An empty array may be meant: `origins = []` of a route permits no site.)
    fn check_filled<C>(&mut self, key: &Key<C>, value: &Value<'_>) {
        let without = match (value.get_ref(), key.default) {
            (DeValue::String(text), None) if text.is_empty() => "",
            (DeValue::String(text), Some(ABSENT)) if text.is_empty() => ", or leave the key out",
            _ => return,
        };
        let (name, place) = (key.name, self.place(value.span().start));
        let message = format!("'{name}' must not be empty; write a value such as {}{without}", key.example);
        self.problem(place, message);
    }

    /// Reports an unknown key. Returns the key that was probably meant.
    fn unknown_key(
        &mut self,
        header: &str,
        names: &[&'static str],
        name: &Spanned<Cow<'_, str>>,
    ) -> Option<&'static str> {
        let near = values::nearest(name.get_ref(), names.iter().copied());
        let advice = match near {
            Some(near) => format!("did you mean '{near}'?"),
            None => match (self.sections_with_key)(name.get_ref()).first() {
                Some(header) => format!("it belongs in {header}"),
                None => {
                    let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
                    format!("the keys are {}", words(&names))
                }
            },
        };
        let place = self.place(name.span().start);
        self.problem(
            place,
            format!("unknown key '{}' in {header}; {advice}", values::shorten(name.get_ref())),
        );
        near
    }
}

impl<C> Section<C> {
    /// The section without any keys given; required keys stay empty.
    pub fn defaults(&self) -> C {
        let mut target = (self.blank)();
        for key in self.keys {
            let Some(text) = key.default else { continue };
            // This is the table's own text; a test checks it.
            if let Ok(value) = DeValue::parse(text) {
                Reader::new(text, Path::new(""), Path::new("")).value(key, &value, &mut target);
            }
        }
        target
    }
}

/// The offsets at which the lines of a text begin.
pub struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    /// The lines of this text.
    pub fn of(text: &'t str) -> Lines<'t> {
        // A byte order mark takes no column.
        let first = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        let newlines =
            text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(offset, _)| offset + 1);
        Lines { text, starts: std::iter::once(first).chain(newlines).collect() }
    }

    /// The place of a byte of the text.
    pub fn place(&self, offset: usize) -> Place {
        let line = self.starts.partition_point(|start| *start <= offset).max(1);
        let before = self.text.get(self.starts[line - 1]..offset).unwrap_or("");
        Place { file: 0, line, column: before.chars().count() + 1 }
    }
}

/// The name of a section relative to the section around it.
fn last_name(section: &str) -> &str {
    section.rsplit('.').next().unwrap_or(section)
}

/// Whether an array holds at least one table, and only tables.
pub fn is_array_of_tables(items: &DeArray<'_>) -> bool {
    !items.is_empty() && items.iter().all(|item| item.get_ref().is_table())
}

/// `a, b and c`
pub fn words(list: &[String]) -> String {
    join(list, "and")
}

/// `a, b or c`
pub fn alternatives(list: &[String]) -> String {
    join(list, "or")
}

fn join(list: &[String], last: &str) -> String {
    match list {
        [] => String::new(),
        [one] => one.clone(),
        [rest @ .., end] => format!("{} {last} {end}", rest.join(", ")),
    }
}
