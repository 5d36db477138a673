//! How answers are delivered: rates, texts that are replaced, signed links, time limits, codings of a route.

use std::io::{Read, Write};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::support::{AnswerTo, Client, Origin, Response, Server, Tree, bytes_of, read_head};

fn site(tree: &Tree, keys: &str) -> String {
    tree.configuration("") + keys
}

fn ask(server: &Server, target: &str, fields: &str) -> Response {
    let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}Connection: close\r\n\r\n");
    server.connect().ask(request)
}

fn plain(coded: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(coded).read_to_end(&mut plain).expect("gzip");
    plain
}

/// Answers with HTML in chunks, one byte each.
fn page() -> Origin {
    Origin::start(|stream| {
        while let Some(head) = read_head(stream) {
            let asks_for_coding = head.to_ascii_lowercase().contains("accept-encoding: gzip");
            let body =
                if asks_for_coding { "coding" } else { "<p>http://INTERNAL/a and http://internal/b</p>" };
            let mut answer =
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: \"a\"\r\nAccept-Ranges: bytes\r\n\
                              Transfer-Encoding: chunked\r\n\r\n"
                    .to_string();
            for byte in body.chars() {
                answer.push_str(&format!("1\r\n{byte}\r\n"));
            }
            answer.push_str("0\r\n\r\n");
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    })
}

#[test]
fn texts_are_replaced_in_answers_of_origins_and_in_files() {
    let tree = Tree::empty();
    tree.write("page.html", "see http://internal/a, and http://internal/b");
    tree.write("page.txt", "see http://internal/a");
    tree.write("large.html", format!("{}http://internal/", "x".repeat(300_000)));
    let origin = page();
    let keys = format!(
        "[site.substitute]\nonce = false\n\
         replace = {{ \"http://internal/\" = \"https://www.example.org/\" }}\n\
         [[site.route]]\npath = \"/app/\"\nproxy = {{ to = \"http://{}\" }}\n\
         [[site.route]]\npath = \"/as-it-is/\"\nsubstitute = {{ replace = {{}} }}\n\
         proxy = {{ to = \"http://{}\" }}\n",
        origin.address, origin.address
    );
    let server = Server::configured(tree.around(), &site(&tree, &keys));
    let replaced = "<p>https://www.example.org/a and https://www.example.org/b</p>";
    let answer = ask(&server, "/app/x", "Accept-Encoding: gzip\r\n");
    assert_eq!(answer.field("etag"), None);
    assert_eq!(answer.field("accept-ranges"), None);
    // It is compressed after that, since its length is not known before.
    assert_eq!(answer.field("content-encoding"), Some("gzip"));
    assert_eq!(String::from_utf8_lossy(&plain(&answer.body)), replaced);
    assert_eq!(String::from_utf8_lossy(&ask(&server, "/app/x", "").body), replaced);
    assert_eq!(ask(&server, "/as-it-is/x", "").body, b"<p>http://INTERNAL/a and http://internal/b</p>");
    for _ in 0..2 {
        let answer = ask(&server, "/page.html", "Range: bytes=0-3\r\n");
        assert_eq!(answer.status, 200);
        assert_eq!(answer.body, b"see https://www.example.org/a, and https://www.example.org/b");
        assert_eq!(answer.field("last-modified"), None);
        assert_eq!(answer.field("content-length"), Some("60"));
        assert_eq!(ask(&server, "/page.txt", "").body, b"see http://internal/a");
    }
    let answer = ask(&server, "/large.html", "");
    assert!(answer.body.ends_with(b"xhttps://www.example.org/"), "{}", answer.body.len());
    assert_eq!(answer.body.len(), 300_024);
    let coded = ask(&server, "/large.html", "Accept-Encoding: gzip\r\n");
    assert_eq!(coded.field("content-encoding"), Some("gzip"));
    assert_eq!(plain(&coded.body), answer.body);
    let mut client = server.connect();
    client.send("HEAD /page.html HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let head = client.try_answer(AnswerTo::Head).unwrap();
    assert_eq!((head.status, head.field("content-length")), (200, None));
}

#[test]
fn a_body_is_sent_no_faster_than_its_rate() {
    let tree = Tree::empty();
    let body = bytes_of(60 * 1024);
    tree.write("a.bin", &body);
    tree.write("fast/a.bin", &body);
    let keys = "limit_rate = \"40KiB\"\nlimit_rate_after = \"20KiB\"\n\
                [[site.route]]\npath = \"/fast/\"\nlimit_rate = 0\n";
    let server = Server::configured(tree.around(), &site(&tree, keys));
    let began = Instant::now();
    let answer = ask(&server, "/a.bin", "");
    // 40 KiB are sent at 40 KiB a second, but for the last piece, a tenth of a second's. It may take longer.
    assert!(began.elapsed() >= Duration::from_millis(800), "{:?}", began.elapsed());
    assert_eq!(answer.body, body);
    assert_eq!(answer.field("content-length"), Some("61440"));
    assert_eq!(ask(&server, "/fast/a.bin", "").body, body);
    let part = ask(&server, "/a.bin", "Range: bytes=100-199\r\n");
    assert_eq!((part.status, &part.body[..]), (206, &body[100..200]));
    // A client that leaves ends what is sent to it.
    let mut client = server.connect();
    client.send("GET /a.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    client.wait_for_bytes(1000);
    client.vanish();
    assert_eq!(ask(&server, "/fast/a.bin", "").body, body);
}

#[test]
fn requests_wait_for_their_turn_or_are_refused() {
    let tree = Tree::empty();
    let limit =
        |more: &str| format!("respond = {{ body = \"ok\" }}\nrate_limit = {{ requests = 1, {more} }}\n");
    let keys = format!(
        "[[site.route]]\npath = \"/turn\"\n{}[[site.route]]\npath = \"/hour\"\n{}\
         [[site.route]]\npath = \"/key\"\n{}",
        limit("per = \"200ms\", burst = 1, delay = 50"),
        limit("per = \"1h\", burst = 1, delay = 1"),
        limit("per = \"1h\", key = \"$header{x-api-key}\"")
    );
    let server = Server::configured(tree.around(), &site(&tree, &keys));
    let began = Instant::now();
    for _ in 0..5 {
        assert_eq!(ask(&server, "/turn", "").status, 200);
    }
    assert!(began.elapsed() >= Duration::from_millis(600), "{:?}", began.elapsed());
    // Of two more one waits for an hour, and the other is refused.
    assert_eq!(ask(&server, "/hour", "").status, 200);
    let (answers, answered) = channel();
    for _ in 0..2 {
        let (mut client, answers) = (Client::connect(server.address()), answers.clone());
        std::thread::spawn(move || {
            client.send("GET /hour HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            let _ = answers.send(client.answer().status);
        });
    }
    assert_eq!(answered.recv_timeout(Duration::from_secs(60)).unwrap(), 429);
    let statuses = |key: &str| [0, 1].map(|_| ask(&server, "/key", key).status);
    assert_eq!(statuses("X-Api-Key: one\r\n"), [200, 429]);
    assert_eq!(statuses("X-Api-Key: two\r\n"), [200, 429]);
    assert_eq!(statuses(""), [200, 200]);
}

#[test]
fn signed_links() {
    let tree = Tree::empty();
    tree.write("files/a b.txt", "a");
    std::fs::write(tree.beside("links.secret"), "the first secret of links\n").unwrap();
    let keys = "[[site.route]]\npath = \"/files/\"\nsigned_link = { secret_file = \"links.secret\" }\n";
    let server = Server::configured(tree.around(), &site(&tree, keys));
    // printf '/files/a b.txt 4102444800' | openssl dgst -sha256 -hmac 'the first secret of links' -binary |
    //     basenc --base64url
    for _ in 0..2 {
        let target =
            "/files/a%20b.txt?expires=4102444800&signature=lYAvW0t8FqBprw7vFimBNY_uecQPHywustfCyO6O0jg";
        assert_eq!(ask(&server, target, "").status, 200);
    }
    assert_eq!(
        ask(
            &server,
            "/files/a%20b.txt?expires=1000&signature=IeDg2Jx9ccGxOLKbwneKaOKtRGDU_H2D8DkPf_YlSmQ",
            ""
        )
        .status,
        410
    );
    for target in [
        "/files/a%20b.txt",
        "/files/a%20b.txt?expires=4102444801&signature=lYAvW0t8FqBprw7vFimBNY_uecQPHywustfCyO6O0jg",
        "/files/b.txt?expires=4102444800&signature=lYAvW0t8FqBprw7vFimBNY_uecQPHywustfCyO6O0jg",
    ] {
        assert_eq!(ask(&server, target, "").status, 403, "{target}");
    }
}

#[test]
fn codings_of_a_route() {
    let tree = Tree::empty();
    let text = "a text of some length; ".repeat(100);
    for name in ["a.txt", "plain/a.txt", "gzip/a.txt"] {
        tree.write(name, &text);
    }
    let keys = "[[site.route]]\npath = \"/plain/\"\ncompression = []\n\
                [[site.route]]\npath = \"/gzip/\"\ncompression = [\"gzip\"]\n";
    let server = Server::configured(tree.around(), &site(&tree, keys));
    let coding = |target: &str| {
        let answer = ask(&server, target, "Accept-Encoding: br, gzip\r\n");
        answer.field("content-encoding").map(str::to_string)
    };
    assert_eq!(coding("/a.txt").as_deref(), Some("br"));
    assert_eq!(coding("/plain/a.txt"), None);
    assert_eq!(coding("/gzip/a.txt").as_deref(), Some("gzip"));
}

#[test]
fn a_slow_body_has_the_time_of_its_route() {
    let tree = Tree::empty();
    let origin = Origin::start(|stream| {
        read_head(stream);
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let keys = format!(
        "[[site.route]]\npath = \"/app/\"\nstall_timeout = \"300ms\"\nproxy = {{ to = \"http://{}\" }}\n",
        origin.address
    );
    let limits = "[limits]\nstall_timeout = \"1h\"\n";
    let server = Server::configured(tree.around(), &(tree.configuration(limits) + &keys));
    let mut client = server.connect();
    client.send("POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12");
    // Otherwise the answer would arrive in an hour.
    assert_eq!(client.answer().status, 408);
}
