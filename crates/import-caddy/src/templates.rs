//! `templates`: pages with actions of Go's templates, which this server does not run. Each action is named
//! with its file and line, and with the directive of a page that has the same meaning, if there is one.

use std::path::{Path, PathBuf};

use touchstone_import_base::Problem;
use touchstone_import_base::directive::{Directive, Place};
use touchstone_import_base::files::{FILE_BYTES, FILES, read_text};

/// The most actions that are named.
const MOST_ACTIONS: usize = 200;
/// The most entries of directories that are looked at.
const MOST_ENTRIES: usize = 20_000;
/// How deep the directories of pages are searched.
const DEEPEST: usize = 16;
/// The longest part of an action that is shown, in characters.
const LONGEST_SHOWN: usize = 80;

/// What to do about the directive.
pub fn advice(templates: &Directive) -> String {
    let (begin, end) = delimiters(templates);
    format!(
        "pages are sent with what is between {begin} and {end}: change these actions to directives \
         (docs/import.md, 'Templates of Caddy'), or keep a program that makes the pages"
    )
}

fn delimiters(templates: &Directive) -> (&str, &str) {
    let tags = templates.inside().iter().find(|line| line.name == "between");
    match tags.map(|line| line.arguments.as_slice()) {
        Some([begin, end]) if !begin.is_empty() && !end.is_empty() => (begin, end),
        _ => ("{{", "}}"),
    }
}

/// The actions in the pages of all sites that have `templates`, as far as their files are here.
pub fn actions(directives: &[Directive]) -> Vec<Problem> {
    let mut found = Vec::new();
    for site in directives {
        of_block(site.inside(), None, &mut found);
    }
    found
}

fn of_block(block: &[Directive], around: Option<&str>, found: &mut Vec<Problem>) {
    let root = block.iter().filter(|line| line.name == "root").find_map(|line| line.arguments.last());
    let root = root.map(String::as_str).or(around).filter(|root| !root.contains('{'));
    for templates in block.iter().filter(|line| line.name == "templates") {
        let (begin, end) = delimiters(templates);
        let mut found_pages = Vec::new();
        if let Some(root) = root {
            let mut left = MOST_ENTRIES;
            pages(Path::new(root), 0, &mut left, &mut found_pages);
        }
        for page in found_pages {
            if let Ok(text) = read_text(&page) {
                of_page(&page, &text, begin, end, found);
            }
        }
    }
    for inner in block.iter().filter(|line| line.name.starts_with("handle") || line.name == "route") {
        of_block(inner.inside(), root, found);
    }
}

/// The files of the types that Caddy has as templates, if nothing else is said: HTML, plain text, Markdown.
fn pages(directory: &Path, depth: usize, left: &mut usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    let mut paths: Vec<PathBuf> = entries.take(*left).filter_map(|entry| Some(entry.ok()?.path())).collect();
    *left -= paths.len().min(*left);
    paths.sort();
    for path in paths {
        let Ok(metadata) = std::fs::symlink_metadata(&path) else { continue };
        let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
        let is_page = ending.is_some_and(|ending| {
            ["html", "htm", "txt", "md"].iter().any(|page| ending.to_str() == Some(page))
        });
        if metadata.is_dir() && depth < DEEPEST {
            pages(&path, depth + 1, left, found);
        } else if metadata.is_file() && is_page && metadata.len() <= FILE_BYTES && found.len() < FILES {
            found.push(path);
        }
    }
}

fn of_page(page: &Path, text: &str, begin: &str, end: &str, found: &mut Vec<Problem>) {
    let file: std::rc::Rc<str> = page.display().to_string().into();
    let mut rest = text;
    let mut line = 1;
    while let Some(at) = rest.find(begin) {
        line += rest[..at].matches('\n').count();
        let inside = &rest[at + begin.len()..];
        let Some(length) = inside.find(end) else { return };
        if found.len() >= MOST_ACTIONS {
            return;
        }
        let action = inside[..length].trim_matches(|c: char| c == '-' || c.is_whitespace());
        let shown: String = action.chars().take(LONGEST_SHOWN).collect();
        let shown = shown.split_whitespace().collect::<Vec<&str>>().join(" ");
        let problem = Problem {
            place: Place::new(file.clone(), line),
            directive: format!("{begin}{shown}{end}"),
            advice: counterpart(action),
        };
        if !found.contains(&problem) {
            found.push(problem);
        }
        line += inside[..length].matches('\n').count();
        rest = &inside[length + end.len()..];
    }
}

/// The directive of a page that has the meaning of an action, as advice.
fn counterpart(action: &str) -> String {
    let word = action.split(|c: char| c.is_whitespace() || c == '(').next().unwrap_or_default();
    let argument = action.split('"').nth(1).filter(|text| !text.is_empty() && !text.contains('$'));
    let is_alone = !action.contains('|') && action.matches('"').count() <= 2;
    let echo = |name: &str| format!("write <!--#echo var=\"{name}\" --> (docs/includes.md)");
    match (word, argument) {
        ("include" | "import" | "httpInclude" | "readFile", Some(path)) if is_alone => {
            let path = path.trim_start_matches('/');
            format!("write <!--#include virtual=\"/{path}\" --> (docs/includes.md)")
        }
        (".RemoteIP" | ".ClientIP", _) if is_alone => echo("REMOTE_ADDR"),
        (".Host", _) if is_alone => echo("SERVER_NAME"),
        (".Req.Host", _) if is_alone => echo("HTTP_HOST"),
        (".Req.Method", _) if is_alone => echo("REQUEST_METHOD"),
        (".Req.URL.Path" | ".OriginalReq.URL.Path", _) if is_alone => echo("DOCUMENT_URI"),
        (".Req.URL.RawQuery", _) if is_alone => echo("QUERY_STRING"),
        (".Req.Header.Get", Some(name)) if is_alone => {
            echo(&format!("HTTP_{}", name.to_ascii_uppercase().replace('-', "_")))
        }
        ("now", _) => "write <!--#config timefmt=\"...\" --><!--#echo var=\"DATE_LOCAL\" -->".to_string(),
        ("if" | "else" | "end", _) => {
            "write <!--#if expr=\"...\" -->, #else and #endif (docs/includes.md)".to_string()
        }
        (word, _) if word.starts_with("/*") => "write it as a comment of the page".to_string(),
        (word, _) if word.starts_with('$') => "write <!--#set var=\"...\" value=\"...\" -->".to_string(),
        _ => "it has no counterpart: write its result into the page, or keep a program for it".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use proptest::prelude::*;

    #[test]
    fn actions_are_named_with_their_places() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("sub")).unwrap();
        let page =
            "<html>\n{{include \"/menu.html\"}} {{ .RemoteIP }}\n{{- range .X -}}\n{{/* a\nb */}}{{.Host}}";
        std::fs::write(directory.path().join("sub/a.html"), page).unwrap();
        std::fs::write(directory.path().join("a.css"), "{{x}}").unwrap();
        let root = directory.path().display();
        let text = format!("a.org {{\nroot * {root}\nhandle {{\ntemplates\n}}\nfile_server\n}}\n");
        let found = actions(&parse("Caddyfile", &text).unwrap());
        let shown: Vec<String> = found
            .iter()
            .map(|problem| {
                let place = problem.place.to_string();
                format!("{} {} {}", place.rsplit(':').next().unwrap(), problem.directive, problem.advice)
            })
            .collect();
        let expected = [
            "2 {{include \"/menu.html\"}} write <!--#include virtual=\"/menu.html\" --> (docs/includes.md)",
            "2 {{.RemoteIP}} write <!--#echo var=\"REMOTE_ADDR\" --> (docs/includes.md)",
            "3 {{range .X}} it has no counterpart: write its result into the page, or keep a program for it",
            "4 {{/* a b */}} write it as a comment of the page",
            "5 {{.Host}} write <!--#echo var=\"SERVER_NAME\" --> (docs/includes.md)",
        ];
        assert_eq!(shown, expected);
        let text = text.replace("templates", "templates {\nbetween [[ ]]\n}");
        assert!(actions(&parse("Caddyfile", &text).unwrap()).is_empty());
    }

    #[test]
    fn only_what_is_equal_is_advised() {
        assert!(counterpart("include \"a\" | upper").contains("no counterpart"));
        assert!(counterpart("include \"a\" \"b\"").contains("no counterpart"));
        assert!(counterpart(".Req.Header.Get \"X-Test\"").contains("HTTP_X_TEST"));
        assert!(counterpart("env \"HOME\"").contains("no counterpart"));
    }

    proptest! {
        #[test]
        fn any_page_is_read(
            text in "[{}\\[\\]a\n\" |$-]{0,80}",
            begin in "[{\\[]{1,2}",
            end in "[}\\]]{1,2}",
        ) {
            let mut found = Vec::new();
            of_page(Path::new("a.html"), &text, &begin, &end, &mut found);
            let lines = text.matches('\n').count() + 1;
            for problem in &found {
                let place = problem.place.to_string();
                let line = place.rsplit(':').next().and_then(|line| line.parse::<usize>().ok());
                prop_assert!(line.is_some_and(|line| line <= lines), "{}", place);
            }
        }
    }
}
