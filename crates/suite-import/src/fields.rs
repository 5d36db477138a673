//! Which header fields of a recorded request a suite takes over.

/// Fields of the connection, of the engine, or of the recording browser's cache.
const FIELDS_LEFT_OUT: [&str; 18] = [
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "expect",
    "upgrade",
    "keep-alive",
    "te",
    "trailer",
    "user-agent",
    "if-none-match",
    "if-modified-since",
    "if-range",
    "range",
    "priority",
    "upgrade-insecure-requests",
    "cache-control",
    "pragma",
];
/// Parts of the names of fields that identify a user: `Authorization`, `X-Api-Key`, `X-CSRF-Token`,
/// `X-Session-Id`.
const SECRET_WORDS: [&str; 9] =
    ["cookie", "auth", "token", "csrf", "xsrf", "api-key", "apikey", "secret", "session"];

/// Whether a field, by its name, identifies a user.
pub(super) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Whether a field belongs to the request itself.
pub(super) fn taken_over(name: &str, value: &str, with_secrets: bool) -> bool {
    let name = name.to_ascii_lowercase();
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty()
        && name.bytes().all(is_token)
        && !name.starts_with("sec-")
        && !FIELDS_LEFT_OUT.contains(&name.as_str())
        && (with_secrets || !is_secret(&name))
        && value.len() <= 8192
        && is_field_value(value)
}

/// Whether a value has no control characters, which no header field may have (RFC 9110 section 5.5).
pub(super) fn is_field_value(value: &str) -> bool {
    value.bytes().all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f))
}
