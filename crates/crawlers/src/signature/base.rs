//! The bytes that are signed (RFC 9421 section 2.5).

use super::message::Message;
use super::parse::Signature;
use super::{LONGEST_BASE_BYTES, Problem};

impl Signature {
    /// The bytes that this signature signs in a message.
    pub fn base(&self, message: &Message<'_>) -> Result<Vec<u8>, Problem> {
        let mut base = Vec::with_capacity(256);
        for component in &self.components {
            base.extend_from_slice(component.identifier.as_bytes());
            base.extend_from_slice(b": ");
            base.extend_from_slice(&component.value(message)?);
            base.push(b'\n');
            if base.len() > LONGEST_BASE_BYTES {
                return Err(Problem::Component("the covered components are too long"));
            }
        }
        base.extend_from_slice(b"\"@signature-params\": ");
        base.extend_from_slice(self.written.as_bytes());
        Ok(base)
    }
}
