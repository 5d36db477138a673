//! Reads any bytes as a condition in either grammar: no panic, no endless work, and no value above its limit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_includes::Grammar;
use touchstone_includes::expression::{Captures, Expression, Scope};

#[derive(Default)]
struct Page {
    captures: Captures,
}

impl Scope for Page {
    fn variable(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        (name.len() % 2 == 1).then(|| name.repeat(3))
    }

    fn system_variable(&mut self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn request_field(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        Some(name.to_vec())
    }

    fn now(&mut self) -> i64 {
        1_000_000_000
    }

    fn is_accessible(&mut self, path: &[u8]) -> bool {
        path.starts_with(b"/")
    }

    fn is_file(&mut self, path: &[u8]) -> bool {
        path.starts_with(b"/")
    }

    fn captures(&mut self) -> &mut Captures {
        &mut self.captures
    }

    fn set_variable(&mut self, _: &[u8], _: Vec<u8>) {}
}

fuzz_target!(|bytes: &[u8]| {
    for grammar in [Grammar::Apache24, Grammar::Legacy, Grammar::Nginx] {
        if let Ok(expression) = Expression::parse(bytes, grammar) {
            let mut page = Page::default();
            let first = expression.holds(&mut page);
            // Its earlier state does not matter, unless it uses earlier matches.
            if !bytes.contains(&b'$') {
                assert_eq!(first, expression.holds(&mut page));
            }
        }
    }
});
