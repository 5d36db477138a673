//! The header section of a request in HTTP/2 and HTTP/3, encoded before the run.

use crate::fields::{Field, field, own_fields, pseudo_method_and_scheme, replace};
use crate::plan::{Plan, PlannedRequest};
use crate::target::HttpVersion;
use crate::target::Target;
use std::sync::Arc;
use touchstone_http::h2::hpack::decoder::ListLimits;
use touchstone_http::h2::hpack::{DEFAULT_TABLE_BYTES, Decoder, Encoder, FieldList, encode_fields_block};
use touchstone_http::h3::frame::{FrameType, append};
use touchstone_http::h3::qpack;

/// The encodings of one header section for the states of a connection's dynamic table.
#[derive(Debug, Default)]
pub(crate) struct HeaderBlocks {
    /// Inserts the fields that all requests of the target share into the server's table; `None` if this is
    /// not possible.
    pub(crate) first: Option<Vec<u8>>,
    /// Refers to these fields and does not change the table, so that it can be sent repeatedly.
    pub(crate) later: Vec<u8>,
    /// Does not use the dynamic table.
    pub(crate) without_table: Vec<u8>,
    /// The body, if any.
    pub(crate) body: Option<Arc<[u8]>>,
    /// HTTP/3: the frames of the request.
    pub(crate) h3: Arc<[u8]>,
}

impl HeaderBlocks {
    /// Whether it contains no encoding, because the request is one of HTTP/1.
    pub(crate) fn is_empty(&self) -> bool {
        self.without_table.is_empty() && self.h3.is_empty()
    }
}

impl HeaderBlocks {
    pub(crate) fn new(plan: &Plan, request: &PlannedRequest, target: &Target) -> HeaderBlocks {
        let [method, scheme] = pseudo_method_and_scheme(request, target);
        let pseudo = [method, scheme, field(":path", &request.path)];
        let mut common = own_fields(plan, target);
        replace(&mut common, &plan.headers);
        let mut length = Vec::new();
        if let Some(body) = &request.body {
            length.push(field("content-length", &body.len().to_string()));
        }
        let mut all = [&common[..], &length].concat();
        replace(&mut all, &request.headers);
        if plan.version_of(target) == HttpVersion::Http3 {
            let mut section = Vec::new();
            let all = [&pseudo[..], &with_authority(&all)].concat();
            qpack::encode_fields(as_bytes(&all), &mut section);
            let body = request.body.as_deref().unwrap_or_default();
            return HeaderBlocks { h3: http3_request(&section, body), ..HeaderBlocks::default() };
        }
        let without_table = block(&[&pseudo, &with_authority(&all)]);
        let mut blocks =
            HeaderBlocks { without_table, body: request.body.clone(), ..HeaderBlocks::default() };

        // A request that replaces a common field cannot use the entries of the table.
        let shares = all[..common.len().min(all.len())] == common[..];
        if !shares {
            return blocks;
        }
        let mut encoder = Encoder::new(DEFAULT_TABLE_BYTES);
        let mut encode_common = || {
            let mut bytes = block(&[&pseudo]);
            encoder.encode_fields(as_bytes(&with_authority(&common)), &mut bytes);
            bytes.extend_from_slice(&block(&[&all[common.len()..]]));
            bytes
        };
        let (first, later) = (encode_common(), encode_common());
        if !changes_table(&first, &later) {
            (blocks.first, blocks.later) = (Some(first), later);
        }
        blocks
    }
}

/// Whether the second block changes the table after the first one, as it does if the fields together are too
/// large for the table.
fn changes_table(first: &[u8], later: &[u8]) -> bool {
    let (mut decoder, mut fields) = (Decoder::new(), FieldList::new());
    let limits = ListLimits { bytes: 0, fields: 0 };
    let mut decode = |block| decoder.decode(block, limits, &mut fields);
    match (decode(first), decode(later)) {
        (Ok(_), Ok(later)) => later.changes_table,
        _ => true,
    }
}

/// The frames of a request in HTTP/3: the HEADERS frame with the field section, and a DATA frame with the
/// body.
pub(crate) fn http3_request(section: &[u8], body: &[u8]) -> Arc<[u8]> {
    let mut bytes = Vec::with_capacity(section.len() + body.len() + 20);
    append(FrameType::HEADERS, section, &mut bytes);
    if !body.is_empty() {
        append(FrameType::DATA, body, &mut bytes);
    }
    bytes.into()
}

/// A header block that does not use the dynamic table.
fn block(parts: &[&[Field]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    parts.iter().for_each(|fields| encode_fields_block(as_bytes(fields), &mut bytes));
    bytes
}

/// Converts the Host field to `:authority`, which precedes the other fields as the pseudo-header fields do.
fn with_authority(fields: &[Field]) -> Vec<Field> {
    let is_host = |(name, _): &&Field| name.eq_ignore_ascii_case("host");
    let authority = fields.iter().filter(is_host).map(|(_, value)| field(":authority", value));
    authority.chain(fields.iter().filter(|field| !is_host(field)).cloned()).collect()
}

fn as_bytes(fields: &[Field]) -> impl Iterator<Item = (&[u8], &[u8])> {
    fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()))
}
