//! Replaces texts in a body that arrives in pieces.
//!
//! Only bytes that could be the beginning of a text are held until more arrive: at most one byte less than
//! the longest text.

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, Input, MatchKind};

/// A text, and its replacement.
type Pair = (Box<[u8]>, Box<[u8]>);

/// The texts, and their replacements.
pub struct Texts {
    searcher: AhoCorasick,
    texts: Box<[Pair]>,
    longest: usize,
    once: bool,
    ignore_case: bool,
}

/// The replacement of texts in one body.
pub struct TextReplacement<'t> {
    texts: &'t Texts,
    held: Vec<u8>,
    /// A bit for each text that is not searched any more.
    used: u64,
}

impl Texts {
    /// The most texts: [`TextReplacement::used`] has a bit for each.
    pub const MOST: usize = 64;

    /// Prepares to search for texts, up to [`Texts::MOST`], none of them empty.
    pub fn new<'t>(
        replace: impl Iterator<Item = (&'t [u8], &'t [u8])>,
        once: bool,
        ignore_case: bool,
    ) -> Result<Texts, String> {
        let texts: Box<[Pair]> = replace.map(|(text, other)| (text.into(), other.into())).collect();
        if texts.len() > Texts::MOST || texts.iter().any(|(text, _)| text.is_empty()) {
            return Err(format!("there must be at most {} texts, none of them empty", Texts::MOST));
        }
        let searcher = AhoCorasickBuilder::new()
            .match_kind(MatchKind::LeftmostLongest)
            .ascii_case_insensitive(ignore_case)
            .build(texts.iter().map(|(text, _)| text))
            .map_err(|error| error.to_string())?;
        let longest = texts.iter().map(|(text, _)| text.len()).max().unwrap_or_default();
        Ok(Texts { searcher, texts, longest, once, ignore_case })
    }

    /// Begins the replacement in a body.
    pub fn begin(&self) -> TextReplacement<'_> {
        TextReplacement { texts: self, held: Vec::new(), used: 0 }
    }

    fn equal(&self, one: &[u8], other: &[u8]) -> bool {
        if self.ignore_case { one.eq_ignore_ascii_case(other) } else { one == other }
    }
}

impl TextReplacement<'_> {
    /// Processes a piece of the body; appends the bytes that are final to `out`.
    pub fn piece(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        if self.held.is_empty() {
            let kept = self.replace(piece, false, out);
            self.held.extend_from_slice(&piece[kept..]);
        } else {
            self.held.extend_from_slice(piece);
            let buffer = std::mem::take(&mut self.held);
            let kept = self.replace(&buffer, false, out);
            self.held.extend_from_slice(&buffer[kept..]);
        }
    }

    /// Called at the end of the body.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let buffer = std::mem::take(&mut self.held);
        self.replace(&buffer, true, out);
    }

    /// Appends the beginning of `buffer` with its texts replaced; returns the length of that beginning.
    fn replace(&mut self, buffer: &[u8], is_end: bool, out: &mut Vec<u8>) -> usize {
        let hold_from = |this: &Self, from| if is_end { buffer.len() } else { this.hold_from(buffer, from) };
        let (mut from, mut search) = (0, 0);
        let mut hold = hold_from(self, 0);
        while search < buffer.len() && !self.is_done() {
            let Some(found) = self.texts.searcher.find(Input::new(buffer).range(search..)) else { break };
            if found.start() >= hold {
                break;
            }
            let Some(index) = self.unused_at(buffer, found.start(), found.pattern().as_usize()) else {
                search = found.start() + 1;
                continue;
            };
            let (text, other) = &self.texts.texts[index];
            out.extend_from_slice(&buffer[from..found.start()]);
            out.extend_from_slice(other);
            from = found.start() + text.len();
            search = from;
            if self.texts.once {
                self.used |= 1 << index;
            }
            if from > hold || self.texts.once {
                hold = hold_from(self, from);
            }
        }
        let end = hold.max(from);
        out.extend_from_slice(&buffer[from..end]);
        end
    }

    /// The text at this position: the one that was found, or the longest other one that is still searched.
    fn unused_at(&self, buffer: &[u8], begin: usize, found: usize) -> Option<usize> {
        if !self.is_used(found) {
            return Some(found);
        }
        let is_here = |text: &[u8]| {
            buffer.get(begin..begin + text.len()).is_some_and(|here| self.texts.equal(here, text))
        };
        let texts = self.texts.texts.iter().enumerate();
        texts
            .filter(|(index, (text, _))| !self.is_used(*index) && is_here(text))
            .max_by_key(|(_, (text, _))| text.len())
            .map(|(index, _)| index)
    }

    /// The first position at which a text begins that the end of the buffer cuts off.
    fn hold_from(&self, buffer: &[u8], from: usize) -> usize {
        let begin = from.max((buffer.len() + 1).saturating_sub(self.texts.longest));
        let is_begin = |rest: &[u8]| {
            self.texts.texts.iter().enumerate().any(|(index, (text, _))| {
                text.len() > rest.len() && !self.is_used(index) && self.texts.equal(&text[..rest.len()], rest)
            })
        };
        (begin..buffer.len()).find(|at| is_begin(&buffer[*at..])).unwrap_or(buffer.len())
    }

    fn is_used(&self, index: usize) -> bool {
        self.used >> index & 1 == 1
    }

    fn is_done(&self) -> bool {
        self.used.count_ones() as usize == self.texts.texts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(replace: &[(&str, &str)], once: bool, ignore_case: bool) -> Texts {
        let pairs = replace.iter().map(|(text, other)| (text.as_bytes(), other.as_bytes()));
        Texts::new(pairs, once, ignore_case).unwrap()
    }

    fn replaced(texts: &Texts, pieces: &[&str]) -> String {
        let (mut replacing, mut out) = (texts.begin(), Vec::new());
        for piece in pieces {
            replacing.piece(piece.as_bytes(), &mut out);
        }
        replacing.finish(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn texts_across_pieces() {
        let all = texts(&[("</head>", "<x></head>"), ("abc", "Z")], false, true);
        assert_eq!(replaced(&all, &["<p></HE", "AD>a", "b", "cabcab"]), "<p><x></head>ZZab");
        assert_eq!(replaced(&all, &[]), "");
        let once = texts(&[("a", "1"), ("ab", "2")], true, false);
        assert_eq!(replaced(&once, &["ab", "abaA"]), "21baA");
        let removed = texts(&[("x", "")], false, false);
        assert_eq!(replaced(&removed, &["axx", "xb"]), "ab");
    }

    #[test]
    fn only_what_may_begin_a_text_is_held() {
        let all = texts(&[("</head>", "")], false, true);
        let (mut replacing, mut out) = (all.begin(), Vec::new());
        replacing.piece(b"some text <", &mut out);
        assert_eq!(out, b"some text ");
        replacing.piece(b"p>", &mut out);
        assert_eq!(out, b"some text <p>");
        let once = texts(&[("ab", "c")], true, false);
        let (mut replacing, mut out) = (once.begin(), Vec::new());
        replacing.piece(b"aba", &mut out);
        // A text that is not searched any more is not held.
        assert_eq!(out, b"ca");
    }

    #[test]
    fn too_many() {
        let many = (0..65).map(|_| (&b"a"[..], &b"b"[..]));
        assert!(Texts::new(many, false, false).is_err());
        assert!(Texts::new([(&b""[..], &b"b"[..])].into_iter(), false, false).is_err());
    }

    /// The same, by a simple method: at each position the longest text that is still searched.
    fn plainly(replace: &[(String, String)], once: bool, ignore_case: bool, body: &str) -> String {
        let (mut out, mut at, mut used) = (String::new(), 0, vec![false; replace.len()]);
        while at < body.len() {
            let here = |text: &str| {
                body.get(at..at + text.len()).is_some_and(|here| match ignore_case {
                    true => here.eq_ignore_ascii_case(text),
                    false => here == text,
                })
            };
            let best = (0..replace.len())
                .filter(|index| !used[*index] && here(&replace[*index].0))
                .max_by_key(|index| replace[*index].0.len());
            match best {
                Some(index) => {
                    out.push_str(&replace[index].1);
                    at += replace[index].0.len();
                    used[index] = once;
                }
                None => {
                    out.push_str(&body[at..at + 1]);
                    at += 1;
                }
            }
        }
        out
    }

    proptest! {
        #[test]
        fn pieces_give_the_same_result_as_a_whole_body(
            replace in prop::collection::btree_map("[abA]{1,4}", "[xab]{0,3}", 1..5),
            once in any::<bool>(),
            ignore_case in any::<bool>(),
            pieces in prop::collection::vec("[abAB ]{0,6}", 0..8),
        ) {
            // Two texts that differ only in case have no defined order.
            let lower: std::collections::BTreeSet<String> =
                replace.keys().map(|text| text.to_ascii_lowercase()).collect();
            prop_assume!(!ignore_case || lower.len() == replace.len());
            let list: Vec<(String, String)> = replace.into_iter().collect();
            let pairs: Vec<(&str, &str)> = list.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            let texts = texts(&pairs, once, ignore_case);
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let expected = plainly(&list, once, ignore_case, &pieces.concat());
            prop_assert_eq!(replaced(&texts, &pieces), expected);
        }
    }
}
