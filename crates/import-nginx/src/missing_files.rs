//! `if (!-f $request_filename) { ... }`: what answers where there is no file, which is `try_files` here.

use super::matching::Match;
use touchstone_import_base::directive::Directive;

/// The name of a directive that replaces such an `if` around a `proxy_pass`: files have precedence over the
/// origin.
pub const FILES_FIRST: &str = "files before the origin";

/// The part of the path after the first slash, in the parameters of a script.
pub const REST: &str = "$rest_of_path";

/// The target of a `rewrite` of all paths as the last argument of a `try_files`: a group of the expression is
/// the path or the rest of it, and the query of the request is added.
pub fn as_tried(rewrite: &Directive) -> String {
    let (expression, target) = (rewrite.argument(0), rewrite.argument(1));
    let group = match expression {
        "^(.*)$" | "^(.*)" | "(.*)" | "^(.+)$" | "(.+)" | "^(/.*)$" => "$uri",
        "^/(.*)$" | "^/(.+)$" | "^/(.*)" | "^/(.+)" | "^/?(.*)$" => REST,
        // Then the group is told where it is used.
        _ => "$1",
    };
    let target = target.replace("$1", group);
    match (target.strip_suffix('?'), target.contains('?')) {
        (Some(target), _) => target.to_string(),
        (None, true) => format!("{target}&$args"),
        (None, false) => target,
    }
}

/// The directives that replace an `if` of missing files; `None`: it is another `if`.
///
/// A rewrite becomes `try_files`. A target with groups of the expression remains an `if`, because `try_files`
/// has none.
pub fn missing_files(condition: &Directive) -> Option<Vec<Directive>> {
    if condition.name != "if" {
        return None;
    }
    let text = condition.arguments.join(" ");
    let text = text.trim().trim_start_matches('(').trim_end_matches(')').trim();
    let (sign, file) = text.split_once(char::is_whitespace)?;
    let files = ["$request_filename", "$document_root$uri", "$document_root$fastcgi_script_name"];
    let is_request = files.contains(&file.trim().trim_matches('"'));
    let tried: &[&str] = match sign {
        "!-f" => &["$uri"],
        "!-e" => &["$uri", "$uri/"],
        _ => return None,
    };
    let inside: Vec<&Directive> = condition.inside().iter().filter(|inner| inner.name != "break").collect();
    let ([inner], true) = (inside.as_slice(), is_request) else { return None };
    let new_directive = |name: &str, arguments: Vec<String>| Directive {
        name: name.to_string(),
        arguments,
        block: None,
        place: condition.place.clone(),
        form: condition.form,
    };
    let tried = tried.iter().map(|file| (*file).to_string());
    match inner.name.as_str() {
        "rewrite" => {
            let is_inside = matches!(inner.argument(2), "" | "last" | "break");
            let target = inner.argument(1);
            // A script gets groups as parameters.
            let is_of_script = target.split('?').next().is_some_and(|path| path.ends_with(".php"));
            let is_path = target.starts_with('/') && (is_of_script || !has_group(target));
            let target = if is_of_script { as_tried(inner) } else { target.to_string() };
            (takes_all(inner.argument(0)) && is_inside && is_path)
                .then(|| vec![new_directive("try_files", tried.chain([target]).collect())])
        }
        // A missing file is answered with 404 anyway.
        "return" if inner.arguments.len() == 1 && inner.argument(0).starts_with('4') => Some(Vec::new()),
        "proxy_pass" => {
            let files = new_directive(FILES_FIRST, tried.collect());
            Some(vec![files, (*inner).clone()])
        }
        _ => None,
    }
}

/// Whether the expression of a `rewrite` matches all paths.
pub fn takes_all(expression: &str) -> bool {
    matches!(
        expression,
        "^" | "."
            | ".*"
            | "^.*$"
            | "^.*"
            | "^(.*)$"
            | "^(.*)"
            | "(.*)"
            | "^/(.*)$"
            | "^/(.*)"
            | "^/(.+)$"
            | "^/(.+)"
            | "^(.+)$"
    )
}

fn has_group(target: &str) -> bool {
    (1..=9).any(|number| target.contains(&format!("${number}")))
}

/// Whether a program answers in a location for what is not a file: another server, or a program other than
/// that for scripts.
pub fn is_passed(how: &Match, block: &[Directive]) -> bool {
    block.iter().any(|one| match one.name.as_str() {
        "fastcgi_pass" => !how.is_of_scripts(),
        name => name.ends_with("_pass"),
    })
}

/// Whether an `if` is left as it is in a location, because a program would answer for what it refuses.
pub fn is_kept(condition: &Directive, how: &Match, block: &[Directive]) -> bool {
    condition.inside().iter().any(|inner| inner.name == "return") && is_passed(how, block)
}

/// A block with such conditions replaced; `None`: it has none.
pub fn replaced(how: &Match, block: &[Directive]) -> Option<Vec<Directive>> {
    let replacing = |one: &Directive| missing_files(one).filter(|_| !is_kept(one, how, block));
    if !block.iter().any(|directive| replacing(directive).is_some()) {
        return None;
    }
    let replacement = |directive: &Directive| replacing(directive).unwrap_or_else(|| vec![directive.clone()]);
    Some(block.iter().flat_map(replacement).collect())
}

/// Whether a location has a handler, so that a condition of the server cannot be added to it.
pub fn has_answer(block: &[Directive]) -> bool {
    block.iter().any(|one| one.name.ends_with("_pass") || matches!(one.name.as_str(), "try_files" | "return"))
}

#[cfg(test)]
mod tests {
    use crate::{parse, translate};

    fn keys(server: &str) -> (String, Vec<String>) {
        let imported = translate(&parse("nginx.conf", &format!("server {{ root /srv; {server} }}")).unwrap());
        let lines: Vec<&str> =
            imported.text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        (lines.join("\n"), imported.problems.into_iter().map(|problem| problem.directive).collect())
    }

    #[test]
    fn missing_files_have_another_answer() {
        for (server, expected) in [
            (
                "location / { if (!-e $request_filename) { rewrite ^(.*)$ /index.html last; break; } }",
                "try_files = [\"$path\", \"$path/\", \"/index.html\"]",
            ),
            (
                "if (!-f $request_filename) { rewrite ^ /app.html last; }",
                "path = \"/\"\ntry_files = [\"$path\", \"/app.html\"]",
            ),
            (
                "if (!-f $request_filename) { rewrite ^ /app.html; } location / { expires 1h; }",
                "try_files = [\"$path\", \"/app.html\"]",
            ),
            (
                "location / { proxy_set_header Host $host;\n\
                 if (!-f $request_filename) { proxy_pass http://10.0.0.1:3000; break; } }",
                "try_files = [\"$path\"]\n[site.route.proxy]",
            ),
            ("location /a/ { if (!-f $request_filename) { return 404; } expires 1h; }", "path = \"/a/\""),
            (
                "location ~ \\.php$ { if (!-f $document_root$fastcgi_script_name) { return 404; }\n\
                 fastcgi_pass 127.0.0.1:9000; }",
                "[site.route.php]",
            ),
            (
                "if (!-e $request_filename) { rewrite . /index.php last; }\n\
                 location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; }",
                "front_controller = \"/index.php\"",
            ),
        ] {
            let (text, problems) = keys(server);
            assert!(problems.is_empty(), "{server}: {problems:?}\n{text}");
            assert!(text.contains(expected), "{server}\n{text}");
        }
    }

    #[test]
    fn targets_with_groups_are_told() {
        for server in [
            "location / { if (!-e $request_filename) { rewrite ^/(.*)$ /index.php?q=$1 last; } }",
            "if (!-e $request_filename) { rewrite ^ /a.html; } location / { proxy_pass http://a:1; }",
            "if (-f $document_root/maintenance.html) { return 503; }",
        ] {
            assert!(!keys(server).1.is_empty(), "{server}");
        }
    }
}
