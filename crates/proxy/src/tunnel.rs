//! A tunnel after a switch of protocols (RFC 9110 section 7.8), for example to WebSocket: bytes are forwarded
//! in both directions.

use std::cell::Cell;
use std::rc::Rc;

use bytes::BytesMut;
use tokio::time::{Instant, sleep_until};
use touchstone_handler::answer::{Answer, BodyPart};
use touchstone_handler::pipe::pipe;
use touchstone_handler::reason_phrase::ReasonPhrase;
use touchstone_http::response::ResponseHead;

use super::body_limits::PIPE_BYTES;
use super::connections::Connection;
use super::fields::response_fields;
use super::origin_attempt::OriginAttempt;
use super::request_body::RequestBody;

/// Starts the tunnel, and returns the answer; `input` holds the bytes received from the origin so far.
pub fn begin(
    attempt: OriginAttempt,
    connection: Rc<Connection>,
    input: BytesMut,
    head: &ResponseHead,
    from_client: Rc<RequestBody>,
) -> Answer {
    let (mut sender, receiver) = pipe(PIPE_BYTES);
    let limit = attempt.settings().times.tunnel;
    let mut answer = Answer::new(101);
    answer.reason = ReasonPhrase::new(101, head.reason());
    answer.fields = response_fields(head);
    answer.body.push(BodyPart::Stream { body: receiver, length: None });
    tokio::task::spawn_local(async move {
        let _attempt = attempt;
        let stream = &connection.stream;
        let last_activity = Cell::new(Instant::now());
        sender.push(input.freeze());
        let upward = async {
            while let Some(Ok(piece)) = from_client.next().await {
                last_activity.set(Instant::now());
                if stream.send(&piece, &[]).await.is_err() {
                    return;
                }
            }
            stream.shut_down_sending();
        };
        let downward = async {
            loop {
                let mut buffer = BytesMut::new();
                let read = tokio::select! {
                    () = sender.gone() => return,
                    read = stream.receive(&mut buffer) => read,
                };
                match read {
                    Ok(0) | Err(_) => break,
                    Ok(_) => {
                        last_activity.set(Instant::now());
                        if sender.send(buffer.freeze()).await.is_err() {
                            return;
                        }
                    }
                }
            }
            sender.finish();
        };
        // If the origin closes its direction, the tunnel is closed. If the client closes its direction, the
        // other direction continues.
        let mut upward = std::pin::pin!(upward);
        let mut downward = std::pin::pin!(downward);
        let mut is_client_done = false;
        loop {
            tokio::select! {
                () = &mut downward => return,
                () = &mut upward, if !is_client_done => is_client_done = true,
                () = sleep_until(last_activity.get() + limit), if last_activity.get().elapsed() < limit => {}
                () = std::future::ready(()), if last_activity.get().elapsed() >= limit => return,
            }
        }
    });
    answer
}
