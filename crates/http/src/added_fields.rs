//! Field lines that a server adds to answers. A rule for each name determines the result if the answer
//! already has lines of that name: both stay, the new line replaces them, or the new line is left out.

/// A name in lower case, and its line.
type NamedLine = (Box<[u8]>, Box<[u8]>);

/// Fields to add to answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddedFields {
    /// Names in lower case. Lines with these names are removed first.
    removed: Vec<Box<[u8]>>,
    /// Names in lower case with their lines, for answers that have no line of that name.
    missing: Vec<NamedLine>,
    /// Lines for every answer.
    lines: Vec<u8>,
}

/// The rule for a field that an answer has already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfPresent {
    /// The line of the answer and the added line both stay.
    Beside,
    /// The line of the answer stays; nothing is added.
    Keep,
    /// The added line replaces the line of the answer.
    Replace,
}

impl AddedFields {
    /// Adds a field. Name and value must have been checked: they become a line as they are.
    pub fn add(&mut self, name: &str, value: &str, if_present: IfPresent) {
        let line = format!("{name}: {value}\r\n").into_bytes();
        match if_present {
            IfPresent::Beside => self.lines.extend(line),
            IfPresent::Keep => self.missing.push((lower(name), line.into())),
            IfPresent::Replace => {
                self.remove(name);
                self.lines.extend(line);
            }
        }
    }

    /// Removes all fields of this name from answers.
    pub fn remove(&mut self, name: &str) {
        self.removed.push(lower(name));
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.missing.is_empty() && self.lines.is_empty()
    }

    /// Applies it to field lines, each of which ends with CRLF.
    pub fn apply(&self, fields: &mut Vec<u8>) {
        let is_removed = |line: &[u8]| self.removed.iter().any(|name| is_named(line, name));
        if lines_of(fields).any(is_removed) {
            let kept: Vec<u8> =
                lines_of(fields).filter(|line| !is_removed(line)).flatten().copied().collect();
            *fields = kept;
        }
        let own = fields.len();
        for (name, line) in &self.missing {
            if !lines_of(&fields[..own]).any(|other| is_named(other, name)) {
                fields.extend_from_slice(line);
            }
        }
        fields.extend_from_slice(&self.lines);
    }
}

fn lower(name: &str) -> Box<[u8]> {
    name.to_ascii_lowercase().into_bytes().into()
}

fn lines_of(fields: &[u8]) -> impl Iterator<Item = &[u8]> {
    fields.split_inclusive(|&byte| byte == b'\n')
}

fn is_named(line: &[u8], name: &[u8]) -> bool {
    line.get(name.len()) == Some(&b':') && line[..name.len()].eq_ignore_ascii_case(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn applied(added: &AddedFields, fields: &str) -> String {
        let mut fields = fields.as_bytes().to_vec();
        added.apply(&mut fields);
        String::from_utf8(fields).unwrap()
    }

    #[test]
    fn each_rule_for_a_field_that_is_there() {
        let mut added = AddedFields::default();
        assert!(added.is_empty());
        assert_eq!(applied(&added, "A: 1\r\n"), "A: 1\r\n");
        added.add("Vary", "Origin", IfPresent::Beside);
        added.add("X-Frame-Options", "DENY", IfPresent::Keep);
        added.add("Referrer-Policy", "no-referrer", IfPresent::Replace);
        added.remove("Access-Control-Allow-Origin");
        assert!(!added.is_empty());
        assert_eq!(
            applied(&added, ""),
            "X-Frame-Options: DENY\r\nVary: Origin\r\nReferrer-Policy: no-referrer\r\n"
        );
        assert_eq!(
            applied(
                &added,
                "vary: Accept\r\nx-frame-options: SAMEORIGIN\r\nREFERRER-POLICY: a\r\n\
                 access-control-allow-origin: *\r\nReferrer-Policy-2: b\r\n"
            ),
            "vary: Accept\r\nx-frame-options: SAMEORIGIN\r\nReferrer-Policy-2: b\r\nVary: Origin\r\n\
             Referrer-Policy: no-referrer\r\n"
        );
    }

    proptest! {
        #[test]
        fn other_fields_stay_in_their_order(names in prop::collection::vec("[a-eA-E]", 0..8)) {
            let mut added = AddedFields::default();
            added.add("a", "own", IfPresent::Keep);
            added.add("B", "own", IfPresent::Replace);
            let fields: String = names.iter().map(|name| format!("{name}: of the answer\r\n")).collect();
            let result = applied(&added, &fields);
            let others = |text: &str| -> Vec<String> {
                let is_other = |line: &&str| !line.starts_with(['a', 'A', 'b', 'B']);
                text.split_inclusive('\n').filter(is_other).map(String::from).collect()
            };
            prop_assert_eq!(others(&result), others(&fields));
            let count = |text: &str| text.lines().filter(|line| line.starts_with(['b', 'B'])).count();
            prop_assert_eq!(count(&result), 1);
            let has_a = names.iter().any(|name| name.eq_ignore_ascii_case("a"));
            prop_assert_eq!(result.contains("a: own"), !has_a);
        }
    }
}
