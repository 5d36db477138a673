//! The opening handshake: the fields of the request, and the check of the answer (RFC 6455, section 4).

use super::WrongHandshake;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};
use touchstone_http::response::ResponseHead;

/// The name of the field with the client's key, as written in a prepared request.
const KEY_FIELD: &[u8] = b"\r\nSec-WebSocket-Key: ";
/// The length of a key: 16 bytes in base64.
const KEY_LENGTH: usize = 24;
/// The placeholder for the key in a prepared request.
const NO_KEY: &str = "AAAAAAAAAAAAAAAAAAAAAA==";
/// The constant that a server appends to the key (section 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The fields of a request that opens a WebSocket.
pub(crate) fn handshake_fields() -> [(String, String); 4] {
    [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", NO_KEY),
    ]
    .map(|(name, value)| (name.to_string(), value.to_string()))
}

/// Writes a key into a prepared request; returns the expected Sec-WebSocket-Accept.
pub(super) fn set_key(request: &mut [u8], random: [u8; 16]) -> String {
    let key = STANDARD.encode(random);
    let place = request.windows(KEY_FIELD.len()).position(|bytes| bytes == KEY_FIELD);
    if let Some(place) = place.map(|place| place + KEY_FIELD.len())
        && let Some(value) = request.get_mut(place..place + KEY_LENGTH)
    {
        value.copy_from_slice(key.as_bytes());
    }
    STANDARD.encode(Sha1::new().chain_update(key.as_bytes()).chain_update(GUID).finalize())
}

/// Checks whether an answer with status 101 opens a WebSocket.
pub(super) fn check(head: &ResponseHead, accept: &str, protocols: &[String]) -> Result<(), WrongHandshake> {
    let has_token = |name: &[u8], token: &str| {
        let values = head.fields().filter(|(field, _)| field.eq_ignore_ascii_case(name));
        let mut tokens = values.flat_map(|(_, value)| value.split(|byte| *byte == b','));
        tokens.any(|value| value.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
    };
    if !has_token(b"connection", "upgrade") || !has_token(b"upgrade", "websocket") {
        return Err(WrongHandshake::Upgrade);
    }
    if head.field(b"sec-websocket-accept") != Some(accept.as_bytes()) {
        return Err(WrongHandshake::Accept);
    }
    if head.field(b"sec-websocket-extensions").is_some_and(|value| !value.is_empty()) {
        return Err(WrongHandshake::Extension);
    }
    match head.field(b"sec-websocket-protocol") {
        Some(chosen) if !protocols.iter().any(|offered| offered.as_bytes() == chosen) => {
            Err(WrongHandshake::Protocol)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use touchstone_http::response::{Parsed, parse_response_head};

    #[test]
    fn the_example_of_the_standard_is_accepted() {
        let mut request = format!("GET / HTTP/1.1\r\nSec-WebSocket-Key: {NO_KEY}\r\n\r\n").into_bytes();
        let accept = set_key(&mut request, *b"the sample nonce");
        // RFC 6455, section 1.3.
        assert!(
            String::from_utf8_lossy(&request).contains("\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n")
        );
        assert_eq!(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn every_invalid_handshake_has_its_own_error() {
        let verdict = |fields: &str| {
            let mut head = ResponseHead::new();
            let text = format!("HTTP/1.1 101 Switching Protocols\r\n{fields}\r\n");
            let parsed = parse_response_head(text.as_bytes(), &mut head).expect("a good head");
            assert!(matches!(parsed, Parsed::Complete(_)));
            check(&head, "yes", &["chat".to_string()])
        };
        let upgrade = "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n";
        let good = format!("{upgrade}Sec-WebSocket-Accept: yes\r\n");
        assert_eq!(verdict(&good), Ok(()));
        assert_eq!(verdict(&format!("{good}Sec-WebSocket-Protocol: chat\r\n")), Ok(()));
        for (fields, wrong) in [
            ("Upgrade: websocket\r\n".to_string(), WrongHandshake::Upgrade),
            ("Connection: upgrade\r\nUpgrade: h2c\r\n".to_string(), WrongHandshake::Upgrade),
            (format!("{upgrade}Sec-WebSocket-Accept: no\r\n"), WrongHandshake::Accept),
            (format!("{good}Sec-WebSocket-Extensions: permessage-deflate\r\n"), WrongHandshake::Extension),
            (format!("{good}Sec-WebSocket-Protocol: other\r\n"), WrongHandshake::Protocol),
        ] {
            assert_eq!(verdict(&fields), Err(wrong), "{fields}");
            assert_eq!(WrongHandshake::at(wrong.place()), Some(wrong));
        }
    }
}
