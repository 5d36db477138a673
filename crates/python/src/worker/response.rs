//! The head of an answer of an application: checks it, and writes it in the server's form.

use touchstone_http::grammar::{is_field_value_byte, is_token};

use crate::shared::head::prefix;

/// The head of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The reason phrase.
    pub reason: Vec<u8>,
    /// The field lines, each with its CRLF.
    pub lines: Vec<u8>,
    /// The length of the body, if the application has declared it.
    pub content_length: Option<u64>,
}

impl Response {
    /// A response with a WSGI status line: `200 OK`.
    ///
    /// # Errors
    /// It is not valid; the text states why.
    pub fn of_status_line(line: &[u8]) -> Result<Response, String> {
        let (digits, rest) = line.split_at(line.len().min(3));
        let status = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        let is_well_formed = digits.iter().all(u8::is_ascii_digit) && matches!(rest, [] | [b' ', ..]);
        let Some(status) = status.filter(|status| is_well_formed && (200..=999).contains(status)) else {
            return Err(format!(
                "{:?} is not a status of an answer, such as '200 OK'",
                line.escape_ascii().to_string()
            ));
        };
        let reason = rest.trim_ascii();
        if !reason.iter().all(|byte| is_field_value_byte(*byte)) {
            return Err("a control character in the status".to_string());
        }
        Ok(Response { status, reason: reason.to_vec(), ..Response::default() })
    }

    /// A response with this status.
    ///
    /// # Errors
    /// The status is not valid in an answer.
    pub fn of_status(status: i64) -> Result<Response, String> {
        match u16::try_from(status) {
            Ok(status @ 200..=999) => Ok(Response { status, ..Response::default() }),
            _ => Err(format!("{status} is not a status of an answer: it must be from 200 to 999")),
        }
    }

    /// Adds a field. Fields that frame a message or belong to the connection are left to the server.
    ///
    /// # Errors
    /// It is not valid; the text states why.
    pub fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), String> {
        if !is_token(name) {
            return Err(format!("{:?} is not a name of a header field", name.escape_ascii().to_string()));
        }
        let value = value.trim_ascii();
        if !value.iter().all(|byte| is_field_value_byte(*byte)) {
            return Err(format!(
                "the header field {} has a control character in its value",
                String::from_utf8_lossy(name)
            ));
        }
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = std::str::from_utf8(value).ok().filter(|text| !text.starts_with('+'));
            let length = length.and_then(|text| text.parse().ok());
            let length = length
                .ok_or_else(|| format!("{:?} is no Content-Length", value.escape_ascii().to_string()))?;
            if self.content_length.is_some_and(|before| before != length) {
                return Err("two different values of Content-Length".to_string());
            }
            self.content_length = Some(length);
            return Ok(());
        }
        if !is_of_server(name) {
            for piece in [name, b": ", value, b"\r\n"] {
                self.lines.extend_from_slice(piece);
            }
        }
        Ok(())
    }

    /// The parts of the head in the server's form.
    pub fn with_parts<T>(&self, length: Option<u64>, give: impl FnOnce([&[u8]; 3]) -> T) -> T {
        let prefix = prefix(self.status, self.reason.len(), self.lines.len(), length);
        give([&prefix, &self.reason, &self.lines])
    }

    /// Whether a body can follow (RFC 9110 section 6.4.1).
    pub fn has_body(&self) -> bool {
        !matches!(self.status, 204 | 304)
    }
}

/// Whether the server sets this field itself: the fields of a connection (RFC 9110 section 7.6.1), and its
/// own.
fn is_of_server(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 9] = [
        b"te",
        b"date",
        b"server",
        b"trailer",
        b"upgrade",
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"transfer-encoding",
    ];
    NAMES.iter().any(|other| name.eq_ignore_ascii_case(other))
}

/// Appends text whose characters are bytes; returns false for other text.
pub fn append_latin1(out: &mut Vec<u8>, text: &str) -> bool {
    if text.is_ascii() {
        out.extend_from_slice(text.as_bytes());
        return true;
    }
    text.chars().all(|letter| {
        let byte = u8::try_from(u32::from(letter));
        out.extend(byte);
        byte.is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn status_lines() {
        for (line, status, reason) in [
            ("200 OK", 200, "OK"),
            ("404 Gone fishing", 404, "Gone fishing"),
            ("299", 299, ""),
            ("200 ", 200, ""),
        ] {
            let response = Response::of_status_line(line.as_bytes()).unwrap();
            assert_eq!((response.status, &response.reason[..]), (status, reason.as_bytes()), "{line}");
        }
        for line in
            ["", "OK", "20", "200OK", "+20 OK", "100 Continue", "101 Switching", "200 a\r\nB: c", "2000"]
        {
            assert!(Response::of_status_line(line.as_bytes()).is_err(), "{line}");
        }
        assert!(Response::of_status(199).is_err() && Response::of_status(-1).is_err());
        assert_eq!(Response::of_status(404).map(|response| response.status), Ok(404));
    }

    #[test]
    fn fields_are_checked_and_those_of_the_server_left_out() {
        let mut response = Response::default();
        for (name, value) in [
            ("Content-Type", " text/plain "),
            ("Connection", "close"),
            ("transfer-encoding", "chunked"),
            ("Date", "now"),
            ("Content-Length", "12"),
            ("Set-Cookie", "a=b"),
            ("Set-Cookie", "c=d"),
        ] {
            assert_eq!(response.add(name.as_bytes(), value.as_bytes()), Ok(()), "{name}");
        }
        assert_eq!(response.content_length, Some(12));
        assert_eq!(
            &response.lines[..],
            b"Content-Type: text/plain\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\n"
        );
        for (name, value) in [
            ("X", "a\r\nSet-Cookie: b"),
            ("X", "a\nb"),
            ("X", "a\0b"),
            ("X\r\nY", "a"),
            ("X Y", "a"),
            ("", "a"),
            ("Content-Length", "13"),
            ("Content-Length", "-1"),
            ("Content-Length", "+12"),
        ] {
            assert!(response.add(name.as_bytes(), value.as_bytes()).is_err(), "{name}: {value}");
        }
    }

    #[test]
    fn text_beyond_latin_1_is_no_header() {
        let mut out = Vec::new();
        assert!(append_latin1(&mut out, "caf\u{e9}"));
        assert_eq!(out, b"caf\xe9");
        assert!(!append_latin1(&mut out, "\u{20ac}"));
    }

    proptest! {
        #[test]
        fn no_field_becomes_two(name: Vec<u8>, value: Vec<u8>) {
            let mut response = Response::default();
            if response.add(&name, &value).is_ok() {
                prop_assert!(response.lines.iter().filter(|byte| **byte == b'\n').count() <= 1);
                prop_assert!(touchstone_http::field_lines::are_valid(&response.lines));
            }
        }
    }
}
