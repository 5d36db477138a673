//! What is remembered of the last good answer to a request. An answer with the same body has the same values,
//! so that it need not be searched again: most servers answer many requests alike.

use crate::html_place::HtmlPlace;

/// Longer bodies are not remembered.
const MAXIMUM_REMEMBERED_BYTES: usize = 16 * 1024;

/// The memory of one thread for one request.
#[derive(Debug, Default)]
pub struct StepMemory {
    is_filled: bool,
    body: Vec<u8>,
    /// The values of the extractions, in their order; empty for those that do not read the body.
    values: Vec<Vec<u8>>,
    /// Where the extractions found their values in pages.
    places: Vec<HtmlPlace>,
}

impl StepMemory {
    /// Whether this is the remembered body.
    pub(crate) fn has(&self, body: &[u8]) -> bool {
        self.is_filled && self.body == body
    }

    /// The value of an extraction in the remembered body.
    pub(crate) fn value(&self, extraction: usize) -> &[u8] {
        self.values.get(extraction).map_or(&[], Vec::as_slice)
    }

    /// Where an extraction found its value in the last page.
    pub(crate) fn place(&mut self, extraction: usize) -> &mut HtmlPlace {
        if extraction >= self.places.len() {
            self.places.resize_with(extraction + 1, HtmlPlace::default);
        }
        &mut self.places[extraction]
    }

    /// Remembers a body, and the values that were found in it.
    pub(crate) fn remember<'a>(&mut self, body: &[u8], values: impl Iterator<Item = &'a [u8]>) {
        self.is_filled = body.len() <= MAXIMUM_REMEMBERED_BYTES;
        if !self.is_filled {
            return;
        }
        self.body.clear();
        self.body.extend_from_slice(body);
        for (extraction, value) in values.enumerate() {
            if extraction == self.values.len() {
                self.values.push(Vec::new());
            }
            self.values[extraction].clear();
            self.values[extraction].extend_from_slice(value);
        }
    }
}
