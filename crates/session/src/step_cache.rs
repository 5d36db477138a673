//! A cache of the values of the last valid answer to a request. An answer with the same body has the same
//! values, so it is not searched again: most servers send the same answer to many requests.

use crate::html_position::HtmlPosition;

/// The maximum length of a cached body.
const MAXIMUM_BODY_BYTES: usize = 16 * 1024;

/// The cache of one thread for one request.
#[derive(Debug, Default)]
pub struct StepCache {
    is_filled: bool,
    body: Vec<u8>,
    /// The values of the extractions, in their order; empty for those that do not read the body.
    values: Vec<Vec<u8>>,
    /// The positions of the values of the extractions in pages.
    positions: Vec<HtmlPosition>,
}

impl StepCache {
    /// Whether this body is cached.
    pub(crate) fn contains(&self, body: &[u8]) -> bool {
        self.is_filled && self.body == body
    }

    /// The value of an extraction in the cached body.
    pub(crate) fn value(&self, extraction: usize) -> &[u8] {
        self.values.get(extraction).map_or(&[], Vec::as_slice)
    }

    /// The position of the value of an extraction in the last page.
    pub(crate) fn position(&mut self, extraction: usize) -> &mut HtmlPosition {
        if extraction >= self.positions.len() {
            self.positions.resize_with(extraction + 1, HtmlPosition::default);
        }
        &mut self.positions[extraction]
    }

    /// Stores a body and the values that were found in it.
    pub(crate) fn store<'a>(&mut self, body: &[u8], values: impl Iterator<Item = &'a [u8]>) {
        self.is_filled = body.len() <= MAXIMUM_BODY_BYTES;
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
