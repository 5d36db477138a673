//! The values of a configuration that are written as text: durations, sizes, addresses, host names, media
//! types, header values. Each function parses a text and returns the value, or an error that states the
//! problem and what to write.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use touchstone_expression::{AvailableFrom, Condition, Text};
use touchstone_files::dictionary::Pattern;
use touchstone_http::content_coding::ContentCoding;
use touchstone_http::target::normalise_path;

use touchstone_observe::log::SyslogServer;

use touchstone_observe::log::LogDestination;

const DURATION_UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

const SIZE_UNITS: [(&str, u64); 9] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// Bytes of a mebibyte.
pub const MIB: u64 = 1 << 20;
/// A tebibyte.
pub const TIB: u64 = 1 << 40;
/// One hour.
pub const HOUR: Duration = Duration::from_secs(3600);
/// One day.
pub const DAY: Duration = Duration::from_secs(24 * 3600);

/// A duration: a whole number and its unit, `500ms`, `10s`, `2m` or `1h`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let refused =
        || format!("{text:?} is not a duration; write a whole number and a unit: {DURATION_EXAMPLES}");
    let (digits, unit) = split_number(text);
    if !digits.is_empty() && unit.is_empty() {
        return Err(format!("{text:?} has no unit; write {DURATION_EXAMPLES}"));
    }
    let number: u64 = digits.parse().map_err(|_| refused())?;
    let (_, factor) = DURATION_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(refused)?;
    Ok(Duration::from_millis(number.checked_mul(*factor).ok_or_else(refused)?))
}

const DURATION_EXAMPLES: &str = r#""500ms", "10s", "2m" or "1h""#;

/// The shortest text for which [`parse_duration`] returns this duration (whole milliseconds).
pub fn format_duration(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    if milliseconds == 0 {
        return "0s".to_string();
    }
    let largest =
        DURATION_UNITS.iter().rev().find(|(_, factor)| milliseconds.is_multiple_of(u128::from(*factor)));
    let (unit, factor) = largest.unwrap_or(&DURATION_UNITS[0]);
    format!("{}{unit}", milliseconds / u128::from(*factor))
}

/// A size in bytes: a whole number and its unit, `64KiB` (1,024 each) or `1MB` (1,000 each), in any case.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let refused = || {
        format!(
            "{text:?} is not a size; write a whole number of bytes, or a string such as \"64KiB\" (1,024 \
             each) or \"1MB\" (1,000 each)"
        )
    };
    let (digits, unit) = split_number(text);
    let number: u64 = digits.parse().map_err(|_| refused())?;
    let unit = unit.trim_start_matches(' ');
    if unit.len() == 1 && "KMGTkmgt".contains(unit) {
        let letter = unit.to_ascii_uppercase();
        return Err(format!(
            "{text:?} has an ambiguous unit; write \"{number}{letter}iB\" (1,024 each) or \
             \"{number}{letter}B\" (1,000 each)"
        ));
    }
    let found = SIZE_UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let factor = match found {
        Some((_, factor)) => *factor,
        None if unit.is_empty() => 1,
        None => return Err(refused()),
    };
    number.checked_mul(factor).ok_or_else(refused)
}

/// The shortest text for which [`parse_size`] returns this size.
pub fn format_size(bytes: u64) -> String {
    let binary = &SIZE_UNITS[1..5];
    match binary.iter().rev().find(|(_, factor)| bytes != 0 && bytes.is_multiple_of(*factor)) {
        Some((unit, factor)) => format!("{}{unit}", bytes / factor),
        None => bytes.to_string(),
    }
}

/// An address to listen on, `127.0.0.1:8080` or `[::1]:8080`. Names are not resolved: the addresses of a
/// server should not depend on a name service.
pub fn parse_listen_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(address);
    }
    if text.parse::<Ipv6Addr>().is_ok() {
        // Its last group could also be a port, so the address is ambiguous.
        return Err(format!(
            "{text:?} needs brackets around the address and then a port, such as \"[::1]:8080\""
        ));
    }
    if let Ok(address) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        let suggestion = SocketAddr::new(address, 8080);
        return Err(format!("{text:?} has no port; write it as \"{suggestion}\""));
    }
    let (address, port) = text.rsplit_once(':').unwrap_or(("", text));
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    if is_port && port.parse::<u16>().is_err() {
        return Err(format!("{text:?} has a port that is not from 0 to 65535"));
    }
    if is_port && (address.is_empty() || address == "*") {
        return Err(format!(
            "{text:?} has no address; for every address of the machine write \"0.0.0.0:{port}\""
        ));
    }
    if is_port && address.parse::<Ipv6Addr>().is_ok() {
        return Err(format!("{text:?} needs brackets around the address: \"[{address}]:{port}\""));
    }
    Err(format!(
        "{text:?} is not an address to listen on; write a numeric address and a port, such as \
         \"127.0.0.1:8080\" or \"[::1]:8080\""
    ))
}

/// A host name as a Host field would hold it, without a port: lower case, no dot at its end.
pub fn parse_host(text: &str) -> Result<String, String> {
    let inside_brackets = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if let Some(inside) = inside_brackets {
        let address: Ipv6Addr =
            inside.parse().map_err(|_| format!("{text:?} is not an IPv6 address in brackets"))?;
        return Ok(format!("[{address}]"));
    }
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Err(format!("{text:?} is an IPv6 address; write it in brackets: \"[{address}]\""));
    }
    if let Some(parent) = text.strip_prefix("*.")
        && !parent.contains('*')
        && parent.parse::<std::net::Ipv4Addr>().is_err()
    {
        // Each problem of the rest is a problem of the whole text.
        return parse_host(parent).map(|parent| format!("*.{parent}"));
    }
    if text.contains('*') {
        return Err(format!(
            "{text:?}: a wildcard replaces the first labels, as in \"*.example.org\"; leave 'hosts' out to \
             answer all"
        ));
    }
    if !text.is_ascii() {
        return Err(format!("{text:?} is not ASCII; write the name in its ASCII form (xn--...)"));
    }
    if let Some((name, port)) = text.split_once(':')
        && port.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Err(format!("{text:?} holds a port; write \"{name}\" here and the port in 'listen'"));
    }
    let name = text.strip_suffix('.').unwrap_or(text);
    if name.is_empty() || name.len() > 253 || !name.split('.').all(is_host_label) {
        return Err(format!("{text:?} is not a host name, such as \"www.example.org\""));
    }
    Ok(name.to_ascii_lowercase())
}

/// A pattern of paths of files that are dictionaries.
pub fn parse_dictionary_pattern(text: &str) -> Result<String, String> {
    Pattern::parse(text).map(|pattern| pattern.text().to_string())
}

/// The name of a file in a directory, such as `index.html`.
pub fn parse_file_name(text: &str) -> Result<String, String> {
    if text.contains('/') {
        return Err(format!("{text:?} is a path; write the name of a file, without '/'"));
    }
    if text.is_empty() || text == "." || text == ".." || text.contains(char::is_control) {
        return Err(format!("{text:?} is not the name of a file"));
    }
    Ok(text.to_string())
}

/// A path, resolved against `base` if it is relative.
pub fn parse_path(text: &str, base: &Path) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err("an empty string is not a path".to_string());
    }
    if text.contains('\0') {
        return Err("a path must not contain a NUL character".to_string());
    }
    Ok(base.join(text))
}

/// The destination of a log: `off`, `stdout`, `stderr` or a file, relative to `base`.
pub fn parse_log_destination(text: &str, base: &Path) -> Result<LogDestination, String> {
    match text {
        "off" => Ok(LogDestination::Off),
        "stdout" => Ok(LogDestination::Stdout),
        "stderr" => Ok(LogDestination::Stderr),
        "syslog" => Ok(LogDestination::Syslog(SyslogServer::Unix(DEV_LOG.into()))),
        "journald" => Ok(LogDestination::Journal(JOURNAL_SOCKET.into())),
        _ if text.ends_with('/') => Err(format!("{text:?} is a directory; name a file")),
        _ => match (text.strip_prefix("syslog:"), text.strip_prefix("journald:")) {
            (Some(server), _) => parse_syslog_server(text, server).map(LogDestination::Syslog),
            (_, Some(path)) => parse_path(path, base).map(LogDestination::Journal),
            _ => parse_path(text, base).map(LogDestination::File),
        },
    }
}

/// The destination of local messages to syslog.
const DEV_LOG: &str = "/dev/log";

/// Where the journal takes entries.
const JOURNAL_SOCKET: &str = "/run/systemd/journal/socket";

fn parse_syslog_server(text: &str, server: &str) -> Result<SyslogServer, String> {
    let is_address = |address: &str| {
        let (host, port) = address.rsplit_once(':').unwrap_or_default();
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    match (server.strip_prefix("udp:"), server.strip_prefix("tcp:")) {
        (Some(address), _) if is_address(address) => Ok(SyslogServer::Udp(address.to_string())),
        (_, Some(address)) if is_address(address) => Ok(SyslogServer::Tcp(address.to_string())),
        (None, None) if server.starts_with('/') => Ok(SyslogServer::Unix(server.into())),
        _ => Err(format!(
            "{text:?} does not name a syslog server; write \"syslog:/dev/log\", \"syslog:udp:HOST:PORT\" or \
             \"syslog:tcp:HOST:PORT\""
        )),
    }
}

/// The value of a response header field: printable ASCII, with spaces inside only (RFC 9110 section 5.5; the
/// bytes above 0x7F that it still allows are obsolete).
pub fn parse_header_value(text: &str) -> Result<String, String> {
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return Err(format!("{text:?} holds a control character, which a header value must not"));
    }
    if !text.is_ascii() {
        return Err(format!("{text:?} is not ASCII, which a header value must be"));
    }
    if text.trim() != text {
        return Err(format!("{text:?} begins or ends with a space, which a header value must not"));
    }
    Ok(text.to_string())
}

/// A token (RFC 9110 section 5.6.2), such as the name of a charset, or empty.
pub fn parse_token_or_empty(text: &str) -> Result<String, String> {
    match text.bytes().all(is_token_byte) {
        true => Ok(text.to_string()),
        false => Err(format!("{text:?} is not a name of letters, digits and '-', such as \"utf-8\"")),
    }
}

/// The ending of a file name that has a content type of its own: lower case, without its dot.
pub fn parse_file_ending(text: &str) -> Result<String, String> {
    if let Some(ending) = text.strip_prefix('.') {
        return Err(format!("{text:?} begins with a dot; write {ending:?}"));
    }
    if text.is_empty() || text.contains('/') || text.contains(char::is_control) {
        return Err(format!("{text:?} is not the ending of a file name, such as \"wasm\""));
    }
    Ok(text.to_lowercase())
}

/// A media type, `type/subtype` with parameters or without (RFC 9110 section 8.3.1).
pub fn parse_media_type(text: &str) -> Result<String, String> {
    let value = parse_header_value(text)?;
    let essence = value.split(';').next().unwrap_or("").trim_end();
    match essence.split_once('/') {
        Some((kind, subtype)) if is_token(kind) && is_token(subtype) => Ok(value),
        _ => Err(format!("{text:?} is not a media type, such as \"text/html\"")),
    }
}

/// A content coding by its name.
pub fn parse_content_coding(text: &str) -> Result<ContentCoding, String> {
    let known = ContentCoding::ALL.into_iter().find(|coding| coding.token() == text);
    known.ok_or_else(|| {
        format!("{:?} is not a content coding; write \"br\", \"zstd\" or \"gzip\"", shorten(text))
    })
}

/// The path of a file of a site, as a request would name it: from the root, normalised.
pub fn parse_site_path(text: &str) -> Result<String, String> {
    if !text.starts_with('/') {
        return Err(format!("{text:?} does not begin with '/'; write the path from the root of the site"));
    }
    if text.ends_with('/') {
        return Err(format!("{text:?} is a directory; name a file"));
    }
    let mut normalised = Vec::new();
    if normalise_path(text.as_bytes(), &mut normalised).is_err() || normalised.ends_with(b"/") {
        return Err(format!("{text:?} is not the path of a file; write it like \"/errors/404.html\""));
    }
    // An escape may encode a byte that is not UTF-8; file names in a configuration are text.
    String::from_utf8(normalised).map_err(|_| format!("{text:?} is not UTF-8 when its escapes are decoded"))
}

/// The same, or empty.
pub fn parse_site_path_or_empty(text: &str) -> Result<String, String> {
    if text.is_empty() { Ok(String::new()) } else { parse_site_path(text) }
}

/// The status of an error.
pub fn parse_error_status(text: &str) -> Result<u16, String> {
    let status = text.parse().ok().filter(|status| text.len() == 3 && (400..=599).contains(status));
    status.ok_or_else(|| format!("{:?} is not the status of an error, 400 to 599", shorten(text)))
}

/// Fields that a site may not add, because the server sets them itself or the connection depends on them.
const OWN_FIELDS: [&str; 19] = [
    "accept-ranges",
    "allow",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "date",
    "etag",
    "keep-alive",
    "last-modified",
    "location",
    "proxy-connection",
    "retry-after",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Whether a site may add this field, which has the form of one, to its answers.
pub fn check_added_field(name: &str, value: &str) -> Result<(), String> {
    let lower = name.to_ascii_lowercase();
    if lower == "cache-control" {
        return Err(format!("{name:?} has a key of its own, 'cache_control'"));
    }
    if OWN_FIELDS.contains(&lower.as_str()) {
        return Err(format!("the server itself sets {name:?}"));
    }
    if value.is_empty() {
        return Err(format!("{name:?} has an empty value; leave the field out"));
    }
    Ok(())
}

/// The same of a value that may have variables.
pub fn check_added_text(name: &str, value: &str) -> Result<(), String> {
    check_added_field(name, value)?;
    Text::read(value, AvailableFrom::Head).map(|_| ()).map_err(|problem| format!("{name}: {problem}"))
}

/// A text with variables that are known at this stage, for a key that stores it as it was written.
pub fn check_text(text: &str, known: AvailableFrom) -> Result<String, String> {
    Text::read(text, known).map(|_| text.to_string())
}

/// The same for a condition, or for an empty text.
pub fn check_condition(text: &str, known: AvailableFrom) -> Result<String, String> {
    match text {
        "" => Ok(String::new()),
        _ => Condition::read(text, known).map(|_| text.to_string()),
    }
}

/// Text as it was written, shortened for a message if it is long.
pub fn shorten(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]).replace(char::is_control, " "),
        None => text.replace(char::is_control, " "),
    }
}

/// The known name that is nearest to `name`, if one is near enough to be a misspelling.
pub fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    touchstone_expression::nearest(&name.to_lowercase().replace('-', "_"), known)
}

/// Splits the digits at the beginning from the rest.
fn split_number(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

fn is_host_label(label: &str) -> bool {
    let is_label_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !label.is_empty() && label.len() <= 63 && label.bytes().all(is_label_byte)
}

/// Whether a text is a token (RFC 9110 section 5.6.2).
pub fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_token_byte)
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether a route may set the field. Fields that frame the message or belong to the connection may not be
/// set.
pub fn check_answer_field(name: &str) -> Result<(), String> {
    const NOT_TO_BE_SET: [&str; 12] = [
        "Connection",
        "Content-Encoding",
        "Content-Length",
        "Content-Range",
        "Date",
        "Keep-Alive",
        "Proxy-Connection",
        "Server",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "Upgrade",
    ];
    match NOT_TO_BE_SET.iter().find(|other| other.eq_ignore_ascii_case(name)) {
        Some(other) => Err(format!("{other} is the server's own to set")),
        None => Ok(()),
    }
}

/// Checks the name of a method. Its case counts (RFC 9110 section 9.1), so a standard name in lower case
/// would match no request.
pub fn parse_method(text: &str) -> Result<String, String> {
    const STANDARD: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"];
    if let Some(name) = STANDARD.iter().find(|name| name.eq_ignore_ascii_case(text) && **name != text) {
        return Err(format!("{text:?} matches no request, because case counts; write {name:?}"));
    }
    match is_token(text) {
        true => Ok(text.to_string()),
        false => Err(format!("{text:?} is not a method, such as \"GET\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn framing_is_not_to_be_set() {
        for name in ["content-length", "Transfer-Encoding", "CONNECTION", "Date"] {
            assert!(check_answer_field(name).is_err(), "{name}");
        }
        assert_eq!(check_answer_field("date").unwrap_err(), "Date is the server's own to set");
        assert_eq!(check_answer_field("X-Frame-Options"), Ok(()));
    }

    #[test]
    fn durations() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("1h"), Ok(Duration::from_secs(3600)));
        assert_eq!(
            parse_duration("10").unwrap_err(),
            r#""10" has no unit; write "500ms", "10s", "2m" or "1h""#
        );
        for bad in [
            "",
            "s",
            "-1s",
            "1.5s",
            "10 s",
            "10sec",
            "1m30s",
            "99999999999999999999s",
            "9999999999999999999h",
        ] {
            let message = parse_duration(bad).unwrap_err();
            assert!(message.starts_with(&format!("{bad:?} is not a duration; write")), "{message}");
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("17", 17),
            ("17B", 17),
            ("64KiB", 65536),
            ("64 kib", 65536),
            ("1MB", 1_000_000),
            ("1MiB", 1 << 20),
            ("1GB", 1_000_000_000),
            ("3TiB", 3 << 40),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        assert_eq!(
            parse_size("64K").unwrap_err(),
            r#""64K" has an ambiguous unit; write "64KiB" (1,024 each) or "64KB" (1,000 each)"#
        );
        for bad in ["", "KiB", "-1", "1.5MiB", "1 XB", "99999999999TiB", "1\u{e9}"] {
            let message = parse_size(bad).unwrap_err();
            assert!(message.starts_with(&format!("{bad:?} is not a size; write")), "{message}");
        }
    }

    #[test]
    fn listen_addresses() {
        assert_eq!(parse_listen_address("127.0.0.1:80"), Ok("127.0.0.1:80".parse().unwrap()));
        assert_eq!(parse_listen_address("[::1]:0"), Ok("[::1]:0".parse().unwrap()));
        for (bad, message) in [
            ("127.0.0.1", r#""127.0.0.1" has no port; write it as "127.0.0.1:8080""#),
            ("::1:80", r#""::1:80" needs brackets around the address and then a port, such as "[::1]:8080""#),
            ("[::1]", r#""[::1]" has no port; write it as "[::1]:8080""#),
            ("8080", r#""8080" has no address; for every address of the machine write "0.0.0.0:8080""#),
            (":8080", r#"":8080" has no address; for every address of the machine write "0.0.0.0:8080""#),
            ("*:80", r#""*:80" has no address; for every address of the machine write "0.0.0.0:80""#),
            ("127.0.0.1:70000", r#""127.0.0.1:70000" has a port that is not from 0 to 65535"#),
            ("::1:18080", r#""::1:18080" needs brackets around the address: "[::1]:18080""#),
            (
                "localhost:80",
                "\"localhost:80\" is not an address to listen on; write a numeric address and a port, \
                 such as \"127.0.0.1:8080\" or \"[::1]:8080\"",
            ),
        ] {
            assert_eq!(parse_listen_address(bad).unwrap_err(), message);
        }
        assert!(parse_listen_address("").is_err());
    }

    #[test]
    fn hosts() {
        assert_eq!(parse_host("WWW.Example.org."), Ok("www.example.org".to_string()));
        assert_eq!(parse_host("127.0.0.1"), Ok("127.0.0.1".to_string()));
        assert_eq!(parse_host("*.A.org"), Ok("*.a.org".to_string()));
        assert_eq!(parse_host("[0:0::1]"), Ok("[::1]".to_string()));
        for (bad, message) in [
            ("::1", r#""::1" is an IPv6 address; write it in brackets: "[::1]""#),
            ("[x]", r#""[x]" is not an IPv6 address in brackets"#),
            (
                "w*.a.org",
                "\"w*.a.org\": a wildcard replaces the first labels, as in \"*.example.org\"; leave 'hosts' \
                 out to answer all",
            ),
            ("*.", r#""" is not a host name, such as "www.example.org""#),
            ("a.org:80", r#""a.org:80" holds a port; write "a.org" here and the port in 'listen'"#),
            ("b\u{fc}cher.de", "\"b\u{fc}cher.de\" is not ASCII; write the name in its ASCII form (xn--...)"),
            ("http://a.org/", r#""http://a.org/" is not a host name, such as "www.example.org""#),
            ("", r#""" is not a host name, such as "www.example.org""#),
            ("a..b", r#""a..b" is not a host name, such as "www.example.org""#),
        ] {
            assert_eq!(parse_host(bad).unwrap_err(), message);
        }
    }

    #[test]
    fn header_values_hold_no_control_characters() {
        assert_eq!(parse_header_value("public, max-age=60"), Ok("public, max-age=60".to_string()));
        for bad in ["a\r\nSet-Cookie: x", "a\tb", "\u{7f}", "\0", "caf\u{e9}", "a "] {
            assert!(parse_header_value(bad).is_err(), "{bad:?}");
            assert!(parse_media_type(&format!("text/plain; a={bad}")).is_err(), "{bad:?}");
        }
        assert!(parse_header_value(" a").is_err());
        assert!(parse_token_or_empty("utf-8").is_ok());
        assert!(parse_token_or_empty("").is_ok());
        assert!(parse_token_or_empty("utf 8").is_err());
        assert!(parse_token_or_empty("utf-8\r\n").is_err());
    }

    #[test]
    fn media_types() {
        assert!(parse_media_type("text/plain; charset=utf-8").is_ok());
        assert!(parse_media_type("application/vnd.api+json").is_ok());
        for bad in ["", "text", "text/", "/plain", "text/a/b", "te xt/plain", ";"] {
            assert!(parse_media_type(bad).is_err(), "{bad:?}");
        }
        assert_eq!(parse_file_ending(".wasm").unwrap_err(), r#"".wasm" begins with a dot; write "wasm""#);
        assert_eq!(parse_file_ending("WASM"), Ok("wasm".to_string()));
    }

    #[test]
    fn paths_of_a_site() {
        assert_eq!(parse_site_path("/index.html"), Ok("/index.html".to_string()));
        assert_eq!(parse_site_path("/a/../e%20r//404.html"), Ok("/e r/404.html".to_string()));
        for (bad, message) in [
            (
                "index.html",
                r#""index.html" does not begin with '/'; write the path from the root of the site"#,
            ),
            ("/", r#""/" is a directory; name a file"#),
            ("/a/", r#""/a/" is a directory; name a file"#),
            ("/a/..", r#""/a/.." is not the path of a file; write it like "/errors/404.html""#),
            ("/../a", r#""/../a" is not the path of a file; write it like "/errors/404.html""#),
            ("/a?b", r#""/a?b" is not the path of a file; write it like "/errors/404.html""#),
            ("/%ff", r#""/%ff" is not UTF-8 when its escapes are decoded"#),
        ] {
            assert_eq!(parse_site_path(bad).unwrap_err(), message);
        }
    }

    #[test]
    fn statuses_of_errors() {
        assert_eq!(parse_error_status("404"), Ok(404));
        assert_eq!(parse_error_status("599"), Ok(599));
        for bad in ["200", "399", "600", "4xx", "", "0404", "+404", "-404", "4 4"] {
            assert!(parse_error_status(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn added_fields() {
        assert_eq!(check_added_field("X-Frame-Options", "DENY"), Ok(()));
        assert_eq!(check_added_field("Vary", "Origin"), Ok(()));
        for (bad, message) in [
            ("Content-LENGTH", "the server itself sets \"Content-LENGTH\""),
            ("transfer-encoding", "the server itself sets \"transfer-encoding\""),
            ("Cache-Control", "\"Cache-Control\" has a key of its own, 'cache_control'"),
        ] {
            assert_eq!(check_added_field(bad, "x").unwrap_err(), message);
        }
        assert_eq!(check_added_field("A", "").unwrap_err(), "\"A\" has an empty value; leave the field out");
    }

    #[test]
    fn log_destinations() {
        let base = Path::new("/etc/touchstone");
        assert_eq!(parse_log_destination("off", base), Ok(LogDestination::Off));
        assert_eq!(parse_log_destination("stdout", base), Ok(LogDestination::Stdout));
        assert_eq!(parse_log_destination("stderr", base), Ok(LogDestination::Stderr));
        assert_eq!(
            parse_log_destination("log/a", base),
            Ok(LogDestination::File(PathBuf::from("/etc/touchstone/log/a")))
        );
        assert_eq!(parse_log_destination("/var/a", base), Ok(LogDestination::File(PathBuf::from("/var/a"))));
        assert!(parse_log_destination("", base).is_err());
        assert!(parse_log_destination("a\0", base).is_err());
        assert!(parse_log_destination("/var/log/", base).is_err());
    }

    #[test]
    fn nearest_names() {
        let known = ["hosts", "listen", "root", "index"];
        assert_eq!(nearest("idnex", known), Some("index"));
        assert_eq!(nearest("Listen", known), Some("listen"));
        assert_eq!(nearest("host", known), Some("hosts"));
        assert_eq!(nearest("proxy_pass", known), None);
        assert_eq!(nearest("port", known), None);
        assert_eq!(nearest("keep-alive-timeout", ["keep_alive_timeout"]), Some("keep_alive_timeout"));
    }

    proptest! {
        #[test]
        fn what_is_formatted_reads_back(
            milliseconds in any::<u32>(),
            bytes in any::<u64>(),
            shift in 0u32..60,
        ) {
            let duration = Duration::from_millis(u64::from(milliseconds));
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
            let bytes = (bytes >> shift) << shift;
            prop_assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
        }

        #[test]
        fn no_text_makes_a_value_parser_panic(text in any::<String>()) {
            let _ = parse_duration(&text);
            let _ = parse_size(&text);
            let _ = parse_listen_address(&text);
            let _ = parse_host(&text);
            let _ = parse_file_name(&text);
            let _ = parse_header_value(&text);
            let _ = parse_media_type(&text);
            let _ = parse_file_ending(&text);
            let _ = parse_path(&text, Path::new("x"));
            let _ = parse_content_coding(&text);
            let _ = parse_error_status(&text);
            let _ = check_added_field(&text, &text);
            if let Ok(path) = parse_site_path(&text) {
                prop_assert!(path.starts_with('/') && !path.ends_with('/'));
                prop_assert!(!path.contains(char::is_control));
            }
            let _ = nearest(&text, ["hosts", "listen"]);
            prop_assert!(!shorten(&text).contains(char::is_control));
        }

        #[test]
        fn accepted_hosts_are_lower_case_and_stable(text in "[A-Za-z0-9.:\\[\\]_-]{0,20}") {
            if let Ok(host) = parse_host(&text) {
                prop_assert_eq!(host.to_ascii_lowercase(), host.clone());
                prop_assert_eq!(parse_host(&host), Ok(host));
            }
        }
    }
}
