//! Weights (RFC 9110 section 12.4.2): the `;q=0.5` of `Accept`, `Accept-Encoding` and their kind.

use crate::grammar::trim_optional_white_space;

/// The weight of a member without a weight, which is also the largest weight.
pub const FULL_WEIGHT: u16 = 1000;

/// The weight of a member that is not acceptable.
pub const NOT_ACCEPTABLE: u16 = 0;

/// Reads a qvalue in thousandths: `0.5` is 500. `None`: it is not one.
///
/// `qvalue = ( "0" [ "." 0*3DIGIT ] ) / ( "1" [ "." 0*3("0") ] )`
pub fn parse_qvalue(text: &[u8]) -> Option<u16> {
    let (whole, decimals) = match text {
        [whole @ (b'0' | b'1')] => (whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    let mut thousandths = u16::from(whole - b'0');
    for place in 0..3 {
        let digit = decimals.get(place).copied().unwrap_or(b'0');
        if !digit.is_ascii_digit() {
            return None;
        }
        thousandths = thousandths * 10 + u16::from(digit - b'0');
    }
    (thousandths <= FULL_WEIGHT).then_some(thousandths)
}

/// Splits a list member that has no parameter except its weight, such as `gzip;q=0.5`, into the name and the
/// weight. `None`: something else follows, or the weight is not valid.
pub fn split_weight(member: &[u8]) -> Option<(&[u8], u16)> {
    let Some(semicolon) = member.iter().position(|&byte| byte == b';') else {
        return Some((trim_optional_white_space(member), FULL_WEIGHT));
    };
    let parameter = trim_optional_white_space(&member[semicolon + 1..]);
    let [b'q' | b'Q', b'=', qvalue @ ..] = parameter else { return None };
    Some((trim_optional_white_space(&member[..semicolon]), parse_qvalue(qvalue)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn qvalues() {
        for (text, thousandths) in [
            ("0", 0),
            ("0.", 0),
            ("0.0", 0),
            ("0.000", 0),
            ("0.001", 1),
            ("0.5", 500),
            ("0.25", 250),
            ("0.999", 999),
            ("1", 1000),
            ("1.", 1000),
            ("1.0", 1000),
            ("1.000", 1000),
        ] {
            assert_eq!(parse_qvalue(text.as_bytes()), Some(thousandths), "{text}");
        }
        for text in
            ["", ".5", "0.0000", "1.001", "1.5", "2", "-1", "0,5", "0.5 ", "0.x", "00", "1e0", "0.5;a"]
        {
            assert_eq!(parse_qvalue(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn members() {
        assert_eq!(split_weight(b"gzip"), Some((&b"gzip"[..], 1000)));
        assert_eq!(split_weight(b"gzip \t; \tQ=0.3"), Some((&b"gzip"[..], 300)));
        for member in ["gzip;", "gzip;q", "gzip;q=", "gzip;q =1", "gzip;x=1", "gzip;q=1;x=1", "gzip;q=\"1\""]
        {
            assert_eq!(split_weight(member.as_bytes()), None, "{member}");
        }
    }

    proptest! {
        #[test]
        fn every_thousandth_reads_back(thousandths in 0u16..=1000) {
            let text = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
            prop_assert_eq!(parse_qvalue(text.as_bytes()), Some(thousandths));
        }

        #[test]
        fn any_bytes_give_a_weight_in_range(bytes in proptest::collection::vec(any::<u8>(), 0..8)) {
            prop_assert!(parse_qvalue(&bytes).is_none_or(|weight| weight <= FULL_WEIGHT));
            prop_assert!(split_weight(&bytes).is_none_or(|(_, weight)| weight <= FULL_WEIGHT));
        }
    }
}
