//! The clients that share a connection of HTTP/2 or 3, as receivers of their answers.

use crate::body::{BodySink, SlotSink};
use crate::client::Client;
use touchstone_http::h2::hpack::FieldList;

/// Clients with consecutive indices; the first has slot 0.
pub(crate) struct ClientSlots<'a> {
    pub(crate) clients: &'a mut [Client],
    pub(crate) first: usize,
}

impl SlotSink for ClientSlots<'_> {
    fn section(&mut self, slot: usize, fields: &FieldList) {
        if let Some(retained) = &mut self.clients[self.first + slot].retained {
            retained.parts.take_section(fields);
        }
    }

    fn body(&mut self, slot: usize, part: &[u8]) {
        if let Some(retained) = &mut self.clients[self.first + slot].retained {
            retained.parts.take(part);
        }
    }
}
