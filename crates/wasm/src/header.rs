//! The header of a file with machine code. It is a separate module, so that it can be fuzzed without the
//! engine.

use sha2::{Digest as _, Sha256};

/// The header of a file with machine code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Identifies the engine: its version, its settings, and the features of the processor.
    pub engine: [u8; 32],
    /// The SHA-256 of the component.
    pub component: [u8; 32],
    /// The SHA-256 of the machine code.
    pub code: [u8; 32],
    /// The length of the machine code.
    pub code_bytes: u64,
}

impl Header {
    /// The length of a header.
    pub const BYTES: usize = 8 + 32 * 3 + 8;

    const MAGIC: [u8; 8] = *b"TSWASM\x00\x01";

    /// The header as it is written.
    pub fn write(&self) -> [u8; Header::BYTES] {
        let mut bytes = [0; Header::BYTES];
        bytes[..8].copy_from_slice(&Header::MAGIC);
        bytes[8..40].copy_from_slice(&self.engine);
        bytes[40..72].copy_from_slice(&self.component);
        bytes[72..104].copy_from_slice(&self.code);
        bytes[104..].copy_from_slice(&self.code_bytes.to_le_bytes());
        bytes
    }

    /// Splits a file into its header and the machine code; `None` if the header is invalid or does not match
    /// the code.
    pub fn read(file: &[u8]) -> Option<(Header, &[u8])> {
        let (head, code) = file.split_at_checked(Header::BYTES)?;
        let (magic, head) = head.split_first_chunk::<8>()?;
        let (engine, head) = head.split_first_chunk::<32>()?;
        let (component, head) = head.split_first_chunk::<32>()?;
        let (hash, head) = head.split_first_chunk::<32>()?;
        let code_bytes = u64::from_le_bytes(head.try_into().ok()?);
        let header = Header { engine: *engine, component: *component, code: *hash, code_bytes };
        let is_whole = *magic == Header::MAGIC && code_bytes == code.len() as u64 && sha256(code) == *hash;
        is_whole.then_some((header, code))
    }
}

/// The SHA-256 of some bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(code: &[u8]) -> Header {
        Header { engine: [1; 32], component: [2; 32], code: sha256(code), code_bytes: code.len() as u64 }
    }

    fn file(code: &[u8]) -> Vec<u8> {
        [&header(code).write()[..], code].concat()
    }

    #[test]
    fn a_written_file_is_read() {
        assert_eq!(Header::read(&file(b"code")), Some((header(b"code"), &b"code"[..])));
        assert_eq!(Header::read(&file(b"")), Some((header(b""), &b""[..])));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Header::read(&bytes);
        }

        #[test]
        fn a_changed_file_is_refused(
            code in proptest::collection::vec(any::<u8>(), 0..50),
            at in any::<usize>(),
            change in 1u8..,
        ) {
            let mut changed = file(&code);
            let at = at % changed.len();
            changed[at] ^= change;
            // The identifiers of engine and component are compared later.
            let is_compared = (8..72).contains(&at);
            prop_assert_eq!(Header::read(&changed).is_some(), is_compared);
            prop_assert!(Header::read(&changed[..changed.len() - 1]).is_none());
        }
    }
}
