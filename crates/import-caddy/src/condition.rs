//! Conditions of matchers that routes have no key for, as conditions of this server's language: `not`,
//! `query`, `header_regexp`, `protocol` and simple forms of `expression`.

use super::cel;
use super::comparison::{
    compared, field_name, list, networks_of, of_clients, of_field, of_hosts, of_methods, of_query, operand,
    wildcards,
};
use super::context::{Context, variable};
use super::placeholder;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::expression::quoted;

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
        ("method", methods) => of_methods(methods),
        ("host", hosts) => of_hosts(hosts),
        ("remote_ip" | "client_ip", networks) => of_clients(&networks_of(networks)),
        ("header", [field]) => match field.strip_prefix('!') {
            Some(field) => Ok(format!("$header{{{}}} == ''", field_name(field)?)),
            None => Ok(format!("$header{{{}}} != ''", field_name(field)?)),
        },
        ("header", [field, value]) if !field.starts_with('!') => of_field(field, value),
        ("query", pairs) => {
            let all: Result<Vec<String>, String> = pairs.iter().map(|pair| of_query(pair)).collect();
            Ok(all?.join(" and "))
        }
        ("protocol", [scheme]) if scheme == "http" || scheme == "https" => {
            Ok(format!("$scheme == '{scheme}'"))
        }
        ("expression", [whole]) => cel::condition(whole, context),
        ("expression", words) => cel::condition_of_words(words, context),
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
        let expected = "${method} == 'POST' and not ((${arg{a}} == 'b'))";
        assert_eq!(condition("expression", &whole, &Context::default()).as_deref(), Ok(expected));
        for line in ["file /a", "query a", "header_regexp A (?!b)", "expression {path}.size()", "path {x}"] {
            assert!(condition_of(line).is_err(), "{line}");
        }
    }
}
