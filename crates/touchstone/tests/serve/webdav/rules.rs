//! The rules of RFC 4918 where clients seldom test them, and the limits of the configuration.

use std::fs;

use super::{ask, configuration, head, lock, properties, put, server, set_property, status, text};
use crate::support::{Client, Server, Tree, error_lines, run};

#[test]
fn options_tell_what_is_served() {
    let tree = Tree::empty();
    let server = server(&tree, "");
    let answer = ask(server.address(), "OPTIONS", "/", "", b"");
    assert_eq!(
        (answer.status, answer.field("dav"), answer.field("ms-author-via")),
        (200, Some("1, 2"), Some("DAV"))
    );
    let allow = "OPTIONS, GET, HEAD, PROPFIND, PROPPATCH, MKCOL, PUT, DELETE, COPY, MOVE, LOCK, UNLOCK";
    assert_eq!(answer.field("allow"), Some(allow));
    assert_eq!(status(server.address(), "POST", "/", ""), 405);
    assert_eq!(status(server.address(), "REPORT", "/", ""), 501);
}

#[test]
fn without_write_nothing_is_changed() {
    let tree = Tree::empty();
    tree.write("a.txt", "kept");
    let state = tree.beside("state");
    let text =
        format!("{}[[site.route]]\npath = \"/\"\nwebdav = {{ state = {state:?} }}\n", tree.configuration(""));
    let server = Server::configured(tree.around(), &text);
    let address = server.address();
    assert_eq!(ask(address, "OPTIONS", "/", "", b"").field("dav"), Some("1"));
    for method in ["PUT", "DELETE", "MKCOL", "PROPPATCH", "LOCK", "UNLOCK", "COPY", "MOVE"] {
        let answer = ask(address, method, "/a.txt", "Destination: /b.txt\r\n", b"");
        assert_eq!(
            (answer.status, answer.field("allow")),
            (405, Some("OPTIONS, GET, HEAD, PROPFIND")),
            "{method}"
        );
    }
    assert!(properties(address, "/a.txt").contains("<D:getcontentlength>4</D:getcontentlength>"));
    assert_eq!(fs::read_to_string(tree.file("a.txt")).expect("it is there"), "kept");
    assert!(!state.exists(), "files that are only read need no state");
}

#[test]
fn uploads_without_webdav() {
    let tree = Tree::empty();
    let server = server(&tree, ", methods = [\"PUT\", \"DELETE\"]");
    let address = server.address();
    assert_eq!(ask(address, "OPTIONS", "/", "", b"").field("dav"), None);
    assert_eq!(put(address, "/a.txt", "a"), 201);
    assert_eq!(status(address, "PROPFIND", "/a.txt", ""), 405);
    assert_eq!(status(address, "LOCK", "/a.txt", ""), 405);
    assert_eq!(status(address, "DELETE", "/a.txt", ""), 204);
    assert_eq!(status(address, "GET", "/a.txt", ""), 404);
}

#[test]
fn an_open_route_must_be_meant() {
    let tree = Tree::empty();
    let check = |keys: &str, more: &str| {
        let state = tree.beside("state");
        let text = format!(
            "[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = {:?}\n[[site.route]]\npath = \"/\"\n{more}\n\
             webdav = {{ state = {state:?}, {keys} }}\n",
            tree.root()
        );
        let file = tree.beside("check.toml");
        fs::write(&file, text).expect("a configuration");
        run(["check", "--config", file.to_str().expect("a name")])
    };
    let refused = check("write = true", "");
    assert!(!refused.status.success());
    let lines = error_lines(&refused).join("\n");
    assert!(lines.contains("every client could change files") && lines.contains("open = true"), "{lines}");
    for (keys, more) in [
        ("write = true, open = true", ""),
        ("write = true", "allow = [\"127.0.0.1\"]"),
        ("write = true", "login = { issuer = \"https://login.example.org\", client_id = \"a\" }"),
        ("write = false", ""),
    ] {
        let output = check(keys, more);
        assert!(output.status.success(), "{keys} {more}: {:?}", error_lines(&output));
    }
    let refused = check("write = true", "login = { issuer = \"off\" }");
    let lines = error_lines(&refused).join("\n");
    assert!(lines.contains("every client could change files") && lines.contains("'login'"), "{lines}");
    let refused = check("methods = [\"PUT\"]", "");
    assert!(error_lines(&refused).join("\n").contains("needs 'write = true'"));
    let refused = check("methods = [\"POST\"]", "");
    assert!(error_lines(&refused).join("\n").contains("\"POST\" is not one of PROPFIND"));
    let refused = check("write = true, open = true, state = 1", "");
    assert!(!refused.status.success());
    let text = configuration(&tree, "127.0.0.1:0", "", "")
        .replace(&format!("{:?}", tree.beside("state")), &format!("{:?}", tree.file("state")));
    let file = tree.beside("check.toml");
    fs::write(&file, text).expect("a configuration");
    let refused = run(["check", "--config", file.to_str().expect("a name")]);
    let lines = error_lines(&refused).join("\n");
    assert!(!refused.status.success() && lines.contains("where clients could read and change it"), "{lines}");
}

#[test]
fn a_tree_is_asked_for_only_where_that_is_allowed() {
    let tree = Tree::empty();
    tree.write("a/b/c.txt", "c");
    let server = server(&tree, ", entries = 3");
    let answer = ask(server.address(), "PROPFIND", "/", "", b"");
    assert_eq!(answer.status, 403);
    assert!(text(&answer).contains("<D:propfind-finite-depth>"), "{}", text(&answer));
    drop(server);
    let server = Server::configured(
        tree.around(),
        &configuration(&tree, "127.0.0.1:0", ", infinite_depth = true, entries = 4", ""),
    );
    let answer = ask(server.address(), "PROPFIND", "/", "Depth: infinity\r\n", b"");
    assert_eq!(answer.status, 207);
    assert!(text(&answer).contains("<D:href>/a/b/c.txt</D:href>"), "{}", text(&answer));
    tree.write("a/b/d.txt", "d");
    let answer = ask(server.address(), "PROPFIND", "/", "Depth: infinity\r\n", b"");
    assert_eq!(answer.status, 507);
    assert_eq!(status(server.address(), "COPY", "/a", "Destination: /z\r\n"), 201);
    tree.write("a/b/e.txt", "e");
    assert_eq!(status(server.address(), "COPY", "/a", "Destination: /y\r\n"), 507);
    assert!(!tree.file("y").exists());
    let left = fs::read_dir(tree.root()).expect("the root").flatten();
    let left: Vec<_> =
        left.map(|entry| entry.file_name()).filter(|name| name != "a" && name != "z").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn bodies_in_xml_have_limits() {
    let tree = Tree::empty();
    tree.write("a.txt", "a");
    let server = server(&tree, ", xml_bytes = \"1KiB\", properties = \"2KiB\"");
    let address = server.address();
    let long = format!("<propfind xmlns='DAV:'><propname/><x>{}</x></propfind>", "y".repeat(1024));
    assert_eq!(ask(address, "PROPFIND", "/a.txt", "Depth: 0\r\n", long.as_bytes()).status, 413);
    let entity = b"<!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]>\
                   <propfind xmlns='DAV:'><prop>&e;</prop></propfind>";
    assert_eq!(ask(address, "PROPFIND", "/a.txt", "Depth: 0\r\n", entity).status, 400);
    for index in 0..2 {
        assert_eq!(set_property(address, "/a.txt", &format!("p{index}"), &"v".repeat(700)), 200);
    }
    let body = format!(
        "<propertyupdate xmlns='DAV:'><set><prop><q xmlns='urn:q'>{}</q></prop></set></propertyupdate>",
        "v".repeat(700)
    );
    let answer = ask(address, "PROPPATCH", "/a.txt", "", body.as_bytes());
    assert!(answer.status == 207 && text(&answer).contains("HTTP/1.1 507"), "{}", text(&answer));
    assert!(!properties(address, "/a.txt").contains("urn:q"));
}

#[test]
fn properties_are_changed_together_or_not_at_all() {
    let tree = Tree::empty();
    tree.write("a.txt", "a");
    let server = server(&tree, "");
    let address = server.address();
    let body = "<D:propertyupdate xmlns:D='DAV:'><D:set><D:prop><x xmlns='urn:x'>1</x></D:prop></D:set>\
                <D:set><D:prop><D:getetag>\"mine\"</D:getetag></D:prop></D:set></D:propertyupdate>";
    let answer = ask(address, "PROPPATCH", "/a.txt", "", body.as_bytes());
    let said = text(&answer);
    assert_eq!(answer.status, 207);
    assert!(
        said.contains("403") && said.contains("424") && said.contains("cannot-modify-protected-property"),
        "{said}"
    );
    assert!(!properties(address, "/a.txt").contains("urn:x"));
    assert_eq!(set_property(address, "/a.txt", "colour", "a &amp; &lt;b/&gt;"), 200);
    assert!(properties(address, "/a.txt").contains("<colour xmlns=\"urn:test\">a &amp; &lt;b/&gt;</colour>"));
    // They go with the file, and a new file does not inherit them.
    assert_eq!(status(address, "COPY", "/a.txt", "Destination: /b.txt\r\n"), 201);
    assert_eq!(status(address, "MOVE", "/a.txt", "Destination: /c.txt\r\n"), 201);
    assert!(
        properties(address, "/b.txt").contains("colour") && properties(address, "/c.txt").contains("colour")
    );
    assert_eq!(put(address, "/a.txt", "new"), 201);
    assert!(!properties(address, "/a.txt").contains("colour"));
}

#[test]
fn concurrent_locks_have_one_winner() {
    let tree = Tree::empty();
    tree.write("a.txt", "a");
    let server = server(&tree, "");
    let address = server.address();
    let wins = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..16)
            .map(|_| scope.spawn(move || ask(address, "LOCK", "/a.txt", "", super::LOCK.as_bytes()).status))
            .collect();
        let statuses: Vec<u16> =
            clients.into_iter().map(|client| client.join().expect("an answer")).collect();
        assert!(statuses.iter().all(|status| matches!(status, 200 | 423)), "{statuses:?}");
        statuses.into_iter().filter(|status| *status == 200).count()
    });
    assert_eq!(wins, 1);
}

#[test]
fn a_lock_protects_its_tree() {
    let tree = Tree::empty();
    tree.write("box/a.txt", "a");
    let server = server(&tree, ", lock_timeout = \"10m\"");
    let address = server.address();
    let token = lock(address, "/box/", "Timeout: Infinite\r\n");
    let told = properties(address, "/box/a.txt");
    let left = told.split("<D:timeout>Second-").nth(1).expect("a timeout");
    let left: u64 = left.split('<').next().expect("a number").parse().expect("a number");
    assert!(left <= 600, "{told}");
    assert!(told.contains("<D:lockroot><D:href>/box/</D:href></D:lockroot>"), "{told}");
    let refused = ask(address, "PUT", "/box/a.txt", "", b"new");
    assert_eq!(refused.status, 423);
    assert!(text(&refused).contains("lock-token-submitted"), "{}", text(&refused));
    assert_eq!(put(address, "/box/new.txt", "new"), 423);
    assert_eq!(status(address, "MKCOL", "/box/new", ""), 423);
    assert_eq!(status(address, "DELETE", "/box", ""), 423);
    assert_eq!(put(address, "/other.txt", "other"), 201);
    assert_eq!(status(address, "MOVE", "/other.txt", "Destination: /box/other.txt\r\n"), 423);
    assert_eq!(status(address, "LOCK", "/box/a.txt", ""), 400);
    assert_eq!(ask(address, "LOCK", "/box/a.txt", "", super::LOCK.as_bytes()).status, 423);
    let with = format!("If: </box/> (<{token}>)\r\n");
    assert_eq!(ask(address, "PUT", "/box/a.txt", &with, b"new").status, 204);
    assert_eq!(ask(address, "PUT", "/box/a.txt", "If: (<urn:uuid:wrong>)\r\n", b"new").status, 412);
    assert_eq!(ask(address, "PUT", "/box/a.txt", "If: (Not <urn:uuid:wrong>)\r\n", b"new").status, 423);
    assert_eq!(ask(address, "PUT", "/box/a.txt", "If: nonsense\r\n", b"new").status, 400);
    assert_eq!(status(address, "UNLOCK", "/other.txt", &format!("Lock-Token: <{token}>\r\n")), 409);
    assert_eq!(status(address, "UNLOCK", "/box/", &format!("Lock-Token: <{token}>\r\n")), 204);
    assert_eq!(put(address, "/box/a.txt", "free"), 204);
}

#[test]
fn conditions_are_obeyed() {
    let tree = Tree::empty();
    let server = server(&tree, "");
    let address = server.address();
    let make = |fields: &str, body: &str| ask(address, "PUT", "/a.txt", fields, body.as_bytes());
    assert_eq!(make("If-Match: *\r\n", "1").status, 412);
    let made = make("If-None-Match: *\r\n", "1");
    assert_eq!(made.status, 201);
    let tag = made.field("etag").expect("a tag").to_string();
    assert_eq!(ask(address, "GET", "/a.txt", "", b"").field("etag"), Some(&*tag));
    assert_eq!(make("If-None-Match: *\r\n", "2").status, 412);
    assert_eq!(make("If-Match: \"other\"\r\n", "2").status, 412);
    assert_eq!(make("If: ([\"other\"])\r\n", "2").status, 412);
    let changed = make(&format!("If-Match: {tag}\r\n"), "2");
    assert_eq!(changed.status, 204);
    assert_eq!(make(&format!("If-Match: {tag}\r\n"), "3").status, 412);
    let tag = changed.field("etag").expect("a tag").to_string();
    assert_eq!(make(&format!("If: ([{tag}])\r\n"), "3").status, 204);
    assert_eq!(status(address, "DELETE", "/a.txt", "If-Match: \"other\"\r\n"), 412);
    assert_eq!(make("Content-Range: bytes 0-0/1\r\n", "4").status, 400);
    assert_eq!(fs::read_to_string(tree.file("a.txt")).expect("it is there"), "3");
    // A client that waits for 100 Continue gets the refusal before it sends the body.
    let mut client = Client::connect(address);
    client.send(head("PUT", "/a.txt", "If-None-Match: *\r\nExpect: 100-continue\r\n", 5));
    assert_eq!(client.answer().status, 412);
}

#[test]
fn what_is_copied_and_moved() {
    let tree = Tree::empty();
    tree.write("a/x.txt", "x");
    tree.write("file.txt", "file");
    tree.write("b/old.txt", "old");
    let server = server(&tree, "");
    let address = server.address();
    let to = |method: &str, from: &str, to: &str, more: &str| {
        status(address, method, from, &format!("Destination: http://dav.example{to}\r\n{more}"))
    };
    assert_eq!(to("COPY", "/a/", "/b/", "Overwrite: F\r\n"), 412);
    assert_eq!(to("COPY", "/a/", "/b/", ""), 204);
    assert!(tree.file("b/x.txt").exists() && !tree.file("b/old.txt").exists());
    assert_eq!(to("COPY", "/a/", "/flat/", "Depth: 0\r\n"), 201);
    assert!(tree.file("flat").is_dir() && !tree.file("flat/x.txt").exists());
    assert_eq!(to("MOVE", "/file.txt", "/flat", ""), 204);
    assert_eq!(fs::read_to_string(tree.file("flat")).expect("a file"), "file");
    assert_eq!(to("MOVE", "/a/", "/flat", ""), 204);
    assert!(tree.file("flat/x.txt").exists() && !tree.file("a").exists());
    assert_eq!(to("MOVE", "/flat/", "/missing/there/", ""), 409);
    assert_eq!(to("COPY", "/missing", "/there", ""), 404);
    assert_eq!(to("MOVE", "/flat/", "/flat/inner/", ""), 403);
    assert_eq!(to("MOVE", "/flat/", "/flat/", ""), 403);
    assert_eq!(to("MOVE", "/flat/x.txt", "/flat/", ""), 403);
    assert_eq!(status(address, "MOVE", "/flat/", ""), 400);
    assert_eq!(put(address, "/none/x.txt", "x"), 409);
    assert_eq!(put(address, "/b/", "x"), 405);
    assert_eq!(ask(address, "MKCOL", "/c", "", b"body").status, 415);
}

#[test]
fn the_lock_of_a_user_is_of_no_use_to_another() {
    // The words are `ann-word` and `bob-word`.
    const USERS: &str = "ann:$6$saltsalt$amcJ3fhDJ4ny/0Pxq1SDoXvMAcZivN9LKW/RoHn0\
        b/nJf2t0FElhslXlcv5h7oxJWPHcwNlX/tnff5SsCN.LX/\n\
        bob:$6$saltsalt$zKoTOYUGysgkQ6x3SAF0OKLg.WSBd7azx7HFjvYm\
        HLx.uM3qrIqsUZHi7bEcEkoo7CHm/fdKsPiPzrhgu7ybz.\n";
    const ANN: &str = "Authorization: Basic YW5uOmFubi13b3Jk\r\n";
    const BOB: &str = "Authorization: Basic Ym9iOmJvYi13b3Jk\r\n";
    let tree = Tree::empty();
    tree.write("a.txt", "a");
    fs::write(tree.beside("users"), USERS).expect("users");
    let more = format!("basic_authentication = {{ file = {:?} }}", tree.beside("users"));
    let text = configuration(&tree, "127.0.0.1:0", "", &more).replace("open = true, ", "");
    let server = Server::configured(tree.around(), &text);
    let address = server.address();
    assert_eq!(put(address, "/a.txt", "new"), 401);
    let token = lock(address, "/a.txt", ANN);
    let with = |user: &str| format!("{user}If: (<{token}>)\r\n");
    assert_eq!(ask(address, "PUT", "/a.txt", &with(BOB), b"bob").status, 423);
    assert_eq!(status(address, "UNLOCK", "/a.txt", &format!("{BOB}Lock-Token: <{token}>\r\n")), 403);
    assert_eq!(status(address, "LOCK", "/a.txt", &with(BOB)), 412);
    assert_eq!(ask(address, "PUT", "/a.txt", &with(ANN), b"ann").status, 204);
    assert_eq!(status(address, "LOCK", "/a.txt", &with(ANN)), 200);
    assert_eq!(status(address, "UNLOCK", "/a.txt", &format!("{ANN}Lock-Token: <{token}>\r\n")), 204);
    assert_eq!(ask(address, "PUT", "/a.txt", BOB, b"bob").status, 204);
}
