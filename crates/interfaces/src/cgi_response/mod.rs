//! Reads the answer of a program: the CGI response of RFC 3875 section 6, without input and output.
//!
//! [`ResponseParser::feed`] takes bytes as they arrive and returns a [`ProgramResponse`] once the header has
//! ended; the bytes after it are the beginning of the body. CGI, FastCGI and SCGI programs answer in this
//! form.
//!
//! Lines end in LF or CRLF. A first line `HTTP/1.1 404 Not Found` is accepted as the status too: programs
//! that answer the client themselves (non-parsed header programs, section 5) begin with it, and others do so
//! by mistake. Such a program may send interim responses first, and its body in chunks; see
//! [`ResponseParser::take_interim`] and [`DocumentHead::is_chunked`]. Field names and values are checked as
//! strictly as a client's, because they are sent to a client: no output of a program can become a second
//! header field or a second response. Fields that the server itself sets are left out.

use std::fmt;

use touchstone_http::decimal;
use touchstone_http::grammar::{is_field_value_byte, is_token, trim_optional_white_space};

use touchstone_handler::interim::{InterimResponse, TakesInterim};
use touchstone_handler::reason_phrase::ReasonPhrase;

/// The most interim responses before the final one.
const MOST_INTERIM: usize = 32;

/// Limits for the header of a program's response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderLimits {
    /// Bytes up to the empty line.
    pub bytes: usize,
    /// Field lines.
    pub fields: usize,
}

impl Default for HeaderLimits {
    fn default() -> HeaderLimits {
        HeaderLimits { bytes: 64 * 1024, fields: 256 }
    }
}

/// The response of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramResponse {
    /// Send this (sections 6.2.1, 6.2.3 and 6.2.4).
    Document(DocumentHead),
    /// Answer as if the client had requested this path, with an optional query, by GET (section 6.2.2).
    /// Further output of the program is ignored.
    LocalRedirect(Vec<u8>),
}

/// The head of a program's response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DocumentHead {
    /// 200 to 599.
    pub status: u16,
    /// The reason phrase of the status.
    pub reason: Option<ReasonPhrase>,
    /// Field lines with their CRLF: without Content-Length, Date, Server and fields that frame the message.
    pub fields: Vec<u8>,
    /// The length that the program declares.
    pub content_length: Option<u64>,
    /// The body is chunked (RFC 9112 section 7.1): the program has answered with a status line, as a server
    /// does.
    pub is_chunked: bool,
    /// `X-Accel-Redirect`: the path of a file to be sent instead of the body.
    pub accel_redirect: Option<Vec<u8>>,
}

impl DocumentHead {
    /// Names and values of the fields.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.split(|&byte| byte == b'\n').filter_map(|line| {
            let colon = line.iter().position(|&byte| byte == b':')?;
            let value = line[colon + 1..].strip_suffix(b"\r")?;
            Some((&line[..colon], trim_optional_white_space(value)))
        })
    }

    /// The value of the first field of that name, in any case.
    pub fn field(&self, name: &[u8]) -> Option<&[u8]> {
        self.iter().find(|(each, _)| each.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// Why a program's output is not a response; the client gets 502.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseError {
    /// It is empty.
    Nothing,
    /// It ended within the header.
    EndedInHeader,
    /// It begins with an empty line: there is no header.
    NoHeader,
    /// A line is not `Name: value`; holds its beginning.
    NotAField(String),
    /// A value holds a control byte; holds the field's name.
    ControlByte(String),
    /// `Status` is not a number from 200 to 599; holds its value.
    Status(String),
    /// `Location` holds white space, or is empty; holds its value.
    Location(String),
    /// `Content-Length` is not one number.
    ContentLength,
    /// `Status`, `Location` or `Content-Type` occurs twice; holds its name.
    Twice(&'static str),
    /// It answers as a server does, with a Transfer-Encoding other than `chunked`.
    TransferEncoding,
    /// It sends too many interim responses.
    TooManyInterim,
    /// The header is longer than [`HeaderLimits::bytes`].
    TooLong(usize),
    /// It has more fields than [`HeaderLimits::fields`].
    TooManyFields(usize),
}

impl fmt::Display for ResponseError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResponseError::Nothing => formatter.write_str("it printed nothing"),
            ResponseError::EndedInHeader => formatter.write_str("its output ended within the header"),
            ResponseError::NoHeader => {
                formatter.write_str("its output begins with an empty line instead of a header field")
            }
            ResponseError::NotAField(line) => {
                write!(formatter, "its header has a line that is not \"Name: value\": {line:?}")
            }
            ResponseError::ControlByte(name) => {
                write!(formatter, "the value of its header field {name} holds a control byte")
            }
            ResponseError::Status(value) => {
                write!(formatter, "its Status is not a number from 200 to 599: {value:?}")
            }
            ResponseError::Location(value) => write!(formatter, "its Location is not an address: {value:?}"),
            ResponseError::ContentLength => formatter.write_str("its Content-Length is not one number"),
            ResponseError::Twice(name) => write!(formatter, "its header field {name} appears twice"),
            ResponseError::TransferEncoding => {
                formatter.write_str("its Transfer-Encoding is not chunked, which is all that is understood")
            }
            ResponseError::TooManyInterim => {
                write!(formatter, "it sent more than {MOST_INTERIM} interim responses")
            }
            ResponseError::TooLong(bytes) => write!(formatter, "its header is longer than {bytes} bytes"),
            ResponseError::TooManyFields(fields) => {
                write!(formatter, "its header has more than {fields} fields")
            }
        }
    }
}

impl std::error::Error for ResponseError {}

/// Reads a response as it arrives.
#[derive(Debug)]
pub struct ResponseParser {
    limits: HeaderLimits,
    /// Received bytes of an incomplete header.
    pending: Vec<u8>,
    /// How many of these bytes were searched for the end.
    seen: usize,
    interim: Vec<InterimResponse>,
    /// All interim responses so far, including those already taken.
    interim_count: usize,
}

/// The kind of response that a header belongs to.
enum HeaderKind {
    Response(ProgramResponse),
    Interim(InterimResponse),
}

impl ResponseParser {
    /// A parser before the first byte.
    pub fn new(limits: HeaderLimits) -> ResponseParser {
        ResponseParser { limits, pending: Vec::new(), seen: 0, interim: Vec::new(), interim_count: 0 }
    }

    /// The interim responses that have arrived since the last call, in order.
    pub fn take_interim(&mut self) -> Vec<InterimResponse> {
        std::mem::take(&mut self.interim)
    }

    /// Takes received bytes. Returns the response once its header is complete, and how many of *these* bytes
    /// belong to the header; the body follows them.
    ///
    /// # Errors
    /// The bytes cannot become a response.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Option<(ProgramResponse, usize)>, ResponseError> {
        let mut passed = 0;
        while let Some((head, end)) = self.feed_header(&bytes[passed..])? {
            passed += end;
            match head {
                HeaderKind::Response(response) => return Ok(Some((response, passed))),
                HeaderKind::Interim(_) if self.interim_count == MOST_INTERIM => {
                    return Err(ResponseError::TooManyInterim);
                }
                HeaderKind::Interim(interim) => {
                    self.interim_count += 1;
                    self.seen = 0;
                    self.interim.push(interim);
                }
            }
        }
        Ok(None)
    }

    fn feed_header(&mut self, bytes: &[u8]) -> Result<Option<(HeaderKind, usize)>, ResponseError> {
        // Usually the whole header arrives at once, and is parsed in place.
        if self.pending.is_empty() {
            let end = self.header_end(bytes)?;
            if let Some(end) = end {
                return Ok(Some((self.response(&bytes[..end])?, end)));
            }
            self.pending.extend_from_slice(bytes);
            return Ok(None);
        }
        let before = self.pending.len();
        self.pending.extend_from_slice(bytes);
        let pending = std::mem::take(&mut self.pending);
        match self.header_end(&pending)? {
            Some(end) => Ok(Some((self.response(&pending[..end])?, end - before))),
            None => {
                self.pending = pending;
                Ok(None)
            }
        }
    }

    /// Why there is no response if the output ends here.
    pub fn ended(&self) -> ResponseError {
        if self.pending.is_empty() { ResponseError::Nothing } else { ResponseError::EndedInHeader }
    }

    /// Where the header ends, with its empty line. Each byte is searched only once, however the bytes arrive.
    fn header_end(&mut self, all: &[u8]) -> Result<Option<usize>, ResponseError> {
        let window = &all[..all.len().min(self.limits.bytes)];
        let mut line_start = self.seen;
        while let Some(length) = memchr::memchr(b'\n', &window[line_start..]) {
            let line = &window[line_start..line_start + length];
            line_start += length + 1;
            if matches!(line, b"" | b"\r") {
                return Ok(Some(line_start));
            }
        }
        // Output without a header is refused at its first line, not only when the limit is reached.
        if self.seen == 0 && line_start > 0 {
            check_first_line(window)?;
        }
        self.seen = line_start;
        if window.len() < self.limits.bytes {
            Ok(None)
        } else {
            Err(ResponseError::TooLong(self.limits.bytes))
        }
    }

    /// The response with this header, which ends with an empty line.
    fn response(&self, header: &[u8]) -> Result<HeaderKind, ResponseError> {
        let mut collected = HeaderFields::default();
        let lines = header.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        for (index, line) in lines.take_while(|line| !line.is_empty()).enumerate() {
            if index == 0
                && let Some(status_line) = line.strip_prefix(b"HTTP/")
            {
                let mut parts = status_line.splitn(3, |&byte| byte == b' ').skip(1);
                let status = parts.next().unwrap_or_default();
                match parse_number(status) {
                    // A program must not switch protocols.
                    Some(status @ 100..=199) if status != 101 => collected.interim = Some(status),
                    _ => {
                        let status = parse_status(status)?;
                        collected.reason = ReasonPhrase::new(status, parts.next().unwrap_or_default());
                        collected.status = Some(status);
                    }
                }
                collected.has_status_line = true;
                collected.lines += 1;
                continue;
            }
            if collected.lines == self.limits.fields {
                return Err(ResponseError::TooManyFields(self.limits.fields));
            }
            collected.take(line)?;
        }
        match collected.interim {
            Some(status) => Ok(HeaderKind::Interim(InterimResponse { status, fields: collected.fields })),
            None => collected.response().map(HeaderKind::Response),
        }
    }
}

/// The contents of the header, collected line by line.
#[derive(Default)]
struct HeaderFields {
    lines: usize,
    status: Option<u16>,
    reason: Option<ReasonPhrase>,
    has_status_line: bool,
    /// The status of an interim response.
    interim: Option<u16>,
    is_chunked: bool,
    location: Option<Vec<u8>>,
    has_content_type: bool,
    content_length: Option<u64>,
    accel_redirect: Option<Vec<u8>>,
    /// There are fields other than Location and Content-Type.
    has_others: bool,
    fields: Vec<u8>,
}

impl HeaderFields {
    fn take(&mut self, line: &[u8]) -> Result<(), ResponseError> {
        let (name, value) = split_field(line)?;
        self.lines += 1;
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        if is(b"status") {
            let space = value.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(value.len());
            let (number, phrase) = value.split_at(space);
            let status = parse_status(number)?;
            self.reason = ReasonPhrase::new(status, phrase);
            return match self.status.replace(status) {
                None => Ok(()),
                Some(_) => Err(ResponseError::Twice("Status")),
            };
        }
        if is(b"content-length") {
            let length = decimal::parse(value).ok_or(ResponseError::ContentLength)?;
            return match self.content_length.replace(length) {
                Some(other) if other != length => Err(ResponseError::ContentLength),
                _ => Ok(()),
            };
        }
        if is(b"location") {
            if value.is_empty() || value.iter().any(|&byte| byte <= b' ') {
                return Err(ResponseError::Location(shown(value)));
            }
            if self.location.replace(value.to_vec()).is_some() {
                return Err(ResponseError::Twice("Location"));
            }
        } else if is(b"content-type") {
            if std::mem::replace(&mut self.has_content_type, true) {
                return Err(ResponseError::Twice("Content-Type"));
            }
        } else if is(b"x-accel-redirect") {
            self.accel_redirect = Some(value.to_vec());
            return Ok(());
        } else if is(b"transfer-encoding") && self.has_status_line {
            // Without a status line, the field has always been ignored.
            self.is_chunked = match value.eq_ignore_ascii_case(b"chunked") && !self.is_chunked {
                true => true,
                false => return Err(ResponseError::TransferEncoding),
            };
            return Ok(());
        } else if is_left_out(name) {
            return Ok(());
        } else {
            self.has_others = true;
        }
        for piece in [name, b": ", value, b"\r\n"] {
            self.fields.extend_from_slice(piece);
        }
        Ok(())
    }

    fn response(self) -> Result<ProgramResponse, ResponseError> {
        if self.lines == 0 {
            return Err(ResponseError::NoHeader);
        }
        if self.accel_redirect.is_none()
            && self.status.is_none()
            && !self.has_others
            && let Some(location) = &self.location
            && location.starts_with(b"/")
            && !location.starts_with(b"//")
        {
            return Ok(ProgramResponse::LocalRedirect(location.clone()));
        }
        let default = if self.location.is_some() { 302 } else { 200 };
        Ok(ProgramResponse::Document(DocumentHead {
            status: self.status.unwrap_or(default),
            reason: self.reason,
            fields: self.fields,
            // RFC 9112 section 6.3: Transfer-Encoding overrides Content-Length.
            content_length: self.content_length.filter(|_| !self.is_chunked),
            is_chunked: self.is_chunked,
            accel_redirect: self.accel_redirect,
        }))
    }
}

/// Whether a program's field is not passed on.
pub(crate) fn is_left_out(name: &[u8]) -> bool {
    LEFT_OUT.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Fields that frame the message or that the server itself sets (RFC 9110 sections 6.6.1, 7.6.1 and 10.2.4).
const LEFT_OUT: [&[u8]; 9] = [
    b"connection",
    b"keep-alive",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
    b"date",
    b"server",
];

fn check_first_line(header: &[u8]) -> Result<(), ResponseError> {
    let line = header.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() || line.starts_with(b"HTTP/") {
        return Ok(());
    }
    split_field(line).map(|_| ())
}

fn split_field(line: &[u8]) -> Result<(&[u8], &[u8]), ResponseError> {
    let not_a_field = || ResponseError::NotAField(shown(line));
    let colon = memchr::memchr(b':', line).ok_or_else(not_a_field)?;
    let name = &line[..colon];
    if !is_token(name) {
        return Err(not_a_field());
    }
    let value = trim_optional_white_space(&line[colon + 1..]);
    if !value.iter().all(|&byte| is_field_value_byte(byte)) {
        return Err(ResponseError::ControlByte(shown(name)));
    }
    Ok((name, value))
}

fn parse_number(digits: &[u8]) -> Option<u16> {
    decimal::parse(digits).filter(|_| digits.len() == 3).and_then(|number| u16::try_from(number).ok())
}

fn parse_status(digits: &[u8]) -> Result<u16, ResponseError> {
    // An interim response needs a status line, and a program must not switch protocols.
    match parse_number(digits) {
        Some(status @ 200..=599) => Ok(status),
        _ => Err(ResponseError::Status(shown(digits))),
    }
}

/// The beginning of a program's output, for a log line.
fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned()
}

/// Passes the interim responses that have arrived to the client.
pub(crate) fn pass_interim(parser: &mut ResponseParser, client: Option<&dyn TakesInterim>) {
    for interim in parser.take_interim() {
        if let Some(client) = client {
            client.interim().push(interim.status, interim.fields);
        }
    }
}

#[cfg(test)]
mod tests;
