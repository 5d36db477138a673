//! The little of JavaScript that k6 scripts are read with: statements, arguments of calls, and texts that are
//! known without running anything.

use std::collections::BTreeMap;

/// A statement, or the head of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) text: String,
    /// From 1.
    pub(crate) line: usize,
    /// It stands in the default function.
    pub(crate) is_inside: bool,
}

/// The deepest expression.
const MAXIMUM_DEPTH: usize = 50;

/// The statements before the default function, and those in it; `None` where it is not there, or a bracket or
/// a quote has no end.
pub(crate) fn statements(text: &str) -> Option<Vec<Statement>> {
    let text = without_comments(text);
    let at = text.find("export default ")?;
    let open = at + text[at..].find('{')?;
    let close = open + end_of(&text[open..])?;
    let mut found = Vec::new();
    split(&text[..at], 1, false, &mut found);
    let line = text[..open].matches('\n').count() + 1;
    split(&text[open + 1..close], line, true, &mut found);
    Some(found)
}

/// Comments become spaces, so that lines stay where they are.
fn without_comments(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    let mut quote = None;
    while let Some(letter) = letters.next() {
        match (quote, letter, letters.peek()) {
            (None, '/', Some('/')) => {
                while letters.peek().is_some_and(|next| *next != '\n') {
                    letters.next();
                }
            }
            (None, '/', Some('*')) => {
                letters.next();
                let mut before = ' ';
                for next in letters.by_ref() {
                    if next == '\n' {
                        written.push('\n');
                    }
                    if before == '*' && next == '/' {
                        break;
                    }
                    before = next;
                }
            }
            (Some(_), '\\', _) => {
                written.push(letter);
                written.extend(letters.next());
            }
            (Some(open), _, _) if open == letter => {
                quote = None;
                written.push(letter);
            }
            (None, '\'' | '"' | '`', _) => {
                quote = Some(letter);
                written.push(letter);
            }
            _ => written.push(letter),
        }
    }
    written
}

/// Walks over a text outside of quotes; stops where `visit` says so, with the place.
fn walk(text: &str, mut visit: impl FnMut(usize, char, usize) -> bool) -> Option<usize> {
    let (mut depth, mut quote) = (0usize, None);
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match quote {
            Some(_) if letter == '\\' => _ = letters.next(),
            Some(open) if open == letter => quote = None,
            Some(_) => {}
            None => {
                if matches!(letter, ')' | ']' | '}') {
                    depth = depth.checked_sub(1)?;
                }
                if visit(at, letter, depth) {
                    return Some(at);
                }
                match letter {
                    '\'' | '"' | '`' => quote = Some(letter),
                    '(' | '[' | '{' => depth += 1,
                    _ => {}
                }
            }
        }
    }
    None
}

/// The place of the bracket that ends the one at the beginning.
fn end_of(text: &str) -> Option<usize> {
    walk(text, |at, letter, depth| at > 0 && depth == 0 && matches!(letter, ')' | ']' | '}'))
}

/// Splits at semicolons, at line ends where nothing is open, and at the braces of blocks.
fn split(text: &str, first_line: usize, is_inside: bool, found: &mut Vec<Statement>) {
    let mut begin = 0;
    let mut ends = Vec::new();
    walk(text, |at, letter, depth| {
        let is_block = letter == '{' && {
            let before = text[begin..at].trim_end();
            before.ends_with(')') && !before.contains("=>")
                || before.ends_with("=>") && before.contains("group(")
        };
        if depth == 0 && matches!(letter, ';' | '\n') || is_block && depth <= 1 {
            ends.push((begin, at, is_block));
            begin = at + letter.len_utf8();
        }
        false
    });
    ends.push((begin, text.len(), false));
    for (begin, end, is_block) in ends {
        let part = &text[begin..end];
        let spaces = part.len() - part.trim_start().len();
        let line = first_line + text[..begin + spaces].matches('\n').count();
        let statement = part.trim();
        if !statement.is_empty() && !statement.bytes().all(|byte| b"}); ".contains(&byte)) && !is_block {
            found.push(Statement { text: statement.to_string(), line, is_inside });
        }
    }
}

/// The arguments of a call whose opening bracket is behind, and what follows it.
pub(crate) fn arguments(text: &str) -> Option<(Vec<String>, &str)> {
    let whole = format!("({text}");
    let end = end_of(&whole)?;
    let inside = &whole[1..end];
    let mut commas = Vec::new();
    walk(inside, |at, letter, depth| {
        if letter == ',' && depth == 0 {
            commas.push(at);
        }
        false
    });
    let mut list = Vec::new();
    let mut begin = 0;
    for comma in commas {
        list.push(inside[begin..comma].trim().to_string());
        begin = comma + 1;
    }
    let last = inside[begin..].trim();
    if !last.is_empty() {
        list.push(last.to_string());
    }
    Some((list, text.get(end..)?))
}

/// What names stand for.
#[derive(Debug, Default)]
pub(crate) struct Values {
    /// Constants as they are written.
    sources: BTreeMap<String, String>,
    /// Values that are taken from answers.
    taken: Vec<String>,
}

impl Values {
    pub(crate) fn define(&mut self, name: &str, source: &str) {
        self.sources.insert(name.to_string(), source.to_string());
    }

    /// A constant as it is written.
    pub(crate) fn source(&self, name: &str) -> Option<&str> {
        self.sources.get(name).map(String::as_str)
    }

    /// A name stands for a value of an answer from here on.
    pub(crate) fn new_value(&mut self, name: &str) -> String {
        self.sources.remove(name);
        self.taken.push(name.to_string());
        crate::variables::plain_name(name)
    }
}

/// The text of an expression, with our variables in it; `None`: it is not known without running the script.
pub(crate) fn text_of(expression: &str, values: &Values) -> Option<String> {
    text_to(expression, values, 0)
}

fn text_to(expression: &str, values: &Values, depth: usize) -> Option<String> {
    let expression = expression.trim();
    if depth > MAXIMUM_DEPTH || expression.is_empty() {
        return None;
    }
    let mut plus = Vec::new();
    walk(expression, |at, letter, depth| {
        if letter == '+' && depth == 0 {
            plus.push(at);
        }
        false
    });
    if !plus.is_empty() {
        let (mut text, mut begin) = (String::new(), 0);
        for end in plus.into_iter().chain([expression.len()]) {
            text += &text_to(&expression[begin..end], values, depth + 1)?;
            begin = end + 1;
        }
        return Some(text);
    }
    if let Some(inside) = expression.strip_prefix("JSON.stringify(") {
        let (list, behind) = arguments(inside)?;
        let whole = list.first().filter(|_| behind.is_empty() && list.len() == 1)?;
        return json_of(values.source(whole).unwrap_or(whole), values, depth + 1);
    }
    let first = expression.chars().next()?;
    if matches!(first, '\'' | '"' | '`') {
        let inside =
            expression.get(1..expression.len().checked_sub(1)?).filter(|_| expression.ends_with(first))?;
        return if first == '`' { template(inside, values, depth + 1) } else { plain(inside, first) };
    }
    match expression {
        "__VU" => Some("${client}".to_string()),
        "__ITER" => Some("${session}".to_string()),
        _ if values.taken.iter().any(|name| name == expression) => {
            Some(format!("${{{}}}", crate::variables::plain_name(expression)))
        }
        _ if expression.parse::<f64>().is_ok() => Some(expression.to_string()),
        _ => text_to(values.source(expression)?, values, depth + 1),
    }
}

/// The inside of a text in quotes.
fn plain(inside: &str, quote: char) -> Option<String> {
    let mut text = String::new();
    let mut letters = inside.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next()? {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                letter @ ('\\' | '\'' | '"' | '`' | '/' | '$') => text.push(letter),
                _ => return None,
            },
            letter if letter == quote => return None,
            letter => text.push(letter),
        }
    }
    Some(text.replace("${", "$${"))
}

fn template(inside: &str, values: &Values, depth: usize) -> Option<String> {
    let (mut text, mut rest) = (String::new(), inside);
    while let Some(at) = rest.find("${") {
        text += &plain(&rest[..at], '`')?;
        let end = at + 1 + end_of(&rest[at + 1..])?;
        text += &text_to(&rest[at + 2..end], values, depth)?;
        rest = &rest[end + 1..];
    }
    Some(text + &plain(rest, '`')?)
}

/// An object as it is written, as JSON.
fn json_of(source: &str, values: &Values, depth: usize) -> Option<String> {
    let source = source.trim();
    if depth > MAXIMUM_DEPTH {
        return None;
    }
    let open = source.chars().next()?;
    if open == '{' || open == '[' {
        let close = if open == '{' { '}' } else { ']' };
        let inside = source.strip_prefix(open)?.strip_suffix(close)?;
        let (list, _) = arguments(&format!("{inside})"))?;
        let mut parts = Vec::new();
        for one in &list {
            if open == '[' {
                parts.push(json_of(one, values, depth + 1)?);
                continue;
            }
            let colon = walk(one, |_, letter, depth| letter == ':' && depth == 0)?;
            let name = one[..colon].trim().trim_matches(['\'', '"']);
            parts.push(format!(
                "{}:{}",
                serde_json::Value::from(name),
                json_of(&one[colon + 1..], values, depth + 1)?
            ));
        }
        return Some(format!("{open}{}{close}", parts.join(",")));
    }
    if ["true", "false", "null"].contains(&source) || source.parse::<f64>().is_ok() {
        return Some(source.to_string());
    }
    let text = text_to(source, values, depth + 1)?;
    let quoted = serde_json::Value::from(text.as_str()).to_string();
    // A value is written as the inside of a string of JSON.
    Some(
        crate::variables::names(&text).iter().fold(quoted, |quoted, name| {
            quoted.replace(&format!("${{{name}}}"), &format!("${{{name}|json}}"))
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_are_known_without_running_anything() {
        let mut values = Values::default();
        values.define("BASE", "'http://h'");
        values.define("LOOP", "LOOP + 'x'");
        let token = values.new_value("token");
        assert_eq!(token, "token");
        let of = |text: &str| text_of(text, &values);
        assert_eq!(of("BASE + '/a' + 1").as_deref(), Some("http://h/a1"));
        assert_eq!(of("`${BASE}/${token}?$x`").as_deref(), Some("http://h/${token}?$x"));
        assert_eq!(of(r#""a\"b${""#).as_deref(), Some("a\"b$${"));
        assert_eq!(
            of("JSON.stringify({a: [1, true], 'b': token})").as_deref(),
            Some("{\"a\":[1,true],\"b\":\"${token|json}\"}")
        );
        for unknown in ["f()", "LOOP", "a.b", "'a", "`${f()}`", "JSON.stringify(x)", "", "é"] {
            assert_eq!(of(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn statements_have_their_lines() {
        let text = "const A = 1; // b; c\n/* x\n */\nexport default function () {\n  f({ a: ';' },\n    2);\n\
                    \n  g()\n}";
        let found: Vec<(String, usize)> =
            statements(text).expect("good").into_iter().map(|one| (one.text, one.line)).collect();
        assert_eq!(found[0], ("const A = 1".to_string(), 1));
        assert_eq!(found[1], ("f({ a: ';' },\n    2)".to_string(), 5));
        assert_eq!(found[2], ("g()".to_string(), 8));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "[a-z'\"`(){}\\[\\],;:+$=>/*\\n .é]{0,60}") {
            let _ = (statements(&text), arguments(&text), text_of(&text, &Values::default()));
            let _ = statements(&format!("export default function () {{ {text} }}"));
        }
    }
}
