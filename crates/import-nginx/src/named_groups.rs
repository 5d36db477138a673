//! Groups with names in the expression of a location: `~ ^/(?<lang>en|de)/` gives `$lang`.
//!
//! Each becomes a group with a number, and its variables `$1`. A name could be that of a variable of this
//! server, and not all texts here know the names of groups.

use std::borrow::Cow;

use super::constants::replaced_in;
use touchstone_import_base::directive::Directive;

/// A number of a group has one digit.
const MOST_GROUPS: usize = 9;

/// A location whose groups have numbers; in the locations in it, too.
pub fn numbered(location: &Directive) -> Cow<'_, Directive> {
    let is_expression = matches!(location.argument(0), "~" | "~*");
    let found = is_expression.then(|| without_names(location.argument(1))).flatten();
    let has_inner = location.inside().iter().any(|one| one.name == "location");
    if found.is_none() && !has_inner {
        return Cow::Borrowed(location);
    }
    let mut changed = location.clone();
    for inner in changed.block.iter_mut().flatten().filter(|one| one.name == "location") {
        *inner = numbered(inner).into_owned();
    }
    if let Some((expression, names)) = found {
        changed.arguments[1] = expression;
        changed.block.iter_mut().flatten().for_each(|inner| with_numbers(inner, &names));
    }
    Cow::Owned(changed)
}

/// The expression without the names of its groups, and these with their numbers; `None`: it has none, or too
/// many groups.
fn without_names(expression: &str) -> Option<(String, Vec<(String, usize)>)> {
    let (mut out, mut names, mut number) = (String::new(), Vec::new(), 0);
    let (mut rest, mut in_class) = (expression, false);
    while let Some(character) = rest.chars().next() {
        let mut length = character.len_utf8();
        match character {
            '\\' => length += rest[1..].chars().next().map_or(0, char::len_utf8),
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class && !rest.starts_with("(?") => number += 1,
            '(' if !in_class => {
                let named = rest.strip_prefix("(?P<").or(rest.strip_prefix("(?<"));
                let named = named.filter(|named| !named.starts_with(['=', '!']));
                if let Some((name, after)) = named.and_then(|named| named.split_once('>')) {
                    number += 1;
                    names.push((name.to_string(), number));
                    out.push('(');
                    rest = after;
                    continue;
                }
            }
            _ => {}
        }
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    (!names.is_empty() && number <= MOST_GROUPS).then_some((out, names))
}

/// Writes the numbers of groups in place of their names, except where another expression has groups.
fn with_numbers(directive: &mut Directive, names: &[(String, usize)]) {
    let has_own = match directive.name.as_str() {
        "rewrite" => true,
        "if" => directive.arguments.iter().any(|word| word.starts_with('~') || word.starts_with("!~")),
        "location" => matches!(directive.argument(0), "~" | "~*"),
        _ => false,
    };
    if has_own {
        return;
    }
    for argument in &mut directive.arguments {
        for (name, number) in names {
            *argument = replaced_in(argument, name, &format!("${{{number}}}"));
        }
    }
    directive.block.iter_mut().flatten().for_each(|inner| with_numbers(inner, names));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn groups_get_numbers() {
        for (expression, expected) in [
            ("^/(?<a>x)/(y)/(?P<b>z)", Some(("^/(x)/(y)/(z)", vec![("a", 1), ("b", 3)]))),
            ("^/(?:x)(?<a>[(]\\()", Some(("^/(?:x)([(]\\()", vec![("a", 1)]))),
            ("^/(x)", None),
            ("(?<!x)y(?<=z)", None),
        ] {
            let found = without_names(expression);
            let expected = expected.map(|(text, names)| {
                (text.to_string(), names.into_iter().map(|(name, at)| (name.to_string(), at)).collect())
            });
            assert_eq!(found, expected, "{expression}");
        }
    }

    #[test]
    fn variables_get_the_numbers_of_their_groups() {
        let text = "location ~ ^/(?<path>a)/(.*)$ { return 302 /$path/${path}b$2; rewrite (x) /$path$1; }";
        let directives = parse("x", text).unwrap();
        let changed = numbered(&directives[0]);
        let lines: Vec<String> = changed.inside().iter().map(Directive::text).collect();
        assert_eq!(lines, ["return 302 /${1}/${1}b$2;", "rewrite (x) /$path$1;"]);
        assert_eq!(changed.argument(1), "^/(a)/(.*)$");
    }
}
