//! Decides whether a stored response may answer a request (RFC 9111 section 4).

use super::directives::RequestDirectives;
use super::fields::Fields;
use super::storing::Terms;

/// How a stored response may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// It is fresh and answers the request.
    Fresh,
    /// It answers the request although it is stale, because the client accepts that.
    Stale,
    /// It answers the request, and is validated at the same time (RFC 5861 section 3).
    StaleWhileRevalidate,
    /// It must be validated first.
    Validate,
}

/// The directives of a request for caches.
pub fn request_directives(fields: impl Fields) -> RequestDirectives {
    let mut directives = RequestDirectives::default();
    let (mut has_cache_control, mut is_pragma) = (false, false);
    fields.each(&mut |name, value| match name.len() {
        13 if name.eq_ignore_ascii_case(b"cache-control") => {
            has_cache_control = true;
            directives.add(value);
        }
        6 if name.eq_ignore_ascii_case(b"pragma") => {
            let mut pragma = RequestDirectives::default();
            pragma.add(value);
            is_pragma |= pragma.no_cache;
        }
        _ => {}
    });
    // Pragma is for requests of HTTP/1.0 (section 5.4).
    directives.no_cache |= is_pragma && !has_cache_control;
    directives
}

/// Decides how a stored response may be used. `is_soft_purged`: a purge has marked it as stale, whatever its
/// own lifetime is.
pub fn decide_reuse(terms: &Terms, request: &RequestDirectives, is_soft_purged: bool, now: i64) -> Reuse {
    if request.no_cache || terms.no_cache {
        return Reuse::Validate;
    }
    let age = terms.age(now);
    if request.max_age.is_some_and(|most| age > most) {
        return Reuse::Validate;
    }
    let fresh_for = if is_soft_purged { terms.fresh_for(now).min(0) } else { terms.fresh_for(now) };
    if request.min_fresh.is_some_and(|least| fresh_for < i64::from(least)) {
        return Reuse::Validate;
    }
    if fresh_for > 0 {
        return Reuse::Fresh;
    }
    if terms.must_revalidate {
        return Reuse::Validate;
    }
    let staleness = -fresh_for;
    let takes_stale = request.max_stale.is_some_and(|most| staleness <= i64::from(most));
    if takes_stale && !is_soft_purged && !terms.is_of_credentials() {
        return Reuse::Stale;
    }
    if staleness < i64::from(terms.stale_while_revalidate) {
        return Reuse::StaleWhileRevalidate;
    }
    Reuse::Validate
}

/// Whether a stored response may be served because the origin has failed (section 4.2.4, RFC 5861 section 4).
pub fn may_serve_on_error(terms: &Terms, request: &RequestDirectives, now: i64) -> bool {
    let staleness = -terms.fresh_for(now);
    let of_client = request.stale_if_error.filter(|_| !terms.is_of_credentials());
    let most = terms.stale_if_error.max(of_client.unwrap_or(0));
    // At the end of its lifetime it is stale, and only `stale-if-error` allows its use.
    let is_in_time = staleness < 0 || (most > 0 && staleness <= i64::from(most));
    !terms.must_revalidate && !terms.no_cache && !request.no_cache && is_in_time
}

/// Whether a status means that the origin has failed (RFC 5861 section 4).
pub fn is_origin_error(status: u16) -> bool {
    matches!(status, 500 | 502 | 503 | 504)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::fields::FieldText;

    fn of(fields: &str) -> RequestDirectives {
        request_directives(FieldText(fields.as_bytes()))
    }

    #[test]
    fn pragma_counts_where_nothing_else_is_said() {
        assert!(of("Pragma: x, no-cache\r\n").no_cache);
        assert!(!of("Pragma: no-cache\r\nCache-Control: max-age=5\r\n").no_cache);
        assert!(!of("Pragma: x\r\n").no_cache);
    }

    #[test]
    fn what_is_asked_is_weighed_against_what_is_there() {
        let terms = Terms { response_time: 1000, lifetime: 100, ..Terms::default() };
        let strict = Terms { must_revalidate: true, ..terms };
        let always = Terms { no_cache: true, ..terms };
        let of_credentials = Terms { answered_cookie: true, ..terms };
        let lenient = Terms { stale_while_revalidate: 10, ..terms };
        for (terms, request, now, expected) in [
            (terms, "", 1099, Reuse::Fresh),
            (terms, "", 1100, Reuse::Validate),
            (always, "", 1000, Reuse::Validate),
            (terms, "no-cache", 1000, Reuse::Validate),
            (terms, "max-age=10", 1010, Reuse::Fresh),
            (terms, "max-age=10", 1011, Reuse::Validate),
            (terms, "max-age=0", 1000, Reuse::Fresh),
            (terms, "min-fresh=50", 1050, Reuse::Fresh),
            (terms, "min-fresh=50", 1051, Reuse::Validate),
            (terms, "max-stale", 5000, Reuse::Stale),
            (terms, "max-stale=20", 1120, Reuse::Stale),
            (terms, "max-stale=20", 1121, Reuse::Validate),
            (strict, "max-stale", 1100, Reuse::Validate),
            (of_credentials, "max-stale", 1100, Reuse::Validate),
            (of_credentials, "", 1099, Reuse::Fresh),
            (lenient, "", 1109, Reuse::StaleWhileRevalidate),
            (lenient, "", 1110, Reuse::Validate),
        ] {
            let request_directives = of(&format!("Cache-Control: {request}\r\n"));
            assert_eq!(decide_reuse(&terms, &request_directives, false, now), expected, "{request} at {now}");
        }
        assert_eq!(decide_reuse(&terms, &RequestDirectives::default(), true, 1000), Reuse::Validate);
        assert_eq!(
            decide_reuse(&lenient, &RequestDirectives::default(), true, 1000),
            Reuse::StaleWhileRevalidate
        );
    }

    #[test]
    fn errors_of_the_origin() {
        let terms = Terms { response_time: 1000, lifetime: 100, stale_if_error: 50, ..Terms::default() };
        let plain = RequestDirectives::default();
        assert!(may_serve_on_error(&terms, &plain, 1150));
        assert!(!may_serve_on_error(&terms, &plain, 1151));
        assert!(may_serve_on_error(&terms, &of("Cache-Control: stale-if-error=500\r\n"), 1151));
        let of_credentials = Terms { answered_cookie: true, stale_if_error: 0, ..terms };
        assert!(may_serve_on_error(&of_credentials, &plain, 1099));
        assert!(!may_serve_on_error(&of_credentials, &plain, 1100));
        assert!(!may_serve_on_error(&of_credentials, &of("Cache-Control: stale-if-error=500\r\n"), 1101));
        assert!(!may_serve_on_error(&Terms { must_revalidate: true, ..terms }, &plain, 1101));
    }
}
