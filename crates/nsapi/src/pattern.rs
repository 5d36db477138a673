//! Shell expressions: the wildcard patterns of obj.conf and of the functions `shexp_*`.
//!
//! | in a pattern | stands for |
//! |---|---|
//! | `*` | any characters, or none |
//! | `?` | one character |
//! | `[abc]`, `[a-z]`, `[^abc]` | one of these characters; a character that is not one of these |
//! | `(a\|b)` | one of these patterns |
//! | `a~b` | texts that match `a` and do not match `b` |
//! | `$` | the end |
//! | `\x` | the character `x` itself |
//!
//! Patterns come from files and plug-ins, texts come from clients. A pattern is therefore compiled to states
//! that are followed at the same time: the time is bounded by the length of the text times that of the
//! pattern, whatever their contents are.

/// The longest pattern in bytes.
pub const LONGEST_PATTERN_BYTES: usize = 4_096;

/// The deepest nesting of `(`.
const DEEPEST_GROUP: usize = 32;

/// A compiled pattern.
#[derive(Debug, Clone)]
pub struct Pattern {
    matched: Program,
    /// All texts that match, if they are few and nothing is excluded: `(GET|HEAD)`.
    texts: Option<Box<[Box<[u8]>]>>,
    /// The part after `~`.
    excluded: Option<Program>,
    has_wildcards: bool,
}

/// Why a pattern is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidPattern {
    /// It is longer than [`LONGEST_PATTERN_BYTES`].
    TooLong,
    /// `[` without `]`, or without characters.
    Bracket,
    /// `(` without `)`, `)` without `(`, or nested too deeply.
    Parenthesis,
    /// `\` at the end.
    Backslash,
}

impl std::fmt::Display for InvalidPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            InvalidPattern::TooLong => "it is longer than 4096 bytes",
            InvalidPattern::Bracket => "'[' must be closed by ']' and contain at least one character",
            InvalidPattern::Parenthesis => "'(' and ')' are not balanced",
            InvalidPattern::Backslash => "'\\' at the end escapes no character",
        })
    }
}

impl Pattern {
    /// Compiles a pattern.
    pub fn new(text: &[u8]) -> Result<Pattern, InvalidPattern> {
        if text.len() > LONGEST_PATTERN_BYTES {
            return Err(InvalidPattern::TooLong);
        }
        let mut reader = Reader { text, position: 0, states: Vec::new(), has_wildcards: false };
        reader.alternatives(0)?;
        let matched = reader.take_program();
        let excluded = match reader.peek() {
            Some(b'~') => {
                reader.position += 1;
                reader.has_wildcards = true;
                // An exclusion may contain another exclusion; only the first `~` has an effect, as in the
                // original servers.
                reader.alternatives(0)?;
                Some(reader.take_program())
            }
            _ => None,
        };
        let has_wildcards = match reader.peek() {
            None => reader.has_wildcards,
            Some(b'~') => true,
            Some(_) => return Err(InvalidPattern::Parenthesis),
        };
        let texts = if excluded.is_none() { matched.texts() } else { None };
        Ok(Pattern { matched, texts, excluded, has_wildcards })
    }

    /// Whether it is not a plain text.
    pub fn has_wildcards(&self) -> bool {
        self.has_wildcards
    }

    /// Whether the whole of `text` matches.
    pub fn matches(&self, text: &[u8]) -> bool {
        self.compare(text, false)
    }

    /// Whether the whole of `text` matches, ignoring the case of ASCII letters.
    pub fn matches_any_case(&self, text: &[u8]) -> bool {
        self.compare(text, true)
    }

    fn compare(&self, text: &[u8], any_case: bool) -> bool {
        if let Some(texts) = &self.texts {
            return texts.iter().any(|one| **one == *text || (any_case && one.eq_ignore_ascii_case(text)));
        }
        self.matched.matches(text, any_case)
            && !self.excluded.as_ref().is_some_and(|excluded| excluded.matches(text, any_case))
    }
}

/// The states of a pattern; reaching the end of the list is the match.
#[derive(Debug, Clone)]
struct Program(Vec<State>);

#[derive(Debug, Clone)]
enum State {
    /// This byte, then the next state.
    Byte(u8),
    /// Any byte, then the next state.
    Any,
    /// A byte of this set, then the next state.
    Set(Box<[bool; 256]>),
    /// Any number of bytes: this state again, or the next one.
    Star,
    /// No byte; continues with the next state and with this one.
    Split(usize),
    /// No byte; continues with this state.
    Jump(usize),
    /// The end of the text, then the next state.
    End,
}

impl Program {
    fn matches(&self, text: &[u8], any_case: bool) -> bool {
        let states = &self.0;
        if let [State::Star] = states.as_slice() {
            return true;
        }
        let mut now = ActiveStates::new(states.len());
        let mut next = ActiveStates::new(states.len());
        now.add(states, 0, text.is_empty());
        for (index, &byte) in text.iter().enumerate() {
            let at_end = index + 1 == text.len();
            next.clear();
            for position in 0..now.list.len() {
                let number = now.list[position];
                match states.get(number) {
                    Some(State::Byte(wanted)) if same(*wanted, byte, any_case) => {
                        next.add(states, number + 1, at_end)
                    }
                    Some(State::Any) => next.add(states, number + 1, at_end),
                    Some(State::Set(set)) if in_set(set, byte, any_case) => {
                        next.add(states, number + 1, at_end)
                    }
                    Some(State::Star) => next.add(states, number, at_end),
                    _ => {}
                }
            }
            if next.list.is_empty() {
                return false;
            }
            std::mem::swap(&mut now, &mut next);
        }
        now.is_in[states.len()]
    }
}

/// The most texts that are stored for a pattern, and the most steps to find them.
const MOST_TEXTS: usize = 16;
const MOST_STEPS: usize = 256;

impl Program {
    /// The texts that match; `None` if they are too many or infinite.
    fn texts(&self) -> Option<Box<[Box<[u8]>]>> {
        let states = &self.0;
        let mut texts = Vec::new();
        let mut waiting = vec![(0, Vec::new())];
        let mut steps = 0;
        while let Some((number, mut text)) = waiting.pop() {
            steps += 1;
            if steps > MOST_STEPS || texts.len() > MOST_TEXTS {
                return None;
            }
            match states.get(number) {
                None => texts.push(text.into_boxed_slice()),
                Some(State::Byte(byte)) => {
                    text.push(*byte);
                    waiting.push((number + 1, text));
                }
                Some(State::Jump(other)) => waiting.push((*other, text)),
                Some(State::Split(other)) => waiting.extend([(number + 1, text.clone()), (*other, text)]),
                Some(State::Any | State::Set(_) | State::Star | State::End) => return None,
            }
        }
        Some(texts.into())
    }
}

/// The states that are followed at the same time, each only once.
struct ActiveStates {
    list: Vec<usize>,
    is_in: Vec<bool>,
}

impl ActiveStates {
    fn new(states: usize) -> ActiveStates {
        ActiveStates { list: Vec::with_capacity(states + 1), is_in: vec![false; states + 1] }
    }

    fn clear(&mut self) {
        self.list.clear();
        self.is_in.fill(false);
    }

    fn add(&mut self, states: &[State], first: usize, at_end: bool) {
        let mut waiting = vec![first];
        while let Some(number) = waiting.pop() {
            if std::mem::replace(&mut self.is_in[number], true) {
                continue;
            }
            self.list.push(number);
            match states.get(number) {
                Some(State::Star) => waiting.push(number + 1),
                Some(State::Split(other)) => waiting.extend([number + 1, *other]),
                Some(State::Jump(other)) => waiting.push(*other),
                Some(State::End) if at_end => waiting.push(number + 1),
                _ => {}
            }
        }
    }
}

fn same(wanted: u8, byte: u8, any_case: bool) -> bool {
    wanted == byte || (any_case && wanted.eq_ignore_ascii_case(&byte))
}

fn in_set(set: &[bool; 256], byte: u8, any_case: bool) -> bool {
    set[byte as usize]
        || (any_case && (set[byte.to_ascii_lowercase() as usize] || set[byte.to_ascii_uppercase() as usize]))
}

struct Reader<'a> {
    text: &'a [u8],
    position: usize,
    states: Vec<State>,
    has_wildcards: bool,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.position).copied()
    }

    fn take_program(&mut self) -> Program {
        Program(std::mem::take(&mut self.states))
    }

    /// Alternatives up to `)`, `~` or the end. Outside parentheses `|` is a plain character.
    fn alternatives(&mut self, depth: usize) -> Result<(), InvalidPattern> {
        let mut ends = Vec::new();
        loop {
            let begin = self.states.len();
            if depth > 0 {
                self.states.push(State::Split(0));
            }
            self.sequence(depth)?;
            if depth > 0 && self.peek() == Some(b'|') {
                self.position += 1;
                ends.push(self.states.len());
                self.states.push(State::Jump(0));
                self.states[begin] = State::Split(self.states.len());
                continue;
            }
            if depth > 0 {
                // The last alternative: there is no other one to try.
                self.states[begin] = State::Jump(begin + 1);
            }
            let end = self.states.len();
            for jump in ends {
                self.states[jump] = State::Jump(end);
            }
            return Ok(());
        }
    }

    fn sequence(&mut self, depth: usize) -> Result<(), InvalidPattern> {
        let mut after_star = false;
        while let Some(byte) = self.peek() {
            match byte {
                b')' | b'|' if depth > 0 => return Ok(()),
                b')' => return Err(InvalidPattern::Parenthesis),
                b'~' => {
                    return if depth == 0 { Ok(()) } else { Err(InvalidPattern::Parenthesis) };
                }
                _ => {}
            }
            self.position += 1;
            let second_star = std::mem::replace(&mut after_star, byte == b'*');
            match byte {
                b'*' if second_star => {}
                b'*' => self.wildcard(State::Star),
                b'?' => self.wildcard(State::Any),
                b'$' => self.wildcard(State::End),
                b'[' => {
                    let set = self.set()?;
                    self.wildcard(State::Set(set));
                }
                b'(' => {
                    if depth >= DEEPEST_GROUP {
                        return Err(InvalidPattern::Parenthesis);
                    }
                    self.has_wildcards = true;
                    self.alternatives(depth + 1)?;
                    if self.peek() != Some(b')') {
                        return Err(InvalidPattern::Parenthesis);
                    }
                    self.position += 1;
                }
                b'\\' => {
                    let escaped = self.peek().ok_or(InvalidPattern::Backslash)?;
                    self.position += 1;
                    self.wildcard(State::Byte(escaped));
                }
                plain => self.states.push(State::Byte(plain)),
            }
        }
        Ok(())
    }

    fn wildcard(&mut self, state: State) {
        self.has_wildcards = true;
        self.states.push(state);
    }

    fn set(&mut self) -> Result<Box<[bool; 256]>, InvalidPattern> {
        let mut set = Box::new([false; 256]);
        let negated = self.peek() == Some(b'^');
        if negated {
            self.position += 1;
        }
        let begin = self.position;
        loop {
            let mut first = self.peek().ok_or(InvalidPattern::Bracket)?;
            self.position += 1;
            match first {
                b']' if self.position - 1 > begin => break,
                b']' => return Err(InvalidPattern::Bracket),
                b'\\' => {
                    first = self.peek().ok_or(InvalidPattern::Bracket)?;
                    self.position += 1;
                }
                _ => {}
            }
            let last = match (self.peek(), self.text.get(self.position + 1)) {
                (Some(b'-'), Some(&last)) if last != b']' => {
                    self.position += 2;
                    last
                }
                _ => first,
            };
            for byte in first..=last {
                set[byte as usize] = true;
            }
        }
        if negated {
            set.iter_mut().for_each(|member| *member = !*member);
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::new(pattern.as_bytes()).unwrap().matches(text.as_bytes())
    }

    #[test]
    fn patterns_match_as_documented_for_obj_conf() {
        for (pattern, text, expected) in [
            ("*.gif", "a.gif", true),
            ("*.gif", "a.gift", false),
            ("*.(gif|jpg|jp?g)", "b.jpeg", true),
            ("*.(gif|jpg)", "b.png", false),
            ("*~magnus-internal/*", "text/html", true),
            ("*~magnus-internal/*", "magnus-internal/cgi", false),
            ("(GET|HEAD)", "GET", true),
            ("(GET|HEAD)", "POST", false),
            ("(GET|HEAD|(PO|PU)ST)", "PUST", true),
            ("[a-c]x", "bx", true),
            ("[^a-c]x", "bx", false),
            ("[^a-c]x", "dx", true),
            ("a|b", "a|b", true),
            ("/docs*$", "/docs/a", true),
            ("a$b", "ab", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("**a", "ba", true),
            ("(a|)b", "b", true),
            ("(b|a*)*", "bxy", true),
            ("*netscape.com", "home.netscape.com", true),
            ("*.[hH]tm*~*.htmx", "a.htmx", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
        assert!(Pattern::new(b"text/*").unwrap().matches_any_case(b"TEXT/Html"));
        assert!(Pattern::new(b"[a-z]").unwrap().matches_any_case(b"Q"));
        assert!(!Pattern::new(b"[a-z]").unwrap().matches(b"Q"));
    }

    #[test]
    fn wrong_patterns_are_refused() {
        for (pattern, expected) in [
            ("(a", InvalidPattern::Parenthesis),
            ("a)", InvalidPattern::Parenthesis),
            ("[a", InvalidPattern::Bracket),
            ("[]", InvalidPattern::Bracket),
            ("a\\", InvalidPattern::Backslash),
            ("(a~b)", InvalidPattern::Parenthesis),
        ] {
            assert_eq!(Pattern::new(pattern.as_bytes()).unwrap_err(), expected, "{pattern}");
        }
        assert_eq!(Pattern::new(&[b'a'; 4_097]).unwrap_err(), InvalidPattern::TooLong);
        assert_eq!(Pattern::new(&b"(".repeat(100)).unwrap_err(), InvalidPattern::Parenthesis);
    }

    #[test]
    fn a_pattern_of_many_stars_takes_no_exponential_time() {
        let pattern = Pattern::new("*a".repeat(200).as_bytes()).unwrap();
        assert!(!pattern.matches(&[b'a'; 199]));
        assert!(!pattern.matches("a".repeat(4_000).replace("aaaa", "aaab").as_bytes()));
    }

    proptest! {
        #[test]
        fn no_pattern_and_no_text_panics(pattern: Vec<u8>, text: Vec<u8>) {
            if let Ok(pattern) = Pattern::new(&pattern) {
                pattern.matches(&text);
                pattern.matches_any_case(&text);
            }
        }

        #[test]
        fn a_text_matches_itself_escaped(text: Vec<u8>) {
            let escaped: Vec<u8> = text.iter().flat_map(|byte| [b'\\', *byte]).collect();
            prop_assert!(Pattern::new(&escaped).unwrap().matches(&text));
        }

        #[test]
        fn texts_agree_with_states(pattern in "[ab(|)]{0,10}", text in "[ab]{0,5}") {
            if let Ok(pattern) = Pattern::new(pattern.as_bytes()) {
                let by_states = pattern.matched.matches(text.as_bytes(), false);
                prop_assert_eq!(pattern.matches(text.as_bytes()), by_states);
            }
        }

        #[test]
        fn stars_agree_with_a_naive_matcher(pattern in "[ab*?]{0,8}", text in "[ab]{0,10}") {
            prop_assert_eq!(matches(&pattern, &text), naive(pattern.as_bytes(), text.as_bytes()));
        }
    }

    fn naive(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((b'*', rest)) => (0..=text.len()).any(|skipped| naive(rest, &text[skipped..])),
            Some((b'?', rest)) => !text.is_empty() && naive(rest, &text[1..]),
            Some((byte, rest)) => text.first() == Some(byte) && naive(rest, &text[1..]),
        }
    }
}
