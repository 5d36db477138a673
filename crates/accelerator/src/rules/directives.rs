//! Parses `Cache-Control` (RFC 9111 section 5.2).
//!
//! Of a repeated directive the first counts, as section 4.2.1 allows; an invalid number makes a response
//! stale rather than fresh, as the section advises.

use touchstone_http::grammar::trim_optional_white_space;

/// The maximum number of seconds (section 1.2.2).
pub const MOST_SECONDS: u32 = i32::MAX as u32;

/// The `Cache-Control` of a response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResponseDirectives {
    /// `max-age`
    pub max_age: Option<u32>,
    /// `s-maxage`
    pub s_maxage: Option<u32>,
    /// `no-store`
    pub no_store: bool,
    /// `no-cache` for the whole response.
    pub no_cache: bool,
    /// `private` for the whole response.
    pub private: bool,
    /// `public`
    pub public: bool,
    /// `must-revalidate`
    pub must_revalidate: bool,
    /// `proxy-revalidate`
    pub proxy_revalidate: bool,
    /// `must-understand`
    pub must_understand: bool,
    /// `immutable` (RFC 8246)
    pub immutable: bool,
    /// `stale-while-revalidate` (RFC 5861)
    pub stale_while_revalidate: Option<u32>,
    /// `stale-if-error` (RFC 5861)
    pub stale_if_error: Option<u32>,
    /// The field names that limit `no-cache` or `private`: these fields are not stored.
    pub fields: Vec<Box<[u8]>>,
}

impl ResponseDirectives {
    /// Adds one value of the field.
    pub fn add(&mut self, value: &[u8]) {
        for Directive { name, argument } in Members::new(value) {
            let name = Name::of(name);
            let first = |known: &mut Option<u32>| {
                let seconds = argument.map_or(Some(0), seconds).unwrap_or(0);
                known.get_or_insert(seconds);
            };
            match name {
                Name::MaxAge => first(&mut self.max_age),
                Name::SharedMaxAge => first(&mut self.s_maxage),
                Name::StaleWhileRevalidate => first(&mut self.stale_while_revalidate),
                Name::StaleIfError => first(&mut self.stale_if_error),
                Name::NoStore => self.no_store = true,
                Name::NoCache => self.limited(argument, |this| this.no_cache = true),
                Name::Private => self.limited(argument, |this| this.private = true),
                Name::Public => self.public = true,
                Name::MustRevalidate => self.must_revalidate = true,
                Name::ProxyRevalidate => self.proxy_revalidate = true,
                Name::MustUnderstand => self.must_understand = true,
                Name::Immutable => self.immutable = true,
                Name::MaxStale | Name::MinFresh | Name::OnlyIfCached | Name::Other => {}
            }
        }
    }

    /// A directive that may be limited to fields.
    fn limited(&mut self, argument: Option<&[u8]>, whole: impl FnOnce(&mut Self)) {
        let names = argument.map(|names| unquote(names).unwrap_or(names)).filter(|names| !names.is_empty());
        match names {
            None => whole(self),
            Some(names) => self.fields.extend(
                names
                    .split(|&byte| byte == b',')
                    .map(trim_optional_white_space)
                    .filter(|name| !name.is_empty())
                    .map(Box::from),
            ),
        }
    }
}

/// The `Cache-Control` of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    /// `max-age`
    pub max_age: Option<u32>,
    /// `max-stale`; without an argument: any time.
    pub max_stale: Option<u32>,
    /// `min-fresh`
    pub min_fresh: Option<u32>,
    /// `no-cache`
    pub no_cache: bool,
    /// `no-store`
    pub no_store: bool,
    /// `only-if-cached`
    pub only_if_cached: bool,
    /// `stale-if-error` (RFC 5861)
    pub stale_if_error: Option<u32>,
}

impl RequestDirectives {
    /// Adds one value of the field.
    pub fn add(&mut self, value: &[u8]) {
        for Directive { name, argument } in Members::new(value) {
            let number = argument.and_then(seconds);
            match Name::of(name) {
                // An invalid argument never permits a stale response.
                Name::MaxAge => _ = self.max_age.get_or_insert(number.unwrap_or(0)),
                Name::MaxStale if argument.is_none() => _ = self.max_stale.get_or_insert(MOST_SECONDS),
                Name::MaxStale => _ = self.max_stale.get_or_insert(number.unwrap_or(0)),
                Name::MinFresh => _ = self.min_fresh.get_or_insert(number.unwrap_or(MOST_SECONDS)),
                Name::StaleIfError => _ = self.stale_if_error.get_or_insert(number.unwrap_or(0)),
                Name::NoCache => self.no_cache = true,
                Name::NoStore => self.no_store = true,
                Name::OnlyIfCached => self.only_if_cached = true,
                _ => {}
            }
        }
    }
}

/// The known directives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Name {
    MaxAge,
    SharedMaxAge,
    MaxStale,
    MinFresh,
    NoStore,
    NoCache,
    Private,
    Public,
    MustRevalidate,
    ProxyRevalidate,
    MustUnderstand,
    Immutable,
    OnlyIfCached,
    StaleWhileRevalidate,
    StaleIfError,
    Other,
}

impl Name {
    fn of(name: &[u8]) -> Name {
        const NAMES: [(&str, Name); 15] = [
            ("max-age", Name::MaxAge),
            ("s-maxage", Name::SharedMaxAge),
            ("max-stale", Name::MaxStale),
            ("min-fresh", Name::MinFresh),
            ("no-store", Name::NoStore),
            ("no-cache", Name::NoCache),
            ("private", Name::Private),
            ("public", Name::Public),
            ("must-revalidate", Name::MustRevalidate),
            ("proxy-revalidate", Name::ProxyRevalidate),
            ("must-understand", Name::MustUnderstand),
            ("immutable", Name::Immutable),
            ("only-if-cached", Name::OnlyIfCached),
            ("stale-while-revalidate", Name::StaleWhileRevalidate),
            ("stale-if-error", Name::StaleIfError),
        ];
        let known = NAMES.iter().find(|(text, _)| text.as_bytes().eq_ignore_ascii_case(name));
        known.map_or(Name::Other, |(_, name)| *name)
    }
}

/// One directive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Directive<'a> {
    /// Its name, without white space around it.
    pub name: &'a [u8],
    /// The text after its first `=`, with its quotes if it has them.
    pub argument: Option<&'a [u8]>,
}

/// The directives of one value, in order. Commas within quoted strings do not separate.
pub struct Members<'a> {
    rest: &'a [u8],
}

impl<'a> Members<'a> {
    /// The directives of this value.
    pub fn new(value: &'a [u8]) -> Members<'a> {
        Members { rest: value }
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Directive<'a>;

    fn next(&mut self) -> Option<Directive<'a>> {
        while !self.rest.is_empty() {
            let end = member_length(self.rest);
            let member = trim_optional_white_space(&self.rest[..end]);
            self.rest = self.rest.get(end + 1..).unwrap_or_default();
            if member.is_empty() {
                continue;
            }
            return Some(match memchr::memchr(b'=', member) {
                None => Directive { name: member, argument: None },
                Some(equals) => Directive {
                    name: trim_optional_white_space(&member[..equals]),
                    argument: Some(&member[equals + 1..]),
                },
            });
        }
        None
    }
}

/// The length of the first member, up to a comma that is not within a quoted string.
fn member_length(text: &[u8]) -> usize {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (index, &byte) in text.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => return index,
            _ => {}
        }
    }
    text.len()
}

fn unquote(text: &[u8]) -> Option<&[u8]> {
    text.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

/// Parses `delta-seconds` (section 1.2.2), also as a quoted string; a larger number becomes the maximum.
pub fn seconds(text: &[u8]) -> Option<u32> {
    let digits = unquote(text).unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: u32, digit: &u8| {
        sum.saturating_mul(10).saturating_add(u32::from(digit - b'0')).min(MOST_SECONDS)
    };
    Some(digits.iter().fold(0, add))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn response(value: &str) -> ResponseDirectives {
        let mut directives = ResponseDirectives::default();
        directives.add(value.as_bytes());
        directives
    }

    #[test]
    fn numbers_are_read_strictly_and_err_on_the_stale_side() {
        for (value, max_age) in [
            ("max-age=60", Some(60)),
            ("MaX-AgE=060", Some(60)),
            ("max-age=\"60\"", Some(60)),
            ("max-age=99999999999", Some(MOST_SECONDS)),
            ("max-age=2147483648", Some(MOST_SECONDS)),
            ("max-age='60'", Some(0)),
            ("max-age=-1", Some(0)),
            ("max-age=6.0", Some(0)),
            ("max-age= 60", Some(0)),
            ("max-age", Some(0)),
            ("max-age=", Some(0)),
            ("max-age=1, max-age=2", Some(1)),
            ("extension=\"max-age=60\", x", None),
            ("extension=\"a\\\", max-age=60\"", None),
            ("extension=\"max-age=60", None),
            ("x=\"max-age=60\",max-age=5", Some(5)),
            ("", None),
        ] {
            assert_eq!(response(value).max_age, max_age, "{value}");
        }
    }

    #[test]
    fn directives_for_fields_are_not_for_the_whole() {
        let directives = response("no-cache=\"Set-Cookie, X\", private=\"y\", public, immutable");
        assert!(!directives.no_cache && !directives.private && directives.public && directives.immutable);
        let names: Vec<&[u8]> = directives.fields.iter().map(|name| &**name).collect();
        assert_eq!(names, [&b"Set-Cookie"[..], b"X", b"y"]);
        assert!(response("no-cache=\"\"").no_cache);
        assert!(response("PRIVATE").private);
    }

    #[test]
    fn requests() {
        let mut directives = RequestDirectives::default();
        directives.add(b"max-age=x, max-stale, min-fresh=5, only-if-cached");
        directives.add(b"No-Cache");
        assert_eq!(
            directives,
            RequestDirectives {
                max_age: Some(0),
                max_stale: Some(MOST_SECONDS),
                min_fresh: Some(5),
                only_if_cached: true,
                no_cache: true,
                ..RequestDirectives::default()
            }
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(value in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut directives = ResponseDirectives::default();
            directives.add(&value);
            let mut request = RequestDirectives::default();
            request.add(&value);
            let members = Members::new(&value).count();
            prop_assert!(members <= value.iter().filter(|&&byte| byte == b',').count() + 1);
        }

        #[test]
        fn what_is_quoted_says_nothing(inside in "[a-z=, -]{0,20}") {
            prop_assert_eq!(response(&format!("x=\"{inside}\"")), ResponseDirectives::default());
        }
    }
}
