//! `include`: other files whose sections belong to the configuration.
//!
//! The key is valid in the first file only, before every section. Its names are relative to the directory of
//! that file; `*` and `?` may be in the last part. Files that a pattern matches are read in the order of
//! their names; a pattern that matches none is valid. A file that is named without a pattern must exist.

use std::path::{Path, PathBuf};

use touchstone_config_section::values;

/// The key.
pub(super) const INCLUDE: &str = "include";

/// More files are no configuration that a person keeps in order.
pub(super) const MOST_FILES: usize = 10_000;

/// The files that a name or pattern matches, relative to `base` unless it is absolute.
pub(super) fn matching(pattern: &str, base: &Path) -> Result<Vec<PathBuf>, String> {
    let whole = values::parse_path(pattern, base)?;
    let shown = values::shorten(pattern);
    let is_pattern = |text: &str| text.contains(['*', '?']);
    let (Some(directory), Some(last)) = (whole.parent(), whole.file_name().and_then(|name| name.to_str()))
    else {
        return Err(format!("{shown:?} is not the name of a file"));
    };
    if is_pattern(&directory.to_string_lossy()) {
        return Err(format!(
            "{shown:?}: '*' and '?' are valid in the name of the file only, not of a directory"
        ));
    }
    if !is_pattern(last) {
        return match whole.is_file() {
            true => Ok(vec![whole]),
            false => Err(format!("{shown:?}: there is no such file")),
        };
    }
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("{}: {error}", directory.display())),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| format!("{}: {error}", directory.display()))?;
        let name = entry.file_name();
        // As in a shell, a name that begins with a dot is matched by no star.
        let is_meant = name
            .to_str()
            .is_some_and(|name| name.starts_with('.') == last.starts_with('.') && matches(last, name));
        if is_meant && entry.path().is_file() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Whether a name matches a pattern: `*` any characters, `?` one.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut position) = (0, 0);
    // The position of the last star, and the part of the name that it has matched.
    let mut star: Option<(usize, usize)> = None;
    while position < name.len() {
        match (pattern.get(at), star) {
            (Some('*'), _) => {
                star = Some((at, position));
                at += 1;
            }
            (Some(character), _) if *character == '?' || *character == name[position] => {
                at += 1;
                position += 1;
            }
            (_, Some((star_at, taken))) => {
                star = Some((star_at, taken + 1));
                at = star_at + 1;
                position = taken + 1;
            }
            (_, None) => return false,
        }
    }
    pattern[at..].iter().all(|character| *character == '*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{load_file, load_text};
    use proptest::prelude::*;
    use std::fs;

    const SITE: &str = "[[site]]\nlisten = ['127.0.0.1:1']\nroot = 'www'\n";

    /// The problems of the `main.toml` of a directory with these files, with names relative to the directory.
    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        let directory = written(files);
        let main = directory.path().join("main.toml");
        let above = format!("{}/", directory.path().display());
        let problems = load_file(&main).err().unwrap_or_default();
        problems.iter().map(|problem| problem.to_string().replace(&above, "")).collect()
    }

    fn written(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        directory
    }

    #[test]
    fn sites_of_all_files_are_taken_in_the_order_of_their_names() {
        let site = |port: u16| SITE.replace(":1'", &format!(":{port}'"));
        let directory = written(&[
            ("main.toml", &format!("include = ['conf.d/*.toml', 'one.toml', 'none/*.toml']\n{}", site(1))),
            ("conf.d/b.toml", &site(3)),
            ("conf.d/a.toml", &format!("[limits]\nranges = 3\n{}", site(2))),
            ("conf.d/c.toml~", "not TOML"),
            ("conf.d/.d.toml", "not TOML"),
            ("one.toml", &site(4)),
        ]);
        let config = load_file(&directory.path().join("main.toml")).unwrap().config;
        let ports: Vec<u16> =
            config.sites.iter().filter_map(|site| Some(site.listen[0].ip()?.port())).collect();
        assert_eq!((ports, config.limits.ranges), (vec![1, 2, 3, 4], 3));
        assert_eq!(config.sites[0].root, Some(directory.path().join("www")));
        assert_eq!(
            config.sites[1].root,
            Some(directory.path().join("conf.d/www")),
            "relative to its own file"
        );
        let alone = format!("include = 'conf.d/a.toml'\n{}", site(1));
        assert_eq!(load_text(&alone, &directory.path().join("x.toml")).unwrap().config.sites.len(), 2);
    }

    #[test]
    fn problems_name_the_file() {
        let main = format!("include = ['conf.d/*.toml']\n[limits]\nranges = 1\n{SITE}");
        let with = |text: &str| problems(&[("main.toml", &main), ("conf.d/a.toml", text)]);
        for (text, expected) in [
            (
                "[[site]]\nrots = 'x'\nlisten = ['127.0.0.1:2']\nroot = 'x'\n",
                "conf.d/a.toml:2:1: unknown key 'rots'",
            ),
            ("[[site]\n", "conf.d/a.toml:1:8: not TOML"),
            (
                SITE,
                "conf.d/a.toml:1:1: a [[site]] without 'hosts' answers every host on 127.0.0.1:1, and so \
                 does the one of line 4 of main.toml",
            ),
            ("[limits]\nranges = 2\n", "conf.d/a.toml:1:2: [limits] is already in line 2 of main.toml"),
            ("[server]\ncores = 1\n", "conf.d/a.toml:1:2: [server] must be in main.toml"),
            ("include = 'b.toml'\n", "conf.d/a.toml:1:1: 'include' is valid in main.toml only"),
            ("limit = 1\n", "conf.d/a.toml:1:1: unknown key 'limit' outside of every section"),
        ] {
            let found = with(text);
            assert!(found.len() == 1 && found[0].starts_with(expected), "{text}: {found:?}");
        }
        let directory = written(&[("main.toml", &main), ("conf.d/a.toml", "")]);
        fs::write(directory.path().join("conf.d/a.toml"), b"# \xff\n").unwrap();
        let found = load_file(&directory.path().join("main.toml")).unwrap_err();
        assert_eq!((found[0].file.file_name(), found[0].line), (Some("a.toml".as_ref()), 1));
    }

    #[test]
    fn a_cycle_is_named() {
        let main = |include: &str| format!("# Comment\ninclude = [\n  {include},\n]\n{SITE}");
        let itself = "line 3 of main.toml includes main.toml itself; name the other files only, or keep them \
                      in a directory of their own, such as \"conf.d/*.toml\"";
        for include in ["'main.toml'", "'./main.toml'", "'*.toml'", "'conf.d/../main.toml'"] {
            let files = [("main.toml", &main(include)[..]), ("other.toml", ""), ("conf.d/a.toml", "")];
            assert_eq!(problems(&files), [format!("main.toml:3:3: 'include': {itself}")], "{include}");
        }
        let cycle = |second: &str| problems(&[("main.toml", &main("'b.toml'")), ("b.toml", second)]);
        assert_eq!(
            cycle("\ninclude = ['main.toml']\n"),
            ["b.toml:2:1: 'include': line 3 of main.toml includes b.toml, which includes main.toml \
              again; remove 'include' here"]
        );
        assert_eq!(
            cycle("include = 'b.*'\n"),
            ["b.toml:1:1: 'include': line 1 of b.toml includes b.toml itself; remove it, the key is valid \
              in main.toml only"]
        );
        assert_eq!(
            cycle("include = 'c.toml'\n"),
            ["b.toml:1:1: 'include' is valid in main.toml only; name these files there"]
        );
    }

    #[test]
    fn names_that_cannot_be_meant_are_refused_at_their_place() {
        for (value, expected) in [
            ("['*/a.toml']", "main.toml:1:12: 'include': \"*/a.toml\": '*' and '?' are valid in the name"),
            ("['a.toml']", "main.toml:1:12: 'include': \"a.toml\": there is no such file"),
            ("[1]", "main.toml:1:12: 'include' must be names of files"),
            ("['']", "main.toml:1:12: 'include': an empty string"),
            ("true", "main.toml:1:11: 'include' must be names of files"),
        ] {
            let found = problems(&[("main.toml", &format!("include = {value}\n{SITE}"))]);
            assert!(found.len() == 1 && found[0].starts_with(expected), "{value}: {found:?}");
        }
    }

    proptest! {
        #[test]
        fn patterns_match_as_expressions_do(pattern in "[ab*?]{0,6}", name in "[ab]{0,6}") {
            let expression = pattern.replace('*', ".*").replace('?', ".");
            let expected = regex::Regex::new(&format!("^{expression}$")).unwrap().is_match(&name);
            prop_assert_eq!(matches(&pattern, &name), expected);
        }
    }
}
