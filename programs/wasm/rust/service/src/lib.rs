//! A component of the world `wasi:http/service` (0.3) in Rust: bodies in pieces, trailers, outgoing requests.

use wasip3::http::client;
use wasip3::http::types::{ErrorCode, Fields, Request, Response, Scheme, Trailers};
use wasip3::wit_bindgen::{FutureReader, StreamReader, StreamResult};
use wasip3::{spawn_local, wit_future, wit_stream};

wasip3::http::service::export!(Service);

struct Service;

/// The most bytes that are read at a time.
const PIECE_BYTES: usize = 65536;

type Body = (StreamReader<u8>, FutureReader<Result<Option<Trailers>, ErrorCode>>);

impl wasip3::exports::http::handler::Guest for Service {
    async fn handle(request: Request) -> Result<Response, ErrorCode> {
        let path = request.get_path_with_query().unwrap_or_default();
        if path == "/echo" {
            let (_, done) = wit_future::new(|| Ok(()));
            return Ok(answer(200, Request::consume_body(request, done)));
        }
        if let Some(target) = path.strip_prefix("/ask/") {
            let response = ask(target).await?;
            let status = response.get_status_code();
            let (_, done) = wit_future::new(|| Ok(()));
            return Ok(answer(status, Response::consume_body(response, done)));
        }
        let trailers = path == "/trailers";
        let text = if trailers { "body\n" } else { "hello from Rust\n" };
        let (mut writer, body) = wit_stream::new();
        let (ended, end) = wit_future::new(|| Ok(None));
        spawn_local(async move {
            let _ = writer.write_all(text.as_bytes().to_vec()).await;
            drop(writer);
            let fields = trailers.then(|| Fields::from_list(&[("x-checksum".to_string(), b"abc".to_vec())]));
            let _ = ended.write(Ok(fields.and_then(Result::ok))).await;
        });
        // A component cannot read from a stream that it has made itself.
        let (response, _) = Response::new(Fields::new(), Some(body), end);
        Ok(response)
    }
}

/// An answer with a body of another message, which goes through the component in pieces.
fn answer(status: u16, (mut from, trailers): Body) -> Response {
    let (mut writer, body) = wit_stream::new();
    let (ended, end) = wit_future::new(|| Ok(None));
    spawn_local(async move {
        loop {
            let (result, piece) = from.read(Vec::with_capacity(PIECE_BYTES)).await;
            let is_last = !matches!(result, StreamResult::Complete(_));
            if !writer.write_all(piece).await.is_empty() || is_last {
                break;
            }
        }
        drop(writer);
        let _ = ended.write(trailers.await).await;
    });
    let (response, _) = Response::new(Fields::new(), Some(body), end);
    let _ = response.set_status_code(status);
    response
}

/// Asks another server: `http/127.0.0.1:8080/path`.
async fn ask(target: &str) -> Result<Response, ErrorCode> {
    let wrong = || ErrorCode::HttpRequestUriInvalid;
    let (scheme, rest) = target.split_once('/').ok_or_else(wrong)?;
    let (authority, path) = rest.split_once('/').ok_or_else(wrong)?;
    let (_, end) = wit_future::new(|| Ok(None));
    // Without a length, a request of 0.3 may have trailers, and so has a body.
    let fields = Fields::from_list(&[("content-length".to_string(), b"0".to_vec())]).map_err(|_| wrong())?;
    let (request, _) = Request::new(fields, None, end, None);
    let scheme = if scheme == "https" { Scheme::Https } else { Scheme::Http };
    request.set_scheme(Some(&scheme)).map_err(|()| wrong())?;
    request.set_authority(Some(authority)).map_err(|()| wrong())?;
    request.set_path_with_query(Some(&format!("/{path}"))).map_err(|()| wrong())?;
    client::send(request).await
}
