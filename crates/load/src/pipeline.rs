//! Pipelining: several clients share a connection of HTTP/1.1. Each sends its request without waiting, and
//! the answers arrive in the order of the requests (RFC 9112, section 9.3.2).

use crate::answer::MalformedAnswer;
use crate::client::Phase;
use crate::clock::now_ns;
use crate::engine::Engine;
use crate::failure::Failure;
use crate::outcome::ErrorKind;

impl Engine<'_> {
    /// Processes received answers; returns false if the connection has ended.
    pub(crate) fn take_pipelined(&mut self, index: usize, bytes: &[u8]) -> bool {
        let generation = self.connections[index].generation;
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some(&owner) = self.layers(index).pipeline.front() else {
                // No request is active: the server sends the reason why it will close the connection.
                self.connections[index].close();
                return false;
            };
            let client = &mut self.clients[owner];
            let head = &mut self.heads[client.request];
            let taken = match &mut client.retained {
                None => client.answer.receive_next(rest, head, &mut ()),
                Some(retained) => client.answer.receive_next(rest, &mut retained.head, &mut retained.parts),
            };
            match taken {
                Ok((_, None)) => return true,
                Ok((length, Some(answer))) => {
                    rest = &rest[length..];
                    self.layers(index).pipeline.pop_front();
                    self.complete(owner, &answer);
                    if self.connections[index].generation != generation {
                        return false;
                    }
                    if !answer.keeps_connection {
                        self.on_layered_close(index);
                        return false;
                    }
                }
                Err(MalformedAnswer) => {
                    self.fail(owner, ErrorKind::Malformed);
                    return false;
                }
            }
        }
        true
    }

    /// Fails one of several requests on a connection and closes the connection. The requests of the other
    /// clients are sent again on a new one.
    pub(crate) fn abandon_pipeline(&mut self, client: usize, failure: Failure) {
        let index = self.clients[client].connection;
        let connection = &mut self.connections[index];
        let was_reused = connection.reused;
        let others: Vec<usize> =
            connection.layers.iter().flat_map(|layers| &layers.pipeline).copied().collect();
        connection.close();
        self.end_failed(client, failure);
        for other in others.into_iter().filter(|other| *other != client) {
            let is_unanswered = self.clients[other].answer.is_unanswered();
            self.retry_or_fail(other, was_reused, is_unanswered);
        }
        if self.connections[index].phase == Phase::Closed && !self.layers(index).waiting.is_empty() {
            self.open_connection(index, now_ns());
        }
    }
}
