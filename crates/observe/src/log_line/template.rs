//! A format string of the access log, parsed once: `$client "$request" $status $header{x-forwarded-for}`.

use super::clock::LogClock;
use super::record::Record;
use super::variable::{ELSEWHERE, VARIABLES, Variable, VariableCost, optional};

/// The longest format string, in bytes.
const LONGEST_FORMAT: usize = 4096;

/// A parsed format string.
pub struct Template {
    /// The text as it was written.
    source: String,
    segments: Box<[Segment]>,
    /// A line needs the duration.
    pub wants_duration: bool,
    /// A line needs the request's id.
    pub wants_request_id: bool,
}

enum Segment {
    Text(Box<[u8]>),
    Variable(&'static Variable),
    /// A field of the request, its name in lower case.
    Field(Box<[u8]>),
}

impl Template {
    /// Parses a format string; the error says what is wrong with it.
    pub fn compile(source: &str) -> Result<Template, String> {
        if source.len() > LONGEST_FORMAT {
            return Err(format!("is longer than {LONGEST_FORMAT} bytes"));
        }
        if let Some(control) = source.chars().find(|character| character.is_control()) {
            return Err(format!("holds a control character, {control:?}; a line is one line"));
        }
        let mut segments = Vec::new();
        let mut text = Vec::new();
        let mut rest = source;
        while let Some(dollar) = rest.find('$') {
            text.extend_from_slice(&rest.as_bytes()[..dollar]);
            rest = &rest[dollar + 1..];
            if let Some(after) = rest.strip_prefix('$') {
                text.push(b'$');
                rest = after;
                continue;
            }
            let (segment, after) = parse_variable(rest)?;
            if !text.is_empty() {
                segments.push(Segment::Text(std::mem::take(&mut text).into()));
            }
            segments.push(segment);
            rest = after;
        }
        text.extend_from_slice(rest.as_bytes());
        if segments.is_empty() {
            return Err(no_variable(source));
        }
        text.push(b'\n');
        segments.push(Segment::Text(text.into()));
        let needs = |needs: VariableCost| {
            segments
                .iter()
                .any(|segment| matches!(segment, Segment::Variable(variable) if variable.needs == needs))
        };
        let (wants_duration, wants_request_id) =
            (needs(VariableCost::Duration), needs(VariableCost::RequestId));
        Ok(Template {
            source: source.to_string(),
            segments: segments.into(),
            wants_duration,
            wants_request_id,
        })
    }

    /// The text as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Appends one line, with its line end.
    pub fn append(&self, line: &mut Vec<u8>, clock: &LogClock, record: &Record<'_>) {
        for segment in &self.segments {
            match segment {
                Segment::Text(text) => line.extend_from_slice(text),
                Segment::Variable(variable) => (variable.append)(line, clock, record),
                Segment::Field(name) => optional(line, record.field(name)),
            }
        }
    }
}

impl PartialEq for Template {
    fn eq(&self, other: &Template) -> bool {
        self.source == other.source
    }
}

impl std::fmt::Debug for Template {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Template").field(&self.source).finish()
    }
}

/// Parses what follows a dollar sign: `name`, `{name}` or `header{field}`; returns the rest too.
fn parse_variable(text: &str) -> Result<(Segment, &str), String> {
    if let Some(inside) = text.strip_prefix('{') {
        let (name, rest) = inside.split_once('}').ok_or("'${' has no '}'")?;
        return Ok((Segment::Variable(find(name)?), rest));
    }
    let end =
        text.bytes().position(|byte| !byte.is_ascii_alphanumeric() && byte != b'_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    match (name, rest.strip_prefix('{')) {
        ("", _) => Err("'$' is followed by no name; a dollar sign itself is written '$$'".to_string()),
        ("header", Some(inside)) => {
            let (field, rest) = inside.split_once('}').ok_or("'$header{' has no '}'")?;
            if !touchstone_http::grammar::is_token(field.as_bytes()) {
                return Err(format!("'$header{{{field}}}': not the name of a header field"));
            }
            Ok((Segment::Field(field.to_ascii_lowercase().into_bytes().into()), rest))
        }
        ("header", None) => Err("'$header' needs the name of a field, such as $header{accept}".to_string()),
        _ => Ok((Segment::Variable(find(name)?), rest)),
    }
}

fn find(name: &str) -> Result<&'static Variable, String> {
    if let Some(variable) = VARIABLES.iter().find(|variable| variable.name == name) {
        return Ok(variable);
    }
    let elsewhere = ELSEWHERE.iter().find(|(other, _)| *other == name).map(|(_, here)| (*here).to_string());
    let field = || name.strip_prefix("http_").map(|field| format!("header{{{}}}", field.replace('_', "-")));
    let known = || VARIABLES.iter().map(|variable| variable.name);
    let near = || touchstone_expression::nearest(name, known()).map(str::to_string);
    Err(match elsewhere.or_else(field).or_else(near) {
        Some(near) => format!("unknown variable '${name}'; did you mean '${near}'?"),
        None => {
            let names: Vec<&str> = known().collect();
            format!("unknown variable '${name}'; the variables are {} and header{{NAME}}", names.join(", "))
        }
    })
}

/// The error for a format string without any variable: a misspelt word, or Apache's language.
fn no_variable(source: &str) -> String {
    if source.contains('%') {
        return format!("'{source}' has no variable; they are written $client, not %h");
    }
    let near = ["common", "combined", "json"]
        .into_iter()
        .find(|word| strsim::damerau_levenshtein(&source.to_lowercase(), word) <= 2);
    match near {
        Some(near) => format!("'{source}' is not a format; did you mean '{near}'?"),
        None => format!(
            "'{source}' is not a format: write common, combined, json, or a line with variables such as \
             $client"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(format: &str) -> String {
        let fields = [
            ("Accept", "text/html"),
            ("X-Evil", "a\"b"),
            ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        ];
        let record = Record {
            client: "192.0.2.1",
            request_line: b"GET /a?b=c HTTP/1.1",
            method: b"GET",
            target: b"/a?b=c",
            version: "HTTP/1.1",
            status: 200,
            body_bytes: 26,
            host: Some(b"www.example.org:8080"),
            duration_us: 2_000_048,
            fields: Some(&fields),
            request_id: Some(b"abc"),
            site: "www.example.org",
            handler: "cache",
            ..Record::default()
        };
        let mut line = Vec::new();
        Template::compile(format).unwrap().append(&mut line, &LogClock::at(1_795_168_800, 7), &record);
        String::from_utf8(line).unwrap()
    }

    fn problem(format: &str) -> String {
        Template::compile(format).unwrap_err()
    }

    #[test]
    fn lines() {
        assert_eq!(
            line("$client - [$time] \"$request\" $status"),
            "192.0.2.1 - [20/Nov/2026:10:00:00 +0000] \"GET /a?b=c HTTP/1.1\" 200\n"
        );
        assert_eq!(line("$path|$query|$duration|${duration_us}us"), "/a|b=c|2.000048|2000048us\n");
        assert_eq!(line("$header{ACCEPT} $header{x-evil} $header{none}"), "text/html a\\\"b -\n");
        assert_eq!(line("$$$status$$"), "$200$\n");
        assert_eq!(line("$time_unix $time_rfc3339"), "1795168800.007 2026-11-20T10:00:00.007Z\n");
        assert_eq!(line("$trace_id $request_id"), "4bf92f3577b34da6a3ce929d0e0e4736 abc\n");
        assert_eq!(line("$site $route $handler $tls_version $user"), "www.example.org - cache - -\n");
    }

    #[test]
    fn what_a_line_needs() {
        let wants = |format| {
            let template = Template::compile(format).unwrap();
            (template.wants_duration, template.wants_request_id)
        };
        assert_eq!(wants("$client"), (false, false));
        assert_eq!(wants("$duration"), (true, false));
        assert_eq!(wants("$request_id $duration_us"), (true, true));
    }

    #[test]
    fn what_is_not_understood_is_refused_with_what_was_meant() {
        assert_eq!(problem("$clinet"), "unknown variable '$clinet'; did you mean '$client'?");
        assert_eq!(problem("$remote_addr"), "unknown variable '$remote_addr'; did you mean '$client'?");
        assert_eq!(
            problem("$http_x_forwarded_for"),
            "unknown variable '$http_x_forwarded_for'; did you mean '$header{x-forwarded-for}'?"
        );
        assert!(problem("$upstream_response_length").contains("the variables are time, "));
        assert_eq!(problem("%h %l %u"), "'%h %l %u' has no variable; they are written $client, not %h");
        assert_eq!(problem("comon"), "'comon' is not a format; did you mean 'common'?");
        assert!(problem("").contains("is not a format"));
        assert!(problem("$").contains("'$$'"));
        assert!(problem("$header").contains("$header{accept}"));
        assert!(problem("$header{a b}").contains("not the name"));
        assert!(problem("$header{a").contains("no '}'"));
        assert!(problem("${status").contains("no '}'"));
        assert!(problem("$status\n").contains("control character"));
        assert!(problem(&"$status".repeat(1000)).contains("longer than"));
    }

    #[test]
    fn every_variable_is_written_where_nothing_is_known() {
        for variable in VARIABLES {
            let mut line = Vec::new();
            (variable.append)(&mut line, &LogClock::at(0, 0), &Record::default());
            assert!(!line.is_empty() || variable.name == "client", "{}", variable.name);
        }
        for (_, here) in ELSEWHERE {
            assert!(find(here).is_ok(), "{here}");
        }
    }

    proptest! {
        /// A line stays one line of printable ASCII for any request.
        #[test]
        fn nothing_breaks_a_line(
            target in prop::collection::vec(any::<u8>(), 0..100),
            format in "[$a-z{}% ]{0,40}",
        ) {
            let _ = Template::compile(&format);
            let record = Record { client: "::1", target: &target, host: Some(&target), ..Record::default() };
            let template = Template::compile("$target $path $query $host").unwrap();
            let mut line = Vec::new();
            template.append(&mut line, &LogClock::at(0, 0), &record);
            prop_assert_eq!(line.pop(), Some(b'\n'));
            prop_assert!(line.iter().all(|byte| (0x20..0x7F).contains(byte)));
        }
    }
}
