//! Brings the rest of a long answer to its client, beside the connection that writes it.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use super::caller::About;
use super::exchange::Exchange;
use super::group::Group;
use super::protocol::{Output, Protocol};
use crate::handler::{Level, Server};
use crate::pipe::Sender;

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
}

impl<P: Protocol> Pump<P> {
    /// Until the end of the body, or of who takes it.
    pub async fn run(mut self, mut sender: Sender) {
        // The request counts as under way up to here.
        let _busy = self.group.begin(self.index);
        loop {
            // The client sets the pace: nothing is received while it has enough to take. It may send meanwhile.
            let room = poll_fn(|context| match self.exchange.poll_upload(context) {
                Ok(()) => sender.poll_ready(context).map_err(|_| None),
                Err(failure) => Poll::Ready(Err(Some(failure))),
            });
            match room.await {
                Ok(()) => {}
                Err(None) => return,
                Err(Some(failure)) => return sender.fail(std::io::Error::other(failure.reason)),
            }
            let output = tokio::select! {
                biased;
                output = self.exchange.next() => output,
                () = sender.gone() => return,
            };
            let reason = match output {
                Ok(Output::Answer(piece)) => {
                    sender.push(piece);
                    continue;
                }
                Ok(Output::Message(bytes)) => {
                    log_message::<P>(&*self.server, &self.group, self.index, &self.about, &bytes);
                    continue;
                }
                Ok(Output::End { keeps, .. }) => {
                    if keeps && self.exchange.is_all_sent() {
                        self.group.connections(self.index).give_back(self.exchange.into_connection());
                    }
                    sender.finish();
                    return;
                }
                Ok(Output::BodyWanted) => continue,
                Ok(Output::Overloaded | Output::Head(_)) => "it gave up within the answer".to_string(),
                Err(failure) => failure.reason,
            };
            let address = self.group.connections(self.index).address();
            let message = format!("{} {address}: {reason} ({})", P::NAME, self.about);
            self.server.log(Level::Warning, "program failed", &message);
            sender.fail(std::io::Error::other(reason));
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
