//! A call of gRPC with one message in each direction, over HTTP/2: with TLS, or without for addresses that
//! begin with `http:`.
//!
//! The whole answer is read, with limits on its size; the caller sets the limit on time.

use bytes::{Buf, Bytes, BytesMut};
use h2::client::{ResponseFuture, SendRequest};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, TE, USER_AGENT};
use http::{Request, StatusCode, Uri};

use crate::connection::Connection;
use crate::{HttpClient, RequestFailure};

/// The length of the head of a message: whether it is compressed, and its length.
const HEAD_BYTES: usize = 5;

/// The code of a call without a status, or with one that is not understood.
pub const UNKNOWN: u32 = 2;

/// The code of a service that cannot answer now.
pub const UNAVAILABLE: u32 = 14;

/// A call.
pub struct Call<'a> {
    /// The server, and the path of the method.
    pub uri: Uri,
    /// Metadata.
    pub fields: &'a [(HeaderName, HeaderValue)],
    /// The message is compressed by gzip.
    pub is_gzip: bool,
    /// The message.
    pub message: &'a [u8],
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallAnswer {
    /// The code; 0: the call has succeeded.
    pub code: u32,
    /// The server's message about it.
    pub message: String,
    /// The value of `grpc-status-details-bin`, in base64; empty: there is none.
    pub details: String,
    /// The message of the answer; empty: there is none.
    pub body: Bytes,
}

impl HttpClient {
    /// Calls a method and waits for its answer.
    pub async fn call(&self, call: &Call<'_>) -> Result<CallAnswer, RequestFailure> {
        let about = |message: String| RequestFailure::about(&call.uri, message);
        let stream = Connection::open(&self.tls_http2, &call.uri, self.ca_key, self.is_public_only)
            .await
            .map_err(about)?;
        let failed = |error: h2::Error| about(format!("HTTP/2 failed: {error}"));
        let (sender, connection) = h2::client::handshake(stream).await.map_err(failed)?;
        let exchange = self.exchange_message(sender, call);
        // The connection moves the bytes; it ends with the exchange.
        tokio::pin!(exchange, connection);
        tokio::select! {
            answer = &mut exchange => answer,
            ended = &mut connection => match ended {
                Ok(()) => exchange.await,
                Err(error) => Err(failed(error)),
            },
        }
    }

    async fn exchange_message(
        &self,
        sender: SendRequest<Bytes>,
        call: &Call<'_>,
    ) -> Result<CallAnswer, RequestFailure> {
        let about = |message: String| RequestFailure::about(&call.uri, message);
        let failed = |error: h2::Error| about(format!("HTTP/2 failed: {error}"));
        let mut request = Request::post(call.uri.clone())
            .header(CONTENT_TYPE, "application/grpc")
            .header(TE, "trailers")
            .header(USER_AGENT, self.user_agent.clone());
        if call.is_gzip {
            request = request.header("grpc-encoding", "gzip");
        }
        for (name, value) in call.fields {
            request = request.header(name, value);
        }
        let request = request.body(()).map_err(|error| about(error.to_string()))?;
        let mut sender = sender.ready().await.map_err(failed)?;
        let (response, mut body) = sender.send_request(request, false).map_err(failed)?;
        let length = u32::try_from(call.message.len()).map_err(|error| about(error.to_string()))?;
        let mut framed = BytesMut::with_capacity(HEAD_BYTES + call.message.len());
        framed.extend_from_slice(&[u8::from(call.is_gzip)]);
        framed.extend_from_slice(&length.to_be_bytes());
        framed.extend_from_slice(call.message);
        // A server may answer before it has read the whole request: that is not an error, its answer is used.
        let _ = body.send_data(framed.freeze(), true);
        read_answer(response, self.most_answer_bytes).await.map_err(about)
    }
}

/// Reads the answer to a call.
async fn read_answer(response: ResponseFuture, most_bytes: usize) -> Result<CallAnswer, String> {
    let failed = |error: h2::Error| format!("HTTP/2 failed: {error}");
    let (parts, mut body) = response.await.map_err(failed)?.into_parts();
    if parts.status != StatusCode::OK {
        return Ok(of_http_status(parts.status));
    }
    // An error without a message has its status in the head.
    if parts.headers.contains_key("grpc-status") {
        return Ok(answer_of(&parts.headers, Bytes::new()));
    }
    let mut received = BytesMut::new();
    while let Some(piece) = body.data().await {
        let piece = piece.map_err(failed)?;
        // If the connection has ended, the next read returns an error.
        let _ = body.flow_control().release_capacity(piece.len());
        if received.len() + piece.len() > most_bytes {
            return Err(format!("the answer is longer than {most_bytes} bytes"));
        }
        received.extend_from_slice(&piece);
    }
    let trailers = body.trailers().await.map_err(failed)?.unwrap_or_default();
    Ok(answer_of(&trailers, message_of(received.freeze())))
}

/// The first message of a body; empty if it is compressed, because the request does not allow that.
fn message_of(mut body: Bytes) -> Bytes {
    if body.len() < HEAD_BYTES || body[0] != 0 {
        return Bytes::new();
    }
    body.advance(1);
    let length = body.get_u32() as usize;
    body.truncate(length);
    body
}

fn answer_of(fields: &HeaderMap, body: Bytes) -> CallAnswer {
    let text = |name: &str| fields.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    CallAnswer {
        code: text("grpc-status").parse().unwrap_or(UNKNOWN),
        message: text("grpc-message").chars().take(500).collect(),
        details: text("grpc-status-details-bin").to_string(),
        body,
    }
}

/// The answer that corresponds to an HTTP status, as gRPC maps it.
fn of_http_status(status: StatusCode) -> CallAnswer {
    let code = match status.as_u16() {
        429 | 502..=504 => UNAVAILABLE,
        _ => UNKNOWN,
    };
    CallAnswer { code, message: format!("HTTP status {status}"), details: String::new(), body: Bytes::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_taken_out_of_their_frames() {
        assert_eq!(message_of(Bytes::from_static(b"\0\0\0\0\x02abc")), "ab");
        assert_eq!(message_of(Bytes::from_static(b"\0\0\0\0\x09abc")), "abc");
        for bad in [&b""[..], b"\0\0", b"\x01\0\0\0\x01a"] {
            assert_eq!(message_of(Bytes::copy_from_slice(bad)), "");
        }
    }

    #[test]
    fn statuses_of_http_are_codes() {
        assert_eq!(of_http_status(StatusCode::TOO_MANY_REQUESTS).code, UNAVAILABLE);
        assert_eq!(of_http_status(StatusCode::NOT_FOUND).code, UNKNOWN);
        let mut fields = HeaderMap::new();
        assert_eq!(answer_of(&fields, Bytes::new()).code, UNKNOWN);
        fields.insert("grpc-status", HeaderValue::from_static("0"));
        assert_eq!(answer_of(&fields, Bytes::new()).code, 0);
    }
}
