//! Reads the value of a key by its [`Kind`], checks it, and puts it where it belongs; what is wrong becomes a
//! problem at the value's place.

use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;
use std::time::Duration;

use toml::de::{DeInteger, DeValue};
use touchstone_files::compress::level_range;
use touchstone_http::content_coding::ContentCoding;

use super::reader::{Reader, Value, alternatives};
use super::{Choice, Key, Kind};
use crate::network::Network;
use crate::{AccessLogFormat, KeyPlaces, Place, values};

impl Reader<'_> {
    /// The value of a key, into the struct of its section.
    pub(crate) fn value<C>(&mut self, key: &'static Key<C>, value: &Value<'_>, target: &mut C) -> KeyPlaces {
        let (name, base) = (key.name, self.base);
        let mut tables = Vec::new();
        match &key.kind {
            Kind::Boolean(set) => match value.get_ref() {
                DeValue::Boolean(boolean) => set(target, *boolean),
                _ => self.wrong_type(name, value, "true or false"),
            },
            Kind::NumberOrWord { word, set_word, .. } if is_text(value, word) => set_word(target),
            Kind::Number { least, most, set } | Kind::NumberOrWord { least, most, set, .. } => {
                if let Some(number) = self.number(name, value, *least, *most) {
                    set(target, number);
                }
            }
            Kind::SizeOrAuto { .. } if is_text(value, "auto") => {}
            Kind::Size { least, most, set } | Kind::SizeOrAuto { least, most, set } => {
                if let Some(bytes) = self.size(name, value, *least, *most) {
                    set(target, bytes);
                }
            }
            Kind::Duration { least, most, set } => {
                if let Some(duration) = self.duration(name, value)
                    && self
                        .in_range(name, value, &duration, (least, most), |end| values::format_duration(*end))
                {
                    set(target, duration);
                }
            }
            Kind::Choice(choices) => self.choice(name, value, choices, target),
            Kind::LogDestination(set) => {
                self.text(name, value, |text| values::parse_log_destination(text, base), |v| set(target, v));
            }
            Kind::LineFormat(set) => self.text(name, value, AccessLogFormat::parse, |v| set(target, v)),
            Kind::Directory(set) => {
                self.text(name, value, |text| values::parse_path(text, base), |v| set(target, v));
            }
            Kind::FileOrWord { word, set_word, .. } if is_text(value, word) => set_word(target),
            Kind::File(set) | Kind::FileOrWord { set, .. } => {
                let file = |text: &str| match text {
                    "" => Ok(None),
                    path => values::parse_path(path, base).map(Some),
                };
                self.text(name, value, file, |v| set(target, v));
            }
            Kind::Files(set) => self.array(name, value, |t| values::parse_path(t, base), |v| set(target, v)),
            Kind::HeaderValue(set) => self.text(name, value, values::parse_header_value, |v| set(target, v)),
            Kind::Token(set) => self.text(name, value, values::parse_token_or_empty, |v| set(target, v)),
            Kind::FileNames(set) => self.array(name, value, values::parse_file_name, |v| set(target, v)),
            Kind::Hosts(set) => self.array(name, value, values::parse_host, |v| set(target, v)),
            Kind::ListenAddresses(set) => {
                self.not_empty(name, value, "at least one address");
                self.array(name, value, values::parse_listen_address, |v| set(target, v));
            }
            Kind::MediaTypes(set) => {
                if let Some(types) = self.media_types(name, value) {
                    set(target, types);
                }
            }
            Kind::ContentCodings(set) => {
                self.array(name, value, values::parse_content_coding, |v| set(target, v));
            }
            Kind::CompressionLevels(set) => self.compression_levels(name, value, *set, target),
            Kind::ErrorPages(set) => {
                let example = "a table such as { 404 = \"/errors/404.html\" }";
                let pages = self.string_table(
                    name,
                    value,
                    example,
                    values::parse_error_status,
                    values::parse_site_path,
                );
                set(target, pages.into_iter().collect());
            }
            Kind::SocketAddresses(set) => {
                self.array(name, value, values::parse_listen_address, |v| set(target, v));
            }
            Kind::Networks(set) => {
                self.array(name, value, |text| text.parse::<Network>(), |v| set(target, v));
            }
            Kind::Checked { parse, set, .. } => {
                self.text(name, value, |text| parse(text, base), |v| set(target, v));
            }
            Kind::CheckedArray { parse, set, .. } => self.array(name, value, parse, |v| set(target, v)),
            Kind::CheckedOneOrMore { parse, set, .. } => match value.get_ref() {
                DeValue::String(_) => self.text(name, value, parse, |v| set(target, vec![v])),
                _ => {
                    self.not_empty(name, value, "at least one");
                    self.array(name, value, parse, |v| set(target, v));
                }
            },
            Kind::Fields { check, set, .. } => {
                if let Some(fields) = self.fields(name, value, *check) {
                    set(target, fields);
                }
            }
            Kind::Pairs { check, set, .. } => self.pairs(name, value, *check, |v| set(target, v)),
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

    fn duration(&mut self, name: &str, value: &Value<'_>) -> Option<Duration> {
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
        let all =
            alternatives(&choices.iter().map(|choice| format!("\"{}\"", choice.word)).collect::<Vec<_>>());
        let DeValue::String(word) = value.get_ref() else {
            return self.wrong_type(name, value, &all);
        };
        match choices.iter().find(|choice| choice.word == *word) {
            Some(choice) => (choice.set)(target),
            None => {
                let near = values::nearest(word, choices.iter().map(|choice| choice.word));
                let advice = near.map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
                let written = values::shorten(word);
                let message = format!("'{name}' must be {all}, not {written:?}{advice}");
                self.problem(self.place(value.span().start), message);
            }
        }
    }

    /// A value that is one string.
    fn text<T>(
        &mut self,
        name: &str,
        value: &Value<'_>,
        parse: impl Fn(&str) -> Result<T, String>,
        set: impl FnOnce(T),
    ) {
        match value.get_ref() {
            DeValue::String(text) => match parse(text) {
                Ok(parsed) => set(parsed),
                Err(message) => self.problem_with(name, value, &message),
            },
            _ => self.wrong_type(name, value, "a string"),
        }
    }

    /// A value that is an array of strings, none of them twice.
    fn array<T: Clone + Eq + Hash>(
        &mut self,
        name: &str,
        value: &Value<'_>,
        parse: impl Fn(&str) -> Result<T, String>,
        set: impl FnOnce(Vec<T>),
    ) {
        let DeValue::Array(items) = value.get_ref() else {
            let example = match value.get_ref() {
                DeValue::String(text) => format!(": write [{:?}]", values::shorten(text)),
                _ => String::new(),
            };
            return self.wrong_type(name, value, &format!("an array of strings{example}"));
        };
        let mut seen = HashSet::new();
        let mut parsed = Vec::with_capacity(items.len());
        for item in items.iter() {
            self.text(name, item, &parse, |one| parsed.push((one, item)));
        }
        parsed.retain(|(one, item)| {
            let is_new = seen.insert(one.clone());
            if !is_new {
                let written = self.written(item);
                self.problem(self.place(item.span().start), format!("'{name}': {written} is listed twice"));
            }
            is_new
        });
        set(parsed.into_iter().map(|(one, _)| one).collect());
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
            let mut media_type = None;
            self.text(name, value, values::parse_media_type, |text| media_type = Some(text));
            let Some(media_type) = media_type else { continue };
            if types.insert(ending.clone(), media_type).is_some() {
                let message =
                    format!("'{name}': the ending {ending:?} is listed twice; case does not matter");
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
                self.problem(place, format!("'{name}': {field:?} is listed twice; case does not matter"));
            } else {
                let mut text = None;
                self.text(name, value, values::parse_header_value, |value| text = Some(value));
                let Some(text) = text else { continue };
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
        set: impl FnOnce(BTreeMap<String, String>),
    ) {
        let DeValue::Table(table) = value.get_ref() else {
            return self.wrong_type(name, value, "a table such as { \"/\" = \"/shop/\" }");
        };
        let mut pairs = BTreeMap::new();
        for (key, value) in table.iter() {
            let place = self.place(key.span().start);
            let mut text = None;
            self.text(name, value, |text| Ok(text.to_string()), |value| text = Some(value));
            let Some(text) = text else { continue };
            match check(key.get_ref(), &text) {
                Ok(()) => _ = pairs.insert(key.get_ref().to_string(), text),
                Err(message) => self.problem(place, format!("'{name}': {message}")),
            }
        }
        set(pairs);
    }

    /// A table of strings, whose names mean something too.
    fn string_table<K, V>(
        &mut self,
        name: &str,
        value: &Value<'_>,
        example: &str,
        parse_key: impl Fn(&str) -> Result<K, String>,
        parse_value: impl Fn(&str) -> Result<V, String>,
    ) -> Vec<(K, V)> {
        let DeValue::Table(table) = value.get_ref() else {
            self.wrong_type(name, value, example);
            return Vec::new();
        };
        let mut entries = Vec::new();
        for (key, value) in table.iter() {
            let place = self.place(key.span().start);
            match parse_key(key.get_ref()) {
                Ok(key) => self.text(name, value, &parse_value, |value| entries.push((key, value))),
                Err(message) => self.problem(place, format!("'{name}': {message}")),
            }
        }
        entries
    }

    fn compression_levels<C>(
        &mut self,
        name: &str,
        value: &Value<'_>,
        set: fn(&mut C, ContentCoding, u8),
        target: &mut C,
    ) {
        let DeValue::Table(table) = value.get_ref() else {
            return self.wrong_type(name, value, "a table such as { br = 5, gzip = 6 }");
        };
        for (key, value) in table.iter() {
            match values::parse_content_coding(key.get_ref()) {
                Ok(coding) => {
                    let (least, most) = level_range(coding);
                    let full_name = format!("{name}.{}", coding.token());
                    let level = self.number(&full_name, value, least.into(), most.into());
                    if let Some(level) = level.and_then(|level| u8::try_from(level).ok()) {
                        set(target, coding, level);
                    }
                }
                Err(message) => self.problem(self.place(key.span().start), format!("'{name}': {message}")),
            }
        }
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

fn is_text(value: &Value<'_>, text: &str) -> bool {
    matches!(value.get_ref(), DeValue::String(found) if found == text)
}

/// A TOML integer; one that is too large for the type is as far out of every range as the largest.
fn to_integer(integer: &DeInteger<'_>) -> i128 {
    let text = integer.as_str();
    let limit = if text.starts_with('-') { i128::MIN } else { i128::MAX };
    i128::from_str_radix(text, integer.radix()).unwrap_or(limit)
}
