//! Sections and keys as data without the type of their struct, from which texts, schemas and lists are made:
//! what makes those is compiled once, not for each section.

use std::time::Duration;

use super::{Key, Kind, Section};

/// A section without the type of its struct.
pub struct SectionDescription {
    /// The name between the brackets.
    pub name: &'static str,
    /// Whether it is written `[[name]]` and may appear many times.
    pub repeated: bool,
    /// The header as it is written.
    pub header: String,
    /// What the section is for.
    pub documentation: &'static str,
    /// Its keys, in the order of the documentation.
    pub keys: Vec<KeyDescription>,
}

/// A key without the type of the struct of its section.
pub struct KeyDescription {
    /// The name before the equals sign.
    pub name: &'static str,
    /// The value where the key is not given, as it would be written; `None`: it must be given.
    pub default: Option<&'static str>,
    /// A value that makes sense, as it would be written.
    pub example: &'static str,
    /// What it does, with its units and limits.
    pub documentation: &'static str,
    /// The valid values.
    pub values: ValidValues,
}

/// The valid values of a key: a [`Kind`] without the fields in which values are stored.
#[expect(missing_docs, reason = "the variants and their fields are those of Kind, and described there")]
pub enum ValidValues {
    Boolean,
    Number {
        least: u64,
        most: u64,
    },
    NumberOrWord {
        word: &'static str,
        least: u64,
        most: u64,
    },
    Share,
    Size {
        least: u64,
        most: u64,
    },
    SizeOrAuto {
        least: u64,
        most: u64,
    },
    Duration {
        least: Duration,
        most: Duration,
    },
    /// The words, and their meanings.
    Choice(Vec<(&'static str, &'static str)>),
    LogDestination,
    LineFormat,
    Directory,
    File,
    Files,
    FileOrWord {
        word: &'static str,
    },
    HeaderValue,
    Token,
    FileNames,
    Hosts,
    ListenAddresses,
    MediaTypes,
    ContentCodings,
    CompressionLevels,
    ErrorPages,
    SocketAddresses,
    Networks,
    Checked {
        what: &'static str,
    },
    CheckedArray {
        what: &'static str,
    },
    CheckedOneOrMore {
        what: &'static str,
    },
    Pairs {
        what: &'static str,
    },
    Fields {
        what: &'static str,
    },
    Table,
    Tables,
}

impl<C> Section<C> {
    /// The section without the type of its struct.
    pub fn description(&self) -> SectionDescription {
        SectionDescription {
            name: self.name,
            repeated: self.repeated,
            header: self.header(),
            documentation: self.documentation,
            keys: self.keys.iter().map(Key::description).collect(),
        }
    }
}

impl<C> Key<C> {
    fn description(&self) -> KeyDescription {
        KeyDescription {
            name: self.name,
            default: self.default,
            example: self.example,
            documentation: self.documentation,
            values: self.kind.valid_values(),
        }
    }
}

impl KeyDescription {
    /// Whether its value is written as a separate section.
    pub fn is_section(&self) -> bool {
        matches!(self.values, ValidValues::Table | ValidValues::Tables)
    }
}

impl<C> Kind<C> {
    fn valid_values(&self) -> ValidValues {
        match *self {
            Kind::Boolean(_) => ValidValues::Boolean,
            Kind::Number { least, most, .. } => ValidValues::Number { least, most },
            Kind::NumberOrWord { word, least, most, .. } => ValidValues::NumberOrWord { word, least, most },
            Kind::Share(_) => ValidValues::Share,
            Kind::Size { least, most, .. } => ValidValues::Size { least, most },
            Kind::SizeOrAuto { least, most, .. } => ValidValues::SizeOrAuto { least, most },
            Kind::Duration { least, most, .. } => ValidValues::Duration { least, most },
            Kind::Choice(choices) => {
                ValidValues::Choice(choices.iter().map(|choice| (choice.word, choice.meaning)).collect())
            }
            Kind::LogDestination(_) => ValidValues::LogDestination,
            Kind::LineFormat(_) => ValidValues::LineFormat,
            Kind::Directory(_) => ValidValues::Directory,
            Kind::File(_) => ValidValues::File,
            Kind::Files(_) => ValidValues::Files,
            Kind::FileOrWord { word, .. } => ValidValues::FileOrWord { word },
            Kind::HeaderValue(_) => ValidValues::HeaderValue,
            Kind::Token(_) => ValidValues::Token,
            Kind::FileNames(_) => ValidValues::FileNames,
            Kind::Hosts(_) => ValidValues::Hosts,
            Kind::ListenAddresses(_) => ValidValues::ListenAddresses,
            Kind::MediaTypes(_) => ValidValues::MediaTypes,
            Kind::ContentCodings(_) => ValidValues::ContentCodings,
            Kind::CompressionLevels(_) => ValidValues::CompressionLevels,
            Kind::ErrorPages(_) => ValidValues::ErrorPages,
            Kind::SocketAddresses(_) => ValidValues::SocketAddresses,
            Kind::Networks(_) => ValidValues::Networks,
            Kind::Checked { what, .. } => ValidValues::Checked { what },
            Kind::CheckedArray { what, .. } => ValidValues::CheckedArray { what },
            Kind::CheckedOneOrMore { what, .. } => ValidValues::CheckedOneOrMore { what },
            Kind::Pairs { what, .. } => ValidValues::Pairs { what },
            Kind::Fields { what, .. } => ValidValues::Fields { what },
            Kind::Table { .. } => ValidValues::Table,
            Kind::Tables { .. } => ValidValues::Tables,
        }
    }
}
