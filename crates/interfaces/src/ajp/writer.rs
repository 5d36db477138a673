//! Writes the packet that a request begins with, without input and output.
//!
//! A string is a length of two bytes, the bytes, and a zero byte. A text from outside must not look like the
//! end of another one, so zero bytes and line ends are refused. A request that does not fit into one packet
//! is refused as a whole, because a request that was cut short is a different request.

use super::code::{self, NO_STRING, PACKET_HEADER_BYTES, attribute};

/// The facts of a request line and its connection.
#[derive(Debug, Clone, Copy)]
pub struct RequestLine<'a> {
    /// The method as it was sent.
    pub method: &'a [u8],
    /// `HTTP/1.1`.
    pub protocol: &'a str,
    /// The path, encoded as in a request.
    pub uri: &'a [u8],
    /// The client's address; `None`: not known.
    pub client: Option<&'a str>,
    /// The requested host, without its port.
    pub server_name: &'a [u8],
    /// The requested port.
    pub server_port: u16,
    /// The request arrived over TLS.
    pub is_tls: bool,
}

/// Why a request cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnsupportedRequest {
    /// A text holds a zero byte or the end of a line.
    ForbiddenByte,
    /// It is longer than the largest packet.
    TooLong,
}

/// A packet that is being written: the request line, then fields, then attributes.
#[derive(Debug, Clone)]
pub struct RequestWriter {
    bytes: Vec<u8>,
    /// The position of the number of fields.
    count_at: usize,
    fields: u16,
    problem: Option<UnsupportedRequest>,
    /// The method, if AJP has no number for it.
    stored_method: Option<Vec<u8>>,
}

impl RequestWriter {
    /// Begins a request.
    pub fn new(line: &RequestLine<'_>) -> RequestWriter {
        let mut bytes = Vec::with_capacity(2048);
        bytes.extend_from_slice(&code::TO_CONTAINER);
        // The length is filled in at the end.
        bytes.extend_from_slice(&[0, 0, code::FORWARD_REQUEST]);
        let number = code::method_number(line.method);
        bytes.push(number.unwrap_or(code::STORED_METHOD));
        let stored_method = number.is_none().then(|| line.method.to_vec());
        let mut writer = RequestWriter { bytes, count_at: 0, fields: 0, problem: None, stored_method };
        writer.text(line.protocol.as_bytes());
        writer.text(line.uri);
        // The client's name is its address: a name would cost a DNS query for each request.
        for text in [line.client, line.client] {
            match text {
                Some(text) => writer.text(text.as_bytes()),
                None => writer.bytes.extend_from_slice(&NO_STRING.to_be_bytes()),
            }
        }
        writer.text(line.server_name);
        writer.bytes.extend_from_slice(&line.server_port.to_be_bytes());
        writer.bytes.push(u8::from(line.is_tls));
        writer.count_at = writer.bytes.len();
        writer.bytes.extend_from_slice(&[0, 0]);
        writer
    }

    /// Adds a field. All fields must be added before the first attribute.
    pub fn field(&mut self, name: &[u8], value: &[u8]) {
        match code::request_field_number(name) {
            Some(number) => self.bytes.extend_from_slice(&[code::CODED_FIELD, number]),
            None if name.len() > code::LONGEST_FIELD_NAME => self.problem = Some(UnsupportedRequest::TooLong),
            None => self.text(name),
        }
        self.text(value);
        match self.fields.checked_add(1) {
            Some(fields) => self.fields = fields,
            None => self.problem = Some(UnsupportedRequest::TooLong),
        }
    }

    /// Adds an attribute that has a number.
    pub fn attribute(&mut self, number: u8, value: &[u8]) {
        self.bytes.push(number);
        self.text(value);
    }

    /// Adds an attribute by its name. Neither its name nor its value may be chosen by a client.
    pub fn named_attribute(&mut self, name: &str, value: &[u8]) {
        self.bytes.push(attribute::REQUEST_ATTRIBUTE);
        self.text(name.as_bytes());
        self.text(value);
    }

    /// Adds the client's certificate in PEM form, which holds line ends.
    pub fn certificate(&mut self, pem: &str) {
        self.bytes.push(attribute::TLS_CERTIFICATE);
        self.text_with_lines(pem.as_bytes());
    }

    /// Adds the length of the cipher's key in bits.
    pub fn key_size(&mut self, bits: u16) {
        self.bytes.push(attribute::TLS_KEY_SIZE);
        self.bytes.extend_from_slice(&bits.to_be_bytes());
    }

    /// Returns the packet.
    ///
    /// # Errors
    /// It would be longer than `most_bytes`, or a text holds a forbidden byte.
    pub fn finish(mut self, most_bytes: usize) -> Result<Vec<u8>, UnsupportedRequest> {
        if let Some(method) = self.stored_method.take() {
            self.attribute(attribute::STORED_METHOD, &method);
        }
        self.bytes.push(attribute::END);
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        if self.bytes.len() > most_bytes {
            return Err(UnsupportedRequest::TooLong);
        }
        let length =
            u16::try_from(self.bytes.len() - PACKET_HEADER_BYTES).map_err(|_| UnsupportedRequest::TooLong)?;
        self.bytes[2..4].copy_from_slice(&length.to_be_bytes());
        self.bytes[self.count_at..self.count_at + 2].copy_from_slice(&self.fields.to_be_bytes());
        Ok(self.bytes)
    }

    fn text(&mut self, text: &[u8]) {
        if text.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n')) {
            self.problem = Some(UnsupportedRequest::ForbiddenByte);
        }
        self.text_with_lines(text);
    }

    fn text_with_lines(&mut self, text: &[u8]) {
        match u16::try_from(text.len()) {
            Ok(length) if length != NO_STRING => {
                self.bytes.extend_from_slice(&length.to_be_bytes());
                self.bytes.extend_from_slice(text);
                self.bytes.push(0);
            }
            _ => self.problem = Some(UnsupportedRequest::TooLong),
        }
    }
}
