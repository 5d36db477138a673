//! Conditions of matchers that routes have no key for, as conditions of this server's language: `not`,
//! `query`, `header_regexp`, `protocol` and simple forms of `expression`.

use super::context::{Context, variable};
use super::placeholder;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::expression::{converted, literal, quoted};

/// The condition of one line of a matcher.
///
/// # Errors
/// The line has no counterpart.
pub fn condition(name: &str, arguments: &[String], context: &Context) -> Result<String, String> {
    if name == "file" {
        return Err("files are looked for by 'try_files', and by 'front_controller' of 'php'".to_string());
    }
    if arguments.is_empty() {
        return Err(format!("'{name}' has no arguments"));
    }
    let takes_braces = ["expression", "vars"].contains(&name) || name.ends_with("_regexp");
    if !takes_braces && arguments.iter().any(|one| one.contains('{')) {
        return Err("placeholders are not supported in a condition".to_string());
    }
    match (name, arguments) {
        ("path", paths) => {
            let all: Vec<String> = paths.iter().map(|path| wildcards(path)).collect();
            Ok(format!("$path =~ {}", quoted(&format!("^(?:{})$", all.join("|")))?))
        }
        ("path_regexp", [expression] | [_, expression]) => compared("$path", expression),
        ("header_regexp", [field, expression] | [_, field, expression]) => {
            compared(&format!("$header{{{}}}", field_name(field)?), expression)
        }
        ("vars_regexp", [of, expression] | [_, of, expression]) => {
            compared(&operand(&variable(of), context)?, expression)
        }
        ("vars", [of, values @ ..]) if !values.is_empty() => {
            let of = operand(&variable(of), context)?;
            let values: Result<Vec<String>, String> =
                values.iter().map(|value| placeholder::plain(value, context)).collect();
            match values?.as_slice() {
                [value] => Ok(format!("{of} == {}", quoted(value)?)),
                values => Ok(format!("{of} in {}", list(values)?)),
            }
        }
        ("method", methods) => {
            let methods: Vec<String> = methods.iter().map(|one| one.to_ascii_uppercase()).collect();
            Ok(format!("$method in {}", list(&methods)?))
        }
        ("host", hosts) => of_hosts(hosts),
        ("header", [field]) => match field.strip_prefix('!') {
            Some(field) => Ok(format!("$header{{{}}} == ''", field_name(field)?)),
            None => Ok(format!("$header{{{}}} != ''", field_name(field)?)),
        },
        ("header", [field, value]) if !field.starts_with('!') => match value.as_str() {
            "*" => Ok(format!("$header{{{}}} != ''", field_name(field)?)),
            value => {
                let value = quoted(&format!("^{}$", wildcards(value)))?;
                Ok(format!("$header{{{}}} =~ {value}", field_name(field)?))
            }
        },
        ("query", pairs) => {
            let all: Result<Vec<String>, String> = pairs.iter().map(|pair| of_query(pair)).collect();
            Ok(all?.join(" and "))
        }
        ("protocol", [scheme]) if scheme == "http" || scheme == "https" => {
            Ok(format!("$scheme == '{scheme}'"))
        }
        ("expression", [whole]) => expression(whole, context),
        ("expression", words) => expression_of_words(words, context),
        (other, _) => Err(format!("there is no condition for '{other}'; see 'Which requests' in routes.md")),
    }
}

/// The condition that what a `not` holds does not hold.
///
/// # Errors
/// A line has no counterpart.
pub fn negated(line: &Directive, context: &Context) -> Result<String, String> {
    let mut all = Vec::new();
    if let Some((name, arguments)) = line.arguments.split_first() {
        all.push(condition(name, arguments, context)?);
    }
    for inner in line.inside() {
        all.push(condition(&inner.name, &inner.arguments, context)?);
    }
    match all.is_empty() {
        true => Err("'not' has no condition".to_string()),
        false => Ok(format!("not ({})", all.join(" and "))),
    }
}

/// A text with placeholders, as one side of a comparison: a variable, or a text in quotes.
fn operand(written: &str, context: &Context) -> Result<String, String> {
    let text = placeholder::text(written, &context.for_condition())?;
    let is_variable = text.starts_with("${") && text.matches("${").count() == 1;
    match is_variable && text.ends_with('}') {
        true => Ok(text),
        false if text.contains("${") => Err(format!("'{written}' is more than one value")),
        false => quoted(&text.replace("$$", "$")),
    }
}

/// One of these names, in which `*` is one part.
///
/// # Errors
/// A name has both kinds of quotes.
pub fn of_hosts(hosts: &[String]) -> Result<String, String> {
    let hosts: Vec<String> = hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
    if hosts.iter().any(|host| host.contains('*')) {
        let parts = |host: &String| host.split('*').map(literal).collect::<Vec<String>>().join("[^.]+");
        let all: Vec<String> = hosts.iter().map(parts).collect();
        return Ok(format!("$host =~ {}", quoted(&format!("^(?:{})$", all.join("|")))?));
    }
    match hosts.as_slice() {
        [host] => Ok(format!("$host == {}", quoted(host)?)),
        hosts => Ok(format!("$host in {}", list(hosts)?)),
    }
}

fn compared(value: &str, expression: &str) -> Result<String, String> {
    Ok(format!("{value} =~ {}", quoted(&converted(expression)?)?))
}

/// `key=value`, `key=*`
fn of_query(pair: &str) -> Result<String, String> {
    let (key, value) = pair.split_once('=').ok_or("a parameter is 'KEY=VALUE'")?;
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)) {
        return Err(format!("the parameter '{key}' has no counterpart"));
    }
    match value {
        "*" => Ok(format!("$arg{{{key}}} != ''")),
        value => Ok(format!("$arg{{{key}}} == {}", quoted(value)?)),
    }
}

fn field_name(field: &str) -> Result<String, String> {
    let is_name = !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_name {
        Ok(field.to_ascii_lowercase())
    } else {
        Err(format!("'{field}' is not the name of a field"))
    }
}

fn wildcards(text: &str) -> String {
    text.split('*').map(literal).collect::<Vec<String>>().join("(?s:.*)")
}

fn list(texts: &[String]) -> Result<String, String> {
    let texts: Result<Vec<String>, String> = texts.iter().map(|text| quoted(text)).collect();
    Ok(format!("[{}]", texts?.join(", ")))
}

/// The same written as several words, without their quotes: a word that is neither an operator nor a
/// placeholder is a text.
fn expression_of_words(words: &[String], context: &Context) -> Result<String, String> {
    let operator = |word: &String| match word.as_str() {
        "==" | "!=" => Ok(word.clone()),
        "&&" => Ok("and".to_string()),
        "||" => Ok("or".to_string()),
        "!" => Ok("not".to_string()),
        "(" | ")" => Ok(word.clone()),
        word if word.starts_with('{') && word.find('}') == Some(word.len() - 1) => operand(word, context),
        word if word.contains(['{', '}', '(', ')', '<', '>']) => {
            Err("only comparisons of placeholders with texts have a counterpart".to_string())
        }
        word => quoted(word),
    };
    Ok(words.iter().map(operator).collect::<Result<Vec<String>, String>>()?.join(" "))
}

/// An expression of CEL that compares placeholders with texts: `{method} == "POST" && {query.a} != 'b'`.
fn expression(text: &str, context: &Context) -> Result<String, String> {
    let unknown = "only comparisons of placeholders with texts have a counterpart";
    let mut out: Vec<String> = Vec::new();
    let mut rest = text.trim().trim_matches('`').trim_start();
    while let Some(first) = rest.chars().next() {
        rest = match first {
            '{' => {
                let end = rest.find('}').ok_or("a '}' is missing")?;
                out.push(operand(&rest[..=end], context)?);
                &rest[end + 1..]
            }
            '"' | '\'' => {
                let end = rest[1..].find(first).ok_or("a quote has no end")?;
                out.push(quoted(&rest[1..=end])?);
                &rest[end + 2..]
            }
            '(' | ')' => {
                out.push(first.to_string());
                &rest[1..]
            }
            _ => {
                let signs = [("==", "=="), ("!=", "!="), ("&&", "and"), ("||", "or"), ("!", "not")];
                let (sign, here) = signs.iter().find(|(sign, _)| rest.starts_with(sign)).ok_or(unknown)?;
                out.push((*here).to_string());
                &rest[sign.len()..]
            }
        }
        .trim_start();
    }
    match out.is_empty() {
        true => Err(unknown.to_string()),
        false => Ok(out.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_of_lines() {
        let condition_of = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_string).collect();
            condition(&words[0], &words[1..], &Context::default())
        };
        for (line, expected) in [
            ("path /a/* *.css", "$path =~ '^(?:/a/(?s:.*)|(?s:.*)\\.css)$'"),
            ("method get", "$method in ['GET']"),
            ("header X-A b*", "$header{x-a} =~ '^b(?s:.*)$'"),
            ("header !X-A", "$header{x-a} == ''"),
            ("header_regexp User-Agent ^bot", "$header{user-agent} =~ '^bot'"),
            ("query a=1 b=*", "$arg{a} == '1' and $arg{b} != ''"),
            ("protocol https", "$scheme == 'https'"),
            ("expression {method} == POST && {query.a} != ", "${method} == 'POST' and ${arg{a}} != ''"),
        ] {
            assert_eq!(condition_of(line).as_deref(), Ok(expected), "{line}");
        }
        let whole = ["{method} == \"POST\" && !({query.a} == 'b')".to_string()];
        let expected = "${method} == 'POST' and not ( ${arg{a}} == 'b' )";
        assert_eq!(condition("expression", &whole, &Context::default()).as_deref(), Ok(expected));
        for line in
            ["file /a", "query a", "header_regexp A (?!b)", "expression {path}.startsWith('/a')", "path {x}"]
        {
            assert!(condition_of(line).is_err(), "{line}");
        }
    }
}
