//! What is answered: the same bytes as over HTTP/1.

use serde_json::json;

use crate::http3::{configured, server_and_client};
use crate::support::{Server, Tree, bytes_of, curl};

const SIZES: [usize; 9] = [0, 1, 63, 6_250, 16_384, 65_536, 65_537, 1 << 20, (5 << 20) + 1];

fn tree_of_sizes() -> Tree {
    let tree = Tree::empty();
    for size in SIZES {
        tree.write(&format!("{size}.bin"), bytes_of(size));
    }
    tree
}

#[test]
fn every_file_has_the_same_bytes_from_disk_and_from_the_cache() {
    let tree = tree_of_sizes();
    let Some((server, mut client)) = server_and_client(&tree, &[]) else { return };
    client.connect("a", &server);
    for round in 0..3 {
        for size in SIZES {
            let answer = client.get("a", &format!("/{size}.bin"));
            answer.assert(&format!("{size} bytes, round {round}"), 200, &bytes_of(size));
            assert_eq!(answer.field("content-length"), Some(&size.to_string()[..]));
        }
    }
}

#[test]
fn ranges_are_the_same_bytes() {
    let tree = tree_of_sizes();
    let Some((server, mut client)) = server_and_client(&tree, &[]) else { return };
    client.connect("a", &server);
    for (size, range, first, last) in [
        (6_250, "bytes=0-0", 0, 0),
        (6_250, "bytes=-1", 6_249, 6_249),
        (65_537, "bytes=65530-", 65_530, 65_536),
        ((5 << 20) + 1, "bytes=1000000-4999999", 1_000_000, 4_999_999),
    ] {
        let request = json!([{"path": format!("/{size}.bin"), "headers": [["range", range]]}]);
        let answer = client.requests("a", request).remove(0);
        answer.assert(range, 206, &bytes_of(size)[first..=last]);
        assert_eq!(answer.field("content-range"), Some(&format!("bytes {first}-{last}/{size}")[..]));
    }
    let beyond = json!([{"path": "/63.bin", "headers": [["range", "bytes=63-"]]}]);
    assert_eq!(client.requests("a", beyond).remove(0).status(), 416);
}

/// The send window takes the first two at once; the others share it.
#[test]
fn large_answers_share_their_connection() {
    const ANSWERS: usize = 12;
    let tree = tree_of_sizes();
    let Some((server, mut client)) = server_and_client(&tree, &[]) else { return };
    client.connect("a", &server);
    let size = 1 << 20;
    client.get("a", &format!("/{size}.bin"));
    client.connect("b", &server);
    let requests = vec![json!({"path": format!("/{size}.bin")}); ANSWERS];
    let answers = client.requests("b", requests.into());
    let mut ends: Vec<u64> = answers.iter().map(crate::http3::client::Answer::ended_at).collect();
    ends.sort_unstable();
    for answer in &answers {
        answer.assert("one of many", 200, &bytes_of(size));
    }
    // One after the other, the third one would end with the third MiB.
    assert!(ends[2] > 8 << 20, "{ends:?}");
}

#[test]
fn answers_are_those_of_http_1() {
    let tree = Tree::standard();
    let Some((server, mut client)) = server_and_client(&tree, &[]) else { return };
    client.connect("a", &server);
    let url = format!("https://{}", server.address());
    for (method, path, headers) in [
        ("GET", "/alphabet.txt", vec![]),
        ("HEAD", "/alphabet.txt", vec![]),
        ("GET", "/missing", vec![]),
        ("DELETE", "/alphabet.txt", vec![]),
        ("OPTIONS", "/alphabet.txt", vec![]),
        ("GET", "/alphabet.txt", vec![["if-none-match", "*"]]),
        ("GET", "/alphabet.txt", vec![["range", "bytes=3-5"]]),
        ("GET", "/../x", vec![]),
        ("GET", "/a%2fb", vec![]),
    ] {
        let answer =
            client.requests("a", json!([{"method": method, "path": path, "headers": headers}])).remove(0);
        let mut arguments =
            vec!["--insecure", "--http1.1", "--path-as-is", "--output", "/dev/null", "--dump-header", "-"];
        match method {
            "HEAD" => arguments.push("--head"),
            _ => arguments.extend(["--request", method]),
        }
        let lines: Vec<String> = headers.iter().map(|[name, value]| format!("{name}: {value}")).collect();
        lines.iter().for_each(|line| arguments.extend(["--header", line]));
        let url = format!("{url}{path}");
        arguments.push(&url);
        let Some(output) = curl(arguments) else { return };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let head = text.split("\r\n\r\n").next().expect("a head ends");
        let status = head.split(' ').nth(1).expect("a status line");
        assert_eq!(answer.status().to_string(), status, "{method} {path} {headers:?}");
        for line in head.lines().skip(1) {
            let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no field: {line}"));
            let name = name.to_ascii_lowercase();
            if !matches!(&name[..], "date" | "connection") {
                assert_eq!(answer.field(&name), Some(value.trim()), "{method} {path} {headers:?}: {name}");
            }
        }
    }
}

#[test]
fn connect_has_the_same_answer_in_every_version() {
    let tree = Tree::standard();
    let Some((server, mut client)) = server_and_client(&tree, &[]) else { return };
    client.connect("a", &server);
    let answer = client.requests("a", json!([{"method": "CONNECT", "authority": "a:80"}])).remove(0);
    assert_eq!((answer.status(), answer.field("allow")), (405, Some("GET, HEAD, OPTIONS")));
    let plain = Server::configured(tree.around(), &tree.configuration(""));
    let answer = plain.connect().ask("CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n");
    assert_eq!((answer.status, answer.field("allow")), (405, Some("GET, HEAD, OPTIONS")));
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let stream = tokio::net::TcpStream::connect(plain.address()).await.unwrap();
        let (mut send_request, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let request = http::Request::builder().method("CONNECT").uri("a:80").body(()).unwrap();
        let (response, _upload) = send_request.send_request(request, false).unwrap();
        let response = response.await.unwrap();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["allow"]),
            (405, &"GET, HEAD, OPTIONS".parse().unwrap())
        );
    });
}

#[test]
fn a_client_that_takes_no_more_is_given_up() {
    let tree = Tree::standard();
    tree.write("long.bin", bytes_of(1 << 20));
    let limits = "[limits]\nstall_timeout = \"500ms\"";
    let Some((server, mut client)) = configured(&tree, limits, "development_certificate = true") else {
        return;
    };
    client.connect_with("a", &server, json!({"takes_bytes": 20_000}));
    let answer = client.get("a", "/long.bin");
    assert_eq!(answer.status(), 200);
    // H3_REQUEST_CANCELLED.
    assert_eq!(answer.reset(), Some(0x10c));
}

#[test]
fn many_requests_at_once_and_more_than_may_be() {
    let tree = tree_of_sizes();
    let Some((server, mut client)) =
        configured(&tree, "[limits]\nhttp3_streams = 10", "development_certificate = true")
    else {
        return;
    };
    client.connect("a", &server);
    let of = |index: usize| SIZES[index % SIZES.len()];
    let requests: Vec<_> = (0..90).map(|index| json!({"path": format!("/{}.bin", of(index))})).collect();
    for (index, answer) in client.requests("a", json!(requests)).iter().enumerate() {
        answer.assert(&format!("request {index}"), 200, &bytes_of(of(index)));
    }
}

#[test]
fn request_bodies_are_asked_for_read_and_limited() {
    let tree = Tree::standard();
    let Some((server, mut client)) =
        configured(&tree, "[limits]\nbody_bytes = 100000", "development_certificate = true")
    else {
        return;
    };
    client.connect("a", &server);
    let answers = client.requests(
        "a",
        json!([
            {"method": "POST", "path": "/", "body": "hello", "headers": [["content-length", "5"]]},
            {"method": "POST", "path": "/", "body_bytes": 100_000, "trailers": [["checksum", "1"]]},
            {"method": "POST", "path": "/", "headers": [["content-length", "100001"]], "body_bytes": 100_001},
            {"method": "POST", "path": "/", "headers": [["expect", "100-continue"]], "body": "x"},
            {"method": "POST", "path": "/", "headers": [["expect", "a miracle"]], "body": "x"},
            {"path": "/alphabet.txt", "body": "GET with a body"},
        ]),
    );
    let statuses: Vec<u64> = answers.iter().map(|answer| answer.status()).collect();
    assert_eq!(statuses, [405, 405, 413, 405, 417, 200]);
    assert_eq!(answers[3].interim(), [100]);
    // The connection is none the worse for it.
    assert_eq!(client.get("a", "/alphabet.txt").status(), 200);
}

#[test]
fn header_sections_over_the_limits_are_answered() {
    let tree = Tree::standard();
    let Some((server, mut client)) = server_and_client(&tree, &[]) else { return };
    client.connect("a", &server);
    let long = "x".repeat(40_000);
    let many: Vec<[&str; 2]> = vec![["a", "b"]; 300];
    let answers = client.requests(
        "a",
        json!([
            {"path": "/alphabet.txt", "headers": [["long", long]]},
            {"path": "/alphabet.txt", "headers": many},
            {"path": "/alphabet.txt"},
        ]),
    );
    let statuses: Vec<u64> = answers.iter().map(|answer| answer.status()).collect();
    assert_eq!(statuses, [431, 431, 200]);
}
