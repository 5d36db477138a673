//! Pages of parts (Edge Side Includes): each part is cached by its own rules, all are fetched side by side,
//! and what is composed is stored nowhere. No text of a request becomes a part.

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::accelerator::origin::{Asked, Origin, answer};
use crate::accelerator::{FRESH, get, text};
use crate::support::{Response, Server, Tree, wait_until};

const ESI: &str = "Surrogate-Control: content=\"ESI/1.0\"\r\nContent-Type: text/html\r\n";

/// A server whose routes below `/app/` compose pages.
fn server(origin: &Origin, tree: &Tree, esi: &str) -> Server {
    let root = tree.root();
    Server::configured(
        tree.around(),
        &format!(
            "[server]\ncores = 2\n[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = {root:?}\n\
             [[site.route]]\npath = \"/app/\"\nproxy = {{ to = \"http://{}\" }}\n{esi}\n\
             [[site.route]]\npath = \"/other/\"\nproxy = {{ to = \"http://{}\" }}\n",
            origin.address, origin.address
        ),
    )
}

const CACHE: &str = "cache = { esi = \"origin\" }";

/// What a test opens to let an answer go.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn wait(&self) {
        let (is_open, opened) = &*self.0;
        let _open = opened.wait_while(is_open.lock().unwrap(), |is_open| !*is_open).unwrap();
    }

    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

#[test]
fn a_page_of_twelve_parts_of_which_one_is_slow_and_one_fails() {
    let gate = Gate::default();
    let waits = gate.clone();
    let origin = Origin::start(move |asked, stream| match asked.target.as_str() {
        "/app/page" => {
            let mut page = String::from("begin ");
            for part in 0..12 {
                write!(page, "<esi:include src=\"/app/part/{part}\"/>").unwrap();
            }
            answer(stream, 200, &format!("{ESI}{FRESH}ETag: \"p\"\r\n"), &(page + " end"));
        }
        "/app/part/3" => {
            waits.wait();
            answer(stream, 200, FRESH, "[3]");
        }
        "/app/part/7" => answer(stream, 500, "", "failed"),
        "/app/part/8" => answer(stream, 200, "Cache-Control: no-store\r\n", &format!("[8 {}]", asked.count)),
        target => answer(stream, 200, FRESH, &format!("[{}]", target.rsplit('/').next().unwrap())),
    });
    let tree = Tree::empty();
    let server = server(&origin, &tree, CACHE);
    let mut client = server.connect();
    client.send("GET /app/page HTTP/1.1\r\nHost: a\r\n\r\n");
    // All parts are requested while the slow one is awaited, and the text before it has arrived.
    wait_until("all parts are asked for", Duration::from_secs(60), || {
        (0..12).all(|part| origin.count(&format!("/app/part/{part}")) == 1)
    });
    let mut came = Vec::new();
    while !String::from_utf8_lossy(&came).contains("[2]") {
        let mut bytes = [0; 4096];
        let count = client.stream().read(&mut bytes).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&came));
        came.extend_from_slice(&bytes[..count]);
    }
    let head = String::from_utf8_lossy(&came).to_ascii_lowercase();
    assert!(head.contains("cache-control: private, no-cache\r\n"), "{head}");
    for gone in ["etag:", "surrogate-control:", "max-age", "content-length:", "esi:include"] {
        assert!(!head.contains(gone), "{gone}: {head}");
    }
    gate.open();
    let page = |count| format!("begin [0][1][2][3][4][5][6][8 {count}][9][10][11] end");
    while !String::from_utf8_lossy(&came).contains(" end") {
        let mut bytes = [0; 4096];
        let count = client.stream().read(&mut bytes).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&came));
        came.extend_from_slice(&bytes[..count]);
    }
    // Each by its own rules: parts that may not be stored or that failed are requested again, the page is
    // not.
    for round in 2..5 {
        let again = get(&server, "/app/page", "");
        assert_eq!((again.status, text(&again)), (200, page(round)));
    }
    assert_eq!(
        [origin.count("/app/page"), origin.count("/app/part/0"), origin.count("/app/part/8")],
        [1, 1, 4]
    );
    server.wait_for_error_line("names the part", |line| {
        line.contains("/app/page is without /app/part/7: it answered 50")
    });
    // A condition about the page before it was composed is no reason to answer 304.
    let conditional = get(&server, "/app/page", "If-None-Match: \"p\"\r\n");
    assert_eq!((conditional.status, text(&conditional)), (200, page(5)));
    let part = get(&server, "/app/page", "Range: bytes=0-3\r\nAccept-Encoding: identity\r\n");
    assert_eq!((part.status, text(&part)), (200, page(6)));
    let compressed = get(&server, "/app/page", "Accept-Encoding: gzip\r\n");
    assert_eq!(plain(&compressed), page(7));
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// The text of an answer, which may be compressed.
fn plain(answer: &Response) -> String {
    if answer.field("content-encoding") != Some("gzip") {
        return text(answer);
    }
    let mut plain = String::new();
    flate2::read::GzDecoder::new(&answer.body[..]).read_to_string(&mut plain).unwrap();
    plain
}

#[test]
fn what_is_one_visitors_own_is_given_to_no_other() {
    let origin = Origin::start(|asked, stream| match asked.target.as_str() {
        "/app/page" => answer(stream, 200, &format!("{ESI}{FRESH}"), "for <esi:include src=\"/app/who\"/>!"),
        _ => answer(
            stream,
            200,
            "Cache-Control: private, max-age=60\r\n",
            asked.field("cookie").unwrap_or("no one"),
        ),
    });
    let tree = Tree::empty();
    let server = server(&origin, &tree, CACHE);
    for visitor in ["ann", "bob", "ann"] {
        let page = get(&server, "/app/page", &format!("Cookie: {visitor}\r\n"));
        assert_eq!(text(&page), format!("for {visitor}!"));
    }
    assert_eq!(text(&get(&server, "/app/page", "")), "for no one!");
    assert_eq!((origin.count("/app/page"), origin.count("/app/who")), (1, 4));
}

#[test]
fn an_answer_to_a_cookie_is_shared_only_where_it_says_so() {
    let origin = Origin::start(|asked, stream| {
        let who = asked.field("cookie").unwrap_or("no one").to_string();
        let fields = match asked.target.as_str() {
            "/app/page" => {
                let include = |name: &str| format!("<esi:include src=\"/app/{name}\"/> ");
                let page = ["who", "vary", "sets", "all"].map(include).concat();
                return answer(stream, 200, &format!("{ESI}Cache-Control: public, max-age=60\r\n"), &page);
            }
            // It does not state that it is private to one visitor.
            "/app/who" => "Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n",
            "/app/vary" => "Cache-Control: max-age=60\r\nVary: Cookie\r\n",
            "/app/sets" => "Cache-Control: max-age=60\r\nSet-Cookie: a=b\r\n",
            _ => return answer(stream, 200, "Cache-Control: public, max-age=60\r\n", "all"),
        };
        answer(stream, 200, fields, &who);
    });
    let tree = Tree::empty();
    let server = server(&origin, &tree, CACHE);
    for _ in 0..2 {
        for visitor in ["ann", "bob"] {
            let page = get(&server, "/app/page", &format!("Cookie: {visitor}\r\n"));
            assert_eq!(text(&page), format!("{visitor} {visitor} {visitor} all "));
            assert_eq!(page.field("set-cookie"), None);
        }
        assert_eq!(text(&get(&server, "/app/page", "")), "no one no one no one all ");
    }
    assert_eq!([origin.count("/app/page"), origin.count("/app/all")], [1, 1]);
}

#[test]
fn a_page_is_asked_for_in_a_form_of_which_it_can_be_composed() {
    let origin = Origin::start(|asked, stream| {
        // It compresses all, as far as it may.
        let coded = asked.field("accept-encoding").is_some_and(|accepted| accepted.contains("gzip"));
        let (kind, body) = match asked.target.as_str() {
            "/app/page" => (ESI, "page <esi:include src=\"/app/part\"/>"),
            "/app/part" => ("", "part"),
            _ => ("Content-Type: text/javascript\r\n", "script"),
        };
        let (fields, body) = match coded {
            true => (format!("{kind}Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n"), gzip(body)),
            false => (format!("{kind}Vary: Accept-Encoding\r\n"), body.as_bytes().to_vec()),
        };
        write!(stream, "HTTP/1.1 200 OK\r\n{fields}Cache-Control: no-store\r\n").unwrap();
        write!(stream, "Content-Length: {}\r\n\r\n", body.len()).unwrap();
        stream.write_all(&body).unwrap();
    });
    let tree = Tree::empty();
    let server = server(&origin, &tree, CACHE);
    let accept = "Accept-Encoding: gzip\r\n";
    for _ in 0..20 {
        assert_eq!(plain(&get(&server, "/app/page", accept)), "page part");
    }
    // At the first request a core does not know yet that it is a page.
    let asked = origin.count("/app/page");
    assert!((21..=22).contains(&asked), "{asked}");
    let posted = server
        .connect()
        .ask(format!("POST /app/page HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n{accept}\r\n"));
    assert_eq!((posted.status, plain(&posted)), (200, "page part".to_string()));
    assert_eq!(origin.count("/app/page"), asked + 1);
    // An answer that is not a page is not changed.
    let script = get(&server, "/app/script", accept);
    assert_eq!((script.field("content-encoding"), &script.body[..]), (Some("gzip"), &gzip("script")[..]));
    assert_eq!(origin.count("/app/script"), 1);
}

#[test]
fn where_a_part_fails_another_stands_for_it() {
    let origin = Origin::start(|asked, stream| match asked.target.as_str() {
        "/app/page" => answer(
            stream,
            200,
            &format!("{ESI}{FRESH}"),
            "1<esi:include src=\"/app/bad\" alt=\"/app/good\"/>\
             2<esi:include src=\"/app/bad\" onerror=\"continue\"/>\
             3<esi:try><esi:attempt>a<esi:include src=\"/app/bad\"/></esi:attempt>\
             <esi:except>b<esi:include src=\"/app/good\"/></esi:except></esi:try>\
             4<esi:try><esi:attempt>c<esi:include src=\"/app/good\"/></esi:attempt>\
             <esi:except>d</esi:except></esi:try>\
             5<esi:remove>gone</esi:remove><esi:comment text=\"gone\"/><!--esi shown-->",
        ),
        "/app/good" => answer(stream, 200, FRESH, "[good]"),
        "/app/redirect" => answer(stream, 302, "Location: /app/good\r\n", ""),
        _ => answer(stream, 404, "", "[bad]"),
    });
    let tree = Tree::empty();
    let server = server(&origin, &tree, CACHE);
    let page = get(&server, "/app/page", "");
    assert_eq!(text(&page), "1[good]23b[good]4c[good]5 shown");
}

/// The origin inserts the query into its page, unescaped.
fn reflecting(is_page: bool) -> Origin {
    Origin::start(move |asked, stream| {
        let decoded = |text: &str| {
            text.replace("%3C", "<").replace("%3E", ">").replace("%22", "\"").replace("%20", " ")
        };
        let fields = if is_page { ESI } else { "Content-Type: text/html\r\n" };
        match asked.target.split_once('?') {
            Some((_, query)) => answer(stream, 200, fields, &format!("you said {}", decoded(query))),
            None => answer(stream, 200, "", &format!("secret of {}", asked.target)),
        }
    })
}

#[test]
fn text_of_a_request_leads_nowhere_that_its_visitor_cannot_go() {
    let elsewhere_was_asked = Arc::new(AtomicBool::new(false));
    let noted = elsewhere_was_asked.clone();
    let elsewhere = Origin::start(move |_: &Asked, stream| {
        noted.store(true, Ordering::SeqCst);
        answer(stream, 200, "", "elsewhere");
    });
    // A page whose origin does not announce parts has none.
    let (plain, tree) = (reflecting(false), Tree::empty());
    let server_of_plain = server(&plain, &tree, CACHE);
    let said = "%3Cesi:include%20src=%22/app/other%22/%3E";
    let page = get(&server_of_plain, &format!("/app/page?{said}"), "");
    assert_eq!(text(&page), "you said <esi:include src=\"/app/other\"/>");
    assert_eq!(plain.count("/app/other"), 0);
    // Of one that does, none is at another origin, at another route or above the route.
    let (page, tree) = (reflecting(true), Tree::empty());
    let server = server(&page, &tree, CACHE);
    for target in [
        format!("http://{}/x", elsewhere.address),
        format!("//{}/x", elsewhere.address),
        "/other/x".to_string(),
        "/app/../other/x".to_string(),
        "/app/%2e%2e/other/x".to_string(),
        "/x".to_string(),
        "file:///etc/passwd".to_string(),
        String::new(),
    ] {
        let said = format!("%3Cesi:include%20src=%22{target}%22/%3E");
        let got = get(&server, &format!("/app/page?{said}"), "");
        assert_eq!((got.status, text(&got)), (200, "you said ".to_string()), "{target}");
    }
    assert!(!elsewhere_was_asked.load(Ordering::SeqCst));
    assert_eq!([page.count("/other/x"), page.count("/x")], [0, 0]);
}

#[test]
fn limits_hold_and_wrong_pages_are_said_to_be_wrong() {
    let origin = Origin::start(|asked, stream| {
        let include = |count: usize| "<esi:include src=\"/app/part\"/>".repeat(count);
        match asked.target.as_str() {
            "/app/most" => answer(stream, 200, ESI, &include(128)),
            "/app/more" => answer(stream, 200, ESI, &include(129)),
            "/app/wrong" => answer(stream, 200, ESI, "a<esi:include src=/x>"),
            "/app/self" => answer(stream, 200, ESI, "(<esi:include src=\"/app/self\"/>)"),
            "/app/long" => answer(stream, 200, ESI, &"x".repeat((4 << 20) + 1)),
            _ => answer(stream, 200, FRESH, "."),
        }
    });
    let tree = Tree::empty();
    let server = server(&origin, &tree, CACHE);
    let got = |target: &str| {
        let got = get(&server, target, "");
        (got.status, text(&got))
    };
    assert_eq!(got("/app/most"), (200, ".".repeat(128)));
    assert_eq!([got("/app/more").0, got("/app/wrong").0, got("/app/long").0], [502; 3]);
    // A page in itself ends at a depth.
    assert_eq!(got("/app/self"), (200, "((()))".to_string()));
    server.wait_for_error_line("names the page", |line| {
        line.contains("/app/more: there are more includes than a page may have")
    });
}

#[test]
fn without_the_key_a_page_is_what_its_origin_sent() {
    let origin = Origin::start(|asked, stream| {
        let announced = asked.field("surrogate-capability").unwrap_or_default().to_string();
        match asked.target.as_str() {
            "/app/html" => {
                answer(stream, 200, "Content-Type: text/html\r\n", "<esi:include src=\"/app/x\"/>")
            }
            "/app/x" => answer(stream, 200, "", "part"),
            _ => answer(stream, 200, ESI, &format!("<esi:comment text=\"x\"/>{announced}")),
        }
    });
    for (cache, page, html, announced) in [
        (
            "cache = {}",
            "<esi:comment text=\"x\"/>",
            "<esi:include src=\"/app/x\"/>",
            "touchstone=\"Surrogate/1.0\"",
        ),
        (CACHE, "", "<esi:include src=\"/app/x\"/>", "touchstone=\"Surrogate/1.0 ESI/1.0\""),
        ("cache = { esi = \"html\" }", "", "part", "touchstone=\"Surrogate/1.0 ESI/1.0\""),
    ] {
        let tree = Tree::empty();
        let server = server(&origin, &tree, cache);
        assert_eq!(text(&get(&server, "/app/page", "")), format!("{page}{announced}"), "{cache}");
        assert_eq!(text(&get(&server, "/app/html", "")), html, "{cache}");
    }
}
