//! Bots that sign their requests, with Cloudflare's own package for bots as the signer.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};

use super::visitor::MOZILLA;
use crate::support::{Response, Server, Tree, free_port, skipped, wait_until};

/// Where `scripts/setup-web-bot-auth.sh` puts the signer: below the target directory, in which the tests'
/// binary is as well.
fn package() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_BIN_EXE_touchstone"));
    let target = built.ancestors().nth(2).expect("the binary is in target/debug");
    let package = target.join("web-bot-auth/node_modules/web-bot-auth");
    if !package.exists() {
        skipped("bots that sign (install nodejs npm, then run scripts/setup-web-bot-auth.sh)");
        return None;
    }
    Some(package)
}

/// A bot's key, and the fields of requests that it has signed.
fn signed(requests: &Value) -> Option<(Value, Vec<String>)> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/serve/crawlers/sign.mjs");
    let package = package()?;
    let mut node = Command::new("node")
        .arg(script)
        .arg(package)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("node runs");
    let input = json!({ "requests": requests }).to_string();
    node.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = node.wait_with_output().unwrap();
    let made: Value = serde_json::from_slice(&output.stdout).unwrap();
    let lines = |fields: &Value| {
        let fields = fields.as_object().unwrap().iter();
        fields.map(|(name, value)| format!("{name}: {}\r\n", value.as_str().unwrap())).collect::<String>()
    };
    Some((made["jwk"].clone(), made["requests"].as_array().unwrap().iter().map(lines).collect()))
}

fn ask(server: &Server, host: &str, path: &str, fields: &str) -> Response {
    server.connect().ask(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"))
}

/// A server on a port that is known before, since bots sign the host with its port.
fn start(tree: &Tree, port: u16, before: &str, keys: &str) -> Server {
    let site = tree.configuration("").replace("127.0.0.1:0", &format!("127.0.0.1:{port}"));
    Server::configured(tree.around(), &format!("{before}{site}{keys}"))
}

#[test]
fn signed_requests_are_known_by_their_key() {
    let port = free_port();
    let host = format!("127.0.0.1:{port}");
    let url = format!("http://{host}/alphabet.txt");
    let requests: Vec<Value> = (0..6).map(|_| json!({ "url": url })).collect();
    let Some((jwk, fields)) = signed(&requests.into()) else { return };
    let tree = Tree::standard();
    fs::write(tree.beside("bot.json"), json!({ "keys": [jwk] }).to_string()).unwrap();
    let log = "[access_log]\npath = \"access.log\"\nformat = \"$status $bot $bot_verified $request\"\n";
    let bot = "{ name = \"example\", key_file = \"bot.json\", user_agents = [\"ExampleBot\"] }";
    let denied = "{ name = \"example\", key_file = \"bot.json\", access = \"deny\" }";
    let limited = "{ name = \"example\", key_file = \"bot.json\", requests = 1, per = \"1h\" }";
    let keys = format!(
        "crawlers = {{ challenge = \"browsers\", bot = [{bot}] }}\n\
         headers = {{ X-Bot = \"$bot $bot_verified\" }}\n\
         [[site.route]]\npath = \"/dir/\"\ncrawlers = {{ bot = [{denied}] }}\n\
         [[site.route]]\npath = \"/page.html\"\ncrawlers = {{ bot = [{limited}] }}\n"
    );
    let mut server = start(&tree, port, log, &keys);
    // A verified bot is not checked, whatever it calls itself.
    let mozilla = format!("User-Agent: {MOZILLA} ExampleBot/1.0\r\n");
    let page = ask(&server, &host, "/alphabet.txt", &format!("{mozilla}{}", fields[0]));
    assert_eq!((page.status, page.field("x-bot")), (200, Some("example verified")), "{page:?}");
    // The same again is a replay.
    let again = ask(&server, &host, "/alphabet.txt", &format!("{mozilla}{}", fields[0]));
    assert_eq!((again.status, again.field("x-bot")), (403, Some("invalid")));
    // Another host than the one that was signed.
    assert_eq!(ask(&server, "localhost", "/alphabet.txt", &fields[1]).status, 403);
    let malformed = fields[1].replace("sig1=", "sig1");
    assert_eq!(ask(&server, &host, "/alphabet.txt", &malformed).status, 400);
    // Those that only claim to be the bot.
    assert_eq!(ask(&server, &host, "/alphabet.txt", "User-Agent: examplebot\r\n").status, 403);
    assert_eq!(ask(&server, &host, "/alphabet.txt", "User-Agent: OtherBot\r\n").status, 200);
    assert_eq!(ask(&server, &host, "/alphabet.txt", &mozilla).status, 403);
    let denied = ask(&server, &host, "/dir/inner.txt", &fields[2]);
    assert_eq!((denied.status, denied.field("x-bot")), (403, Some("example verified")));
    assert_eq!(ask(&server, &host, "/page.html", &fields[3]).status, 200);
    let limited = ask(&server, &host, "/page.html", &fields[4]);
    assert_eq!((limited.status, limited.field("retry-after")), (429, Some("3600")));
    // Signatures of others, for other purposes, are not those of bots.
    let other = "Signature-Input: a=();created=1\r\nSignature: a=:AA==:\r\n";
    assert_eq!(ask(&server, &host, "/alphabet.txt", other).status, 200);
    server.stop();
    let log = fs::read_to_string(tree.beside("access.log")).unwrap();
    assert!(log.contains("200 example verified GET /alphabet.txt"), "{log}");
    assert!(log.contains("403 - invalid GET /alphabet.txt"), "{log}");
    assert!(log.contains("200 - - GET /alphabet.txt"), "{log}");
}

/// The server of a bot's directory, with a certificate of an authority of the test.
fn directory_server(tree: &Tree, jwk: &Value) -> Server {
    let authority_key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.distinguished_name.push(DnType::CommonName, "an authority of a test");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = authority.self_signed(&authority_key).unwrap();
    let key = KeyPair::generate().unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let own = CertificateParams::new(vec!["localhost".to_string()]).unwrap();
    let own = own.signed_by(&key, &issuer).unwrap();
    fs::write(tree.beside("ca.pem"), ca.pem()).unwrap();
    fs::write(tree.beside("site.pem"), own.pem() + &key.serialize_pem()).unwrap();
    let keys = json!({ "keys": [jwk] }).to_string();
    let text = format!(
        "{}certificate = \"site.pem\"\n[access_log]\npath = \"directory.log\"\n\
         [[site.route]]\npath = \"/.well-known/http-message-signatures-directory\"\n\
         respond = {{ status = 200, body = '{keys}', \
         content_type = \"application/http-message-signatures-directory+json\" }}\n",
        tree.configuration("")
    );
    // The log is a section of the whole configuration, before the site.
    let (site, rest) = text.split_once("[access_log]\npath = \"directory.log\"\n").unwrap();
    Server::configured(tree.around(), &format!("[access_log]\npath = \"directory.log\"\n{site}{rest}"))
}

#[test]
fn keys_are_fetched_from_the_address_that_a_bot_names() {
    let port = free_port();
    let host = format!("127.0.0.1:{port}");
    let url = format!("http://{host}/alphabet.txt");
    // The key is made with the signatures, so the directory's address must be known before.
    let of_bot = Tree::standard();
    let directory_port = free_port();
    let agent = format!("https://localhost:{directory_port}");
    let requests: Vec<Value> = (0..8).map(|_| json!({ "url": url, "agent": agent })).collect();
    let Some((jwk, fields)) = signed(&requests.into()) else { return };
    let named = of_bot.around().to_path_buf();
    let tree = Tree::standard();
    let directory = {
        let server = directory_server(&of_bot, &jwk);
        drop(server);
        // The same again on the port that the bot names.
        let text = fs::read_dir(&named)
            .unwrap()
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|ending| ending == "toml"))
            .map(|path| fs::read_to_string(path).unwrap())
            .unwrap();
        let text = text.replace("127.0.0.1:0", &format!("127.0.0.1:{directory_port}"));
        Server::configured(&named, &text)
    };
    let ca = of_bot.beside("ca.pem");
    let bot = format!("{{ name = \"example\", agent = \"{agent}\", user_agents = [\"ExampleBot\"] }}");
    let facts = "headers = { X-Bot = \"$bot $bot_verified\" }\n";
    let keys = |more: &str| format!("crawlers = {{ ca_certificate = {ca:?}, bot = [{bot}]{more} }}\n{facts}");
    let server = start(&tree, port, "", &keys(", private_networks = true"));
    for field in &fields[..3] {
        let page = ask(&server, &host, "/alphabet.txt", field);
        assert_eq!((page.status, page.field("x-bot")), (200, Some("example verified")), "{page:?}");
    }
    let log = || fs::read_to_string(of_bot.beside("directory.log")).unwrap();
    wait_until("the log is written", Duration::from_secs(60), || !log().is_empty());
    assert_eq!(log().lines().count(), 1, "the directory was fetched once: {}", log());
    drop(server);
    // Servers that are not in the public internet are not queried, unless a key allows it.
    let server = start(&tree, port, "", &keys(""));
    let page = ask(&server, &host, "/alphabet.txt", &fields[4]);
    assert_eq!((page.status, page.field("x-bot")), (200, Some("unverified")), "{page:?}");
    let page = ask(&server, &host, "/alphabet.txt", &format!("User-Agent: ExampleBot\r\n{}", fields[5]));
    assert_eq!(page.status, 403, "what only says that it is the bot: {page:?}");
    server.wait_for_error_line("the refusal", |line| line.contains("public internet"));
    assert_eq!(log().lines().count(), 1);
    drop(server);
    // A directory that is down: what it has signed is not known to be right.
    drop(directory);
    let server = start(&tree, port, "", &keys(", private_networks = true"));
    let page = ask(&server, &host, "/alphabet.txt", &fields[6]);
    assert_eq!((page.status, page.field("x-bot")), (200, Some("unverified")), "{page:?}");
}
