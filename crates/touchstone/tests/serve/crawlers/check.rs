//! The check: by work, by waiting, and what must not pass it.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::visitor::{Visitor, answer_to, encoded, task_of};
use crate::support::{ALPHABET, Origin, Server, Tree, read_head, run, wait_until};

const KEYS: &str = "crawlers = { challenge = \"browsers\", difficulty = 8, wait = \"1s\" }\n";

fn start(tree: &Tree, before: &str, keys: &str) -> Server {
    Server::configured(tree.around(), &format!("{before}{}{keys}", tree.configuration("")))
}

#[test]
fn a_visitor_works_once_and_is_led_back() {
    let tree = Tree::standard();
    let log = "[access_log]\npath = \"access.log\"\nformat = \"$status $handler $request\"\n";
    let mut server = start(&tree, log, KEYS);
    let mut visitor = Visitor::new(&server);
    assert_eq!(visitor.work("/alphabet.txt?a=b&c=%2F"), "/alphabet.txt?a=b&c=%2F");
    for _ in 0..2 {
        let page = visitor.get("/alphabet.txt?a=b&c=%2F");
        assert_eq!((page.status, &page.body[..]), (200, ALPHABET.as_bytes()));
        assert_eq!(page.field("set-cookie"), None);
    }
    server.stop();
    let log = fs::read_to_string(tree.beside("access.log")).unwrap();
    assert!(log.contains("303 check GET /.touchstone/check/pass HTTP/1.1"), "tasks are not logged: {log}");
}

#[test]
fn a_reader_without_scripts_waits() {
    let tree = Tree::standard();
    let server = start(&tree, "", KEYS);
    let mut visitor = Visitor::new(&server);
    let began = Instant::now();
    let page = String::from_utf8(visitor.get("/alphabet.txt").body).unwrap();
    let refresh = page.split_once("<noscript><meta http-equiv=\"refresh\" content=\"2; url=").unwrap().1;
    let way = refresh.split_once('"').unwrap().0.replace("&amp;", "&");
    let early = visitor.get(&way);
    if began.elapsed() < Duration::from_millis(900) {
        assert_eq!(early.status, 403, "{early:?}");
        let text = String::from_utf8(early.body).unwrap();
        assert!(text.contains(&way.replace('&', "&amp;")), "the same task, so that no time is lost: {text}");
    }
    let passed = || {
        let answer = visitor.get(&way);
        let is_passed = answer.status == 303;
        assert!(!is_passed || answer.field("location") == Some("/alphabet.txt"));
        is_passed
    };
    wait_until("the wait is over", Duration::from_secs(60), passed);
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert_eq!(visitor.get("/alphabet.txt").status, 200);
    let no_way = start(&tree, "", "crawlers = { challenge = \"all\", wait = \"0s\" }\n");
    let page = String::from_utf8(Visitor::new(&no_way).get("/").body).unwrap();
    assert!(!page.contains("check/wait") && page.contains("Please allow scripts"), "{page}");
}

#[test]
fn only_what_looks_like_a_browser_is_checked() {
    let tree = Tree::standard();
    tree.write("robots.txt", "User-agent: *\n");
    tree.write("feeds/all.xml", "<feed/>");
    let server = start(&tree, "", KEYS);
    let mut visitor = Visitor::new(&server);
    for path in ["/robots.txt", "/feeds/all.xml"] {
        assert_eq!(visitor.get(path).status, 200, "{path}");
    }
    assert_eq!(visitor.get("/.well-known/none").status, 404);
    for path in ["/alphabet.txt", "/", "/missing", "/robots.txt/x", "//robots.txt/../alphabet.txt"] {
        assert_eq!(visitor.get(path).status, 403, "{path}");
    }
    visitor.user_agent = "curl/8.0";
    assert_eq!(visitor.get("/alphabet.txt").status, 200);
    let all = "crawlers = { challenge = \"all\", exempt = [\"127.0.0.2\"], when = '$arg{deep}' }\n\
               [[site.route]]\npath = \"/dir/\"\ncrawlers = { enabled = false }\n";
    let server = start(&tree, "", all);
    let mut visitor = Visitor::new(&server);
    visitor.user_agent = "curl/8.0";
    assert_eq!(visitor.get("/alphabet.txt").status, 200);
    assert_eq!(visitor.get("/alphabet.txt?deep=1").status, 403);
    assert_eq!(visitor.get("/dir/inner.txt?deep=1").status, 200);
}

#[test]
fn nothing_that_was_sent_is_lost_silently() {
    let tree = Tree::standard();
    let server = start(&tree, "", KEYS);
    let mut visitor = Visitor::new(&server);
    let form = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n";
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let answer = visitor.send(method, "/alphabet.txt", form, "a=b");
        assert_eq!((answer.status, answer.field("cache-control")), (403, Some("no-store")));
        let text = String::from_utf8(answer.body).unwrap();
        assert!(text.contains("What you sent has not been taken") && !text.contains("data-task"), "{text}");
    }
    let head = visitor.ask("HEAD", "/alphabet.txt", "");
    assert_eq!((head.status, head.body.len()), (403, 0));
    let task = visitor.challenged("/alphabet.txt");
    let wrong = visitor.ask("POST", &format!("/.touchstone/check/pass?task={}", task.text), "");
    assert_eq!((wrong.status, wrong.field("allow")), (405, Some("GET, HEAD")));
    assert_eq!(visitor.get("/.touchstone/check/none").status, 404);
}

#[test]
fn passes_and_tasks_are_for_one_client_and_one_site() {
    let tree = Tree::standard();
    let keys = "crawlers = { challenge = \"browsers\", difficulty = 8, key_file = \"keys\" }\n";
    fs::write(tree.beside("keys"), "01234567890123456789012345678901\n").unwrap();
    let server = start(&tree, "", keys);
    let mut visitor = Visitor::new(&server);
    visitor.work("/alphabet.txt");
    // Another client with the same cookies.
    let mut thief = Visitor { user_agent: "Mozilla/5.0 Other", ..Visitor::new(&server) };
    thief.cookies = visitor.cookies.clone();
    assert_eq!(thief.get("/alphabet.txt").status, 403);
    // Another site with the same keys.
    let mut elsewhere = Visitor { host: "other.example".to_string(), ..Visitor::new(&server) };
    elsewhere.cookies = visitor.cookies.clone();
    assert_eq!(elsewhere.get("/alphabet.txt").status, 403);
    let task = Visitor::new(&server).challenged("/alphabet.txt");
    let answer = answer_to(&task);
    let moved = elsewhere.pass(&task, &answer, "/");
    assert_eq!((moved.status, moved.field("set-cookie")), (403, None), "{moved:?}");
    assert_eq!(thief.pass(&task, &answer, "/").status, 403);
    // A changed cookie.
    let mut forger = Visitor::new(&server);
    forger.cookies = visitor.cookies.clone();
    for value in forger.cookies.values_mut().filter(|value| value.len() > 20) {
        let other = if value.as_bytes()[10] == b'A' { "B" } else { "A" };
        value.replace_range(10..11, other);
    }
    assert_eq!(forger.get("/alphabet.txt").status, 403);
    // Another machine with the same keys, which accepts the pass.
    let second = start(&tree, "", keys);
    let mut same = Visitor { host: visitor.host.clone(), ..Visitor::new(&second) };
    same.cookies = visitor.cookies.clone();
    assert_eq!(same.get("/alphabet.txt").status, 200);
}

#[test]
fn wrong_answers_and_foreign_addresses_lead_nowhere() {
    let tree = Tree::standard();
    let server = start(&tree, "", KEYS);
    let mut visitor = Visitor::new(&server);
    let task = visitor.challenged("/alphabet.txt");
    for answer in ["", "x", "-1", "99999999999999999999"] {
        let wrong = visitor.pass(&task, answer, "/");
        assert_eq!((wrong.status, wrong.field("location")), (403, None), "{answer}");
    }
    let answer = answer_to(&task);
    for to in [
        "//evil.example/",
        "https://evil.example/",
        "/\\evil.example",
        "/\t/evil.example",
        "javascript:alert(1)",
        "",
        "/.touchstone/check/wait",
        "/a\r\nSet-Cookie: x=y",
    ] {
        let passed = visitor.pass(&task, &answer, &encoded(to));
        assert_eq!((passed.status, passed.field("location")), (303, Some("/")), "{to:?}");
    }
    // A browser without cookies gets a message, and not an endless redirect.
    let mut without = Visitor::new(&server);
    let page = without.get("/alphabet.txt");
    let task = task_of(&String::from_utf8(page.body).unwrap());
    without.cookies.clear();
    let told = without.pass(&task, &answer_to(&task), "/alphabet.txt");
    assert!(told.status == 403 && String::from_utf8(told.body).unwrap().contains("Cookies are needed"));
}

#[test]
fn no_cache_has_pages_of_the_check_or_lets_others_pass() {
    let asked = Arc::new(AtomicUsize::new(0));
    let heads = Arc::new(std::sync::Mutex::new(String::new()));
    let (count, seen) = (asked.clone(), heads.clone());
    let origin = Origin::start(move |stream| {
        use std::io::Write as _;
        while let Some(head) = read_head(stream) {
            count.fetch_add(1, Ordering::SeqCst);
            seen.lock().unwrap().push_str(&head);
            let answer =
                "HTTP/1.1 200 OK\r\nCache-Control: public, max-age=600\r\nContent-Length: 6\r\n\r\nstored";
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    });
    let tree = Tree::standard();
    let route = format!("{}cache = {{}}\n", origin.keys(""));
    let server = start(&tree, "", &format!("{KEYS}{route}"));
    let mut first = Visitor::new(&server);
    assert_eq!(first.get("/app/page").status, 403);
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    first.work("/app/page");
    first.cookies.insert("own".into(), "1".into());
    for _ in 0..3 {
        assert_eq!(first.get("/app/page").body, b"stored");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1, "the others are hits");
    let head = heads.lock().unwrap().to_ascii_lowercase();
    assert!(head.contains("cookie: own=1") && !head.contains("touchstone-check"), "{head}");
    // It is stored, and a visitor without a pass does not get it.
    assert_eq!(Visitor::new(&server).get("/app/page").status, 403);
    let mut api = Visitor { user_agent: "curl/8", ..Visitor::new(&server) };
    assert_eq!(api.get("/app/page").body, b"stored");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[test]
fn wrong_keys_are_told() {
    let tree = Tree::standard();
    fs::write(tree.beside("short"), "short\n").unwrap();
    fs::write(tree.beside("keys.json"), "{}").unwrap();
    for (keys, message) in [
        ("crawlers = { key_file = \"none\" }", "cannot be read"),
        ("crawlers = { key_file = \"short\" }", "secret 1"),
        ("crawlers = { bot = [{ name = \"a\", key_file = \"keys.json\" }] }", "no array \"keys\""),
        ("crawlers = { bot = [{ name = \"a\", agent = \"https://a@b\" }] }", "must name a host"),
        ("crawlers = { ca_certificate = \"short\" }", "crawlers.ca_certificate"),
    ] {
        let text = format!("{}{keys}\n", tree.configuration(""));
        let file = tree.beside("t.toml");
        fs::write(&file, text).unwrap();
        let output = run(["check", "--config", file.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(message), "{keys}: {said}");
    }
}
