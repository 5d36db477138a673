//! Converts regular expressions of other servers to those of this server, which match the whole path in
//! linear time.

use regex::bytes::Regex;
use touchstone_expression::pattern;

/// Groups that need more than linear time.
const UNSUPPORTED_GROUPS: [(&str, &str); 5] = [
    ("(?=", "lookahead"),
    ("(?!", "lookahead"),
    ("(?<=", "lookbehind"),
    ("(?<!", "lookbehind"),
    ("(?>", "atomic groups"),
];

/// What the groups of an expression are called that this server does not support; `None`: it has none.
fn unsupported_group(expression: &str) -> Option<&'static str> {
    UNSUPPORTED_GROUPS.iter().find(|(sign, _)| expression.contains(*sign)).map(|(_, name)| *name)
}

/// Reads an expression as routes do.
fn compiled(expression: &str) -> Result<Regex, String> {
    pattern::for_path(expression).map_err(|problem| format!("expressions here have another form: {problem}"))
}

/// Whether an expression for whole texts matches this one; an invalid expression matches nothing.
pub fn matches(expression: &str, text: &str) -> bool {
    compiled(&format!("^(?:{expression})$")).is_ok_and(|compiled| compiled.is_match(text.as_bytes()))
}

/// An expression that may match anywhere, in the form of this server.
///
/// # Errors
/// The expression has groups that this server does not support, or another fault.
pub fn converted(expression: &str) -> Result<String, String> {
    if unsupported_group(expression).is_some() {
        return Err("expressions here have no lookahead and no lookbehind".to_string());
    }
    let expression = portable(expression);
    compiled(&expression).map(|_| expression)
}

/// Writes what has another meaning in the expressions of this server: braces and brackets that stand for
/// themselves.
pub fn portable(expression: &str) -> String {
    let mut out = String::new();
    let mut rest = expression;
    // In a class: how much of it was read.
    let mut in_class: Option<usize> = None;
    while let Some(character) = rest.chars().next() {
        let mut length = character.len_utf8();
        match (character, in_class) {
            ('\\', _) => {
                let escaped = rest.chars().nth(1);
                length += escaped.map_or(0, char::len_utf8);
                match escaped {
                    Some(plain @ ('<' | '>' | '_')) => out.push(plain),
                    Some('Z') if in_class.is_none() => out.push_str("\\z"),
                    _ => out.push_str(&rest[..length]),
                }
            }
            ('[', None) => {
                length += usize::from(rest[1..].starts_with('^'));
                out.push_str(&rest[..length]);
                in_class = Some(0);
                rest = &rest[length..];
                continue;
            }
            (']', Some(1..)) => {
                out.push(']');
                in_class = None;
            }
            ('[', Some(_)) if !rest.starts_with("[:") => out.push_str("\\["),
            ('[', Some(_)) => {
                length = rest.find(":]").map_or(1, |at| at + 2);
                out.push_str(if length == 1 { "\\[" } else { &rest[..length] });
            }
            (']' | '&' | '~', Some(_)) => out.extend(['\\', character]),
            ('{', None) if !is_repetition(rest) || out.is_empty() => out.push_str("\\{"),
            _ => out.push(character),
        }
        in_class = in_class.map(|read| read + 1);
        rest = &rest[length..];
    }
    out
}

/// Whether a text begins with `{2}`, `{2,}` or `{2,5}`.
fn is_repetition(text: &str) -> bool {
    let Some((inside, _)) = text[1..].split_once('}') else { return false };
    let (least, most) = inside.split_once(',').unwrap_or((inside, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !least.is_empty() && is_number(least) && is_number(most)
}

/// An expression without its negative lookahead.
pub struct WithoutLookahead {
    /// The expression without the group.
    pub rest: String,
    /// What must not match.
    pub excluded: String,
    /// Where the expression may begin anywhere: what matches if the text before the group appears twice.
    pub twice: Option<String>,
}

/// Splits an expression with one negative lookahead behind literal text, as in `^/setup/(?!pub/).`.
pub fn split_lookahead(expression: &str) -> Option<WithoutLookahead> {
    let at = expression.find("(?!")?;
    let (before, group) = expression.split_at(at);
    let end = group_length(group);
    let (inside, after) = (group.get("(?!".len()..end - 1)?, &group[end..]);
    let literal = before.strip_prefix('^').unwrap_or(before);
    let is_anchored = literal.len() < before.len();
    let mut escaped = false;
    let is_literal = literal.chars().all(|character| {
        let was_escaped = std::mem::replace(&mut escaped, false);
        match character {
            '\\' if !was_escaped => {
                escaped = true;
                true
            }
            _ if was_escaped => !character.is_ascii_alphanumeric(),
            _ => character.is_ascii_alphanumeric() || "/_-~%@,:=".contains(character),
        }
    });
    let is_alone = [inside, after].iter().all(|text| unsupported_group(text).is_none());
    let is_simple = alternatives(expression).len() == 1 && !after.starts_with(['*', '+', '?', '{']);
    if !is_literal || escaped || !is_alone || !is_simple || !group.ends_with(|_| true) {
        return None;
    }
    let twice = match (is_anchored, literal.is_empty()) {
        (true, _) => None,
        (false, true) => return None,
        (false, false) => Some(format!("{literal}(?s:.*){literal}")),
    };
    let excluded = format!("{before}(?:{})", portable(inside));
    compiled(&excluded).ok()?;
    Some(WithoutLookahead { rest: format!("{before}{after}"), excluded, twice })
}

/// An expression without a negative lookahead behind literal text, and the condition that takes its place.
///
/// # Errors
/// The expression has both kinds of quotes.
pub fn without_lookahead(text: &str, any_case: bool) -> Result<(String, Vec<String>), String> {
    let Some(split) = split_lookahead(text) else { return Ok((text.to_string(), Vec::new())) };
    let flags = if any_case { "(?i)" } else { "" };
    let not = format!("not $path =~ {}", quoted(&format!("{flags}{}", split.excluded))?);
    let condition = match split.twice {
        None => not,
        // What is excluded must follow the only place with this text.
        Some(twice) => format!("({not} or $path =~ {})", quoted(&format!("{flags}{twice}"))?),
    };
    Ok((split.rest, vec![condition]))
}

/// An expression whose first group holds the beginning of the path, and a target that begins with that group:
/// the slash is moved out of the group, because a target here begins with one.
pub fn with_slash(expression: &str, target: &str) -> Option<(String, String)> {
    let rest = target.strip_prefix("$1").or(target.strip_prefix("${1}"))?;
    let text = expression.strip_prefix('^').unwrap_or(expression);
    let begins =
        [("(.*)", "(.*)"), ("(.+)", "(.*)"), ("(.*?)", "(.*?)"), ("(.+?)", "(.*?)"), ("(.*/)", "((?:.*/)?)")];
    let moved =
        begins.iter().find_map(|(begin, moved)| Some(format!("^/{moved}{}", text.strip_prefix(begin)?)));
    let moved = moved.or_else(|| {
        let inside = text.strip_prefix("(/")?;
        let group = &text[..group_length(text)];
        let is_one = !group.contains('|') && !inside.starts_with(['?', '*', '+', '{']);
        (is_one && !text[group.len()..].starts_with(['?', '*', '+', '{'])).then(|| format!("^/({inside}"))
    })?;
    Some((moved, format!("/${{1}}{rest}")))
}

/// An expression whose first group begins with a slash, and a target with that group behind the name of a
/// server: the slash is moved out of the group, as in `^/a(/.*)$` with `https://b$1`.
pub fn slash_before_group(expression: &str, target: &str) -> Option<(String, String)> {
    let (_, rest) = target.split_once("://")?;
    let at = rest.find(['/', '$'])?;
    if !rest[at..].starts_with("$1") && !rest[at..].starts_with("${1}") {
        return None;
    }
    let begin = expression.find('(')?;
    let group = &expression[begin..];
    let length = group_length(group);
    let after = &group[length..];
    let is_moved = group.starts_with("(/")
        && !expression[..begin].ends_with('\\')
        && !group[..length].contains('|')
        && !group[2..].starts_with(['?', '*', '+', '{'])
        && !after.starts_with(['?', '*', '+', '{']);
    let target = target.replace("$1", "/$1").replace("${1}", "/${1}");
    is_moved.then(|| (format!("{}/({}", &expression[..begin], &group[2..]), target))
}

/// The literal path that each path which an expression matches begins with.
pub fn literal_beginning(expression: &str) -> Option<&str> {
    let rest = expression.strip_prefix('^').filter(|_| alternatives(expression).len() == 1)?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"/_-".contains(c)).unwrap_or(rest.len());
    // What follows may make the last character optional.
    let optional = rest[end..].starts_with(['?', '*', '{', '+']);
    let begin = &rest[..end.saturating_sub(usize::from(optional))];
    begin.starts_with('/').then_some(begin)
}

/// A path within the parameters of a target; `None`: it has characters that must be percent-encoded there.
pub fn literal_of_target(path: &str) -> Option<String> {
    let stays = |c: char| c.is_ascii_alphanumeric() || "/-._~".contains(c);
    path.chars().all(stays).then(|| path.to_string())
}

/// The expression for the directories whose `index.php` an expression for scripts matches, if it has the form
/// `BEGIN.*\.php$`.
pub fn directories_of_scripts(expression: &str) -> Option<String> {
    let text = expression.strip_suffix('$')?;
    let before = match text.strip_suffix("\\.php") {
        Some(before) => before,
        None => {
            let at = text.rfind("\\.(")?;
            let endings = text[at + 3..].strip_suffix(')')?;
            let endings = endings.strip_prefix("?:").unwrap_or(endings);
            if endings.contains(['(', ')']) || !matches(&portable(endings), "php") {
                return None;
            }
            &text[..at]
        }
    };
    let any = [".*?", ".+?", ".*", ".+"].iter().find_map(|end| before.strip_suffix(end));
    let segment = ["[^/]*", "[^/]+"].iter().find_map(|end| before.strip_suffix(end));
    let begin = any.or(segment).filter(|begin| !begin.is_empty() && *begin != "^")?;
    if alternatives(expression).len() > 1 {
        return None;
    }
    match (any.is_some(), begin.ends_with('/')) {
        (true, true) => Some(format!("{begin}(?:.*/)?$")),
        (true, false) => Some(format!("{begin}.*/$")),
        (false, true) => Some(format!("{begin}$")),
        (false, false) => None,
    }
}

/// A text in quotes. A backslash is kept, because expressions need it.
///
/// # Errors
/// It has both kinds of quotes.
pub fn quoted(text: &str) -> Result<String, String> {
    match (text.contains('\''), text.contains('"')) {
        (false, _) => Ok(format!("'{text}'")),
        (true, false) => Ok(format!("\"{text}\"")),
        (true, true) => Err("a text with both kinds of quotes has no counterpart".to_string()),
    }
}

/// Converts an expression that may match anywhere in a path to one that must match the whole path.
///
/// # Errors
/// The expression uses a feature that needs more than linear time, which this server does not support.
pub fn whole_path(expression: &str, any_case: bool) -> Result<String, String> {
    let (expression, any_case) = match expression.strip_prefix("(?i)") {
        Some(rest) => (rest, true),
        None => (expression, any_case),
    };
    if let Some(name) = unsupported_group(expression) {
        return Err(format!("expressions here have no {name}: write two routes, the narrower one first"));
    }
    if (1..=9).any(|number| expression.contains(&format!("\\{number}"))) {
        return Err("expressions here have no references to groups in the expression itself".to_string());
    }
    let flags = if any_case { "(?i)" } else { "" };
    let whole = format!("{flags}{}", whole(&portable(expression)));
    compiled(&whole).map(|_| whole)
}

/// Adds what may be before and behind an expression.
fn whole(expression: &str) -> String {
    // With alternatives at the top level, an anchor belongs to only one of them.
    if expression.contains('|') && !is_in_group(expression) {
        return format!("(?s:.*?)(?:{expression})(?s:.*)");
    }
    let (begin, rest) = match expression.strip_prefix('^') {
        Some(rest) => ("", rest),
        None => ("(?s:.*?)", expression),
    };
    let is_anchored = rest.ends_with('$') && !rest.ends_with("\\$");
    let (rest, end) = if is_anchored { (&rest[..rest.len() - 1], "") } else { (rest, "(?s:.*)") };
    format!("{begin}{rest}{end}")
}

/// Whether every `|` of an expression is inside parentheses.
fn is_in_group(expression: &str) -> bool {
    alternatives(expression).len() == 1
}

/// The alternatives of an expression at the top level, outside parentheses.
pub fn alternatives(expression: &str) -> Vec<&str> {
    let (mut depth, mut is_escaped, mut in_class, mut begin) = (0i32, false, false, 0);
    let mut found = Vec::new();
    for (at, character) in expression.char_indices() {
        if is_escaped {
            is_escaped = false;
            continue;
        }
        match character {
            '\\' => is_escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => depth += 1,
            ')' if !in_class => depth -= 1,
            '|' if !in_class && depth == 0 => {
                found.push(&expression[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    found.push(&expression[begin..]);
    found
}

/// Whether an expression has a `^` or `$` that is neither escaped nor in a class.
pub fn has_anchor(expression: &str) -> bool {
    with_anchors(expression, "", "") != expression
}

/// Writes other texts for `^` and `$`.
pub fn with_anchors(expression: &str, begin: &str, end: &str) -> String {
    with_replaced(expression, |character| match character {
        '^' => Some(begin),
        '$' => Some(end),
        _ => None,
    })
}

/// Converts an expression for a file name: what matched any character matches no slash.
pub fn within_name(expression: &str) -> String {
    with_replaced(expression, |character| (character == '.').then_some("[^/]"))
}

/// Writes other texts for characters that are neither escaped nor in a class.
fn with_replaced<'t>(expression: &str, replacement: impl Fn(char) -> Option<&'t str>) -> String {
    let (mut out, mut is_escaped, mut in_class) = (String::new(), false, false);
    for character in expression.chars() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            _ => {
                if let Some(text) = replacement(character).filter(|_| !in_class) {
                    out.push_str(text);
                    continue;
                }
            }
        }
        out.push(character);
    }
    out
}

/// Removes the look-ahead and look-behind groups from an expression; the result matches more.
pub fn without_looks(expression: &str) -> String {
    let mut out = String::new();
    let mut rest = expression;
    while let Some(character) = rest.chars().next() {
        let looks = ["(?!", "(?=", "(?<!", "(?<="].iter().any(|begin| rest.starts_with(begin));
        let length = match character {
            '(' if looks => group_length(rest),
            // An escaped parenthesis does not count.
            '\\' => {
                let length = rest.chars().take(2).map(char::len_utf8).sum();
                out.push_str(&rest[..length]);
                length
            }
            _ => {
                out.push(character);
                character.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    out
}

/// The length of the group at the beginning, with its parentheses.
fn group_length(expression: &str) -> usize {
    let (mut depth, mut is_escaped) = (0usize, false);
    for (at, character) in expression.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '(' => depth += 1,
            ')' if depth <= 1 => return at + 1,
            ')' => depth -= 1,
            _ => {}
        }
    }
    expression.len()
}

/// The expression for a name or path with `*` and `?`, which match no slash.
pub fn of_wildcards(text: &str) -> String {
    literal(text).replace("\\*", "[^/]*").replace("\\?", "[^/]")
}

/// An expression that matches only this path.
pub fn literal(path: &str) -> String {
    path.chars().fold(String::new(), |mut out, c| {
        // `\<` is the beginning of a word.
        if !c.is_alphanumeric() && !matches!(c, '/' | '_' | '-' | ' ' | '<' | '>') && c.is_ascii() {
            out.push('\\');
        }
        out.push(c);
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_slash_moves_out_of_the_group_behind_a_server() {
        let moved = |expression: &str, target: &str| slash_before_group(expression, target);
        let found = Some(("^/a/(.*)$".to_string(), "https://b/$1?x".to_string()));
        assert_eq!(moved("^/a(/.*)$", "https://b$1?x"), found);
        for (expression, target) in [
            ("^/a(/.*)$", "https://b/$1"),
            ("^/a(/.*)?$", "https://b$1"),
            ("^/a(/x|y)$", "https://b$1"),
            ("^/a(/?.*)$", "https://b$1"),
            ("^/a(.*)$", "https://b$1"),
            ("^/a(/.*)$", "/b$1"),
        ] {
            assert_eq!(moved(expression, target), None, "{expression} {target}");
        }
    }

    #[test]
    fn expressions_match_the_whole_path() {
        for (text, expected) in [
            (r"\.php$", r"(?s:.*?)\.php"),
            (r"^/a/(.*)$", r"/a/(.*)"),
            (r"^/a", r"/a(?s:.*)"),
            (r"^/a|\.x$", r"(?s:.*?)(?:^/a|\.x$)(?s:.*)"),
            (r"\.(css|js)$", r"(?s:.*?)\.(css|js)"),
        ] {
            assert_eq!(whole_path(text, false).unwrap(), expected);
        }
        assert_eq!(within_name("^\\.x.*[.]$"), "^\\.x[^/]*[.]$");
        assert_eq!(without_looks("^(\\.(?!well-known(x)).*|\\(?a)$"), "^(\\..*|\\(?a)$");
        assert!(whole_path("^/(?!admin)", false).is_err() && whole_path(r"(a)\1", false).is_err());
        assert_eq!(whole_path("(?i)^/a", false).unwrap(), "(?i)/a(?s:.*)");
    }

    #[test]
    fn braces_and_brackets_that_stand_for_themselves() {
        for (text, expected) in [
            ("({{|}}|{%|%})", r"(\{\{|}}|\{%|%})"),
            ("a{2}b{2,}c{2,5}d{,5}", r"a{2}b{2,}c{2,5}d\{,5}"),
            ("[^]a[]x[[:alpha:]&]{8}", r"[^\]a\[]x[[:alpha:]\&]{8}"),
            (r"\<script\>\_\.", r"<script>_\."),
        ] {
            assert_eq!(converted(text).unwrap(), expected, "{text}");
        }
        assert!(converted("(a").is_err() && converted("a(?=b)").is_err());
    }

    #[test]
    fn lookaheads_become_conditions() {
        let split = |text: &str| split_lookahead(text).map(|found| (found.rest, found.excluded, found.twice));
        assert_eq!(
            split("^/setup/(?!pub/)."),
            Some(("^/setup/.".to_string(), "^/setup/(?:pub/)".to_string(), None))
        );
        assert_eq!(
            split(r"/\.(?!well-known)"),
            Some((r"/\.".to_string(), r"/\.(?:well-known)".to_string(), Some(r"/\.(?s:.*)/\.".to_string())))
        );
        for text in ["a.(?!b)", "(?!b)c", "^/a(?!b)*", "^/a(?!b)|c", "^/a(?!(?=b))", r"\d(?!b)"] {
            assert!(split(text).is_none(), "{text}");
        }
    }

    #[test]
    fn directories_and_slashes() {
        for (text, expected) in [
            (r"/(?:uploads|files)/.*\.php$", Some(r"/(?:uploads|files)/(?:.*/)?$")),
            (r"^/user.*\.(txt|php|sh)$", Some("^/user.*/$")),
            (r"^/admin/[^/]+\.php$", Some("^/admin/$")),
            (r"^/a/.*\.(txt|css)$", None),
            (r"\.php$", None),
            (r"^/a/.*\.php", None),
        ] {
            assert_eq!(directories_of_scripts(text).as_deref(), expected, "{text}");
        }
        let moved = |text: &str, to: &str| with_slash(text, to).map(|(text, to)| format!("{text} {to}"));
        assert_eq!(moved("^(.+)/+$", "$1").as_deref(), Some("^/(.*)/+$ /${1}"));
        assert_eq!(moved("(/a/.*)x", "$1.b").as_deref(), Some("^/(a/.*)x /${1}.b"));
        assert_eq!(moved("^(/a|/b)", "$1"), None);
        assert_eq!(moved("^/(.*)$", "$1"), None);
    }

    proptest! {
        /// What is converted is an expression here, and an exact path matches itself.
        #[test]
        fn any_expression_is_converted_or_refused(
            text in r"[a-z/.^$()|?*+\[\]{}0-9,:!\-]{0,24}",
            path in "/[ -~]{0,12}",
        ) {
            if let Ok(whole) = whole_path(&text, false) {
                prop_assert!(compiled(&whole).is_ok());
            }
            if let Ok(found) = converted(&text) {
                prop_assert!(compiled(&found).is_ok());
            }
            let _ = (split_lookahead(&text), directories_of_scripts(&text), with_slash(&text, "$1"));
            prop_assert!(matches(&literal(&path), &path));
        }
    }
}
