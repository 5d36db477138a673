//! The text of a file to import: the content of a gzip file (from log rotation), the UTF-8 form of a file in
//! UTF-16 (from Windows).

use super::{FILE_BYTES_MAX, ImportError};
use flate2::read::MultiGzDecoder;
use std::io::Read;

/// The first two bytes of a file that gzip packed (RFC 1952, section 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Reads all of a file; `name` is its name in messages. Bytes that are not text become U+FFFD: logs contain
/// what clients sent, and such bytes are from invalid requests.
pub fn file_text(name: &str, file: impl Read) -> Result<String, ImportError> {
    let mut bytes = read_limited(name, file)?;
    if bytes.starts_with(&GZIP) {
        bytes = read_limited(name, MultiGzDecoder::new(&bytes[..]))?;
    }
    Ok(match bytes {
        _ if bytes.starts_with(&[0xff, 0xfe]) => utf16(&bytes[2..], u16::from_le_bytes),
        _ if bytes.starts_with(&[0xfe, 0xff]) => utf16(&bytes[2..], u16::from_be_bytes),
        bytes => {
            let text = String::from_utf8(bytes)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
            text.strip_prefix('\u{feff}').map(str::to_string).unwrap_or(text)
        }
    })
}

fn read_limited(name: &str, file: impl Read) -> Result<Vec<u8>, ImportError> {
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| ImportError::new(name, 0, error.to_string()))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(ImportError::new(
            name,
            0,
            format!("the file has more than {FILE_BYTES_MAX} bytes; import a part of it"),
        ));
    }
    Ok(bytes)
}

fn utf16(bytes: &[u8], unit: impl Fn([u8; 2]) -> u16) -> String {
    let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
    String::from_utf16_lossy(&units)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;
    use std::io::Write;

    fn packed(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn every_common_form_of_a_text_is_read() {
        let text = "GET /é\n";
        let read = |bytes: &[u8]| file_text("f", bytes).unwrap();
        assert_eq!(read(text.as_bytes()), text);
        assert_eq!(read(&packed(text)), text);
        assert_eq!(read(&[packed("a\n"), packed("b\n")].concat()), "a\nb\n");
        assert_eq!(read(&[b"\xef\xbb\xbf", text.as_bytes()].concat()), text);
        let units = |bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
            "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(bytes).collect()
        };
        assert_eq!(read(&units(u16::to_le_bytes)), text);
        assert_eq!(read(&units(u16::to_be_bytes)), text);
        assert_eq!(read(b"a\xffb"), "a\u{fffd}b");
        assert_eq!(read(b""), "");
    }

    #[test]
    fn a_packed_file_that_is_cut_short_says_so() {
        let whole = packed("a line\n");
        let error = file_text("x.gz", &whole[..whole.len() - 6]).unwrap_err().to_string();
        assert!(error.starts_with("x.gz: "), "{error}");
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(
            begin in prop::sample::select(
                vec![vec![], GZIP.to_vec(), vec![0xff, 0xfe], vec![0xfe, 0xff], packed("a")]
            ),
            bytes in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let _ = file_text("any", &[begin, bytes].concat()[..]);
        }
    }
}
