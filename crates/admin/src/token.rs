//! The token that a client of the admin listener must send.

use std::path::Path;

use touchstone_control::{SHORTEST_TOKEN, is_token_byte};

/// The maximum size of a token's file in bytes.
const MOST_BYTES: u64 = 4096;

/// Reads the token from the first line of a file. The error states what is wrong with the file; it never
/// contains the token.
pub fn read_token(path: &Path) -> Result<String, String> {
    use std::io::Read as _;
    let name = path.display();
    let mut text = String::new();
    let file =
        std::fs::File::open(path).map_err(|error| format!("token file '{name}' cannot be read: {error}"))?;
    file.take(MOST_BYTES)
        .read_to_string(&mut text)
        .map_err(|error| format!("token file '{name}' cannot be read: {error}"))?;
    let token = text.lines().next().unwrap_or_default().trim();
    if !token.bytes().all(is_token_byte) {
        return Err(format!("token file '{name}': a token has letters, digits and -._~+/= only"));
    }
    if token.len() < SHORTEST_TOKEN {
        return Err(format!(
            "token file '{name}': its first line must hold at least {SHORTEST_TOKEN} characters, such as \
             `openssl rand -hex 32` makes"
        ));
    }
    Ok(token.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read_token(&path)
        };
        assert_eq!(read("0123456789abcdef\nmore\n").as_deref(), Ok("0123456789abcdef"));
        assert!(read("0123456789abcde\n").unwrap_err().contains("at least 16 characters"));
        assert!(read("").unwrap_err().contains("at least 16 characters"));
        let secret = "0123 456789abcdef?";
        assert!(!read(secret).unwrap_err().contains("0123"));
        assert!(read_token(&directory.path().join("none")).unwrap_err().contains("No such file"));
    }
}
