//! The check whether a text in parts is UTF-8.

/// Checks the parts of one text; a character may be divided between parts.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Utf8Check {
    partial: [u8; 4],
    length: usize,
}

impl Utf8Check {
    /// Processes the next part; returns false if the text is not UTF-8.
    pub(crate) fn take(&mut self, part: &[u8]) -> bool {
        let mut rest = part;
        while self.length > 0 {
            let Some((&byte, after)) = rest.split_first() else { return true };
            rest = after;
            self.partial[self.length] = byte;
            self.length += 1;
            match std::str::from_utf8(&self.partial[..self.length]) {
                Ok(_) => self.length = 0,
                Err(error) if error.error_len().is_none() => {}
                Err(_) => return false,
            }
        }
        match std::str::from_utf8(rest) {
            Ok(_) => true,
            Err(error) if error.error_len().is_none() => {
                let tail = &rest[error.valid_up_to()..];
                self.partial[..tail.len()].copy_from_slice(tail);
                self.length = tail.len();
                true
            }
            Err(_) => false,
        }
    }

    /// Whether the last character is complete.
    pub(crate) fn is_whole(&self) -> bool {
        self.length == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_utf8(parts: &[&[u8]]) -> bool {
        let mut check = Utf8Check::default();
        parts.iter().all(|part| check.take(part)) && check.is_whole()
    }

    proptest! {
        #[test]
        fn the_result_does_not_depend_on_the_parts(text: String, bytes: Vec<u8>, piece in 1usize..5) {
            for whole in [text.as_bytes(), &bytes, &[text.as_bytes(), &bytes].concat()] {
                let parts: Vec<&[u8]> = whole.chunks(piece).collect();
                prop_assert_eq!(is_utf8(&parts), std::str::from_utf8(whole).is_ok());
            }
        }
    }
}
