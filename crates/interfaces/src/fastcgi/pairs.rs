//! Names and values in FastCGI's form (section 3.4): the length of each, in one byte or in four, then both.

use std::fmt;

/// The longest length that fits in one byte.
const ONE_BYTE: usize = 127;

/// The longest length in the protocol.
const LONGEST: usize = 0x7fff_ffff;

/// Appends a pair, whose value consists of these pieces. A pair that is too long for the protocol (2 GiB) is
/// left out.
pub fn append(name: &[u8], value: &[&[u8]], out: &mut Vec<u8>) {
    let value_bytes = value.iter().map(|piece| piece.len()).sum();
    if name.len() > LONGEST || value_bytes > LONGEST {
        return;
    }
    append_length(name.len(), out);
    append_length(value_bytes, out);
    out.extend_from_slice(name);
    value.iter().for_each(|piece| out.extend_from_slice(piece));
}

/// Reads pairs that have arrived completely.
#[derive(Debug, Clone)]
pub struct Pairs<'b> {
    rest: &'b [u8],
}

/// A pair is longer than the rest of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TruncatedPair;

impl fmt::Display for TruncatedPair {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name or value is longer than the record")
    }
}

impl std::error::Error for TruncatedPair {}

impl<'b> Pairs<'b> {
    /// Reads the pairs in these bytes.
    pub fn new(bytes: &'b [u8]) -> Pairs<'b> {
        Pairs { rest: bytes }
    }

    fn take(&mut self) -> Option<(&'b [u8], &'b [u8])> {
        let (name_length, rest) = take_length(self.rest)?;
        let (value_length, rest) = take_length(rest)?;
        let (name, rest) = rest.split_at_checked(name_length)?;
        let (value, rest) = rest.split_at_checked(value_length)?;
        self.rest = rest;
        Some((name, value))
    }
}

impl<'b> Iterator for Pairs<'b> {
    type Item = Result<(&'b [u8], &'b [u8]), TruncatedPair>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        Some(self.take().ok_or_else(|| {
            self.rest = &[];
            TruncatedPair
        }))
    }
}

fn append_length(length: usize, out: &mut Vec<u8>) {
    if length <= ONE_BYTE {
        out.push(length as u8);
    } else {
        // The caller has checked that the length fits in 31 bits.
        out.extend_from_slice(&(length as u32 | 0x8000_0000).to_be_bytes());
    }
}

fn take_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    if usize::from(first) <= ONE_BYTE {
        return Some((usize::from(first), rest));
    }
    let (four, rest) = bytes.split_first_chunk::<4>()?;
    Some(((u32::from_be_bytes(*four) & 0x7fff_ffff) as usize, rest))
}
