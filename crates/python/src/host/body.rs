//! The body of a request that is sent to a worker.
//!
//! A WSGI application that reads a body holds its thread until the client has sent it. So a worker gets the
//! request only when the body, or as much of it as a worker accepts at once, has arrived: clients that send
//! small bodies slowly hold no thread.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;

use bytes::Bytes;
use touchstone_handler::pipe::Receiver;

use super::link::WorkerRequest;
use crate::shared::frame::{BODY_WINDOW, BROKEN, Kind, PIECE_BYTES};

/// A body, with the part that has already arrived.
pub struct Body {
    held: VecDeque<Bytes>,
    rest: Receiver,
    has_ended: bool,
}

impl Body {
    /// A body of which nothing has arrived.
    pub fn new(rest: Receiver) -> Body {
        Body { held: VecDeque::new(), rest, has_ended: false }
    }

    /// Waits until all of it, or as much as a worker accepts at once, has arrived.
    ///
    /// # Errors
    /// The client has disconnected before its end.
    pub async fn wait(&mut self) -> io::Result<()> {
        let mut bytes = 0;
        while bytes < BODY_WINDOW {
            match self.rest.next().await {
                Some(piece) => {
                    let piece = piece?;
                    bytes += piece.len();
                    self.held.push_back(piece);
                }
                None => {
                    self.has_ended = true;
                    break;
                }
            }
        }
        Ok(())
    }

    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        match self.held.pop_front() {
            Some(piece) => Some(Ok(piece)),
            None if self.has_ended => None,
            None => self.rest.next().await,
        }
    }

    /// Sends it to a worker, as fast as the application reads it.
    pub async fn send(mut self, worker_request: Rc<WorkerRequest>) {
        let (link, number, request_events) =
            (worker_request.link.clone(), worker_request.number, worker_request.request_events.clone());
        // The future of the answer ends the request.
        drop(worker_request);
        while poll_fn(|context| request_events.poll_wanted(context)).await {
            let piece = tokio::select! {
                piece = self.next() => piece,
                () = poll_fn(|context| request_events.poll_over(context)) => return,
            };
            match piece {
                Some(Ok(piece)) => {
                    for part in piece.chunks(PIECE_BYTES) {
                        link.push(Kind::Body, 0, number, part);
                    }
                    request_events.sent_body(piece.len());
                }
                end => {
                    let flags = if end.is_some() { BROKEN } else { 0 };
                    link.push(Kind::BodyEnd, flags, number, &[]);
                    return request_events.sent_body(0);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Poll, Waker};
    use touchstone_handler::pipe;

    fn poll<T>(future: impl Future<Output = T>) -> Poll<T> {
        std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_small_body_is_waited_for_and_of_a_large_one_its_first_bytes() {
        let (mut sender, rest) = pipe::pipe(1 << 20);
        let mut body = Body::new(rest);
        sender.push(Bytes::from_static(b"he"));
        assert!(poll(body.wait()).is_pending());
        sender.push(Bytes::from_static(b"llo"));
        sender.finish();
        assert!(matches!(poll(body.wait()), Poll::Ready(Ok(()))));
        for expected in [Some(&b"he"[..]), Some(&b"llo"[..]), None, None] {
            let Poll::Ready(piece) = poll(body.next()) else { panic!("it is there") };
            assert_eq!(piece.map(|piece| piece.unwrap()).as_deref(), expected);
        }

        let (mut sender, rest) = pipe::pipe(1 << 20);
        let mut body = Body::new(rest);
        sender.push(Bytes::from(vec![b'x'; BODY_WINDOW]));
        assert!(matches!(poll(body.wait()), Poll::Ready(Ok(()))), "the rest comes later");

        let (sender, rest) = pipe::pipe(1 << 20);
        let mut body = Body::new(rest);
        sender.fail(io::Error::other("the client has left"));
        assert!(matches!(poll(body.wait()), Poll::Ready(Err(_))));
    }
}
