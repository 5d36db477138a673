//! Converts the text of a case to the bytes to send: placeholders are filled in, and a character up to U+00FF
//! becomes the byte with its number.

use serde::{Deserialize, Serialize};
use touchstone_http::date::{Civil, civil_from_unix, format_imf_fixdate, parse_http_date};

/// The facts about a server and its page, determined before the cases run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The value of Host and `:authority`.
    pub host: String,
    /// The path of the page.
    pub page: String,
    /// The length of its body, bytes.
    pub size: u64,
    /// Its entity tag, if it has one.
    pub etag: Option<String>,
    /// Its `Last-Modified`, if it has one.
    pub modified: Option<String>,
    /// Its media type.
    pub content_type: Option<String>,
}

impl Facts {
    /// Fills in the placeholders of a text. `url` is the path of the case below the origin; times are
    /// relative to `now`, a Unix time.
    pub fn fill(&self, text: &str, url: &str, now: i64) -> String {
        let mut filled = String::with_capacity(text.len() + 128);
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            let (before, from) = rest.split_at(open);
            filled.push_str(before);
            let value = from
                .find('}')
                .and_then(|close| self.value(&from[1..close], url, now).map(|value| (value, close + 1)));
            match value {
                Some((value, length)) => {
                    filled.push_str(&value);
                    rest = &from[length..];
                }
                None => {
                    filled.push('{');
                    rest = &from[1..];
                }
            }
        }
        filled.push_str(rest);
        filled
    }

    /// `Last-Modified` in another format; empty if there is none.
    fn modified_as(&self, form: fn(&Civil) -> String) -> String {
        let seconds = self.modified.as_ref().and_then(|date| parse_http_date(date.as_bytes(), 0));
        seconds.map(|seconds| form(&civil_from_unix(seconds))).unwrap_or_default()
    }

    fn value(&self, name: &str, url: &str, now: i64) -> Option<String> {
        Some(match name {
            "get" => format!("GET {} HTTP/1.1\r\nHost: {}\r\n", self.page, self.host),
            "page" => self.page.clone(),
            "host" => self.host.clone(),
            "url" => url.to_owned(),
            "size" => self.size.to_string(),
            "last" => self.size.saturating_sub(1).to_string(),
            "etag" => self.etag.clone().unwrap_or_default(),
            "opaque" => self.etag.as_deref().unwrap_or_default().trim_start_matches("W/").to_owned(),
            "modified-rfc850" => self.modified_as(rfc850),
            "modified-asctime" => self.modified_as(asctime),
            "modified" => self.modified.clone().unwrap_or_default(),
            _ => return repeated(name).or_else(|| date(name, now)),
        })
    }
}

/// The obsolete format of a date with a year of two digits (RFC 9110 section 5.6.7).
fn rfc850(date: &Civil) -> String {
    let day = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
    format!(
        "{}, {:02}-{}-{:02} {:02}:{:02}:{:02} GMT",
        day[usize::from(date.weekday) % 7],
        date.day,
        month(date),
        date.year % 100,
        date.hour,
        date.minute,
        date.second
    )
}

/// The format of a date that C's `asctime` writes.
fn asctime(date: &Civil) -> String {
    let day = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    format!(
        "{} {} {:2} {:02}:{:02}:{:02} {}",
        day[usize::from(date.weekday) % 7],
        month(date),
        date.day,
        date.hour,
        date.minute,
        date.second,
        date.year
    )
}

fn month(date: &Civil) -> &'static str {
    const NAMES: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    NAMES[(usize::from(date.month) + 11) % 12]
}

/// `now`, `now+60`, `now-60`: a date.
fn date(name: &str, now: i64) -> Option<String> {
    let offset = name.strip_prefix("now")?;
    let seconds = if offset.is_empty() { 0 } else { offset.parse::<i64>().ok()? };
    Some(format_imf_fixdate(now.saturating_add(seconds)).iter().map(|&byte| char::from(byte)).collect())
}

/// `9000*a`: a repeated text.
fn repeated(name: &str) -> Option<String> {
    let (count, text) = name.split_once('*')?;
    Some(text.repeat(count.parse::<usize>().ok().filter(|&count| count <= 1 << 20)?))
}

/// The bytes of a text; `None` if a character is above U+00FF.
pub fn bytes(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_and_other_braces_stay() {
        let facts = Facts { host: "h".into(), page: "/p".into(), size: 10, ..Facts::default() };
        let fill = |text| facts.fill(text, "/u", 0);
        assert_eq!(
            fill("{get}X: {size}-{last} {url} {3*ab}"),
            "GET /p HTTP/1.1\r\nHost: h\r\nX: 10-9 /u ababab"
        );
        assert_eq!(fill("{now+1}"), "Thu, 01 Jan 1970 00:00:01 GMT");
        assert_eq!(fill("{x} {"), "{x} {");
        let dated = Facts { modified: Some("Sun, 06 Nov 1994 08:49:37 GMT".into()), ..Facts::default() };
        assert_eq!(dated.fill("{modified-asctime}", "", 0), "Sun Nov  6 08:49:37 1994");
        assert_eq!(dated.fill("{modified-rfc850}", "", 0), "Sunday, 06-Nov-94 08:49:37 GMT");
    }

    #[test]
    fn a_character_is_the_byte_of_its_number() {
        assert_eq!(bytes("a\u{80}\u{ff}"), Some(vec![b'a', 0x80, 0xff]));
        assert_eq!(bytes("\u{100}"), None);
    }
}
