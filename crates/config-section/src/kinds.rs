//! Reads the value of a key by its [`Kind`], checks it and stores it; an error becomes a problem at the
//! value's place.
//!
//! Only `value` and `choice` depend on the struct of the section. The rest is compiled once, and not for each
//! section.

use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;
use std::path::Path;
use std::time::Duration;

use toml::de::{DeInteger, DeValue};
use touchstone_files::compress::level_range;
use touchstone_http::content_coding::ContentCoding;

use crate::reader::{Reader, Value, alternatives};
use crate::{AccessLogFormat, Choice, Key, KeyPlaces, Kind, ListenAddress, Network, Place, values};

impl Reader<'_> {
    /// The value of a key, into the struct of its section.
    pub fn value<C>(&mut self, key: &'static Key<C>, value: &Value<'_>, target: &mut C) -> KeyPlaces {
        let (name, base) = (key.name, self.base);
        let mut tables = Vec::new();
        match &key.kind {
            Kind::Boolean(set) => match value.get_ref() {
                DeValue::Boolean(boolean) => set(target, *boolean),
                _ => self.wrong_type(name, value, "true or false"),
            },
            Kind::NumberOrWord { word, set_word, .. } if is_text(value, word) => set_word(target),
            Kind::Number { least, most, set } | Kind::NumberOrWord { least, most, set, .. } => {
                store(self.number(name, value, *least, *most), *set, target);
            }
            Kind::Share(set) => store(self.share(name, value), *set, target),
            Kind::SizeOrAuto { .. } if is_text(value, "auto") => {}
            Kind::Size { least, most, set } | Kind::SizeOrAuto { least, most, set } => {
                store(self.size(name, value, *least, *most), *set, target);
            }
            Kind::Duration { least, most, set } => {
                store(self.duration(name, value, *least, *most), *set, target);
            }
            Kind::Choice(choices) => self.choice(name, value, choices, target),
            Kind::LogDestination(set) => {
                let parsed = self.text(name, value, &|text| values::parse_log_destination(text, base));
                store(parsed, *set, target);
            }
            Kind::LineFormat(set) => {
                store(self.text(name, value, &AccessLogFormat::parse), *set, target);
            }
            Kind::Directory(set) => {
                let directory = self.text(name, value, &|text| values::parse_path(text, base));
                directory.iter().for_each(|path| self.note_file(name, path));
                store(directory, *set, target);
            }
            Kind::FileOrWord { word, set_word, .. } if is_text(value, word) => set_word(target),
            Kind::File(set) | Kind::FileOrWord { set, .. } => {
                let file = |text: &str| match text {
                    "" => Ok(None),
                    path => values::parse_path(path, base).map(Some),
                };
                let file = self.text(name, value, &file);
                file.iter().flatten().for_each(|path| self.note_file(name, path));
                store(file, *set, target);
            }
            Kind::Files(set) => {
                let files = self.array(name, value, &|text| values::parse_path(text, base));
                files.iter().flatten().for_each(|path| self.note_file(name, path));
                store(files, *set, target);
            }
            Kind::HeaderValue(set) => {
                store(self.text(name, value, &values::parse_header_value), *set, target);
            }
            Kind::Token(set) => store(self.text(name, value, &values::parse_token_or_empty), *set, target),
            Kind::FileNames(set) => store(self.array(name, value, &values::parse_file_name), *set, target),
            Kind::Hosts(set) => store(self.array(name, value, &values::parse_host), *set, target),
            Kind::ListenAddresses(set) => {
                self.not_empty(name, value, "at least one address");
                store(self.array(name, value, &|text| ListenAddress::read(text, base)), *set, target);
            }
            Kind::MediaTypes(set) => store(self.media_types(name, value), *set, target),
            Kind::ContentCodings(set) => {
                store(self.array(name, value, &values::parse_content_coding), *set, target);
            }
            Kind::CompressionLevels(set) => {
                for (coding, level) in self.compression_levels(name, value) {
                    set(target, coding, level);
                }
            }
            Kind::ErrorPages(set) => {
                set(target, self.error_pages(name, value));
            }
            Kind::SocketAddresses(set) => {
                store(self.array(name, value, &|text| ListenAddress::read(text, base)), *set, target);
            }
            Kind::Networks(set) => {
                store(self.array(name, value, &|text| text.parse::<Network>()), *set, target);
            }
            Kind::Checked { parse, set, .. } => {
                let checked = self.text(name, value, &|text| parse(text, base));
                let path = checked.as_deref().map(Path::new).filter(|path| path.is_absolute());
                path.into_iter().for_each(|path| self.note_file(name, path));
                store(checked, *set, target);
            }
            Kind::CheckedArray { parse, set, .. } => store(self.array(name, value, parse), *set, target),
            Kind::CheckedOneOrMore { parse, set, .. } => {
                store(self.one_or_more(name, value, *parse), *set, target);
            }
            Kind::Fields { check, set, .. } => store(self.fields(name, value, *check), *set, target),
            Kind::Pairs { check, set, .. } => store(self.pairs(name, value, *check), *set, target),
            Kind::Table { read } | Kind::Tables { read } => tables = read(self, value, target),
        }
        KeyPlaces { value: self.place(value.span().start), items: self.item_places(value), tables }
    }

    /// Reports an array without items.
    fn not_empty(&mut self, name: &str, value: &Value<'_>, needed: &str) {
        if value.get_ref().as_array().is_some_and(|items| items.is_empty()) {
            let place = self.place(value.span().start);
            self.problem(place, format!("'{name}' must hold {needed}"));
        }
    }

    fn number(&mut self, name: &str, value: &Value<'_>, least: u64, most: u64) -> Option<u64> {
        let DeValue::Integer(integer) = value.get_ref() else {
            self.wrong_type(name, value, "an integer");
            return None;
        };
        let number = to_integer(integer);
        let in_range =
            self.in_range(name, value, &number, (&i128::from(least), &i128::from(most)), i128::to_string);
        u64::try_from(number).ok().filter(|_| in_range)
    }

    /// A number from 0 to 1, in millionths.
    fn share(&mut self, name: &str, value: &Value<'_>) -> Option<u32> {
        let share = match value.get_ref() {
            DeValue::Integer(integer) => to_integer(integer) as f64,
            DeValue::Float(float) => float.as_str().replace('_', "").parse().unwrap_or(f64::NAN),
            _ => {
                self.wrong_type(name, value, "a number from 0 to 1, such as 0.01");
                return None;
            }
        };
        let in_range = self.in_range(name, value, &share, (&0.0, &1.0), f64::to_string);
        in_range.then_some((share * 1e6).round() as u32)
    }

    fn size(&mut self, name: &str, value: &Value<'_>, least: u64, most: u64) -> Option<u64> {
        let bytes = match value.get_ref() {
            DeValue::Integer(integer) => to_integer(integer),
            DeValue::String(text) => match values::parse_size(text) {
                Ok(bytes) => i128::from(bytes),
                Err(message) => {
                    self.problem_with(name, value, &message);
                    return None;
                }
            },
            _ => {
                self.wrong_type(name, value, "a size: an integer of bytes, or a string such as \"64KiB\"");
                return None;
            }
        };
        let format = |end: &i128| u64::try_from(*end).map_or_else(|_| end.to_string(), values::format_size);
        let in_range = self.in_range(name, value, &bytes, (&i128::from(least), &i128::from(most)), format);
        u64::try_from(bytes).ok().filter(|_| in_range)
    }

    fn duration(
        &mut self,
        name: &str,
        value: &Value<'_>,
        least: Duration,
        most: Duration,
    ) -> Option<Duration> {
        let duration = self.unlimited_duration(name, value)?;
        let format = |end: &Duration| values::format_duration(*end);
        self.in_range(name, value, &duration, (&least, &most), format).then_some(duration)
    }

    fn unlimited_duration(&mut self, name: &str, value: &Value<'_>) -> Option<Duration> {
        match value.get_ref() {
            DeValue::String(text) => match values::parse_duration(text) {
                Ok(duration) => return Some(duration),
                Err(message) => self.problem_with(name, value, &message),
            },
            DeValue::Integer(integer) if to_integer(integer) >= 0 => {
                let number = to_integer(integer);
                let message =
                    format!("'{name}' must name its unit; write \"{number}s\" for {number} seconds");
                self.problem(self.place(value.span().start), message);
            }
            _ => self.wrong_type(name, value, "a duration: a string such as \"10s\""),
        }
        None
    }

    fn choice<C>(&mut self, name: &str, value: &Value<'_>, choices: &'static [Choice<C>], target: &mut C) {
        if let DeValue::String(word) = value.get_ref()
            && let Some(choice) = choices.iter().find(|choice| choice.word == *word)
        {
            return (choice.set)(target);
        }
        let words: Vec<&str> = choices.iter().map(|choice| choice.word).collect();
        self.unknown_choice(name, value, &words);
    }

    /// Reports a value that is none of these words.
    fn unknown_choice(&mut self, name: &str, value: &Value<'_>, words: &[&str]) {
        let all = alternatives(&words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>());
        let DeValue::String(word) = value.get_ref() else {
            return self.wrong_type(name, value, &all);
        };
        let near = values::nearest(word, words.iter().copied());
        let advice = near.map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
        let written = values::shorten(word);
        let message = format!("'{name}' must be {all}, not {written:?}{advice}");
        self.problem(self.place(value.span().start), message);
    }

    /// A value that is one string.
    fn text<T>(
        &mut self,
        name: &str,
        value: &Value<'_>,
        parse: &dyn Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        match value.get_ref() {
            DeValue::String(text) => match parse(text) {
                Ok(parsed) => return Some(parsed),
                Err(message) => self.problem_with(name, value, &message),
            },
            _ => self.wrong_type(name, value, "a string"),
        }
        None
    }

    /// A value that is an array of strings, none of them twice.
    fn array<T: Clone + Eq + Hash>(
        &mut self,
        name: &str,
        value: &Value<'_>,
        parse: &dyn Fn(&str) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let DeValue::Array(items) = value.get_ref() else {
            let example = match value.get_ref() {
                DeValue::String(text) => format!(": write [{:?}]", values::shorten(text)),
                _ => String::new(),
            };
            self.wrong_type(name, value, &format!("an array of strings{example}"));
            return None;
        };
        let parsed: Vec<_> =
            items.iter().filter_map(|item| Some((self.text(name, item, parse)?, item))).collect();
        let mut seen = HashSet::new();
        let mut all = Vec::with_capacity(parsed.len());
        for (one, item) in parsed {
            if seen.insert(one.clone()) {
                all.push(one);
            } else {
                let written = self.written(item);
                self.problem(self.place(item.span().start), format!("'{name}': {written} is listed twice"));
            }
        }
        Some(all)
    }

    /// A value that is a string, or an array of at least one.
    fn one_or_more(
        &mut self,
        name: &str,
        value: &Value<'_>,
        parse: fn(&str) -> Result<String, String>,
    ) -> Option<Vec<String>> {
        if let DeValue::String(_) = value.get_ref() {
            return self.text(name, value, &parse).map(|one| vec![one]);
        }
        self.not_empty(name, value, "at least one");
        self.array(name, value, &parse)
    }

    fn media_types(&mut self, name: &str, value: &Value<'_>) -> Option<BTreeMap<String, String>> {
        let DeValue::Table(table) = value.get_ref() else {
            self.wrong_type(name, value, "a table such as { md = \"text/markdown\" }");
            return None;
        };
        let mut types = BTreeMap::new();
        for (key, value) in table.iter() {
            let ending = match values::parse_file_ending(key.get_ref()) {
                Ok(ending) => ending,
                Err(message) => {
                    self.problem(self.place(key.span().start), format!("'{name}': {message}"));
                    continue;
                }
            };
            let Some(media_type) = self.text(name, value, &values::parse_media_type) else { continue };
            if types.insert(ending.clone(), media_type).is_some() {
                let message = format!("'{name}': the ending {ending:?} is listed twice; case is ignored");
                self.problem(self.place(key.span().start), message);
            }
        }
        Some(types)
    }

    /// Header fields: names with values.
    fn fields(
        &mut self,
        name: &str,
        value: &Value<'_>,
        check: fn(&str, &str) -> Result<(), String>,
    ) -> Option<BTreeMap<String, String>> {
        let DeValue::Table(table) = value.get_ref() else {
            self.wrong_type(name, value, "a table such as { X-Name = \"value\" }");
            return None;
        };
        let mut fields = BTreeMap::new();
        let mut seen = HashSet::new();
        for (key, value) in table.iter() {
            let field = key.get_ref();
            let place = self.place(key.span().start);
            if !values::is_token(field) {
                let written = values::shorten(field);
                self.problem(place, format!("'{name}': {written:?} is not the name of a header field"));
            } else if !seen.insert(field.to_ascii_lowercase()) {
                self.problem(place, format!("'{name}': {field:?} is listed twice; case is ignored"));
            } else {
                let Some(text) = self.text(name, value, &values::parse_header_value) else { continue };
                match check(field, &text) {
                    Ok(()) => _ = fields.insert(field.to_string(), text),
                    Err(message) => self.problem(place, format!("'{name}': {message}")),
                }
            }
        }
        Some(fields)
    }

    /// A table of strings, with names of any kind.
    fn pairs(
        &mut self,
        name: &str,
        value: &Value<'_>,
        check: fn(&str, &str) -> Result<(), String>,
    ) -> Option<BTreeMap<String, String>> {
        let DeValue::Table(table) = value.get_ref() else {
            self.wrong_type(name, value, "a table such as { \"/\" = \"/shop/\" }");
            return None;
        };
        let mut pairs = BTreeMap::new();
        for (key, value) in table.iter() {
            let place = self.place(key.span().start);
            let Some(text) = self.text(name, value, &|text| Ok(text.to_string())) else { continue };
            match check(key.get_ref(), &text) {
                Ok(()) => _ = pairs.insert(key.get_ref().to_string(), text),
                Err(message) => self.problem(place, format!("'{name}': {message}")),
            }
        }
        Some(pairs)
    }

    /// A table from status codes to paths of the site.
    fn error_pages(&mut self, name: &str, value: &Value<'_>) -> BTreeMap<u16, String> {
        let DeValue::Table(table) = value.get_ref() else {
            self.wrong_type(name, value, "a table such as { 404 = \"/errors/404.html\" }");
            return BTreeMap::new();
        };
        let mut pages = BTreeMap::new();
        for (key, value) in table.iter() {
            let place = self.place(key.span().start);
            match values::parse_error_status(key.get_ref()) {
                Ok(status) => {
                    if let Some(path) = self.text(name, value, &values::parse_site_path) {
                        pages.insert(status, path);
                    }
                }
                Err(message) => self.problem(place, format!("'{name}': {message}")),
            }
        }
        pages
    }

    /// A table from content codings to levels.
    fn compression_levels(&mut self, name: &str, value: &Value<'_>) -> Vec<(ContentCoding, u8)> {
        let DeValue::Table(table) = value.get_ref() else {
            self.wrong_type(name, value, "a table such as { br = 5, gzip = 6 }");
            return Vec::new();
        };
        let mut levels = Vec::new();
        for (key, value) in table.iter() {
            match values::parse_content_coding(key.get_ref()) {
                Ok(coding) => {
                    let (least, most) = level_range(coding);
                    let full_name = format!("{name}.{}", coding.token());
                    let level = self.number(&full_name, value, least.into(), most.into());
                    levels.extend(
                        level.and_then(|level| u8::try_from(level).ok()).map(|level| (coding, level)),
                    );
                }
                Err(message) => self.problem(self.place(key.span().start), format!("'{name}': {message}")),
            }
        }
        levels
    }

    /// Whether a value is in its range, which includes both ends; where not, a problem.
    fn in_range<T: PartialOrd>(
        &mut self,
        name: &str,
        value: &Value<'_>,
        read: &T,
        (least, most): (&T, &T),
        format: impl Fn(&T) -> String,
    ) -> bool {
        let in_range = least <= read && read <= most;
        if !in_range {
            let written = self.written(value);
            let message =
                format!("'{name}' must be from {} to {}, not {written}", format(least), format(most));
            self.problem(self.place(value.span().start), message);
        }
        in_range
    }

    fn wrong_type(&mut self, name: &str, value: &Value<'_>, expected: &str) {
        let found = match value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a float",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date or time",
            DeValue::Array(_) => "an array",
            DeValue::Table(_) => "a table",
        };
        let message = match expected.split_once(": ") {
            Some((expected, how)) => format!("'{name}' must be {expected} ({how}), not {found}"),
            None => format!("'{name}' must be {expected}, not {found}"),
        };
        self.problem(self.place(value.span().start), message);
    }

    fn problem_with(&mut self, name: &str, value: &Value<'_>, message: &str) {
        self.problem(self.place(value.span().start), format!("'{name}': {message}"));
    }

    /// A value as it was written.
    fn written(&self, value: &Value<'_>) -> String {
        values::shorten(self.text.get(value.span()).unwrap_or(""))
    }

    fn item_places(&self, value: &Value<'_>) -> Vec<Place> {
        let items = value.get_ref().as_array();
        items.map_or(Vec::new(), |items| items.iter().map(|item| self.place(item.span().start)).collect())
    }
}

/// Stores the value that was read.
fn store<C, T>(read: Option<T>, set: fn(&mut C, T), target: &mut C) {
    if let Some(read) = read {
        set(target, read);
    }
}

fn is_text(value: &Value<'_>, text: &str) -> bool {
    matches!(value.get_ref(), DeValue::String(found) if found == text)
}

/// A TOML integer; one that is too large for the type is as far out of every range as the largest.
fn to_integer(integer: &DeInteger<'_>) -> i128 {
    let text = integer.as_str();
    let limit = if text.starts_with('-') { i128::MIN } else { i128::MAX };
    i128::from_str_radix(text, integer.radix()).unwrap_or(limit)
}
