//! The problems of a configuration with their places: the form of every refusal, and the places of the keys
//! that were read, for problems that are found later.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// One problem of a configuration. It displays as `file:line:column: message`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    /// The file as the user named it; empty where there is none (the quick form).
    pub file: PathBuf,
    /// The line, from 1; 0: the file as a whole.
    pub line: usize,
    /// The column in characters, from 1; 0: the file as a whole.
    pub column: usize,
    /// The problem and, where possible, what to write instead.
    pub message: String,
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.as_os_str().is_empty() {
            write!(formatter, "{}:", self.file.display())?;
            if self.line != 0 {
                write!(formatter, "{}:{}:", self.line, self.column)?;
            }
            formatter.write_str(" ")?;
        }
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for ConfigProblem {}

/// A place in the text of a configuration; line 0 where it is not in the text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The position of the file among those of the configuration.
    pub file: usize,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

/// The place of the value of a key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyPlaces {
    /// The value.
    pub value: Place,
    /// Each item, where the value is an array.
    pub items: Vec<Place>,
    /// Inside each table, where the value is a section of its own or an array of them.
    pub tables: Vec<SectionPlaces>,
}

/// The places of a section and its keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SectionPlaces {
    /// The header, or the first key where there is no header.
    pub header: Place,
    /// The keys that were given.
    pub keys: BTreeMap<&'static str, KeyPlaces>,
    /// The keys whose values are not known: a value is wrong, or a misspelt name probably meant the key.
    pub unread: Vec<&'static str>,
}

impl SectionPlaces {
    /// Whether a key was probably given, but its value is not known. A problem of it is reported already.
    pub fn is_unread(&self, key: &str) -> bool {
        self.unread.contains(&key)
    }

    /// The value of a key, or the header where the key was not given.
    pub fn key(&self, key: &str) -> Place {
        self.keys.get(key).map_or(self.header, |places| places.value)
    }

    /// The value of a key, which may be in a section inside this one (`redirect.to`), or the nearest place
    /// that is known.
    pub fn key_below(&self, key: &str) -> Place {
        match key.split_once('.') {
            Some((table, key)) => {
                self.table(table, 0).map_or_else(|| self.key(table), |places| places.key(key))
            }
            None => self.key(key),
        }
    }

    /// A section inside this one: the table of this key, or the one at this position of its tables.
    pub fn table(&self, key: &str, position: usize) -> Option<&SectionPlaces> {
        self.keys.get(key)?.tables.get(position)
    }

    /// An item of a key's array, or the nearest place that is known.
    pub fn item(&self, key: &str, position: usize) -> Place {
        let item = self.keys.get(key).and_then(|places| places.items.get(position));
        item.copied().unwrap_or_else(|| self.key(key))
    }
}

/// A problem at a place of a file, or with the file as a whole.
pub fn problem_at(file: &Path, place: Option<Place>, message: impl Into<String>) -> ConfigProblem {
    let Place { line, column, .. } = place.unwrap_or_default();
    ConfigProblem { file: file.to_path_buf(), line, column, message: message.into() }
}
