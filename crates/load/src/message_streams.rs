//! Answers that are streams of messages: the messages are recorded, and a client ends its answer after the
//! planned number of messages.

use crate::answer::Answer;
use crate::client::ClientState;
use crate::engine::Engine;

impl Engine<'_> {
    /// Records the messages that a client has received.
    pub(crate) fn record_messages(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let Some(messages) = client.retained.as_mut().and_then(|retained| retained.parts.messages.as_mut())
        else {
            return;
        };
        for message in messages.take_received() {
            self.record.message(client.started_ns, message);
        }
    }

    /// Ends the answer of a client that has received the planned number of messages. The answer counts as
    /// complete.
    pub(crate) fn end_stream(&mut self, index: usize, answer: &Answer) {
        self.complete(index, &Answer { keeps_connection: false, ..*answer });
    }

    /// The same for the clients of a connection of HTTP/2 or 3. Their streams end, and the connection remains
    /// open.
    pub(crate) fn end_complete_streams(&mut self, index: usize) {
        if self.record.messages.is_none() {
            return;
        }
        let group = self.group(index);
        for client in group.clone() {
            let is_on_it = self.clients[client].connection == index
                && self.clients[client].state == ClientState::Receiving;
            if !is_on_it || !self.clients[client].has_all_messages() {
                continue;
            }
            let slot = client - group.start;
            let Some(layers) = &mut self.connections[index].layers else { return };
            let answer = match (&mut layers.h2, &mut layers.h3) {
                (Some(h2), _) => {
                    let answer = h2.answer(slot);
                    h2.cancel(slot, &mut layers.frames);
                    answer
                }
                (_, Some(h3)) => {
                    let answer = h3.answer(slot);
                    h3.cancel(slot);
                    answer
                }
                _ => return,
            };
            self.mark_dirty(index);
            self.complete(client, &answer);
        }
    }
}
