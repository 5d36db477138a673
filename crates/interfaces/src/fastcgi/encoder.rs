//! Writes FastCGI records (sections 3.3 and 5), without input and output.

use super::pairs;
use super::record::{HEADER_BYTES, Header, LONGEST_CONTENT_BYTES, RecordType, Role};
use crate::meta_variables::VariableSink;

/// A request up to the end of its parameters, in one buffer.
#[derive(Debug)]
pub struct RequestWriter {
    bytes: Vec<u8>,
    request_id: u16,
}

impl VariableSink for RequestWriter {
    fn add_pieces(&mut self, name: &[u8], pieces: &[&[u8]]) {
        pairs::append(name, pieces, &mut self.bytes);
    }
}

/// The buffer size for a usual request.
const USUAL_BYTES: usize = 1024;

/// BEGIN_REQUEST with its header, then the header of the first PARAMS record.
const PARAMS_START: usize = 3 * HEADER_BYTES;

impl RequestWriter {
    /// Begins a request in an empty buffer.
    pub fn new(request_id: u16, role: Role, flags: u8, buffer: Vec<u8>) -> RequestWriter {
        let mut bytes = buffer;
        bytes.reserve(USUAL_BYTES);
        append_begin(request_id, role, flags, &mut bytes);
        // The header of the first record is filled in when its length is known.
        bytes.extend_from_slice(&[0; HEADER_BYTES]);
        RequestWriter { bytes, request_id }
    }

    /// Adds a parameter.
    pub fn parameter(&mut self, name: &[u8], value: &[u8]) {
        pairs::append(name, &[value], &mut self.bytes);
    }

    /// The bytes, with the end of the parameters.
    pub fn finish(mut self) -> Vec<u8> {
        let length = self.bytes.len() - PARAMS_START;
        match u16::try_from(length) {
            Ok(0) => self.bytes.truncate(PARAMS_START - HEADER_BYTES),
            Ok(length) => {
                let header = Header::new(RecordType::Params, self.request_id, length).bytes();
                self.bytes[PARAMS_START - HEADER_BYTES..PARAMS_START].copy_from_slice(&header);
            }
            // Parameters may be split anywhere into records, even within a name: they are one stream.
            Err(_) => {
                let all = self.bytes.split_off(PARAMS_START);
                self.bytes.truncate(PARAMS_START - HEADER_BYTES);
                for piece in all.chunks(LONGEST_CONTENT_BYTES) {
                    append_record(RecordType::Params, self.request_id, piece, &mut self.bytes);
                }
            }
        }
        append_record(RecordType::Params, self.request_id, &[], &mut self.bytes);
        self.bytes
    }
}

/// Appends BEGIN_REQUEST.
pub fn append_begin(request_id: u16, role: Role, flags: u8, out: &mut Vec<u8>) {
    let [role_high, role_low] = (role as u16).to_be_bytes();
    append_record(RecordType::BeginRequest, request_id, &[role_high, role_low, flags, 0, 0, 0, 0, 0], out);
}

/// Appends a record. Content longer than [`LONGEST_CONTENT_BYTES`] must be split before; the rest is dropped.
pub fn append_record(record_type: RecordType, request_id: u16, content: &[u8], out: &mut Vec<u8>) {
    let content = &content[..content.len().min(LONGEST_CONTENT_BYTES)];
    out.extend_from_slice(&Header::new(record_type, request_id, content.len() as u16).bytes());
    out.extend_from_slice(content);
}
