//! Comparisons of the parts of a request in this server's language, for conditions of matchers.

use super::context::Context;
use super::placeholder;
use touchstone_import_base::expression::{converted, literal, quoted};
use touchstone_import_base::networks;

/// A text with placeholders, as one side of a comparison: a variable, or a text in quotes.
///
/// # Errors
/// It has no counterpart.
pub fn operand(written: &str, context: &Context) -> Result<String, String> {
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

/// The networks of `remote_ip`.
pub fn networks_of(arguments: &[String]) -> Vec<String> {
    let private = ["127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fd00::/8"]
        .map(String::from);
    let networks = |argument: &String| match argument.as_str() {
        "private_ranges" => private.to_vec(),
        "forwarded" => Vec::new(),
        network => vec![network.to_string()],
    };
    arguments.iter().flat_map(networks).collect()
}

/// The condition that the client is in one of these networks.
///
/// # Errors
/// One of them is no network.
pub fn of_clients(networks: &[String]) -> Result<String, String> {
    let all: Result<Vec<String>, String> = networks.iter().map(|one| networks::condition(one)).collect();
    let all = all?;
    if all.is_empty() { Err("it names no network".to_string()) } else { Ok(all.join(" or ")) }
}

/// The condition that a value matches an expression.
///
/// # Errors
/// The expression has no counterpart.
pub fn compared(value: &str, expression: &str) -> Result<String, String> {
    Ok(format!("{value} =~ {}", quoted(&converted(expression)?)?))
}

/// The condition on a parameter: `key=value`, `key=*`.
///
/// # Errors
/// It has another form.
pub fn of_query(pair: &str) -> Result<String, String> {
    let (key, value) = pair.split_once('=').ok_or("a parameter is 'KEY=VALUE'")?;
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)) {
        return Err(format!("the parameter '{key}' has no counterpart"));
    }
    match value {
        "*" => Ok(format!("$arg{{{key}}} != ''")),
        value => Ok(format!("$arg{{{key}}} == {}", quoted(value)?)),
    }
}

/// The name of a field.
///
/// # Errors
/// It is none.
pub fn field_name(field: &str) -> Result<String, String> {
    let is_name = !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_name {
        Ok(field.to_ascii_lowercase())
    } else {
        Err(format!("'{field}' is not the name of a field"))
    }
}

/// The expression for a text in which `*` is any text.
pub fn wildcards(text: &str) -> String {
    text.split('*').map(literal).collect::<Vec<String>>().join("(?s:.*)")
}

/// A list of texts.
///
/// # Errors
/// A text has both kinds of quotes.
pub fn list(texts: &[String]) -> Result<String, String> {
    let texts: Result<Vec<String>, String> = texts.iter().map(|text| quoted(text)).collect();
    Ok(format!("[{}]", texts?.join(", ")))
}

/// The condition on a field that has a value, in which `*` is any text.
///
/// # Errors
/// The field has no counterpart.
pub fn of_field(field: &str, value: &str) -> Result<String, String> {
    match value {
        "*" => Ok(format!("$header{{{}}} != ''", field_name(field)?)),
        value => {
            let value = quoted(&format!("^{}$", wildcards(value)))?;
            Ok(format!("$header{{{}}} =~ {value}", field_name(field)?))
        }
    }
}

/// The condition that the method is one of these.
///
/// # Errors
/// A text has both kinds of quotes.
pub fn of_methods(methods: &[String]) -> Result<String, String> {
    let methods: Vec<String> = methods.iter().map(|one| one.to_ascii_uppercase()).collect();
    Ok(format!("$method in {}", list(&methods)?))
}
