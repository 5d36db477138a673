//! One request on a connection to an origin: its head and body there, the response back (RFC 9112).
//!
//! Both directions run at once. When the response's head is there the answer is given, and a task brings the rest; it ends
//! with the bodies, with the first error, or when the client leaves.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use touchstone_http::chunked::{ChunkedDecoder, ChunkedLimits, LAST_CHUNK, chunk_head};
use touchstone_http::response::{
    BodyFraming, Parsed, ResponseHead, ResponseLimits, body_framing, parse_response_head,
};

use super::fields::{self, response_fields};
use super::settings::ProxySettings;
use crate::answer::{Answer, Part};
use crate::pipe::{Receiver, Sender, pipe};
use crate::stream::Stream;

/// How much of a response waits for its client.
const PIPE_BYTES: usize = 128 * 1024;

/// A request on its way.
pub struct Transfer {
    /// A connection without another request.
    pub connection: Stream,
    /// The request's head.
    pub head: Vec<u8>,
    /// Its body.
    pub body: Receiver,
    /// Its length; `None`: in chunks.
    pub body_length: Option<u64>,
    /// The response has no body whatever its head says.
    pub is_head: bool,
    /// The client wants to speak another protocol.
    pub switches: bool,
    /// How long things may take.
    pub settings: Arc<ProxySettings>,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum Failure {
    /// It cannot be reached.
    Connect(io::Error),
    /// It closed the connection before it said anything.
    ClosedBeforeResponse(io::Error),
    /// It says something that is no response.
    Response(String),
    /// It takes too long.
    Timeout(&'static str, Duration),
    /// The client's body broke off.
    RequestBody(io::Error),
}

impl Failure {
    /// The status that the client is told.
    pub fn status(&self) -> u16 {
        match self {
            Failure::Timeout(..) => 504,
            Failure::Connect(error) if error.kind() == io::ErrorKind::TimedOut => 504,
            Failure::RequestBody(_) => 400,
            _ => 502,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Connect(error) => write!(formatter, "cannot connect: {error}"),
            Failure::ClosedBeforeResponse(error) => write!(formatter, "no response: {error}"),
            Failure::Response(what) => formatter.write_str(what),
            Failure::Timeout(what, limit) => {
                write!(formatter, "{what} did not come within {} s", limit.as_secs_f64())
            }
            Failure::RequestBody(error) => write!(formatter, "the request's body: {error}"),
        }
    }
}

/// The request's body on its way; done when all of it is written.
type Upload = Pin<Box<dyn Future<Output = Result<(), Failure>>>>;

impl Transfer {
    /// Sends the request and gives the answer when the response's head is there. The connection is given back when both
    /// bodies have ended and it can be used again.
    pub async fn run(self, give_back: impl FnOnce(Stream) + 'static) -> Result<Answer, Failure> {
        let Transfer { connection, head, body, body_length, is_head, switches, settings } = self;
        let connection = Rc::new(connection);
        let mut upload: Option<Upload> = None;
        let mut body = Some(body);
        if body_length == Some(0) {
            connection.send(&head, &[]).await.map_err(Failure::ClosedBeforeResponse)?;
        } else if let Some(body) = body.take() {
            let uploading = send_request(connection.clone(), head, body, body_length, settings.idle_timeout);
            upload = Some(Box::pin(uploading));
        }
        let mut response = Response::new(connection.clone());
        let limit = settings.response_timeout;
        let head = response.read_head(&mut upload, limit).await?;
        if head.status == 101 {
            let Some(body) = body.filter(|_| switches) else {
                return Err(Failure::Response("101 where no other protocol was asked for".to_string()));
            };
            return Ok(switch(connection, response.input, &head, body));
        }
        let framing = body_framing(is_head, &head);
        let mut answer = Answer::new(head.status);
        answer.fields = response_fields(&head);
        answer.date = fields::response_date(&head);
        if matches!(framing, BodyFraming::None) {
            answer.declared_length = head.content_length.filter(|_| is_head || head.status == 304);
        }
        let is_persistent = head.is_persistent() && framing != BodyFraming::UntilClose;
        let length = match framing {
            BodyFraming::None => Some(0),
            BodyFraming::Length(length) => Some(length),
            BodyFraming::Chunked | BodyFraming::UntilClose => None,
        };
        // Small responses mostly come whole: no task, no pipe.
        if upload.is_none() && length == Some(response.input.len() as u64) {
            if length != Some(0) {
                answer.body.push(Part::Bytes(response.input.split().freeze()));
            }
            drop(response);
            if is_persistent && let Some(connection) = Rc::into_inner(connection) {
                give_back(connection);
            }
            return Ok(answer);
        }
        let (sender, receiver) = pipe(PIPE_BYTES);
        answer.body.push(Part::Stream { body: receiver, length });
        tokio::task::spawn_local(async move {
            let ended = response.bring(framing, upload, sender, settings.idle_timeout).await;
            let has_rest = !response.input.is_empty();
            drop(response);
            if ended
                && is_persistent
                && !has_rest
                && let Some(connection) = Rc::into_inner(connection)
            {
                give_back(connection);
            }
        });
        Ok(answer)
    }
}

/// Sends head and body; the first piece goes with the head.
async fn send_request(
    connection: Rc<Stream>,
    head: Vec<u8>,
    mut body: Receiver,
    length: Option<u64>,
    idle_timeout: Duration,
) -> Result<(), Failure> {
    let mut pending = head;
    let mut sent = 0u64;
    let timed = |written: Result<io::Result<()>, _>| match written {
        Ok(result) => result.map_err(Failure::ClosedBeforeResponse),
        Err(_) => Err(Failure::Timeout("room for more of the request", idle_timeout)),
    };
    while let Some(piece) = body.next().await {
        let piece = piece.map_err(Failure::RequestBody)?;
        sent += piece.len() as u64;
        if length.is_none() {
            pending.extend_from_slice(chunk_head(piece.len() as u64, &mut [0; 18]));
        }
        timed(tokio::time::timeout(idle_timeout, connection.send(&pending, &piece)).await)?;
        pending.clear();
        if length.is_none() {
            pending.extend_from_slice(b"\r\n");
        }
    }
    if length.is_some_and(|length| sent != length) {
        return Err(Failure::RequestBody(io::ErrorKind::UnexpectedEof.into()));
    }
    if length.is_none() {
        pending.extend_from_slice(LAST_CHUNK);
    }
    timed(tokio::time::timeout(idle_timeout, connection.send(&pending, &[])).await)
}

/// The response as it comes.
struct Response {
    connection: Rc<Stream>,
    /// Read and not used.
    input: BytesMut,
}

impl Response {
    fn new(connection: Rc<Stream>) -> Response {
        Response { connection, input: BytesMut::new() }
    }

    /// Reads the head of the final response; interim ones are left out. The time runs from the end of the request.
    async fn read_head(
        &mut self,
        upload: &mut Option<Upload>,
        limit: Duration,
    ) -> Result<ResponseHead, Failure> {
        let mut head = ResponseHead::with_limits(ResponseLimits::default());
        let mut anything = false;
        loop {
            match parse_response_head(&self.input, &mut head) {
                Ok(Parsed::Complete(length)) => {
                    let _ = self.input.split_to(length);
                    if matches!(head.status, 100 | 102..=199) {
                        continue;
                    }
                    return Ok(head);
                }
                Ok(Parsed::Partial) => {}
                Err(error) => return Err(Failure::Response(format!("not a response: {error}"))),
            }
            let read = self.read_beside(upload, limit).await?;
            match read {
                Ok(0) if !anything => {
                    return Err(Failure::ClosedBeforeResponse(io::ErrorKind::UnexpectedEof.into()));
                }
                Ok(0) => {
                    return Err(Failure::Response("it ended within the head of its response".to_string()));
                }
                Ok(_) => anything = true,
                Err(error) if !anything => return Err(Failure::ClosedBeforeResponse(error)),
                Err(error) => return Err(Failure::Response(format!("cannot be read from: {error}"))),
            }
        }
    }

    /// Reads once, and brings on the upload meanwhile.
    async fn read_beside(
        &mut self,
        upload: &mut Option<Upload>,
        limit: Duration,
    ) -> Result<io::Result<usize>, Failure> {
        loop {
            let Some(uploading) = upload else {
                return match tokio::time::timeout(limit, self.read()).await {
                    Ok(read) => Ok(read),
                    Err(_) => Err(Failure::Timeout("a response", limit)),
                };
            };
            tokio::select! {
                biased;
                read = self.read() => return Ok(read),
                uploaded = uploading.as_mut() => {
                    *upload = None;
                    // An origin may answer without having read all of a body; then it is the answer that counts.
                    match uploaded {
                        Ok(()) | Err(Failure::ClosedBeforeResponse(_)) => {}
                        Err(failure) => return Err(failure),
                    }
                }
            }
        }
    }

    async fn read(&mut self) -> io::Result<usize> {
        self.connection.receive(&mut self.input).await
    }

    /// Brings the body to its client; true when it came to its end.
    async fn bring(
        &mut self,
        framing: BodyFraming,
        mut upload: Option<Upload>,
        mut sender: Sender,
        idle_timeout: Duration,
    ) -> bool {
        let mut rest = match framing {
            BodyFraming::None => Rest::Counted(0),
            BodyFraming::Length(length) => Rest::Counted(length),
            BodyFraming::Chunked => Rest::Chunked(ChunkedDecoder::new(ChunkedLimits::default())),
            BodyFraming::UntilClose => Rest::UntilClose,
        };
        loop {
            loop {
                match rest.take(&mut self.input) {
                    Ok(Taken::Piece(piece)) => {
                        if sender.send(piece).await.is_err() {
                            return false;
                        }
                    }
                    Ok(Taken::End) => {
                        sender.finish();
                        // What the origin does not want to read any more need not be sent; the connection ends with it.
                        return upload.is_none();
                    }
                    Ok(Taken::Nothing) => break,
                    Err(error) => {
                        sender.fail(error);
                        return false;
                    }
                }
            }
            let read = tokio::select! {
                () = sender.gone() => return false,
                read = self.read_beside(&mut upload, idle_timeout) => read,
            };
            let error = match read {
                Ok(Ok(0)) if matches!(rest, Rest::UntilClose) => {
                    sender.finish();
                    return false;
                }
                Ok(Ok(0)) => io::ErrorKind::UnexpectedEof.into(),
                Ok(Ok(_)) => continue,
                Ok(Err(error)) => error,
                Err(failure) => io::Error::other(failure.to_string()),
            };
            sender.fail(error);
            return false;
        }
    }
}

/// What is left of a response's body.
enum Rest {
    Counted(u64),
    Chunked(ChunkedDecoder),
    UntilClose,
}

enum Taken {
    Piece(Bytes),
    End,
    Nothing,
}

impl Rest {
    fn take(&mut self, input: &mut BytesMut) -> io::Result<Taken> {
        match self {
            Rest::Counted(0) => Ok(Taken::End),
            _ if input.is_empty() => Ok(Taken::Nothing),
            Rest::UntilClose => Ok(Taken::Piece(input.split().freeze())),
            Rest::Counted(remaining) => {
                let here = usize::try_from(*remaining).unwrap_or(usize::MAX).min(input.len());
                *remaining -= here as u64;
                Ok(Taken::Piece(input.split_to(here).freeze()))
            }
            Rest::Chunked(decoder) => loop {
                let decoded = decoder.decode(input).map_err(|error| {
                    io::Error::new(io::ErrorKind::InvalidData, format!("the response's chunks: {error}"))
                })?;
                let consumed = input.split_to(decoded.consumed).freeze();
                let piece = consumed.slice(decoded.data);
                if decoded.done {
                    *self = Rest::Counted(0);
                    return Ok(if piece.is_empty() { Taken::End } else { Taken::Piece(piece) });
                }
                if !piece.is_empty() {
                    return Ok(Taken::Piece(piece));
                }
                if decoded.consumed == 0 || input.is_empty() {
                    return Ok(Taken::Nothing);
                }
            },
        }
    }
}

/// Lets client and origin speak as they like, until either ends.
fn switch(connection: Rc<Stream>, input: BytesMut, head: &ResponseHead, mut from_client: Receiver) -> Answer {
    let (mut sender, receiver) = pipe(PIPE_BYTES);
    let mut answer = Answer::new(101);
    answer.fields = response_fields(head);
    answer.body.push(Part::Stream { body: receiver, length: None });
    tokio::task::spawn_local(async move {
        sender.push(input.freeze());
        let upward = async {
            while let Some(Ok(piece)) = from_client.next().await {
                if connection.send(&piece, &[]).await.is_err() {
                    return;
                }
            }
            connection.shut_down_sending();
        };
        let downward = async {
            loop {
                let mut buffer = BytesMut::new();
                let read = tokio::select! {
                    () = sender.gone() => return,
                    read = connection.receive(&mut buffer) => read,
                };
                match read {
                    Ok(0) | Err(_) => break,
                    Ok(_) => {
                        if sender.send(buffer.freeze()).await.is_err() {
                            return;
                        }
                    }
                }
            }
            sender.finish();
        };
        // The origin's end is the end; the client's is only that of its direction.
        let mut upward = std::pin::pin!(upward);
        let mut downward = std::pin::pin!(downward);
        let mut is_client_done = false;
        loop {
            tokio::select! {
                () = &mut downward => return,
                () = &mut upward, if !is_client_done => is_client_done = true,
            }
        }
    });
    answer
}
