//! The chunked transfer coding (RFC 9112 section 7.1): a decoder for bytes as they arrive, and what a sender
//! writes.
//!
//! [`ChunkedDecoder`] holds the state between reads and no bytes: it returns which part of the input is data.
//! It is strict, because a lenient reader after a strict one allows a request to be hidden in a body (section
//! 11.2): lines end in CRLF, a size consists only of hexadecimal digits, extensions and trailers are checked
//! against the grammar and then dropped.

use std::fmt;
use std::ops::Range;

use crate::grammar::{is_field_value_byte, is_token_byte};

/// What ends a chunked body that has no trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The most hexadecimal digits that a chunk size may have, leading zeros included: as many as 64 bits need.
const MAX_SIZE_DIGITS: u8 = 16;

/// The limits for the parts of a chunked body that are not data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkedLimits {
    /// Bytes of chunk extensions in all chunks of the body together. They have no meaning here, but each byte
    /// must be checked.
    pub extension_bytes: u32,
    /// Bytes of the trailer section.
    pub trailer_bytes: u32,
}

impl Default for ChunkedLimits {
    fn default() -> Self {
        ChunkedLimits { extension_bytes: 16 * 1024, trailer_bytes: 16 * 1024 }
    }
}

/// The result of decoding the beginning of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedChunk {
    /// How many bytes of the input were decoded; the next call must begin after them.
    pub consumed: usize,
    /// Which of the consumed bytes are data of the body. May be empty.
    pub data: Range<usize>,
    /// Whether the body is complete. What follows the consumed bytes belongs to the next message.
    pub done: bool,
}

/// Why bytes are not a chunked body. The end of the body is then unknown, so the connection cannot be used
/// further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkError {
    /// A chunk size is missing or holds something other than hexadecimal digits.
    Size,
    /// A chunk size has more digits than 64 bits need.
    SizeTooLarge,
    /// A chunk extension does not follow the grammar or holds a control byte.
    Extension,
    /// The chunk extensions are longer than [`ChunkedLimits::extension_bytes`].
    ExtensionsTooLong,
    /// A line ends in something other than CRLF.
    LineEnd,
    /// The data of a chunk is not followed by CRLF: the chunk size was wrong.
    DataEnd,
    /// A trailer field is malformed.
    Trailer,
    /// The trailer section is longer than [`ChunkedLimits::trailer_bytes`].
    TrailersTooLong,
}

impl fmt::Display for ChunkError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            ChunkError::Size => "chunk size is not a hexadecimal number",
            ChunkError::SizeTooLarge => "chunk size has more than 16 digits",
            ChunkError::Extension => "chunk extension is malformed",
            ChunkError::ExtensionsTooLong => "chunk extensions are too long",
            ChunkError::LineEnd => "line in the chunked body does not end in CRLF",
            ChunkError::DataEnd => "chunk data is longer than the chunk size",
            ChunkError::Trailer => "trailer field is malformed",
            ChunkError::TrailersTooLong => "trailer section is too long",
        })
    }
}

impl std::error::Error for ChunkError {}

/// The position in the grammar of the next byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first digit of a chunk size.
    SizeStart,
    /// After a digit of a chunk size.
    Size,
    /// In white space that only `;` can follow.
    BeforeSemicolon,
    /// After `;`, before the name of an extension.
    BeforeExtensionName,
    ExtensionName,
    /// In white space after the name of an extension; `=` or `;` must follow.
    AfterExtensionName,
    /// After `=`, before the value of an extension.
    BeforeExtensionValue,
    ExtensionToken,
    QuotedString,
    /// After a backslash in a quoted string.
    QuotedPair,
    /// After the closing quote.
    AfterQuotedString,
    /// After the CR of a chunk size line.
    SizeLineFeed,
    Data,
    /// After the last data byte of a chunk.
    DataCarriageReturn,
    DataLineFeed,
    /// At the beginning of a line of the trailer section.
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLineFeed,
    /// After the CR of the empty line that ends the body.
    LastLineFeed,
    Done,
}

/// Decodes one chunked body. The body may arrive in pieces of any size.
///
/// ```
/// use touchstone_http::chunked::ChunkedDecoder;
///
/// let mut decoder = ChunkedDecoder::default();
/// let mut input = &b"5\r\nhello\r\n0\r\n\r\nGET / "[..];
/// let mut body = Vec::new();
/// loop {
///     let decoded = decoder.decode(input)?;
///     body.extend_from_slice(&input[decoded.data]);
///     input = &input[decoded.consumed..];
///     if decoded.done || input.is_empty() {
///         break; // Not done: read more, then continue with that.
///     }
/// }
/// assert_eq!((body.as_slice(), input), (&b"hello"[..], &b"GET / "[..]));
/// # Ok::<(), touchstone_http::chunked::ChunkError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ChunkedDecoder {
    state: State,
    /// Digits of the present chunk size so far.
    size_digits: u8,
    /// The current chunk size while it is read, then the number of bytes of the chunk that follow.
    chunk_remaining: u64,
    extension_bytes_remaining: u32,
    trailer_bytes_remaining: u32,
    trailers: Vec<u8>,
}

impl Default for ChunkedDecoder {
    fn default() -> Self {
        ChunkedDecoder::new(ChunkedLimits::default())
    }
}

impl ChunkedDecoder {
    /// A decoder at the beginning of a body.
    pub fn new(limits: ChunkedLimits) -> ChunkedDecoder {
        ChunkedDecoder {
            state: State::SizeStart,
            size_digits: 0,
            chunk_remaining: 0,
            extension_bytes_remaining: limits.extension_bytes,
            trailer_bytes_remaining: limits.trailer_bytes,
            trailers: Vec::new(),
        }
    }

    /// Decodes `input` up to the end of the first piece of data, of the body, or of the input.
    ///
    /// At least one byte is consumed as long as there is input and the body is not done. After an error the
    /// decoder must not be used again: it returns an error each time, and never data.
    pub fn decode(&mut self, input: &[u8]) -> Result<DecodedChunk, ChunkError> {
        let mut position = 0;
        while self.state != State::Done {
            if self.state == State::Data {
                let length = data_length(self.chunk_remaining, input.len() - position);
                let data = position..position + length;
                self.chunk_remaining -= length as u64;
                if self.chunk_remaining == 0 {
                    self.state = State::DataCarriageReturn;
                }
                return Ok(DecodedChunk { consumed: data.end, data, done: false });
            }
            let Some(&byte) = input.get(position) else { break };
            self.state = self.step(byte)?;
            position += 1;
        }
        Ok(DecodedChunk { consumed: position, data: position..position, done: self.state == State::Done })
    }

    /// The trailer section as far as it has been read: field lines, each with its CRLF.
    pub fn trailers(&self) -> &[u8] {
        &self.trailers
    }

    /// Whether the body is complete.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// How many data bytes of the current chunk follow, once its size line has been read; else 0.
    ///
    /// With it, a caller can refuse a chunk that would exceed a limit on the body before reading the chunk.
    pub fn chunk_remaining(&self) -> u64 {
        if self.state == State::Data { self.chunk_remaining } else { 0 }
    }

    /// The state after `byte`.
    fn step(&mut self, byte: u8) -> Result<State, ChunkError> {
        match self.state {
            State::SizeStart | State::Size => self.step_in_size(byte),
            State::SizeLineFeed => {
                expect(byte, b'\n', ChunkError::LineEnd)?;
                self.size_digits = 0;
                Ok(if self.chunk_remaining == 0 { State::TrailerStart } else { State::Data })
            }
            State::DataCarriageReturn => {
                expect(byte, b'\r', ChunkError::DataEnd)?;
                Ok(State::DataLineFeed)
            }
            State::DataLineFeed => {
                expect(byte, b'\n', ChunkError::DataEnd)?;
                Ok(State::SizeStart)
            }
            State::TrailerStart
            | State::TrailerName
            | State::TrailerValue
            | State::TrailerLineFeed
            | State::LastLineFeed => self.step_in_trailers(byte),
            // `decode` does not call this within data or after the end.
            State::Data | State::Done => Ok(self.state),
            _ => self.step_in_extension(byte),
        }
    }

    /// `1*HEXDIG`, and what may follow.
    fn step_in_size(&mut self, byte: u8) -> Result<State, ChunkError> {
        if let Some(digit) = (byte as char).to_digit(16) {
            if self.size_digits == MAX_SIZE_DIGITS {
                return Err(ChunkError::SizeTooLarge);
            }
            self.size_digits += 1;
            // At the first digit the present size is 0: the previous chunk was read to its end.
            self.chunk_remaining = self.chunk_remaining << 4 | u64::from(digit);
            return Ok(State::Size);
        }
        match (self.state, byte) {
            (State::Size, b'\r') => Ok(State::SizeLineFeed),
            (State::Size, b';' | b' ' | b'\t') => self.step_in_extension(byte),
            (State::Size, b'\n') => Err(ChunkError::LineEnd),
            _ => Err(ChunkError::Size),
        }
    }

    /// `*( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )` (RFC 9112 section 7.1.1), up to the
    /// CR.
    fn step_in_extension(&mut self, byte: u8) -> Result<State, ChunkError> {
        use State::*;
        let next = match (self.state, byte) {
            (Size | ExtensionToken | AfterQuotedString | ExtensionName, b'\r') => return Ok(SizeLineFeed),
            (QuotedString, b'"') => AfterQuotedString,
            (QuotedString, b'\\') => QuotedPair,
            (QuotedString | QuotedPair, byte) if is_field_value_byte(byte) => QuotedString,
            (QuotedString | QuotedPair, _) => return Err(ChunkError::Extension),
            (_, b'\n') => return Err(ChunkError::LineEnd),
            (
                Size | BeforeSemicolon | ExtensionName | AfterExtensionName | ExtensionToken
                | AfterQuotedString,
                b';',
            ) => BeforeExtensionName,
            (Size | BeforeSemicolon | ExtensionToken | AfterQuotedString, b' ' | b'\t') => BeforeSemicolon,
            (BeforeExtensionName, b' ' | b'\t') => BeforeExtensionName,
            (BeforeExtensionName | ExtensionName, byte) if is_token_byte(byte) => ExtensionName,
            (ExtensionName | AfterExtensionName, b' ' | b'\t') => AfterExtensionName,
            (ExtensionName | AfterExtensionName, b'=') => BeforeExtensionValue,
            (BeforeExtensionValue, b' ' | b'\t') => BeforeExtensionValue,
            (BeforeExtensionValue, b'"') => QuotedString,
            (BeforeExtensionValue | ExtensionToken, byte) if is_token_byte(byte) => ExtensionToken,
            _ => return Err(ChunkError::Extension),
        };
        spend(&mut self.extension_bytes_remaining, ChunkError::ExtensionsTooLong)?;
        Ok(next)
    }

    /// `*( field-line CRLF ) CRLF` (RFC 9112 section 7.1.2). A folded line, too, is refused: a name cannot
    /// begin with white space.
    fn step_in_trailers(&mut self, byte: u8) -> Result<State, ChunkError> {
        use State::*;
        let next = match (self.state, byte) {
            (TrailerStart, b'\r') => return Ok(LastLineFeed),
            (LastLineFeed, b'\n') => return Ok(Done),
            (TrailerStart | TrailerName, byte) if is_token_byte(byte) => TrailerName,
            (TrailerName, b':') => TrailerValue,
            (TrailerValue, b'\r') => TrailerLineFeed,
            (TrailerValue, byte) if is_field_value_byte(byte) => TrailerValue,
            (TrailerLineFeed, b'\n') => TrailerStart,
            (TrailerLineFeed | LastLineFeed, _) | (_, b'\n') => return Err(ChunkError::LineEnd),
            _ => return Err(ChunkError::Trailer),
        };
        spend(&mut self.trailer_bytes_remaining, ChunkError::TrailersTooLong)?;
        self.trailers.push(byte);
        Ok(next)
    }
}

/// How many bytes of a chunk are in the input.
fn data_length(chunk_remaining: u64, available: usize) -> usize {
    usize::try_from(chunk_remaining).map_or(available, |remaining| remaining.min(available))
}

fn expect(byte: u8, expected: u8, error: ChunkError) -> Result<(), ChunkError> {
    if byte == expected { Ok(()) } else { Err(error) }
}

fn spend(remaining: &mut u32, error: ChunkError) -> Result<(), ChunkError> {
    *remaining = remaining.checked_sub(1).ok_or(error)?;
    Ok(())
}

/// Writes the line that a sender puts before `length` bytes of data; CRLF follows the data.
///
/// A `length` of 0 gives the line of the last chunk, which the trailer section follows; see [`LAST_CHUNK`].
pub fn chunk_head(length: u64, buffer: &mut [u8; 18]) -> &[u8] {
    let digits = length.checked_ilog2().unwrap_or(0) as usize / 4 + 1;
    for (index, place) in buffer[..digits].iter_mut().enumerate() {
        let digit = (length >> (4 * (digits - 1 - index)) & 0xf) as usize;
        *place = b"0123456789abcdef"[digit];
    }
    buffer[digits..digits + 2].copy_from_slice(b"\r\n");
    &buffer[..digits + 2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The result for a body: its data, how much of the input belongs to it, and whether it was complete.
    type Outcome = Result<(Vec<u8>, usize, bool), ChunkError>;

    /// Decodes pieces of input one after the other; the data before an error is dropped.
    fn decode_pieces(pieces: &[&[u8]], limits: ChunkedLimits) -> Outcome {
        let mut decoder = ChunkedDecoder::new(limits);
        let (mut data, mut total) = (Vec::new(), 0);
        for piece in pieces {
            let mut input = *piece;
            while !input.is_empty() {
                let decoded = decoder.decode(input)?;
                assert!(decoded.data.start <= decoded.data.end && decoded.data.end <= decoded.consumed);
                assert!(decoded.consumed > 0, "no step forward");
                data.extend_from_slice(&input[decoded.data]);
                total += decoded.consumed;
                if decoded.done {
                    assert!(decoder.is_done());
                    return Ok((data, total, true));
                }
                input = &input[decoded.consumed..];
            }
        }
        Ok((data, total, false))
    }

    fn decode(input: &[u8]) -> Outcome {
        decode_pieces(&[input], ChunkedLimits::default())
    }

    #[test]
    fn trailers_are_kept_as_lines() {
        let mut decoder = ChunkedDecoder::default();
        let body = b"1\r\na\r\n0;x\r\nA: b\r\nC:\r\n\r\nHTTP";
        let mut position = 0;
        while !decoder.is_done() {
            // One byte at a time, as a slow sender does it.
            position += decoder.decode(&body[position..position + 1]).unwrap().consumed;
        }
        assert_eq!(decoder.trailers(), b"A: b\r\nC:\r\n");
        assert_eq!(&body[position..], b"HTTP");
    }

    #[test]
    fn good_bodies() {
        let table: [(&str, &str); 22] = [
            ("0\r\n\r\n", ""),
            ("5\r\nhello\r\n0\r\n\r\n", "hello"),
            ("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "hello world"),
            ("a\r\n0123456789\r\n0\r\n\r\n", "0123456789"),
            ("A\r\n0123456789\r\n0\r\n\r\n", "0123456789"),
            ("0000000000000002\r\nok\r\n00\r\n\r\n", "ok"),
            ("2\r\n\r\n\r\n0\r\n\r\n", "\r\n"),
            ("2;name\r\nok\r\n0\r\n\r\n", "ok"),
            ("2;name=value\r\nok\r\n0;last\r\n\r\n", "ok"),
            ("2 ; name = value ; other\r\nok\r\n0\r\n\r\n", "ok"),
            ("2\t;name\t=\tvalue\r\nok\r\n0\r\n\r\n", "ok"),
            ("2;name=\"quoted; \\\" string\"\r\nok\r\n0\r\n\r\n", "ok"),
            ("2;name=\"\"\r\nok\r\n0\r\n\r\n", "ok"),
            ("2;name=\"a\" ;b=c\r\nok\r\n0\r\n\r\n", "ok"),
            ("2;name=\"é\t\"\r\nok\r\n0\r\n\r\n", "ok"),
            ("2;a;b;c\r\nok\r\n0\r\n\r\n", "ok"),
            ("2;a ;b=1;c\r\nok\r\n0\r\n\r\n", "ok"),
            ("0\r\nName: value\r\n\r\n", ""),
            ("0\r\nName:\r\nOther: \t\r\n\r\n", ""),
            ("0\r\nName: with: colons \u{e9}\r\n\r\n", ""),
            ("0;a=b\r\nName:value\r\n\r\n", ""),
            ("1\r\n\n\r\n0\r\n\r\n", "\n"),
        ];
        for (input, data) in table {
            assert_eq!(decode(input.as_bytes()), Ok((data.into(), input.len(), true)), "{input:?}");
            let followed = format!("{input}GET / HTTP/1.1\r\n");
            assert_eq!(decode(followed.as_bytes()), Ok((data.into(), input.len(), true)), "{followed:?}");
        }
    }

    #[test]
    fn bad_bodies() {
        use ChunkError::*;
        let table: [(&str, ChunkError); 56] = [
            ("\r\n", Size),
            ("\n", Size),
            (" 5\r\n", Size),
            ("\t5\r\n", Size),
            ("+5\r\n", Size),
            ("-5\r\n", Size),
            ("0x5\r\n", Size),
            ("5g\r\n", Size),
            ("g\r\n", Size),
            (";name\r\n", Size),
            ("5_0\r\n", Size),
            ("5.\r\n", Size),
            ("5,5\r\n", Size),
            ("5\0\r\n", Size),
            ("\u{ff15}\r\n", Size),
            ("00000000000000005\r\n", SizeTooLarge),
            ("10000000000000000\r\n", SizeTooLarge),
            ("fffffffffffffffff\r\n", SizeTooLarge),
            ("5\nhello\n0\n\n", LineEnd),
            ("5\rhello\r\n", LineEnd),
            ("5\r\r\nhello\r\n", LineEnd),
            ("5;name\nhello", LineEnd),
            ("5;name\rhello", LineEnd),
            ("5;name=\"a\"\n", LineEnd),
            ("5 \n", LineEnd),
            ("5 \r\n", Extension),
            ("5\t\r\n", Extension),
            ("5 5\r\n", Extension),
            ("5;\r\n", Extension),
            ("5;;a\r\n", Extension),
            ("5; \r\n", Extension),
            ("5;a \r\n", Extension),
            ("5;a=\r\n", Extension),
            ("5;a=b \r\n", Extension),
            ("5;a=b=c\r\n", Extension),
            ("5;a b\r\n", Extension),
            ("5;a=b c\r\n", Extension),
            ("5;a=\"b\r\n", Extension),
            ("5;a=\"b\nc\"\r\n", Extension),
            ("5;a=\"b\\\n\"\r\n", Extension),
            ("5;a=\"b\"c\r\n", Extension),
            ("5;a\0\r\n", Extension),
            ("5;a=\"\0\"\r\n", Extension),
            ("5;=a\r\n", Extension),
            ("5\r\nhello0\r\n\r\n", DataEnd),
            ("5\r\nhello\n0\r\n\r\n", DataEnd),
            ("5\r\nhello\r0\r\n\r\n", DataEnd),
            ("0\r\n\n", LineEnd),
            ("0\r\n\rX", LineEnd),
            ("0\r\nName: value\n\r\n", LineEnd),
            ("0\r\nName: value\r\r\n", LineEnd),
            ("0\r\n folded\r\n\r\n", Trailer),
            ("0\r\nName: value\r\n folded\r\n\r\n", Trailer),
            ("0\r\nName : value\r\n\r\n", Trailer),
            ("0\r\n: value\r\n\r\n", Trailer),
            ("0\r\nName\r\n\r\n", Trailer),
        ];
        for (input, error) in table {
            assert_eq!(decode(input.as_bytes()), Err(error), "{input:?}");
        }
        assert_eq!(decode(b"0\r\nName: a\0b\r\n\r\n"), Err(Trailer));
        assert_eq!(decode(b"0\r\nName: a\x7fb\r\n\r\n"), Err(Trailer));
    }

    #[test]
    fn bodies_that_stop_early_are_not_done() {
        let whole = b"5;a=\"b\"\r\nhello\r\n0\r\nName: value\r\n\r\n";
        for end in 0..whole.len() {
            let (data, total, done) = decode(&whole[..end]).expect("a good beginning");
            assert!(!done, "{end}");
            assert_eq!(total, end);
            assert!(b"hello".starts_with(&data));
        }
    }

    #[test]
    fn limits() {
        let limits = ChunkedLimits { extension_bytes: 10, trailer_bytes: 8 };
        let decode = |input: &str| decode_pieces(&[input.as_bytes()], limits).map(|(data, ..)| data.len());
        assert_eq!(decode("1;123456789\r\nx\r\n0\r\n\r\n"), Ok(1));
        assert_eq!(decode("1;1234567890\r\nx\r\n0\r\n\r\n"), Err(ChunkError::ExtensionsTooLong));
        // The limit is on all chunks of a body together.
        assert_eq!(decode("1;1234\r\nx\r\n1;1234\r\nx\r\n0\r\n\r\n"), Ok(2));
        assert_eq!(decode("1;1234\r\nx\r\n1;1234\r\nx\r\n0;1\r\n\r\n"), Err(ChunkError::ExtensionsTooLong));
        assert_eq!(decode("0\r\na: bcd\r\n\r\n"), Ok(0));
        assert_eq!(decode("0\r\na: bcde\r\n\r\n"), Err(ChunkError::TrailersTooLong));
        assert_eq!(decode("0\r\na:\r\nb:\r\n\r\n"), Ok(0));
        assert_eq!(decode("0\r\na:\r\nb:\r\nc:\r\n\r\n"), Err(ChunkError::TrailersTooLong));
    }

    #[test]
    fn the_largest_chunk_is_not_held() {
        let mut decoder = ChunkedDecoder::default();
        let input = b"ffffffffffffffff\r\nabc";
        let decoded = decoder.decode(input).expect("a good size");
        assert_eq!(&input[decoded.data], b"abc");
        assert_eq!(decoder.chunk_remaining(), u64::MAX - 3);
    }

    #[test]
    fn after_the_end_nothing_is_consumed() {
        let mut decoder = ChunkedDecoder::default();
        assert!(decoder.decode(LAST_CHUNK).expect("a good body").done);
        let decoded = decoder.decode(b"5\r\nhello\r\n").expect("nothing is looked at");
        assert_eq!(decoded, DecodedChunk { consumed: 0, data: 0..0, done: true });
    }

    #[test]
    fn chunk_heads() {
        for (length, expected) in [
            (0, "0\r\n"),
            (1, "1\r\n"),
            (15, "f\r\n"),
            (16, "10\r\n"),
            (6250, "186a\r\n"),
            (u64::MAX, "ffffffffffffffff\r\n"),
        ] {
            assert_eq!(chunk_head(length, &mut [0; 18]), expected.as_bytes());
        }
    }

    /// Bytes that are often, but not always, a chunked body.
    fn nearly_chunked() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just("5\r\nhello\r\n".to_owned()),
            Just("0\r\n\r\n".to_owned()),
            Just("0\r\n".to_owned()),
            Just("Name: value\r\n".to_owned()),
            Just("3;a=\"b\\\"\"; c=d\r\nxyz\r\n".to_owned()),
            Just("\r\n".to_owned()),
            "[0-9a-f]{1,2}",
            "[;= \"\\\\\r\na:]{1,3}",
            any::<char>().prop_map(String::from),
        ];
        proptest::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat().into_bytes())
    }

    /// Cuts `bytes` at the given places.
    fn cut<'a>(bytes: &'a [u8], places: &[prop::sample::Index]) -> Vec<&'a [u8]> {
        let mut places: Vec<usize> = places.iter().map(|place| place.index(bytes.len() + 1)).collect();
        places.sort_unstable();
        let mut pieces = Vec::new();
        let mut start = 0;
        for end in places.into_iter().chain([bytes.len()]) {
            pieces.push(&bytes[start..end]);
            start = end;
        }
        pieces
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_result(
            bytes in nearly_chunked(),
            places in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let limits = ChunkedLimits { extension_bytes: 12, trailer_bytes: 30 };
            let whole = decode_pieces(&[&bytes], limits);
            prop_assert_eq!(decode_pieces(&cut(&bytes, &places), limits), whole.clone());
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            prop_assert_eq!(decode_pieces(&single, limits), whole);
        }

        #[test]
        fn what_is_encoded_is_decoded(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..6),
            places in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let mut encoded = Vec::new();
            for chunk in &chunks {
                encoded.extend_from_slice(chunk_head(chunk.len() as u64, &mut [0; 18]));
                encoded.extend_from_slice(chunk);
                encoded.extend_from_slice(b"\r\n");
            }
            encoded.extend_from_slice(LAST_CHUNK);
            let length = encoded.len();
            encoded.extend_from_slice(b"GET / HTTP/1.1\r\n");
            let outcome = decode_pieces(&cut(&encoded, &places), ChunkedLimits::default());
            prop_assert_eq!(outcome, Ok((chunks.concat(), length, true)));
        }

        #[test]
        fn heads_are_lower_case_hexadecimal(length in prop_oneof![any::<u64>(), 0u64..100_000]) {
            let expected = format!("{length:x}\r\n");
            let mut buffer = [0; 18];
            prop_assert_eq!(chunk_head(length, &mut buffer), expected.as_bytes());
        }

        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = decode(&bytes);
        }
    }
}
