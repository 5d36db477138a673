//! Tests of routes as a table, and of a site's routes and gates together.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use touchstone_access::pass;
use touchstone_config::{Config, RouteConfig, parse};
use touchstone_http::request_view::RequestView;
use touchstone_http::target::normalise_path;

use super::*;

/// The configuration of one site with these lines after its own.
fn config(routes: &str) -> Config {
    let text = format!("[[site]]\nlisten = ['127.0.0.1:80']\nroot = 'www'\n{routes}");
    parse(&text, Path::new("/etc/site.toml")).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

fn routes(text: &str) -> Routes {
    Routes::compile(&config(text).sites[0].routes).unwrap()
}

fn found(routes: &Routes, path: &str) -> Option<usize> {
    routes.find(&RequestView::example(path)).map(|route| route.index)
}

fn rules(text: &str) -> SiteRules {
    SiteRules::open(&config(text).sites[0], &ServerShared::example()).unwrap().unwrap()
}

/// The outcome of the rules for a path, as one line.
fn resolve(rules: &SiteRules, path: &str) -> String {
    let resolved = rules.resolve(&RequestView::example(path));
    let path = resolved.rewritten.as_ref().map_or(path.as_bytes(), |new| &new.encoded_path);
    let path = String::from_utf8_lossy(path).into_owned();
    match &resolved.outcome {
        Outcome::Files { root: None } => format!("file {path}"),
        Outcome::Files { root: Some(root) } => format!("file {path} in {root}"),
        Outcome::Redirect { status, location } => format!("{status} {}", String::from_utf8_lossy(location)),
        Outcome::Handler(interface) => interface.name().to_string(),
        Outcome::Respond(respond) => format!("{} {:?}", respond.status, respond.body),
        Outcome::Failed { status, .. } => format!("failed {status}"),
    }
}

#[test]
fn the_first_that_matches() {
    let routes = routes(
        "[[site.route]]\npath = '/a/b'\nmethods = ['POST']\n\
         [[site.route]]\npath = '/a/'\nsuffixes = ['.css', '.js']\n\
         [[site.route]]\npath = '/a/b'\n\
         [[site.route]]\npath = '/a/**.txt'\n\
         [[site.route]]\npath = '/a/c/'\n\
         [[site.route]]\npattern = '/[0-9]+'\n\
         [[site.route]]\npath = '/a/'\n\
         [[site.route]]\nrequest_headers = { X-Beta = '*' }\n",
    );
    for (path, expected) in [
        ("/a/b", Some(2)),
        ("/a/x.css", Some(1)),
        ("/a/c/x.js", Some(1)),
        ("/a/c/x.txt", Some(3)),
        ("/a/c/x", Some(4)),
        ("/a/d", Some(6)),
        ("/a/", Some(6)),
        ("/a", None),
        ("/123", Some(5)),
        ("/123/", None),
        ("/", None),
    ] {
        assert_eq!(found(&routes, path), expected, "{path}");
    }
    let post = RequestView { method: b"POST", ..RequestView::example("/a/b") };
    assert_eq!(routes.find(&post).map(|route| route.index), Some(0));
    let fields = vec![("x-beta", "1")];
    assert_eq!(
        routes.find(&RequestView { fields: &fields, ..RequestView::example("/") }).map(|route| route.index),
        Some(7)
    );
    assert_eq!(
        routes
            .find(&RequestView { fields: &fields, ..RequestView::example("/a/b") })
            .map(|route| route.index),
        Some(2)
    );
}

#[test]
fn get_includes_head() {
    let routes = routes("[[site.route]]\nmethods = ['GET']\n");
    let with = |method: &'static str| {
        routes.find(&RequestView { method: method.as_bytes(), ..RequestView::example("/") }).is_some()
    };
    assert!(with("GET") && with("HEAD") && !with("get") && !with("POST") && !with("OPTIONS"));
}

#[test]
fn many_routes() {
    let text: String = (0..5000)
        .map(|number| {
            format!("[[site.route]]\npath = '/old/{number}'\nredirect = {{ to = '/new/{number}' }}\n")
        })
        .collect();
    let rules = rules(&text);
    assert_eq!(resolve(&rules, "/old/4999"), "302 /new/4999");
    assert_eq!(resolve(&rules, "/old/5000"), "file /old/5000");
}

#[test]
fn actions() {
    let rules = rules(
        "[[site.route]]\npath = '/old/'\nredirect = { to = '/new/$1', status = 308 }\n\
         [[site.route]]\npath = '/gone'\nrespond = { status = 410 }\n\
         [[site.route]]\npath = '/health'\nrespond = { body = 'ok' }\n\
         [[site.route]]\npath = '/dl/'\nroot = 'downloads'\n\
         [[site.route]]\npattern = '/user/(?<name>[^/]+)'\nrewrite = { to = '/profile.html?user=$name' }\n\
         [[site.route]]\npath = '/up/'\nrewrite = { to = '/$1' }\n\
         [[site.route]]\npath = '/other/'\nrewrite = { to = '/dl/$1' }\nroot = 'elsewhere'\n",
    );
    for (path, expected) in [
        ("/old/a b/c", "308 /new/a%20b/c"),
        ("/gone", "410 \"\""),
        ("/health", "200 \"ok\""),
        ("/dl/x", "file /dl/x in 0"),
        ("/user/ann", "file /profile.html"),
        ("/up/x%", "file /x%25"),
        // The last root applies.
        ("/other/x", "file /dl/x in 0"),
        ("/plain", "file /plain"),
    ] {
        assert_eq!(resolve(&rules, path), expected, "{path}");
    }
    let resolved = rules.resolve(&RequestView::example("/user/ann&bob"));
    assert_eq!(&resolved.rewritten.unwrap().query.unwrap()[..], b"user=ann%26bob");
}

#[test]
fn a_path_may_lack_only_the_slash_of_a_program() {
    let proxy = "proxy = { to = 'http://127.0.0.1:1' }\n";
    let rules = rules(&format!(
        "[[site.route]]\npath = '/shut/'\nrespond = {{ status = 403 }}\n\
         [[site.route]]\npath = '/shut/'\n{proxy}\
         [[site.route]]\npath = '/shop/'\n{proxy}\
         [[site.route]]\npath = '/a b/c/'\n{proxy}\
         [[site.route]]\npath = '/posts/'\nmethods = ['POST']\n{proxy}\
         [[site.route]]\npath = '/pages/'\nsuffixes = ['.jsp']\n{proxy}\
         [[site.route]]\npath = '/files/'\n\
         [[site.route]]\npath = '/one'\n{proxy}\
         [[site.route]]\npath = '/any*/'\n{proxy}"
    ));
    for (path, expected) in [
        ("/shop", true),
        ("/a b/c", true),
        ("/shop/", false),
        ("/shop/x", false),
        ("/shops", false),
        ("/Shop", false),
        ("/", false),
        // The path with a slash leads elsewhere, or is not of the route.
        ("/shut", false),
        ("/posts", false),
        ("/pages", false),
        ("/files", false),
        ("/one", false),
        ("/any", false),
    ] {
        assert_eq!(rules.lacks_slash(&RequestView::example(path)), expected, "{path}");
    }
    assert!(rules.lacks_slash(&RequestView { method: b"POST", ..RequestView::example("/posts") }));
    let whole_site = format!("[[site.route]]\npath = '/'\n{proxy}");
    assert!(!super::tests::rules(&whole_site).lacks_slash(&RequestView::example("")));
}

#[test]
fn answers() {
    let rules = rules(
        "[[site.route]]\npath = '/a'\nredirect = { to = '/b', status = 301 }\n\
         [[site.route]]\npath = '/gone'\nrespond = { status = 410 }\n\
         [[site.route]]\npath = '/none'\nrespond = { status = 204 }\n\
         [[site.route]]\npath = '/ok'\nrespond = { body = 'ok', content_type = 'text/x' }\n",
    );
    let answer = |path: &str| {
        rules.resolve(&RequestView::example(path)).outcome.answer().map(|answer| {
            (answer.status, String::from_utf8(answer.fields.clone()).unwrap(), answer.body_length().unwrap())
        })
    };
    let (status, fields, _) = answer("/a").unwrap();
    assert!(status == 301 && fields.ends_with("\r\nLocation: /b\r\n"), "{fields}");
    assert!(
        matches!(answer("/gone"), Some((410, fields, 1..)) if fields.starts_with("Content-Type: text/html"))
    );
    assert_eq!(answer("/none"), Some((204, String::new(), 0)));
    assert_eq!(answer("/ok"), Some((200, "Content-Type: text/x\r\n".to_string(), 2)));
    assert_eq!(answer("/file"), None);
}

#[test]
fn rewrites_lead_on_but_not_in_circles() {
    let rules = rules(
        "[[site.route]]\npath = '/a'\nrewrite = { to = '/b' }\n\
         [[site.route]]\npath = '/b'\nrewrite = { to = '/a' }\n\
         [[site.route]]\npath = '/one'\nrewrite = { to = '/two' }\nheaders = { X-One = '1' }\n\
         [[site.route]]\npath = '/two'\nredirect = { to = '/three' }\nheaders = { X-Two = '2' }\n\
         [[site.route]]\npath = '/**'\nrewrite = { to = '/index.html' }\n",
    );
    // Each once, then the last one, then none is left.
    assert_eq!(resolve(&rules, "/a"), "file /index.html");
    assert_eq!(resolve(&rules, "/x"), "file /index.html");
    assert_eq!(resolve(&rules, "/one"), "302 /three");
    let resolved = rules.resolve(&RequestView::example("/one"));
    let mut lines = b"X-Two: 0\r\n".to_vec();
    resolved.fields.iter().for_each(|(fields, _)| fields.apply(&mut lines, &RequestView::example("/one")));
    assert_eq!(lines, b"X-One: 1\r\nX-Two: 2\r\n");
    assert_eq!(resolved.route.unwrap().index, 3);
}

#[test]
fn a_long_chain_ends() {
    let text = |count: usize| -> String {
        (0..count)
            .map(|number| {
                format!("[[site.route]]\npath = '/{number}'\nrewrite = {{ to = '/{}' }}\n", number + 1)
            })
            .collect()
    };
    assert_eq!(resolve(&rules(&text(10)), "/0"), "file /10");
    assert_eq!(resolve(&rules(&text(11)), "/0"), "failed 500");
}

#[test]
fn a_rewrite_stays_below_the_root() {
    let rules = rules("[[site.route]]\npattern = '/x(.*)'\nrewrite = { to = '/files/$1' }\n");
    assert_eq!(resolve(&rules, "/x../../secret"), "failed 400");
    assert_eq!(resolve(&rules, "/x../secret"), "file /secret");
    assert_eq!(resolve(&rules, "/x/./a"), "file /files/a");
}

/// A path cannot be written so that it evades a rule: rules receive the normal form.
#[test]
fn rules_see_the_normal_form() {
    let rules = rules("[[site.route]]\npath = '/private/'\ndeny = ['0.0.0.0/0']\n");
    for path in
        ["/private/x", "/%70rivate/x", "//private//x", "/a/../private/x", "/./private/%2e%2e/private/x"]
    {
        let mut normal = Vec::new();
        normalise_path(path.as_bytes(), &mut normal).unwrap();
        let resolved = rules.resolve(&RequestView { path: &normal, ..RequestView::example("/") });
        assert_eq!(resolved.gates.len(), 1, "{path}");
        assert_eq!(resolved.route.map(|route| route.index), Some(0), "{path}");
    }
    assert!(rules.resolve(&RequestView::example("/public")).gates.is_empty());
}

#[test]
fn gates_of_every_route_on_the_way() {
    let rules = rules(
        "deny = ['192.0.2.66']\n\
         [[site.route]]\npath = '/in/'\ndeny = ['192.0.2.1']\nrewrite = { to = '/private/$1' }\n\
         [[site.route]]\npath = '/private/'\ndeny = ['192.0.2.2']\n\
         [[site.route]]\npath = '/public/'\n",
    );
    let status = |client: &str, path: &str| {
        let request = RequestView { client: Some(client.parse().unwrap()), ..RequestView::example(path) };
        let resolved = rules.resolve(&request);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(pass(&resolved.gates, &request)).map_err(|refusal| refusal.status).err()
    };
    for (client, path, expected) in [
        ("192.0.2.1", "/in/x", Some(403)),
        ("192.0.2.2", "/in/x", Some(403)),
        ("192.0.2.3", "/in/x", None),
        ("192.0.2.1", "/private/x", None),
        ("192.0.2.2", "/private/x", Some(403)),
        ("192.0.2.66", "/public/x", Some(403)),
        ("192.0.2.66", "/x", Some(403)),
        // The route has its own rules instead of the site's.
        ("192.0.2.66", "/private/x", None),
    ] {
        assert_eq!(status(client, path), expected, "{client} {path}");
    }
}

#[test]
fn the_cache_may_answer_what_is_plain() {
    let rules = rules(
        "rate_limit = { requests = 2, per = '1h' }\n\
         [[site.route]]\npath = '/old'\nredirect = { to = '/new' }\n\
         [[site.route]]\npath = '/h'\nheaders = { X-A = '1' }\n\
         [[site.route]]\npath = '/root'\nroot = 'x'\n\
         [[site.route]]\npath = '/open'\nrate_limit = { requests = 0 }\n",
    );
    let at_once = |path: &str| {
        matches!(rules.admit_cached_file(&RequestView::example(path)), CacheAdmission::Serve(..))
    };
    // Requests that are not plain are not counted.
    for path in ["/old", "/h", "/root", "/old"] {
        assert!(!at_once(path), "{path}");
    }
    assert!(at_once("/x") && at_once("/open") && at_once("/y"));
    assert!(!at_once("/x") && at_once("/open"));
}

#[test]
fn no_rules_are_none() {
    assert!(SiteRules::open(&config("").sites[0], &ServerShared::example()).unwrap().is_none());
    assert!(!rules("[[site.route]]\n").needs_peers());
    assert!(
        rules("deny = ['::1']\n").needs_peers() && rules("[[site.route]]\ndeny = ['::1']\n").needs_peers()
    );
    assert!(matches!(
        rules("[[site.route]]\n").admit_cached_file(&RequestView::example("/")),
        CacheAdmission::Serve(..)
    ));
}

// ---- configuration

/// Every example of the pages on routes and access is a configuration that works.
#[test]
fn the_examples_of_the_pages_parse() {
    let mut whole = 0;
    for page in ["routes.md", "access.md"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
        let text = std::fs::read_to_string(path).unwrap();
        for block in text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()) {
            if block.contains("[[site]]") {
                parse(block, Path::new("/etc/site.toml"))
                    .unwrap_or_else(|problems| panic!("{page}: {problems:#?}"));
                whole += 1;
            } else {
                block.lines().for_each(|line| _ = config(&format!("[[site.route]]\n{line}\n")));
            }
        }
    }
    assert_eq!(whole, 5);
}

fn problems_of(lines: &str) -> Vec<String> {
    let text = format!("[[site]]\nlisten = ['127.0.0.1:80']\nroot = 'www'\n{lines}");
    match parse(&text, Path::new("site.toml")) {
        Ok(config) => panic!("accepted: {config:#?}"),
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn wrong_routes_are_reported_with_their_place() {
    for (lines, expected) in [
        ("[[site.route]]\npath = 'a'", &["site.toml:5:8: 'path': \"a\" does not begin with '/'"][..]),
        (
            "[[site.route]]\npattern = '('",
            &["site.toml:5:11: 'pattern': not a regular expression: unclosed group"],
        ),
        (
            "[[site.route]]\npath = '/a'\nredirect = { to = '/$1' }",
            &["site.toml:6:19: 'to': \"/$1\" has '$1', which is not a variable here; \
                 there are $path, $query, $host"],
        ),
        (
            "[[site.route]]\nredirect = { to = '/', status = 305 }",
            &["site.toml:5:33: 'status' must be 301, 302, 303, 307 or 308, not 305"],
        ),
        (
            "[[site.route]]\nredirect = { to = '/', status = 200 }",
            &["site.toml:5:33: 'status' must be from 301 to 308, not 200"],
        ),
        (
            "[[site.route]]\npath = '/a'\n[site.route.redirect]\nto = '/'\n\
             [site.route.respond]\nstatus = 404",
            &["site.toml:8:1: 'respond' and 'redirect' cannot both be done; make two routes"],
        ),
        (
            "[[site.route]]\nroot = 'x'\nrespond = { status = 204, body = 'x' }",
            &[
                "site.toml:5:8: 'root' and 'respond' cannot both be done; make two routes",
                "site.toml:6:34: 'body': an answer with status 204 has none",
            ],
        ),
        (
            "[[site.route]]\nredirect = '/new'",
            &["site.toml:5:12: 'redirect' must be a table; write [site.route.redirect]"],
        ),
        (
            "[[site.route]]\nrewrite = {}",
            &["site.toml:5:11: [site.route.rewrite] needs 'to', such as to = \"/app/index.html\""],
        ),
        (
            "[site.route]\npath = '/a'",
            &["site.toml:4:1: 'route' is written with two pairs of brackets, \
                 because there may be several: [[site.route]]"],
        ),
        (
            "[[site.route]]\npaths = '/a'",
            &["site.toml:5:1: unknown key 'paths' in [[site.route]]; did you mean 'path'?"],
        ),
        (
            "[[site.route]]\nheaders = { Content-Length = '5', 'a b' = 'x', X-A = \"a\\nb\" }",
            &[
                "site.toml:5:13: 'headers': Content-Length is the server's own to set",
                "site.toml:5:35: 'headers': \"a b\" is not the name of a header field",
                "site.toml:5:54: 'headers': \"a\\nb\" holds a control character, \
                 which a header value must not",
            ],
        ),
        (
            "[[site.route]]\nheaders = { X-A = '1', x-a = '2' }",
            &["site.toml:5:24: 'headers': \"x-a\" is listed twice; case is ignored"],
        ),
        (
            "[[site.route]]\nmethods = ['GE T']",
            &["site.toml:5:12: 'methods': \"GE T\" is not a method, such as \"GET\""],
        ),
        (
            "[[site.route]]\nallow = ['10.0.0.1/8']\ndeny = ['::1']",
            &["site.toml:5:10: 'allow': \"10.0.0.1/8\" has bits set beyond the first 8; \
                 write \"10.0.0.0/8\", or \"10.0.0.1\" for the one address"],
        ),
        (
            "[[site.route]]\nallow = ['10.0.0.0/8']\ndeny = ['10.0.0.0/8']",
            &["site.toml:6:8: 'deny': 10.0.0.0/8 is also in 'allow'"],
        ),
        ("allow = ['::1']\ndeny = ['::1']", &["site.toml:5:8: 'deny': ::1 is also in 'allow'"]),
        (
            "[site.basic_authentication]\nrealm = 'x'",
            &["site.toml:4:1: [site.basic_authentication] needs 'file', such as file = \"users.htpasswd\""],
        ),
        (
            "[proxies]\nproxy_protocol = ['127.0.0.1:80', '127.0.0.1:81']",
            &[
                "site.toml:5:18: 'proxy_protocol' has no effect without 'trusted', \
                 the addresses of the proxies",
                "site.toml:5:35: 'proxy_protocol': no [[site]] listens on 127.0.0.1:81",
            ],
        ),
    ] {
        assert_eq!(problems_of(lines), expected, "{lines}");
    }
}

#[test]
fn missing_files_of_routes_are_reported_with_their_place() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("www")).unwrap();
    std::fs::write(directory.path().join("users"), "alice:plain\n").unwrap();
    let path = directory.path().join("site.toml");
    let text = "[[site]]\nlisten = ['127.0.0.1:0']\nroot = 'www'\nbasic_authentication = { file = 'users' }\n\
                [[site.route]]\nroot = 'none'\n\
                [[site.route]]\n[site.route.basic_authentication]\nfile = 'none'\n";
    std::fs::write(&path, text).unwrap();
    let loaded = touchstone_config::load_file(&path).unwrap();
    let problems = crate::machine::check_machine(&loaded.config, &loaded.places);
    let shown = format!("{}/", directory.path().display());
    let problems: Vec<String> =
        problems.iter().map(|problem| problem.to_string().replace(&shown, "")).collect();
    assert_eq!(
        problems,
        [
            "site.toml:4:33: password file 'users': line 1: \
             user \"alice\" has a password that is plain text; make it again with 'htpasswd -B' (bcrypt)",
            "site.toml:6:8: root 'none' does not exist; create it, or name another one (relative to the \
             directory of the configuration file)",
            "site.toml:9:8: password file 'none': cannot be read: No such file or directory (os error 2)",
        ]
    );
}

#[test]
fn an_error_names_its_route() {
    let good = config("[[site.route]]\npath = '/a'\n").sites[0].routes[0].clone();
    let bad = RouteConfig { path: "b".to_string(), ..good.clone() };
    let problem = Routes::compile(&[good, bad]).err().unwrap();
    assert_eq!((problem.route, problem.key), (1, "path"));
    assert_eq!(problem.to_string(), "route 2: 'path': \"b\" does not begin with '/'");
}

/// The result of `find`, by comparison with every route.
fn plain(routes: &Routes, request: &RequestView<'_>) -> Option<usize> {
    routes.iter().find(|route| route.matches(request)).map(|route| route.index)
}

proptest! {
    #[test]
    fn the_lookup_is_the_first_that_matches(
        texts in prop::collection::vec(("(/[ab]{1,2}){0,3}/?\\*{0,2}", any::<bool>(), any::<bool>()), 0..12),
        paths in prop::collection::vec("(/[ab]{1,2}){1,4}/?", 1..12),
    ) {
        let configs: Vec<RouteConfig> = texts
            .iter()
            .map(|(path, suffix, post)| RouteConfig {
                path: if path.starts_with('*') { String::new() } else { path.clone() },
                suffixes: if *suffix { vec!["a".to_string(), "/".to_string()] } else { Vec::new() },
                methods: if *post { vec!["POST".to_string()] } else { Vec::new() },
                ..RouteConfig::default()
            })
            .collect();
        let routes = Routes::compile(&configs).unwrap();
        for path in &paths {
            for method in [&b"GET"[..], b"POST"] {
                let request = RequestView { method, ..RequestView::example(path) };
                let found = routes.find(&request).map(|route| route.index);
                prop_assert_eq!(found, plain(&routes, &request), "{}", path);
            }
        }
    }

    /// Every path has an outcome, and a harmless one.
    #[test]
    fn every_path_has_an_outcome(path in prop::collection::vec(any::<u8>(), 0..30), query: Option<Vec<u8>>) {
        let rules = rules(
            "[[site.route]]\npath = '/r/'\nredirect = { to = '/$1' }\n\
             [[site.route]]\npattern = '/s(.*)'\nredirect = { to = 'https://$host/$1?x=$1' }\n\
             [[site.route]]\npath = '/w/'\nrewrite = { to = '/$1/r/$1' }\n\
             [[site.route]]\npattern = '(.*)/t(.*)'\nrewrite = { to = '/$2$1' }\n",
        );
        for begin in ["/r/", "/s", "/w/", "/t", "/"] {
            let path = [begin.as_bytes(), &path].concat();
            let mut normal = Vec::new();
            if normalise_path(&path, &mut normal).is_err() {
                continue;
            }
            let request = RequestView { path: &normal, query: query.as_deref(), ..RequestView::example("/") };
            let resolved = rules.resolve(&request);
            if let Some(new) = &resolved.rewritten {
                let mut again = Vec::new();
                prop_assert_eq!(normalise_path(&new.encoded_path, &mut again), Ok(()));
                prop_assert_eq!(&again, &new.path);
            }
            if let Outcome::Redirect { location, .. } = &resolved.outcome {
                prop_assert!(location.iter().all(u8::is_ascii_graphic));
                let here = location.starts_with(b"/") && !location.starts_with(b"//");
                prop_assert!(here || location.starts_with(b"https://example.org/"), "{:?}", location);
            }
        }
    }
}

/// All cores share the rules.
#[test]
fn rules_can_be_shared() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<SiteRules>();
    is_shared::<Arc<touchstone_access::ConnectionGate>>();
    fn can_be_sent<T: Send>() {}
    can_be_sent::<touchstone_access::PendingCheck>();
}
