//! The content of a workload's files: printable, HTML-like and the same on every machine for the same seed.
//!
//! The words are drawn at random, so that the files differ and do not compress too well, and every file
//! begins with its name.

use touchstone_http::split_mix::SplitMix;

/// The words that the text is made of.
const WORDS: [&str; 32] = [
    "server", "request", "answer", "client", "network", "page", "measure", "weight", "class", "latency",
    "rate", "byte", "header", "cache", "socket", "kernel", "thread", "buffer", "stone", "gold", "proof",
    "ramp", "mix", "suite", "load", "peak", "limit", "clock", "second", "queue", "core", "log",
];

/// Exactly `bytes` bytes of content for one file.
pub(super) fn make(title: &str, bytes: usize, seed: u64) -> Vec<u8> {
    let head = format!("<!DOCTYPE html>\n<html><head><title>{title}</title></head>\n<body><p>");
    let tail = "</p></body></html>\n";
    let mut random = SplitMix(seed);
    let mut content = Vec::with_capacity(bytes + 64);
    let framed = bytes >= head.len() + tail.len();
    if framed {
        content.extend_from_slice(head.as_bytes());
    }
    let text_end = if framed { bytes - tail.len() } else { bytes };
    write_text(&mut content, text_end, &mut random);
    if framed {
        content.extend_from_slice(tail.as_bytes());
    }
    content
}

/// Fills `content` with words, in lines and paragraphs, until it is exactly `end` bytes long.
fn write_text(content: &mut Vec<u8>, end: usize, random: &mut SplitMix) {
    let mut line_bytes = 0;
    while content.len() < end {
        let number = random.draw();
        let word = WORDS[(number % WORDS.len() as u64) as usize];
        let separator: &[u8] = match (line_bytes, number >> 60) {
            (80.., 0..=1) => b".</p>\n<p>",
            (80.., _) => b"\n",
            (0, _) => b"",
            _ => b" ",
        };
        line_bytes = if line_bytes >= 80 { word.len() } else { line_bytes + separator.len() + word.len() };
        content.extend_from_slice(separator);
        content.extend_from_slice(word.as_bytes());
    }
    // A word or tag that exceeds the end is cut; a cut tag could leave an element open, so it is replaced by
    // dots.
    content.truncate(end);
    let tail_start = end.saturating_sub(16);
    if let Some(open) = content[tail_start..].iter().rposition(|byte| *byte == b'<')
        && !content[tail_start + open..].contains(&b'>')
    {
        content[tail_start + open..].fill(b'.');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn content_has_its_length_is_printable_and_repeats(bytes in 0usize..5000, seed: u64) {
            let content = make("a file", bytes, seed);
            prop_assert_eq!(content.len(), bytes);
            prop_assert!(content.iter().all(|byte| *byte == b'\n' || (0x20..0x7f).contains(byte)));
            let opened = content.iter().filter(|byte| **byte == b'<').count();
            let closed = content.iter().filter(|byte| **byte == b'>').count();
            prop_assert_eq!(opened, closed);
            prop_assert_eq!(&content, &make("a file", bytes, seed));
        }
    }

    #[test]
    fn the_seed_decides_the_content() {
        assert_ne!(make("a file", 4096, 1), make("a file", 4096, 2));
        let text = String::from_utf8(make("CLASS_4K/3", 4096, 1)).unwrap();
        assert!(text.contains("<title>CLASS_4K/3</title>") && text.ends_with("</p></body></html>\n"));
    }
}
