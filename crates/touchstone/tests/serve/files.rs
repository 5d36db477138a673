//! Files on disk: every size byte for byte, names, links and permissions; the server detects changes within
//! one second and never mixes two versions in an answer.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use crate::support::{
    ALPHABET, AnswerTo, Bound, Client, Response, Server, Tree, bound_by_permissions, bytes_of, curl,
    parse_http_date, skipped, wait_until,
};
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// Sizes around the ends of buffers, pages and the largest file in the cache.
const SIZES: [usize; 17] = [
    0,
    1,
    2,
    255,
    256,
    257,
    4095,
    4096,
    4097,
    65_535,
    65_536,
    65_537,
    (1 << 20) - 1,
    1 << 20,
    (1 << 20) + 1,
    5 << 20,
    (5 << 20) + 1,
];

/// The server promises to see a change on disk within one second. The rest is for a busy machine, where one
/// request alone may take seconds.
const SEEN_WITHIN: Duration = Duration::from_secs(1 + 30);

fn sized_files() -> Tree {
    let tree = Tree::empty();
    for size in SIZES {
        tree.write(&format!("{size}.bin"), bytes_of(size));
    }
    tree
}

#[test]
fn every_size_byte_for_byte() {
    let tree = sized_files();
    let server = Server::quick(&tree.root());
    // Twice: from the disk and from the cache.
    for round in 0..2 {
        let mut kept = server.connect();
        for size in SIZES {
            let expected = bytes_of(size);
            for request in [
                format!("GET /{size}.bin HTTP/1.1\r\nHost: a\r\n\r\n"),
                format!("GET /{size}.bin HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
            ] {
                let answer = kept.ask(&request);
                assert_eq!(answer.status, 200, "{size} bytes, round {round}");
                assert!(answer.body == expected, "{size} bytes, round {round}: another body");
            }
            kept.send(format!("HEAD /{size}.bin HTTP/1.1\r\nHost: a\r\n\r\n"));
            let head =
                kept.try_answer(AnswerTo::Head).unwrap_or_else(|broken| panic!("HEAD {size}: {broken}"));
            assert_eq!(head.field("content-length"), Some(&*size.to_string()), "HEAD, {size} bytes");
        }
    }
}

#[test]
fn every_size_pipelined() {
    let tree = sized_files();
    let server = Server::quick(&tree.root());
    let mut client = server.connect();
    let all: String =
        SIZES.iter().map(|size| format!("GET /{size}.bin HTTP/1.1\r\nHost: a\r\n\r\n")).collect();
    client.send(&all);
    for size in SIZES {
        let answer = client.answer();
        assert!(answer.status == 200 && answer.body == bytes_of(size), "{size} bytes");
    }
}

#[test]
fn every_size_with_curl() {
    let tree = sized_files();
    let server = Server::quick(&tree.root());
    for size in SIZES {
        for version in ["--http1.0", "--http1.1"] {
            let url = format!("http://{}/{size}.bin", server.address());
            let Some(output) = curl([version, "--fail", &url]) else { return };
            assert!(output.status.success(), "{url} {version}: {}", String::from_utf8_lossy(&output.stderr));
            assert!(output.stdout == bytes_of(size), "{url} {version}: another body");
        }
    }
    let url = format!("http://{}/65537.bin", server.address());
    let Some(output) = curl(["--range", "65530-", &url]) else { return };
    assert!(output.stdout == bytes_of(65_537)[65_530..], "curl --range");
    let Some(output) = curl(["--head", &url]) else { return };
    let head = String::from_utf8_lossy(&output.stdout).to_ascii_lowercase();
    assert!(head.contains("content-length: 65537\r\n"), "{head}");
    let Some(output) = curl(["--data", "x=y", "--output", "/dev/null", "--write-out", "%{http_code}", &url])
    else {
        return;
    };
    assert_eq!(output.stdout, b"405");
    // curl sends Expect: 100-continue with a body of this size, and must not be left waiting.
    let large = tree.beside("upload");
    fs::write(&large, bytes_of(1 << 20)).expect("a file to send");
    let upload = format!("@{}", large.display());
    let arguments = ["--data-binary", &upload, "--output", "/dev/null", "--write-out", "%{http_code}", &url];
    let Some(output) = curl(arguments) else { return };
    assert_eq!(output.stdout, b"405");
}

#[test]
fn ranges_of_every_size() {
    let tree = sized_files();
    let server = Server::quick(&tree.root());
    let mut client = server.connect();
    for size in SIZES.into_iter().filter(|&size| size > 0) {
        let body = bytes_of(size);
        let middle = size / 2;
        let ranges = [
            (0, 0),
            (0, size - 1),
            (size - 1, size - 1),
            (middle, size - 1),
            (middle, middle),
            (size / 3, middle),
        ];
        for (first, last) in ranges {
            let answer = client
                .ask(format!("GET /{size}.bin HTTP/1.1\r\nHost: a\r\nRange: bytes={first}-{last}\r\n\r\n"));
            assert_eq!(answer.status, 206, "{first}-{last} of {size}");
            assert_eq!(answer.field("content-range"), Some(&*format!("bytes {first}-{last}/{size}")));
            assert!(answer.body == body[first..=last], "{first}-{last} of {size}: another body");
        }
    }
}

#[test]
fn two_ranges_of_a_large_file() {
    let tree = sized_files();
    let server = Server::quick(&tree.root());
    let body = bytes_of(5 << 20);
    let request =
        "GET /5242880.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=10-1000009,-70000\r\nConnection: close\r\n\r\n";
    let mut client = server.connect();
    let answer = client.ask(request);
    client.end();
    let parts = crate::support::parse_multipart(&answer).expect("well formed");
    assert!(parts[0].body == body[10..=1_000_009] && parts[1].body == body[body.len() - 70_000..]);
    assert_eq!(parts.len(), 2);
}

#[test]
fn symbolic_links() {
    let tree = Tree::standard();
    let root = tree.root();
    fs::create_dir(tree.beside("outside")).expect("a directory beside the root");
    fs::write(tree.beside("outside/file.txt"), "secret\n").expect("a file in it");
    let links: [(&str, &Path); 8] = [
        ("inside-relative", Path::new("dir/inner.txt")),
        ("dir/up.txt", Path::new("../alphabet.txt")),
        ("inside-absolute", &root.join("alphabet.txt")),
        ("inside-directory", Path::new("dir")),
        ("outside-absolute", &tree.beside("outside.txt")),
        ("outside-directory", Path::new("../outside")),
        ("there-and-back", Path::new("../root/alphabet.txt")),
        ("chain", Path::new("outside-directory/file.txt")),
    ];
    for (name, target) in links {
        symlink(target, root.join(name)).expect("a link");
    }
    symlink("nothing", root.join("dangling")).expect("a link");
    symlink("loop", root.join("loop")).expect("a link");
    let server = Server::quick(&root);
    for round in 0..2 {
        server.assert_serves("/inside-relative", b"inner\n");
        server.assert_serves("/dir/up.txt", ALPHABET.as_bytes());
        server.assert_serves("/inside-directory/inner.txt", b"inner\n");
        for target in [
            "/outside-absolute",
            "/outside-directory/file.txt",
            "/chain",
            "/outside-directory/",
            "/escape.txt",
        ] {
            let answer = server.get(target);
            assert_eq!(answer.status, 403, "{target}, round {round}");
            assert!(!String::from_utf8_lossy(&answer.body).contains("secret"), "{target}");
        }
        assert_eq!(server.get("/dangling").status, 404, "round {round}");
        let status = server.get("/loop").status;
        assert!(status == 403 || status == 404, "a loop of links: {status}");
        // A link by an absolute path into the root is served; one that leaves the root and returns to it may
        // be refused.
        server.assert_serves("/inside-absolute", ALPHABET.as_bytes());
        assert!(matches!(server.get("/there-and-back").status, 200 | 403));
    }
}

#[test]
fn symbolic_links_anywhere_if_told() {
    let tree = Tree::standard();
    let text = tree.configuration("") + "symlinks = \"anywhere\"\n";
    let server = Server::configured(tree.around(), &text);
    server.assert_serves("/escape.txt", b"secret\n");
    server.assert_serves("/link.txt", ALPHABET.as_bytes());
}

#[test]
fn hidden_files_if_told() {
    let tree = Tree::standard();
    let server = Server::configured(tree.around(), &(tree.configuration("") + "hidden_files = true\n"));
    server.assert_serves("/.hidden", b"hidden\n");
    server.assert_serves("/.git/config", b"hidden\n");
    assert_eq!(server.get("/../outside.txt").status, 400);
}

#[test]
fn site_settings() {
    let tree = Tree::standard();
    let site = "index = [\"missing.html\", \"inner.txt\", \"index.html\"]\n\
                mime_types = { zzz = \"application/x-zzz\", html = \"application/xhtml+xml\" }\n\
                charset = \"utf-8\"\n\
                cache_control = \"max-age=60\"\n";
    let server = Server::configured(tree.around(), &(tree.configuration("") + site));
    server.assert_serves("/dir/", b"inner\n");
    assert_eq!(server.get("/unknown.zzz").field("content-type"), Some("application/x-zzz"));
    let page = server.get("/page.html");
    assert!(page.field("content-type").is_some_and(|value| value.starts_with("application/xhtml+xml")));
    let text = server.get("/alphabet.txt");
    assert_eq!(text.field("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(text.field("cache-control"), Some("max-age=60"));
    assert_eq!(server.get("/image.png").field("content-type"), Some("image/png"));
    assert_eq!(server.get("/missing").field("cache-control"), None, "an error is not a file");
}

#[test]
fn sites_by_host() {
    let tree = Tree::standard();
    for name in ["one", "two", "rest"] {
        fs::create_dir(tree.beside(name)).expect("a root");
        fs::write(tree.beside(name).join("name.txt"), name).expect("a file");
    }
    let port = crate::support::free_port();
    let site = |hosts: &str, name: &str| {
        format!(
            "[[site]]\nhosts = [{hosts}]\nlisten = [\"127.0.0.1:{port}\"]\nroot = {:?}\n",
            tree.beside(name)
        )
    };
    let text = site("\"one.example\", \"www.one.example\"", "one")
        + &site("\"two.example\"", "two")
        + &site("", "rest");
    let server = Server::configured(tree.around(), &text);
    let mut client = server.connect();
    let table = [
        ("one.example", "one"),
        ("ONE.Example:8080", "one"),
        ("www.one.example", "one"),
        ("two.example", "two"),
        ("other.example", "rest"),
        ("127.0.0.1", "rest"),
    ];
    for (host, body) in table {
        let answer = client.ask(format!("GET /name.txt HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(String::from_utf8_lossy(&answer.body), body, "{host}");
    }
    // The authority of the absolute form wins over Host (RFC 9112 section 3.2.2).
    let answer = client.ask("GET http://two.example/name.txt HTTP/1.1\r\nHost: one.example\r\n\r\n");
    assert_eq!(answer.body, b"two");
    let answer = client.ask("GET /name.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(answer.body, b"rest", "HTTP/1.0 without Host");
}

#[test]
fn neither_files_nor_directories() {
    let tree = Tree::standard();
    let mode = Mode::from_raw_mode(0o666);
    mknodat(CWD, tree.file("pipe"), FileType::Fifo, mode, 0).expect("a fifo");
    let _listener = UnixListener::bind(tree.file("socket")).expect("a socket");
    if rustix::process::geteuid().is_root() {
        let null = rustix::fs::makedev(1, 3);
        if mknodat(CWD, tree.file("device"), FileType::CharacterDevice, mode, null).is_err() {
            skipped("a device file (this container forbids making one)");
        }
    }
    let server = Server::quick(&tree.root());
    for name in ["pipe", "socket", "device"] {
        if fs::symlink_metadata(tree.file(name)).is_ok() {
            // Twice, with a good request after each: opening a fifo must not block the event loop.
            for _ in 0..2 {
                assert_eq!(server.get(&format!("/{name}")).status, 403, "{name}");
                server.assert_serves("/alphabet.txt", ALPHABET.as_bytes());
            }
        }
    }
}

#[test]
fn what_may_not_be_read() {
    let tree = Tree::standard();
    tree.write("closed/file.txt", "secret\n");
    tree.write("closed.txt", "secret\n");
    tree.write("closed-index/index.html", "secret\n");
    let forbid = |name: &str| {
        fs::set_permissions(tree.file(name), fs::Permissions::from_mode(0o000)).expect("permissions");
    };
    forbid("closed");
    forbid("closed.txt");
    forbid("closed-index/index.html");
    let server = start_bound_by_permissions(&tree);
    for target in ["/closed.txt", "/closed/file.txt", "/closed-index/"] {
        let answer = server.get(target);
        assert_eq!(answer.status, 403, "{target}");
        assert!(!String::from_utf8_lossy(&answer.body).contains("secret"), "{target}");
    }
    server.assert_serves("/alphabet.txt", ALPHABET.as_bytes());
    // A file that becomes readable is served, and one that becomes unreadable is refused.
    fs::set_permissions(tree.file("closed.txt"), fs::Permissions::from_mode(0o644)).expect("permissions");
    wait_until("a file made readable is served", SEEN_WITHIN, || server.get("/closed.txt").status == 200);
    forbid("alphabet.txt");
    wait_until("a file made unreadable is refused", SEEN_WITHIN, || {
        server.get("/alphabet.txt").status == 403
    });
    for name in ["closed", "alphabet.txt"] {
        fs::set_permissions(tree.file(name), fs::Permissions::from_mode(0o755)).expect("permissions");
    }
}

/// A server that permissions bind, which root is not.
fn start_bound_by_permissions(tree: &Tree) -> Server {
    let root = tree.root();
    let arguments =
        ["--root", root.to_str().expect("text"), "--listen", "127.0.0.1:0", "--access-log", "off"];
    match bound_by_permissions() {
        Bound::AsWeAre => Server::start(arguments),
        Bound::AsUser(user) => Server::start_as(user, arguments),
    }
}

/// Waits until the server sends the expected body; each answer before it must be one of the known bodies,
/// whole.
fn wait_for_body(server: &Server, target: &str, known: &[&[u8]], wanted: &[u8]) {
    wait_until(&format!("{target} is seen changed"), SEEN_WITHIN, || {
        let answer = server.get(target);
        assert!(
            answer.status != 200 || answer.body == wanted || known.iter().any(|body| answer.body == *body),
            "{target}: neither the old nor the new body but {} bytes",
            answer.body.len()
        );
        answer.status == 200 && answer.body == wanted
    });
}

#[test]
fn changes_are_seen_within_a_second() {
    // Small enough for the cache, and too large for it.
    for size in [100, 3 << 20] {
        let tree = Tree::empty();
        let path = tree.write("file.bin", bytes_of(size));
        let server = Server::quick(&tree.root());
        server.assert_serves("/file.bin", &bytes_of(size));
        server.assert_serves("/file.bin", &bytes_of(size));
        let first = server.get("/file.bin");

        // Replaced by a rename.
        let renamed = bytes_of(size + 7);
        fs::write(tree.beside("new"), &renamed).expect("a file");
        fs::rename(tree.beside("new"), &path).expect("renamed over");
        wait_for_body(&server, "/file.bin", &[&bytes_of(size)], &renamed);
        let second = server.get("/file.bin");
        assert_ne!(first.field("etag"), second.field("etag"), "another body, another ETag");

        // Edited in place, longer: a request between the two writes may see either part.
        let mut edited = renamed.clone();
        edited.extend_from_slice(b"appended");
        let mut file = File::options().append(true).open(&path).expect("opened");
        file.write_all(b"appended").expect("appended");
        drop(file);
        wait_for_body(&server, "/file.bin", &[&renamed], &edited);

        // Edited in place, shorter.
        File::options().write(true).open(&path).expect("opened").set_len(50).expect("cut");
        wait_for_body(&server, "/file.bin", &[&edited], &edited[..50]);

        // The same length, other bytes.
        let same_length = bytes_of(51)[..50].to_vec();
        fs::write(tree.beside("new"), &same_length).expect("a file");
        fs::rename(tree.beside("new"), &path).expect("renamed over");
        wait_for_body(&server, "/file.bin", &[&edited[..50]], &same_length);

        // Touched: the date of the answer changes, and the condition with it.
        let before = server.get("/file.bin");
        let touched = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        File::options().write(true).open(&path).expect("opened").set_modified(touched).expect("touched");
        wait_until("the new time is seen", SEEN_WITHIN, || {
            let modified = server.get("/file.bin").field("last-modified").and_then(parse_http_date);
            modified == Some(1_000_000_000)
        });
        assert_ne!(server.get("/file.bin").field("etag"), before.field("etag"), "another time, another ETag");

        // Deleted, and made again.
        fs::remove_file(&path).expect("deleted");
        wait_until("the file is seen gone", SEEN_WITHIN, || server.get("/file.bin").status == 404);
        tree.write("file.bin", "again\n");
        wait_for_body(&server, "/file.bin", &[b""], b"again\n");
    }
}

#[test]
fn changes_around_a_file_are_seen_within_a_second() {
    let tree = Tree::empty();
    tree.write("dir/file.txt", "old\n");
    let server = Server::quick(&tree.root());
    server.assert_serves("/dir/file.txt", b"old\n");
    assert_eq!(server.get("/dir/").status, 403);
    assert_eq!(server.get("/later/file.txt").status, 404);

    // A directory is renamed, and another takes its place.
    fs::rename(tree.file("dir"), tree.file("moved")).expect("renamed");
    wait_until("the directory is seen gone", SEEN_WITHIN, || server.get("/dir/file.txt").status == 404);
    server.assert_serves("/moved/file.txt", b"old\n");
    tree.write("dir/file.txt", "new\n");
    wait_for_body(&server, "/dir/file.txt", &[b""], b"new\n");

    // An index that appears and disappears.
    tree.write("dir/index.html", "index\n");
    wait_for_body(&server, "/dir/", &[b""], b"index\n");
    fs::remove_file(tree.file("dir/index.html")).expect("deleted");
    wait_until("the index is seen gone", SEEN_WITHIN, || server.get("/dir/").status == 403);

    // A directory that was missing.
    tree.write("later/file.txt", "later\n");
    wait_for_body(&server, "/later/file.txt", &[b""], b"later\n");

    // A file becomes a directory, and a directory a file.
    fs::remove_file(tree.file("dir/file.txt")).expect("deleted");
    fs::create_dir(tree.file("dir/file.txt")).expect("a directory");
    wait_until("a directory is seen where a file was", SEEN_WITHIN, || {
        server.get("/dir/file.txt").status == 301
    });
    fs::remove_dir(tree.file("dir/file.txt")).expect("deleted");
    tree.write("dir/file.txt", "file again\n");
    wait_for_body(&server, "/dir/file.txt", &[b""], b"file again\n");

    // A link gets a new target, and the target file changes.
    tree.write("one.txt", "one\n");
    tree.write("two.txt", "two\n");
    symlink("one.txt", tree.file("link.txt")).expect("a link");
    wait_for_body(&server, "/link.txt", &[], b"one\n");
    symlink("two.txt", tree.file("link.new")).expect("a link");
    fs::rename(tree.file("link.new"), tree.file("link.txt")).expect("renamed over");
    wait_for_body(&server, "/link.txt", &[b"one\n"], b"two\n");
    tree.write("two.txt", "two, changed\n");
    wait_for_body(&server, "/link.txt", &[b"two\n", b""], b"two, changed\n");
    // A link whose target is now outside the root is refused.
    fs::write(tree.beside("outside.txt"), "secret\n").expect("a file");
    symlink("../outside.txt", tree.file("link.new")).expect("a link");
    fs::rename(tree.file("link.new"), tree.file("link.txt")).expect("renamed over");
    wait_until("a link outside is refused", SEEN_WITHIN, || server.get("/link.txt").status == 403);
}

#[test]
fn a_file_linked_into_a_directory_further_up_is_seen_changed() {
    // The file's own directory is not below the link's: a watch on the link alone would miss the change.
    let tree = Tree::empty();
    tree.write("data/releases/1/page.txt", "first\n");
    tree.write("data/releases/2/page.txt", "second\n");
    symlink("data/releases/1", tree.file("current")).expect("a link");
    let server = Server::quick(&tree.root());
    server.assert_serves("/current/page.txt", b"first\n");
    symlink("data/releases/2", tree.file("current.new")).expect("a link");
    fs::rename(tree.file("current.new"), tree.file("current")).expect("renamed over");
    wait_for_body(&server, "/current/page.txt", &[b"first\n"], b"second\n");
    tree.write("data/releases/2/page.txt", "second, changed\n");
    wait_for_body(&server, "/current/page.txt", &[b"second\n", b""], b"second, changed\n");
}

#[test]
fn an_answer_is_never_mixed() {
    // One thread replaces the files while others request them: each answer is entirely one of the two
    // versions.
    for (short, long) in [(1000, 3000), (2 << 20, (2 << 20) + 5000)] {
        let tree = Tree::empty();
        let bodies = [bytes_of(short), bytes_of(long)];
        let path = tree.write("file.bin", &bodies[0]);
        let server = Server::quick(&tree.root());
        let stop = AtomicBool::new(false);
        let answered = AtomicUsize::new(0);
        let seen: Vec<HashMap<String, usize>> = std::thread::scope(|scope| {
            let readers: Vec<_> =
                (0..3).map(|_| scope.spawn(|| ask_until_told(&server, &bodies, &stop, &answered))).collect();
            let mut replaced = 0;
            while answered.load(Ordering::Relaxed) < 300 && readers.iter().any(|reader| !reader.is_finished())
            {
                replaced += 1;
                fs::write(tree.beside("new"), &bodies[replaced % 2]).expect("a file");
                fs::rename(tree.beside("new"), &path).expect("renamed over");
                std::thread::sleep(Duration::from_millis(3));
            }
            stop.store(true, Ordering::Relaxed);
            readers.into_iter().map(|reader| reader.join().expect("no mixed answer")).collect()
        });
        // An ETag identifies one body, for all clients.
        let mut all: HashMap<String, usize> = HashMap::new();
        for (etag, length) in seen.into_iter().flatten() {
            let known = *all.entry(etag.clone()).or_insert(length);
            assert_eq!(known, length, "one ETag, two bodies: {etag}");
        }
    }
}

fn ask_until_told(
    server: &Server,
    bodies: &[Vec<u8>; 2],
    stop: &AtomicBool,
    answered: &AtomicUsize,
) -> HashMap<String, usize> {
    let mut client = server.connect();
    let mut seen = HashMap::new();
    while !stop.load(Ordering::Relaxed) {
        let answer = client.ask("GET /file.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(answer.status, 200);
        assert!(bodies.contains(&answer.body), "a mixed answer of {} bytes", answer.body.len());
        let etag = answer.field("etag").expect("an ETag").to_owned();
        let known = *seen.entry(etag.clone()).or_insert(answer.body.len());
        assert_eq!(known, answer.body.len(), "one ETag, two bodies: {etag}");
        answered.fetch_add(1, Ordering::Relaxed);
    }
    seen
}

#[test]
fn more_files_than_the_cache_holds() {
    const FILES: usize = 200;
    let tree = Tree::empty();
    for number in 0..FILES {
        tree.write(&format!("{number}.bin"), bytes_of(number * 37));
    }
    for cache in ["files = 10", "bytes = 20000", "file_bytes = 1000", "enabled = false", "files = 1"] {
        let server = Server::configured(tree.around(), &tree.configuration(&format!("[cache]\n{cache}\n")));
        let mut client = server.connect();
        // In order, then with a stride that returns to some files often and to others seldom.
        let order = (0..FILES).chain((0..1000).map(|step| (step * step * 7) % FILES));
        for number in order {
            let answer = client.ask(format!("GET /{number}.bin HTTP/1.1\r\nHost: a\r\n\r\n"));
            assert!(answer.status == 200 && answer.body == bytes_of(number * 37), "{cache}: /{number}.bin");
        }
        tree.write("5.bin", "changed");
        wait_for_body(&server, "/5.bin", &[&bytes_of(5 * 37), b""], b"changed");
        tree.write("5.bin", bytes_of(5 * 37));
    }
}

#[test]
fn a_file_cut_short_during_a_download() {
    let tree = Tree::standard();
    let path = tree.file("large.bin");
    let length: u64 = 64 << 20;
    File::create(&path).and_then(|file| file.set_len(length)).expect("a large file of holes");
    let server = Server::quick(&tree.root());
    let mut client = Client::connect_with_small_buffer(server.address());
    client.send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    client.wait_for_bytes(100_000);
    File::options().write(true).open(&path).and_then(|file| file.set_len(1000)).expect("cut short");
    // The stated bytes cannot be sent: only the end of the connection can inform the client.
    let (received, _) = client.read_to_end();
    assert!((received.len() as u64) < length, "{} bytes of a file that was cut", received.len());
    server.assert_serves("/alphabet.txt", ALPHABET.as_bytes());
    wait_until("the new length is seen", SEEN_WITHIN, || server.get("/large.bin").body.len() == 1000);
}

#[test]
fn a_file_replaced_or_deleted_during_a_download() {
    let tree = Tree::empty();
    let body = bytes_of(32 << 20);
    let path = tree.write("large.bin", &body);
    let server = Server::quick(&tree.root());
    let mut clients = [
        Client::connect_with_small_buffer(server.address()),
        Client::connect_with_small_buffer(server.address()),
    ];
    for client in &mut clients {
        client.send("GET /large.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        client.wait_for_bytes(100_000);
    }
    fs::write(tree.beside("new"), "short\n").expect("a file");
    fs::rename(tree.beside("new"), &path).expect("renamed over");
    wait_for_body(&server, "/large.bin", &[&body], b"short\n");
    // Clients that began with the old file get all of it.
    for client in &mut clients {
        let answer: Response = client.answer();
        assert!(answer.body == body, "{} bytes of the old file", answer.body.len());
        client.end();
    }
}
