//! Paths that Apache maps to files by expressions, by the host, or by users: `AliasMatch`, `UserDir`,
//! `VirtualDocumentRoot`.
//!
//! An expression for all paths below a directory becomes an `Alias`. The paths of all others are refused:
//! here they would be those of the document root or of an application.

use super::area::is;
use super::host::Host;
use super::refused::{literal_beginning, refused_pattern, refused_until};
use touchstone_import_base::account::Account;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::expression;
use touchstone_import_base::output::Section;

/// The directives with each `AliasMatch` for all paths below a directory as an `Alias`.
pub fn with_aliases(directives: &[Directive]) -> Vec<Directive> {
    directives.iter().map(with_alias).collect()
}

fn with_alias(line: &Directive) -> Directive {
    let name = match line.name.to_ascii_lowercase().as_str() {
        "aliasmatch" => "Alias",
        "scriptaliasmatch" => "ScriptAlias",
        _ => {
            let block = line.block.as_deref().map(with_aliases);
            return Directive { block, ..line.clone() };
        }
    };
    match of_directory(line.argument(0), line.argument(1)) {
        Some((path, directory)) => {
            Directive { name: name.to_string(), arguments: vec![path, directory], ..line.clone() }
        }
        None => line.clone(),
    }
}

/// The path and the directory of an expression for all paths below one: `^/a/(.*)$` and `/srv/a/$1`.
fn of_directory(expression: &str, target: &str) -> Option<(String, String)> {
    let text = expression.strip_prefix('^')?;
    let text = text.strip_suffix('$').unwrap_or(text);
    let ends = [("/(.*)", "/$1"), ("(/.*)", "$1"), ("(/.*)?", "$1"), ("(?:/(.*))?", "/$1")];
    let found = ends.iter().find_map(|(end, group)| {
        Some((text.strip_suffix(end)?, target.strip_suffix(group)?, group.starts_with('/')))
    });
    let (path, directory, has_slash) = found?;
    let is_literal = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "/_-".contains(c));
    let (path, end) = (path.replace("\\.", "."), if has_slash { "/" } else { "" });
    let is_plain = is_literal(&path.replace('.', "")) && !path.is_empty() && !directory.contains('$');
    is_plain.then(|| (format!("{path}{end}"), format!("{directory}{end}")))
}

/// The routes that refuse the paths of what has no counterpart.
pub fn refused(host: &Host<'_>, account: &mut Account) -> Vec<Section> {
    let mut routes = Vec::new();
    for line in host.block.iter().chain(host.outside.iter().copied()) {
        let (mut route, advice) = match line.name.to_ascii_lowercase().as_str() {
            "aliasmatch" | "scriptaliasmatch" => {
                let begin = literal_beginning(line.argument(0), "/");
                let route = match expression::whole_path(line.argument(0), false) {
                    Ok(pattern) => refused_pattern(line, &pattern),
                    Err(_) => refused_until(line, &begin),
                };
                (route, "all of its paths are refused until you write routes with 'alias' for them")
            }
            "userdir" if !line.argument(0).eq_ignore_ascii_case("disabled") => {
                let route = refused_pattern(line, "/~(?s:.*)");
                (route, "all paths with '/~' are refused until you write a route with 'alias' for each user")
            }
            "virtualdocumentroot"
            | "virtualdocumentrootip"
            | "virtualscriptalias"
            | "virtualscriptaliasip" => {
                let route = refused_until(line, "/");
                (route, "all paths are refused until you write a site with 'root' for each directory")
            }
            _ => continue,
        };
        account.problem(line, &mut route, advice);
        route.notes_first();
        routes.push(route);
    }
    routes
}

/// The directives that are handled here.
pub fn is_known(line: &Directive) -> bool {
    const NAMES: [&str; 6] = [
        "AliasMatch",
        "ScriptAliasMatch",
        "VirtualDocumentRoot",
        "VirtualDocumentRootIP",
        "VirtualScriptAlias",
        "VirtualScriptAliasIP",
    ];
    let is_on = is(line, "UserDir") && !line.argument(0).eq_ignore_ascii_case("disabled");
    is_on || NAMES.iter().any(|name| is(line, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{parse, translate};

    #[test]
    fn expressions_for_all_paths_below_a_directory() {
        let found = |expression: &str, target: &str| {
            of_directory(expression, target).map(|(path, directory)| format!("{path} {directory}"))
        };
        assert_eq!(found("^/a/(.*)$", "/srv/x/$1").as_deref(), Some("/a/ /srv/x/"));
        assert_eq!(found("^/a(/.*)?$", "/srv/x$1").as_deref(), Some("/a /srv/x"));
        assert_eq!(found("^/a\\.b(/.*)", "/srv/x$1").as_deref(), Some("/a.b /srv/x"));
        for (expression, target) in [
            ("/a/(.*)$", "/srv/x/$1"),
            ("^/a(.*)$", "/srv/x$1"),
            ("^/(a|b)/(.*)$", "/srv/$1/$2"),
            ("^/a/(.*)$", "/srv/x/$1.html"),
            ("^(/.*)?$", "/srv$1"),
        ] {
            assert_eq!(found(expression, target), None, "{expression}");
        }
    }

    #[test]
    fn paths_that_are_refused() {
        for (line, expected) in [
            ("AliasMatch ^/(a|b)/(.*)$ /srv/$1/$2", "pattern = \"/(a|b)/(.*)\""),
            ("ScriptAliasMatch ^/git/(?!x) /srv/git/$1", "path = \"/git/\""),
            ("UserDir public_html", "pattern = \"/~(?s:.*)\""),
            ("VirtualDocumentRoot /srv/%0", "path = \"/\""),
        ] {
            let text = format!("<VirtualHost *:80>\nDocumentRoot /srv\n{line}\n</VirtualHost>");
            let imported = translate(&parse("a.conf", &text).unwrap());
            let lines: Vec<&str> =
                imported.text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
            let at = lines.iter().position(|line| *line == "[[site.route]]").unwrap();
            assert_eq!(lines[at + 1..at + 3], [expected, "respond = { status = 403 }"], "{}", imported.text);
            assert_eq!(imported.problems.len(), 1, "{line}");
        }
        let text = "<VirtualHost *:80>\nDocumentRoot /srv\nUserDir disabled\n\
                    AliasMatch ^/doc/(.*)$ /opt/doc/$1\n</VirtualHost>";
        let imported = translate(&parse("a.conf", text).unwrap());
        assert!(imported.text.contains("alias = \"/opt/doc\""), "{}", imported.text);
        assert!(imported.problems.is_empty(), "{:?}", imported.problems);
    }
}
