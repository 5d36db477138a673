//! The parameters of directives and of `<Client>`.

/// The names and values after a directive.
pub type Parameters = Vec<(Vec<u8>, Vec<u8>)>;

/// The value of the first parameter of this name.
pub fn parameter<'a>(parameters: &'a Parameters, name: &str) -> Option<&'a [u8]> {
    parameters.iter().find(|(key, _)| key == name.as_bytes()).map(|(_, value)| value.as_slice())
}

/// Parses `name=value` and `name="value"`, with `\` before a quote or a backslash; a single word gets a
/// number as its name (1, 2, 3...).
pub(crate) fn parse_parameters(text: &[u8]) -> Result<Parameters, &'static str> {
    let mut pairs = Vec::new();
    let mut words = 0;
    let mut rest = text.trim_ascii_start();
    while !rest.is_empty() {
        let end =
            rest.iter().position(|byte| *byte == b'=' || byte.is_ascii_whitespace()).unwrap_or(rest.len());
        if rest.get(end) != Some(&b'=') && rest[0] != b'"' {
            words += 1;
            pairs.push((words.to_string().into_bytes(), rest[..end].to_vec()));
            rest = rest[end..].trim_ascii_start();
            continue;
        }
        let (name, value_begin) = if rest[0] == b'"' {
            words += 1;
            (words.to_string().into_bytes(), 0)
        } else {
            if end == 0 {
                return Err("a value has no name before its '='");
            }
            (rest[..end].to_vec(), end + 1)
        };
        let (value, length) = parse_value(&rest[value_begin..])?;
        pairs.push((name, value));
        rest = rest[value_begin + length..].trim_ascii_start();
    }
    Ok(pairs)
}

fn parse_value(text: &[u8]) -> Result<(Vec<u8>, usize), &'static str> {
    if text.first() != Some(&b'"') {
        let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
        return Ok((text[..end].to_vec(), end));
    }
    let mut value = Vec::new();
    let mut position = 1;
    loop {
        match (text.get(position), text.get(position + 1)) {
            (None, _) => return Err("a '\"' is not closed"),
            (Some(b'"'), _) => return Ok((value, position + 1)),
            (Some(b'\\'), Some(&escaped @ (b'"' | b'\\'))) => {
                value.push(escaped);
                position += 2;
            }
            (Some(&byte), _) => {
                value.push(byte);
                position += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parameters_are_read_as_obj_conf_has_them() {
        let read = |text: &str| {
            parse_parameters(text.as_bytes()).map(|pairs| {
                let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
                pairs
                    .into_iter()
                    .map(|(name, value)| format!("{}={}", text(name), text(value)))
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(read(r#"fn=x  a="b c" d="e\"f\\g" h"#).unwrap(), ["fn=x", "a=b c", "d=e\"f\\g", "1=h"]);
        assert_eq!(read(r#"a= "word""#).unwrap(), ["a=", "1=word"]);
        assert!(read(r#"a="b"#).is_err());
        assert!(read("=b").is_err());
    }

    proptest! {
        #[test]
        fn no_parameters_panic(text: Vec<u8>) {
            let _ = parse_parameters(&text);
        }
    }
}
