//! A format string of the access log, parsed once: `$client "$request" $status $header{x-forwarded-for}`.

use touchstone_expression::text::Part;
use touchstone_expression::{AvailableFrom, Fact, Scope, Text, Variable};

use super::clock::LogClock;
use super::record::Record;
use super::variable::{append, given};

/// A parsed format string: a text of the language of conditions and texts.
#[derive(PartialEq)]
pub struct Template {
    text: Text,
    /// A line needs the duration.
    pub needs_duration: bool,
    /// A line needs the request's id.
    pub needs_request_id: bool,
}

impl Template {
    /// Parses a format string; the error states what is wrong with it.
    pub fn compile(source: &str, scope: Scope<'_>) -> Result<Template, String> {
        if let Some(control) = source.chars().find(|character| character.is_control()) {
            return Err(format!("holds a control character, {control:?}; a line is one line"));
        }
        let scope = Scope { known: AvailableFrom::Line, ..scope };
        let text = Text::read(source, scope)?;
        if !text.has_variables() {
            return Err(no_variable(source));
        }
        let needs_duration =
            text.uses(&|variable: &Variable| matches!(variable.fact, Fact::Duration | Fact::DurationSeconds));
        let needs_request_id = text.uses(&|variable: &Variable| variable.fact == Fact::RequestId);
        Ok(Template { text, needs_duration, needs_request_id })
    }

    /// The text as it was written.
    pub fn source(&self) -> &str {
        self.text.source()
    }

    /// Appends one line, with its line end.
    pub fn append(&self, line: &mut Vec<u8>, clock: &LogClock, record: &Record<'_>) {
        for part in self.text.parts() {
            match part {
                Part::Plain(plain) => line.extend_from_slice(plain),
                Part::Variable(operand) => match &operand.map {
                    Some(map) => given(line, &map.value(record)),
                    None => append(&operand.variable, line, clock, record),
                },
            }
        }
        line.push(b'\n');
    }
}

impl std::fmt::Debug for Template {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Template").field(&self.source()).finish()
    }
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
    use touchstone_expression::{Map, MapSource, Maps, VARIABLES, map_text};

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
        Template::compile(format, AvailableFrom::Line.into()).unwrap().append(
            &mut line,
            &LogClock::at(1_795_168_800, 7),
            &record,
        );
        String::from_utf8(line).unwrap()
    }

    fn problem(format: &str) -> String {
        Template::compile(format, AvailableFrom::Line.into()).unwrap_err()
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
        let needs = |format| {
            let template = Template::compile(format, AvailableFrom::Line.into()).unwrap();
            (template.needs_duration, template.needs_request_id)
        };
        assert_eq!(needs("$client"), (false, false));
        assert_eq!(needs("$duration"), (true, false));
        assert_eq!(needs("$request_id $duration_us"), (true, true));
    }

    #[test]
    fn unknown_variables_are_refused_with_a_suggestion() {
        assert_eq!(problem("$clinet"), "unknown variable '$clinet'; did you mean '$client'?");
        assert_eq!(problem("$remote_addr"), "unknown variable '$remote_addr'; did you mean '$client'?");
        assert_eq!(
            problem("$http_x_forwarded_for"),
            "unknown variable '$http_x_forwarded_for'; did you mean '$header{x-forwarded-for}'?"
        );
        assert!(problem("$upstream_response_length").contains("the variables are client, "));
        assert_eq!(problem("%h %l %u"), "'%h %l %u' has no variable; they are written $client, not %h");
        assert_eq!(problem("comon"), "'comon' is not a format; did you mean 'common'?");
        assert!(problem("").contains("is not a format"));
        assert!(problem("$").contains("'$$'"));
        assert!(problem("$header").contains("$header{x-api-key}"));
        assert!(problem("$header{a b}").contains("no valid name"));
        assert!(problem("$header{a").contains("no '}'"));
        assert!(problem("${status").contains("no '}'"));
        assert!(problem("$status\n").contains("control character"));
        assert!(problem(&"$status".repeat(1000)).contains("longer than"));
    }

    #[test]
    fn every_variable_is_written_where_nothing_is_known() {
        for entry in VARIABLES.iter().filter(|entry| !matches!(entry.fact, Fact::Map | Fact::Client)) {
            let format = match entry.example {
                Some(example) => format!("${}{{{example}}}", entry.name),
                None => format!("${}", entry.name),
            };
            let mut line = Vec::new();
            let template = Template::compile(&format, AvailableFrom::Line.into()).unwrap();
            template.append(&mut line, &LogClock::at(0, 0), &Record::default());
            assert!(line.len() > 1, "{format}");
        }
    }

    #[test]
    fn maps() {
        let source =
            MapSource { name: "m", from: "$status", default: "a\"b", ignore_case: false, function: None };
        let entries = map_text::read("404 'none at $path'").unwrap();
        let map = Map::new(&source, entries.into_iter().map(|(line, entry)| (entry, line)), &Maps::default());
        let mut maps = Maps::default();
        maps.add(map.unwrap());
        let template =
            Template::compile("[$map{m}]", Scope::from(AvailableFrom::Line).with_maps(&maps)).unwrap();
        let line = |status: u16| {
            let mut line = Vec::new();
            let record = Record { status, target: b"/x", ..Record::default() };
            template.append(&mut line, &LogClock::at(0, 0), &record);
            String::from_utf8(line).unwrap()
        };
        assert_eq!((line(404).as_str(), line(200).as_str()), ("[none at /x]\n", "[a\\\"b]\n"));
    }

    proptest! {
        /// A line stays one line of printable ASCII for any request.
        #[test]
        fn nothing_breaks_a_line(
            target in prop::collection::vec(any::<u8>(), 0..100),
            format in "[$a-z{}% ]{0,40}",
        ) {
            let _ = Template::compile(&format, AvailableFrom::Line.into());
            let record = Record { client: "::1", target: &target, host: Some(&target), ..Record::default() };
            let text = "$target $path $query $host";
            let template = Template::compile(text, AvailableFrom::Line.into()).unwrap();
            let mut line = Vec::new();
            template.append(&mut line, &LogClock::at(0, 0), &record);
            prop_assert_eq!(line.pop(), Some(b'\n'));
            prop_assert!(line.iter().all(|byte| (0x20..0x7F).contains(byte)));
        }
    }
}
