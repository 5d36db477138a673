//! Applications of other authors for ASGI, each served by us and by uvicorn, with the same requests.

use std::net::SocketAddr;
use std::path::Path;

use super::applications::{SETTINGS, site, visit_admin};
use super::rival::Rival;
use super::visitor::{Visitor, compare};
use super::{Route, environment, programs, serve};
use crate::servlet::websocket::WebSocket;
use crate::support::{Server, Tree};

/// An application on both servers.
struct Both {
    /// Kept as long as the server.
    _tree: Tree,
    ours: Server,
    theirs: Rival,
}

fn both(app: &str, [ours, theirs]: [&Path; 2]) -> Option<Both> {
    let environment = environment()?;
    let tree = Tree::empty();
    let rival = Rival::uvicorn(app, theirs, environment);
    let route = Route::new("/", app, ours, environment).with("protocol = \"asgi\", workers = 1");
    let server = serve(&tree, &[route], "");
    Some(Both { _tree: tree, ours: server, theirs: rival })
}

impl Both {
    fn compare(&self, name: &str, visit: impl Fn(&mut Visitor)) {
        compare(name, self.ours.address(), self.theirs.address(), visit);
    }

    fn addresses(&self) -> [SocketAddr; 2] {
        [self.ours.address(), self.theirs.address()]
    }
}

#[test]
fn django_over_asgi() {
    let Some(environment) = environment() else { return };
    let place = tempfile::tempdir().unwrap();
    let sites = site(environment, place.path(), "django-admin", "trial/settings.py", SETTINGS);
    let Some(both) = both("trial.asgi:application", [&sites[0], &sites[1]]) else { return };
    both.compare("django over ASGI", visit_admin);
}

#[test]
fn notes_in_fastapi_with_their_documentation_and_a_room() {
    let directory = programs();
    let Some(both) = both("fastapi_notes:app", [&directory, &directory]) else { return };
    both.compare("fastapi", |visitor| {
        let page = visitor.get("/docs");
        assert!(String::from_utf8_lossy(&page.body).contains("<title>notes - Swagger UI</title>"));
        visitor.get("/redoc");
        assert!(String::from_utf8_lossy(&visitor.get("/openapi.json").body).contains("\"/notes/{number}\""));
        assert_eq!(visitor.get("/notes/1").status, 401);
        assert_eq!(visitor.ask("GET", "/notes/one", "X-Reader: ann\r\n", b"").status, 422);
        visitor.ask("GET", "/notes/7?q=a%20b%C3%BC", "X-Reader: ann\r\n", b"");
        let note = b"{\"title\": \"first\", \"tags\": [\"a\", \"b\"]}";
        assert_eq!(visitor.post("/notes", "application/json", note).status, 201);
        assert_eq!(visitor.post("/notes", "application/json", b"{\"title\": 1}").status, 422);
        assert_eq!(visitor.post("/notes", "application/json", b"{not json").status, 422);
        assert_eq!(visitor.get("/done").body, b"[\"first\"]");
        let upload = b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\
            Content-Type: text/plain\r\n\r\nhello\r\n--b--\r\n";
        visitor.post("/upload", "multipart/form-data; boundary=b", upload);
        assert_eq!(visitor.get("/stream").body.len(), 8890);
        visitor.ask("HEAD", "/docs", "", b"");
        visitor.ask("DELETE", "/notes", "", b"");
        assert_eq!(visitor.get("/fails").status, 500);
        visitor.get("/none");
    });
    for address in both.addresses() {
        let mut room = WebSocket::open(address, "/room/hall").unwrap();
        room.say("hello").unwrap();
        room.say("caf\u{e9}").unwrap();
        assert_eq!(room.hear().unwrap(), "hall: hello");
        assert_eq!(room.hear().unwrap(), "hall: caf\u{e9}");
        room.close().unwrap();
    }
}

#[test]
fn news_in_starlette() {
    let directory = programs();
    let Some(both) = both("starlette_news:app", [&directory, &directory]) else { return };
    both.compare("starlette", |visitor| {
        assert!(String::from_utf8_lossy(&visitor.get("/?a=%20").body).contains("the daily"));
        visitor.get("/section/local/a%20b");
        visitor.post("/echo", "text/plain", b"hello");
        visitor.ask("PUT", "/echo", "", b"put");
        visitor.post("/slowly", "text/plain", &vec![b'x'; 300_000]);
        let events = visitor.get("/events");
        assert_eq!(events.field("content-type"), Some("text/event-stream; charset=utf-8"));
        assert!(String::from_utf8_lossy(&events.body).ends_with("data: news 4\n\n"));
        let source = visitor.get("/source");
        let tag = source.field("etag").unwrap().to_string();
        let part = visitor.ask("GET", "/source", "Range: bytes=0-9\r\n", b"");
        assert_eq!((part.status, part.body.len()), (206, 10));
        visitor.ask("GET", "/files/starlette_news.py", &format!("If-None-Match: {tag}\r\n"), b"");
        visitor.ask("HEAD", "/source", "", b"");
        visitor.ask("GET", "/source", "Accept-Encoding: gzip\r\n", b"");
        assert_eq!(visitor.get("/moved").field("location"), Some("http://shop.example/"));
        visitor.get("/files/no-such-file");
        visitor.ask("PATCH", "/echo", "", b"");
    });
}

#[test]
fn a_library_in_litestar() {
    let directory = programs();
    let Some(both) = both("litestar_library:app", [&directory, &directory]) else { return };
    both.compare("litestar", |visitor| {
        visitor.get("/");
        visitor.get("/books/1");
        assert_eq!(visitor.get("/books/9").status, 404);
        assert_eq!(visitor.get("/books/one").status, 404);
        let book = "{\"title\": \"caf\u{e9}\", \"pages\": 7}";
        assert_eq!(visitor.post("/books", "application/json", book.as_bytes()).status, 201);
        assert_eq!(visitor.post("/books", "application/json", b"{\"title\": 1}").status, 400);
        assert_eq!(visitor.post("/books", "application/json", b"{not json").status, 400);
        assert_eq!(visitor.get("/slow").body, b"GET of /slow");
        let upload = b"--b\r\nContent-Disposition: form-data; name=\"data\"; filename=\"a.txt\"\r\n\
            Content-Type: text/plain\r\n\r\nhello\r\n--b--\r\n";
        visitor.post("/upload", "multipart/form-data; boundary=b", upload);
        assert_eq!(visitor.get("/stream").body.len(), 8890);
        assert!(String::from_utf8_lossy(&visitor.get("/events").body).ends_with("data: book 2\r\n\r\n"));
        visitor.get("/source");
        assert_eq!(visitor.get("/moved").field("location"), Some("/"));
        visitor.ask("HEAD", "/", "", b"");
        visitor.ask("DELETE", "/books", "", b"");
        assert_eq!(visitor.get("/fails").status, 500);
        assert!(String::from_utf8_lossy(&visitor.get("/schema/openapi.json").body).contains("\"Book\""));
    });
    for address in both.addresses() {
        let mut desk = WebSocket::open(address, "/desk").unwrap();
        desk.say("a question").unwrap();
        assert_eq!(desk.hear().unwrap(), "the desk has a question");
        desk.close().unwrap();
    }
}

#[test]
fn rooms_of_django_channels() {
    let directory = programs();
    let Some(both) = both("channels_room:application", [&directory, &directory]) else { return };
    both.compare("channels", |visitor| {
        assert_eq!(visitor.get("/").body, b"GET of /, 0 bytes");
        assert_eq!(visitor.get("/later?a=%20b").status, 200);
        visitor.ask("HEAD", "/later", "", b"");
        assert_eq!(visitor.get("/clock").body, b"0 bytes, and the end");
        assert_eq!(visitor.post("/clock", "text/plain", &[b'x'; 100_000]).body, b"100000 bytes, and the end");
    });
    for address in both.addresses() {
        let mut rooms: Vec<WebSocket> =
            (0..3).map(|_| WebSocket::open(address, "/room/hall").unwrap()).collect();
        let mut other = WebSocket::open(address, "/room/other").unwrap();
        rooms[0].say("{\"message\": \"caf\u{e9}\"}").unwrap();
        other.say("{\"message\": \"alone\"}").unwrap();
        for room in &mut rooms {
            assert_eq!(room.hear().unwrap(), "{\"message\": \"caf\\u00e9\"}");
        }
        assert_eq!(other.hear().unwrap(), "{\"message\": \"alone\"}");
        rooms.into_iter().for_each(|room| room.close().unwrap());
    }
}
