//! Answers of origins and programs are compressed by the `compression` keys of their site.

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::sync::{Mutex, atomic::AtomicUsize, atomic::Ordering};

use super::{proxy, to};
use crate::support::{Origin, Server, Tree, curl, read_head};

/// What curl gets, decoded, and the answer's head.
fn ask(server: &Server, more: &[&str]) -> Option<(String, String)> {
    let url = format!("http://{}/app/", server.address());
    let output = curl(["--include", "--no-buffer"].iter().chain(more).chain(&[url.as_str()]))?;
    assert!(output.status.success(), "{more:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n");
    let (head, body) = text.split_once("\n\n").expect("a head");
    Some((head.to_ascii_lowercase(), body.to_string()))
}

fn page() -> String {
    "<p>the same again and again</p>\n".repeat(5000)
}

/// Answers with the page, in pieces and of no known length, or whole.
fn origin(is_whole: bool) -> (Origin, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let origin = Origin::start(move |stream| {
        while read_head(stream).is_some() {
            counted.fetch_add(1, Ordering::SeqCst);
            let page = page();
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nCache-Control: max-age=600\r\nETag: \"a\"\r\n";
            if is_whole {
                write!(stream, "{head}Content-Length: {}\r\n\r\n{page}", page.len()).unwrap();
                continue;
            }
            write!(stream, "{head}Transfer-Encoding: chunked\r\n\r\n").unwrap();
            for piece in page.as_bytes().chunks(30_000) {
                write!(stream, "{:x}\r\n", piece.len()).unwrap();
                stream.write_all(piece).unwrap();
                stream.write_all(b"\r\n").unwrap();
            }
            stream.write_all(b"0\r\n\r\n").unwrap();
        }
    });
    (origin, asked)
}

#[test]
fn answers_of_origins_are_compressed() {
    let tree = Tree::standard();
    for is_whole in [false, true] {
        let (origin, _) = origin(is_whole);
        let server = proxy(&tree, &to(&[&origin], &[]), "");
        for version in ["--http1.1", "--http2-prior-knowledge"] {
            let Some((head, body)) = ask(&server, &[version]) else { return };
            assert!(body == page() && !head.contains("content-encoding"), "{head}");
            assert!(head.contains("\nvary: accept-encoding") && head.contains("\netag: \"a\""), "{head}");
            let gzip = [version, "--compressed", "--header", "Accept-Encoding: gzip"];
            let Some((head, body)) = ask(&server, &gzip) else { return };
            assert!(body == page(), "{head}");
            for line in ["content-encoding: gzip", "vary: accept-encoding", "etag: w/\"a\""] {
                assert!(head.contains(&format!("\n{line}")), "{line}: {head}");
            }
        }
    }
}

/// What the cache has stored is of one coding, and each client gets what it can read.
#[test]
fn the_cache_never_mixes_codings() {
    let tree = Tree::standard();
    let (origin, asked) = origin(false);
    let server = proxy(&tree, &to(&[&origin], &[]), "[site.route.cache]\n");
    for _ in 0..3 {
        for (accepts, coding) in
            [("", ""), ("gzip", "gzip"), ("br", "br"), ("zstd;q=0", ""), ("zstd", "zstd")]
        {
            let field = format!("Accept-Encoding: {accepts}");
            let fields: &[&str] = if accepts.is_empty() { &[] } else { &["--header", &field] };
            let Some((head, body)) = ask(&server, fields) else { return };
            let says = head.lines().find_map(|line| line.strip_prefix("content-encoding: "));
            assert_eq!(says.unwrap_or_default(), coding, "{head}");
            assert_eq!(body == page(), coding.is_empty(), "{head}");
        }
    }
    // Once for each, however often it is requested.
    assert!((4..=5).contains(&asked.load(Ordering::SeqCst)), "{asked:?}");
}

/// What an origin has written so far can be read by the client, before the rest arrives.
#[test]
fn what_an_origin_has_written_is_flushed() {
    let tree = Tree::standard();
    let (read, was_read) = channel::<()>();
    let was_read = Mutex::new(was_read);
    let origin = Origin::start(move |stream| {
        read_head(stream).unwrap();
        let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head).unwrap();
        stream.write_all(b"5\r\nfirst\r\n").unwrap();
        was_read.lock().unwrap().recv().unwrap();
        stream.write_all(b"4\r\nlast\r\n0\r\n\r\n").unwrap();
    });
    let server = proxy(&tree, &to(&[&origin], &[]), "");
    let mut client = server.connect();
    client.send("GET /app/ HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n");
    let mut decoder = flate2::read::GzDecoder::new(Dechunked::behind_head(client.stream()));
    let mut first = [0; 5];
    std::io::Read::read_exact(&mut decoder, &mut first).unwrap();
    assert_eq!(&first, b"first");
    read.send(()).unwrap();
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut decoder, &mut rest).unwrap();
    assert_eq!(rest, "last");
}

/// The content of chunks, as they arrive.
struct Dechunked<'a> {
    stream: &'a std::net::TcpStream,
    left: usize,
}

impl Dechunked<'_> {
    fn behind_head(stream: &std::net::TcpStream) -> Dechunked<'_> {
        while !(Dechunked { stream, left: 0 }).line().is_empty() {}
        Dechunked { stream, left: 0 }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let mut byte = [0];
        while !line.ends_with("\r\n") {
            std::io::Read::read_exact(&mut self.stream, &mut byte).unwrap();
            line.push(byte[0].into());
        }
        line.trim_end().to_string()
    }
}

impl std::io::Read for Dechunked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.left == 0 {
            self.left = usize::from_str_radix(&self.line(), 16).unwrap();
            if self.left == 0 {
                return Ok(0);
            }
        }
        let room = buffer.len().min(self.left);
        let count = self.stream.read(&mut buffer[..room])?;
        self.left -= count;
        if self.left == 0 {
            self.line();
        }
        Ok(count)
    }
}
