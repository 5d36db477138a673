//! The fields `Signature-Input` and `Signature` (RFC 9421 section 4).

use sfv::{FieldType as _, InnerList, KeyRef, ListEntry};

use super::component::Component;
use super::message::Message;
use super::structured::{dictionary, joined};
use super::{LONGEST_FIELD_BYTES, MOST_COMPONENTS, MOST_SIGNATURES, Problem};

/// The maximum length of a signature in bytes: one of RSA with 8,192 bits.
const LONGEST_SIGNATURE_BYTES: usize = 1024;

/// A signature of a message, not verified yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Signature {
    /// Its label, which is not signed.
    pub label: String,
    /// The components that it covers, in order.
    pub components: Vec<Component>,
    /// When it was created, in seconds of Unix time.
    pub created: Option<u64>,
    /// When it ends.
    pub expires: Option<u64>,
    /// A value that is used once.
    pub nonce: Option<String>,
    /// The name of the key.
    pub key_id: Option<String>,
    /// The algorithm, as the signer names it.
    pub algorithm: Option<String>,
    /// What it is for.
    pub tag: Option<String>,
    /// The bytes of the signature.
    pub bytes: Vec<u8>,
    /// The list of components with its parameters in the strict form.
    pub(super) written: String,
}

/// The signatures of a message, in order. A message without the fields has none.
pub fn read(message: &Message<'_>) -> Result<Vec<Signature>, Problem> {
    let inputs = joined(message.values(b"signature-input"));
    let values = joined(message.values(b"signature"));
    let (inputs, values) = match (inputs, values) {
        (None, None) => return Ok(Vec::new()),
        (Some(inputs), Some(values)) => (inputs, values),
        _ => return Err(Problem::Malformed("Signature and Signature-Input belong together")),
    };
    if inputs.len().max(values.len()) > LONGEST_FIELD_BYTES {
        return Err(Problem::Malformed("Signature or Signature-Input is too long"));
    }
    let inputs = dictionary(&inputs).ok_or(Problem::Malformed("Signature-Input is not a dictionary"))?;
    let values = dictionary(&values).ok_or(Problem::Malformed("Signature is not a dictionary"))?;
    if inputs.len().max(values.len()) > MOST_SIGNATURES {
        return Err(Problem::Malformed("the message has too many signatures"));
    }
    if inputs.len() != values.len() {
        return Err(Problem::Malformed("Signature and Signature-Input have different labels"));
    }
    let mut signatures = Vec::with_capacity(inputs.len());
    for (label, input) in &inputs {
        let key: &KeyRef = label.as_ref();
        let value = values.get(key);
        let value = value.ok_or(Problem::Malformed("Signature and Signature-Input have different labels"))?;
        let ListEntry::InnerList(input) = input else {
            return Err(Problem::Malformed("a member of Signature-Input is not a list"));
        };
        let bytes = match value {
            ListEntry::Item(item) => item.bare_item.as_byte_sequence(),
            ListEntry::InnerList(_) => None,
        };
        let bytes = bytes.ok_or(Problem::Malformed("a member of Signature is not a byte sequence"))?;
        if bytes.is_empty() || bytes.len() > LONGEST_SIGNATURE_BYTES {
            return Err(Problem::Malformed("a signature is empty or too long"));
        }
        signatures.push(signature(label.as_str(), input, bytes)?);
    }
    Ok(signatures)
}

fn signature(label: &str, input: &InnerList, bytes: &[u8]) -> Result<Signature, Problem> {
    if input.items.len() > MOST_COMPONENTS {
        return Err(Problem::Malformed("a signature covers too many components"));
    }
    let mut components = Vec::with_capacity(input.items.len());
    for item in &input.items {
        let component = Component::read(item)?;
        if components.iter().any(|other: &Component| other.identifier == component.identifier) {
            return Err(Problem::Malformed("a signature covers a component twice"));
        }
        components.push(component);
    }
    let written = vec![ListEntry::InnerList(input.clone())].serialize();
    let mut read = Signature {
        label: label.to_string(),
        components,
        created: None,
        expires: None,
        nonce: None,
        key_id: None,
        algorithm: None,
        tag: None,
        bytes: bytes.to_vec(),
        written: written.ok_or(Problem::Malformed("a member of Signature-Input is empty"))?,
    };
    for (name, value) in &input.params {
        let time = || {
            let seconds = value.as_integer().and_then(|seconds| u64::try_from(seconds).ok());
            seconds.map(Some).ok_or(Problem::Malformed("a time of a signature is not a number"))
        };
        let text = || {
            let text = value.as_string().map(|text| text.as_str().to_string());
            text.map(Some).ok_or(Problem::Malformed("a parameter of a signature is not a string"))
        };
        match name.as_str() {
            "created" => read.created = time()?,
            "expires" => read.expires = time()?,
            "nonce" => read.nonce = text()?,
            "keyid" => read.key_id = text()?,
            "alg" => read.algorithm = text()?,
            "tag" => read.tag = text()?,
            // Others are signed with the rest, and have no effect here.
            _ => {}
        }
    }
    Ok(read)
}
