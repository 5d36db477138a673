//! Freshness and storability against another implementation of the same rules, the crate
//! http-cache-semantics, over generated responses.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::time::{Duration, UNIX_EPOCH};

use http::{Request, Response};
use http_cache_semantics::{BeforeRequest, CacheOptions, CachePolicy};
use proptest::prelude::*;
use touchstone_accelerator::rules::directives::RequestDirectives;
use touchstone_accelerator::rules::fields::FieldText;
use touchstone_accelerator::rules::policy::Policy;
use touchstone_accelerator::rules::reuse::{self, Reuse, request_directives};
use touchstone_accelerator::rules::storing;
use touchstone_http::date::format_imf_fixdate;

const NOW: i64 = 1_700_000_000;

fn date(offset: i64) -> String {
    String::from_utf8(format_imf_fixdate(NOW + offset).to_vec()).unwrap()
}

/// The contents of a generated response.
#[derive(Debug, Clone)]
struct Said {
    status: u16,
    cache_control: Vec<String>,
    expires: Option<i64>,
    last_modified: Option<i64>,
    /// Lines of `Age`, of which the first counts if it is a number.
    ages: Vec<String>,
    date: i64,
    is_authorized: bool,
}

impl Said {
    fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = vec![("date", date(self.date))];
        if !self.cache_control.is_empty() {
            fields.push(("cache-control", self.cache_control.join(", ")));
        }
        fields.extend(self.expires.map(|offset| ("expires", date(offset))));
        fields.extend(self.last_modified.map(|offset| ("last-modified", date(offset))));
        fields.extend(self.ages.iter().map(|age| ("age", age.clone())));
        fields
    }

    /// Whether our rules would answer a request with it, so many seconds later.
    fn is_reused_by_ours(&self, request: &str, later: i64) -> bool {
        let text: String = self.fields().iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let response = storing::Response {
            status: self.status,
            fields: text.as_bytes(),
            date: Some(NOW + self.date),
            request_time: NOW,
            response_time: NOW,
            is_authorized: self.is_authorized,
            has_cookie: false,
            request_no_store: false,
        };
        // The other has no upper bound.
        let policy = Policy { heuristic_maximum: u32::MAX, maximum_freshness: u32::MAX, ..Policy::default() };
        let Ok(storable) = storing::decide_storage(&response, &policy) else { return false };
        let asked: RequestDirectives = request_directives(FieldText(request.as_bytes()));
        matches!(
            reuse::decide_reuse(&storable.terms, &asked, false, NOW + later),
            Reuse::Fresh | Reuse::Stale
        )
    }

    /// The same of the other implementation.
    fn is_reused_by_oracle(&self, request_fields: &[(&str, &str)], later: i64) -> bool {
        let mut request = Request::builder().uri("http://example.org/");
        if self.is_authorized {
            request = request.header("authorization", "Basic eDp5");
        }
        let request = request.body(()).unwrap();
        let mut response = Response::builder().status(self.status);
        for (name, value) in self.fields() {
            response = response.header(name, value);
        }
        let response = response.body(()).unwrap();
        let at = |seconds: i64| UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap());
        let options = CacheOptions { shared: true, cache_heuristic: 0.1, ..CacheOptions::default() };
        let policy = CachePolicy::new_options(&request, &response, at(NOW), options);
        let mut again = Request::builder().uri("http://example.org/");
        for (name, value) in request_fields {
            again = again.header(*name, *value);
        }
        let again = again.body(()).unwrap();
        policy.is_storable()
            && matches!(policy.before_request(&again, at(NOW + later)), BeforeRequest::Fresh(_))
    }
}

fn directive() -> impl Strategy<Value = String> {
    prop_oneof![
        (0u32..500).prop_map(|seconds| format!("max-age={seconds}")),
        (0u32..500).prop_map(|seconds| format!("s-maxage={seconds}")),
        Just("no-cache".to_string()),
        Just("no-store".to_string()),
        Just("private".to_string()),
        Just("public".to_string()),
        Just("must-revalidate".to_string()),
        // Not proxy-revalidate, which the other takes for a lifetime of 0.
        Just("extension=\"max-age=9\"".to_string()),
    ]
}

fn said() -> impl Strategy<Value = Said> {
    (
        prop_oneof![Just(200u16), Just(203), Just(204), Just(301), Just(404), Just(410)],
        proptest::collection::vec(directive(), 0..4),
        proptest::option::of(-500i64..500),
        proptest::option::of(-9000i64..0),
        // Not a list in one line, of which the other ignores all.
        proptest::collection::vec(
            prop_oneof![4 => "[0-9]{1,3}", 1 => "-[0-9]{1,3}|[0-9]\\.[0-9]|[a-z]{1,3}"],
            0..3,
        ),
        // The other does not count how long a response was on its way by its Date alone (RFC 9111 section
        // 4.2.3).
        Just(0i64),
        any::<bool>(),
    )
        .prop_map(|(status, mut cache_control, expires, last_modified, ages, date, is_authorized)| {
            // Which of two counts is left open by the rules.
            let mut names: Vec<String> = Vec::new();
            cache_control.retain(|directive| {
                let name = directive.split('=').next().unwrap_or_default().to_string();
                let is_new = !names.contains(&name);
                names.push(name);
                is_new
            });
            Said { status, cache_control, expires, last_modified, ages, date, is_authorized }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_reused_is_reused_by_both(said in said(), later in 0i64..600) {
        // The other guesses how long an answer to `Authorization` is fresh; ours does so only where it is
        // `public`.
        let says = |name: &str| said.cache_control.iter().any(|directive| directive.starts_with(name));
        let has_lifetime = said.expires.is_some() || says("max-age") || says("s-maxage");
        prop_assume!(!said.is_authorized || has_lifetime || says("public"));
        prop_assert_eq!(said.is_reused_by_ours("", later), said.is_reused_by_oracle(&[], later));
    }

    #[test]
    fn what_a_client_asks_for_counts_for_both(
        lifetime in 0u32..300,
        later in 0i64..400,
        (name, seconds) in prop_oneof![
            (Just("max-age"), 0u32..400),
            (Just("min-fresh"), 0u32..400),
            (Just("max-stale"), 0u32..400),
        ],
        is_strict in any::<bool>(),
    ) {
        // "By no more than" so many seconds (RFC 9111 section 5.2.1.2): the other takes one less.
        prop_assume!(name != "max-stale" || later - i64::from(lifetime) != i64::from(seconds));
        let mut cache_control = vec![format!("max-age={lifetime}")];
        cache_control.extend(is_strict.then(|| "must-revalidate".to_string()));
        let said = Said {
            status: 200,
            cache_control,
            expires: None,
            last_modified: None,
            ages: Vec::new(),
            date: 0,
            is_authorized: false,
        };
        let value = format!("{name}={seconds}");
        let ours = said.is_reused_by_ours(&format!("Cache-Control: {value}\r\n"), later);
        let oracle = said.is_reused_by_oracle(&[("cache-control", value.as_str())], later);
        prop_assert_eq!(ours, oracle, "{} after {} of {}", value, later, lifetime);
    }
}
