//! The language of conditions and texts from the outside: conditions of routes, fields of answers and of
//! requests to origins, redirects and rewrites, maps and their files, keys of the cache, lines of logs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::Signal;

use crate::support::{Client, Nginx, Origin, Response, Server, Tree, curl, read_head, run, wait_until};

fn get(server: &Server, target: &str, fields: &str) -> Response {
    let request =
        format!("GET {target} HTTP/1.1\r\nHost: www.example.org\r\n{fields}Connection: close\r\n\r\n");
    server.connect().ask(request)
}

fn text(answer: &Response) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

/// A server with these sections before its site, and these keys and routes in it.
fn server(tree: &Tree, sections: &str, keys: &str) -> Server {
    Server::configured(tree.around(), &format!("{}{keys}", tree.configuration(sections)))
}

/// An origin whose answers may be kept. Each has the number of the request, and the fields that it has got.
fn application() -> Origin {
    let count = Arc::new(AtomicU32::new(0));
    Origin::start(move |stream| {
        while let Some(head) = read_head(stream) {
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            let mut fields: Vec<&str> = head.lines().filter(|line| line.starts_with("X-To-")).collect();
            fields.sort_unstable();
            let body = format!("{number} {}", fields.join("|"));
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {length}\r\n\r\n{body}"
            );
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    })
}

#[test]
fn conditions_of_routes() {
    let tree = Tree::standard();
    let server = server(
        &tree,
        "",
        "[[site.route]]\nwhen = '$cookie{beta} == \"1\" and $method != \"POST\"'\n\
         respond = { body = 'beta' }\n\
         [[site.route]]\npath = '/secure/'\nwhen = '$scheme == \"https\"'\nrespond = { body = 'secure' }\n\
         [[site.route]]\nwhen = '$header{user-agent} =~ \"(?i)bot\" or $arg{deny}'\n\
         respond = { status = 403 }\n",
    );
    assert_eq!(text(&get(&server, "/", "Cookie: a=2; beta=1\r\n")), "beta");
    assert_eq!(get(&server, "/alphabet.txt", "Cookie: beta=2\r\n").body, tree_file(&tree, "alphabet.txt"));
    assert_eq!(get(&server, "/alphabet.txt", "User-Agent: a RoBot\r\n").status, 403);
    assert_eq!(get(&server, "/alphabet.txt?deny=1", "").status, 403);
    assert_eq!(get(&server, "/alphabet.txt?deny=0", "").status, 200);
    assert_eq!(get(&server, "/secure/x", "").status, 404);
    // The file is in the cache of files now, and the conditions count as before.
    for _ in 0..3 {
        assert_eq!(get(&server, "/alphabet.txt", "").status, 200);
        assert_eq!(get(&server, "/alphabet.txt?deny=1", "").status, 403);
    }
}

fn tree_file(tree: &Tree, name: &str) -> Vec<u8> {
    fs::read(tree.file(name)).unwrap()
}

#[test]
fn fields_of_answers_have_values_of_their_requests() {
    let tree = Tree::standard();
    let server = server(
        &tree,
        "[request_id]\nanswer = true\n",
        "headers = { X-Client = '$client $scheme $protocol', X-Price = '5$$', X-Id = '$request_id' }\n\
         [[site.route]]\npattern = '/item/(?<number>[0-9]+)'\nrespond = { body = 'x' }\n\
         headers = { X-Item = '$number-$1', X-Arg = '$arg{a}', X-Status = '$status' }\n",
    );
    let answer = get(&server, "/alphabet.txt", "");
    assert_eq!(answer.field("x-client"), Some("127.0.0.1 http HTTP/1.1"));
    assert_eq!(answer.field("x-price"), Some("5$"));
    assert!(answer.field("x-id").is_some() && answer.field("x-id") == answer.field("x-request-id"));
    // A file that is in the cache has the values of each request.
    let again = get(&server, "/alphabet.txt", "");
    assert_ne!(again.field("x-id"), answer.field("x-id"));
    let answer = get(&server, "/item/12?a=%0d%0aX-Evil:1", "");
    assert_eq!(answer.field("x-item"), Some("12-12"));
    assert_eq!((answer.field("x-arg"), answer.field("x-status")), (Some("%0d%0aX-Evil:1"), Some("200")));
    // A field without a value is left out, and an error has those of the site.
    assert_eq!(get(&server, "/item/12", "").field("x-arg"), None);
    assert_eq!(get(&server, "/none", "").field("x-client"), Some("127.0.0.1 http HTTP/1.1"));
    // The path is decoded: its line end must not end the field.
    let answer = get(&server, "/a%0d%0aX-Evil:%201", "");
    assert_eq!(answer.field("x-evil"), None);
}

#[test]
fn a_preflight_has_the_fields_of_the_site() {
    let tree = Tree::standard();
    let keys = "headers = { X-Client = '$client' }\n\
                cors = { origins = ['https://a.example'], methods = ['PUT'] }\n";
    let server = server(&tree, "", keys);
    let request = "OPTIONS /alphabet.txt HTTP/1.1\r\nHost: www.example.org\r\nOrigin: https://a.example\r\n\
                   Access-Control-Request-Method: PUT\r\nConnection: close\r\n\r\n";
    let answer = server.connect().ask(request);
    assert_eq!(answer.field("access-control-allow-origin"), Some("https://a.example"));
    assert_eq!(answer.field("x-client"), Some("127.0.0.1"));
}

#[test]
fn redirects_and_rewrites_with_maps() {
    let tree = Tree::standard();
    let server = server(
        &tree,
        "[[map]]\nname = 'new'\nfrom = '$path'\n\
         values = { '/shop' = 'https://shop.example.org/?from=old', '/docs' = '/dir/' }\n\
         patterns = ['~^/people/([a-z]+)$ /who?name=$1', '~^/evil/(.*)$ https://example.org$1']\n\
         [[map]]\nname = 'language'\nfrom = '$header{accept-language}'\ndefault = 'en'\n\
         patterns = ['~*^de de', '~*^fr fr']\n",
        "[[site.route]]\nwhen = '$map{new}'\nredirect = { to = '$map{new}', status = 301 }\n\
         [[site.route]]\npath = '/start'\nrewrite = { to = '/$map{language}.txt' }\n\
         [[site.route]]\npath = '/login'\n\
         redirect = { to = '/in?back=$path&lang=$map{language}&ip=$client' }\n",
    );
    tree.write("de.txt", "hallo");
    tree.write("en.txt", "hello");
    let location = |target: &str| get(&server, target, "").field("location").map(str::to_string);
    assert_eq!(location("/shop").as_deref(), Some("https://shop.example.org/?from=old"));
    assert_eq!(location("/docs?a=b").as_deref(), Some("/dir/?a=b"));
    assert_eq!(location("/people/ann").as_deref(), Some("/who?name=ann"));
    assert_eq!(location("/login").as_deref(), Some("/in?back=/login&lang=en&ip=127.0.0.1"));
    // A value of the request does not become a part of the name of the server.
    let answer = get(&server, "/evil/.example.com/", "");
    assert_eq!((answer.status, answer.field("location")), (400, None));
    assert_eq!(text(&get(&server, "/start", "Accept-Language: de-AT,de;q=0.9\r\n")), "hallo");
    assert_eq!(text(&get(&server, "/start", "")), "hello");
}

#[test]
fn a_file_of_a_map_is_read_again() {
    let tree = Tree::standard();
    fs::write(tree.beside("hosts.map"), "# hosts\nwww.example.org one;\n*.example.net two\n").unwrap();
    let mut server = server(
        &tree,
        "[[map]]\nname = 'site'\nfrom = '$host'\ndefault = 'none'\nfile = 'hosts.map'\n",
        "headers = { X-Site = '$map{site}' }\n",
    );
    assert_eq!(get(&server, "/", "").field("x-site"), Some("one"));
    let other = server.connect().ask("GET / HTTP/1.1\r\nHost: a.example.net\r\nConnection: close\r\n\r\n");
    assert_eq!(other.field("x-site"), Some("two"));
    // An invalid one is reported with its line, and the former one is kept.
    fs::write(tree.beside("hosts.map"), "www.example.org one\nwww.example.org\n").unwrap();
    let checked = run(["check", "--config", tree.beside("touchstone.toml").to_str().unwrap()]);
    let said =
        String::from_utf8_lossy(&checked.stderr).into_owned() + &String::from_utf8_lossy(&checked.stdout);
    assert!(
        !checked.status.success() && said.contains("hosts.map: line 2: has a key without a value"),
        "{said}"
    );
    server.signal(Signal::HUP);
    server.wait_for_error_line("the refused reload", |line| line.contains("hosts.map: line 2"));
    assert_eq!(get(&server, "/", "").field("x-site"), Some("one"));
    fs::write(tree.beside("hosts.map"), "www.example.org three\n").unwrap();
    server.signal(Signal::HUP);
    wait_until("the new map", Duration::from_secs(60), || {
        get(&server, "/", "").field("x-site") == Some("three")
    });
    server.stop();
}

#[test]
fn what_an_origin_is_told_of_one_visitor_is_not_shared() {
    let tree = Tree::standard();
    let origin = application();
    let server = server(
        &tree,
        "[[map]]\nname = 'plan'\nfrom = '$cookie{plan}'\ndefault = 'free'\nvalues = { gold = 'paid' }\n",
        &format!(
            "{}cache = {{ ignore_cookies = true, key = '$arg{{none}}$map{{plan}}', \
             bypass = '$arg{{fresh}}', no_store = '$header{{x-draft}}' }}\n\
             headers = {{ X-Visitor = '$cookie{{name}}' }}\n",
            origin.keys(
                ", forward = { set = { X-To-Path = '$path', X-To-Name = '$cookie{name}', \
                 X-To-None = '$cookie{none}' } }"
            )
        ),
    );
    let ask = |target: &str, fields: &str| get(&server, target, fields);
    let ann = "Cookie: name=ann\r\n";
    assert_eq!(text(&ask("/app/a", ann)), "1 X-To-Name: ann|X-To-Path: /app/a");
    // The same visitor gets what is stored, and another does not.
    let again = ask("/app/a", ann);
    assert_eq!(text(&again), "1 X-To-Name: ann|X-To-Path: /app/a");
    assert!(again.field("cache-status").unwrap().contains("hit"), "{:?}", again.field("cache-status"));
    assert_eq!(again.field("x-visitor"), Some("ann"));
    let bob = ask("/app/a", "Cookie: name=bob\r\n");
    assert_eq!(
        (text(&bob).as_str(), bob.field("x-visitor")),
        ("2 X-To-Name: bob|X-To-Path: /app/a", Some("bob"))
    );
    assert_eq!(text(&ask("/app/a", "")), "3 X-To-Path: /app/a");
    // A map is a part of the key.
    assert_eq!(text(&ask("/app/a", "Cookie: plan=gold\r\n")), "4 X-To-Path: /app/a");
    assert_eq!(text(&ask("/app/a", "Cookie: plan=silver\r\n")), "3 X-To-Path: /app/a");
    // A request that bypasses the cache neither reads nor stores a response.
    assert!(text(&ask("/app/a?fresh=1", "")).starts_with("5 "));
    assert!(text(&ask("/app/a?fresh=1", "")).starts_with("6 "));
    assert!(text(&ask("/app/b", "X-Draft: 1\r\n")).starts_with("7 "));
    assert!(text(&ask("/app/b", "")).starts_with("8 "));
    assert!(text(&ask("/app/b", "X-Draft: 1\r\n")).starts_with("8 "));
    // An unsafe request makes all keys of the URL stale.
    let post =
        "POST /app/a HTTP/1.1\r\nHost: www.example.org\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    assert_eq!(server.connect().ask(post).status, 200);
    assert!(text(&ask("/app/a", ann)).starts_with("10 "));
    assert!(text(&ask("/app/a", "")).starts_with("11 "));
}

#[test]
fn variables_of_tls() {
    let tree = Tree::standard();
    let server = server(
        &tree,
        "",
        "development_certificate = true\nheaders = { X-Tls = '$tls_version $tls_server_name$tls_verified' }\n\
         [[site.route]]\npath = '/old'\nwhen = '$tls_version == \"TLSv1.2\"'\nrespond = { status = 426 }\n",
    );
    let port = server.address().port();
    let ask = |path: &str, version: &str| {
        let resolve = format!("localhost:{port}:127.0.0.1");
        let url = format!("https://localhost:{port}{path}");
        let arguments =
            ["--insecure", "--silent", "--include", "--resolve", &resolve, version, "--tls-max", "1.3", &url];
        curl(arguments).map(|output| String::from_utf8_lossy(&output.stdout).to_ascii_lowercase())
    };
    let Some(answer) = ask("/alphabet.txt", "--tlsv1.3") else { return };
    assert!(answer.contains("x-tls: tlsv1.3 localhost\r\n"), "{answer}");
    assert!(ask("/old", "--tlsv1.3").unwrap().contains(" 404"));
}

#[test]
fn logs_have_maps_and_every_variable() {
    let tree = Tree::standard();
    let mut server = server(
        &tree,
        "[[map]]\nname = 'loggable'\nfrom = '$status'\ndefault = '1'\npatterns = ['~^[23] 0']\n\
         [[map]]\nname = 'kind'\nfrom = '$path'\ndefault = 'other page'\nvalues = { '/none' = 'missing' }\n\
         [access_log]\npath = 'access.log'\nwhen = '$map{loggable}'\n\
         format = '$method $map{kind} $cookie{id} $arg{a} ${status} $scheme'\n",
        "",
    );
    assert_eq!(get(&server, "/alphabet.txt", "").status, 200);
    assert_eq!(get(&server, "/none?a=%22b", "Cookie: id=\"7\"\r\n").status, 404);
    assert_eq!(get(&server, "/none2", "").status, 404);
    server.stop();
    let log = fs::read_to_string(tree.beside("access.log")).unwrap();
    // The cores write their lines separately.
    let mut lines: Vec<&str> = log.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["GET missing \\\"7\\\" %22b 404 http", "GET other page - - 404 http"]);
}

/// The same maps, conditions and fields in nginx, and here what the import makes of them.
#[test]
fn as_nginx_does() {
    let tree = Tree::standard();
    tree.write("page.html", "page");
    let http = "map $arg_to $new { default ''; /a /b; ~^/u/(?<who>[a-z]+)$ /user?name=$who; }\n\
                map $http_host $shop { hostnames; default web; .example.org wiki; shop.* shop; }\n\
                map $request_method$http_x_test $allowed { default 0; GET 1; ~^GET[0-9] 2; }";
    let root = tree.root();
    let site = format!(
        "server_name www.example.org; root {};\n\
         add_header X-Shop \"$shop at $host\" always; add_header X-Empty $arg_none always;\n\
         if ($new) {{ return 301 $new; }}\n\
         if ($http_user_agent ~* (bot|crawl)) {{ return 403; }}\n\
         if ($allowed = 0) {{ return 405; }}\n\
         location /id/ {{ if ($cookie_id = \"\") {{ return 302 /login?from=$uri; }} return 200 ok; }}",
        root.display()
    );
    let Some(nginx) = Nginx::start_with(&tree, http, "", &site) else { return };
    let imported = run(["import", "nginx", tree.around().join("nginx.conf").to_str().unwrap()]);
    let translated = String::from_utf8_lossy(&imported.stdout).into_owned();
    let log = tree.around().join("nginx.log");
    let here = translated
        .replace(&nginx.address.to_string(), "127.0.0.1:0")
        .replace(log.to_str().unwrap(), "stderr");
    assert!(!translated.contains("NOT TRANSLATED"), "{translated}");
    let ours = Server::configured(tree.around(), &here);
    let ask = |address, target: &str, fields: &str| {
        let request = format!("GET {target} HTTP/1.1\r\n{fields}Connection: close\r\n\r\n");
        let answer = Client::connect(address).ask(request);
        let location = answer.field("location").unwrap_or_default();
        let path = location.find("://").and_then(|at| location[at + 3..].find('/').map(|end| at + 3 + end));
        let location = path.map_or(location, |path| &location[path..]).to_string();
        let field = |name: &str| answer.field(name).map(str::to_string);
        (answer.status, location, field("x-shop"), field("x-empty"))
    };
    for (target, fields) in [
        ("/page.html", "Host: www.example.org\r\n"),
        ("/page.html", "Host: shop.test\r\n"),
        ("/page.html?none=1", "Host: other.test\r\n"),
        ("/x?to=/a", "Host: www.example.org\r\n"),
        ("/x?to=/u/ann", "Host: www.example.org\r\n"),
        ("/x?to=/u/Ann", "Host: www.example.org\r\n"),
        ("/page.html", "Host: www.example.org\r\nUser-Agent: CrawlerBOT\r\n"),
        ("/page.html", "Host: www.example.org\r\nX-Test: 5\r\n"),
        ("/page.html", "Host: www.example.org\r\nX-Test: a\r\n"),
        ("/id/7", "Host: www.example.org\r\n"),
        ("/id/7", "Host: www.example.org\r\nCookie: id=1\r\n"),
    ] {
        let (mine, theirs) = (ask(ours.address(), target, fields), ask(nginx.address, target, fields));
        assert_eq!(mine, theirs, "{target} {fields:?}\n{translated}");
    }
}
