//! The server's own cookies, of checks and of logins: programs and origins must not get them.

use std::rc::Rc;

use touchstone_crawlers as crawlers;
use touchstone_handler::request::Request;
use touchstone_http::cookie;
use touchstone_login as login;
use touchstone_sites::route::SiteRules;

/// Removes the cookies of the rules that a site has. Returns whether that was possible.
pub fn remove(rules: &SiteRules, request: &mut Request) -> bool {
    let is_own = |name: &[u8]| {
        rules.crawlers().is_some() && crawlers::is_own_cookie(name)
            || rules.logins().is_some() && login::is_own_cookie(name)
    };
    let received = &request.received;
    if !received.values("cookie").any(|field| cookie::has(field, is_own)) {
        return true;
    }
    let kept: Vec<Vec<u8>> =
        received.values("cookie").filter_map(|field| cookie::without(field, is_own)).collect();
    let added = kept.iter().map(|value| (&b"Cookie"[..], &value[..]));
    let written = received.with_fields(|name| !name.eq_ignore_ascii_case(b"cookie"), added);
    let Some(written) = written else { return false };
    request.received = Rc::new(written);
    true
}
