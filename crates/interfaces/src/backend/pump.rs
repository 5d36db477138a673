//! Brings the rest of a long answer to its client, beside the connection that writes it.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::caller::About;
use super::exchange::Exchange;
use super::group::Group;
use super::protocol::{Output, Protocol};
use crate::handler::{Level, Server};
use crate::pipe::{Gone, Sender};

/// The longest line of a program's messages that is logged.
const LONGEST_MESSAGE_BYTES: usize = 2048;

/// Brings the rest of a body to the client.
pub struct Pump<P: Protocol> {
    /// The backends.
    pub group: Rc<Group>,
    /// For the log.
    pub server: Rc<dyn Server>,
    /// The backend that answers.
    pub index: usize,
    /// For log lines.
    pub about: About,
    /// The request on its connection.
    pub exchange: Box<Exchange<P>>,
    /// The body's way to the client.
    pub body: BodySender,
}

/// The way of a body to its client, which ends where the length ends that the program has promised: a program may go on
/// with other work then, and what it sends further is discarded.
pub struct BodySender {
    /// None: the promised length is reached.
    sender: Option<Sender>,
    /// What is left of that length.
    left: Option<u64>,
    is_longer: bool,
}

impl BodySender {
    /// For a body of this length, if one was promised.
    pub fn new(sender: Sender, length: Option<u64>) -> BodySender {
        let mut body = BodySender { sender: Some(sender), left: length, is_longer: false };
        body.end_if_complete();
        body
    }

    /// Sends a piece.
    pub fn push(&mut self, mut piece: Bytes) {
        if let Some(left) = &mut self.left {
            self.is_longer |= piece.len() as u64 > *left;
            piece.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= piece.len() as u64;
        }
        if let Some(sender) = &mut self.sender {
            sender.push(piece);
        }
        self.end_if_complete();
    }

    fn end_if_complete(&mut self) {
        if self.left == Some(0)
            && let Some(sender) = self.sender.take()
        {
            sender.finish();
        }
    }

    /// Whether more came than was promised.
    pub fn is_longer(&self) -> bool {
        self.is_longer
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        self.sender.as_mut().map_or(Poll::Ready(Ok(())), |sender| sender.poll_ready(context))
    }

    /// Waits until the client leaves before it has all.
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
    /// Until the end of the body, or of who takes it.
    pub async fn run(mut self) {
        // The request counts as under way up to here.
        let _busy = self.group.begin(self.index);
        loop {
            // The client sets the pace: nothing is received while it has enough to take. It may send meanwhile.
            let room = poll_fn(|context| match self.exchange.poll_upload(context) {
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
                output = self.exchange.next() => output,
                () = self.body.gone() => return,
            };
            let reason = match output {
                Ok(Output::Answer(piece)) => {
                    self.body.push(piece);
                    continue;
                }
                Ok(Output::Message(bytes)) => {
                    log_message::<P>(&*self.server, &self.group, self.index, &self.about, &bytes);
                    continue;
                }
                Ok(Output::End { keeps, .. }) => {
                    if self.body.is_longer() {
                        let address = self.group.connections(self.index).address();
                        let message =
                            format!("{} {address}: it sent more than it said ({})", P::NAME, self.about);
                        self.server.log(Level::Warning, "wrong Content-Length", &message);
                    }
                    if keeps && self.exchange.is_all_sent() {
                        self.group.connections(self.index).give_back(self.exchange.into_connection());
                    }
                    self.body.finish();
                    return;
                }
                Ok(Output::BodyWanted) => continue,
                Ok(Output::Overloaded | Output::Head(_)) => "it gave up within the answer".to_string(),
                Err(failure) => failure.reason,
            };
            let address = self.group.connections(self.index).address();
            let message = format!("{} {address}: {reason} ({})", P::NAME, self.about);
            self.server.log(Level::Warning, "program failed", &message);
            self.body.fail(reason);
            return;
        }
    }
}

/// Logs what a program says to its operator, line by line.
pub fn log_message<P: Protocol>(
    server: &dyn Server,
    group: &Group,
    index: usize,
    about: &About,
    bytes: &[u8],
) {
    let address = group.connections(index).address();
    for line in bytes.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
        let text = String::from_utf8_lossy(&line[..line.len().min(LONGEST_MESSAGE_BYTES)]);
        let message = format!("{} {address} says: {} ({about})", P::NAME, text.trim_end());
        server.log(Level::Warning, "program message", &message);
    }
}
