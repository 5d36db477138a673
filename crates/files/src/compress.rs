//! Compresses a whole body in memory, or one that arrives in pieces (RFC 7932, RFC 8878, RFC 1952), with a
//! level for each coding.
//!
//! A file is compressed once and sent many times, so the levels are higher than those of servers that
//! compress every answer. The first client waits for it, so the levels are lower than those that take much
//! more time for a small gain.

use std::io::{self, Write};

use touchstone_http::content_coding::ContentCoding;

/// The default level of each coding. Measured on HTML, JavaScript and JSON of 130 to 230 kB (2 to 25 ms
/// each): the next levels save 1 to 2 % of the bytes for up to twice the time. The highest level of brotli
/// saves 12 % for thirty to three hundred times as much time, which suits a twin that is made beforehand.
pub fn default_level(coding: ContentCoding) -> u8 {
    match coding {
        ContentCoding::Brotli => 5,
        ContentCoding::Zstd => 9,
        ContentCoding::Gzip => 6,
    }
}

/// The lowest and the highest level of a coding. That of zstd is 19: higher levels use windows above the 8
/// MiB that every client must support (RFC 9659).
pub fn level_range(coding: ContentCoding) -> (u8, u8) {
    match coding {
        ContentCoding::Brotli => (0, 11),
        ContentCoding::Zstd => (1, 19),
        ContentCoding::Gzip => (1, 9),
    }
}

/// Compresses a body. A level outside the range is replaced by the nearest one in it. This may take long and
/// must not be called on an event loop.
///
/// # Errors
/// The coder's error. No coder is known to fail once its memory is allocated.
pub fn compress(coding: ContentCoding, level: u8, body: &[u8]) -> io::Result<Vec<u8>> {
    let (least, most) = level_range(coding);
    let level = level.clamp(least, most);
    // Text is compressed to about a quarter.
    let mut compressed = Vec::with_capacity(body.len() / 3 + 64);
    match coding {
        ContentCoding::Brotli => {
            let parameters = brotli::enc::BrotliEncoderParams {
                quality: i32::from(level),
                size_hint: body.len(),
                ..Default::default()
            };
            brotli::BrotliCompress(&mut &body[..], &mut compressed, &parameters)?;
        }
        ContentCoding::Zstd => {
            let mut encoder = zstd::stream::write::Encoder::new(&mut compressed, i32::from(level))?;
            // The size lets the encoder choose a window no larger than the body.
            encoder.set_pledged_src_size(Some(body.len() as u64))?;
            encoder.include_contentsize(true)?;
            encoder.write_all(body)?;
            encoder.finish()?;
        }
        ContentCoding::Gzip => {
            let level = flate2::Compression::new(u32::from(level));
            let mut encoder = flate2::write::GzEncoder::new(&mut compressed, level);
            encoder.write_all(body)?;
            encoder.finish()?;
        }
    }
    Ok(compressed)
}

/// The logarithm of the window for a body that arrives in pieces. Each such body keeps a window in memory.
const STREAM_WINDOW_LOG: u32 = 18;

/// The buffer for a coder's output.
const STREAM_BUFFER_BYTES: usize = 16 * 1024;

/// Compresses a body that arrives in pieces.
pub struct Compressor(Coder);

enum Coder {
    Brotli(Box<brotli::CompressorWriter<Vec<u8>>>),
    Zstd(Box<zstd::stream::write::Encoder<'static, Vec<u8>>>),
    Gzip(Box<flate2::write::GzEncoder<Vec<u8>>>),
}

impl Compressor {
    /// Creates a compressor. A level outside the coding's range is replaced by the nearest one in it.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new(coding: ContentCoding, level: u8) -> io::Result<Compressor> {
        let (least, most) = level_range(coding);
        let level = level.clamp(least, most);
        Ok(Compressor(match coding {
            ContentCoding::Brotli => {
                let parameters = brotli::enc::BrotliEncoderParams {
                    quality: i32::from(level),
                    lgwin: STREAM_WINDOW_LOG as i32,
                    ..Default::default()
                };
                let coder =
                    brotli::CompressorWriter::with_params(Vec::new(), STREAM_BUFFER_BYTES, &parameters);
                Coder::Brotli(Box::new(coder))
            }
            ContentCoding::Zstd => {
                let mut coder = zstd::stream::write::Encoder::new(Vec::new(), i32::from(level))?;
                coder.window_log(STREAM_WINDOW_LOG)?;
                Coder::Zstd(Box::new(coder))
            }
            ContentCoding::Gzip => {
                let level = flate2::Compression::new(u32::from(level));
                Coder::Gzip(Box::new(flate2::write::GzEncoder::new(Vec::new(), level)))
            }
        }))
    }

    /// Takes a piece and returns the coded bytes that are ready, if any.
    ///
    /// # Errors
    /// The coder's error.
    pub fn piece(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        self.coder().write_all(bytes)?;
        Ok(self.take())
    }

    /// Returns the rest of the coded bytes of all pieces so far, so that a decoder can read the pieces.
    ///
    /// # Errors
    /// The coder's error.
    pub fn flush(&mut self) -> io::Result<Vec<u8>> {
        self.coder().flush()?;
        Ok(self.take())
    }

    /// Returns the end of the coded form.
    ///
    /// # Errors
    /// The coder's error.
    pub fn finish(self) -> io::Result<Vec<u8>> {
        match self.0 {
            Coder::Brotli(coder) => Ok(coder.into_inner()),
            Coder::Zstd(coder) => coder.finish(),
            Coder::Gzip(coder) => coder.finish(),
        }
    }

    fn coder(&mut self) -> &mut dyn Write {
        match &mut self.0 {
            Coder::Brotli(coder) => coder,
            Coder::Zstd(coder) => coder,
            Coder::Gzip(coder) => coder,
        }
    }

    fn take(&mut self) -> Vec<u8> {
        std::mem::take(match &mut self.0 {
            Coder::Brotli(coder) => coder.get_mut(),
            Coder::Zstd(coder) => coder.get_mut(),
            Coder::Gzip(coder) => coder.get_mut(),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Read;

    use super::*;
    use proptest::prelude::*;

    /// Decompresses a body with the decoders of the same crates.
    pub(crate) fn decompress(coding: ContentCoding, body: &[u8]) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        match coding {
            ContentCoding::Brotli => brotli::Decompressor::new(body, 4096).read_to_end(&mut plain)?,
            ContentCoding::Zstd => zstd::stream::read::Decoder::new(body)?.read_to_end(&mut plain)?,
            ContentCoding::Gzip => flate2::read::GzDecoder::new(body).read_to_end(&mut plain)?,
        };
        Ok(plain)
    }

    #[test]
    fn every_level_gives_the_body_back() {
        let body: Vec<u8> =
            (0..3000u32).flat_map(|number| format!("<li>{number}</li>\n").into_bytes()).collect();
        for coding in ContentCoding::ALL {
            let (least, most) = level_range(coding);
            for level in [0, least, default_level(coding), most, 255] {
                let compressed = compress(coding, level, &body).unwrap();
                assert!(compressed.len() < body.len() / 2, "{coding:?} {level}: {}", compressed.len());
                assert!(decompress(coding, &compressed).unwrap() == body, "{coding:?} {level}");
            }
        }
    }

    #[test]
    fn the_same_body_gives_the_same_bytes() {
        // A strong entity tag identifies the bytes, so they must not contain a time stamp.
        let body = b"once and again, ".repeat(100);
        for coding in ContentCoding::ALL {
            let first = compress(coding, default_level(coding), &body).unwrap();
            assert_eq!(compress(coding, default_level(coding), &body).unwrap(), first);
        }
    }

    #[test]
    fn zstd_keeps_to_the_window_of_rfc_9659() {
        // For these 20 MiB the encoder would choose a larger window.
        let body = b"0123456789abcdef".repeat(20 << 16);
        let compressed = compress(ContentCoding::Zstd, 255, &body).unwrap();
        let mut decoder = zstd::stream::read::Decoder::new(&compressed[..]).unwrap();
        decoder.window_log_max(23).unwrap();
        assert_eq!(io::copy(&mut decoder, &mut io::sink()).unwrap(), body.len() as u64);
    }

    #[test]
    fn what_was_flushed_can_be_read() {
        for coding in ContentCoding::ALL {
            let mut compressor = Compressor::new(coding, default_level(coding)).unwrap();
            let mut coded = compressor.piece(b"first").unwrap();
            coded.extend(compressor.flush().unwrap());
            let mut plain = [0; 5];
            let mut decoder: Box<dyn Read> = match coding {
                ContentCoding::Brotli => Box::new(brotli::Decompressor::new(&coded[..], 4096)),
                ContentCoding::Zstd => Box::new(zstd::stream::read::Decoder::new(&coded[..]).unwrap()),
                ContentCoding::Gzip => Box::new(flate2::read::GzDecoder::new(&coded[..])),
            };
            decoder.read_exact(&mut plain).unwrap();
            assert_eq!(&plain, b"first", "{coding:?}");
        }
    }

    proptest! {
        #[test]
        fn any_pieces_are_decompressed_to_the_same(
            pieces in proptest::collection::vec(
                (proptest::collection::vec(any::<u8>(), 0..2000), any::<bool>()),
                0..6,
            ),
            level in 0u8..=9,
        ) {
            for coding in ContentCoding::ALL {
                let mut compressor = Compressor::new(coding, level).unwrap();
                let mut coded = Vec::new();
                for (piece, is_flushed) in &pieces {
                    coded.extend(compressor.piece(piece).unwrap());
                    if *is_flushed {
                        coded.extend(compressor.flush().unwrap());
                    }
                }
                coded.extend(compressor.finish().unwrap());
                let plain: Vec<u8> = pieces.iter().flat_map(|(piece, _)| piece.clone()).collect();
                prop_assert_eq!(&decompress(coding, &coded).unwrap(), &plain);
            }
        }

        #[test]
        fn any_body_comes_back(body in proptest::collection::vec(any::<u8>(), 0..2000), level in 0u8..=9) {
            for coding in ContentCoding::ALL {
                let compressed = compress(coding, level, &body).unwrap();
                prop_assert_eq!(&decompress(coding, &compressed).unwrap(), &body);
            }
        }
    }
}
