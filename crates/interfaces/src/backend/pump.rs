//! Sends the rest of a long answer to the client, in a task beside the connection.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use touchstone_handler::handler::{Level, Server};
use touchstone_handler::pipe::{ReceiverDropped, Sender};

use super::backend_call::BackendCall;
use super::group::Group;
use super::log_name::RequestLogName;
use super::protocol::{Output, Protocol};
use crate::body_end::BodyEnd;

/// The longest line of a program's messages that is logged.
const LONGEST_MESSAGE_BYTES: usize = 2048;

/// Sends the rest of a body to the client.
pub struct Pump<P: Protocol> {
    /// The backends.
    pub group: Rc<Group>,
    /// For the log.
    pub server: Rc<dyn Server>,
    /// The backend that answers.
    pub index: usize,
    /// The request's name in log lines.
    pub log_name: RequestLogName,
    /// The request on its connection.
    pub backend_call: Box<BackendCall<P>>,
    /// Sends the body to the client.
    pub body: BodySender,
}

/// Sends a body to its client. The body ends where the program has declared; later output of the program is
/// discarded.
pub struct BodySender {
    /// `None`: the end was reached.
    sender: Option<Sender>,
    end: BodyEnd,
    is_longer: bool,
}

impl BodySender {
    /// For a body with this end.
    pub fn new(sender: Sender, end: BodyEnd) -> BodySender {
        let mut body = BodySender { sender: Some(sender), end, is_longer: false };
        body.end_if_complete();
        body
    }

    /// Sends a piece of the output.
    ///
    /// # Errors
    /// The output is not a valid body.
    pub fn push(&mut self, piece: Bytes) -> Result<(), String> {
        self.is_longer |= self.end.is_exceeded_by(piece.len());
        let piece = self.end.take_piece(piece)?;
        if let Some(sender) = &mut self.sender {
            sender.push(piece);
        }
        self.end_if_complete();
        Ok(())
    }

    fn end_if_complete(&mut self) {
        if self.end.is_reached()
            && let Some(sender) = self.sender.take()
        {
            sender.finish();
        }
    }

    /// Whether the program has sent more bytes than it declared.
    pub fn is_longer(&self) -> bool {
        self.is_longer
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ReceiverDropped>> {
        self.sender.as_mut().map_or(Poll::Ready(Ok(())), |sender| sender.poll_ready(context))
    }

    /// Waits until the client has disconnected before the end of the body.
    async fn gone(&mut self) {
        match &mut self.sender {
            Some(sender) => sender.gone().await,
            None => std::future::pending().await,
        }
    }

    fn finish(self) {
        if let Some(sender) = self.sender {
            sender.finish();
        }
    }

    fn fail(self, reason: String) {
        if let Some(sender) = self.sender {
            sender.fail(std::io::Error::other(reason));
        }
    }
}

impl<P: Protocol> Pump<P> {
    /// Runs until the end of the body, or until the client disconnects.
    pub async fn run(mut self) {
        // The request counts as in progress until this task ends.
        let _busy = self.group.begin(self.index);
        loop {
            // The client determines the speed: nothing is received while enough bytes wait for it. Its own
            // body is still sent.
            let room = poll_fn(|context| match self.backend_call.poll_upload(context) {
                Ok(()) => self.body.poll_ready(context).map_err(|_| None),
                Err(failure) => Poll::Ready(Err(Some(failure))),
            });
            match room.await {
                Ok(()) => {}
                Err(None) => return,
                Err(Some(failure)) => return self.body.fail(failure.reason),
            }
            let output = tokio::select! {
                biased;
                output = self.backend_call.next() => output,
                () = self.body.gone() => return,
            };
            let reason = match output {
                Ok(Output::Answer(piece)) => match self.body.push(piece) {
                    Ok(()) => continue,
                    Err(reason) => reason,
                },
                Ok(Output::Message(bytes)) => {
                    log_message::<P>(&*self.server, &self.group, self.index, &self.log_name, &bytes);
                    continue;
                }
                Ok(Output::End { keeps, .. }) => {
                    if self.body.is_longer() {
                        let address = self.group.connections(self.index).address();
                        let message = format!(
                            "{} {address}: it sent more than it declared ({})",
                            P::NAME,
                            self.log_name
                        );
                        self.server.log(Level::Warning, "wrong Content-Length", &message);
                    }
                    let missing = self.body.end.missing().filter(|_| self.body.end.is_chunked());
                    if let Some(reason) = missing {
                        return self.fail(reason);
                    }
                    if keeps && self.backend_call.is_all_sent() {
                        self.group.connections(self.index).release(self.backend_call.into_connection());
                    }
                    return self.body.finish();
                }
                Ok(Output::BodyWanted) => continue,
                Ok(Output::Overloaded | Output::Head(_)) => "it gave up within the answer".to_string(),
                Err(failure) => failure.reason,
            };
            return self.fail(reason);
        }
    }

    fn fail(self, reason: String) {
        let address = self.group.connections(self.index).address();
        let message = format!("{} {address}: {reason} ({})", P::NAME, self.log_name);
        self.server.log(Level::Warning, "program failed", &message);
        self.body.fail(reason);
    }
}

/// Logs the messages of a program, line by line.
pub fn log_message<P: Protocol>(
    server: &dyn Server,
    group: &Group,
    index: usize,
    log_name: &RequestLogName,
    bytes: &[u8],
) {
    let address = group.connections(index).address();
    for line in bytes.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
        let text = String::from_utf8_lossy(&line[..line.len().min(LONGEST_MESSAGE_BYTES)]);
        let message = format!("{} {address} says: {} ({log_name})", P::NAME, text.trim_end());
        server.log(Level::Warning, "program message", &message);
    }
}
