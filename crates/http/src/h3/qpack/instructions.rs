//! The client's two QPACK streams (RFC 9204 section 4). Without a dynamic table, few instructions are valid
//! on them.

use crate::h2::hpack::{HpackError, integer};
use crate::h3::error::{ConnectionError, ErrorCode};

/// The longest instruction that is valid here: a stream identifier of 62 bits with a prefix of six bits.
const MOST_INSTRUCTION_BYTES: usize = 10;

/// Reads the encoder stream: a client may only set the capacity of the dynamic table to 0 (section 3.2.3).
#[derive(Debug, Clone, Default)]
pub struct EncoderInstructions {}

/// Reads the decoder stream: a client may cancel streams. It has no section and no insertion of this side to
/// acknowledge (section 4.4).
#[derive(Debug, Clone, Default)]
pub struct DecoderInstructions {
    /// The beginning of an incomplete instruction.
    kept: Vec<u8>,
}

impl EncoderInstructions {
    /// Processes received bytes.
    pub fn receive(&mut self, input: &[u8]) -> Result<(), ConnectionError> {
        // Set Dynamic Table Capacity (001) to 0 is this one byte; any other byte begins an insertion or a
        // larger table.
        if input.iter().all(|&byte| byte == 0x20) {
            return Ok(());
        }
        let reason = "an instruction that needs a dynamic table, which is not allowed here";
        Err(ConnectionError::new(ErrorCode::QPACK_ENCODER_STREAM_ERROR, reason))
    }
}

impl DecoderInstructions {
    /// Processes received bytes.
    pub fn receive(&mut self, input: &[u8]) -> Result<(), ConnectionError> {
        let wrong = |reason| ConnectionError::new(ErrorCode::QPACK_DECODER_STREAM_ERROR, reason);
        for &byte in input {
            self.kept.push(byte);
            let Some((&first, mut rest)) = self.kept.split_first() else { continue };
            if first & 0xc0 != 0x40 {
                return Err(wrong("an acknowledgement of something that was never sent"));
            }
            // A stream identifier may be longer than the integers of field sections, so its value is not
            // computed.
            match integer::decode(first, 6, &mut rest) {
                Err(HpackError::Truncated) => {}
                Err(_) if byte & 0x80 != 0 => {}
                _ => self.kept.clear(),
            }
            if self.kept.len() > MOST_INSTRUCTION_BYTES {
                return Err(wrong("an integer that is too large"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_table_of_size_0_may_be_requested() {
        let mut stream = EncoderInstructions::default();
        assert!(stream.receive(&[0x20, 0x20]).is_ok());
        for byte in [0x21, 0x3f, 0x80, 0xc0, 0x40, 0x00] {
            assert_eq!(stream.receive(&[byte]).unwrap_err().code, ErrorCode::QPACK_ENCODER_STREAM_ERROR);
        }
    }

    #[test]
    fn streams_may_be_given_up_and_nothing_acknowledged() {
        let mut stream = DecoderInstructions::default();
        for bytes in [&[0x40][..], &[0x7e], &[0x7f, 0x00], &[0x7f, 0x80], &[0x01], &[0x44]] {
            assert!(stream.receive(bytes).is_ok(), "{bytes:?}");
        }
        assert!(stream.receive(&[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]).is_ok());
        assert!(stream.receive(&[0x40]).is_ok());
        for byte in [0x80, 0x00, 0x01] {
            let error = DecoderInstructions::default().receive(&[byte]).unwrap_err();
            assert_eq!(error.code, ErrorCode::QPACK_DECODER_STREAM_ERROR);
        }
        let endless = [&[0x7f][..], &[0xff; 20]].concat();
        assert!(DecoderInstructions::default().receive(&endless).is_err());
    }

    proptest! {
        #[test]
        fn never_panics(bytes in any::<Vec<u8>>()) {
            let _ = EncoderInstructions::default().receive(&bytes);
            let mut stream = DecoderInstructions::default();
            let _ = stream.receive(&bytes);
            prop_assert!(stream.kept.len() <= MOST_INSTRUCTION_BYTES + 1);
        }
    }
}
