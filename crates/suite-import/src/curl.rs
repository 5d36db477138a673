//! A curl command line, as browsers copy it ("Copy as cURL") and as people keep it: one request, with its
//! method, fields and body. The options have the same meaning as in curl 8; no command is run, no variable
//! expanded, no file read.

use super::fields::{is_field_value, is_secret, taken_over};
use super::form::form_encoded;
use super::shell_words::words;
use super::url_list::place_of;
use super::{ImportError, RecordedRequest, Recording, is_method};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The longest command, in bytes.
const COMMAND_BYTES_MAX: usize = 1 << 20;

/// The meaning of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OptionMeaning {
    /// It does not change the request.
    Nothing,
    /// `HEAD` instead of `GET`.
    Head,
    /// The data are the URL's query.
    Get,
    /// Answers may be compressed.
    Compressed,
    /// The version.
    Http2,
    /// It has a value and does not change the request.
    Value,
    /// The URL.
    Url,
    /// More of its query.
    UrlQuery,
    /// The method.
    Method,
    /// A header field.
    Header,
    /// A header field of this name.
    Field(&'static str),
    /// Name and password.
    User,
    /// A token.
    Bearer,
    /// The cookies, or the file with them.
    Cookie,
    /// JSON.
    Json,
    /// Data, from a file if `@` begins it.
    Data,
    /// Data as they are.
    DataRaw,
    /// Data to be encoded.
    DataUrlencode,
    /// Files, which are not available.
    Files,
}

impl OptionMeaning {
    fn takes_value(self) -> bool {
        !matches!(
            self,
            OptionMeaning::Nothing
                | OptionMeaning::Head
                | OptionMeaning::Get
                | OptionMeaning::Compressed
                | OptionMeaning::Http2
        )
    }
}

/// The options that are known, with all their names.
const OPTIONS: [(&[&str], OptionMeaning); 21] = [
    (
        &[
            "-s",
            "--silent",
            "-S",
            "--show-error",
            "-v",
            "--verbose",
            "-i",
            "--include",
            "--show-headers",
            "-k",
            "--insecure",
            "-L",
            "--location",
            "--location-trusted",
            "-f",
            "--fail",
            "--fail-with-body",
            "-N",
            "--no-buffer",
            "-#",
            "--progress-bar",
            "--no-progress-meter",
            "-0",
            "--http1.0",
            "--http1.1",
            "-1",
            "--tlsv1",
            "--tlsv1.2",
            "--tlsv1.3",
            "--compressed-ssh",
            "-4",
            "--ipv4",
            "-6",
            "--ipv6",
            "--path-as-is",
            "-g",
            "--globoff",
            "--tr-encoding",
            "-O",
            "--remote-name",
            "-J",
            "--remote-header-name",
            "-j",
            "--junk-session-cookies",
            "--create-dirs",
            "-n",
            "--netrc",
            "--no-keepalive",
            "--no-alpn",
            "--tcp-nodelay",
            "--tcp-fastopen",
            "--retry-connrefused",
            "--retry-all-errors",
            "--raw",
            "-q",
            "--disable",
            "-R",
            "--remote-time",
            "--styled-output",
            "--ssl-no-revoke",
            "--http2-prior-knowledge",
        ],
        OptionMeaning::Nothing,
    ),
    (
        &[
            "-o",
            "--output",
            "--output-dir",
            "-w",
            "--write-out",
            "-m",
            "--max-time",
            "--connect-timeout",
            "--retry",
            "--retry-delay",
            "--retry-max-time",
            "--max-redirs",
            "--cacert",
            "--capath",
            "-E",
            "--cert",
            "--key",
            "--resolve",
            "--connect-to",
            "-D",
            "--dump-header",
            "-c",
            "--cookie-jar",
            "--limit-rate",
            "--interface",
            "--stderr",
            "--trace",
            "--trace-ascii",
            "--ciphers",
            "--tls13-ciphers",
            "--curves",
            "--tls-max",
            "-y",
            "--speed-time",
            "-Y",
            "--speed-limit",
            "--keepalive-time",
            "--dns-servers",
        ],
        OptionMeaning::Value,
    ),
    (&["-I", "--head"], OptionMeaning::Head),
    (&["-G", "--get"], OptionMeaning::Get),
    (&["--compressed"], OptionMeaning::Compressed),
    (&["--http2"], OptionMeaning::Http2),
    (&["--url"], OptionMeaning::Url),
    (&["--url-query"], OptionMeaning::UrlQuery),
    (&["-X", "--request"], OptionMeaning::Method),
    (&["-H", "--header"], OptionMeaning::Header),
    (&["-A", "--user-agent"], OptionMeaning::Field("User-Agent")),
    (&["-e", "--referer"], OptionMeaning::Field("Referer")),
    (&["-b", "--cookie"], OptionMeaning::Cookie),
    (&["-u", "--user"], OptionMeaning::User),
    (&["--oauth2-bearer"], OptionMeaning::Bearer),
    (&["--json"], OptionMeaning::Json),
    (&["-d", "--data", "--data-ascii", "--data-binary"], OptionMeaning::Data),
    (&["--data-raw"], OptionMeaning::DataRaw),
    (&["--data-urlencode"], OptionMeaning::DataUrlencode),
    (&["-F", "--form", "--form-string"], OptionMeaning::Files),
    (&["-T", "--upload-file"], OptionMeaning::Files),
];

fn meaning(option: &str) -> Result<OptionMeaning, String> {
    let known = OPTIONS.iter().find(|(names, _)| names.contains(&option));
    known.map(|(_, meaning)| *meaning).ok_or_else(|| {
        format!("the option {option} is not known here: leave it out if the request does without")
    })
}

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
    let mut words = words.into_iter();
    let program = words.next().unwrap_or_default();
    if !["curl", "curl.exe"].contains(&program.rsplit(['/', '\\']).next().unwrap_or_default()) {
        return Err(wrong("this is not a curl command: it begins with \"curl\"".to_string()));
    }
    let mut command = Command::default();
    command.take_all(words).map_err(wrong)?;
    command.recording(with_secrets).map_err(wrong)
}

/// The request that the options describe.
#[derive(Debug, Default)]
struct Command {
    url: Option<String>,
    query: Vec<String>,
    method: Option<String>,
    headers: Vec<(String, String)>,
    /// The fields that an option removes from the request, in lower case.
    removed: Vec<String>,
    data: Option<String>,
    is_json: bool,
    is_get: bool,
    is_head: bool,
    is_http2: bool,
    secrets: usize,
}

impl Command {
    fn take_all(&mut self, mut words: impl Iterator<Item = String>) -> Result<(), String> {
        while let Some(word) = words.next() {
            if word.starts_with("--") {
                // `--request POST` and `--request=POST`.
                let (option, attached) = match word.split_once('=') {
                    Some((option, value)) => (option, Some(value)),
                    None => (word.as_str(), None),
                };
                self.take(option, attached, &mut words)?;
            } else if word.starts_with('-') && word != "-" {
                self.take_letters(&word, &mut words)?;
            } else {
                self.set_url(word)?;
            }
        }
        Ok(())
    }

    /// Several letters in one word: the first that takes a value has the rest of the word as its value
    /// (`-sXPOST`).
    fn take_letters(&mut self, word: &str, words: &mut impl Iterator<Item = String>) -> Result<(), String> {
        for (at, letter) in word.char_indices().skip(1) {
            let option = format!("-{letter}");
            let rest = &word[at + letter.len_utf8()..];
            if meaning(&option)?.takes_value() {
                return self.take(&option, (!rest.is_empty()).then_some(rest), words);
            }
            self.take(&option, None, words)?;
        }
        Ok(())
    }

    fn take(
        &mut self,
        option: &str,
        attached: Option<&str>,
        words: &mut impl Iterator<Item = String>,
    ) -> Result<(), String> {
        let meaning = meaning(option)?;
        let value = match attached {
            _ if !meaning.takes_value() => String::new(),
            Some(value) => value.to_string(),
            None => words.next().ok_or_else(|| format!("{option} takes a value, and there is none"))?,
        };
        match meaning {
            OptionMeaning::Nothing | OptionMeaning::Value => {}
            OptionMeaning::Head => self.is_head = true,
            OptionMeaning::Get => self.is_get = true,
            OptionMeaning::Http2 => self.is_http2 = true,
            OptionMeaning::Compressed => self.add_field("Accept-Encoding", "gzip, deflate, br")?,
            OptionMeaning::Url => self.set_url(value)?,
            OptionMeaning::UrlQuery => self.query.push(match value.strip_prefix('+') {
                Some(as_it_is) => as_it_is.to_string(),
                None => url_encoded(option, &value)?,
            }),
            OptionMeaning::Method => self.method = Some(value.to_ascii_uppercase()),
            OptionMeaning::Header => self.add_header(&value)?,
            OptionMeaning::Field(name) => self.add_field(name, &value)?,
            OptionMeaning::User => {
                self.add_field("Authorization", &format!("Basic {}", STANDARD.encode(value)))?
            }
            OptionMeaning::Bearer => self.add_field("Authorization", &format!("Bearer {value}"))?,
            // Without an equals sign it is the name of a file.
            OptionMeaning::Cookie if !value.contains('=') => self.secrets += 1,
            OptionMeaning::Cookie => self.add_field("Cookie", &value)?,
            OptionMeaning::Json => {
                self.is_json = true;
                self.add_data("", &inline(option, value)?);
            }
            OptionMeaning::Data => self.add_data("&", &inline(option, value)?),
            OptionMeaning::DataRaw => self.add_data("&", &value),
            OptionMeaning::DataUrlencode => self.add_data("&", &url_encoded(option, &value)?),
            OptionMeaning::Files => {
                return Err(format!(
                    "{option} sends files or the parts of a form, which cannot be imported: state the body \
                     with --data-raw"
                ));
            }
        }
        Ok(())
    }

    fn add_field(&mut self, name: &str, value: &str) -> Result<(), String> {
        if !is_field_value(value) {
            return Err(format!(
                "{name}: a header field has no control characters, and this one has: {value:?}"
            ));
        }
        self.headers.push((name.to_string(), value.to_string()));
        Ok(())
    }

    /// Pieces of data are joined with `&`, those of JSON directly.
    fn add_data(&mut self, between: &str, data: &str) {
        match &mut self.data {
            Some(known) => {
                known.push_str(between);
                known.push_str(data);
            }
            None => self.data = Some(data.to_string()),
        }
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
        if let Some(file) = header.strip_prefix('@') {
            return Err(format!(
                "-H takes header fields from the file {file}, which is not read: put them into the command"
            ));
        }
        match header.split_once(':') {
            // `-H 'Name:'` removes a field that curl would send itself, `-H 'Name;'` sends the field empty.
            Some((name, value)) if value.trim().is_empty() => {
                self.removed.push(name.trim().to_ascii_lowercase());
            }
            Some((name, value)) => self.add_field(name.trim(), value.trim())?,
            None => match header.strip_suffix(';') {
                Some(name) => self.add_field(name.trim(), "")?,
                None => return Err(format!("{header:?} is not a header field: write \"name: value\"")),
            },
        }
        Ok(())
    }

    fn recording(mut self, with_secrets: bool) -> Result<Recording, String> {
        let url = self.whole_url()?;
        let body = self.data.take();
        let (path, origin) = place_of(&url)?;
        let method = match &self.method {
            Some(method) => method.clone(),
            None if self.is_head => "HEAD".to_string(),
            None if body.is_some() => "POST".to_string(),
            None => "GET".to_string(),
        };
        if !is_method(&method) {
            return Err(format!("{method:?} is not a method that a load can have"));
        }
        self.add_content_type(body.is_some());
        let (headers, notes) = self.fields(with_secrets);
        Ok(Recording {
            origin,
            is_http2: self.is_http2,
            requests: vec![RecordedRequest { method, headers, body, ..RecordedRequest::get(path) }],
            notes,
            ..Recording::default()
        })
    }

    /// The URL with its query and without a user, which becomes a field.
    fn whole_url(&mut self) -> Result<String, String> {
        let url = self.url.take().ok_or("there is no URL in the command")?;
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", &url));
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let host = match authority.rsplit_once('@') {
            Some((user, host)) => {
                self.add_field("Authorization", &format!("Basic {}", STANDARD.encode(user)))?;
                host
            }
            None => authority,
        };
        let mut url = format!("{scheme}://{host}{}", path.split('#').next().unwrap_or_default());
        let data = if self.is_get { self.data.take() } else { None };
        for more in self.query.drain(..).chain(data).filter(|more| !more.is_empty()) {
            url.push(if url.contains('?') { '&' } else { '?' });
            url.push_str(&more);
        }
        Ok(url)
    }

    /// The fields that are imported, and the notes on the others.
    fn fields(&self, with_secrets: bool) -> (Vec<String>, Vec<String>) {
        let (mut fields, mut left_out, mut secrets) = (Vec::new(), Vec::new(), self.secrets);
        for (name, value) in &self.headers {
            if taken_over(name, value, with_secrets) || name.eq_ignore_ascii_case("user-agent") {
                fields.push(format!("{name}: {value}"));
            } else if is_secret(name) {
                secrets += 1;
            } else {
                left_out.push(name.as_str());
            }
        }
        let mut notes = Vec::new();
        if secrets > 0 {
            notes.push(format!("left out: {secrets} header fields with credentials"));
        }
        if !left_out.is_empty() {
            notes.push(format!(
                "left out: {}, which belong to a connection, a browser or a cache",
                left_out.join(", ")
            ));
        }
        (fields, notes)
    }

    /// The fields that curl adds itself.
    fn add_content_type(&mut self, has_body: bool) {
        let states = |name: &str| {
            self.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name))
                || self.removed.contains(&name.to_ascii_lowercase())
        };
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
        for (name, value) in add {
            self.headers.push((name.to_string(), value.to_string()));
        }
    }
}

/// A value that is in the command itself, not in a file.
fn inline(option: &str, value: String) -> Result<String, String> {
    match value.strip_prefix('@') {
        Some(file) => Err(of_a_file(option, file)),
        None => Ok(value),
    }
}

fn of_a_file(option: &str, file: &str) -> String {
    format!("{option} takes its data from the file {file}, which is not read: put the data into the command")
}

/// `name=value` with the value encoded, or all of it; a file name follows `@`.
fn url_encoded(option: &str, data: &str) -> Result<String, String> {
    match data.find(['=', '@']).map(|at| (&data[..at], &data[at..at + 1], &data[at + 1..])) {
        Some((_, "@", file)) => Err(of_a_file(option, file)),
        Some(("", _, value)) => Ok(form_encoded(value)),
        Some((name, _, value)) => Ok(format!("{name}={}", form_encoded(value))),
        None => Ok(form_encoded(data)),
    }
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
        let request =
            one("curl 'http://localhost:81/a?b=c' \\\n  -H 'Accept: text/html' --compressed -sS -H \"X-A: \
             \\\"1\\\"\"");
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
    fn a_field_with_control_characters_is_refused() {
        for command in
            ["curl http://h/ -A $'a\\x01b'", "curl http://h/ -H $'X: a\\nb'", "curl http://h/ -b $'a=\\x7f'"]
        {
            let error = read("a command", command, true).unwrap_err();
            assert!(error.to_string().contains("control characters"), "{command}: {error}");
        }
    }

    #[test]
    fn options_mean_what_they_mean_to_curl() {
        // Letters together, the last with its value.
        let request = one("curl -sSLXPUT -odump http://h/a -Isk");
        assert_eq!((request.method.as_str(), request.path.as_str()), ("PUT", "/a"));
        assert_eq!(one("curl -sGd q=1 http://h/s").path, "/s?q=1");
        assert_eq!(one("curl -Id q=1 -G http://h/s#part").path, "/s?q=1");
        // Pieces of JSON are joined directly.
        let request = one("curl http://h/ --json '{\"a\":' --json 1} -H 'Accept:' -H 'X-Empty;'");
        assert_eq!(request.body.as_deref(), Some("{\"a\":1}"));
        assert_eq!(request.headers, ["X-Empty: ", "Content-Type: application/json"]);
        assert_eq!(one("curl http://h/?a --url-query 'b=c d' --url-query +e=%20").path, "/?a&b=c%20d&e=%20");
        assert_eq!(one("curl http://h/ -d ''").body.as_deref(), Some(""));
        let recording = read("a command", "curl http://me:secret@h/x", true).unwrap();
        assert_eq!(recording.origin.as_deref(), Some("http://h"));
        assert_eq!(recording.requests[0].headers, ["Authorization: Basic bWU6c2VjcmV0"]);
    }

    /// A form as Chromium 13x copies it, shortened.
    #[test]
    fn what_a_browser_copies_is_read() {
        let command = "curl 'http://127.0.0.1:8080/login?next=%2F' \\\n  -H 'Accept: text/html,*/*;q=0.8' \
                       \\\n  -H 'Cache-Control: max-age=0' \\\n  -H 'Content-Type: \
                       application/x-www-form-urlencoded' \\\n  -b 'session=abc' \\\n  -H 'Origin: \
                       http://127.0.0.1:8080' \\\n  -H 'Sec-Fetch-Mode: navigate' \\\n  -H 'User-Agent: \
                       Mozilla/5.0' \\\n  --data-raw $'name=O\\'Neil\\u0021&ok=1' \\\n  --insecure";
        let recording = read("a command", command, false).unwrap();
        let request = &recording.requests[0];
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/login?next=%2F"));
        assert_eq!(request.body.as_deref(), Some("name=O'Neil!&ok=1"));
        assert_eq!(
            request.headers,
            [
                "Accept: text/html,*/*;q=0.8",
                "Content-Type: application/x-www-form-urlencoded",
                "Origin: http://127.0.0.1:8080",
                "User-Agent: Mozilla/5.0"
            ]
        );
        assert_eq!(
            recording.notes,
            [
                "left out: 1 header fields with credentials",
                "left out: Cache-Control, Sec-Fetch-Mode, which belong to a connection, a browser or a cache"
            ]
        );
    }

    #[test]
    fn credentials_are_left_out_unless_requested() {
        let command = "curl http://h/ -b id=1 -u me:secret -H 'X-Trace: 1'";
        let recording = read("a command", command, false).unwrap();
        assert_eq!(recording.requests[0].headers, ["X-Trace: 1"]);
        assert_eq!(recording.notes, ["left out: 2 header fields with credentials"]);
        let recording = read("a command", command, true).unwrap();
        assert_eq!(
            recording.requests[0].headers,
            ["Cookie: id=1", "Authorization: Basic bWU6c2VjcmV0", "X-Trace: 1"]
        );
    }

    #[test]
    fn what_cannot_be_taken_over_says_so() {
        for (command, said) in [
            ("wget http://h/", "c: this is not a curl command"),
            ("curl", "c: there is no URL"),
            ("curl http://h/ http://i/", "c: two URLs"),
            ("curl http://h/ -d @file", "c: -d takes its data from the file file"),
            (
                "curl http://h/ --data-urlencode n@file",
                "c: --data-urlencode takes its data from the file file",
            ),
            ("curl http://h/ -H @file", "c: -H takes header fields from the file file"),
            ("curl http://h/ -sFa=@b", "c: -F sends files"),
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
        fn no_text_makes_the_reader_panic(text in "curl( ('[a-z:/ \
                                                   é]{0,9}'|-[a-zA-Z#]{1,3}|--[a-z-]{1,9}=?|\\$'\\\\[a-z0-9]{0,5}'|http://h/[a-z?%é]{0,5}|\"\\\\?[a-z\"]{0,3}\")){0,6}") {
            let _ = read("any", &text, true);
        }
    }
}
