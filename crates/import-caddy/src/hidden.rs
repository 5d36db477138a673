//! Names that `file_server` hides: those of `hide`, and the configuration if it is below the root.

use std::path::Path;

use super::matcher::Matcher;
use super::routing::Routing;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::expression::{literal, quoted};
use touchstone_import_base::output::Section;

/// The route that answers 404 for the hidden names of a `file_server`; `None`: it hides none.
pub fn hidden<'d>(
    file_server: &'d Directive,
    inner: &Matcher,
    root: Option<&str>,
    routing: &mut Routing<'_, 'd>,
) -> Option<Section> {
    let mut names: Vec<String> = configuration(file_server, root).into_iter().collect();
    for line in file_server.inside().iter().filter(|line| line.name == "hide") {
        for name in &line.arguments {
            match component(name) {
                Some(name) => names.push(name),
                None => {
                    let advice =
                        "it is served until you write a route with 'respond = { status = 404 }' for it";
                    routing.problem(line, &format!("'{name}': {advice}"));
                }
            }
        }
    }
    if names.is_empty() {
        return None;
    }
    let mut route = Section::new("[[site.route]]");
    for line in file_server.inside().iter().filter(|line| line.name == "hide") {
        route.note(line.to_string());
    }
    route.note("The file server hides these names, and the files of directories with such names.");
    inner.keys(&mut route).ok()?;
    route.and_when(&format!("$path =~ {}", quoted(&format!("/(?:{})(?:/|$)", names.join("|"))).ok()?));
    route.key("respond", "{ status = 404 }");
    Some(route)
}

/// The name of the configuration, if it is a file below the root.
fn configuration(file_server: &Directive, root: Option<&str>) -> Option<String> {
    let file = Path::new(file_server.place.file());
    let is_below = match root.map(Path::new) {
        Some(root) if root.is_absolute() => file.starts_with(root),
        _ => true,
    };
    file.file_name().filter(|_| is_below && file.is_absolute()).and_then(|name| name.to_str()).map(literal)
}

/// The expression for a part of a path; `None`: the name has several parts, or characters in brackets.
fn component(name: &str) -> Option<String> {
    let has_others = name.is_empty() || name.contains(['/', '[', '{', '\\', '\'']);
    let glob = |part: &str| literal(part).replace("\\?", "[^/]");
    let parts: Vec<String> = name.split('*').map(glob).collect();
    (!has_others).then(|| parts.join("[^/]*"))
}

#[cfg(test)]
mod tests {
    use crate::{parse, translate};

    #[test]
    fn hidden_names_are_not_served() {
        let conditions = |server: &str| {
            let text = format!("http://a.org {{\nroot * /srv\n{server}\n}}");
            let imported = translate(&parse("/etc/caddy/Caddyfile", &text).unwrap());
            let lines: Vec<String> = imported.text.lines().map(str::to_string).collect();
            let found = |line: &&String| line.starts_with("when") || line.starts_with("php = ");
            let found: Vec<String> = lines.iter().filter(found).cloned().collect();
            (found, imported.problems.len())
        };
        let hidden = r#"when = "$path =~ '/(?:\\.git|[^/]*\\.env)(?:/|$)'""#.to_string();
        assert_eq!(conditions("file_server {\nhide .git *.env\n}"), (vec![hidden], 0));
        assert_eq!(conditions("file_server"), (Vec::new(), 0));
        assert_eq!(conditions("file_server {\nhide /srv/a/b [x]\n}"), (Vec::new(), 2));
        // The configuration is not sent.
        let text = "http://a.org {\nroot * /srv\nfile_server\n}";
        let imported = translate(&parse("/srv/Caddyfile", text).unwrap());
        assert!(imported.text.contains("/(?:Caddyfile)(?:/|$)"), "{}", imported.text);
    }
}
