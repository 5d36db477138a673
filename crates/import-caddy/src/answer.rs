//! The action of a route: another server, PHP, files, a redirect, another path or a fixed answer.

use super::context::Context;
use super::origin::duration;
use super::placeholder::{plain, template, tried};
use super::proxy::proxy;
use super::rewrite::{self, Target};
use super::routing::{Change, ChangeKind, Level, Routing};
use super::steps::Step;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::{check_target, toml_string, toml_strings};

/// Writes the action into the route.
///
/// # Errors
/// The action has no counterpart, so the route cannot be written.
pub fn write<'d>(
    step: &Step<'d>,
    level: &Level<'d>,
    changes: &[&Change<'d>],
    context: &Context,
    routing: &mut Routing<'_, 'd>,
    route: &mut Section,
) -> Result<(), String> {
    match step.directive.name.as_str() {
        "redir" => redirect(step, context, route),
        "rewrite" => rewrite::write(step, context, route),
        "respond" | "error" | "abort" => respond(step, context, routing, route),
        "reverse_proxy" => proxy(step, level, changes, context, routing, route),
        "php_fastcgi" => php(step, changes, context, routing, route),
        _ => files(step, level, changes, context, routing, route),
    }
}

/// `redir TO [CODE]`
fn redirect(step: &Step<'_>, context: &Context, route: &mut Section) -> Result<(), String> {
    let code = plain(step.argument(1), context)?;
    let status = match code.as_str() {
        "" | "temporary" => 302,
        "permanent" => 301,
        "html" => return Err("write the redirecting page as a file of the site".to_string()),
        code => match code.parse::<u16>() {
            Ok(code @ (301 | 302 | 303 | 307 | 308)) => code,
            _ => return Err("a redirect has the status 301, 302, 303, 307 or 308".to_string()),
        },
    };
    let to = template(step.argument(0), context, false)?;
    route.key("redirect", format!("{{ to = {}, status = {status} }}", toml_string(&to)));
    Ok(())
}

/// `respond [BODY] [STATUS]`, `error [MESSAGE] STATUS`, `abort`
fn respond(
    step: &Step<'_>,
    context: &Context,
    routing: &mut Routing<'_, '_>,
    route: &mut Section,
) -> Result<(), String> {
    let name = step.directive.name.as_str();
    if name == "abort" {
        route.note("Caddy closes the connection; here the answer is 403.");
        route.key("respond", "{ status = 403 }");
        return Ok(());
    }
    let in_block = |name: &str| step.directive.inside().iter().find(|line| line.name == name);
    let (mut body, mut status) = ("", if name == "error" { 500 } else { 200 });
    match step.arguments {
        [] => {}
        [one] => match one.parse::<u16>() {
            Ok(code @ 100..=999) => status = code,
            _ => body = one,
        },
        [text, code, ..] => {
            body = text;
            let code = plain(code, context)?;
            status = code.parse().map_err(|_| format!("'{code}' is not a status"))?;
        }
    }
    if let Some(line) = in_block("body") {
        body = line.argument(0);
    }
    if !(200..600).contains(&status) {
        return Err("an answer has a status from 200 to 599".to_string());
    }
    let body = match plain(body, context) {
        // What it forbids stays forbidden, without its text.
        Err(advice) if status >= 400 => {
            routing.problem(step.directive, &format!("the status is sent without the text: {advice}"));
            String::new()
        }
        other => other?,
    };
    let body = match body.as_str() {
        // Caddy uses the text of an error only in its log and its error handlers.
        _ if name == "error" => String::new(),
        "" => String::new(),
        body => format!(", body = {}", toml_string(body)),
    };
    route.key("respond", format!("{{ status = {status}{body} }}"));
    Ok(())
}

/// `php_fastcgi ADDRESS`
fn php<'d>(
    step: &Step<'d>,
    changes: &[&Change<'d>],
    context: &Context,
    routing: &mut Routing<'_, 'd>,
    route: &mut Section,
) -> Result<(), String> {
    if changes.iter().any(|change| matches!(change.what, ChangeKind::Rewrite(_))) {
        return Err(
            "the path for PHP is not rewritten in a block for some paths; see docs/php.md".to_string()
        );
    }
    let mut table = Section::new("[site.route.php]");
    let mut front = Some("/index.php".to_string());
    let backends: Vec<String> = step
        .arguments
        .iter()
        .map(|address| Ok(backend(&plain(address, context)?)))
        .collect::<Result<_, String>>()?;
    if backends.is_empty() {
        return Err("it names no address".to_string());
    }
    table.key("backends", toml_strings(&backends));
    for change in changes {
        match &change.what {
            ChangeKind::TryFiles(files) => {
                front = front_controller(step.directive, files, context, routing);
            }
            ChangeKind::Root(root) => table.key("document_root", toml_string(&plain(root, context)?)),
            _ => {}
        }
    }
    for line in step.directive.inside() {
        table.note(line.to_string());
        match (line.name.as_str(), line.argument(0)) {
            ("root", root) => table.key("document_root", toml_string(&plain(root, context)?)),
            ("index", "off") => front = None,
            ("index", name) => table.key("index", toml_strings([name, "index.html"])),
            ("try_files", _) => front = front_controller(line, &line.arguments, context, routing),
            ("env", name) => match plain(line.argument(1), context) {
                Ok(value) => table.entry("variables", name, toml_string(&value)),
                Err(advice) => routing.problem(line, &advice),
            },
            ("read_timeout", time) if duration(time).is_some() => {
                table.key("first_byte_timeout", toml_string(&duration(time).unwrap_or_default()));
            }
            ("dial_timeout", time) if duration(time).is_some() => {
                table.key("connect_timeout", toml_string(&duration(time).unwrap_or_default()));
            }
            ("split" | "resolve_root_symlink" | "capture_stderr" | "write_timeout", _) => {}
            _ => routing.problem(line, "see docs/php.md"),
        }
    }
    if let Some(front) = front {
        table.key("front_controller", toml_string(&front));
    }
    route.push(table);
    Ok(())
}

fn backend(address: &str) -> String {
    match address.strip_prefix("unix/") {
        Some(socket) => format!("unix:{socket}"),
        None => address.replace("localhost:", "127.0.0.1:"),
    }
}

/// The script that answers when no file does, with its parameters; without those that have no counterpart.
fn front_controller<'d>(
    line: &'d Directive,
    files: &[String],
    context: &Context,
    routing: &mut Routing<'_, 'd>,
) -> Option<String> {
    match front_target(files, context) {
        Ok(front) => front,
        Err((script, advice)) => {
            routing.problem(line, &format!("{script} answers without its parameters: {advice}"));
            Some(script)
        }
    }
}

/// The same; the error has the script, and why its parameters have no counterpart.
fn front_target(files: &[String], context: &Context) -> Result<Option<String>, (String, String)> {
    let last = files.last().map_or("", String::as_str);
    let last = if last.starts_with('/') { last.to_string() } else { format!("/{last}") };
    let script = last.split(['?', '{']).next().unwrap_or_default();
    if !script.ends_with(".php") {
        return Ok(None);
    }
    let Some((_, query)) = last.split_once('?') else { return Ok(Some(script.to_string())) };
    let target = template(&format!("{script}?{query}"), context, true)
        .and_then(|target| check_target(&target).map(|()| target));
    target.map(Some).map_err(|advice| (script.to_string(), advice))
}

/// `file_server`
fn files<'d>(
    step: &Step<'d>,
    level: &Level<'d>,
    changes: &[&Change<'d>],
    context: &Context,
    routing: &mut Routing<'_, 'd>,
    route: &mut Section,
) -> Result<(), String> {
    let mut root = level.root.clone();
    for change in changes {
        match &change.what {
            ChangeKind::Root(other) => root = Some(other.clone()),
            ChangeKind::TryFiles(files) => route.key("try_files", toml_strings(tried(files)?)),
            _ => {}
        }
    }
    let mut is_listed = step.arguments.iter().any(|argument| argument == "browse");
    for line in step.directive.inside() {
        route.note(line.to_string());
        match line.name.as_str() {
            "root" => root = Some(line.argument(0).to_string()),
            "browse" => is_listed = true,
            "index" => route.key("index", toml_strings(&line.arguments)),
            // What is hidden has its own route.
            "precompressed" | "hide" => {}
            _ => routing.problem(line, "see docs/content.md"),
        }
    }
    if is_listed {
        route.key("listing", toml_string("html"));
    }
    let prefix = changes.iter().find_map(|change| match &change.what {
        ChangeKind::StripPrefix(prefix) => Some(prefix.as_str()),
        _ => None,
    });
    let prefix = prefix.unwrap_or(&level.stripped);
    let mut root = root.map(|root| plain(&root, context)).transpose()?;
    match rewrite::target(changes, level, context)? {
        None => {}
        Some(Target::Path(path)) => route.key("try_files", toml_strings([path])),
        Some(Target::Below(path)) => {
            let site =
                root.as_deref().ok_or("a path below the directory of the site: write 'root' in the block")?;
            root = Some(format!("{}{path}", site.trim_end_matches('/')));
        }
    }
    match (prefix, root) {
        ("", Some(root)) => route.key("root", toml_string(&root)),
        ("", None) => {}
        (_, root) => {
            let is_its_path = route.has_value("path", &toml_string(&format!("{prefix}/")));
            if !is_its_path {
                return Err(
                    "a directory is served under one prefix: write a route with 'alias' for it".to_string()
                );
            }
            route.key("alias", toml_string(root.as_deref().unwrap_or(".")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_answer_for_missing_files() {
        let files = ["{path}".to_string(), "index.php?x={path}".to_string()];
        let context = Context::default();
        let front = |files: &[String]| front_target(files, &context).unwrap();
        assert_eq!(front(&files).as_deref(), Some("/index.php?x=${path}"));
        for (last, expected) in [
            ("/index.php?url={path}&{query}", Some("/index.php?url=${path}&${query}")),
            ("/index.php?{query}", Some("/index.php")),
            ("/index.php", Some("/index.php")),
            ("/index.html", None),
        ] {
            assert_eq!(front(&[last.to_string()]).as_deref(), expected, "{last}");
        }
        assert!(front_target(&["/i.php?x={nothing}".to_string()], &context).is_err());
    }
}
