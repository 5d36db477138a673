//! Bodies of unknown length (chunked), for plug-ins that support only Content-Length.
//!
//! NSAPI plug-ins read as many bytes as that field states, and assume that a request without it has no body.
//! Therefore such a body is read as a whole first, into a file if it is long, as for CGI and FastCGI.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;

use touchstone_handler::pipe::{self, Sender};
use touchstone_handler::request::Request;
use touchstone_interfaces::backend::Upload;

/// The most bytes of the body that are read ahead of the plug-in.
const AHEAD_BYTES: usize = 128 * 1024;

/// The request with Content-Length in place of Transfer-Encoding.
///
/// # Errors
/// The body broke off, or cannot be stored.
pub async fn with_known_length(mut request: Request) -> io::Result<Request> {
    let upload = Upload::new(request.take_body(), None).await?;
    let length = upload.length().to_string();
    let stays = |name: &[u8]| {
        !name.eq_ignore_ascii_case(b"transfer-encoding") && !name.eq_ignore_ascii_case(b"content-length")
    };
    let received = request.received.with_fields(stays, [(&b"Content-Length"[..], length.as_bytes())]);
    request.received = Rc::new(received.ok_or_else(|| io::Error::other("the head cannot be rebuilt"))?);
    let (sender, body) = pipe::pipe(AHEAD_BYTES);
    request.body = body;
    tokio::task::spawn_local(pass_on(upload, sender));
    Ok(request)
}

async fn pass_on(mut upload: Upload, mut sender: Sender) {
    while let Some(piece) = poll_fn(|context| upload.poll_next(context)).await {
        match piece {
            // Sending fails if the plug-in has answered without reading the rest.
            Ok(piece) => {
                if sender.send(piece).await.is_err() {
                    return;
                }
            }
            Err(error) => return sender.fail(error),
        }
    }
    sender.finish();
}
