//! Attribute values with variables in them: `$name`, `${name}`, and `\$` for a dollar.
//!
//! A value is taken apart once, when its page is parsed; filling it in is then a walk over a few parts.

use bytes::Bytes;

/// A value, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<TemplatePart>,
    /// What was wrong with it, for the log. What stands before the place is used all the same.
    pub problem: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Text(Bytes),
    Variable {
        name: Box<[u8]>,
        /// How it was written, for where an undefined variable stays as it is.
        written: Bytes,
    },
}

impl Template {
    /// Takes a value apart.
    pub fn new(value: &[u8]) -> Template {
        let mut parts = Vec::new();
        let mut text = Vec::new();
        let mut problem = None;
        let mut rest = value;
        while let Some(special) = memchr::memchr2(b'\\', b'$', rest) {
            text.extend_from_slice(&rest[..special]);
            rest = &rest[special..];
            if rest[0] == b'\\' {
                let escaped = usize::from(rest.get(1) == Some(&b'$'));
                text.push(rest[escaped]);
                rest = &rest[1 + escaped..];
                continue;
            }
            let (name, length) = match variable(rest) {
                Ok(found) => found,
                Err(reason) => {
                    problem = Some(reason);
                    rest = &[];
                    break;
                }
            };
            if name.is_empty() {
                // A dollar that begins no name stands for itself; so does the brace behind it.
                text.push(b'$');
                rest = &rest[1..];
                continue;
            }
            if !text.is_empty() {
                parts.push(TemplatePart::Text(Bytes::from(std::mem::take(&mut text))));
            }
            let written = Bytes::copy_from_slice(&rest[..length]);
            parts.push(TemplatePart::Variable { name: name.into(), written });
            rest = &rest[length..];
        }
        text.extend_from_slice(rest);
        if !text.is_empty() {
            parts.push(TemplatePart::Text(Bytes::from(text)));
        }
        Template { parts, problem }
    }

    /// The value, if it has no variables.
    pub fn constant(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            [] => Some(b""),
            [TemplatePart::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The value with its variables filled in; those that are undefined are empty, or `leave_names` as written.
    pub fn fill(&self, leave_names: bool, mut variable: impl FnMut(&[u8]) -> Option<Vec<u8>>) -> Vec<u8> {
        let mut value = Vec::new();
        for part in &self.parts {
            match part {
                TemplatePart::Text(text) => value.extend_from_slice(text),
                TemplatePart::Variable { name, written } => match variable(name) {
                    Some(filled) => value.extend_from_slice(&filled),
                    None if leave_names => value.extend_from_slice(written),
                    None => {}
                },
            }
        }
        value
    }
}

/// The name of the variable that begins at `rest`, and how many bytes it takes there; empty: there is none.
fn variable(rest: &[u8]) -> Result<(&[u8], usize), String> {
    if rest.get(1) == Some(&b'{') {
        let Some(end) = memchr::memchr(b'}', rest) else {
            return Err(format!("missing '}}' in {:?}", String::from_utf8_lossy(rest)));
        };
        return Ok((&rest[2..end], end + 1));
    }
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let length = rest[1..].iter().position(|byte| !is_name(byte)).unwrap_or(rest.len() - 1);
    Ok((&rest[1..1 + length], 1 + length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filled(value: &str, leave_names: bool) -> String {
        let lookup = |name: &[u8]| match name {
            b"a" => Some(b"1".to_vec()),
            b"a b" => Some(b"2".to_vec()),
            b"empty" => Some(Vec::new()),
            _ => None,
        };
        String::from_utf8(Template::new(value.as_bytes()).fill(leave_names, lookup)).unwrap()
    }

    #[test]
    fn variables_are_filled_in() {
        let table = [
            ("", ""),
            ("plain", "plain"),
            ("$a", "1"),
            ("x${a}y", "x1y"),
            ("${a b}", "2"),
            ("$a$a-$a", "11-1"),
            ("$ab", ""),
            ("\\$a \\a \\", "$a \\a \\"),
            ("$", "$"),
            ("$$a", "$1"),
            ("100$!", "100$!"),
            ("${}", "${}"),
            ("<$empty>", "<>"),
            ("before ${open", "before "),
        ];
        for (value, expected) in table {
            assert_eq!(filled(value, false), expected, "{value}");
        }
        assert_eq!(filled("$a $b ${c} ${a b}", true), "1 $b ${c} 2");
        assert!(Template::new(b"${open").problem.is_some());
    }

    #[test]
    fn a_value_without_variables_is_known_at_once() {
        assert_eq!(Template::new(b"a\\$b").constant(), Some(&b"a$b"[..]));
        assert_eq!(Template::new(b"").constant(), Some(&b""[..]));
        assert_eq!(Template::new(b"a$b").constant(), None);
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(value in proptest::collection::vec(any::<u8>(), 0..60)) {
            let filled = Template::new(&value).fill(true, |_| None);
            prop_assert!(filled.len() <= value.len());
        }

        #[test]
        fn specials(value in "[$\\\\{}a_0 -]{0,20}") {
            Template::new(value.as_bytes()).fill(false, |_| Some(b"$a".to_vec()));
        }
    }
}
