//! A component of the world `wasi:http/proxy` (0.2) in Rust: bodies in pieces, trailers, outgoing requests.

use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    Fields, IncomingBody, IncomingRequest, OutgoingBody, OutgoingRequest, OutgoingResponse, ResponseOutparam,
    Scheme, Trailers,
};
use wasip2::io::streams::OutputStream;

wasip2::http::proxy::export!(Hello);

struct Hello;

impl wasip2::exports::http::incoming_handler::Guest for Hello {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        let path = request.path_with_query().unwrap_or_default();
        if path == "/echo" {
            let Ok(body) = request.consume() else { return };
            answer(out, 200, |stream| copy(body, stream));
        } else if path == "/trailers" {
            answer(out, 200, |stream| {
                write(stream, b"body\n");
                Fields::from_list(&[("x-checksum".to_string(), b"abc".to_vec())]).ok()
            });
        } else if let Some(target) = path.strip_prefix("/ask/") {
            match ask(target) {
                Some((status, body)) => answer(out, status, |stream| copy(body, stream)),
                None => answer(out, 502, |_| None),
            }
        } else {
            answer(out, 200, |stream| {
                write(stream, b"hello from Rust\n");
                None
            });
        }
    }
}

/// Sends the head of an answer, has its body written, and ends it with the trailers that come back.
fn answer(out: ResponseOutparam, status: u16, body: impl FnOnce(&OutputStream) -> Option<Trailers>) {
    let response = OutgoingResponse::new(Fields::new());
    let (Ok(()), Ok(outgoing)) = (response.set_status_code(status), response.body()) else { return };
    ResponseOutparam::set(out, Ok(response));
    let Ok(stream) = outgoing.write() else { return };
    let trailers = body(&stream);
    drop(stream);
    let _ = OutgoingBody::finish(outgoing, trailers);
}

fn write(stream: &OutputStream, bytes: &[u8]) -> bool {
    bytes.chunks(4096).all(|piece| stream.blocking_write_and_flush(piece).is_ok())
}

/// Passes a body on in pieces, and gives its trailers.
fn copy(body: IncomingBody, to: &OutputStream) -> Option<Trailers> {
    if let Ok(stream) = body.stream() {
        while let Ok(piece) = stream.blocking_read(65536) {
            if !write(to, &piece) {
                break;
            }
        }
    }
    let trailers = IncomingBody::finish(body);
    trailers.subscribe().block();
    trailers.get()?.ok()?.ok()?
}

/// Asks another server: `http/127.0.0.1:8080/path`.
fn ask(target: &str) -> Option<(u16, IncomingBody)> {
    let (scheme, rest) = target.split_once('/')?;
    let (authority, path) = rest.split_once('/')?;
    let request = OutgoingRequest::new(Fields::new());
    request.set_scheme(Some(&if scheme == "https" { Scheme::Https } else { Scheme::Http })).ok()?;
    request.set_authority(Some(authority)).ok()?;
    request.set_path_with_query(Some(&format!("/{path}"))).ok()?;
    let future = outgoing_handler::handle(request, None).ok()?;
    future.subscribe().block();
    let response = future.get()?.ok()?.ok()?;
    Some((response.status(), response.consume().ok()?))
}
