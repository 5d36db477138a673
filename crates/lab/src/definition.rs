//! Strict reading of the laboratory's TOML definitions (suites, systems under test).
//!
//! An invalid definition is refused with the file, the line and the column, the mistake and, for an unknown
//! key, the nearest known one. A [`Table`] records every key that its reader requests; [`Table::finish`] then
//! refuses all other keys, so that the readers are the only list of keys.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Why a definition was refused: `file:line:column: message`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionError {
    /// The file, or the name of a built-in definition.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for DefinitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)
    }
}

impl std::error::Error for DefinitionError {}

/// The name of `known` that is nearest to `name`, if any is near enough to be meant.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= 0.75)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, candidate)| candidate)
}

/// A value and its byte range in the text.
#[derive(Debug, Clone, PartialEq)]
pub struct LocatedValue<T> {
    /// The value.
    pub value: T,
    /// Its position in the text.
    pub at: Range<usize>,
}

/// The text of a definition with its name for messages.
#[derive(Debug, Clone, Copy)]
pub struct Document<'d> {
    file: &'d str,
    text: &'d str,
}

impl<'d> Document<'d> {
    /// The text of a file.
    pub fn new(file: &'d str, text: &'d str) -> Document<'d> {
        Document { file, text }
    }

    /// Parses the text as TOML; [`Document::root`] reads what it holds.
    pub fn parse(&self) -> Result<Spanned<DeTable<'d>>, DefinitionError> {
        DeTable::parse(self.text)
            .map_err(|error| self.error(error.span().unwrap_or(0..0), error.message().to_string()))
    }

    /// The top-level table.
    pub fn root<'t>(&'t self, parsed: &'t Spanned<DeTable<'d>>) -> Table<'t> {
        Table::new(self, String::new(), parsed.span(), parsed.get_ref())
    }

    /// An error at a byte range of the text.
    pub fn error(&self, at: Range<usize>, message: impl Into<String>) -> DefinitionError {
        let before = self.text.get(..at.start.min(self.text.len())).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        DefinitionError {
            file: self.file.to_string(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: message.into(),
        }
    }
}

/// A table being read.
pub struct Table<'t> {
    document: &'t Document<'t>,
    /// Its name in messages: empty for the top level.
    name: String,
    at: Range<usize>,
    values: &'t DeTable<'t>,
    read_keys: RefCell<Vec<&'static str>>,
}

impl<'t> Table<'t> {
    fn new(document: &'t Document<'t>, name: String, at: Range<usize>, values: &'t DeTable<'t>) -> Table<'t> {
        Table { document, name, at, values, read_keys: RefCell::new(Vec::new()) }
    }

    /// An error at the table itself.
    pub fn error(&self, message: impl Into<String>) -> DefinitionError {
        self.document.error(self.at.clone(), message)
    }

    /// An error at a value of the table.
    pub fn error_at<T>(&self, value: &LocatedValue<T>, message: impl Into<String>) -> DefinitionError {
        self.document.error(value.at.clone(), message)
    }

    /// A text.
    pub fn string(&self, key: &'static str) -> Result<Option<LocatedValue<String>>, DefinitionError> {
        self.read(key, "a text in quotes", |value| value.as_str().map(str::to_string))
    }

    /// A text that must be there and not be empty.
    pub fn required_string(&self, key: &'static str) -> Result<LocatedValue<String>, DefinitionError> {
        let text = self.required(key, self.string(key)?)?;
        if text.value.trim().is_empty() {
            return Err(self.error_at(&text, format!("`{key}` must not be empty")));
        }
        Ok(text)
    }

    /// `true` or `false`.
    pub fn boolean(&self, key: &'static str) -> Result<Option<LocatedValue<bool>>, DefinitionError> {
        self.read(key, "true or false", |value| value.as_bool())
    }

    /// A whole number within `limits`.
    pub fn whole(
        &self,
        key: &'static str,
        limits: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<LocatedValue<u64>>, DefinitionError> {
        let expected = format!("a whole number from {} to {}", limits.start(), limits.end());
        self.read(key, &expected, |value| {
            let integer = value.as_integer()?;
            u64::from_str_radix(integer.as_str(), integer.radix())
                .ok()
                .filter(|number| limits.contains(number))
        })
    }

    /// A number within `limits`, whole or not.
    pub fn number(
        &self,
        key: &'static str,
        limits: std::ops::RangeInclusive<f64>,
    ) -> Result<Option<LocatedValue<f64>>, DefinitionError> {
        let expected = format!("a number from {} to {}", limits.start(), limits.end());
        self.read(key, &expected, |value| number(value).filter(|number| limits.contains(number)))
    }

    /// A list of numbers within `limits`.
    pub fn numbers(
        &self,
        key: &'static str,
        limits: std::ops::RangeInclusive<f64>,
    ) -> Result<Option<LocatedValue<Vec<f64>>>, DefinitionError> {
        let expected = format!("a list of numbers from {} to {}", limits.start(), limits.end());
        self.read(key, &expected, |value| {
            let numbers = value.as_array()?.iter();
            numbers.map(|item| number(item.get_ref()).filter(|number| limits.contains(number))).collect()
        })
    }

    /// A list of texts.
    pub fn strings(&self, key: &'static str) -> Result<Option<LocatedValue<Vec<String>>>, DefinitionError> {
        self.read(key, "a list of texts", |value| {
            value.as_array()?.iter().map(|item| item.get_ref().as_str().map(str::to_string)).collect()
        })
    }

    /// A table under this one.
    pub fn table(&self, key: &'static str) -> Result<Option<Table<'t>>, DefinitionError> {
        let Some((at, value)) = self.find(key) else { return Ok(None) };
        let values = value.as_table().ok_or_else(|| self.wrong_type(key, at.clone(), "a table", value))?;
        Ok(Some(Table::new(self.document, self.name_below(key), at, values)))
    }

    /// A list of tables, written as `[[key]]` or as a list of inline tables.
    pub fn tables(&self, key: &'static str) -> Result<Vec<Table<'t>>, DefinitionError> {
        let Some((at, value)) = self.find(key) else { return Ok(Vec::new()) };
        let items = value.as_array().ok_or_else(|| self.wrong_type(key, at, "a list of tables", value))?;
        let mut tables = Vec::with_capacity(items.len());
        for item in items {
            let values = item
                .get_ref()
                .as_table()
                .ok_or_else(|| self.wrong_type(key, item.span(), "a list of tables", item.get_ref()))?;
            tables.push(Table::new(self.document, self.name_below(key), item.span(), values));
        }
        Ok(tables)
    }

    /// A table whose keys are free and whose values are texts, in order of the keys.
    pub fn texts_by_name(&self, key: &'static str) -> Result<Vec<(String, String)>, DefinitionError> {
        let Some(table) = self.table(key)? else { return Ok(Vec::new()) };
        let mut texts = Vec::with_capacity(table.values.len());
        for (name, value) in table.values {
            let text = value.get_ref().as_str().ok_or_else(|| {
                self.wrong_type(name.get_ref(), value.span(), "a text in quotes", value.get_ref())
            })?;
            texts.push((name.get_ref().to_string(), text.to_string()));
        }
        Ok(texts)
    }

    /// The value, or the error that the key is missing.
    pub fn required<T>(
        &self,
        key: &'static str,
        value: Option<LocatedValue<T>>,
    ) -> Result<LocatedValue<T>, DefinitionError> {
        value.ok_or_else(|| self.error(format!("{} needs `{key}`", self.in_words())))
    }

    /// Refuses every key that was not requested.
    pub fn finish(&self) -> Result<(), DefinitionError> {
        let read_keys = self.read_keys.borrow();
        let first_unknown = self
            .values
            .keys()
            .filter(|key| !read_keys.contains(&key.get_ref().as_ref()))
            .min_by_key(|key| key.span().start);
        let Some(key) = first_unknown else { return Ok(()) };
        let advice = match nearest(key.get_ref(), read_keys.iter().copied()) {
            Some(known) => format!("did you mean `{known}`?"),
            None => format!("known here: {}", read_keys.join(", ")),
        };
        let message = format!("unknown key `{}` in {}; {advice}", key.get_ref(), self.in_words());
        Err(self.document.error(key.span(), message))
    }

    fn read<T>(
        &self,
        key: &'static str,
        expected: &str,
        convert: impl FnOnce(&DeValue<'_>) -> Option<T>,
    ) -> Result<Option<LocatedValue<T>>, DefinitionError> {
        let Some((at, value)) = self.find(key) else { return Ok(None) };
        match convert(value) {
            Some(converted) => Ok(Some(LocatedValue { value: converted, at })),
            None => Err(self.wrong_type(key, at, expected, value)),
        }
    }

    fn find(&self, key: &'static str) -> Option<(Range<usize>, &'t DeValue<'t>)> {
        let mut read_keys = self.read_keys.borrow_mut();
        if !read_keys.contains(&key) {
            read_keys.push(key);
        }
        self.values.get(key).map(|value| (value.span(), value.get_ref()))
    }

    fn wrong_type(
        &self,
        key: &str,
        at: Range<usize>,
        expected: &str,
        found: &DeValue<'_>,
    ) -> DefinitionError {
        let written = match found {
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            DeValue::Boolean(truth) => truth.to_string(),
            other => format!("of type {}", other.type_str()),
        };
        self.document.error(at, format!("`{key}` must be {expected}; it is {written}"))
    }

    fn name_below(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_string() } else { format!("{}.{key}", self.name) }
    }

    fn in_words(&self) -> String {
        if self.name.is_empty() { "the top level".to_string() } else { format!("[{}]", self.name) }
    }
}

fn number(value: &DeValue<'_>) -> Option<f64> {
    if let Some(float) = value.as_float() {
        return float.as_str().parse().ok().filter(|number: &f64| number.is_finite());
    }
    let integer = value.as_integer()?;
    u64::from_str_radix(integer.as_str(), integer.radix()).ok().map(|number| number as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_colour(text: &str) -> Result<String, DefinitionError> {
        let document = Document::new("paint.toml", text);
        let parsed = document.parse()?;
        let root = document.root(&parsed);
        let colour = root.required_string("colour")?.value;
        if let Some(pot) = root.table("pot")? {
            pot.number("litres", 0.5..=20.0)?;
            pot.whole("coats", 1..=9)?;
            pot.finish()?;
        }
        root.finish()?;
        Ok(colour)
    }

    #[test]
    fn good_text_is_read() {
        assert_eq!(read_colour("colour = 'red'\n[pot]\nlitres = 2\ncoats = 1_0e0\n").unwrap_err().line, 4);
        assert_eq!(read_colour("colour = 'red'\n[pot]\nlitres = 2.5\ncoats = 0x3\n").unwrap(), "red");
    }

    #[test]
    fn every_error_names_file_line_and_column() {
        let cases = [
            (
                "colour = 'red'\ncolor = 'blue'\n",
                "paint.toml:2:1: unknown key `color` in the top level; did you mean `colour`?",
            ),
            (
                "colour = 'red'\n[pot]\n  litrs = 1\n",
                "paint.toml:3:3: unknown key `litrs` in [pot]; did you mean `litres`?",
            ),
            (
                "colour = 'red'\n[pot]\nzzz = 1\n",
                "paint.toml:3:1: unknown key `zzz` in [pot]; known here: litres, coats",
            ),
            ("[pot]\n", "paint.toml:1:1: the top level needs `colour`"),
            ("colour = 3\n", "paint.toml:1:10: `colour` must be a text in quotes; it is 3"),
            ("colour = ' '\n", "paint.toml:1:10: `colour` must not be empty"),
            ("colour = 'é'\npot = 3\n", "paint.toml:2:7: `pot` must be a table; it is 3"),
            (
                "colour = 'red'\n[pot]\nlitres = 0.1\n",
                "paint.toml:3:10: `litres` must be a number from 0.5 to 20; it is 0.1",
            ),
            (
                "colour = 'red'\n[pot]\nlitres = nan\n",
                "paint.toml:3:10: `litres` must be a number from 0.5 to 20; it is nan",
            ),
            (
                "colour = 'red'\n[pot]\ncoats = -1\n",
                "paint.toml:3:9: `coats` must be a whole number from 1 to 9; it is -1",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(read_colour(text).unwrap_err().to_string(), expected, "for {text:?}");
        }
        assert!(read_colour("colour = 'red\n").unwrap_err().to_string().starts_with("paint.toml:1:"));
    }

    #[test]
    fn the_nearest_name_is_found_only_when_near() {
        assert_eq!(nearest("ngnix", ["nginx", "h2o"]), Some("nginx"));
        assert_eq!(nearest("zebra", ["nginx", "h2o"]), None);
    }
}
