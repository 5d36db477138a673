//! Decides whether a response may be stored, and how long it is fresh (RFC 9111 sections 3 and 4.2).

use touchstone_http::date::parse_http_date;
use touchstone_http::grammar::list_members;

use super::directives::{MOST_SECONDS, ResponseDirectives, seconds};
use super::fields::{FieldText, Fields};
use super::policy::{Policy, SetCookie};
use super::{surrogate, targeted};

/// A response, with the relevant facts about its request.
#[derive(Debug, Clone, Copy)]
pub struct Response<'a> {
    /// Its status.
    pub status: u16,
    /// Its field lines, each with its CRLF.
    pub fields: &'a [u8],
    /// Its `Date`, if that is valid.
    pub date: Option<i64>,
    /// When the request was sent.
    pub request_time: i64,
    /// When the response arrived.
    pub response_time: i64,
    /// The request had `Authorization`, or the server knows the client's identity (a certificate, a user).
    pub is_authorized: bool,
    /// The request had `Cookie`.
    pub has_cookie: bool,
    /// The request had `Cache-Control: no-store`.
    pub request_no_store: bool,
}

/// The terms of reuse of a stored response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Terms {
    /// When it arrived.
    pub response_time: i64,
    /// Its `Date`, or the time of its arrival.
    pub date: i64,
    /// Its age when it arrived.
    pub initial_age: u32,
    /// Its freshness lifetime.
    pub lifetime: u32,
    /// How long after that it may be served while it is validated.
    pub stale_while_revalidate: u32,
    /// How long after that it may be served when the origin fails.
    pub stale_if_error: u32,
    /// It must be validated before each use.
    pub no_cache: bool,
    /// It must not be served stale.
    pub must_revalidate: bool,
    /// It may answer requests with `Authorization`.
    pub is_for_authorized: bool,
    /// It may answer requests with `Cookie`: it has its own freshness information, or `public`.
    pub is_for_cookies: bool,
    /// It answered a request with `Authorization`, or from a known client.
    pub answered_authorized: bool,
    /// It answered a request with `Cookie`.
    pub answered_cookie: bool,
}

impl Terms {
    /// Whether it may answer a request with or without `Authorization` and `Cookie`. A request with
    /// credentials is answered only with a response that declares itself shareable.
    #[inline]
    pub fn may_answer(&self, is_authorized: bool, has_cookie: bool) -> bool {
        (!is_authorized || self.is_for_authorized) && (!has_cookie || self.is_for_cookies)
    }

    /// It answered a request with credentials: its own directives alone limit its use, and it is never served
    /// stale because a client or the policy allows it.
    pub fn is_of_credentials(&self) -> bool {
        self.answered_authorized || self.answered_cookie
    }

    /// Its age in seconds (section 4.2.3).
    #[inline]
    pub fn age(&self, now: i64) -> u32 {
        let resident = u32::try_from((now - self.response_time).max(0)).unwrap_or(MOST_SECONDS);
        self.initial_age.saturating_add(resident).min(MOST_SECONDS)
    }

    /// The number of seconds for which it is still fresh; negative: the time since it became stale.
    #[inline]
    pub fn fresh_for(&self, now: i64) -> i64 {
        i64::from(self.lifetime) - i64::from(self.age(now))
    }
}

/// The decision to store a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storable {
    /// The terms of its reuse.
    pub terms: Terms,
    /// Fields that are not stored.
    pub left_out: Vec<Box<[u8]>>,
}

/// Why a response is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotStored {
    /// The directives of the response or its request forbid it.
    NoStore,
    /// It is private to one user.
    Private,
    /// The request had `Authorization`, and the response does not declare itself shareable.
    Authorization,
    /// The request had `Cookie`, and the response does not declare itself shareable.
    Cookie,
    /// Responses with its status are not stored.
    Status,
    /// No request would select it: `Vary: *`.
    Varies,
    /// It would be useless: it is not fresh, and has no validator.
    Useless,
    /// It sets a cookie.
    SetsCookie,
}

/// Statuses that this cache understands (sections 3 and 5.2.2.3).
const UNDERSTOOD: [u16; 39] = [
    200, 201, 202, 203, 204, 205, 206, 300, 301, 302, 303, 307, 308, 400, 401, 402, 403, 404, 405, 406, 407,
    408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 421, 422, 429, 451, 500, 501, 502, 503,
];

/// Statuses that are heuristically cacheable (RFC 9110 section 15.1).
fn is_heuristically_cacheable(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// The directives of a response that apply to this cache.
pub fn response_directives(fields: FieldText<'_>) -> ResponseDirectives {
    directives(fields).0
}

/// The directives that apply to this cache, and whether they are from a targeted field.
fn directives(fields: FieldText<'_>) -> (ResponseDirectives, bool) {
    let mut targeted = Vec::new();
    fields.values("cdn-cache-control", &mut |value| targeted.push(value));
    if let Some(directives) = targeted::parse(&targeted) {
        return (directives, true);
    }
    let mut surrogate = Vec::new();
    fields.values("surrogate-control", &mut |value| surrogate.push(value));
    if let Some(directives) = surrogate::parse(&surrogate) {
        return (directives, true);
    }
    let mut directives = ResponseDirectives::default();
    fields.values("cache-control", &mut |value| directives.add(value));
    // Section 5.4 defines no meaning for Pragma in responses, but caches have long treated `no-cache` there
    // as in Cache-Control.
    (directives, false)
}

/// Decides whether a response is stored.
pub fn decide_storage(response: &Response<'_>, policy: &Policy) -> Result<Storable, NotStored> {
    let fields = FieldText(response.fields);
    let (directives, is_targeted) = directives(fields);
    let date = response.date.unwrap_or(response.response_time);
    let explicit = explicit_lifetime(&directives, is_targeted, fields, date, response.response_time);
    let stated = StorageDirectives { response, fields, directives: &directives, date, explicit };
    stated.check_permission()?;
    let set_cookie = set_cookie_rule(fields, &directives, policy);
    if set_cookie == SetCookie::Refuse || (set_cookie == SetCookie::Store && explicit.is_none()) {
        return Err(NotStored::SetsCookie);
    }
    let terms = stated.terms(policy);
    if !stated.is_of_use(&terms) {
        return Err(NotStored::Useless);
    }
    let mut left_out = directives.fields;
    if set_cookie == SetCookie::Remove {
        left_out.push(b"set-cookie".as_slice().into());
    }
    Ok(Storable { terms, left_out })
}

/// What a response states about its storage.
struct StorageDirectives<'r> {
    response: &'r Response<'r>,
    fields: FieldText<'r>,
    directives: &'r ResponseDirectives,
    /// When it was generated.
    date: i64,
    /// The lifetime that it states.
    explicit: Option<u32>,
}

/// How long a response is fresh.
struct Freshness {
    lifetime: u32,
    /// The policy states it.
    is_of_policy: bool,
}

impl StorageDirectives<'_> {
    /// Whether the response may be stored for those who may get it.
    fn check_permission(&self) -> Result<(), NotStored> {
        let StorageDirectives { response, directives, .. } = self;
        let is_understood = UNDERSTOOD.contains(&response.status) || response.status == 504;
        if !(200..600).contains(&response.status) || response.status == 304 {
            return Err(NotStored::Status);
        }
        if directives.must_understand && !is_understood {
            return Err(NotStored::Status);
        }
        // Section 5.2.2.3: for an understood status, must-understand overrides no-store.
        if response.request_no_store || (directives.no_store && !directives.must_understand) {
            return Err(NotStored::NoStore);
        }
        if directives.private {
            return Err(NotStored::Private);
        }
        if response.is_authorized && !self.is_for_authorized() {
            return Err(NotStored::Authorization);
        }
        let mut varies_always = false;
        let mut note = |value| varies_always |= list_members(value).any(|member| member == b"*");
        self.fields.values("vary", &mut note);
        if varies_always {
            return Err(NotStored::Varies);
        }
        if response.has_cookie && !self.is_for_cookies() {
            return Err(NotStored::Cookie);
        }
        Ok(())
    }

    /// Section 3.5: it may answer requests with `Authorization`.
    fn is_for_authorized(&self) -> bool {
        self.directives.public || self.directives.must_revalidate || self.directives.s_maxage.is_some()
    }

    /// It may answer requests with `Cookie`.
    fn is_for_cookies(&self) -> bool {
        self.directives.public || self.explicit.is_some_and(|lifetime| lifetime > 0)
    }

    /// It answered a request with `Authorization` or `Cookie`.
    fn is_of_credentials(&self) -> bool {
        self.response.is_authorized || self.response.has_cookie
    }

    /// The terms of its reuse.
    fn terms(&self, policy: &Policy) -> Terms {
        let StorageDirectives { response, directives, .. } = self;
        let must_revalidate = directives.must_revalidate
            || directives.proxy_revalidate
            || directives.s_maxage.is_some()
            || directives.no_cache;
        let Freshness { mut lifetime, is_of_policy } = self.freshness(policy);
        let initial_age = self.initial_age();
        if is_of_policy && lifetime > 0 {
            // The policy's times count from the arrival: the origin's clock, or a Date that was generated
            // once, does not matter.
            lifetime = lifetime.saturating_add(initial_age);
        }
        let stale = |stated: Option<u32>, of_policy: u32| match must_revalidate {
            true => 0,
            false => stated.unwrap_or(if self.is_of_credentials() { 0 } else { of_policy }),
        };
        Terms {
            response_time: response.response_time,
            date: self.date,
            initial_age,
            lifetime,
            stale_while_revalidate: stale(directives.stale_while_revalidate, policy.stale_while_revalidate),
            stale_if_error: stale(directives.stale_if_error, policy.stale_if_error),
            no_cache: directives.no_cache,
            must_revalidate,
            is_for_authorized: self.is_for_authorized(),
            is_for_cookies: self.is_for_cookies(),
            answered_authorized: response.is_authorized,
            answered_cookie: response.has_cookie,
        }
    }

    /// How long it is fresh, within the limits of the policy.
    fn freshness(&self, policy: &Policy) -> Freshness {
        let mut freshness = match self.explicit {
            Some(lifetime) => Freshness { lifetime, is_of_policy: false },
            // The freshness of a response for another client is never guessed.
            None if self.is_of_credentials() && !self.directives.public => {
                Freshness { lifetime: 0, is_of_policy: false }
            }
            None => self.implicit_freshness(policy),
        };
        let takes_minimum = !self.directives.no_cache
            && !self.directives.must_revalidate
            && self.explicit != Some(0)
            && !self.is_of_credentials();
        if takes_minimum && freshness.lifetime < policy.minimum_freshness {
            freshness = Freshness { lifetime: policy.minimum_freshness, is_of_policy: true };
        }
        freshness.lifetime = freshness.lifetime.min(policy.maximum_freshness);
        freshness
    }

    /// The freshness of a response that does not state it: the heuristic lifetime (section 4.2.2).
    fn implicit_freshness(&self, policy: &Policy) -> Freshness {
        let StorageDirectives { response, fields, date, .. } = *self;
        let known = |lifetime| Freshness { lifetime, is_of_policy: false };
        if !self.may_be_heuristic() || self.directives.no_cache {
            return known(0);
        }
        // Section 5.4: if nothing else is stated, Pragma in a response is respected.
        let mut is_pragma = false;
        fields.values("pragma", &mut |value| is_pragma |= value.eq_ignore_ascii_case(b"no-cache"));
        if is_pragma && !fields.has("cache-control") {
            return known(0);
        }
        if response.status >= 400 && policy.negative_freshness > 0 {
            return Freshness { is_of_policy: true, ..known(policy.negative_freshness) };
        }
        let modified = fields.first("last-modified").and_then(|value| parse_http_date(value, date));
        if let Some(modified) = modified {
            let part = (date - modified).max(0).saturating_mul(i64::from(policy.heuristic_percent)) / 100;
            return known(u32::try_from(part).unwrap_or(MOST_SECONDS).min(policy.heuristic_maximum));
        }
        if response.status < 400 {
            return Freshness { lifetime: policy.default_freshness, is_of_policy: true };
        }
        known(0)
    }

    fn may_be_heuristic(&self) -> bool {
        is_heuristically_cacheable(self.response.status) || self.directives.public
    }

    /// The age of the response when it arrived (section 4.2.3). Of several Age values the first counts, and
    /// none if that is not a number (section 5.1).
    fn initial_age(&self) -> u32 {
        let response = self.response;
        let mut first = None;
        self.fields.values("age", &mut |value| first = first.or_else(|| list_members(value).next()));
        // Only in directives may a number be in quotation marks.
        let stated = first.filter(|age| !age.starts_with(b"\"")).and_then(seconds).unwrap_or(0);
        let apparent = (response.response_time - self.date).max(0);
        let corrected = i64::from(stated) + (response.response_time - response.request_time).max(0);
        u32::try_from(apparent.max(corrected)).unwrap_or(MOST_SECONDS).min(MOST_SECONDS)
    }

    /// Whether a stored response with these terms can answer a request, at least after a validation.
    fn is_of_use(&self, terms: &Terms) -> bool {
        let has_validator = self.fields.has("etag") || self.fields.has("last-modified");
        let may_answer = has_validator
            || (!terms.no_cache && terms.fresh_for(self.response.response_time) > 0)
            || (self.explicit.is_some() && !terms.must_revalidate && self.response.status == 200);
        may_answer && (self.explicit.is_some() || self.may_be_heuristic())
    }
}

/// The treatment of this response's `Set-Cookie`. A response that names the field in `no-cache` or `private`
/// is stored without it; so is one without the field.
fn set_cookie_rule(fields: FieldText<'_>, directives: &ResponseDirectives, policy: &Policy) -> SetCookie {
    let is_named = || directives.fields.iter().any(|name| name.eq_ignore_ascii_case(b"set-cookie"));
    if policy.ignore_cookies || !fields.has("set-cookie") || is_named() {
        return SetCookie::Remove;
    }
    policy.set_cookie
}

/// The lifetime that the response states (section 4.2.1).
fn explicit_lifetime(
    directives: &ResponseDirectives,
    is_targeted: bool,
    fields: FieldText<'_>,
    date: i64,
    now: i64,
) -> Option<u32> {
    if let Some(lifetime) = directives.s_maxage.or(directives.max_age) {
        return Some(lifetime);
    }
    // RFC 9213 section 2.2: a targeted field also replaces Expires.
    if is_targeted {
        return None;
    }
    let mut lines = Vec::new();
    fields.values("expires", &mut |value| lines.push(value));
    let expires = match lines.as_slice() {
        [] => return None,
        [value] => parse_http_date(value, now),
        _ => None,
    };
    // An invalid date means that the response has expired (section 5.3).
    let lifetime = expires.map_or(0, |expires| (expires - date).max(0));
    Some(u32::try_from(lifetime).unwrap_or(MOST_SECONDS).min(MOST_SECONDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000;

    fn response(status: u16, fields: &str) -> Response<'_> {
        Response {
            status,
            fields: fields.as_bytes(),
            date: Some(NOW),
            request_time: NOW,
            response_time: NOW,
            is_authorized: false,
            has_cookie: false,
            request_no_store: false,
        }
    }

    fn date(offset: i64) -> String {
        String::from_utf8(touchstone_http::date::format_imf_fixdate(NOW + offset).to_vec()).unwrap()
    }

    fn lifetime(status: u16, fields: &str) -> Result<u32, NotStored> {
        decide_storage(&response(status, fields), &Policy::default()).map(|storable| storable.terms.lifetime)
    }

    #[test]
    fn freshness_comes_from_the_most_specific_field() {
        let expires = format!("Expires: {}\r\n", date(100));
        let modified = format!("Last-Modified: {}\r\n", date(-1000));
        for (fields, expected) in [
            ("Cache-Control: max-age=5\r\n".to_string(), Ok(5)),
            ("Cache-Control: max-age=5, s-maxage=7\r\n".to_string(), Ok(7)),
            (format!("Cache-Control: max-age=5\r\n{expires}"), Ok(5)),
            (expires.clone(), Ok(100)),
            // Section 4.2: a date is valid in any case, and only in GMT.
            (format!("Expires: {}\r\n", date(100).to_uppercase()), Ok(100)),
            (format!("Expires: {}\r\n", date(100).to_lowercase()), Ok(100)),
            (format!("Expires: {}\r\n", date(100).replace("GMT", "UTC")), Ok(0)),
            (format!("Last-Modified: {}\r\n", date(-1000).to_uppercase()), Ok(100)),
            (format!("{expires}{modified}"), Ok(100)),
            (modified.clone(), Ok(100)),
            (format!("{modified}Expires: 0\r\n"), Ok(0)),
            ("CDN-Cache-Control: max-age=9\r\nCache-Control: no-store\r\n".to_string(), Ok(9)),
            ("Surrogate-Control: max-age=9\r\nCache-Control: no-store\r\n".to_string(), Ok(9)),
            (
                "Surrogate-Control: no-store\r\nCache-Control: max-age=3\r\n".to_string(),
                Err(NotStored::NoStore),
            ),
            (format!("CDN-Cache-Control: public\r\n{expires}ETag: \"a\"\r\n"), Ok(0)),
            ("CDN-Cache-Control: Bad, max-age=9\r\nCache-Control: max-age=3\r\n".to_string(), Ok(3)),
            ("X: 1\r\n".to_string(), Err(NotStored::Useless)),
            ("Cache-Control: no-store, max-age=5\r\n".to_string(), Err(NotStored::NoStore)),
            ("Cache-Control: no-store, must-understand, max-age=5\r\n".to_string(), Ok(5)),
            ("Cache-Control: private, max-age=5\r\n".to_string(), Err(NotStored::Private)),
            ("Cache-Control: private=\"x\", max-age=5\r\n".to_string(), Ok(5)),
            ("Cache-Control: max-age=5\r\nVary: a, *\r\n".to_string(), Err(NotStored::Varies)),
            (format!("{modified}Set-Cookie: a=b\r\n"), Err(NotStored::SetsCookie)),
            ("Cache-Control: max-age=5\r\nSet-Cookie: a=b\r\n".to_string(), Err(NotStored::SetsCookie)),
        ] {
            assert_eq!(lifetime(200, &fields), expected, "{fields}");
        }
    }

    #[test]
    fn statuses() {
        let modified = format!("Last-Modified: {}\r\n", date(-1000));
        for (status, expected) in [
            (203, Ok(100)),
            (204, Ok(100)),
            (404, Ok(100)),
            (201, Err(NotStored::Useless)),
            (302, Err(NotStored::Useless)),
            (403, Err(NotStored::Useless)),
            (502, Err(NotStored::Useless)),
            (304, Err(NotStored::Status)),
            (101, Err(NotStored::Status)),
        ] {
            assert_eq!(lifetime(status, &modified), expected, "{status}");
        }
        assert_eq!(lifetime(599, "Cache-Control: max-age=5\r\n"), Ok(5));
        assert_eq!(lifetime(599, "Cache-Control: max-age=5, must-understand\r\n"), Err(NotStored::Status));
        assert_eq!(lifetime(302, &format!("Cache-Control: public\r\n{modified}")), Ok(100));
    }

    #[test]
    fn authorized_responses_are_kept_only_where_they_say_so() {
        for (fields, expected) in [
            ("max-age=5", false),
            ("max-age=5, public", true),
            ("max-age=5, must-revalidate", true),
            ("s-maxage=5", true),
        ] {
            let fields = format!("Cache-Control: {fields}\r\n");
            let authorized = Response { is_authorized: true, ..response(200, &fields) };
            assert_eq!(decide_storage(&authorized, &Policy::default()).is_ok(), expected, "{fields}");
        }
    }

    #[test]
    fn a_response_to_a_cookie_is_shared_only_where_it_says_so() {
        let modified = format!("Last-Modified: {}\r\n", date(-1000));
        let policy = Policy { default_freshness: 60, minimum_freshness: 60, ..Policy::default() };
        for (fields, expected) in [
            ("ETag: \"a\"\r\n", None),
            (modified.as_str(), None),
            ("X: 1\r\n", None),
            ("Cache-Control: max-age=0\r\nETag: \"a\"\r\n", None),
            ("Cache-Control: no-cache\r\nETag: \"a\"\r\n", None),
            ("Cache-Control: must-revalidate\r\nETag: \"a\"\r\n", None),
            ("Cache-Control: stale-while-revalidate=60\r\nETag: \"a\"\r\n", None),
            ("Cache-Control: max-age=5\r\n", Some(5)),
            ("Cache-Control: s-maxage=5\r\n", Some(5)),
            ("CDN-Cache-Control: max-age=5\r\n", Some(5)),
            ("Cache-Control: public, max-age=0\r\nETag: \"a\"\r\n", Some(0)),
            (&format!("Expires: {}\r\n", date(5)), Some(5)),
            (&format!("Expires: {}\r\nETag: \"a\"\r\n", date(0)), None),
        ] {
            let with_cookie = Response { has_cookie: true, ..response(200, fields) };
            let decision = decide_storage(&with_cookie, &policy);
            assert_eq!(decision.as_ref().ok().map(|storable| storable.terms.lifetime), expected, "{fields}");
            let terms = decision.map(|storable| storable.terms).unwrap_or_default();
            // Neither the policy nor a client extends its own lifetime.
            assert_eq!((terms.stale_if_error, terms.stale_while_revalidate), (0, 0), "{fields}");
            // A response for a client without credentials is served to others under the same condition.
            if let Ok(storable) = decide_storage(&response(200, fields), &policy) {
                assert_eq!(storable.terms.may_answer(false, true), expected.is_some(), "{fields}");
            }
        }
    }

    #[test]
    fn a_response_that_sets_a_cookie_is_not_stored_unless_the_policy_says_so() {
        for fields in ["Cache-Control: max-age=5\r\n", "Cache-Control: public, s-maxage=5\r\n"] {
            let fields = format!("{fields}Set-Cookie: a=b\r\n");
            let left_out = |set_cookie| {
                let policy = Policy { set_cookie, ..Policy::default() };
                decide_storage(&response(200, &fields), &policy).map(|storable| storable.left_out.len())
            };
            assert_eq!(left_out(SetCookie::Refuse), Err(NotStored::SetsCookie));
            assert_eq!(left_out(SetCookie::Remove), Ok(1));
            assert_eq!(left_out(SetCookie::Store), Ok(0));
        }
        let named = "Cache-Control: max-age=5, private=\"Set-Cookie\"\r\nSet-Cookie: a=b\r\n";
        let storable = decide_storage(&response(200, named), &Policy::default()).unwrap();
        assert!(storable.left_out.iter().any(|name| name.eq_ignore_ascii_case(b"set-cookie")));
    }

    #[test]
    fn ages() {
        let age = |fields: &str, sent: i64, said: i64| {
            let fields = format!("Cache-Control: max-age=5\r\n{fields}");
            let response =
                Response { request_time: NOW - sent, date: Some(NOW + said), ..response(200, &fields) };
            decide_storage(&response, &Policy::default()).unwrap().terms.initial_age
        };
        assert_eq!(age("", 0, 0), 0);
        assert_eq!(age("", 2, -7), 7);
        assert_eq!(age("Age: 10\r\n", 2, -7), 12);
        for (value, expected) in [
            ("1, 2", 1),
            ("7200, 0", 7200),
            ("0, 0", 0),
            // RFC 9110 section 5.6.1.2: empty members are ignored.
            (", 3", 3),
            // Section 1.2.2: a larger number becomes the maximum.
            ("2147483647", MOST_SECONDS),
            ("2147483648", MOST_SECONDS),
            ("99999999999999999999", MOST_SECONDS),
        ] {
            assert_eq!(age(&format!("Age: {value}\r\n"), 0, 0), expected, "{value}");
        }
        for invalid in ["x", "-1", "+1", "1.5", "1;a=b", "1 2", "\"3\"", "x, 3", ""] {
            assert_eq!(age(&format!("Age: {invalid}\r\n"), 0, 0), 0, "{invalid}");
            // Only that field is ignored.
            assert_eq!(age(&format!("Age: {invalid}\r\n"), 2, -7), 7, "{invalid}");
        }
        for (lines, expected) in [("Age: 10\r\nAge: 0\r\n", 10), ("Age: 0\r\nAge: 10\r\n", 0)] {
            assert_eq!(age(lines, 0, 0), expected, "{lines}");
        }
        assert_eq!([age("Age: x\r\nAge: 10\r\n", 0, 0), age("Age:\r\nAge: 10\r\n", 0, 0)], [0, 10]);
    }

    #[test]
    fn a_policy_bounds_what_responses_say() {
        let policy = Policy {
            default_freshness: 7,
            minimum_freshness: 10,
            maximum_freshness: 50,
            negative_freshness: 20,
            ..Policy::default()
        };
        let lifetime = |status, fields: &str| {
            decide_storage(&response(status, fields), &policy).map(|storable| storable.terms.lifetime)
        };
        assert_eq!(lifetime(200, "Cache-Control: max-age=5\r\n"), Ok(10));
        assert_eq!(lifetime(200, "Cache-Control: max-age=5, must-revalidate\r\n"), Ok(5));
        assert_eq!(lifetime(200, "Cache-Control: max-age=500\r\n"), Ok(50));
        assert_eq!(lifetime(200, "X: 1\r\n"), Ok(10));
        assert_eq!(lifetime(404, "X: 1\r\n"), Ok(20));
        // The origin's clock does not matter.
        let late = |status, fields: &'static str| {
            let response = response(status, fields);
            Response { date: Some(response.response_time - 1000), ..response }
        };
        let fresh_for = |response: &Response<'_>| {
            decide_storage(response, &policy).map(|storable| storable.terms.fresh_for(response.response_time))
        };
        assert_eq!(fresh_for(&late(200, "X: 1\r\n")), Ok(10));
        assert_eq!(fresh_for(&late(404, "X: 1\r\n")), Ok(20));
        assert_eq!(fresh_for(&late(200, "Cache-Control: max-age=50\r\n")), Ok(-950));
        let cookie = Response { has_cookie: true, ..response(200, "X: 1\r\n") };
        let policy = Policy { default_freshness: 7, ..Policy::default() };
        assert_eq!(decide_storage(&cookie, &policy), Err(NotStored::Cookie));
        // With `ignore_cookies` the layer treats each request as one without cookies.
        let policy = Policy { ignore_cookies: true, ..policy };
        assert_eq!(decide_storage(&response(200, "X: 1\r\n"), &policy).unwrap().terms.lifetime, 7);
    }
}
