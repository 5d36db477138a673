//! The format of an unusual access log: a string with variables, as in the configuration of a server
//! (`$client [$time] "$request" $status`), or the columns that a log of the W3C's Extended Log File Format
//! names itself (`#Fields: date time cs-method ...`).

use regex::{Regex, RegexBuilder};
use std::fmt::Write;

/// The longest format string, in bytes: that of a server's configuration.
const FORMAT_BYTES_MAX: usize = 4096;
/// The most memory of its compiled pattern, bytes.
const PATTERN_BYTES_MAX: usize = 4 << 20;

/// A field that an importer searches for in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// A moment: `20/Nov/2026:10:00:00 +0000`, RFC 3339, or seconds since 1970.
    Time,
    /// A separate date, `2026-11-20`.
    Date,
    /// A separate time of the day, `10:00:00`, in UTC.
    TimeOfDay,
    /// The request line.
    Request,
    /// The method.
    Method,
    /// Path and query as they were sent.
    Target,
    /// The path alone.
    Path,
    /// The query alone.
    Query,
    /// The status.
    Status,
    /// Bytes of the answer.
    Bytes,
    /// Another field.
    Other,
}

/// Variables by their names here and in nginx; any other name is that of a field that is ignored.
const VARIABLES: [(&str, Field); 19] = [
    ("time", Field::Time),
    ("time_rfc3339", Field::Time),
    ("time_unix", Field::Time),
    ("time_local", Field::Time),
    ("time_iso8601", Field::Time),
    ("msec", Field::Time),
    ("request", Field::Request),
    ("method", Field::Method),
    ("request_method", Field::Method),
    ("target", Field::Target),
    ("request_uri", Field::Target),
    ("path", Field::Path),
    ("uri", Field::Path),
    ("query", Field::Query),
    ("query_string", Field::Query),
    ("args", Field::Query),
    ("status", Field::Status),
    ("body_bytes", Field::Bytes),
    ("body_bytes_sent", Field::Bytes),
];

/// Columns of the Extended Log File Format (W3C working draft of 1996), as IIS and content networks name
/// them.
const COLUMNS: [(&str, Field); 8] = [
    ("date", Field::Date),
    ("time", Field::TimeOfDay),
    ("cs-method", Field::Method),
    ("cs-uri", Field::Target),
    ("cs-uri-stem", Field::Path),
    ("cs-uri-query", Field::Query),
    ("sc-status", Field::Status),
    ("sc-bytes", Field::Bytes),
];

/// How to find the values of a line.
#[derive(Debug, Clone)]
pub enum LogFormat {
    /// By the text between them: a group for each field.
    Pattern {
        /// The whole line.
        line: Regex,
        /// What its groups are.
        fields: Vec<Field>,
    },
    /// By their place among words, or between tabs.
    Columns(Vec<Field>),
}

impl LogFormat {
    /// Parses a format string; the error states what is wrong with it.
    pub fn parse(format: &str) -> Result<LogFormat, String> {
        if format.len() > FORMAT_BYTES_MAX {
            return Err(format!("the format is longer than {FORMAT_BYTES_MAX} bytes"));
        }
        let (mut pattern, mut fields) = ("^".to_string(), Vec::new());
        let mut rest = format.trim();
        let mut is_after_value = false;
        while let Some(dollar) = rest.find('$') {
            push_text(&mut pattern, &rest[..dollar]);
            is_after_value &= dollar == 0;
            rest = &rest[dollar + 1..];
            if let Some(after) = rest.strip_prefix('$') {
                pattern.push_str(r"\$");
                (is_after_value, rest) = (false, after);
                continue;
            }
            if is_after_value {
                return Err(format!(
                    "there is no text before \"${rest}\": the end of a value \
                     cannot be determined"
                ));
            }
            let (field, after) = variable(rest)?;
            // The shortest text that lets the rest of the line match; a status has three digits.
            pattern.push_str(if field == Field::Status { "([0-9]{3})" } else { "(.*?)" });
            fields.push(field);
            (is_after_value, rest) = (true, after);
        }
        push_text(&mut pattern, rest);
        pattern.push('$');
        check(&fields)?;
        let line = RegexBuilder::new(&pattern).size_limit(PATTERN_BYTES_MAX).build();
        let line = line.map_err(|error| format!("the format is too large: {error}"))?;
        Ok(LogFormat::Pattern { line, fields })
    }

    /// The columns of a line `#Fields: ...`; `None` if they do not describe a request.
    pub fn of_columns(names: &str) -> Option<LogFormat> {
        let field = |name: &str| {
            let name = name.to_ascii_lowercase();
            COLUMNS.iter().find(|(known, _)| *known == name).map_or(Field::Other, |(_, field)| *field)
        };
        let fields: Vec<Field> = names.split_ascii_whitespace().map(field).collect();
        check(&fields).is_ok().then_some(LogFormat::Columns(fields))
    }

    /// The values of all fields in a line; `None` if the line does not have this format.
    pub fn values<'l>(&self, text: &'l str) -> Option<Vec<(Field, &'l str)>> {
        match self {
            LogFormat::Pattern { line, fields } => {
                let found = line.captures(text)?;
                let value = |(place, field): (usize, &Field)| Some((*field, found.get(place + 1)?.as_str()));
                Some(fields.iter().enumerate().filter_map(value).collect())
            }
            LogFormat::Columns(fields) => {
                let words: Vec<&str> = if text.contains('\t') {
                    text.split('\t').map(str::trim).collect()
                } else {
                    text.split_ascii_whitespace().collect()
                };
                (words.len() >= fields.len()).then(|| fields.iter().copied().zip(words).collect())
            }
        }
    }
}

/// Text that is in every line; several spaces count as one.
fn push_text(pattern: &mut String, text: &str) {
    let mut in_spaces = false;
    for character in text.chars() {
        let is_space = matches!(character, ' ' | '\t');
        match (is_space, in_spaces) {
            (true, false) => pattern.push_str("[ \\t]+"),
            (true, true) => {}
            (false, _) => {
                let _ = write!(pattern, "{}", regex::escape(character.encode_utf8(&mut [0; 4])));
            }
        }
        in_spaces = is_space;
    }
}

/// The name after a dollar sign (`name`, `{name}`, `header{field}`), and the rest.
fn variable(text: &str) -> Result<(Field, &str), String> {
    let (name, rest) = match text.strip_prefix('{') {
        Some(inside) => inside.split_once('}').ok_or("\"${\" has no \"}\"")?,
        None => {
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            text.split_at(text.bytes().position(|byte| !is_name(byte)).unwrap_or(text.len()))
        }
    };
    let rest = match (name, rest.strip_prefix('{')) {
        ("", _) => {
            return Err("\"$\" is followed by no name; a dollar sign itself is written \"$$\"".to_string());
        }
        ("header", Some(inside)) => inside.split_once('}').ok_or("\"$header{\" has no \"}\"")?.1,
        _ => rest,
    };
    let field = VARIABLES.iter().find(|(known, _)| *known == name).map_or(Field::Other, |(_, field)| *field);
    Ok((field, rest))
}

/// Whether the fields describe a request.
fn check(fields: &[Field]) -> Result<(), String> {
    let has = |field| fields.contains(&field);
    if !(has(Field::Request) || has(Field::Method) && (has(Field::Target) || has(Field::Path))) {
        return Err("the format does not contain the request: $request, or $method and $target (or $path \
                    and $query)"
            .to_string());
    }
    if !has(Field::Status) {
        return Err("the format does not contain the status: $status".to_string());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value<'l>(format: &LogFormat, line: &'l str, field: Field) -> Option<&'l str> {
        format.values(line)?.into_iter().find(|(of, _)| *of == field).map(|(_, value)| value)
    }

    #[test]
    fn values_lie_between_the_texts_of_the_format() {
        let format = LogFormat::parse(concat!(
            r#"$remote_addr - $remote_user [$time_local] "$request" ${status}$$ $body_bytes_sent "#,
            r#""$header{referer}" $upstream_response_time"#
        ))
        .unwrap();
        let line = concat!(
            r#"1.2.3.4 - frank doe [20/Nov/2026:10:00:00 +0000] "GET /a\"b HTTP/1.1" 200$ 12   "-" "#,
            "0.001, 0.002"
        );
        for (field, expected) in [
            (Field::Time, "20/Nov/2026:10:00:00 +0000"),
            (Field::Request, r#"GET /a\"b HTTP/1.1"#),
            (Field::Status, "200"),
            (Field::Bytes, "12"),
        ] {
            assert_eq!(value(&format, line, field), Some(expected));
        }
        assert_eq!(format.values("1.2.3.4 - - [x] \"GET / HTTP/1.1\" - 5 \"-\" -"), None);
        // The log of Squid: columns of several spaces.
        let squid =
            LogFormat::parse("$time_unix $duration $client $result/$status $bytes $method $target").unwrap();
        let line = "1286536309.173    179 192.0.2.1 TCP_MISS/200 1234 GET http://x/a.html";
        assert_eq!(value(&squid, line, Field::Target), Some("http://x/a.html"));
        assert_eq!(value(&squid, line, Field::Time), Some("1286536309.173"));
    }

    #[test]
    fn columns_name_themselves() {
        let names =
            "date time s-ip cs-method cs-uri-stem cs-uri-query c-ip cs(User-Agent) sc-status sc-bytes";
        let format = LogFormat::of_columns(names).unwrap();
        let line = "2026-11-20 10:00:00 10.0.0.1 GET /a.html b=c 10.0.0.2 Mozilla/5.0+(X11) 200 512";
        assert_eq!(value(&format, line, Field::Path), Some("/a.html"));
        assert_eq!(value(&format, line, Field::Query), Some("b=c"));
        assert_eq!(value(&format, line, Field::Status), Some("200"));
        let tabs = line.replace(' ', "\t").replace("Mozilla/5.0+(X11)", "Mozilla 5.0");
        assert_eq!(value(&format, &tabs, Field::Bytes), Some("512"));
        assert_eq!(format.values("2026-11-20 10:00:00"), None);
        assert!(LogFormat::of_columns("date time").is_none());
    }

    #[test]
    fn what_is_wrong_with_a_format_is_said() {
        for (format, said) in [
            ("", "does not contain the request"),
            ("$status", "does not contain the request"),
            ("$method $status", "does not contain the request"),
            ("$request", "does not contain the status"),
            ("($request)$$$status$method", "there is no text before \"$method\""),
            ("$request$status", "there is no text before \"$status\""),
            ("${request $status", "\"${\" has no \"}\""),
            ("$header{x $request $status", "\"$header{\" has no \"}\""),
            ("$request $status $ ", "\"$\" is followed by no name"),
        ] {
            let message = LogFormat::parse(format).unwrap_err();
            assert!(message.contains(said), "{format:?}: {message}");
        }
    }

    proptest! {
        #[test]
        fn no_format_and_no_line_makes_the_reader_panic(
            format in "(\\PC|\\$|[ {}\"]){0,40}",
            line in "\\PC{0,100}",
        ) {
            for format in [format.clone(), format!("$request {format} $status")] {
                if let Ok(format) = LogFormat::parse(&format) {
                    let _ = format.values(&line);
                }
                if let Some(format) = LogFormat::of_columns(&format) {
                    let _ = format.values(&line);
                }
            }
        }

        #[test]
        fn what_a_format_wrote_is_found_again(
            target in "/[a-z0-9/._?&=%-]{0,30}",
            status in 100u16..600,
            client in "[0-9a-f.:]{1,20}",
        ) {
            let format = LogFormat::parse("$client|$method $target|$status").unwrap();
            let line = format!("{client}|GET {target}|{status}");
            prop_assert_eq!(value(&format, &line, Field::Target), Some(target.as_str()));
            let status = status.to_string();
            prop_assert_eq!(value(&format, &line, Field::Status), Some(status.as_str()));
        }
    }
}
