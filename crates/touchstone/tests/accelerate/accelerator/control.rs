//! What the operator controls: purging, figures, the log, and caching of answers without cache fields.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use rustix::process::Signal;

use crate::accelerator::origin::{Origin, answer};
use crate::accelerator::{FRESH, get, text};
use crate::support::{Server, Tree, curl, free_port, run, wait_until, write_program};

/// An origin whose answers are tagged with the segments of their path, and state how often they were
/// requested.
fn tagged() -> Origin {
    Origin::start(|asked, stream| {
        let tags = asked.target.trim_start_matches('/').replace('/', " ");
        answer(stream, 200, &format!("{FRESH}Surrogate-Key: {tags}\r\n"), &asked.count.to_string());
    })
}

#[test]
fn purges_by_url_prefix_tag_and_all() {
    let origin = tagged();
    let directory = Tree::empty();
    let socket = directory.beside("control.sock");
    let socket = socket.to_str().unwrap();
    let server = Server::accelerating(origin.address, &["--cores", "2", "--control", socket]);
    let bodies = || ["/x/1", "/x/2", "/y/1"].map(|target| text(&get(&server, target, "")));
    let purge = |arguments: &[&str]| {
        let output = run([&["purge", "--socket", socket], arguments].concat());
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(bodies(), ["1", "1", "1"]);
    for (arguments, purged, expected) in [
        (&["--url", "http://a/x/1"][..], 1, ["2", "1", "1"]),
        (&["--url", "http://other/x/1"], 0, ["2", "1", "1"]),
        (&["--url", "/y/1"], 1, ["2", "1", "2"]),
        (&["--prefix", "http://a/x/"], 2, ["3", "2", "2"]),
        (&["--tag", "1"], 2, ["4", "2", "3"]),
        (&["--all"], 3, ["5", "3", "4"]),
        (&["--all", "--soft"], 3, ["6", "4", "5"]),
    ] {
        let (code, said) = purge(arguments);
        assert_eq!(code, Some(0), "{arguments:?}");
        assert!(said.starts_with(&format!("{purged} stored responses ")), "{arguments:?}: {said}");
        assert_eq!(bodies(), expected, "{arguments:?}");
        assert_eq!(bodies(), expected, "{arguments:?}");
    }
    // An answer that a soft purge made stale is still served when the origin is down.
    assert_eq!(purge(&["--all", "--soft"]).0, Some(0));
    origin.set_down(true);
    assert_eq!(bodies(), ["6", "4", "5"]);
    assert_eq!(purge(&["--all"]).0, Some(0));
    assert_eq!(get(&server, "/x/1", "").status, 502);
    assert_eq!(purge(&["--url", "x"]).0, Some(2));
    assert_eq!(purge(&["--tag", "1", "--all"]).0, Some(2));
}

#[test]
fn over_http_only_who_shows_the_token_purges() {
    let origin = tagged();
    let tree = Tree::standard();
    let token = tree.beside("token");
    fs::write(&token, "a-token-of-some-length-0123456789\n").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let port = free_port();
    let sections = format!("[admin]\nlisten = \"127.0.0.1:{port}\"\ntoken_file = \"{}\"\n", token.display());
    let route = format!("[[site.route]]\nproxy = {{ to = \"http://{}\" }}\ncache = {{}}\n", origin.address);
    let server = Server::configured(tree.around(), &format!("{}{route}", tree.configuration(&sections)));
    assert_eq!(text(&get(&server, "/a", "")), "1");
    let admin = format!("127.0.0.1:{port}").parse().unwrap();
    let ask = |request: &str, fields: &str| {
        let mut client = crate::support::Client::connect(admin);
        client.ask(format!("{request} HTTP/1.1\r\nHost: 127.0.0.1\r\n{fields}\r\n"))
    };
    let bearer = "Authorization: Bearer a-token-of-some-length-0123456789\r\n";
    // Credentials that a browser would add automatically are refused.
    let basic = "Authorization: Basic OmEtdG9rZW4tb2Ytc29tZS1sZW5ndGgtMDEyMzQ1Njc4OQ==\r\n";
    let purge = "POST /cache/purge?url=http%3A%2F%2Fa%2Fa";
    assert_eq!(ask(purge, "").status, 401);
    assert_eq!(ask(purge, basic).status, 403);
    assert_eq!(ask("GET /cache/purge?all=1", bearer).status, 405);
    assert_eq!(ask("POST /cache/purge?nothing=1", bearer).status, 400);
    assert_eq!(text(&get(&server, "/a", "")), "1");
    let purged = ask(purge, bearer);
    assert_eq!((purged.status, text(&purged).contains("\"purged\": 1")), (200, true));
    assert_eq!(text(&get(&server, "/a", "")), "2");
    let counted = |metrics: &str, result: &str| {
        let label = format!("result=\"{result}\"");
        let mut lines =
            metrics.lines().filter(|line| line.starts_with("touchstone_accelerator_requests_total"));
        lines.find(|line| line.contains(&label)).and_then(|line| line.rsplit(' ').next()?.parse::<u32>().ok())
    };
    // An answer is counted when it has been written: on each core for itself, in no order between them.
    let mut metrics = String::new();
    wait_until("all answers are counted", Duration::from_secs(60), || {
        metrics = text(&ask("GET /metrics", bearer));
        counted(&metrics, "miss") == Some(2) && counted(&metrics, "hit") == Some(1)
    });
    for (result, count) in [("stale", 0), ("revalidated", 0), ("bypass", 0)] {
        assert_eq!(counted(&metrics, result), Some(count), "{result}");
    }
    assert!(metrics.contains("\ntouchstone_accelerator_objects 1\n"), "{metrics}");
}

#[test]
fn programs_that_say_nothing_are_cached_where_the_route_says_so() {
    let tree = Tree::standard();
    let count = tree.beside("count");
    write_program(
        &tree.file("cgi-bin/count"),
        format!(
            "#!/bin/sh\necho x >> {0}\nprintf 'Content-Type: text/plain\\n\\n'\nwc -l < {0}\n",
            count.display()
        ),
    );
    let routes = "[[site.route]]\npath = \"/cgi-bin/\"\ncgi = {}\ncache = { default_freshness = \"10m\" }\n";
    let log = "[server]\ncores = 1\n[access_log]\npath = \"stdout\"\nformat = \"$cache $status\"\n";
    let mut server = Server::configured(tree.around(), &format!("{}{routes}", tree.configuration(log)));
    let ask = |fields: &str| text(&get(&server, "/cgi-bin/count", fields)).trim().to_string();
    assert_eq!([ask(""), ask(""), ask("")], ["1", "1", "1"]);
    assert_eq!(ask("Cache-Control: no-cache\r\n"), "2");
    // An answer to a request with a cookie is neither stored nor taken from the cache: the program did not
    // allow it.
    assert_eq!([ask("Cookie: a=b\r\n"), ask("Cookie: a=b\r\n"), ask("")], ["3", "4", "2"]);
    assert_eq!(text(&get(&server, "/alphabet.txt", "")), crate::support::ALPHABET);
    server.stop();
    assert_eq!(
        server.output_lines(),
        ["miss 200", "hit 200", "hit 200", "miss 200", "miss 200", "miss 200", "hit 200", "- 200"]
    );
}

#[test]
fn hits_over_http2_are_the_same() {
    let origin = tagged();
    let server = Server::accelerating(origin.address, &["--cores", "1"]);
    let url = format!("http://{}/a", server.address());
    for expected in ["fwd=uri-miss", "hit", "hit"] {
        let Some(output) = curl(["--http2-prior-knowledge", "--include", &url]) else { return };
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.starts_with("HTTP/2 200") && said.ends_with("\r\n\r\n1"), "{said}");
        assert!(said.contains(&format!("cache-status: touchstone; {expected}")), "{said}");
        assert_eq!(said.matches("\r\ndate: ").count(), 1, "{said}");
    }
}

#[test]
fn a_list_and_a_sitemap_warm_the_cache() {
    let origin = Origin::start(|asked, stream| {
        let body = match asked.target.as_str() {
            "/index.xml" => "<sitemapindex><sitemap><loc>http://a/map.xml</loc></sitemap></sitemapindex>",
            "/map.xml" => {
                "<urlset><url><loc>http://a/one?b=1&amp;c</loc></url><url><loc>http://a/two</loc></url></urlset>"
            }
            _ => "page",
        };
        let fields = if asked.target == "/two" { "Cache-Control: private\r\n" } else { FRESH };
        answer(stream, 200, fields, body);
    });
    let server = Server::accelerating(origin.address, &["--cores", "1"]);
    let address = server.address().to_string();
    let list = Tree::empty();
    fs::write(list.beside("list"), "# comment\n\n/three\nhttp://a/one?b=1&c\n").unwrap();
    let list = list.beside("list");
    let arguments =
        ["warm", "--server", &address, "--host", "a", "--parallel", "1", "--sitemap", "/index.xml", "--list"];
    let output = run(arguments.iter().copied().chain([list.to_str().unwrap()]));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "4 requested, 2 of them stored now, 0 failed\n");
    assert_eq!(text(&get(&server, "/one?b=1&c", "Cache-Control: only-if-cached\r\n")), "page");
    assert_eq!(text(&get(&server, "/three", "Cache-Control: only-if-cached\r\n")), "page");
    origin.set_down(true);
    let output = run(["warm", "--server", &address, "--sitemap", "/other.xml"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[test]
fn interim_responses_pass_and_the_final_one_is_stored() {
    const INTERIM: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n\
                           HTTP/1.1 103 Early Hints\r\nLink: </b.js>; rel=preload\r\n\r\n";
    let origin = Origin::start(|asked, stream| {
        use std::io::Write;
        let answer = format!("HTTP/1.1 200 OK\r\n{FRESH}Content-Length: 4\r\n\r\npage");
        if asked.target == "/apart" {
            stream.write_all(INTERIM.as_bytes()).unwrap();
            std::thread::sleep(Duration::from_millis(100));
            stream.write_all(answer.as_bytes()).unwrap();
        } else {
            stream.write_all(format!("{INTERIM}{answer}").as_bytes()).unwrap();
        }
    });
    let server = Server::accelerating(origin.address, &["--cores", "1"]);
    for target in ["/apart", "/together"] {
        let mut client = server.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        let (bytes, _) = client.read_to_end();
        let said = String::from_utf8(bytes).unwrap();
        let rest = said.strip_prefix(INTERIM).unwrap_or_else(|| panic!("{target}: {said}"));
        assert!(rest.starts_with("HTTP/1.1 200 ") && rest.ends_with("\r\n\r\npage"), "{target}: {said}");
        let hit = get(&server, target, "");
        assert_eq!((hit.status, text(&hit), origin.count(target)), (200, "page".to_string(), 1));
    }
}

#[test]
fn what_is_stored_stays_when_the_origins_of_its_route_change() {
    let (before, after) = (tagged(), tagged());
    let tree = Tree::standard();
    let text = |origins: &str, disk: &str| {
        let accelerator = format!("[server]\ncores = 1\n[accelerator]\n{disk}");
        let route = format!("[[site.route]]\npath = \"/\"\nproxy = {{ to = [{origins}] }}\ncache = {{}}\n");
        format!("{}{route}", tree.configuration(&accelerator))
    };
    let one = format!("\"http://{}\"", before.address);
    let both = format!("{one}, \"http://{}\"", after.address);
    let server = Server::configured(tree.around(), &text(&one, ""));
    assert_eq!(crate::accelerator::text(&get(&server, "/a", "")), "1");
    let disk = format!("disk = \"{}\"\n", tree.beside("disk").display());
    for (index, (origins, disk)) in
        [(both.clone(), disk), (format!("\"http://{}\"", after.address), String::new())]
            .into_iter()
            .enumerate()
    {
        fs::write(tree.beside("touchstone.toml"), text(&origins, &disk)).unwrap();
        server.signal(Signal::HUP);
        wait_until("it is read again", Duration::from_secs(60), || {
            server.error_text().matches("applied").count() == index + 1
        });
        assert_eq!(crate::accelerator::text(&get(&server, "/a", "")), "1");
    }
    assert_eq!((before.count("/a"), after.count("/a")), (1, 0));
    // The log states what a reload cannot change.
    server.wait_for_error_line("states it", |line| {
        line.contains("accelerator.disk needs a restart or an upgrade")
    });
}
