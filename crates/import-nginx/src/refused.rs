//! Routes that refuse what a directive protects which was not translated: nothing that nginx refuses may be
//! open here until the operator writes what that directive does.

use super::matching::Match;
use touchstone_import_base::account::Account;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::output::{Section, untranslated};
use touchstone_import_base::toml_text::toml_string;

/// The advice for such a directive.
pub const REFUSED_UNTIL: &str = "all requests of its place are refused until you do this: ";

/// The route that refuses all requests of a place because of the directives there that may refuse requests
/// and were not translated; `None`: there are none. `how` is the match of a location.
pub fn refused_until(block: &[Directive], how: Option<&Match>, account: &Account) -> Option<Section> {
    let lines: Vec<&Directive> =
        block.iter().filter(|one| may_refuse(one) && account.is_problem(one)).collect();
    route(&lines, how)
}

/// The route that refuses all requests of a place because of these directives.
pub fn route(lines: &[&Directive], how: Option<&Match>) -> Option<Section> {
    if lines.is_empty() {
        return None;
    }
    let mut route = untranslated(lines);
    match how {
        Some(how) => how.keys(&mut route).ok()?,
        None => route.key("path", toml_string("/")),
    }
    route.key("respond", "{ status = 403 }");
    Some(route)
}

/// The directives of a block that refuse requests by modules which this command does not know.
pub fn of_other_modules(block: &[Directive]) -> Vec<&Directive> {
    let is_known = |name: &str| name.starts_with("auth_basic") || name.starts_with("auth_request");
    let is_other = |one: &&Directive| {
        let is_rule = one.name.starts_with("auth_") || one.name.starts_with("access_by_lua");
        is_rule && !is_known(&one.name) && may_refuse(one)
    };
    block.iter().filter(is_other).collect()
}

/// Whether a directive refuses some requests, so that without it they would be answered.
pub fn may_refuse(directive: &Directive) -> bool {
    let is_on = directive.argument(0) != "off" && directive.argument(0) != "none";
    match directive.name.as_str() {
        "if" => directive.inside().iter().any(|inner| match inner.name.as_str() {
            "return" => inner.argument(0).starts_with(['4', '5']),
            "deny" => true,
            name => name.starts_with("auth_"),
        }),
        "limit_except" | "ssl_verify_client" | "ssl_client_certificate" | "ssl_crl" => is_on,
        name if name.starts_with("access_by_lua") || name == "js_access" => true,
        name => name.starts_with("auth_") && name != "auth_request_set" && is_on,
    }
}

#[cfg(test)]
mod tests {
    use crate::{parse, translate};

    /// The keys of the first route that answers 403, and the number of problems.
    fn refused(server: &str) -> (Option<String>, usize) {
        let text = format!("server {{ listen 80; server_name a.org; root /srv; {server} }}");
        let imported = translate(&parse("nginx.conf", &text).unwrap());
        let lines: Vec<&str> =
            imported.text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        let text = lines.join("\n");
        let mut routes = text.split("[[site.route]]\n").skip(1);
        let found = routes.find(|route| route.contains("respond = { status = 403 }"));
        (found.map(|route| route.trim().to_string()), imported.problems.len())
    }

    #[test]
    fn what_is_not_translated_refuses_its_place() {
        for (server, expected) in [
            ("if ($ssl_client_fingerprint != abc) { return 403; }", "path = \"/\""),
            ("location /a/ { if ($upstream_x) { return 403; } }", "path = \"/a/\""),
            ("location /a/ { if (-f $request_filename) { return 403; } }", "path = \"/a/\""),
            (
                "location /a/ { if (!-f $request_filename) { return 404; } proxy_pass http://b; }",
                "path = \"/a/\"",
            ),
            ("location /a/ { set $x $upstream_x; if ($x) { return 404; } }", "path = \"/a/\""),
            ("location /a/ { auth_jwt realm; }", "path = \"/a/\""),
            ("auth_digest realm; location /a/ { root /x; }", "path = \"/\""),
            ("location /a/ { access_by_lua_file x.lua; proxy_pass http://b; }", "path = \"/a/\""),
            ("location ~ ^/a(b)\\1 { deny all; }", "pattern = \"(?i)/a(?s:.*)\""),
            ("location /a/ { auth_basic x; }", "path = \"/a/\""),
        ] {
            let (route, problems) = refused(server);
            let route = route.unwrap_or_default();
            assert!(route.starts_with(expected) && problems > 0, "{server}: {route}");
            assert!(!route.contains("when"), "{server}: {route}");
        }
        for server in [
            "if ($upstream_x) { return 301 /a; }",
            "location /a/ { if ($upstream_x) { set $y 1; } }",
            "location /a/ { if (-f $request_filename) { expires max; break; } }",
            "location /a/ { auth_jwt off; }",
            "location /a/ { if (!-f $request_filename) { return 404; } }",
        ] {
            assert_eq!(refused(server).0, None, "{server}");
        }
    }

    #[test]
    fn files_are_looked_at_when_the_import_runs() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("maintenance.html");
        let server = format!(
            "root {}; if (-f $document_root/maintenance.html) {{ return 403; }}",
            directory.path().display()
        );
        assert_eq!(refused(&server), (None, 1));
        std::fs::write(&file, "").unwrap();
        assert_eq!(refused(&server), (Some("path = \"/\"\nrespond = { status = 403 }".to_string()), 0));
        let server = server.replace("-f", "!-e");
        assert_eq!(refused(&server), (None, 1));
    }

    #[test]
    fn variables_of_a_location() {
        let (route, problems) = refused(
            "set $bad 0; location /a/ { if ($http_user_agent ~ bot) { set $bad A; }\n\
             if ($arg_x) { set $bad \"${bad}B\"; } if ($bad = AB) { return 403; } proxy_pass http://b; }",
        );
        let when = "when = \"$header{user-agent} =~ 'bot' and $arg{x}\"";
        let route = route.unwrap_or_default();
        assert!(route.starts_with("path = \"/a/\"") && problems == 0, "{route} {problems}");
        assert!(route.contains(when), "{route}");
    }

    #[test]
    fn other_methods_have_other_rules() {
        let text = "server { root /srv; location /a/ { limit_except GET { auth_basic x; \
                    auth_basic_user_file /u; } proxy_pass http://127.0.0.1:1; } \
                    location /b/ { allow 10.0.0.1; deny all; \
                    limit_except GET { allow 10.0.0.2; deny all; } } }";
        let imported = translate(&parse("nginx.conf", text).unwrap());
        let lines: Vec<&str> =
            imported.text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        let text = lines.join("\n");
        assert!(imported.problems.is_empty(), "{:?}", imported.problems);
        let route = |path: &str| -> Vec<&str> {
            text.split("[[site.route]]\n")
                .filter(|route| route.starts_with(&format!("path = \"{path}\"")))
                .collect()
        };
        let (a, b) = (route("/a/"), route("/b/"));
        let when = "when = \"not ($method in ['GET', 'HEAD'])\"";
        assert!(
            a[0].contains("basic_authentication") && a[0].contains(when) && a[0].contains("proxy"),
            "{text}"
        );
        assert!(!a[1].contains("basic_authentication") && !a[1].contains("when"), "{text}");
        assert!(b[0].contains("allow = [\"10.0.0.2\"]") && b[0].contains(when), "{text}");
        assert!(b[1].contains("allow = [\"10.0.0.1\"]"), "{text}");
    }

    #[test]
    fn client_certificates() {
        let keys = |lines: &str| {
            let text = format!(
                "server {{ listen 443 ssl; server_name a.org; root /srv; ssl_certificate a; {lines} }}"
            );
            let imported = translate(&parse("nginx.conf", &text).unwrap());
            let is_key = |line: &&str| {
                ["client_", "when", "respond", "deny"].iter().any(|begin| line.starts_with(begin))
            };
            let lines: Vec<String> = imported.text.lines().filter(is_key).map(str::to_string).collect();
            (lines.join("\n"), imported.problems.len())
        };
        let authorities = "client_authorities = \"/ca.pem\"";
        let optional = "client_certificate = \"optional\"";
        let refused = "respond = { status = 403 }";
        let own = "ssl_client_certificate /ca.pem; ssl_verify_client";
        assert_eq!(keys("ssl_client_certificate /ca.pem;"), (String::new(), 0));
        assert_eq!(keys(&format!("{own} on;")), (authorities.to_string(), 0));
        assert_eq!(keys(&format!("{own} optional;")), (format!("{authorities}\n{optional}"), 0));
        let (text, problems) =
            keys(&format!("{own} optional; if ($ssl_client_verify = NONE) {{ return 403; }}"));
        let when = "when = \"$map{client-certificate} == 'NONE'\"";
        assert_eq!((text, problems), (format!("{authorities}\n{optional}\n{refused}\n{when}"), 0));
        assert_eq!(keys("ssl_verify_client on;"), (refused.to_string(), 1));
        let (text, problems) = keys(&format!("{own} on; ssl_crl /crl.pem;"));
        assert_eq!((text, problems), (format!("{authorities}\n{refused}"), 1));
    }

    #[test]
    fn what_begins_like_an_alias_is_not_below_it() {
        let text =
            "server { root /srv; location /media { alias /srv/media; } location / { proxy_pass http://b; } }";
        let imported = translate(&parse("nginx.conf", text).unwrap());
        let at = |line: &str| imported.text.find(line).unwrap_or_else(|| panic!("{line}: {}", imported.text));
        assert!(at("path = \"/media/\"") < at("path = \"/media**\"\nrespond = { status = 404 }"));
        assert!(at("path = \"/media**\"") < at("path = \"/\""));
    }

    #[test]
    fn other_scripts_have_no_path_behind_them() {
        let guard = |lines: &str| {
            let text = format!("server {{ root /srv; location ~ {lines} fastcgi_pass 127.0.0.1:9; }} }}");
            let imported = translate(&parse("nginx.conf", &text).unwrap());
            imported.text.contains("status = 404")
        };
        assert!(guard("\\.(php|phtml)(/|$) { "));
        assert!(guard("\\.(php|phtml)(/|$) { fastcgi_split_path_info ^(.+\\.php)(/.*)$;"));
        assert!(!guard("\\.(php|phtml)(/|$) { fastcgi_split_path_info ^(.+\\.(?:php|phtml))(/.*)$;"));
        assert!(!guard("\\.php(/|$) {"));
    }
}
