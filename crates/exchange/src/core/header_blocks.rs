//! Header blocks of cached responses for HTTP/2 and HTTP/3, encoded once a second for all connections of a
//! core.

use std::collections::HashMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use touchstone_files::cache::PreparedResponse;
use touchstone_http::grammar::split_field;
use touchstone_http::h2::Fields;
use touchstone_http::h2::hpack::encode_response_block;

/// The fields of a header section as field lines, each with its CRLF: the form of trailers for a handler.
pub fn field_lines(fields: Fields<'_>) -> Vec<u8> {
    let mut lines = Vec::new();
    for field in fields {
        for piece in [field.name, b": ", field.value, b"\r\n"] {
            lines.extend_from_slice(piece);
        }
    }
    lines
}

/// Header blocks of cached responses. They are valid as long as the response itself: one second.
pub struct HeaderBlocks {
    /// Makes a block of the head of an HTTP/1 response.
    encode: fn(&[u8]) -> Vec<u8>,
    /// For each site, by path; with seeded hashes, as clients may have named the files.
    sites: Vec<HashMap<Box<[u8]>, EncodedHead>>,
    /// By the address of the response. The response is kept with the block, so that no other can get the same
    /// address.
    responses: FxHashMap<usize, EncodedHead>,
}

/// A response and the block of its head.
struct EncodedHead {
    prepared: Arc<PreparedResponse>,
    block: Vec<u8>,
}

impl Default for HeaderBlocks {
    /// Blocks for HTTP/2.
    fn default() -> HeaderBlocks {
        HeaderBlocks::new(encode_head)
    }
}

impl HeaderBlocks {
    /// Blocks made by `encode`.
    pub fn new(encode: fn(&[u8]) -> Vec<u8>) -> HeaderBlocks {
        HeaderBlocks { encode, sites: Vec::new(), responses: FxHashMap::default() }
    }

    /// The block of `prepared`, which answers `path`: a file of a site, or a stored answer; there may be
    /// several stored answers for a path.
    #[inline]
    pub fn block(&mut self, file_of: Option<usize>, path: &[u8], prepared: &Arc<PreparedResponse>) -> &[u8] {
        match file_of {
            Some(site) => self.block_of_file(site, path, prepared),
            None => self.block_of_stored(prepared),
        }
    }

    #[inline]
    fn block_of_file(&mut self, site: usize, path: &[u8], prepared: &Arc<PreparedResponse>) -> &[u8] {
        let kept = self.sites.get(site).and_then(|blocks| blocks.get(path));
        if !kept.is_some_and(|encoded| Arc::ptr_eq(&encoded.prepared, prepared)) {
            self.encode(site, path, prepared);
        }
        self.sites.get(site).and_then(|blocks| blocks.get(path)).map_or(&[], |encoded| &encoded.block)
    }

    #[inline]
    fn block_of_stored(&mut self, prepared: &Arc<PreparedResponse>) -> &[u8] {
        let encode = self.encode;
        let new = || EncodedHead { prepared: prepared.clone(), block: encode(prepared.head()) };
        &self.responses.entry(Arc::as_ptr(prepared) as usize).or_insert_with(new).block
    }

    #[cold]
    fn encode(&mut self, site: usize, path: &[u8], prepared: &Arc<PreparedResponse>) {
        if self.sites.len() <= site {
            self.sites.resize_with(site + 1, HashMap::default);
        }
        let encoded = EncodedHead { prepared: prepared.clone(), block: (self.encode)(prepared.head()) };
        self.sites[site].insert(path.into(), encoded);
    }

    /// Removes all blocks, at the end of their second.
    pub fn clear(&mut self) {
        self.sites.iter_mut().for_each(HashMap::clear);
        self.responses.clear();
    }
}

/// The head of an HTTP/1 response as a header block.
pub fn encode_head(head: &[u8]) -> Vec<u8> {
    let text = head.split(|&byte| byte == b'\n').skip(1).map(<[u8]>::trim_ascii_end);
    encode_fields(200, text.filter_map(split_field))
}

/// A header block of a response.
pub fn encode_fields<'a>(status: u16, fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Vec<u8> {
    let mut block = Vec::with_capacity(256);
    encode_response_block(status, fields, &mut block);
    block
}
