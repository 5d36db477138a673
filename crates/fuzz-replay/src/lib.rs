//! Stands in for the crate `libfuzzer-sys`: [`fuzz_target!`] makes a plain function of a fuzz target, and
//! [`replay`] calls it with the inputs that fuzzing has found.
//!
//! The inputs of a target are in `crates/CRATE/fuzz/seeds/TARGET`, one on each line, written as the inside of
//! a byte string (`\x00`, `\n`, `\\`). `scripts/fuzz.sh` starts from them and, with `--save`, writes them. A
//! line can be added by hand: an input that made a target fail belongs there.

use std::fs;
use std::path::Path;

pub use arbitrary;

/// A fuzz target as a function `run`, with the same forms of argument as in `libfuzzer-sys`.
#[macro_export]
macro_rules! fuzz_target {
    (|$bytes:ident: &[u8]| $body:expr) => {
        pub fn run($bytes: &[u8]) {
            $body
        }
    };
    (|$input:ident: $form:ty| $body:expr) => {
        pub fn run(bytes: &[u8]) {
            let unstructured = $crate::arbitrary::Unstructured::new(bytes);
            if let Ok($input) = <$form as $crate::arbitrary::Arbitrary>::arbitrary_take_rest(unstructured) {
                $body
            }
        }
    };
}

/// Calls `target` with every line of the file `seeds`. A panic names the line.
pub fn replay(seeds: &Path, target: fn(&[u8])) {
    let text = fs::read_to_string(seeds).unwrap_or_else(|error| panic!("{}: {error}", seeds.display()));
    for (number, line) in text.lines().enumerate() {
        let input =
            unescape(line).unwrap_or_else(|| panic!("{}:{}: not escaped bytes", seeds.display(), number + 1));
        let guard = LineNumber(seeds, number + 1);
        target(&input);
        std::mem::forget(guard);
    }
}

/// Says, when a target panics, which line it was.
struct LineNumber<'a>(&'a Path, usize);

impl Drop for LineNumber<'_> {
    #[allow(clippy::print_stderr, reason = "the harness shows it with the failed test")]
    fn drop(&mut self) {
        eprintln!("{}:{}: this input fails", self.0.display(), self.1);
    }
}

/// The bytes that a line stands for; `None` if it is not the inside of a byte string.
fn unescape(line: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(line.len());
    let mut bytes = line.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match bytes.next()? {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            byte @ (b'\\' | b'\'' | b'"') => byte,
            b'x' => hex_digit(bytes.next()?)? << 4 | hex_digit(bytes.next()?)?,
            _ => return None,
        });
    }
    Some(out)
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_gives_the_bytes_that_it_was_written_from() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(unescape(&bytes.escape_ascii().to_string()), Some(bytes));
        assert_eq!(unescape("\\q"), None);
        assert_eq!(unescape("\\x4"), None);
        assert_eq!(unescape("end\\"), None);
    }
}
