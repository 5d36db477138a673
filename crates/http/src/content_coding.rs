//! Content codings and their negotiation (RFC 9110 sections 8.4 and 12.5.3).
//!
//! [`AcceptEncoding`] holds the fields of a request, read once while its head is parsed. Together with the
//! server's order of codings it gives a [`CodingPreference`]: the acceptable representations, the most
//! preferred first. The preference is one small number, so a cache can use it as a key. The caller checks
//! which of the representations exist.

use crate::grammar::list_members;
use crate::weight::{FULL_WEIGHT, split_weight};

/// A content coding that can be sent. `deflate` is missing, because browsers differ in the format that they
/// accept under that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContentCoding {
    /// `br` (RFC 7932)
    Brotli = 0,
    /// `zstd` (RFC 8878, window limited by RFC 9659)
    Zstd = 1,
    /// `gzip` (RFC 1952)
    Gzip = 2,
}

impl ContentCoding {
    /// All codings, in the default order of preference.
    pub const ALL: [ContentCoding; 3] = [ContentCoding::Brotli, ContentCoding::Zstd, ContentCoding::Gzip];

    /// The name in Accept-Encoding and Content-Encoding.
    pub fn token(self) -> &'static str {
        match self {
            ContentCoding::Brotli => "br",
            ContentCoding::Zstd => "zstd",
            ContentCoding::Gzip => "gzip",
        }
    }

    /// The suffix of the names of files that are compressed with this coding.
    pub fn file_suffix(self) -> &'static str {
        match self {
            ContentCoding::Brotli => ".br",
            ContentCoding::Zstd => ".zst",
            ContentCoding::Gzip => ".gz",
        }
    }
}

/// A weight that was not given.
const UNLISTED: u16 = u16::MAX;

/// The Accept-Encoding fields of a request, all its lines together. The default is a request without the
/// field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptEncoding {
    /// Weights in thousandths by [`ContentCoding`].
    codings: [u16; 3],
    identity: u16,
    /// `*`: the weight of codings that are not listed.
    any: u16,
    is_present: bool,
}

impl AcceptEncoding {
    /// A request without the field, which gets an answer without a coding. (RFC 9110 would allow any coding.
    /// A client that names none probably supports none.)
    pub const ABSENT: AcceptEncoding =
        AcceptEncoding { codings: [UNLISTED; 3], identity: UNLISTED, any: UNLISTED, is_present: false };

    /// True when the request has no such field.
    #[inline]
    pub fn is_absent(&self) -> bool {
        !self.is_present
    }

    /// Adds the value of one field line.
    ///
    /// A member that is not `coding` or `coding;q=weight` is skipped. If a coding is listed more than once,
    /// the least of its weights applies.
    #[inline]
    pub fn add(&mut self, value: &[u8]) {
        // The values that nearly all browsers send need not be parsed.
        let [brotli, zstd, gzip] = match value {
            b"gzip, deflate, br, zstd" => [FULL_WEIGHT; 3],
            b"gzip, deflate, br" => [FULL_WEIGHT, UNLISTED, FULL_WEIGHT],
            b"gzip, deflate" | b"gzip" => [UNLISTED, UNLISTED, FULL_WEIGHT],
            _ => return self.add_members(value),
        };
        self.is_present = true;
        for (kept, weight) in self.codings.iter_mut().zip([brotli, zstd, gzip]) {
            *kept = weight.min(*kept);
        }
    }

    fn add_members(&mut self, value: &[u8]) {
        self.is_present = true;
        for member in list_members(value) {
            let Some((name, weight)) = split_weight(member) else { continue };
            let kept = if name == b"*" {
                &mut self.any
            } else if name.eq_ignore_ascii_case(b"identity") {
                &mut self.identity
            } else if name.eq_ignore_ascii_case(b"br") {
                &mut self.codings[ContentCoding::Brotli as usize]
            } else if name.eq_ignore_ascii_case(b"zstd") {
                &mut self.codings[ContentCoding::Zstd as usize]
            } else if name.eq_ignore_ascii_case(b"gzip") || name.eq_ignore_ascii_case(b"x-gzip") {
                &mut self.codings[ContentCoding::Gzip as usize]
            } else {
                continue;
            };
            *kept = weight.min(*kept);
        }
    }

    /// The acceptable representations, for a server that prefers codings in this order. Weights decide first;
    /// among equal weights a coding goes before identity.
    #[inline]
    pub fn preference(&self, order: &[ContentCoding; 3]) -> CodingPreference {
        if !self.is_present {
            return CodingPreference::IDENTITY;
        }
        self.sorted(order)
    }

    fn sorted(&self, order: &[ContentCoding; 3]) -> CodingPreference {
        let wildcard = if self.any == UNLISTED { 0 } else { self.any };
        let given = |weight: u16, otherwise: u16| if weight == UNLISTED { otherwise } else { weight };
        // Identity that is not listed is acceptable, but less preferred than every listed coding. It gets
        // half of the least weight, so weights are doubled here.
        let identity = match (self.identity, self.any) {
            (UNLISTED, UNLISTED) => 1,
            (UNLISTED, any) => 2 * any,
            (identity, _) => 2 * identity,
        };
        let weight_of = |coding: ContentCoding| 2 * given(self.codings[coding as usize], wildcard);
        let mut candidates = [
            (weight_of(order[0]), order[0] as u16 + 1),
            (weight_of(order[1]), order[1] as u16 + 1),
            (weight_of(order[2]), order[2] as u16 + 1),
            (identity, 0),
        ];
        // The sort is stable: equal weights stay in the server's order, identity last.
        candidates.sort_by_key(|&(weight, _)| std::cmp::Reverse(weight));
        let (mut packed, mut shift, mut before) = (0, 0, 0);
        for (weight, which) in candidates.into_iter().filter(|&(weight, _)| weight > 0) {
            let begins_group = if weight != before { CodingPreference::BEGINS_GROUP } else { 0 };
            packed |= (CodingPreference::PRESENT | begins_group | which) << shift;
            shift += 4;
            before = weight;
        }
        CodingPreference(packed)
    }
}

impl Default for AcceptEncoding {
    fn default() -> AcceptEncoding {
        AcceptEncoding::ABSENT
    }
}

/// The acceptable representations, the most preferred first, in groups of equal weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CodingPreference(u16);

/// Representations of equal weight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CodingGroup {
    codings: [Option<ContentCoding>; 3],
    /// Whether the group also holds the representation without a coding, as the last one.
    pub identity: bool,
}

impl CodingGroup {
    /// The codings, in the server's order.
    pub fn codings(&self) -> impl Iterator<Item = ContentCoding> {
        self.codings.into_iter().flatten()
    }
}

impl CodingPreference {
    /// Each representation takes four bits, the most preferred in the lowest: one bit for the presence of the
    /// entry, one for the beginning of a group, and two for the representation (0: identity).
    const PRESENT: u16 = 0b1000;
    const BEGINS_GROUP: u16 = 0b0100;

    /// Only the representation without a coding.
    pub const IDENTITY: CodingPreference =
        CodingPreference(CodingPreference::PRESENT | CodingPreference::BEGINS_GROUP);

    /// Whether the representation without a coding is acceptable.
    pub fn accepts_identity(self) -> bool {
        self.groups().any(|group| group.identity)
    }

    /// The groups, the most preferred first.
    pub fn groups(self) -> impl Iterator<Item = CodingGroup> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            if rest == 0 {
                return None;
            }
            let mut group = CodingGroup::default();
            let mut length = 0;
            loop {
                match rest & 0b11 {
                    0 => group.identity = true,
                    which => {
                        group.codings[length] = Some(ContentCoding::ALL[usize::from(which) - 1]);
                        length += 1;
                    }
                }
                rest >>= 4;
                if rest == 0 || rest & CodingPreference::BEGINS_GROUP != 0 {
                    return Some(group);
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(lines: &[&str]) -> AcceptEncoding {
        let mut accept = AcceptEncoding::ABSENT;
        for line in lines {
            accept.add(line.as_bytes());
        }
        accept
    }

    /// `br zstd | gzip | identity`
    fn shown(preference: CodingPreference) -> String {
        let groups = preference.groups().map(|group| {
            let identity = group.identity.then_some("identity");
            group.codings().map(ContentCoding::token).chain(identity).collect::<Vec<_>>().join(" ")
        });
        groups.collect::<Vec<_>>().join(" | ")
    }

    fn preference(value: &str) -> String {
        shown(read(&[value]).preference(&ContentCoding::ALL))
    }

    #[test]
    fn what_clients_send() {
        for (value, expected) in [
            ("gzip, deflate, br, zstd", "br zstd gzip | identity"),
            ("gzip, deflate, br", "br gzip | identity"),
            ("gzip, deflate", "gzip | identity"),
            ("gzip", "gzip | identity"),
            ("deflate, gzip, br, zstd", "br zstd gzip | identity"),
            ("GZip", "gzip | identity"),
            ("x-gzip", "gzip | identity"),
            ("br;q=1.0, gzip;q=0.8, *;q=0.1", "br | gzip | zstd identity"),
            ("identity", "identity"),
            ("identity;q=1, *;q=0", "identity"),
            ("*", "br zstd gzip identity"),
            ("", "identity"),
            (" , ,", "identity"),
            ("deflate", "identity"),
            ("gzip;q=0.5, identity;q=0.8", "identity | gzip"),
            ("gzip;q=0.5, identity;q=0.5", "gzip identity"),
            ("gzip;q=0.001", "gzip | identity"),
            ("gzip;q=0", "identity"),
            ("gzip, br;q=0", "gzip | identity"),
            ("*, br;q=0", "zstd gzip identity"),
            ("identity;q=0", ""),
            ("*;q=0", ""),
            ("*;q=0, identity;q=0.1", "identity"),
            ("*;q=0, gzip", "gzip"),
            ("identity;q=0, gzip", "gzip"),
            ("identity;q=0, *", "br zstd gzip"),
            ("gzip ; q=0.2 ,\tzstd;Q=0.9", "zstd | gzip | identity"),
        ] {
            assert_eq!(preference(value), expected, "{value:?}");
        }
    }

    #[test]
    fn a_member_that_cannot_be_read_has_no_effect() {
        for value in
            ["gzip;q=2", "gzip;q=", "gzip;level=9", "gzip;q=0.1234", "gzip q=1", "g\u{fc}zip", ";q=1"]
        {
            assert_eq!(preference(value), "identity", "{value:?}");
        }
        assert_eq!(preference("gzip;q=x, br"), "br | identity");
    }

    #[test]
    fn absent_is_not_empty() {
        assert!(AcceptEncoding::default().is_absent());
        assert!(!read(&[""]).is_absent());
        assert_eq!(AcceptEncoding::ABSENT.preference(&ContentCoding::ALL), CodingPreference::IDENTITY);
        assert_eq!(read(&[""]).preference(&ContentCoding::ALL), CodingPreference::IDENTITY);
    }

    #[test]
    fn the_server_orders_codings_of_equal_weight() {
        let order = [ContentCoding::Gzip, ContentCoding::Brotli, ContentCoding::Zstd];
        assert_eq!(shown(read(&["gzip, deflate, br, zstd"]).preference(&order)), "gzip br zstd | identity");
        assert_eq!(shown(read(&["gzip;q=0.9, br, zstd"]).preference(&order)), "br zstd | gzip | identity");
    }

    #[test]
    fn the_least_weight_of_several_counts() {
        assert_eq!(preference("gzip, gzip;q=0"), "identity");
        assert_eq!(preference("gzip;q=0, gzip"), "identity");
        assert_eq!(
            shown(read(&["gzip;q=0", "gzip, deflate, br"]).preference(&ContentCoding::ALL)),
            "br | identity"
        );
    }

    #[test]
    fn identity_is_known_to_be_acceptable() {
        for (value, expected) in [("gzip", true), ("*;q=0", false), ("identity;q=0", false), ("", true)] {
            assert_eq!(
                read(&[value]).preference(&ContentCoding::ALL).accepts_identity(),
                expected,
                "{value}"
            );
        }
    }

    /// The same result, computed as the RFC describes it and without packing.
    fn plainly(members: &[(String, Option<u16>)], order: &[ContentCoding; 3]) -> Vec<(u32, String)> {
        let listed = |name: &str| {
            let same = members.iter().filter(|(each, _)| each.eq_ignore_ascii_case(name));
            same.map(|(_, weight)| weight.unwrap_or(1000)).min()
        };
        let mut all: Vec<(u32, String)> = Vec::new();
        for coding in order {
            let weight = listed(coding.token()).or(listed("*")).unwrap_or(0);
            all.push((u32::from(weight) * 2, coding.token().to_string()));
        }
        let identity = listed("identity").or(listed("*")).map_or(1, |weight| u32::from(weight) * 2);
        all.push((identity, "identity".to_string()));
        all.retain(|(weight, _)| *weight > 0);
        all.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
        all
    }

    proptest! {
        #[test]
        fn agrees_with_the_plain_reading(
            members in proptest::collection::vec(
                (
                    prop_oneof![
                        Just("br"), Just("BR"), Just("zstd"), Just("gzip"), Just("identity"), Just("*"),
                        Just("deflate")
                    ].prop_map(str::to_string),
                    proptest::option::of(prop_oneof![Just(0u16), Just(500), 0u16..=1000]),
                ), 0..6),
            order in Just(ContentCoding::ALL.to_vec()).prop_shuffle(),
        ) {
            let order = [order[0], order[1], order[2]];
            let texts: Vec<String> = members.iter().map(|(name, weight)| match weight {
                Some(weight) => format!("{name};q={}.{:03}", weight / 1000, weight % 1000),
                None => name.clone(),
            }).collect();
            let preference = read(&[&texts.join(", ")]).preference(&order);
            let mut expected = String::new();
            let mut before = None;
            for (weight, name) in plainly(&members, &order) {
                expected += match before {
                    None => "",
                    Some(same) if same == weight => " ",
                    Some(_) => " | ",
                };
                expected += &name;
                before = Some(weight);
            }
            prop_assert_eq!(shown(preference), expected);
            // Several lines mean the same as one line with all their members.
            let lines: Vec<&str> = texts.iter().map(String::as_str).collect();
            if !lines.is_empty() {
                prop_assert_eq!(read(&lines).preference(&order), preference);
            }
        }

        #[test]
        fn any_bytes_give_each_representation_at_most_once(
            value in proptest::collection::vec(
                prop_oneof![
                    Just(b','), Just(b';'), Just(b'q'), Just(b'='), Just(b'0'), Just(b'*'), Just(b' '),
                    any::<u8>()
                ], 0..40)
        ) {
            let mut accept = AcceptEncoding::ABSENT;
            accept.add(&value);
            let groups: Vec<CodingGroup> = accept.preference(&ContentCoding::ALL).groups().collect();
            prop_assert!(groups.iter().filter(|group| group.identity).count() <= 1);
            let codings: Vec<ContentCoding> = groups.iter().flat_map(CodingGroup::codings).collect();
            for coding in ContentCoding::ALL {
                prop_assert!(codings.iter().filter(|each| **each == coding).count() <= 1);
            }
        }
    }
}
