//! The route that refuses what a `.htaccess` file forbids.

use std::path::Path;

use touchstone_config::routes::check_pattern;
use touchstone_config::{RespondConfig, RouteConfig};
use touchstone_import_base::expression::{
    alternatives, has_anchor, matches, portable, with_anchors, without_looks,
};

use super::forbidden::Forbidden;

/// Names of scripts.
const SCRIPTS: &str = "\\.(?i:php[0-9s]?|pht|phtml|phar)$";
/// The index file of programs.
const PROGRAM_INDEX: &str = "index.php";

/// The directory of a file.
pub struct Place<'d> {
    /// The paths of its files begin with this, which has a slash at its end.
    pub directory: Vec<u8>,
    /// Where it is.
    pub on_disk: &'d Path,
}

/// A route that answers with 403. `index` are the index files of the site.
pub fn route(place: &Place<'_>, forbidden: &Forbidden, index: &[String]) -> RouteConfig {
    let pattern = match forbidden {
        Forbidden::Directory => return of_directory(place),
        Forbidden::Files(name) => of_names(place, &[of_wildcards(name)], index),
        Forbidden::Matching(expression) => {
            valid(expression, |text| of_names(place, &parts(text, "[^/]*"), index))
        }
        Forbidden::Scripts => of_names(place, &parts(SCRIPTS, "[^/]*"), index),
        Forbidden::Paths(expression) => valid(expression, |text| {
            let begin = literal(&place.directory);
            let paths = joined(&parts(text, ".*"));
            let index = index_path(place, index, |name| matches(&paths, name));
            format!("{begin}(?:{paths}){index}(?:/.*)?")
        }),
        Forbidden::Url(path) => format!("{}(?:/.*)?", literal(path.trim_end_matches('/').as_bytes())),
        Forbidden::Urls(expression) => valid(expression, |text| joined(&parts(text, ".*"))),
    };
    match check_pattern(&pattern) {
        Ok(()) if !pattern.is_empty() => RouteConfig { pattern, ..refusing() },
        _ => of_directory(place),
    }
}

fn refusing() -> RouteConfig {
    let content_type = "text/plain; charset=utf-8".to_string();
    let respond = RespondConfig { status: 403, body: String::new(), content_type };
    RouteConfig { respond: Some(respond), ..RouteConfig::default() }
}

fn of_directory(place: &Place<'_>) -> RouteConfig {
    let is_plain = |&byte: &u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    match std::str::from_utf8(&place.directory) {
        Ok(path) if place.directory.iter().all(is_plain) => {
            RouteConfig { path: path.to_string(), ..refusing() }
        }
        // A `*` or `%` in it would have a meaning.
        _ => RouteConfig { pattern: format!("{}.*", literal(&place.directory)), ..refusing() },
    }
}

/// Names of files in a directory and below it. A script also answers for paths behind its name, and an index
/// file for its directory.
fn of_names(place: &Place<'_>, names: &[String], index: &[String]) -> String {
    let names = joined(names);
    let index = index_path(place, index, |name| matches(&names, name));
    format!("{}(?:.*/)?(?:{names}){index}(?:/.*)?", literal(&place.directory))
}

/// `?` if the index file of the directory is forbidden: then the path of the directory is, too.
fn index_path(place: &Place<'_>, index: &[String], is_forbidden: impl Fn(&str) -> bool) -> &'static str {
    let names = || index.iter().map(String::as_str).chain([PROGRAM_INDEX]);
    let existing = names().find(|name| place.on_disk.join(name).exists());
    let is_refused = match existing {
        Some(name) => is_forbidden(name),
        None => names().any(is_forbidden),
    };
    if is_refused { "?" } else { "" }
}

/// The pattern of an expression, or without look-around, if it has any: then it matches more.
fn valid(expression: &str, pattern: impl Fn(&str) -> String) -> String {
    let patterns = [expression.to_string(), without_looks(expression)].map(|text| pattern(&portable(&text)));
    patterns.into_iter().find(|pattern| check_pattern(pattern).is_ok()).unwrap_or_default()
}

fn joined(parts: &[String]) -> String {
    format!("(?:{})", parts.join("|"))
}

/// The alternatives of an expression that may match anywhere in a text, each for a whole text. `any` is what
/// may be before and behind.
fn parts(expression: &str, any: &str) -> Vec<String> {
    let (flags, expression) = match expression.strip_prefix("(?i)") {
        Some(rest) => ("(?i)", rest),
        None => ("", expression),
    };
    let mut parts = Vec::new();
    add_parts(expression, any, (false, false), &mut parts);
    parts.iter().map(|part| format!("(?:{flags}{part})")).collect()
}

fn add_parts(expression: &str, any: &str, (begins, ends): (bool, bool), parts: &mut Vec<String>) {
    let all = alternatives(expression);
    if all.len() > 1 {
        all.into_iter().for_each(|one| add_parts(one, any, (begins, ends), parts));
        return;
    }
    let (begins, rest) = match expression.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (begins, expression),
    };
    let (ends, rest) = match rest.strip_suffix('$') {
        Some(shorter) if !is_escaped(rest) => (true, shorter),
        _ => (ends, rest),
    };
    if let Some(inner) = group(rest)
        && has_anchor(inner)
    {
        return add_parts(inner, any, (begins, ends), parts);
    }
    // An anchor elsewhere is left out: then more matches.
    let rest = with_anchors(rest, "", "");
    let (before, behind) = (if begins { "" } else { any }, if ends { "" } else { any });
    parts.push(format!("{before}(?:{rest}){behind}"));
}

/// Whether the last character is escaped.
fn is_escaped(text: &str) -> bool {
    let before = text.len().saturating_sub(1);
    text[..before].bytes().rev().take_while(|&byte| byte == b'\\').count() % 2 == 1
}

/// What is in the only group of an expression.
fn group(expression: &str) -> Option<&str> {
    let inner = expression.strip_prefix('(')?.strip_suffix(')').filter(|_| !is_escaped(expression))?;
    let inner = inner.strip_prefix("?:").unwrap_or(inner);
    let (mut depth, mut escaped, mut in_class) = (0usize, false, false);
    for character in inner.chars() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => depth += 1,
            ')' if !in_class => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    (depth == 0 && !inner.starts_with('?')).then_some(inner)
}

/// A name with `*`, `?` and classes of characters.
fn of_wildcards(name: &str) -> String {
    let mut out = String::new();
    let mut in_class = false;
    for character in name.chars() {
        match character {
            '*' if !in_class => out.push_str("[^/]*"),
            '?' if !in_class => out.push_str("[^/]"),
            '[' if !in_class && name.contains(']') => {
                in_class = true;
                out.push('[');
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '!' if in_class && out.ends_with('[') => out.push('^'),
            '-' if in_class => out.push('-'),
            _ => out.push_str(&literal(character.to_string().as_bytes())),
        }
    }
    out
}

/// An expression that matches only these bytes.
fn literal(text: &[u8]) -> String {
    text.iter().fold(String::new(), |mut out, &byte| {
        match byte {
            b'/' | b'_' => out.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use touchstone_config::routes::Routes;

    use super::*;

    /// Which of the paths a refusal for `/a.b/` is for.
    fn refused<'p>(forbidden: &Forbidden, paths: &[&'p str]) -> Vec<&'p str> {
        let place = Place { directory: b"/a.b/".to_vec(), on_disk: Path::new("/nonexistent") };
        let route = route(&place, forbidden, &["index.html".to_string()]);
        assert!(Routes::compile(std::slice::from_ref(&route)).is_ok());
        let is_refused = |path: &str| match route.pattern.is_empty() {
            true => path.starts_with(&route.path),
            false => matches(&route.pattern, path),
        };
        paths.iter().copied().filter(|path| is_refused(path)).collect()
    }

    #[test]
    fn names_of_files() {
        let paths =
            ["/a.b/x1.php", "/a.b/c/x.php", "/a.b/x.php/more", "/a.b/", "/a.b/c/", "/acb/x.php", "/x.php"];
        let found = refused(&Forbidden::Files("x*.php".into()), &paths);
        assert_eq!(found, ["/a.b/x1.php", "/a.b/c/x.php", "/a.b/x.php/more"]);
        for name in ["index.*", "*", "[ah-j]ndex.htm?"] {
            let found = refused(&Forbidden::Files(name.into()), &["/a.b/", "/a.b/c/", "/a.b/index.html"]);
            assert_eq!(found, ["/a.b/", "/a.b/c/", "/a.b/index.html"], "{name}");
        }
        assert_eq!(refused(&Forbidden::Files("a*b?".into()), &["/a.b/axxbc", "/a.b/a/bc"]), ["/a.b/axxbc"]);
    }

    #[test]
    fn expressions_for_names() {
        for (expression, yes, no) in [
            ("\\.bak$", vec!["/a.b/x.bak", "/a.b/x.bak/y"], vec!["/a.b/x.bakery", "/a.b/bak"]),
            ("^\\.ht|~$", vec!["/a.b/.htx", "/a.b/x~"], vec!["/a.b/x.ht", "/a.b/x~y"]),
            (
                "(^#.*#|\\.(bak|conf|sw[op])|~)$",
                vec!["/a.b/#a#", "/a.b/c/x.conf", "/a.b/x.swp", "/a.b/x~"],
                vec!["/a.b/x.config", "/a.b/x#a#b"],
            ),
            ("(?i)\\.SQL$", vec!["/a.b/x.sql", "/a.b/x.SQL"], vec!["/a.b/sql"]),
            ("^(a|b)\\$$", vec!["/a.b/a$", "/a.b/b$"], vec!["/a.b/a", "/a.b/xa$"]),
            // Without look-around more is refused.
            ("^\\.(?!well-known).*$", vec!["/a.b/.x", "/a.b/.well-known"], vec!["/a.b/x"]),
            ("^(?:x|y(z))$", vec!["/a.b/x", "/a.b/yz"], vec!["/a.b/y", "/a.b/xx"]),
            // What cannot be compiled.
            ("(a", vec!["/a.b/", "/a.b/anything"], vec!["/x"]),
            ("(a)\\1", vec!["/a.b/", "/a.b/anything"], vec!["/x"]),
        ] {
            let forbidden = Forbidden::Matching(expression.to_string());
            assert_eq!(refused(&forbidden, &yes), yes, "{expression}");
            assert_eq!(refused(&forbidden, &no), [""; 0], "{expression}");
        }
    }

    #[test]
    fn paths_and_urls() {
        for (forbidden, yes, no) in [
            (Forbidden::Paths("\\.sql$".into()), vec!["/a.b/c/x.sql"], vec!["/x.sql", "/a.b/x.sqlite"]),
            (Forbidden::Paths("^inc/".into()), vec!["/a.b/inc/x"], vec!["/a.b/x/inc/y"]),
            (Forbidden::Url("/private".into()), vec!["/private", "/private/x"], vec!["/privately"]),
            (Forbidden::Urls("/\\.git".into()), vec!["/.git/config", "/x/.git"], vec!["/git"]),
            (Forbidden::Urls("^/(?:old|gone)/".into()), vec!["/old/", "/gone/x"], vec!["/x/old/"]),
            (
                Forbidden::Scripts,
                vec!["/a.b/x.php", "/a.b/x.PHP7/y", "/a.b/c/x.phtml"],
                vec!["/a.b/x.php.txt"],
            ),
            (Forbidden::Scripts, vec!["/a.b/"], vec!["/x.php"]),
        ] {
            assert_eq!(refused(&forbidden, &yes), yes, "{forbidden:?}");
            assert_eq!(refused(&forbidden, &no), [""; 0], "{forbidden:?}");
        }
    }

    #[test]
    fn directories_with_any_names() {
        for (directory, yes) in
            [("/a*%41/", "/a*%41/x"), ("/ä ö/", "/ä ö/x"), ("/a\n/", "/a\n/x\ny"), ("/", "/x")]
        {
            let place = Place { directory: directory.into(), on_disk: Path::new("/nonexistent") };
            let route = route(&place, &Forbidden::Directory, &[]);
            let routes = Routes::compile(std::slice::from_ref(&route));
            assert!(routes.is_ok());
            let is_refused = |path: &str| match route.pattern.is_empty() {
                true => path.starts_with(&route.path),
                false => matches(&route.pattern, path),
            };
            assert!(is_refused(yes), "{directory}: {route:?}");
            assert!(directory == "/" || !is_refused("/aA/x"), "{directory}");
        }
    }
}
