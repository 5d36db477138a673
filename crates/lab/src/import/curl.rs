//! A curl command line, as browsers give it out ("Copy as cURL") and as people keep it: one request, with its method, fields and
//! body. Words are taken apart as a POSIX shell does, without anything that a shell would run or fill in.

use super::har::taken_over;
use super::url_list::place_of;
use super::{ImportError, RecordedRequest, Recording, is_method};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The longest command, in bytes.
const COMMAND_BYTES_MAX: usize = 1 << 20;

/// Options without a value that change nothing here.
const PLAIN: [&str; 29] = [
    "-s",
    "--silent",
    "-S",
    "--show-error",
    "-v",
    "--verbose",
    "-i",
    "--include",
    "-k",
    "--insecure",
    "-L",
    "--location",
    "-f",
    "--fail",
    "-N",
    "--no-buffer",
    "-#",
    "--progress-bar",
    "--http1.0",
    "--http1.1",
    "--http2",
    "-0",
    "--compressed-ssh",
    "-4",
    "-6",
    "--path-as-is",
    "-g",
    "--globoff",
    "--tr-encoding",
];
/// Options with a value that change nothing here.
const WITH_VALUE: [&str; 16] = [
    "-o",
    "--output",
    "-w",
    "--write-out",
    "-m",
    "--max-time",
    "--connect-timeout",
    "--retry",
    "--cacert",
    "--resolve",
    "--connect-to",
    "-D",
    "--dump-header",
    "-c",
    "--cookie-jar",
    "--limit-rate",
];

/// Reads a command; `file` names where it was in messages.
pub fn read(file: &str, text: &str, with_secrets: bool) -> Result<Recording, ImportError> {
    let wrong = |message: String| ImportError::new(file, 0, message);
    if text.len() > COMMAND_BYTES_MAX {
        return Err(wrong(format!(
            "a command of {} bytes; at most {COMMAND_BYTES_MAX} are possible",
            text.len()
        )));
    }
    let words = words(text).map_err(|(line, message)| ImportError::new(file, line, message))?;
    let mut words = words.into_iter().peekable();
    if words.peek().map(|word| word.rsplit('/').next() == Some("curl")) != Some(true) {
        return Err(wrong("this is no curl command: it begins with \"curl\"".to_string()));
    }
    words.next();
    let mut command = Command::default();
    command.take_all(words).map_err(wrong)?;
    command.recording(with_secrets).map_err(wrong)
}

/// What the options say.
#[derive(Debug, Default)]
struct Command {
    url: Option<String>,
    method: Option<String>,
    headers: Vec<(String, String)>,
    data: Vec<String>,
    is_json: bool,
    is_get: bool,
    is_head: bool,
    is_http2: bool,
    secrets: usize,
}

impl Command {
    fn take_all(&mut self, words: impl Iterator<Item = String>) -> Result<(), String> {
        let mut words = words.peekable();
        while let Some(word) = words.next() {
            if !word.starts_with('-') || word == "-" {
                self.set_url(word)?;
                continue;
            }
            // `-XPOST` and `--request=POST`; several letters in one word are options without a value.
            let (option, attached) = match word.strip_prefix("--") {
                Some(_) => match word.split_once('=') {
                    Some((option, value)) => (option.to_string(), Some(value.to_string())),
                    None => (word, None),
                },
                None => {
                    let letters = word.chars().count();
                    let first: String = word.chars().take(2).collect();
                    let rest: String = word.chars().skip(2).collect();
                    if letters > 2 && PLAIN.contains(&first.as_str()) {
                        for letter in rest.chars() {
                            self.take(&format!("-{letter}"), None, &mut words)?;
                        }
                    }
                    (first.clone(), (letters > 2 && !PLAIN.contains(&first.as_str())).then_some(rest))
                }
            };
            self.take(&option, attached, &mut words)?;
        }
        Ok(())
    }

    fn take(
        &mut self,
        option: &str,
        attached: Option<String>,
        words: &mut impl Iterator<Item = String>,
    ) -> Result<(), String> {
        self.is_http2 |= option == "--http2";
        if PLAIN.contains(&option) {
            return Ok(());
        }
        match option {
            "-I" | "--head" => {
                self.is_head = true;
                return Ok(());
            }
            "-G" | "--get" => {
                self.is_get = true;
                return Ok(());
            }
            "--compressed" => {
                self.headers.push(("Accept-Encoding".to_string(), "gzip, deflate, br".to_string()));
                return Ok(());
            }
            _ => {}
        }
        let mut value = || {
            attached
                .clone()
                .or_else(|| words.next())
                .ok_or_else(|| format!("{option} takes a value, and there is none"))
        };
        match option {
            "--url" => self.set_url(value()?)?,
            "-X" | "--request" => self.method = Some(value()?.to_ascii_uppercase()),
            "-H" | "--header" => self.add_header(&value()?)?,
            "-A" | "--user-agent" => self.headers.push(("User-Agent".to_string(), value()?)),
            "-e" | "--referer" => self.headers.push(("Referer".to_string(), value()?)),
            "-b" | "--cookie" => self.headers.push(("Cookie".to_string(), value()?)),
            "-u" | "--user" => {
                self.headers
                    .push(("Authorization".to_string(), format!("Basic {}", STANDARD.encode(value()?))));
            }
            "--json" => {
                self.is_json = true;
                self.data.push(inline(option, value()?)?);
            }
            "-d" | "--data" | "--data-ascii" | "--data-binary" => self.data.push(inline(option, value()?)?),
            "--data-raw" => self.data.push(value()?),
            "--data-urlencode" => self.data.push(url_encoded(&inline(option, value()?)?)),
            "-F" | "--form" | "-T" | "--upload-file" => {
                return Err(format!(
                    "{option} sends files, which are not there to be imported: give the body with --data-raw"
                ));
            }
            option if WITH_VALUE.contains(&option) => drop(value()?),
            option => {
                return Err(format!(
                    "the option {option} is not known here: leave it out if the request does without"
                ));
            }
        }
        Ok(())
    }

    fn set_url(&mut self, url: String) -> Result<(), String> {
        match &self.url {
            Some(first) => Err(format!("two URLs, {first} and {url}: a command makes one request")),
            None => {
                self.url = Some(url);
                Ok(())
            }
        }
    }

    fn add_header(&mut self, header: &str) -> Result<(), String> {
        match header.split_once(':') {
            Some((name, value)) => {
                self.headers.push((name.trim().to_string(), value.trim().to_string()));
                Ok(())
            }
            // `-H 'Name;'` sends the field empty; nothing measures differently for it.
            None if header.ends_with(';') => Ok(()),
            None => Err(format!("{header:?} is no header field: write \"name: value\"")),
        }
    }

    fn recording(mut self, with_secrets: bool) -> Result<Recording, String> {
        let url = self.url.take().ok_or("there is no URL in the command")?;
        let url = if url.contains("://") { url } else { format!("http://{url}") };
        let data = (!self.data.is_empty()).then(|| self.data.join("&"));
        let (url, body) = match (&data, self.is_get) {
            (Some(data), true) => (format!("{url}{}{data}", if url.contains('?') { '&' } else { '?' }), None),
            _ => (url, data),
        };
        let (path, origin) = place_of(&url)?;
        let method = match &self.method {
            Some(method) => method.clone(),
            None if self.is_head => "HEAD".to_string(),
            None if body.is_some() => "POST".to_string(),
            None => "GET".to_string(),
        };
        if !is_method(&method) {
            return Err(format!("{method:?} is no method that a load can have"));
        }
        self.add_content_type(body.is_some());
        let mut headers = Vec::new();
        for (name, value) in &self.headers {
            if taken_over(name, value, with_secrets) || name.eq_ignore_ascii_case("user-agent") {
                headers.push(format!("{name}: {value}"));
            } else if !with_secrets && taken_over(name, value, true) {
                self.secrets += 1;
            }
        }
        let note = format!("left out: {} header fields that say who somebody is", self.secrets);
        Ok(Recording {
            origin,
            is_http2: self.is_http2,
            requests: vec![RecordedRequest { method, headers, body, ..RecordedRequest::get(path) }],
            notes: if self.secrets > 0 { vec![note] } else { Vec::new() },
            ..Recording::default()
        })
    }

    /// What curl adds itself.
    fn add_content_type(&mut self, has_body: bool) {
        let states = |name: &str| self.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        let mut add = Vec::new();
        if has_body && !states("Content-Type") {
            add.push((
                "Content-Type",
                if self.is_json { "application/json" } else { "application/x-www-form-urlencoded" },
            ));
        }
        if self.is_json && !states("Accept") {
            add.push(("Accept", "application/json"));
        }
        self.headers.extend(add.into_iter().map(|(name, value)| (name.to_string(), value.to_string())));
    }
}

/// A value that stands in the command itself, and in no file.
fn inline(option: &str, value: String) -> Result<String, String> {
    match value.strip_prefix('@') {
        Some(file) => Err(format!(
            "{option} takes its data from the file {file}, which is not read: put the data into the command"
        )),
        None => Ok(value),
    }
}

/// `name=value` with the value encoded, or all of it.
fn url_encoded(data: &str) -> String {
    let encode = |text: &str| -> String {
        let byte = |byte: u8| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            byte => format!("%{byte:02X}"),
        };
        text.bytes().map(byte).collect()
    };
    match data.split_once('=') {
        Some(("", value)) => encode(value),
        Some((name, value)) => format!("{name}={}", encode(value)),
        None => encode(data),
    }
}

/// The words of a command (POSIX, Shell Command Language, 2.2), and `$'...'` of later shells; an error has its line.
fn words(text: &str) -> Result<Vec<String>, (usize, String)> {
    let (mut words, mut word): (Vec<String>, Option<String>) = (Vec::new(), None);
    let (mut line, mut characters) = (1, text.chars().peekable());
    while let Some(character) = characters.next() {
        match character {
            '\n' | ' ' | '\t' | '\r' => {
                line += usize::from(character == '\n');
                words.extend(word.take());
            }
            '\\' => match characters.next() {
                Some('\n') => line += 1,
                // A continuation of Windows.
                Some('\r') => {}
                Some(next) => word.get_or_insert_default().push(next),
                None => return Err((line, "the command ends with a backslash".to_string())),
            },
            '\'' | '"' => {
                let begun = line;
                let into = word.get_or_insert_default();
                if !quoted(character, false, &mut characters, into, &mut line) {
                    return Err((begun, format!("the quote {character} is not closed")));
                }
            }
            '$' if characters.peek() == Some(&'\'') => {
                characters.next();
                let begun = line;
                if !quoted('\'', true, &mut characters, word.get_or_insert_default(), &mut line) {
                    return Err((begun, "the quote $' is not closed".to_string()));
                }
            }
            ';' | '|' | '&' | '<' | '>' | '`' => {
                return Err((
                    line,
                    format!("{character:?} outside quotes is for the shell: leave it and what follows out"),
                ));
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

/// What stands in quotes; false where they are not closed. `escapes`: those of C are read.
fn quoted(
    quote: char,
    escapes: bool,
    characters: &mut std::iter::Peekable<std::str::Chars<'_>>,
    into: &mut String,
    line: &mut usize,
) -> bool {
    while let Some(character) = characters.next() {
        *line += usize::from(character == '\n');
        match character {
            end if end == quote => return true,
            '\\' if escapes => match characters.next() {
                Some('n') => into.push('\n'),
                Some('r') => into.push('\r'),
                Some('t') => into.push('\t'),
                Some(kind @ ('u' | 'x')) => {
                    let mut digits = String::new();
                    while let Some(digit) = characters.peek().filter(|c| c.is_ascii_hexdigit())
                        && digits.len() < if kind == 'u' { 4 } else { 2 }
                    {
                        digits.push(*digit);
                        characters.next();
                    }
                    let code = u32::from_str_radix(&digits, 16).ok();
                    into.push(code.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                Some(other) => into.push(other),
                None => return false,
            },
            '\\' if quote == '"' => match characters.next() {
                Some('\n') => *line += 1,
                Some(special @ ('"' | '\\' | '$' | '`')) => into.push(special),
                Some(other) => into.extend(['\\', other]),
                None => return false,
            },
            other => into.push(other),
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(command: &str) -> RecordedRequest {
        read("a command", command, false).unwrap().requests.remove(0)
    }

    #[test]
    fn commands_are_requests() {
        let request = one(
            "curl 'http://localhost:81/a?b=c' \\\n  -H 'Accept: text/html' --compressed -sS -H \"X-A: \\\"1\\\"\"",
        );
        assert_eq!((request.method.as_str(), request.path.as_str(), request.body), ("GET", "/a?b=c", None));
        assert_eq!(
            request.headers,
            ["Accept: text/html", "Accept-Encoding: gzip, deflate, br", "X-A: \"1\""]
        );
        let request = one(r#"/usr/bin/curl --json '{"a": 1}' https://localhost/api"#);
        assert_eq!((request.method.as_str(), request.body.as_deref()), ("POST", Some(r#"{"a": 1}"#)));
        assert_eq!(request.headers, ["Content-Type: application/json", "Accept: application/json"]);
        let request = one("curl -XPUT --data-raw=x=1 -d y=2 localhost/p");
        assert_eq!((request.method.as_str(), request.body.as_deref()), ("PUT", Some("x=1&y=2")));
        assert_eq!(one("curl -G -d q=1 --data-urlencode 'r=a b' http://h/s?t=0").path, "/s?t=0&q=1&r=a%20b");
        assert_eq!(one("curl -I http://h/").method, "HEAD");
        assert_eq!(one(r"curl http://h/ --data-raw $'a\nb\u0021\x21'").body.as_deref(), Some("a\nb!!"));
    }

    #[test]
    fn who_somebody_is_is_left_out_unless_it_is_wished_for() {
        let command = "curl http://h/ -b id=1 -u me:secret -H 'X-Trace: 1'";
        let recording = read("a command", command, false).unwrap();
        assert_eq!(recording.requests[0].headers, ["X-Trace: 1"]);
        assert_eq!(recording.notes, ["left out: 2 header fields that say who somebody is"]);
        let recording = read("a command", command, true).unwrap();
        assert_eq!(
            recording.requests[0].headers,
            ["Cookie: id=1", "Authorization: Basic bWU6c2VjcmV0", "X-Trace: 1"]
        );
    }

    #[test]
    fn what_cannot_be_taken_over_says_so() {
        for (command, said) in [
            ("wget http://h/", "c: this is no curl command"),
            ("curl", "c: there is no URL"),
            ("curl http://h/ http://i/", "c: two URLs"),
            ("curl http://h/ -d @file", "c: -d takes its data from the file file"),
            ("curl http://h/ -F a=@b", "c: -F sends files"),
            ("curl http://h/ --frobnicate", "c: the option --frobnicate is not known here"),
            ("curl http://h/ -H", "c: -H takes a value"),
            ("curl http://h/\n-H 'a: b", "c:2: the quote ' is not closed"),
            ("curl http://h/ | jq", "c:1: '|' outside quotes"),
            ("curl ftp://h/", "c: \"ftp://h/\" has the scheme"),
        ] {
            let message = read("c", command, false).unwrap_err().to_string();
            assert!(message.starts_with(said), "{command:?}: {message}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "curl( ('[a-z:/ é]{0,9}'|-[a-zA-Z#]{1,3}|--[a-z-]{1,9}=?|\\$'\\\\[a-z0-9]{0,5}'|http://h/[a-z?%é]{0,5}|\"\\\\?[a-z\"]{0,3}\")){0,6}") {
            let _ = read("any", &text, true);
        }

        #[test]
        fn any_text_in_quotes_is_a_word(text in "[^']{0,40}") {
            prop_assert_eq!(words(&format!("a '{text}' b")).unwrap(), ["a", &text, "b"]);
        }
    }
}
