//! Areas whose scripts Apache does not run, because a section takes their handler away: `SetHandler None` in
//! a directory of uploads, or `php_flag engine off`.
//!
//! Apache sends the source of such a script as a file. This server neither runs nor sends it: 403.

use super::answer::Php;
use super::area::{Area, is};
use super::variant::{Keys, is_for, is_of_names, names_script};
use touchstone_import_base::directive::Directive;
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::{toml_string, toml_strings};

/// The expression for paths of scripts, with a path behind their names.
fn scripts(php: &Php<'_>) -> String {
    format!("(?s:.*){}(?:/(?s:.*))?", php.any_ending())
}

/// The endings of the names of scripts in these blocks: those that get a handler for PHP.
pub fn endings<'d>(blocks: impl Iterator<Item = &'d Directive>) -> Vec<String> {
    const USUAL: [&str; 10] = ["phtml", "phar", "php3", "php4", "php5", "php7", "php8", "PHP", "inc", "html"];
    let mut found = vec![".php".to_string()];
    let mut add = |ending: &str| {
        let ending = format!(".{}", ending.trim_start_matches('.'));
        if ending.len() > 1 && !found.contains(&ending) {
            found.push(ending);
        }
    };
    let runs = |line: &Directive| is(line, "SetHandler") && handler(line, true) == Some(Handler::On);
    for section in blocks {
        if is_of_names(section) && section.inside().iter().any(runs) {
            // The words of an expression are the endings that it may be for.
            let text = section.arguments.last().map_or("", String::as_str);
            let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
            let wanted = |ending: &&str| is_for(section, &format!("any-name.{ending}"));
            words.chain(USUAL).filter(wanted).for_each(&mut add);
        }
        let handler = section.argument(0).to_ascii_lowercase();
        let names_php = handler.contains("php") && !handler.contains("source");
        if (is(section, "AddHandler") || is(section, "AddType")) && names_php {
            section.arguments.iter().skip(1).for_each(|ending| add(ending));
        }
        endings(section.inside().iter()).iter().for_each(|ending| add(ending));
    }
    found
}

/// Whether a section has the handler of PHP for names whose endings [`endings`] does not find.
pub fn is_of_other_names(section: &Directive) -> bool {
    let found = endings(std::iter::once(section));
    is_of_names(section) && !found.iter().any(|ending| is_for(section, &format!("any-name{ending}")))
}

/// What a line says about the scripts of its section.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Handler {
    /// They are run.
    On,
    /// They are not run.
    Off,
}

/// The line that takes the handler of scripts away in an area; `None`: they are run.
pub fn without_scripts<'d>(area: &Area<'d>, php: Option<&Php<'_>>) -> Option<&'d Directive> {
    let is_of_ending = php?.backend.is_none();
    let mut found = None;
    for section in &area.sections {
        let (mut own, mut of_files) = (Vec::new(), Vec::new());
        for line in section.inside() {
            if is_of_names(line) && names_script(line) {
                of_files.extend(line.inside().iter());
            } else if line.block.is_none() {
                own.push(line);
            }
        }
        for line in own.into_iter().chain(of_files) {
            match handler(line, is_of_ending) {
                Some(Handler::On) => found = None,
                Some(Handler::Off) => found = Some(line),
                None => {}
            }
        }
    }
    found
}

/// What a line says about scripts. `is_of_ending`: the endings of names may have the handler, so that lines
/// for endings count.
fn handler(line: &Directive, is_of_ending: bool) -> Option<Handler> {
    let of = |is_on: bool| Some(if is_on { Handler::On } else { Handler::Off });
    let runs = |name: &str| ["php", "fcgi", "proxy:"].iter().any(|one| name.contains(one));
    let first = line.argument(0).to_ascii_lowercase();
    let names_ending = line.arguments.iter().any(|word| {
        let ending = word.trim_start_matches('.').to_ascii_lowercase();
        matches!(ending.as_str(), "php" | "php5" | "php7" | "phtml" | "phar")
    });
    match line.name.to_ascii_lowercase().as_str() {
        "sethandler" => of(runs(&first)),
        "php_flag" | "php_admin_flag" | "php_value" | "php_admin_value" if first == "engine" => {
            of(matches!(line.argument(1).to_ascii_lowercase().as_str(), "on" | "1" | "true" | "yes"))
        }
        "removehandler" | "removetype" if is_of_ending && names_ending => of(false),
        "addhandler" | "addtype" if is_of_ending && names_ending => of(runs(&first)),
        _ => None,
    }
}

/// The line of a section for an expression that takes the handler of scripts away.
pub fn line_without_scripts<'d>(section: &'d Directive, php: Option<&Php<'_>>) -> Option<&'d Directive> {
    let is_of_ending = php?.backend.is_none();
    let said = |line: &&Directive| handler(line, is_of_ending) == Some(Handler::Off);
    let is_of_expression =
        is(section, "LocationMatch") || is(section, "DirectoryMatch") || is(section, "Location");
    section.inside().iter().rfind(said).filter(|_| is_of_expression)
}

/// The route that refuses the scripts of an area.
pub fn refused_scripts(area: &Area<'_>, line: &Directive, php: &Php<'_>) -> Section {
    refusal(line, |route| {
        route.key("path", toml_string(&area.path));
        route.key("pattern", toml_string(&scripts(php)));
    })
}

/// The route that refuses the scripts of a part of an area.
pub fn refused_scripts_of(keys: &Keys, area: &Area<'_>, line: &Directive, php: &Php<'_>) -> Section {
    refusal(line, |route| {
        keys.write(&area.path, route);
        route.and_when(&format!("$path =~ '^{}$'", scripts(php)));
    })
}

/// The route that refuses the scripts which `add_paths` selects.
fn refusal(line: &Directive, add_paths: impl FnOnce(&mut Section)) -> Section {
    let mut route = Section::new("[[site.route]]");
    route.note(line.to_string());
    route.note("These scripts are not run. Apache sends their source; here they are refused.");
    add_paths(&mut route);
    route.key("respond", "{ status = 403 }");
    route
}

/// Takes the scripts from the index files of a route.
pub fn without_index_scripts(area: &Area<'_>, route: &mut Section) {
    let Some(table) = route.section_mut("[site.route.php]") else { return };
    let named = area.one("DirectoryIndex").map_or(&[][..], |index| index.arguments.as_slice());
    let files: Vec<&str> = named.iter().map(String::as_str).filter(|name| !name.contains(".ph")).collect();
    match files.is_empty() {
        true => table.key("index", toml_strings(["index.html"])),
        false => table.key("index", toml_strings(files)),
    }
}

#[cfg(test)]
mod tests {
    use crate::{parse, translate};

    const PHP: &str = "<FilesMatch \\.php$>\nSetHandler \"proxy:fcgi://127.0.0.1:9000\"\n</FilesMatch>\n";

    /// The paths whose scripts are refused.
    fn refused(sections: &str) -> Vec<String> {
        let text = format!("DocumentRoot /srv\n{PHP}{sections}");
        let imported = translate(&parse("a.conf", &text).unwrap());
        let routes = imported
            .text
            .split("[[site.route]]")
            .filter(|route| route.contains("|tml|ar)") && route.contains("respond = { status = 403 }"));
        let path = |route: &str| {
            let line = route.lines().find(|line| line.starts_with("path") || line.starts_with("pattern"))?;
            Some(line.to_string())
        };
        routes.filter_map(path).collect()
    }

    #[test]
    fn scripts_have_the_endings_of_their_handlers() {
        let scripts = |lines: &str| {
            let text = format!(
                "DocumentRoot /srv\n<Directory /srv>\nDirectoryIndex index.php\n{lines}\n</Directory>"
            );
            let imported = translate(&parse("a.conf", &text).unwrap());
            let line = imported.text.lines().find(|line| line.starts_with("scripts = "));
            (line.unwrap_or_default().to_string(), imported.problems.len())
        };
        let of_files = |pattern: &str| {
            scripts(&format!("<FilesMatch \"{pattern}\">\nSetHandler \"proxy:fcgi://b:9\"\n</FilesMatch>"))
        };
        assert_eq!(of_files("\\.php$"), (String::new(), 0));
        let debian = "scripts = [\".php\", \".phtml\", \".phar\"]";
        assert_eq!(of_files(".+\\.ph(?:ar|p|tml)$"), (debian.to_string(), 0));
        let others = "scripts = [\".php\", \".inc\", \".module\"]";
        assert_eq!(of_files("\\.(php|inc|module)$"), (others.to_string(), 0));
        assert_eq!(scripts("AddType application/x-httpd-php .php .inc").0, "scripts = [\".php\", \".inc\"]");
        assert_eq!(scripts("AddHandler application/x-httpd-php-source .phps").0, "");
        // A name without an ending is not one of these.
        assert_eq!(of_files("^run$"), (String::new(), 1));
    }

    #[test]
    fn scripts_without_a_handler_are_refused() {
        let of_files =
            "<Directory /srv/up>\n<FilesMatch \"\\.(php|phtml)$\">\nSetHandler None\n</FilesMatch>\n";
        assert_eq!(refused(&format!("{of_files}</Directory>")), ["path = \"/up/\""]);
        for line in ["php_flag engine off", "php_admin_value engine 0", "<Files *>\nSetHandler x\n</Files>"] {
            assert_eq!(
                refused(&format!("<Directory /srv/a>\n{line}\n</Directory>")),
                ["path = \"/a/\""],
                "{line}"
            );
        }
        let paths = "<LocationMatch \"^/m/.*\\.php$\">\nSetHandler default-handler\n</LocationMatch>";
        assert_eq!(refused(paths).len(), 1);
        // A section within may give it back.
        let inner = format!("{of_files}</Directory>\n<Directory /srv/up/on>\n{PHP}</Directory>");
        assert_eq!(refused(&inner), ["path = \"/up/\""]);
        for line in ["php_flag engine on", "<Files a.html>\nSetHandler None\n</Files>", "RemoveHandler .php"]
        {
            assert!(refused(&format!("<Directory /srv/a>\n{line}\n</Directory>")).is_empty(), "{line}");
        }
    }

    #[test]
    fn an_index_script_without_a_handler_is_not_run() {
        let text = format!(
            "DocumentRoot /srv\nDirectoryIndex index.php a.html\n{PHP}<Directory /srv/up>\n\
             php_flag engine off\n</Directory>"
        );
        let imported = translate(&parse("a.conf", &text).unwrap());
        let tables: Vec<&str> = imported.text.lines().filter(|line| line.starts_with("index")).collect();
        assert!(tables.contains(&"index = [\"a.html\"]"), "{tables:?}");
        assert!(tables.contains(&"index = [\"index.php\", \"a.html\"]"), "{tables:?}");
    }
}
