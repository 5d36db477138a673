//! Fuzzes the field lines of a response and of its request: no panic; a stored response selects the request
//! that it answered, and has no field of the connection.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_accelerator::rules::fields::{FieldText, lines, stored_fields, updated_fields};
use touchstone_accelerator::rules::policy::Policy;
use touchstone_accelerator::rules::no_vary_search::Variance;
use touchstone_accelerator::rules::{conditions, groups, invalidation, partial, reuse, storing, vary};

fuzz_target!(|bytes: &[u8]| {
    let half = bytes.len() / 2;
    let (request, response) = (FieldText(&bytes[..half]), &bytes[half..]);
    let policy = Policy::default();
    let decision = storing::decide_storage(
        &storing::Response {
            status: 200,
            fields: response,
            date: None,
            request_time: 1000,
            response_time: 1001,
            is_authorized: false,
            has_cookie: false,
            request_no_store: false,
        },
        &policy,
    );
    if let Ok(storable) = decision {
        reuse::decide_reuse(&storable.terms, &reuse::request_directives(request), false, 2000);
        let stored = stored_fields(response, &storable.left_out);
        assert!(lines(&stored).all(|(name, _)| !name.eq_ignore_ascii_case(b"connection")));
        updated_fields(&stored, response, &[]);
        conditions::select(request, true, &stored, 200, 10, (1000, 2000));
    }
    if let Some(selector) = vary::selector(response, request, &policy) {
        assert!(vary::matches(&selector, request, &mut Vec::new()));
    }
    assert!(groups::of_response(response).len() <= groups::MOST_GROUPS);
    if let Some(variance) = Variance::of_response(response) {
        assert_eq!(variance.canonical(&bytes[..half]), variance.canonical(&bytes[..half]));
    }
    partial::content_range(response);
    invalidation::same_origin_target(response, false, b"a", b"/b");
});
