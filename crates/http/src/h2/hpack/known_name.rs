//! Field names that are recognised while a block is decoded.
//!
//! Nearly every field that a client sends has a name from the static table or repeats an earlier field, so
//! its index gives the name without reading its bytes. [`KnownName`] keeps this result, so that a search for
//! a field compares one byte.

use crate::request::KnownField;

/// Makes the enumeration, its texts and the recognition from one list, so that they agree.
macro_rules! known_names {
    ($($(#[$documentation:meta])* $name:ident = $text:literal, $static_index:literal;)*) => {
        /// A field name; [`KnownName::Other`] for those that are not recognised.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[repr(u8)]
        pub enum KnownName {
            /// Any other name.
            #[default]
            Other,
            $(#[doc = $text] $name,)*
        }

        impl KnownName {
            /// The number of variants, with `Other`.
            pub(crate) const COUNT: usize = [$($static_index,)*].len() + 1;

            /// The texts, in the order of the enumeration, empty for `Other`.
            pub(crate) const TEXTS: [&'static str; KnownName::COUNT] = ["", $($text,)*];

            /// The index of the first entry of the static table that has the name; 0 if there is none.
            const STATIC_INDEXES: [u8; KnownName::COUNT] = [0, $($static_index,)*];

            /// Recognises a name. Valid names are in lower case (RFC 9113 section 8.2.1).
            #[allow(non_upper_case_globals, reason = "the names are those of the variants")]
            pub fn of(name: &[u8]) -> KnownName {
                $(const $name: &[u8] = $text.as_bytes();)*
                match name {
                    $($name => KnownName::$name,)*
                    _ => KnownName::Other,
                }
            }

            /// The name at `index` of the static table.
            pub(crate) const fn of_static_index(index: usize) -> KnownName {
                // An index belongs to the last name that begins at or before it. Names without one have the
                // index 0.
                let mut found = KnownName::Other;
                $(
                    let first: usize = $static_index;
                    if first != 0 && first <= index {
                        found = KnownName::$name;
                    }
                )*
                found
            }
        }
    };
}

known_names! {
    Authority = ":authority", 1;
    Method = ":method", 2;
    Path = ":path", 4;
    Scheme = ":scheme", 6;
    Status = ":status", 8;
    AcceptCharset = "accept-charset", 15;
    AcceptEncoding = "accept-encoding", 16;
    AcceptLanguage = "accept-language", 17;
    AcceptRanges = "accept-ranges", 18;
    Accept = "accept", 19;
    AccessControlAllowOrigin = "access-control-allow-origin", 20;
    Age = "age", 21;
    Allow = "allow", 22;
    Authorization = "authorization", 23;
    CacheControl = "cache-control", 24;
    ContentDisposition = "content-disposition", 25;
    ContentEncoding = "content-encoding", 26;
    ContentLanguage = "content-language", 27;
    ContentLength = "content-length", 28;
    ContentLocation = "content-location", 29;
    ContentRange = "content-range", 30;
    ContentType = "content-type", 31;
    Cookie = "cookie", 32;
    Date = "date", 33;
    Etag = "etag", 34;
    Expect = "expect", 35;
    Expires = "expires", 36;
    From = "from", 37;
    Host = "host", 38;
    IfMatch = "if-match", 39;
    IfModifiedSince = "if-modified-since", 40;
    IfNoneMatch = "if-none-match", 41;
    IfRange = "if-range", 42;
    IfUnmodifiedSince = "if-unmodified-since", 43;
    LastModified = "last-modified", 44;
    Link = "link", 45;
    Location = "location", 46;
    MaxForwards = "max-forwards", 47;
    ProxyAuthenticate = "proxy-authenticate", 48;
    ProxyAuthorization = "proxy-authorization", 49;
    Range = "range", 50;
    Referer = "referer", 51;
    Refresh = "refresh", 52;
    RetryAfter = "retry-after", 53;
    Server = "server", 54;
    SetCookie = "set-cookie", 55;
    StrictTransportSecurity = "strict-transport-security", 56;
    TransferEncoding = "transfer-encoding", 57;
    UserAgent = "user-agent", 58;
    Vary = "vary", 59;
    Via = "via", 60;
    WwwAuthenticate = "www-authenticate", 61;
    Connection = "connection", 0;
    KeepAlive = "keep-alive", 0;
    Priority = "priority", 0;
    Protocol = ":protocol", 0;
    ProxyConnection = "proxy-connection", 0;
    Te = "te", 0;
    Upgrade = "upgrade", 0;
}

impl KnownName {
    /// The name, empty for `Other`.
    pub const fn text(self) -> &'static str {
        KnownName::TEXTS[self as usize]
    }

    /// The index of the first entry of the static table that has this name.
    #[inline]
    pub(crate) fn static_index(self) -> Option<usize> {
        match KnownName::STATIC_INDEXES[self as usize] {
            0 => None,
            index => Some(usize::from(index)),
        }
    }

    /// Whether it is one of the fields that are about a single HTTP/1 connection and make a message of HTTP/2
    /// malformed (RFC 9113 section 8.2.2). `te` is not one of them, because it is allowed with the value
    /// `trailers`.
    #[inline]
    pub fn is_connection_specific(self) -> bool {
        matches!(
            self,
            KnownName::Connection
                | KnownName::KeepAlive
                | KnownName::ProxyConnection
                | KnownName::TransferEncoding
                | KnownName::Upgrade
        )
    }

    /// The same name for the parser of HTTP/1, for code that handles requests of both versions.
    pub fn known_field(self) -> KnownField {
        match self {
            KnownName::Connection => KnownField::Connection,
            KnownName::ContentLength => KnownField::ContentLength,
            KnownName::Expect => KnownField::Expect,
            KnownName::Host => KnownField::Host,
            KnownName::IfMatch => KnownField::IfMatch,
            KnownName::IfModifiedSince => KnownField::IfModifiedSince,
            KnownName::IfNoneMatch => KnownField::IfNoneMatch,
            KnownName::IfRange => KnownField::IfRange,
            KnownName::IfUnmodifiedSince => KnownField::IfUnmodifiedSince,
            KnownName::Range => KnownField::Range,
            KnownName::Referer => KnownField::Referer,
            KnownName::TransferEncoding => KnownField::TransferEncoding,
            KnownName::UserAgent => KnownField::UserAgent,
            _ => KnownField::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h2::hpack::static_table;

    #[test]
    fn every_name_is_recognised_by_its_text_alone() {
        for text in &KnownName::TEXTS[1..] {
            let name = KnownName::of(text.as_bytes());
            assert_eq!(name.text(), *text);
            assert_eq!(KnownName::of(text.to_uppercase().as_bytes()), KnownName::Other, "{text}");
            assert_eq!(KnownName::of(format!("{text}x").as_bytes()), KnownName::Other);
        }
        assert_eq!(KnownName::of(b""), KnownName::Other);
    }

    #[test]
    fn indexes_agree_with_the_static_table() {
        for index in 1..=static_table::ENTRIES {
            let (name, _) = static_table::entry(index).unwrap();
            let known = KnownName::of_static_index(index);
            assert_eq!(known.text(), name, "{index}");
            let first = known.static_index().unwrap();
            assert!(first <= index && static_table::entry(first).unwrap().0 == name);
            assert!(first == 1 || static_table::entry(first - 1).unwrap().0 != name);
        }
        assert_eq!(KnownName::Priority.static_index(), None);
        assert_eq!(KnownName::Other.static_index(), None);
    }
}
