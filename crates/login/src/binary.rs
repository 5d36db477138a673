//! Fields of different lengths in one text of bytes: numbers of eight bytes, and bytes after their length.

/// Writes fields.
#[derive(Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    /// Appends a number.
    pub fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_be_bytes());
    }

    /// Appends the length of bytes, and the bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        // Cookies are thousands of bytes long at most.
        self.0.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
        self.0.extend_from_slice(bytes);
    }
}

/// Reads fields in the order in which they were written. Each method returns `None` if the text ends too
/// early.
pub struct Reader<'t>(pub &'t [u8]);

impl<'t> Reader<'t> {
    /// The next number.
    pub fn number(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// The next bytes, with a fixed length.
    pub fn array<const LENGTH: usize>(&mut self) -> Option<[u8; LENGTH]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    /// The next bytes.
    pub fn bytes(&mut self) -> Option<&'t [u8]> {
        let length = u32::from_be_bytes(self.array()?);
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(bytes)
    }

    /// The next bytes as text.
    pub fn text(&mut self) -> Option<String> {
        std::str::from_utf8(self.bytes()?).ok().map(str::to_string)
    }

    /// Whether all bytes were read.
    pub fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }
}
