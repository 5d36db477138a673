//! `.htaccess` files below the directories of a site. The server does not apply them. It refuses what such a
//! file forbids until the configuration has a route for its directory.
//!
//! ```text
//! directories of a site -> files -> what each forbids -> routes before those of the site, and a message each
//! ```

use std::path::{Path, PathBuf};

use touchstone_config::routes::check_pattern;
use touchstone_config::{HtaccessPolicy, RespondConfig, RouteConfig, SiteConfig};
use touchstone_import_base::expression::without_looks;

/// The most directories of a site that are searched.
const DIRECTORIES: usize = 10_000;
/// The greatest depth.
const DEPTH: usize = 24;
/// The most bytes of a file.
const FILE_BYTES: u64 = 256 * 1024;

/// Puts routes that refuse requests before those of the site; returns the messages about the files.
pub fn refuse(site: &mut SiteConfig) -> Vec<String> {
    if site.htaccess == HtaccessPolicy::Ignore {
        return Vec::new();
    }
    let mut messages = Vec::new();
    let mut refusals = Vec::new();
    for (path, directory) in mounts(site) {
        if directory == Path::new("/") {
            // If routes answer all paths, the root has no files that are served.
            continue;
        }
        let mut search = Search { found: Vec::new(), directories: 0 };
        search.below(&directory, 0);
        if search.directories > DIRECTORIES {
            messages.push(format!(
                "{}: only {DIRECTORIES} directories were searched for .htaccess files; set 'htaccess = \
                 \"ignore\"' to ignore these files",
                directory.display()
            ));
        }
        for file in search.found {
            let Some(below) = path_below(&file, &directory) else { continue };
            let at = format!("{path}{below}");
            // A route for the directory itself determines its access.
            let has_own_route = site.routes.iter().any(|route| route.path == at);
            let mut forbids = forbidden(&read(&file));
            forbids.retain(|forbidden| !has_own_route || *forbidden != ForbiddenFiles::Directory);
            let what = match forbids.is_empty() {
                true => "it is not applied",
                false => "it is not applied; what it forbids is refused",
            };
            messages.push(format!(
                "{}: {what}. `touchstone import apache {}` translates it; or set the access to the directory \
                 by a route with 'path = {at:?}'; or set 'htaccess = \"ignore\"' to ignore these files",
                file.display(),
                directory.display(),
            ));
            refusals.extend(forbids.iter().map(|forbidden| refusal(&at, forbidden)));
        }
    }
    // The routes of the site follow in their order.
    site.routes.splice(0..0, refusals);
    messages
}

/// The paths of a site with their directories.
fn mounts(site: &SiteConfig) -> Vec<(String, PathBuf)> {
    let mut mounts: Vec<(String, PathBuf)> =
        site.root.iter().map(|root| ("/".to_string(), root.clone())).collect();
    for route in &site.routes {
        if let Some(alias) = &route.alias {
            mounts.push((route.path.clone(), alias.clone()));
        } else if let Some(root) = &route.root {
            mounts.push(("/".to_string(), root.clone()));
        }
    }
    mounts.dedup();
    mounts
}

struct Search {
    found: Vec<PathBuf>,
    directories: usize,
}

impl Search {
    fn below(&mut self, directory: &Path, depth: usize) {
        self.directories += 1;
        if self.directories > DIRECTORIES || depth > DEPTH {
            return;
        }
        let Ok(entries) = std::fs::read_dir(directory) else { return };
        let mut inner = Vec::new();
        for entry in entries.filter_map(Result::ok) {
            // Links are not followed: they may form loops.
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => inner.push(entry.path()),
                Ok(kind) if kind.is_file() && entry.file_name() == ".htaccess" => {
                    self.found.push(entry.path())
                }
                _ => {}
            }
        }
        inner.sort();
        inner.iter().for_each(|directory| self.below(directory, depth + 1));
    }
}

/// The path of a file's directory below another, with a slash at its end unless it is empty.
fn path_below(file: &Path, directory: &Path) -> Option<String> {
    let below = file.parent()?.strip_prefix(directory).ok()?.to_str()?;
    Some(if below.is_empty() { String::new() } else { format!("{below}/") })
}

fn read(file: &Path) -> String {
    let is_small = std::fs::metadata(file).is_ok_and(|metadata| metadata.len() <= FILE_BYTES);
    match is_small.then(|| std::fs::read(file)) {
        Some(Ok(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
        // A file that cannot be read may forbid anything.
        _ => "Require all denied".to_string(),
    }
}

/// What a file forbids.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ForbiddenFiles {
    /// The directory as a whole, to some or to all.
    Directory,
    /// Files of this name, with wildcards.
    Files(String),
    /// Files whose name matches this expression.
    Matching(String),
}

/// Reads what a file forbids. A condition that cannot be evaluated here is treated as true.
fn forbidden(text: &str) -> Vec<ForbiddenFiles> {
    let mut found = Vec::new();
    let mut sections: Vec<(String, ForbiddenFiles)> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> =
            line.trim_matches(['<', '>']).split_whitespace().map(|word| word.trim_matches('"')).collect();
        let name = words.first().map_or(String::new(), |name| name.to_ascii_lowercase());
        if line.starts_with("</") {
            sections.pop();
            continue;
        }
        let current = sections.last().map_or(ForbiddenFiles::Directory, |(_, of)| of.clone());
        if line.starts_with('<') {
            let inner = match (name.as_str(), words.as_slice()) {
                ("files", [_, "~", expression]) => ForbiddenFiles::Matching((*expression).to_string()),
                ("files", [_, file]) => ForbiddenFiles::Files((*file).to_string()),
                ("filesmatch", [_, expression]) => ForbiddenFiles::Matching((*expression).to_string()),
                _ => current,
            };
            sections.push((name, inner));
            continue;
        }
        let lower: Vec<String> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
        let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
        let forbids = match lower.as_slice() {
            ["require", "all", "granted"] => false,
            ["require", "method", ..] => false,
            ["require", ..] => true,
            ["deny", "from", ..] => true,
            // Only rules that refuse everything are recognised.
            ["rewriterule", "^" | ".*" | "^.*$" | "^(.*)$" | "(.*)", "-", flags] => {
                let flags = flags.trim_matches(['[', ']']);
                flags.split(',').any(|flag| matches!(flag, "f" | "forbidden"))
            }
            _ => false,
        };
        if forbids && !found.contains(&current) {
            found.push(current);
        }
    }
    found
}

fn refusal(directory: &str, forbidden: &ForbiddenFiles) -> RouteConfig {
    let mut route = RouteConfig { respond: Some(refused()), ..RouteConfig::default() };
    let begin = format!("{}(?:.*/)?", literal(directory));
    match forbidden {
        ForbiddenFiles::Directory => route.path = directory.to_string(),
        ForbiddenFiles::Files(name) => {
            let parts: Vec<String> = name.split('*').map(literal).collect();
            route.pattern = format!("{begin}{}", parts.join("[^/]*").replace("\\?", "[^/]"));
        }
        ForbiddenFiles::Matching(expression) => {
            let (front, rest) = match expression.strip_prefix('^') {
                Some(rest) => ("", rest),
                None => ("[^/]*", expression.as_str()),
            };
            let (rest, back) = match rest.strip_suffix('$') {
                Some(rest) => (rest, ""),
                None => (rest, "[^/]*"),
            };
            // Without look-around the expression matches more names, and all of them are refused.
            let patterns = [rest.to_string(), without_looks(rest)];
            let patterns = patterns.map(|rest| format!("{begin}{front}(?:{rest}){back}"));
            let known = patterns.into_iter().find(|pattern| check_pattern(pattern).is_ok());
            match known {
                Some(pattern) => route.pattern = pattern,
                None => route.path = directory.to_string(),
            }
        }
    }
    route
}

fn refused() -> RespondConfig {
    RespondConfig { status: 403, body: String::new(), content_type: "text/plain; charset=utf-8".to_string() }
}

fn literal(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, character| {
        if character.is_ascii() && !character.is_ascii_alphanumeric() && !matches!(character, '/' | '_') {
            out.push('\\');
        }
        out.push(character);
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forbidden() {
        for (text, expected) in [
            ("Require all denied", vec![ForbiddenFiles::Directory]),
            ("Order deny,allow\nDeny from all", vec![ForbiddenFiles::Directory]),
            ("AuthType Basic\nRequire valid-user", vec![ForbiddenFiles::Directory]),
            ("<IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>", vec![ForbiddenFiles::Directory]),
            (
                "<Files wp-config.php>\nDeny from all\n</Files>",
                vec![ForbiddenFiles::Files("wp-config.php".into())],
            ),
            (
                "<FilesMatch \"\\.(bak|inc)$\">\nRequire all denied\n</FilesMatch>",
                vec![ForbiddenFiles::Matching("\\.(bak|inc)$".into())],
            ),
            ("RewriteEngine On\nRewriteRule . /index.php [L]", vec![]),
            ("RewriteRule ^ - [F,L]", vec![ForbiddenFiles::Directory]),
            ("# Require all denied\nRequire all granted", vec![]),
        ] {
            assert_eq!(forbidden(text), expected, "{text}");
        }
    }

    #[test]
    fn a_route_refuses_the_same() {
        let route = |forbidden| refusal("/a.b/", &forbidden);
        assert_eq!(route(ForbiddenFiles::Directory).path, "/a.b/");
        assert_eq!(route(ForbiddenFiles::Files("x*.php".into())).pattern, "/a\\.b/(?:.*/)?x[^/]*\\.php");
        assert_eq!(without_looks("^(\\.(?!well-known(x)).*|\\(?a)$"), "^(\\..*|\\(?a)$");
        let looking = route(ForbiddenFiles::Matching("^\\.(?!well-known).*$".into()));
        assert_eq!(looking.pattern, "/a\\.b/(?:.*/)?(?:\\..*)");
        assert_eq!(route(ForbiddenFiles::Matching("(a".into())).path, "/a.b/");
        let compiled =
            touchstone_config::routes::Routes::compile(&[route(ForbiddenFiles::Matching("\\.bak$".into()))]);
        assert!(compiled.is_ok());
    }
}
