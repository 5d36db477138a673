//! The Huffman code of HPACK (RFC 7541 section 5.2 and appendix B).
//!
//! The code is canonical: the lengths of the codes determine the codes. So the lengths are all that is
//! written down here, and the tables for both directions are computed from them when this is compiled.
//!
//! Decoding looks at the next eight bits at once, which hold a whole code for every character that is common
//! in fields; the longer codes are found by comparing with the first code of each length.

use super::HpackError;

/// The length of each symbol's code in bits, the last symbol being EOS.
#[rustfmt::skip]
const CODE_LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// The symbol for the end of a string; it never occurs in one.
const EOS: usize = 256;

const SHORTEST_CODE_BITS: usize = 5;
const LONGEST_CODE_BITS: usize = 30;

/// How many bits are looked up at once.
const LOOKUP_BITS: usize = 8;

/// The tables that are computed from [`CODE_LENGTHS`].
struct Code {
    /// Each symbol's code, in the lowest bits.
    codes: [u32; 257],
    /// The symbols in the order of their codes.
    symbols: [u16; 257],
    /// For each length: a limit. The codes of this length or less, as the highest bits of 32, are below it.
    bounds: [u64; LONGEST_CODE_BITS + 1],
    /// For each length: what to subtract from a code of this length to get its place in `symbols`.
    offsets: [u32; LONGEST_CODE_BITS + 1],
    /// For the next eight bits: the symbol, and the length of its code if that is at most eight bits,
    /// otherwise 0.
    lookup: [(u8, u8); 1 << LOOKUP_BITS],
}

static CODE: Code = build();

const fn build() -> Code {
    let mut code = Code {
        codes: [0; 257],
        symbols: [0; 257],
        bounds: [0; LONGEST_CODE_BITS + 1],
        offsets: [0; LONGEST_CODE_BITS + 1],
        lookup: [(0, 0); 1 << LOOKUP_BITS],
    };
    let mut next_code = 0u32;
    let mut place = 0;
    let mut length = 1;
    while length <= LONGEST_CODE_BITS {
        next_code <<= 1;
        code.offsets[length] = next_code.wrapping_sub(place as u32);
        let mut symbol = 0;
        while symbol <= EOS {
            if CODE_LENGTHS[symbol] as usize == length {
                code.codes[symbol] = next_code;
                code.symbols[place] = symbol as u16;
                if length <= LOOKUP_BITS {
                    let spare_bits = LOOKUP_BITS - length;
                    let mut filler = 0;
                    while filler < 1 << spare_bits {
                        code.lookup[((next_code as usize) << spare_bits) | filler] =
                            (symbol as u8, length as u8);
                        filler += 1;
                    }
                }
                next_code += 1;
                place += 1;
            }
            symbol += 1;
        }
        code.bounds[length] = (next_code as u64) << (32 - length);
        length += 1;
    }
    code
}

/// The most bytes that `encoded_bytes` of Huffman code can stand for.
#[inline]
pub fn max_decoded_bytes(encoded_bytes: usize) -> usize {
    encoded_bytes * 8 / SHORTEST_CODE_BITS
}

/// Decodes `input` into the beginning of `out` and returns how many bytes that are. `out` must have room for
/// [`max_decoded_bytes`]; what does not fit is an error.
#[inline]
pub fn decode(input: &[u8], out: &mut [u8]) -> Result<usize, HpackError> {
    let mut rest = input;
    // The bits to be decoded next are the highest of `bits`; `count` of them are there.
    let mut bits = 0u64;
    let mut count = 0usize;
    let mut written = 0;
    loop {
        // As many whole bytes as fit. If bits of one more byte were copied too, the next round writes the
        // same bits again.
        let taken = rest.len().min((63 - count) / 8);
        bits |= leading_bytes(rest) >> count;
        count += 8 * taken;
        rest = &rest[taken..];
        if rest.is_empty() {
            break;
        }
        while count >= LONGEST_CODE_BITS {
            let (symbol, length) = next_symbol(bits)?;
            *out.get_mut(written).ok_or(HpackError::Huffman)? = symbol;
            written += 1;
            bits <<= length;
            count -= length;
        }
    }
    // No more input: the bits after the `count` valid ones are zeros, and no code may use them.
    while count >= SHORTEST_CODE_BITS {
        match next_symbol(bits) {
            Ok((symbol, length)) if length <= count => {
                *out.get_mut(written).ok_or(HpackError::Huffman)? = symbol;
                written += 1;
                bits <<= length;
                count -= length;
            }
            _ => break,
        }
    }
    let padding = bits >> (64 - LOOKUP_BITS);
    let ones = 0xff & !(0xff >> count.min(LOOKUP_BITS));
    if count < LOOKUP_BITS && padding == ones { Ok(written) } else { Err(HpackError::Huffman) }
}

/// The first bytes of `rest`, up to eight, as the highest bits of a number whose others are 0.
#[inline]
fn leading_bytes(rest: &[u8]) -> u64 {
    if let Some(word) = rest.first_chunk::<8>() {
        return u64::from_be_bytes(*word);
    }
    // Two words that overlap, or three bytes that may be the same byte.
    let unused_bits = 64 - 8 * rest.len() as u32;
    match (rest.first_chunk::<4>(), rest.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            u64::from(u32::from_be_bytes(*first)) << 32 | u64::from(u32::from_be_bytes(*last)) << unused_bits
        }
        _ => match (rest.first(), rest.get(rest.len() / 2), rest.last()) {
            (Some(&first), Some(&middle), Some(&last)) => {
                let middle_shift = 56 - 8 * (rest.len() / 2) as u32;
                u64::from(first) << 56 | u64::from(middle) << middle_shift | u64::from(last) << unused_bits
            }
            _ => 0,
        },
    }
}

/// The symbol whose code the highest bits begin with, and the length of that code.
#[inline]
fn next_symbol(bits: u64) -> Result<(u8, usize), HpackError> {
    let (symbol, length) = CODE.lookup[(bits >> (64 - LOOKUP_BITS)) as usize];
    if length != 0 { Ok((symbol, usize::from(length))) } else { next_long_symbol(bits) }
}

#[cold]
fn next_long_symbol(bits: u64) -> Result<(u8, usize), HpackError> {
    let highest = (bits >> 32) as u32;
    for length in LOOKUP_BITS + 1..=LONGEST_CODE_BITS {
        if u64::from(highest) < CODE.bounds[length] {
            let place = (highest >> (32 - length)).wrapping_sub(CODE.offsets[length]);
            let symbol = CODE.symbols.get(place as usize).copied().unwrap_or(EOS as u16);
            return u8::try_from(symbol).map(|symbol| (symbol, length)).map_err(|_| HpackError::Huffman);
        }
    }
    Err(HpackError::Huffman)
}

/// How many bytes [`encode`] makes of `input`.
pub fn encoded_bytes(input: &[u8]) -> usize {
    let bits: usize = input.iter().map(|&byte| usize::from(CODE_LENGTHS[usize::from(byte)])).sum();
    bits.div_ceil(8)
}

/// Appends the Huffman code of `input`.
pub fn encode(input: &[u8], out: &mut Vec<u8>) {
    // The codes that are not written yet, in the lowest bits; always fewer than 32 before the next is added.
    let mut bits = 0u64;
    let mut count = 0u32;
    for &byte in input {
        let length = u32::from(CODE_LENGTHS[usize::from(byte)]);
        bits = bits << length | u64::from(CODE.codes[usize::from(byte)]);
        count += length;
        if count >= 32 {
            count -= 32;
            out.extend_from_slice(&((bits >> count) as u32).to_be_bytes());
        }
    }
    while count >= 8 {
        count -= 8;
        out.push((bits >> count) as u8);
    }
    if count > 0 {
        // The padding is the beginning of EOS: ones.
        out.push((bits << (8 - count)) as u8 | 0xff >> count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode_all(input: &[u8]) -> Result<Vec<u8>, HpackError> {
        let mut out = vec![0; max_decoded_bytes(input.len())];
        let length = decode(input, &mut out)?;
        out.truncate(length);
        Ok(out)
    }

    /// The definition, decoded bit by bit using only the table of codes.
    fn decode_slowly(input: &[u8]) -> Result<Vec<u8>, HpackError> {
        let mut out = Vec::new();
        let (mut code, mut length) = (0u32, 0);
        for bit in input.iter().flat_map(|byte| (0..8).rev().map(move |shift| byte >> shift & 1)) {
            code = code << 1 | u32::from(bit);
            length += 1;
            let found = (0..=EOS)
                .find(|&symbol| usize::from(CODE_LENGTHS[symbol]) == length && CODE.codes[symbol] == code);
            if let Some(symbol) = found {
                out.push(u8::try_from(symbol).map_err(|_| HpackError::Huffman)?);
                (code, length) = (0, 0);
            }
        }
        let padded = length < 8 && code == (1 << length) - 1;
        if padded { Ok(out) } else { Err(HpackError::Huffman) }
    }

    /// Rows of RFC 7541 appendix B from its whole range.
    #[test]
    fn codes_of_the_standard() {
        for (symbol, code, length) in [
            (0, 0x1ff8, 13),
            (10, 0x3fff_fffc, 30),
            (usize::from(b' '), 0x14, 6),
            (usize::from(b'0'), 0, 5),
            (usize::from(b'Z'), 0xfd, 8),
            (usize::from(b'\\'), 0x7_fff0, 19),
            (usize::from(b'~'), 0x1ffd, 13),
            (127, 0xfff_fffc, 28),
            (128, 0xf_ffe6, 20),
            (255, 0x3ff_ffee, 26),
            (EOS, 0x3fff_ffff, 30),
        ] {
            assert_eq!(CODE.codes[symbol], code, "{symbol}");
            assert_eq!(CODE_LENGTHS[symbol], length, "{symbol}");
        }
    }

    #[test]
    fn strings_of_the_standard() {
        for (text, bytes) in [
            ("www.example.com", &b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"[..]),
            ("no-cache", b"\xa8\xeb\x10\x64\x9c\xbf"),
            ("custom-value", b"\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf"),
            ("", b""),
        ] {
            assert_eq!(decode_all(bytes).as_deref(), Ok(text.as_bytes()));
            let mut out = Vec::new();
            encode(text.as_bytes(), &mut out);
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn wrong_padding_and_eos_are_refused() {
        for bytes in [
            &[0xff][..],
            &[0x1f, 0xff],
            &[0x1f, 0xff, 0xff],
            &[0x1f, 0xff, 0xff, 0xff],
            &[0xff, 0x9f, 0xff, 0xff, 0xff],
            &[b'R', 0xbc, b'0', 0xff, 0xff, 0xff, 0xff],
            // EOS, alone and before a character.
            &[0xff, 0xff, 0xff, 0xff],
            &[0xff, 0xff, 0xff, 0xfc],
            &[0xff, 0xff, 0xff, 0xff, 0xfc],
            // `a` with zeros as padding, and with a mixture.
            &[0x18],
            &[0x1e],
        ] {
            assert_eq!(decode_all(bytes), Err(HpackError::Huffman), "{bytes:x?}");
        }
        assert_eq!(decode_all(&[0x1f]).unwrap(), b"a");
    }

    #[test]
    fn too_little_room_is_an_error() {
        let mut out = Vec::new();
        encode(b"aaaaaaaaaaaaaaaaaaaaaaaa", &mut out);
        for room in 0..24 {
            assert_eq!(decode(&out, &mut vec![0; room]), Err(HpackError::Huffman), "{room}");
        }
        assert_eq!(decode(&out, &mut [0; 24]), Ok(24));
    }

    proptest! {
        #[test]
        fn reads_what_it_writes(text in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..80),
            "[a-z0-9/.%-]{0,80}".prop_map(String::into_bytes),
        ]) {
            let mut out = Vec::new();
            encode(&text, &mut out);
            prop_assert_eq!(out.len(), encoded_bytes(&text));
            prop_assert_eq!(decode_all(&out), Ok(text));
        }

        #[test]
        fn agrees_with_the_definition(
            bytes in proptest::collection::vec(prop_oneof![3 => any::<u8>(), 2 => Just(0xffu8)], 0..24)
        ) {
            prop_assert_eq!(decode_all(&bytes), decode_slowly(&bytes));
        }
    }
}
