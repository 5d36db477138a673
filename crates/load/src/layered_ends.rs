//! The end of connections with layers, and of the requests on them.

use crate::answer::AnswerAtClose;
use crate::client::{ClientState, Phase};
use crate::clock::now_ns;
use crate::engine::Engine;
use crate::failure::Failure;
use crate::outcome::ErrorKind;
use crate::tls::TlsFailure;

impl Engine<'_> {
    /// Handles a connection that the server closed or that failed.
    pub(crate) fn on_layered_close(&mut self, index: usize) {
        let group = self.group(index);
        let connection = &mut self.connections[index];
        match connection.phase {
            Phase::Closed => return,
            Phase::Connecting => return self.fail_layered(index, ErrorKind::Connect),
            Phase::Handshaking => {
                let text = "the server ended the connection in the handshake".to_string();
                return self.fail_tls(index, TlsFailure(text));
            }
            Phase::Open => {}
        }
        if self.fail_unclosed_websocket(index) {
            return;
        }
        let connection = &mut self.connections[index];
        let was_reused = connection.reused;
        let layers = connection.layers.get_or_insert_default();
        let unanswered = |client: usize| match (&layers.h2, &layers.h3) {
            (Some(h2), _) => h2.is_unanswered(client - group.start),
            (_, Some(h3)) => h3.is_unanswered(client - group.start),
            _ => self.clients[client].answer.is_unanswered(),
        };
        let is_on_it = |client: &usize| {
            self.clients[*client].connection == index && self.clients[*client].state == ClientState::Receiving
        };
        let is_http1 = layers.h2.is_none() && layers.h3.is_none();
        let affected: Vec<(usize, bool)> =
            group.clone().filter(is_on_it).map(|client| (client, unanswered(client))).collect();
        connection.close();
        for (client, is_unanswered) in affected {
            match self.clients[client].answer.at_close() {
                AnswerAtClose::Complete(answer) if is_http1 => self.complete(client, &answer),
                AnswerAtClose::ShortBody if is_http1 => self.end_failed(client, ErrorKind::ShortBody),
                _ => self.retry_or_fail(client, was_reused, is_unanswered),
            }
        }
        let connection = &self.connections[index];
        if connection.phase == Phase::Closed && !self.layers(index).waiting.is_empty() {
            self.open_connection(index, now_ns());
        }
    }

    /// Closes a connection. Its active and waiting requests fail.
    pub(crate) fn fail_layered(&mut self, index: usize, failure: impl Into<Failure>) {
        let failure = failure.into();
        let group = self.group(index);
        self.connections[index].close();
        self.layers(index).waiting.clear();
        let is_on_it = |client: &usize| {
            self.clients[*client].connection == index && self.clients[*client].state != ClientState::Idle
        };
        let affected: Vec<usize> = group.filter(is_on_it).collect();
        for client in affected {
            self.end_failed(client, failure);
        }
    }

    pub(crate) fn fail_tls(&mut self, index: usize, failure: TlsFailure) {
        self.record.tls_error.get_or_insert(failure.0);
        self.fail_layered(index, ErrorKind::Tls);
    }

    /// Cancels one request; the other requests on the connection continue.
    pub(crate) fn abandon_layered(&mut self, client: usize, failure: Failure) {
        let index = self.clients[client].connection;
        let connection = &mut self.connections[index];
        let slot = client - connection.first_client;
        let is_open = connection.phase == Phase::Open;
        let layers = connection.layers.get_or_insert_default();
        layers.waiting.retain(|waiting| *waiting != client);
        let has_waiters = !layers.waiting.is_empty();
        match (&mut layers.h2, &mut layers.h3) {
            (Some(h2), _) if is_open => {
                h2.cancel(slot, &mut layers.frames);
                self.mark_dirty(index);
            }
            (_, Some(h3)) if is_open => {
                h3.cancel(slot);
                self.mark_dirty(index);
            }
            // The connection was not established within the time limit of this request; other clients still
            // wait for it.
            _ if !is_open && has_waiters => {}
            _ if layers.pipeline.len() > 1 => return self.abandon_pipeline(client, failure),
            _ => connection.close(),
        }
        self.end_failed(client, failure);
    }
}
