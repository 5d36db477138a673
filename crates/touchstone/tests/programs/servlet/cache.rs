//! The cache of a route before its applications.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use super::{BOTH, ask, start, text, trial};
use crate::support::{Response, Tree};

fn cached(response: &Response) -> &str {
    response.field("cache-status").unwrap_or_default()
}

#[test]
fn what_is_cached_does_not_reach_the_servlet() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let route = format!(
            "[[site.route]]\npath = \"/trial/\"\nservlet = {{ app = {trial:?}, isolation = {isolation:?} }}\n\
             cache = {{ default_freshness = \"60s\" }}\n"
        );
        let server = start(&tree, "", &route, 1);
        let first = server.get("/trial/asked?kept=max-age=60");
        assert_eq!(text(&first), "1");
        assert!(
            cached(&first).contains("fwd=uri-miss") && cached(&first).contains("stored"),
            "{}",
            cached(&first)
        );
        for _ in 0..3 {
            let again = server.get("/trial/asked?kept=max-age=60");
            assert_eq!((text(&again).as_str(), again.field("age").is_some()), ("1", true));
            assert!(cached(&again).contains("; hit"), "{}", cached(&again));
        }
        // An answer without freshness is kept for the time of the route; one that must not be kept is not.
        assert_eq!(text(&server.get("/trial/asked")), text(&server.get("/trial/asked")));
        for kept in ["no-store", "private"] {
            let target = format!("/trial/asked?kept={kept}");
            assert_ne!(text(&server.get(&target)), text(&server.get(&target)), "{kept}");
        }
        // Pages of a session are given to no other client, whether the session is in a cookie or in the path.
        let begun = server.get("/trial/count");
        let other = server.get("/trial/count");
        assert!(text(&begun).starts_with("1 ") && text(&other).starts_with("1 "));
        let cookie = begun.field("set-cookie").unwrap().split(';').next().unwrap().to_string();
        let session = cookie.replace("JSESSIONID=", "");
        for count in [2, 3] {
            let by_cookie = ask(&server, &format!("GET /trial/count HTTP/1.1\r\nCookie: {cookie}"));
            assert!(text(&by_cookie).starts_with(&format!("{count} ")));
        }
        for count in [4, 5] {
            let by_path = server.get(&format!("/trial/count;jsessionid={session}"));
            assert!(text(&by_path).starts_with(&format!("{count} ")), "{}", text(&by_path));
            assert!(!cached(&by_path).contains("stored") && !cached(&by_path).contains("; hit"));
        }
        assert!(text(&server.get("/trial/count")).starts_with("1 "));
        // A page that is refused to other clients is not found under its own name.
        let hidden = "/trial/asked/;/hidden?kept=max-age=60";
        assert_ne!(text(&server.get(hidden)), text(&server.get(hidden)));
    }
}
