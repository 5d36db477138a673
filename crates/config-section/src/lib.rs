//! What a [`Section`] and a [`Key`] of a configuration are, and how their values are read from TOML.
//!
//! The sections themselves are in `touchstone-config` and the crates that it uses.
//!
//! | module | |
//! |---|---|
//! | `reader` | reads sections from TOML |
//! | `kinds` | reads the value of a key by its [`Kind`] |
//! | `description` | sections and keys as data, for texts and schemas |
//! | `values` | values that are written as text: durations, sizes, addresses |
//! | `listen_address`, `account_name` | an address to listen on; the name of a user or group |
//! | `problem` | what is wrong, and the places of sections and keys |

pub mod account_name;
mod description;
mod kinds;
mod listen_address;
mod problem;
pub mod reader;
pub mod values;

pub use description::{KeyDescription, SectionDescription, ValidValues};
pub use listen_address::{ListenAddress, UnixSocketName};
pub use problem::{ConfigProblem, KeyPlaces, Place, SectionPlaces, problem_at};
pub use touchstone_expression::network::Network;
pub use touchstone_observe::log::LogDestination;
pub use touchstone_observe::log_line::LineFormat as AccessLogFormat;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use touchstone_http::content_coding::ContentCoding;

use reader::{Reader, Value};

/// A section: its keys and the struct that they fill.
pub struct Section<C: 'static> {
    /// The name between the brackets.
    pub name: &'static str,
    /// Whether it is written `[[name]]` and may appear many times.
    pub repeated: bool,
    /// What the section is for.
    pub documentation: &'static str,
    /// Its keys, in the order of the documentation.
    pub keys: &'static [Key<C>],
    /// The struct before any key has been read; every field is then set by its default, or its key is
    /// required.
    pub blank: fn() -> C,
}

impl<C> Section<C> {
    /// The header as it is written: `[server]`, `[[site]]`.
    pub fn header(&self) -> String {
        if self.repeated { format!("[[{}]]", self.name) } else { format!("[{}]", self.name) }
    }

    /// The key of this name.
    pub fn key(&self, name: &str) -> Option<&'static Key<C>> {
        self.keys.iter().find(|key| key.name == name)
    }
}

/// One key.
pub struct Key<C: 'static> {
    /// The name before the equals sign.
    pub name: &'static str,
    /// The value where the key is not given, as it would be written; `None`: it must be given.
    pub default: Option<&'static str>,
    /// A value that makes sense, as it would be written.
    pub example: &'static str,
    /// What it does, with its units and limits. Short lists have only the first sentence.
    pub documentation: &'static str,
    /// The valid values, and the field in which the value is stored.
    pub kind: Kind<C>,
}

/// What the value of a key may be, and how it lands in the struct of its section.
pub enum Kind<C: 'static> {
    /// `true` or `false`.
    Boolean(fn(&mut C, bool)),
    /// A whole number in a range.
    Number {
        /// The least that is accepted.
        least: u64,
        /// The most that is accepted.
        most: u64,
        /// Stores the value.
        set: fn(&mut C, u64),
    },
    /// A whole number in a range, or one word with a special meaning.
    NumberOrWord {
        /// The word.
        word: &'static str,
        /// The effect of the word.
        set_word: fn(&mut C),
        /// The least that is accepted.
        least: u64,
        /// The most that is accepted.
        most: u64,
        /// Stores the number.
        set: fn(&mut C, u64),
    },
    /// A part of a whole: a number from 0 to 1, in millionths.
    Share(fn(&mut C, u32)),
    /// Bytes: a whole number, or text such as `"64KiB"`.
    Size {
        /// The least that is accepted.
        least: u64,
        /// The most that is accepted.
        most: u64,
        /// Stores the value.
        set: fn(&mut C, u64),
    },
    /// Bytes as above, or `"auto"`, the default: the server finds the size.
    SizeOrAuto {
        /// The least that is accepted.
        least: u64,
        /// The most that is accepted.
        most: u64,
        /// Stores the size; not called for `"auto"`.
        set: fn(&mut C, u64),
    },
    /// A span of time: text such as `"10s"`.
    Duration {
        /// The least that is accepted.
        least: Duration,
        /// The most that is accepted.
        most: Duration,
        /// Stores the value.
        set: fn(&mut C, Duration),
    },
    /// One of a few words.
    Choice(&'static [Choice<C>]),
    /// `"off"`, `"stdout"`, `"stderr"` or a file.
    LogDestination(fn(&mut C, LogDestination)),
    /// The form of an access log line.
    LineFormat(fn(&mut C, AccessLogFormat)),
    /// A directory.
    Directory(fn(&mut C, PathBuf)),
    /// A file; empty: none.
    File(fn(&mut C, Option<PathBuf>)),
    /// An array of files.
    Files(fn(&mut C, Vec<PathBuf>)),
    /// A file, or one word with a special meaning; empty: none.
    FileOrWord {
        /// The word.
        word: &'static str,
        /// The effect of the word.
        set_word: fn(&mut C),
        /// Stores the file.
        set: fn(&mut C, Option<PathBuf>),
    },
    /// The value of a header field; empty: none.
    HeaderValue(fn(&mut C, String)),
    /// A token, such as the name of a charset; empty: none.
    Token(fn(&mut C, String)),
    /// An array of file names.
    FileNames(fn(&mut C, Vec<String>)),
    /// An array of host names.
    Hosts(fn(&mut C, Vec<String>)),
    /// An array of addresses to listen on, at least one.
    ListenAddresses(fn(&mut C, Vec<ListenAddress>)),
    /// A table from file name endings to media types.
    MediaTypes(fn(&mut C, BTreeMap<String, String>)),
    /// An array of content codings.
    ContentCodings(fn(&mut C, Vec<ContentCoding>)),
    /// A table from content codings to levels of compression; those that it does not name keep theirs.
    CompressionLevels(fn(&mut C, ContentCoding, u8)),
    /// A table from status codes to paths of the site.
    ErrorPages(fn(&mut C, BTreeMap<u16, String>)),
    /// An array of addresses with ports.
    SocketAddresses(fn(&mut C, Vec<ListenAddress>)),
    /// An array of addresses and networks.
    Networks(fn(&mut C, Vec<Network>)),
    /// A string with a form of its own; relative paths in it are taken from the given directory.
    Checked {
        /// What it is, in a few words.
        what: &'static str,
        /// Checks it, and returns the form that is stored.
        parse: fn(&str, &Path) -> Result<String, String>,
        /// Stores the value.
        set: fn(&mut C, String),
    },
    /// An array of strings with a form of their own.
    CheckedArray {
        /// What they are, in a few words.
        what: &'static str,
        /// Checks one, and returns the form that is stored.
        parse: fn(&str) -> Result<String, String>,
        /// Stores the values.
        set: fn(&mut C, Vec<String>),
    },
    /// One string with a form of its own, or an array of at least one of them.
    CheckedOneOrMore {
        /// What they are, in a few words.
        what: &'static str,
        /// Checks one, and returns the form that is stored.
        parse: fn(&str) -> Result<String, String>,
        /// Stores the values.
        set: fn(&mut C, Vec<String>),
    },
    /// A table of strings whose names are free; both are checked together.
    Pairs {
        /// For people: "table from beginnings of paths to others".
        what: &'static str,
        /// Checks a name with its value.
        check: fn(&str, &str) -> Result<(), String>,
        /// Sets the value.
        set: fn(&mut C, BTreeMap<String, String>),
    },
    /// A table from names of header fields to values.
    Fields {
        /// What it is, in a few words.
        what: &'static str,
        /// Checks one name and value, which have the form of a field already.
        check: fn(&str, &str) -> Result<(), String>,
        /// Stores the values.
        set: fn(&mut C, BTreeMap<String, String>),
    },
    /// A table that is a section of its own.
    Table {
        /// Reads it, and returns its places.
        read: fn(&mut Reader<'_>, &Value<'_>, &mut C) -> Vec<SectionPlaces>,
    },
    /// An array of tables, each a section of its own.
    Tables {
        /// Reads them, and returns the places of each.
        read: fn(&mut Reader<'_>, &Value<'_>, &mut C) -> Vec<SectionPlaces>,
    },
}

/// The default of a table that is absent unless it is written.
pub const ABSENT: &str = "";

/// One of the words that a [`Kind::Choice`] accepts.
pub struct Choice<C: 'static> {
    /// The word.
    pub word: &'static str,
    /// Its meaning.
    pub meaning: &'static str,
    /// Its effect.
    pub set: fn(&mut C),
}

/// Numbers of the table fit, because their ranges do. On a machine with short words a larger number becomes
/// the largest.
pub fn as_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
