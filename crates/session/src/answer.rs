//! The parts of an answer that the steps of a session read.

/// The header fields of an answer of any HTTP version.
pub trait FieldSource {
    /// Calls `take` with the value of each field with this name, in order, until it returns true. Names are
    /// not case-sensitive.
    fn each(&self, name: &[u8], take: &mut dyn FnMut(&[u8]) -> bool);
}

/// An answer with its whole body.
#[derive(Clone, Copy)]
pub struct AnswerView<'a> {
    /// The header fields.
    pub fields: &'a dyn FieldSource,
    /// The body without transfer coding.
    pub body: &'a [u8],
}

/// Names and values, for HTTP/2 and HTTP/3.
impl FieldSource for Vec<(Vec<u8>, Vec<u8>)> {
    fn each(&self, name: &[u8], take: &mut dyn FnMut(&[u8]) -> bool) {
        let fields = self.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name));
        let _ = fields.map(|(_, value)| value).any(|value| take(value));
    }
}
