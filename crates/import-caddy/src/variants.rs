//! Answers whose text, directory or server is that of a map: a route for each value, because those of a route
//! are fixed.

use super::context::{Context, PlaceholderValue};
use super::matcher::Matcher;
use super::placeholder::{names, resolved};
use super::routing::{ChangeKind, Level};
use super::steps::Step;
use touchstone_import_base::expression::quoted;

/// The most routes that one directive becomes in this way.
const MOST_VARIANTS: usize = 64;

/// The requests of each variant, and what its placeholders stand for.
///
/// # Errors
/// There are too many, or a value has no counterpart in a condition.
pub fn of(step: &Step<'_>, inner: &Matcher, level: &Level<'_>) -> Result<Vec<(Matcher, Context)>, String> {
    let mut variants = vec![(inner.clone(), level.context.clone())];
    let mut done: Vec<String> = Vec::new();
    loop {
        let texts = fixed_texts(step, level);
        // The parts of the host are known with the host.
        let whole = |name: String| if is_label(&name) { "host".to_string() } else { name };
        let used = texts.iter().flat_map(|text| names(&resolved(text, &level.context))).map(whole);
        let Some((name, variable, values)) = used.filter(|name| !done.contains(name)).find_map(|name| {
            values_of(&name, &level.context).map(|(variable, values)| (name, variable, values))
        }) else {
            return Ok(variants);
        };
        if variants.len().saturating_mul(values.len()) > MOST_VARIANTS {
            return Err(format!(
                "'{{{name}}}' has {} values, and each needs a route: write one for each kind of answer",
                values.len()
            ));
        }
        let mut next = Vec::new();
        for (matcher, context) in &variants {
            for (index, value) in values.iter().enumerate() {
                let (mut matcher, mut context) = (matcher.clone(), context.clone());
                context.bind(&name, &PlaceholderValue::Text(value.clone()));
                if variable == "$host" {
                    bind_labels(value, &mut context);
                }
                // The last one is for all that is left.
                if index + 1 < values.len() {
                    matcher.whens.insert(format!("{variable} == {}", quoted(value)?));
                }
                next.push((matcher, context));
            }
        }
        variants = next;
        done.push(name);
    }
}

/// The parts of a name: `{labels.0}` is the last one.
fn bind_labels(host: &str, context: &mut Context) {
    context.bind("host", &PlaceholderValue::Text(host.to_string()));
    for (number, label) in host.rsplit('.').enumerate() {
        for begin in ["labels", "host.labels"] {
            context.bind(&format!("{begin}.{number}"), &PlaceholderValue::Text(label.to_string()));
        }
    }
}

/// Whether a placeholder is a part of the host.
fn is_label(name: &str) -> bool {
    name.starts_with("labels.") || name.starts_with("host.labels.")
}

/// The variable of a placeholder, and its values, if all are known.
fn values_of(name: &str, context: &Context) -> Option<(String, Vec<String>)> {
    if name == "host" && !context.hosts.is_empty() {
        return Some(("$host".to_string(), context.hosts.to_vec()));
    }
    let table = context.table(name)?;
    Some((format!("$map{{{}}}", table.name), table.values.clone()?))
}

/// The texts of a step that are the same for all requests of a route.
fn fixed_texts<'t>(step: &'t Step<'_>, level: &'t Level<'_>) -> Vec<&'t str> {
    let lines = |name: &'static str| {
        let lines = step.directive.inside().iter().filter(move |line| line.name == name);
        lines.flat_map(|line| &line.arguments).map(String::as_str)
    };
    let arguments = step.arguments.iter().map(String::as_str);
    let roots = level.changes.iter().filter_map(|change| match &change.what {
        ChangeKind::Root(root) => Some(root.as_str()),
        _ => None,
    });
    match step.directive.name.as_str() {
        "respond" | "error" => arguments.chain(lines("body")).collect(),
        "reverse_proxy" => arguments.chain(lines("to")).collect(),
        "php_fastcgi" => arguments.chain(lines("root")).chain(roots).collect(),
        "file_server" => lines("root").chain(roots).chain(level.root.as_deref()).collect(),
        // The target has variables, but a part of the host may not name a server.
        "redir" => {
            let is_fixed = step.argument(0).contains("labels.");
            arguments.skip(usize::from(!is_fixed)).collect()
        }
        _ => Vec::new(),
    }
}
