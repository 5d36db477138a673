//! Compression dictionaries (RFC 9842) from the outside: the version before is the dictionary of the next,
//! for curl byte by byte, and for Chromium.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use base64::Engine as _;
use rcgen::PublicKeyData as _;
use sha2::{Digest, Sha256};

use crate::support::{Server, Tree, curl, run, skipped};

const TYPES: [&str; 2] = ["dcb", "dcz"];

/// A script of about 100 KiB; two versions differ in one line.
fn script(version: u32) -> String {
    let lines =
        (0..2000).map(|line: u32| format!("function f{line}() {{ return {}; }}\n", line * 7919 % 10_007));
    let lines: String = lines.collect();
    format!("{lines}window.version = {version};\n")
}

fn hash(content: &str) -> String {
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(content));
    format!("Available-Dictionary: :{hash}:")
}

fn server(tree: &Tree, keys: &str) -> Server {
    server_with(tree, "development_certificate = true", keys)
}

fn server_with(tree: &Tree, certificate: &str, keys: &str) -> Server {
    let root = tree.root();
    Server::configured(
        tree.around(),
        &format!(
            "[server]\ncores = 2\n[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = {root:?}\n\
             {certificate}\ncache_control = \"max-age=600\"\n{keys}"
        ),
    )
}

struct Got {
    head: String,
    body: Vec<u8>,
}

impl Got {
    fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (other, value) = line.split_once(": ")?;
            other.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

/// What curl gets; `None` where curl is missing.
fn get(server: &Server, target: &str, fields: &[&str], options: &[&str]) -> Option<Got> {
    let url = format!("https://{}{target}", server.address());
    let mut arguments = vec!["--insecure", "--include", &url];
    arguments.extend(options);
    fields.iter().for_each(|field| arguments.extend(["--header", *field]));
    let output = curl(arguments)?;
    assert!(output.status.success(), "{target}: {}", String::from_utf8_lossy(&output.stderr));
    let end = memchr::memmem::find(&output.stdout, b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8(output.stdout[..end].to_vec()).unwrap();
    Some(Got { head, body: output.stdout[end..].to_vec() })
}

/// The content of an answer that was made with a dictionary.
fn decoded(coding: &str, dictionary: &str, body: &[u8]) -> String {
    let magic: &[u8] = if coding == "dcb" { b"\xffDCB" } else { b"\x5e\x2a\x4d\x18\x20\0\0\0" };
    let coded = body.strip_prefix(magic).expect("the mark of the format");
    let coded = coded.strip_prefix(&Sha256::digest(dictionary)[..]).expect("the hash of the dictionary");
    let mut plain = Vec::new();
    if coding == "dcb" {
        let dictionary = dictionary.as_bytes().to_vec().into();
        brotli::Decompressor::new_with_custom_dict(coded, 4096, dictionary).read_to_end(&mut plain).unwrap();
    } else {
        let mut decoder = zstd::stream::read::Decoder::with_ref_prefix(coded, dictionary.as_bytes()).unwrap();
        decoder.read_to_end(&mut plain).unwrap();
    }
    String::from_utf8(plain).unwrap()
}

#[test]
fn the_version_before_is_the_dictionary_of_the_next() {
    let tree = Tree::empty();
    tree.write("js/app.js", script(1));
    let server = server(&tree, "dictionaries = [\"/js/*\"]\n");
    let Some(first) = get(&server, "/js/app.js", &[], &[]) else { return };
    assert_eq!(first.field("use-as-dictionary"), Some("match=\"/js/*\""));
    assert_eq!(first.field("vary"), Some("Accept-Encoding, Available-Dictionary"));
    tree.write("js/app.js", script(2));
    tree.write("js/other.js", script(3));
    // Until the change is seen.
    while get(&server, "/js/app.js", &[], &[]).unwrap().body != script(2).as_bytes() {}
    let dictionary = hash(&script(1));
    for coding in TYPES {
        for version in ["--http1.1", "--http2"] {
            let accept = format!("Accept-Encoding: gzip, br, zstd, {coding}");
            let fields = [accept.as_str(), &dictionary];
            let mut tags = Vec::new();
            for (target, content) in [("/js/app.js", script(2)), ("/js/other.js", script(3))] {
                // The first makes it, the next ones find it.
                for _ in 0..3 {
                    let got = get(&server, target, &fields, &[version]).unwrap();
                    assert_eq!(got.field("content-encoding"), Some(coding), "{}", got.head);
                    assert_eq!(got.field("vary"), Some("Accept-Encoding, Available-Dictionary"));
                    assert_eq!(got.field("use-as-dictionary"), Some("match=\"/js/*\""));
                    assert!(got.body.len() < 500, "{coding}: {}", got.body.len());
                    assert_eq!(decoded(coding, &script(1), &got.body), content);
                    tags.push(got.field("etag").unwrap().to_string());
                }
            }
            assert!(tags[0].contains(coding) && tags[0] == tags[2] && tags[0] != tags[3], "{tags:?}");
            let condition = format!("If-None-Match: {}", tags[0]);
            let fields = [accept.as_str(), &dictionary, &condition];
            let got = get(&server, "/js/app.js", &fields, &[version]).unwrap();
            assert!(got.head.split(' ').nth(1) == Some("304"), "{}", got.head);
        }
    }
}

#[test]
fn where_no_dictionary_may_be_used_another_form_answers() {
    let tree = Tree::empty();
    tree.write("js/app.js", script(1));
    tree.write("css/app.css", script(1) + "/* style */");
    let server = server(&tree, "dictionaries = [\"/js/*\", \"/css/*\"]\n");
    let Some(first) = get(&server, "/js/app.js", &[], &[]) else { return };
    assert_eq!(first.body, script(1).as_bytes());
    get(&server, "/css/app.css", &[], &[]);
    let (known, unknown) = (hash(&script(1)), hash("nothing"));
    for (target, fields, expected) in [
        ("/js/app.js", vec!["Accept-Encoding: br, dcz", &known], Some("dcz")),
        ("/js/app.js", vec!["Accept-Encoding: br, dcz", &unknown], Some("br")),
        ("/js/app.js", vec!["Accept-Encoding: br, dcz"], Some("br")),
        ("/js/app.js", vec!["Accept-Encoding: br", &known], Some("br")),
        ("/js/app.js", vec!["Accept-Encoding: br, dcz;q=0", &known], Some("br")),
        ("/js/app.js", vec!["Accept-Encoding: br, dcz", &known, &unknown], Some("br")),
        ("/js/app.js", vec!["Accept-Encoding: br, dcz", "Available-Dictionary: :AAAA:"], Some("br")),
        // A range is one of the file as it is.
        ("/js/app.js", vec!["Accept-Encoding: dcz", &known, "Range: bytes=0-9"], None),
        // A dictionary of another pattern.
        ("/css/app.css", vec!["Accept-Encoding: br, dcz", &known], Some("br")),
    ] {
        let got = get(&server, target, &fields, &["--http1.1"]).unwrap();
        assert_eq!(got.field("content-encoding"), expected, "{target} {fields:?}: {}", got.head);
    }
    // Without TLS.
    let plain_tree = Tree::empty();
    plain_tree.write("js/app.js", script(1));
    let root = plain_tree.root();
    let text = format!("[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = {root:?}\ndictionaries = [\"/js/*\"]\n");
    let plain = Server::configured(plain_tree.around(), &text);
    for _ in 0..2 {
        let request =
            format!("GET /js/app.js HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br, dcz\r\n{known}\r\n\r\n");
        assert_eq!(plain.connect().ask(request).field("content-encoding"), Some("br"));
    }
}

#[test]
fn dictionaries_outlive_a_reload_and_are_no_other_sites() {
    let tree = Tree::empty();
    tree.write("js/app.js", script(1));
    fs::create_dir(tree.around().join("other")).unwrap();
    fs::write(tree.around().join("other/app.js"), script(2)).unwrap();
    let (root, other) = (tree.root(), tree.around().join("other"));
    let site = |host: &str, root: &std::path::Path| {
        format!(
            "[[site]]\nhosts = [\"{host}\"]\nlisten = [\"127.0.0.1:0\"]\nroot = {root:?}\n\
             development_certificate = true\ndictionaries = [\"/*\"]\n"
        )
    };
    let text = site("a.test", &root) + &site("b.test", &other);
    let server = Server::configured(tree.around(), &text);
    let port = server.address().port();
    let ask = |host: &str, target: &str, fields: &[&str]| {
        let resolve = format!("{host}:{port}:127.0.0.1");
        let url = format!("https://{host}:{port}{target}");
        let mut arguments = vec!["--insecure", "--include", "--http1.1", "--resolve", &resolve, &url];
        fields.iter().for_each(|field| arguments.extend(["--header", *field]));
        let output = curl(arguments)?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(String::from_utf8_lossy(&output.stdout).to_ascii_lowercase())
    };
    if ask("a.test", "/js/app.js", &[]).is_none() {
        return;
    }
    let dictionary = hash(&script(1));
    let fields = ["Accept-Encoding: br, dcz", dictionary.as_str()];
    assert!(ask("b.test", "/app.js", &fields).unwrap().contains("content-encoding: br\r\n"));
    tree.write("js/app.js", script(2));
    server.signal(rustix::process::Signal::HUP);
    server.wait_for_error_line("the reload", |line| line.contains("applied"));
    assert!(ask("a.test", "/js/app.js", &fields).unwrap().contains("content-encoding: dcz\r\n"));
}

#[test]
fn patterns_that_are_none_are_refused() {
    let tree = Tree::empty();
    for (pattern, message) in [("js/*", "it must begin with '/'"), ("/:id", "':' is not allowed")] {
        let text = tree.configuration("") + &format!("dictionaries = [{pattern:?}]\n");
        let file = tree.beside("site.toml");
        fs::write(&file, text).unwrap();
        let output = run(["check", "--config", file.to_str().unwrap()]);
        let said =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success() && said.contains(message), "{pattern}: {said}");
    }
}

/// The page fetches one version, and then the next; it shows how many bytes each took.
const PAGE: &str = "<!doctype html><p id=out>waiting</p><script>
const seen = name => performance.getEntriesByName(new URL(name, location).href).at(-1);
async function load(name) {
  const text = await (await fetch(name)).text();
  return [text.length, seen(name).encodedBodySize, Number(text.slice(-4, -2))];
}
(async () => {
  const first = await load('/js/app.1.js');
  let next, tries = 0, spun = 0;
  // The browser takes a dictionary up a moment after the response has ended. Its timers pass without waiting
  // (virtual time), so that only computing takes time.
  do {
    await new Promise(done => setTimeout(done, 10));
    for (let step = 0; step < 3e7; step++) spun += step % 7;
    next = await load('/js/app.2.js?' + tries++);
  } while (next[1] > 5000 && tries < 400);
  document.getElementById('out').textContent = `first ${first} next ${next} end`;
})();
</script>";

#[test]
fn chromium_takes_the_next_version_with_the_one_before() {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let is_there = |name: &&&str| Command::new(name).arg("--version").stdout(Stdio::null()).status().is_ok();
    let Some(chromium) = names.iter().find(is_there) else {
        return skipped("compression dictionaries with a browser (install chromium)");
    };
    for coding in ["br", "zstd"] {
        let tree = Tree::empty();
        tree.write("index.html", PAGE);
        tree.write("js/app.1.js", script(1));
        tree.write("js/app.2.js", script(2));
        let keys = format!("compression = [\"{coding}\"]\ndictionaries = [\"/js/*\"]\n");
        // A browser keeps no dictionary of a site whose certificate is wrong: an option makes it accept this
        // one.
        let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_string()]).unwrap();
        let [certificate, key] = [tree.beside("own.pem"), tree.beside("own.key")];
        fs::write(&certificate, own.cert.pem()).unwrap();
        fs::write(&key, own.signing_key.serialize_pem()).unwrap();
        let pin = Sha256::digest(own.signing_key.subject_public_key_info());
        let pin = base64::engine::general_purpose::STANDARD.encode(pin);
        let server = server_with(&tree, &format!("certificate = {certificate:?}\nkey = {key:?}"), &keys);
        let profile = tree.beside("profile");
        let output = Command::new(chromium)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--no-proxy-server"])
            .args(["--disable-dev-shm-usage", "--disable-background-networking"])
            .args(["--timeout=60000", "--virtual-time-budget=30000"])
            .arg(format!("--ignore-certificate-errors-spki-list={pin}"))
            .arg(format!("--user-data-dir={}", profile.display()))
            .args(["--dump-dom", &format!("https://127.0.0.1:{}/", server.address().port())])
            .stderr(Stdio::null())
            .output()
            .unwrap();
        let page = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = page.split_once("first ").map_or("", |(_, said)| said);
        let said: Vec<usize> = said
            .split(|letter: char| !letter.is_ascii_digit())
            .filter_map(|text| text.parse().ok())
            .collect();
        let [length, first, version, next_length, next, next_version, ..] = said[..] else {
            panic!("{page}");
        };
        assert_eq!((length, version, next_length, next_version), (script(1).len(), 1, script(2).len(), 2));
        assert!(first > 5000 && next < 1000, "{coding}: {first} and then {next} bytes");
    }
}
