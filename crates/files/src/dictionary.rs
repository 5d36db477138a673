//! Compression dictionaries (RFC 9842): earlier versions of files, with which later ones are compressed for
//! clients that still have the earlier.
//!
//! A file whose path matches a pattern of its site is a dictionary for all files whose paths match the same
//! pattern. Its content is kept here by its SHA-256 from the first time it is read, also when the file has
//! changed or was deleted, and over reloads. If the bytes exceed their limit, the content that has been
//! unused for longest is removed.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};
use touchstone_http::dictionary::{DictionaryCoding, DictionaryHash};

use crate::compress::level_range;

/// The window of `dcb`: it must have room for a dictionary and the result together.
const MOST_BROTLI_BYTES: usize = (1 << 24) - 16;

/// The logarithm of the minimum window of every `dcz` client (section 5): 8 MiB.
const LEAST_ZSTD_WINDOW_LOG: u32 = 23;

/// The logarithm of the maximum window that a `dcz` client may need: 128 MiB.
const MOST_ZSTD_WINDOW_LOG: u32 = 27;

/// A pattern for paths: `*` matches any bytes, all other bytes match themselves.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pattern(Arc<str>);

impl Pattern {
    /// Parses a pattern; the error states what is wrong. The pattern is sent in `Use-As-Dictionary` as a URL
    /// pattern, so characters that are special there are refused.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        if !text.starts_with('/') {
            return Err("it must begin with '/'".to_string());
        }
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/*-._~!$&',;=@%".contains(letter);
        match text.chars().find(|&letter| !is_plain(letter)) {
            None => Ok(Pattern(text.into())),
            Some(letter) => {
                Err(format!("{letter:?} is not allowed: use letters, digits, /-._~!$&',;=@% and *"))
            }
        }
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether it matches a path.
    pub fn matches(&self, path: &[u8]) -> bool {
        let mut parts = self.0.as_bytes().split(|&byte| byte == b'*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = path.strip_prefix(first) else { return false };
        let mut parts = parts.peekable();
        if parts.peek().is_none() {
            return rest.is_empty();
        }
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                return rest.ends_with(part);
            }
            let found = if part.is_empty() { Some(0) } else { memchr::memmem::find(rest, part) };
            let Some(at) = found else { return false };
            rest = &rest[at + part.len()..];
        }
        true
    }
}

/// A site's settings for dictionaries.
#[derive(Debug, Clone, Default)]
pub struct SiteDictionaries {
    /// The patterns of files that are dictionaries.
    pub patterns: Vec<Pattern>,
    /// Identifies the site, also over reloads: sites do not share dictionaries.
    pub scope: u64,
}

impl SiteDictionaries {
    /// The first pattern that matches a path.
    pub fn pattern(&self, path: &[u8]) -> Option<&Pattern> {
        self.patterns.iter().find(|pattern| pattern.matches(path))
    }
}

/// The dictionaries of all sites.
#[derive(Debug, Default)]
pub struct Dictionaries {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    by_hash: HashMap<(u64, DictionaryHash), StoredDictionary>,
    bytes: u64,
    limit_bytes: u64,
    /// A counter that each use increments.
    clock: u64,
}

#[derive(Debug)]
struct StoredDictionary {
    pattern: Pattern,
    content: Arc<[u8]>,
    used_at: u64,
}

/// Metrics for the operator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DictionaryCounters {
    /// The number of stored dictionaries.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Dictionaries {
    /// Sets the maximum size of all dictionaries together.
    pub fn set_limit(&self, bytes: u64) {
        let state = &mut *self.lock();
        state.limit_bytes = bytes;
        state.make_room();
    }

    /// Stores a version of a file that was just read.
    pub fn keep(&self, scope: u64, pattern: &Pattern, content: &[u8]) {
        let hash: DictionaryHash = Sha256::digest(content).into();
        let state = &mut *self.lock();
        state.clock += 1;
        let used_at = state.clock;
        if let Some(known) = state.by_hash.get_mut(&(scope, hash)) {
            known.used_at = used_at;
            known.pattern = pattern.clone();
            return;
        }
        if content.len() as u64 > state.limit_bytes {
            return;
        }
        state.bytes += content.len() as u64;
        let stored = StoredDictionary { pattern: pattern.clone(), content: content.into(), used_at };
        state.by_hash.insert((scope, hash), stored);
        state.make_room();
    }

    /// The content of a site's dictionary, if it is one for this path.
    pub fn find(&self, scope: u64, hash: &DictionaryHash, path: &[u8]) -> Option<Arc<[u8]>> {
        let state = &mut *self.lock();
        state.clock += 1;
        let used_at = state.clock;
        let stored = state.by_hash.get_mut(&(scope, *hash)).filter(|stored| stored.pattern.matches(path))?;
        stored.used_at = used_at;
        Some(stored.content.clone())
    }

    /// Metrics for the operator.
    pub fn counters(&self) -> DictionaryCounters {
        let state = self.lock();
        DictionaryCounters { count: state.by_hash.len() as u64, bytes: state.bytes }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // Every critical section leaves a consistent state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn make_room(&mut self) {
        while self.bytes > self.limit_bytes {
            let oldest = self.by_hash.iter().min_by_key(|(_, stored)| stored.used_at).map(|(key, _)| *key);
            let Some(gone) = oldest.and_then(|key| self.by_hash.remove(&key)) else { return };
            self.bytes -= gone.content.len() as u64;
        }
    }
}

/// Whether a body of this length can be compressed with a dictionary in this coding.
pub fn has_room(coding: DictionaryCoding, dictionary: &[u8], body_length: usize) -> bool {
    let together = dictionary.len() + body_length;
    match coding {
        DictionaryCoding::Brotli => together <= MOST_BROTLI_BYTES,
        DictionaryCoding::Zstd => together <= 1 << MOST_ZSTD_WINDOW_LOG,
    }
}

/// Compresses a body with a dictionary. This may take long and must not be called on an event loop.
///
/// # Errors
/// The coder's error.
pub fn compress(coding: DictionaryCoding, level: u8, dictionary: &[u8], body: &[u8]) -> io::Result<Vec<u8>> {
    let (least, most) = level_range(coding.plain());
    let level = level.clamp(least, most);
    let mut compressed = coding.magic().to_vec();
    compressed.extend_from_slice(&Sha256::digest(dictionary));
    match coding {
        DictionaryCoding::Brotli => compress_brotli(level, dictionary, body, &mut compressed)?,
        DictionaryCoding::Zstd => {
            let mut encoder =
                zstd::stream::write::Encoder::with_ref_prefix(&mut compressed, i32::from(level), dictionary)?;
            encoder.set_pledged_src_size(Some(body.len() as u64))?;
            encoder.include_contentsize(true)?;
            encoder.window_log(zstd_window_log(dictionary.len(), body.len()))?;
            encoder.write_all(body)?;
            encoder.finish()?;
        }
    }
    Ok(compressed)
}

/// The window from the end of the body back to the beginning of the dictionary, up to what every client
/// supports: 8 MiB, or one and a quarter of the dictionary.
fn zstd_window_log(dictionary: usize, body: usize) -> u32 {
    let wanted = (dictionary + body).next_power_of_two().trailing_zeros();
    let granted = (dictionary + dictionary / 4).max(1).ilog2().max(LEAST_ZSTD_WINDOW_LOG);
    wanted.clamp(10, granted.min(MOST_ZSTD_WINDOW_LOG))
}

fn compress_brotli(level: u8, dictionary: &[u8], body: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    let together = (dictionary.len() + body.len() + 16).next_power_of_two().trailing_zeros();
    let parameters = brotli::enc::BrotliEncoderParams {
        quality: i32::from(level),
        lgwin: together.clamp(18, 24) as i32,
        size_hint: body.len(),
        ..Default::default()
    };
    let (mut input, mut output) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    brotli::enc::BrotliCompressCustomIoCustomDict(
        &mut brotli::IoReaderWrapper(&mut &body[..]),
        &mut brotli::IoWriterWrapper(out),
        &mut input,
        &mut output,
        &parameters,
        brotli::enc::StandardAlloc::default(),
        &mut |_, _, _, _| (),
        dictionary,
        io::Error::from(io::ErrorKind::UnexpectedEof),
    )?;
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Read;

    use super::*;
    use proptest::prelude::*;

    /// Decompresses a body with the decoders of the same crates.
    pub(crate) fn decompress(coding: DictionaryCoding, dictionary: &[u8], body: &[u8]) -> Vec<u8> {
        let hash = Sha256::digest(dictionary);
        let coded = body.strip_prefix(coding.magic()).and_then(|rest| rest.strip_prefix(&hash[..])).unwrap();
        let mut plain = Vec::new();
        match coding {
            DictionaryCoding::Brotli => {
                let dictionary = dictionary.to_vec().into();
                let mut decoder = brotli::Decompressor::new_with_custom_dict(coded, 4096, dictionary);
                decoder.read_to_end(&mut plain).unwrap();
            }
            DictionaryCoding::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_ref_prefix(coded, dictionary).unwrap();
                decoder.window_log_max(MOST_ZSTD_WINDOW_LOG).unwrap();
                decoder.read_to_end(&mut plain).unwrap();
            }
        }
        plain
    }

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).unwrap()
    }

    #[test]
    fn patterns() {
        for (text, path, expected) in [
            ("/js/*", "/js/a.js", true),
            ("/js/*", "/js/", true),
            ("/js/*", "/css/a", false),
            ("/app/*/main.js", "/app/v1/main.js", true),
            ("/app/*/main.js", "/app/v1/x/main.js", true),
            ("/app/*/main.js", "/app/main.js", false),
            ("/app/*/main.js", "/app/v1/main.jsx", false),
            ("/a*b*c", "/abc", true),
            ("/a*b*c", "/a-b-b-c", true),
            ("/a*b*c", "/acb", false),
            ("/a**c", "/ac", true),
            ("/plain.js", "/plain.js", true),
            ("/plain.js", "/plain.jss", false),
            ("*", "/", false),
        ] {
            let found = Pattern::parse(text).is_ok_and(|pattern| pattern.matches(path.as_bytes()));
            assert_eq!(found, expected, "{text} {path}");
        }
        for text in ["", "js/*", "/a:b", "/(x)", "/a?b", "/{a}", "/a b", "/a\"b", "/a\\b", "/\u{e9}", "/a+"] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_least_used_goes_and_one_sites_are_no_others() {
        let dictionaries = Dictionaries::default();
        dictionaries.set_limit(3000);
        let content = |letter: u8| vec![letter; 1000];
        let hash = |letter: u8| -> DictionaryHash { Sha256::digest(content(letter)).into() };
        for letter in [1, 2, 3] {
            dictionaries.keep(7, &pattern("/a*"), &content(letter));
        }
        assert_eq!(dictionaries.find(7, &hash(1), b"/ab").as_deref(), Some(&content(1)[..]));
        assert_eq!(dictionaries.find(8, &hash(1), b"/ab"), None);
        assert_eq!(dictionaries.find(7, &hash(1), b"/b"), None);
        dictionaries.keep(7, &pattern("/a*"), &content(4));
        assert_eq!(dictionaries.find(7, &hash(2), b"/ab"), None);
        assert!(dictionaries.find(7, &hash(1), b"/ab").is_some());
        assert_eq!(dictionaries.counters(), DictionaryCounters { count: 3, bytes: 3000 });
        dictionaries.keep(7, &pattern("/a*"), &[5; 3001]);
        assert_eq!(dictionaries.counters().count, 3);
        dictionaries.set_limit(0);
        assert_eq!(dictionaries.counters(), DictionaryCounters::default());
    }

    #[test]
    fn windows_are_what_every_client_has() {
        for (dictionary, body, expected) in [
            (0, 0, 10),
            (1000, 1000, 11),
            (5 << 20, 5 << 20, 23),
            (16 << 20, 4 << 20, 24),
            (60 << 20, 60 << 20, 26),
            (120 << 20, 8 << 20, 27),
        ] {
            assert_eq!(zstd_window_log(dictionary, body), expected, "{dictionary} {body}");
        }
    }

    #[test]
    fn a_next_version_is_much_shorter_with_the_one_before() {
        let version = |number: u32| -> Vec<u8> {
            (0..4000u32)
                .flat_map(|line| {
                    format!("line {} {}\n", line * 7919 % 4001, if line == 9 { number } else { 0 })
                        .into_bytes()
                })
                .collect()
        };
        let (before, next) = (version(1), version(2));
        for coding in DictionaryCoding::ALL {
            let (least, most) = level_range(coding.plain());
            for level in [least, 5, 9, most] {
                let coded = compress(coding, level, &before, &next).unwrap();
                assert!(decompress(coding, &before, &coded) == next, "{coding:?} {level}");
                assert!(level < 5 || coded.len() < 400, "{coding:?} {level}: {}", coded.len());
                assert_eq!(compress(coding, level, &before, &next).unwrap(), coded);
            }
        }
    }

    proptest! {
        #[test]
        fn any_body_comes_back(
            dictionary in proptest::collection::vec(any::<u8>(), 0..3000),
            body in proptest::collection::vec(any::<u8>(), 0..3000),
        ) {
            for coding in DictionaryCoding::ALL {
                let coded = compress(coding, 6, &dictionary, &body).unwrap();
                prop_assert_eq!(&decompress(coding, &dictionary, &coded), &body);
            }
        }
    }
}
