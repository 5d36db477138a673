//! Attribute values with variables: `$name`, `${name}`, and `\$` for a dollar sign.
//!
//! A value is split once, when its page is parsed; filling in the variables only walks over the parts.

use bytes::Bytes;

/// A set variable: name and value.
pub type Variable = (Vec<u8>, Vec<u8>);

/// A command of `exec cmd`, separate from the values that it uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShellCommand {
    /// The script for the shell: the text of the page, without values.
    pub text: Vec<u8>,
    /// The variables that the text uses, under the names in the text.
    pub variables: Vec<Variable>,
    /// The matches of the last regular expression, if the text uses them.
    pub groups: Vec<Vec<u8>>,
}

/// A value, split into text and variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<TemplatePart>,
    /// The error in it, for the log. The part before the error is used anyway.
    pub problem: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Text(Bytes),
    Variable {
        name: Box<[u8]>,
        /// Its original text, which is kept if the variable is undefined.
        written: Bytes,
    },
}

impl Template {
    /// Splits a value.
    pub fn new(value: &[u8]) -> Template {
        Template::parse(value, b"$", true)
    }

    /// The same with nginx's rules: a backslash also makes a quote or a backslash part of the value.
    pub fn of_nginx(value: &[u8]) -> Template {
        Template::parse(value, b"$\\'\"", false)
    }

    /// `escapable` are the characters that a backslash escapes; a backslash at the end may be dropped.
    fn parse(value: &[u8], escapable: &[u8], keeps_last: bool) -> Template {
        let mut parts = Vec::new();
        let mut text = Vec::new();
        let mut problem = None;
        let mut rest = value;
        while let Some(special) = memchr::memchr2(b'\\', b'$', rest) {
            text.extend_from_slice(&rest[..special]);
            rest = &rest[special..];
            if rest[0] == b'\\' {
                let is_escape = rest.get(1).is_some_and(|next| escapable.contains(next));
                if !is_escape && (keeps_last || rest.len() > 1) {
                    text.push(b'\\');
                }
                text.extend(rest.get(1).filter(|_| is_escape));
                rest = &rest[1 + usize::from(is_escape)..];
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
                // A dollar sign that begins no name is literal; so is a brace after it.
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

    /// The value with its variables filled in; undefined ones are empty.
    pub fn fill(&self, mut variable: impl FnMut(&[u8]) -> Option<Vec<u8>>) -> Vec<u8> {
        let mut value = Vec::new();
        for part in &self.parts {
            match part {
                TemplatePart::Text(text) => value.extend_from_slice(text),
                TemplatePart::Variable { name, .. } => {
                    value.extend_from_slice(&variable(name).unwrap_or_default());
                }
            }
        }
        value
    }

    /// The value as a shell command. Variables stay names in its text and are passed separately, so the shell
    /// never interprets a value as part of the command.
    pub fn command(&self, mut variable: impl FnMut(&[u8]) -> Option<Vec<u8>>) -> ShellCommand {
        let mut command = ShellCommand::default();
        let mut has_group = false;
        for part in &self.parts {
            let (name, written) = match part {
                TemplatePart::Text(text) => {
                    command.text.extend_from_slice(text);
                    continue;
                }
                TemplatePart::Variable { name, written } => (name, written),
            };
            if name.iter().all(u8::is_ascii_digit) {
                // A group of a regular expression becomes a positional parameter of the shell.
                has_group = true;
                command.text.extend_from_slice(written);
                continue;
            }
            match variable(name) {
                Some(value) => command.add_variable((name.to_vec(), value), written),
                // It may be a variable of the shell itself.
                None => command.text.extend_from_slice(written),
            }
        }
        if has_group {
            command.groups = (b'0'..=b'9').map(|digit| variable(&[digit]).unwrap_or_default()).collect();
        }
        command
    }
}

impl ShellCommand {
    /// Appends a variable as it was written, or under a name that is valid in a shell.
    fn add_variable(&mut self, (name, value): Variable, written: &[u8]) {
        let fits = |(at, byte): (usize, &u8)| {
            *byte == b'_' || byte.is_ascii_alphabetic() || at > 0 && byte.is_ascii_digit()
        };
        if name.iter().enumerate().all(fits) {
            self.text.extend_from_slice(written);
            self.variables.push((name, value));
            return;
        }
        let name: Vec<u8> =
            name.iter().enumerate().map(|each| if fits(each) { *each.1 } else { b'_' }).collect();
        self.text.extend_from_slice(&[b"${", &name[..], b"}"].concat());
        self.variables.push((name, value));
    }
}

/// The name of the variable at the beginning of `rest`, and its length there; empty: there is none.
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

    fn lookup(name: &[u8]) -> Option<Vec<u8>> {
        let value: &[u8] = match name {
            b"a" => b"1",
            b"a b" => b"2",
            b"empty" => b"",
            b"agent" => b"$(id) `id`; '\"",
            b"1" => b"; id",
            _ => return None,
        };
        Some(value.to_vec())
    }

    fn filled(value: &str) -> String {
        String::from_utf8(Template::new(value.as_bytes()).fill(lookup)).unwrap()
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
            assert_eq!(filled(value), expected, "{value}");
        }
        assert!(Template::new(b"${open").problem.is_some());
        let of_nginx = |value: &str| Template::of_nginx(value.as_bytes()).fill(lookup);
        assert_eq!(of_nginx(r#"\$a \d \\d \' \" $a\"#), br#"$a \d \d ' " 1"#);
    }

    #[test]
    fn values_are_no_part_of_a_commands_text() {
        let table = [
            ("echo $b ${HOME:-x}", "echo $b ${HOME:-x}", &[][..]),
            ("echo $agent", "echo $agent", &[("agent", "$(id) `id`; '\"")]),
            ("echo \"${a b}\" \\$a", "echo \"${a_b}\" $a", &[("a_b", "2")]),
            ("echo $a$empty.", "echo $a$empty.", &[("a", "1"), ("empty", "")]),
            ("echo $1", "echo $1", &[]),
        ];
        for (value, text, variables) in table {
            let command = Template::new(value.as_bytes()).command(lookup);
            assert_eq!(String::from_utf8_lossy(&command.text), text, "{value}");
            let bytes = |text: &str| text.as_bytes().to_vec();
            let expected: Vec<Variable> =
                variables.iter().map(|(name, value)| (bytes(name), bytes(value))).collect();
            assert_eq!(command.variables, expected, "{value}");
            assert_eq!(
                command.groups.get(1).map(Vec::as_slice),
                value.contains("$1").then_some(&b"; id"[..])
            );
        }
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
            let filled = Template::new(&value).fill(|_| None);
            prop_assert!(filled.len() <= value.len());
        }

        #[test]
        fn specials(value in "[$\\\\{}a_0 -]{0,20}") {
            Template::new(value.as_bytes()).fill(|_| Some(b"$a".to_vec()));
        }

        #[test]
        fn no_value_becomes_part_of_a_command(value in "[$\\\\{}a_0 -]{0,20}") {
            let command = Template::new(value.as_bytes()).command(|_| Some(b"!".to_vec()));
            prop_assert!(!command.text.contains(&b'!'));
        }
    }
}
