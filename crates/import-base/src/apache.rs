//! From files of Apache to directives: lines, quotes, sections, `Include`, `Define`, `IfModule`. The importer
//! and the server, for the `.htaccess` files below its roots, read them in the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::directive::{Directive, Form, Place};
use crate::files::{Counts, DEPTH, matching};

/// The maximum number of directories that are searched for `.htaccess`.
const DIRECTORIES: usize = 20_000;
/// The names of main configuration files in a directory.
const MAIN_FILES: [&str; 4] = ["apache2.conf", "httpd.conf", "conf/httpd.conf", "etc/apache2/apache2.conf"];

/// Reads a file and what it includes, or a directory: a configuration directory, or a document root with
/// `.htaccess` files. The `.htaccess` files become `<Directory>` sections.
///
/// # Errors
/// What is wrong, with its place: a file that cannot be read, a section without an end, or a limit exceeded.
pub fn read(path: &Path) -> Result<Vec<Directive>, String> {
    if !path.is_dir() {
        let directory = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let mut reader = Reader::new(Some(directory));
        let mut directives = reader.file(path, 0)?;
        reader.names = names_of_overrides(&directives);
        let roots = roots(&directives);
        let above: BTreeSet<PathBuf> =
            roots.iter().flat_map(|root| root.ancestors().skip(1)).map(Path::to_path_buf).collect();
        for directory in above {
            directives.extend(reader.override_in(&directory, &[HTACCESS, ABOVE])?);
        }
        for root in roots {
            directives.extend(reader.overrides(&root)?);
        }
        return Ok(directives);
    }
    if let Some(main) = MAIN_FILES.iter().map(|name| path.join(name)).find(|file| file.is_file()) {
        return read(&main);
    }
    let mut reader = Reader::new(Some(path.to_path_buf()));
    let place = Place::new(path.display().to_string().into(), 0);
    let mut directives = vec![Directive {
        name: "DocumentRoot".to_string(),
        arguments: vec![path.display().to_string()],
        block: None,
        place,
        form: Form::Apache,
    }];
    let found = reader.overrides(path)?;
    if found.is_empty() {
        return Err(format!(
            "{}: neither a configuration ({}) nor a .htaccess is in it",
            path.display(),
            MAIN_FILES.join(", ")
        ));
    }
    directives.extend(found);
    Ok(directives)
}

/// Reads a text. Files that it includes are not read: their `Include` directives are kept.
///
/// # Errors
/// As for [`read`].
pub fn parse(name: &str, text: &str) -> Result<Vec<Directive>, String> {
    Reader::new(None).text(name, text, 0)
}

/// The directories whose `.htaccess` files apply.
fn roots(directives: &[Directive]) -> Vec<PathBuf> {
    let mut roots = Vec::new();
    for directive in directives {
        match directive.name.to_ascii_lowercase().as_str() {
            "documentroot" => roots.push(PathBuf::from(directive.argument(0))),
            "alias" => roots.push(PathBuf::from(directive.argument(1))),
            "virtualhost" => roots.extend(self::roots(directive.inside())),
            _ => {}
        }
    }
    roots.sort();
    roots.dedup();
    // A directory inside another is searched with it.
    let all = roots.clone();
    roots.retain(|root| !all.iter().any(|other| other != root && root.starts_with(other)));
    roots
}

/// The names of the files that `AccessFileName` sets.
fn names_of_overrides(directives: &[Directive]) -> Vec<String> {
    let mut names = Vec::new();
    for directive in directives {
        match directive.name.to_ascii_lowercase().as_str() {
            "accessfilename" => names.extend(directive.arguments.iter().cloned()),
            "virtualhost" => names.extend(
                directive.inside().iter().flat_map(|inner| names_of_overrides(std::slice::from_ref(inner))),
            ),
            _ => {}
        }
    }
    names
}

/// A `<Macro NAME PARAMETERS>` of mod_macro.
#[derive(Clone)]
struct Macro {
    parameters: Vec<String>,
    /// Its lines, with their numbers.
    lines: Vec<(usize, String)>,
}

struct Reader {
    /// The base of relative names: `ServerRoot`, or the directory of the first file.
    directory: Option<PathBuf>,
    variables: BTreeMap<String, String>,
    /// The macros, by their names in lower case.
    macros: BTreeMap<String, Macro>,
    /// The names of the files with directives for their directories; empty: `.htaccess`.
    names: Vec<String>,
    counts: Counts,
}

impl Reader {
    fn new(directory: Option<PathBuf>) -> Reader {
        Reader {
            directory,
            variables: BTreeMap::new(),
            macros: BTreeMap::new(),
            names: Vec::new(),
            counts: Counts::default(),
        }
    }

    fn file(&mut self, path: &Path, depth: usize) -> Result<Vec<Directive>, String> {
        let text = self.counts.read_text(path, "included")?;
        self.text(&path.display().to_string(), &text, depth)
    }

    fn text(&mut self, name: &str, text: &str, depth: usize) -> Result<Vec<Directive>, String> {
        let file: Rc<str> = name.into();
        let mut lines = lines(text).peekable();
        self.block(&file, &mut lines, depth, None)
    }

    /// Reads lines up to the end of the file, or of the section with this name.
    fn block(
        &mut self,
        file: &Rc<str>,
        lines: &mut dyn Iterator<Item = (usize, String)>,
        depth: usize,
        section: Option<&str>,
    ) -> Result<Vec<Directive>, String> {
        if depth > DEPTH {
            return Err(format!("{file}: sections and included files are nested more than {DEPTH} deep"));
        }
        let mut directives = Vec::new();
        while let Some((number, line)) = lines.next() {
            let place = Place::new(file.clone(), number);
            self.counts.add_directives(1, &place)?;
            if let Some(name) = line.strip_prefix("</") {
                let name = name.trim_end_matches('>').trim();
                match section {
                    Some(open) if open.eq_ignore_ascii_case(name) => return Ok(directives),
                    _ => return Err(format!("{place}: '</{name}>' without its '<{name}>'")),
                }
            }
            if let Some(head) = line.strip_prefix('<') {
                let head = head.trim_end().trim_end_matches('>');
                let mut words = self.words(head, &place)?.into_iter();
                let name = words.next().unwrap_or_default();
                let arguments: Vec<String> = words.collect();
                if name.eq_ignore_ascii_case("macro") {
                    self.define(&arguments, lines, &place)?;
                    continue;
                }
                let inside = self.block(file, lines, depth + 1, Some(&name))?;
                match self.is_open(&name, &arguments) {
                    Some(true) => directives.extend(inside),
                    Some(false) => {}
                    None => directives.push(Directive {
                        name,
                        arguments,
                        block: Some(inside),
                        place,
                        form: Form::Apache,
                    }),
                }
                continue;
            }
            let mut words = self.words(&line, &place)?.into_iter();
            let name = words.next().unwrap_or_default();
            let arguments: Vec<String> = words.collect();
            let directive = Directive { name, arguments, block: None, place, form: Form::Apache };
            self.put(directive, depth, &mut directives)?;
        }
        match section {
            Some(name) => Err(format!("{file}: the file ends in a section: '</{name}>' is missing")),
            None => Ok(directives),
        }
    }

    /// Keeps the lines of a macro.
    fn define(
        &mut self,
        arguments: &[String],
        lines: &mut dyn Iterator<Item = (usize, String)>,
        place: &Place,
    ) -> Result<(), String> {
        let Some((name, parameters)) = arguments.split_first() else {
            return Err(format!("{place}: the macro has no name"));
        };
        let mut kept = Vec::new();
        for (number, line) in lines {
            if line.to_ascii_lowercase().starts_with("</macro") {
                let kept = Macro { parameters: parameters.to_vec(), lines: kept };
                self.macros.insert(name.to_ascii_lowercase(), kept);
                return Ok(());
            }
            kept.push((number, line));
        }
        Err(format!("{place}: the file ends in a macro: '</Macro>' is missing"))
    }

    /// The directives of a macro with these arguments; `None`: it is not defined here.
    fn expanded(&mut self, used: &Directive, depth: usize) -> Result<Option<Vec<Directive>>, String> {
        let Some(Macro { parameters, mut lines }) =
            self.macros.get(&used.argument(0).to_ascii_lowercase()).cloned()
        else {
            return Ok(None);
        };
        let mut values: Vec<(String, &String)> =
            parameters.into_iter().zip(used.arguments.iter().skip(1)).collect();
        // Of two parameters that begin alike the longer one is looked for first.
        values.sort_by_key(|(parameter, _)| std::cmp::Reverse(parameter.len()));
        for (_, line) in &mut lines {
            for (parameter, value) in &values {
                *line = line.replace(parameter.as_str(), value);
            }
        }
        let file: Rc<str> = used.place.file().into();
        self.block(&file, &mut lines.into_iter(), depth + 1, None).map(Some)
    }

    fn put(
        &mut self,
        directive: Directive,
        depth: usize,
        directives: &mut Vec<Directive>,
    ) -> Result<(), String> {
        match directive.name.to_ascii_lowercase().as_str() {
            "define" => {
                self.variables.insert(directive.argument(0).to_string(), directive.argument(1).to_string());
            }
            "use" => match self.expanded(&directive, depth)? {
                Some(lines) => directives.extend(lines),
                None => directives.push(directive),
            },
            "undefmacro" => _ = self.macros.remove(&directive.argument(0).to_ascii_lowercase()),
            "serverroot" if self.directory.is_some() => {
                let root = PathBuf::from(directive.argument(0));
                if root.is_dir() {
                    self.directory = Some(root);
                }
                directives.push(directive);
            }
            "include" | "includeoptional" if self.directory.is_some() => {
                let pattern = self.directory.clone().unwrap_or_default().join(directive.argument(0));
                let files = included(&pattern);
                if files.is_empty() && !directive.name.eq_ignore_ascii_case("includeoptional") {
                    directives.push(directive);
                    return Ok(());
                }
                for file in files {
                    directives.extend(self.file(&file, depth + 1)?);
                }
            }
            _ => directives.push(directive),
        }
        Ok(())
    }

    /// Whether a conditional section applies; `None`: the section is not a condition.
    fn is_open(&self, name: &str, arguments: &[String]) -> Option<bool> {
        let word = arguments.first().map_or("", String::as_str);
        let (word, is_negated) = match word.strip_prefix('!') {
            Some(word) => (word, true),
            None => (word, false),
        };
        match name.to_ascii_lowercase().as_str() {
            // Each module is assumed to be loaded, except those that conflict with another.
            "ifmodule" => Some(!is_negated),
            "ifversion" => Some(is_of_version(arguments)),
            "ifdefine" => Some(self.variables.contains_key(word) != is_negated),
            "iffile" => Some(Path::new(word).exists() != is_negated),
            _ => None,
        }
    }

    fn words(&self, line: &str, place: &Place) -> Result<Vec<String>, String> {
        let mut words = Vec::new();
        let mut rest = line.trim();
        while let Some(first) = rest.chars().next() {
            let mut word = String::new();
            if first == '"' || first == '\'' {
                let mut characters = rest[1..].char_indices();
                let mut end = None;
                while let Some((at, character)) = characters.next() {
                    match character {
                        c if c == first => {
                            end = Some(at + 2);
                            break;
                        }
                        // A backslash escapes only a quote; other backslashes belong to expressions.
                        '\\' if rest[at + 2..].starts_with(first) => {
                            word.push(first);
                            characters.next();
                        }
                        c => word.push(c),
                    }
                }
                let end = end.ok_or_else(|| format!("{place}: the closing quote is missing"))?;
                rest = rest[end..].trim_start();
            } else {
                // The rules of mod_rewrite have a backslash before a space within a word.
                let has_spaces = words.first().is_some_and(|name: &String| is_of_rewrite(name));
                let mut before = ' ';
                let end = rest.char_indices().find(|(_, c)| {
                    let ends = c.is_whitespace() && !(has_spaces && before == '\\');
                    before = if before == '\\' { ' ' } else { *c };
                    ends
                });
                let end = end.map_or(rest.len(), |(at, _)| at);
                match has_spaces {
                    true => word.push_str(&rest[..end].replace("\\ ", " ")),
                    false => word.push_str(&rest[..end]),
                }
                rest = rest[end..].trim_start();
            }
            words.push(self.with_variables(&word));
        }
        Ok(words)
    }

    /// Replaces `${NAME}` by its `Define`; variables of the environment are kept.
    fn with_variables(&self, word: &str) -> String {
        let mut out = word.to_string();
        if out.contains("${") {
            for (name, value) in &self.variables {
                out = out.replace(&format!("${{{name}}}"), value);
            }
            // The values that Debian's start script sets.
            out = out
                .replace("${APACHE_LOG_DIR}", "/var/log/apache2")
                .replace("${APACHE_RUN_USER}", "www-data");
            out = out.replace("${APACHE_RUN_GROUP}", "www-data");
        }
        out
    }

    /// Returns the `.htaccess` file of a directory as a section with these marks.
    fn override_in(&mut self, directory: &Path, marks: &[&str]) -> Result<Option<Directive>, String> {
        let own = || self.names.iter().map(String::as_str);
        let default = self.names.is_empty().then_some(HTACCESS);
        // Of several names the first that exists is used.
        let Some(file) = own().chain(default).map(|name| directory.join(name)).find(|file| file.is_file())
        else {
            return Ok(None);
        };
        let inside = self.file(&file, 1)?;
        let marks = marks.iter().map(|mark| (*mark).to_string());
        Ok(Some(Directive {
            name: "Directory".to_string(),
            arguments: std::iter::once(directory.display().to_string()).chain(marks).collect(),
            block: Some(inside),
            place: Place::new(file.display().to_string().into(), 0),
            form: Form::Apache,
        }))
    }

    /// Returns the `.htaccess` files in and below a directory as sections.
    fn overrides(&mut self, root: &Path) -> Result<Vec<Directive>, String> {
        let mut found = Vec::new();
        let mut waiting = vec![root.to_path_buf()];
        let mut seen = 0;
        while let Some(directory) = waiting.pop() {
            seen += 1;
            if seen > DIRECTORIES {
                return Err(format!(
                    "{}: it contains more than {DIRECTORIES} directories; import a part of it",
                    root.display()
                ));
            }
            found.extend(self.override_in(&directory, &[HTACCESS])?);
            let Ok(entries) = std::fs::read_dir(&directory) else { continue };
            let mut below: Vec<PathBuf> = entries
                .filter_map(Result::ok)
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .map(|entry| entry.path())
                .collect();
            below.sort();
            waiting.extend(below.into_iter().rev());
        }
        Ok(found)
    }
}

/// Marks a section that was made from a `.htaccess` file.
pub const HTACCESS: &str = ".htaccess";
/// Marks one of a directory above a document root.
pub const ABOVE: &str = "above";

/// Whether a directive has its own syntax of words, in which a backslash escapes a space.
fn is_of_rewrite(name: &str) -> bool {
    ["RewriteCond", "RewriteRule"].iter().any(|other| name.eq_ignore_ascii_case(other))
}

/// Whether `<IfVersion [[!]OPERATOR] VERSION>` holds for Apache 2.4, whose last number is not known.
fn is_of_version(arguments: &[String]) -> bool {
    let (operator, version) = match arguments {
        [version] => ("=", version.as_str()),
        [operator, version, ..] => (operator.as_str(), version.as_str()),
        [] => return true,
    };
    let (operator, is_negated) = match operator.strip_prefix('!') {
        Some(operator) => (operator, true),
        None => (operator, false),
    };
    let numbers: Vec<u32> = version.split('.').map_while(|number| number.parse().ok()).take(2).collect();
    let order = [2, 4][..numbers.len().min(2)].cmp(&numbers[..]);
    let holds = match operator {
        "=" | "==" => order.is_eq(),
        ">" => order.is_gt() || numbers.len() == 2 && version.split('.').count() == 2 && order.is_eq(),
        ">=" => order.is_ge(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        // An expression.
        _ => return true,
    };
    holds != is_negated
}

/// The files that an `Include` names: one file, the matches of a pattern, or all files of a directory.
fn included(pattern: &Path) -> Vec<PathBuf> {
    match pattern.is_dir() {
        true => matching(&pattern.join("*")),
        false => matching(pattern),
    }
}

/// The lines without comments; a line that ends in a backslash continues on the next.
fn lines(text: &str) -> impl Iterator<Item = (usize, String)> + '_ {
    let mut numbered = text.lines().enumerate();
    std::iter::from_fn(move || {
        loop {
            let (number, line) = numbered.next()?;
            let mut whole = line.trim_end().to_string();
            while whole.ends_with('\\') {
                whole.pop();
                match numbered.next() {
                    Some((_, next)) => whole.push_str(next.trim_end()),
                    None => break,
                }
            }
            let whole = whole.trim().trim_start_matches('\u{feff}').to_string();
            if !whole.is_empty() && !whole.starts_with('#') {
                return Some((number + 1, whole));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        crate::directive::shown_in_order(&parse("a.conf", text).unwrap())
    }

    #[test]
    fn macros_are_expanded() {
        let text = "<Macro Host $name $dir>\n<VirtualHost *:80>\nServerName $name\n<Directory $dir/x>\n\
                    Require all denied\n</Directory>\n</VirtualHost>\n</Macro>\n\
                    use host a.org /srv/a\nUse None b\nUndefMacro Host\nUse Host c /d";
        assert_eq!(
            shown(text),
            [
                "a.conf:2: <VirtualHost *:80>",
                "a.conf:3: ServerName a.org",
                "a.conf:4: <Directory /srv/a/x>",
                "a.conf:5: Require all denied",
                "a.conf:10: Use None b",
                "a.conf:12: Use Host c /d",
            ]
        );
        for (text, message) in [
            ("<Macro a>\nx", "a.conf:1: the file ends in a macro: '</Macro>' is missing"),
            ("<Macro>\n</Macro>", "a.conf:1: the macro has no name"),
        ] {
            assert_eq!(parse("a.conf", text).unwrap_err(), message);
        }
        // A macro that uses itself ends.
        assert!(parse("a.conf", "<Macro a>\nUse a\n</Macro>\nUse a").unwrap_err().contains("deep"));
    }

    #[test]
    fn versions() {
        for (text, holds) in [
            (">= 2.3", true),
            ("< 2.3", false),
            (">= 2.4", true),
            ("< 2.4", false),
            ("> 2.4", true),
            ("!>= 2.4", false),
            ("2.4", true),
            ("2.2", false),
            ("<= 2.2.99", false),
            (">= 2.4.10", true),
        ] {
            let words: Vec<String> = text.split(' ').map(str::to_string).collect();
            assert_eq!(is_of_version(&words), holds, "{text}");
        }
    }

    #[test]
    fn sections_quotes_and_conditions() {
        assert_eq!(
            shown(
                "Define where /srv\n<VirtualHost *:80>\n # no\n DocumentRoot \"${where}/a b\"\n \
                 <IfModule mod_x.c>\n Header set \\\n A \"b \\\"c\\\"\"\n </IfModule>\n\
                 <IfModule !mod_x.c>\n Never 1\n </IfModule>\n</VirtualHost>\n"
            ),
            [
                "a.conf:2: <VirtualHost *:80>",
                "a.conf:4: DocumentRoot \"/srv/a b\"",
                "a.conf:6: Header set A \"b \\\"c\\\"\""
            ]
        );
    }

    #[test]
    fn spaces_in_the_words_of_rules() {
        let arguments = |line: &str| parse("a.conf", line).unwrap()[0].arguments.clone();
        let found = arguments("RewriteCond %{THE_REQUEST} ^GET\\ /a\\.b\\ H [NC]");
        assert_eq!(found, ["%{THE_REQUEST}", "^GET /a\\.b H", "[NC]"]);
        assert_eq!(arguments("RewriteRule a\\\\ b"), ["a\\\\", "b"]);
        assert_eq!(arguments("Header set A\\ b"), ["set", "A\\", "b"]);
    }

    #[test]
    fn faults_have_their_place() {
        for (text, message) in [
            ("<Directory /a>\nX\n", "a.conf: the file ends in a section: '</Directory>'"),
            ("</Directory>", "a.conf:1: '</Directory>' without"),
            ("X \"a", "a.conf:1: the closing quote is missing"),
        ] {
            let error = parse("a.conf", text).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
