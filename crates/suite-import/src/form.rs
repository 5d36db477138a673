//! The fields of a form as a client writes them into a query or a body (`application/x-www-form-urlencoded`).

/// A text with all characters escaped except the unreserved ones (RFC 3986, section 2.3).
pub(super) fn form_encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}
