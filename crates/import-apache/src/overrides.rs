//! `AllowOverride` and `AllowOverrideList`: the `.htaccess` files that apply, and the directives in them that
//! are allowed.
//!
//! Apache answers 500 to every request in a directory whose `.htaccess` has a directive that is not allowed,
//! so such a directory is refused here, too. With `AllowOverride None` files have no effect; without
//! `AllowOverride` none of their directives is allowed.

use super::area::{is, name};
use super::variant::is_variant;
use touchstone_import_base::account::Account;
use touchstone_import_base::apache::{ABOVE, HTACCESS};
use touchstone_import_base::directive::Directive;
use touchstone_import_base::expression;
use touchstone_import_base::output::Section;

/// The name of the directive that stands for the contents of a file that Apache refuses to read.
pub const REFUSED: &str = "<refused>";

/// The classes of directives that `AllowOverride` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    AuthConfig,
    FileInfo,
    Indexes,
    Limit,
    Options,
}

/// What a directory's `.htaccess` may contain.
#[derive(Debug, Default, PartialEq, Eq)]
struct Allowed {
    classes: Vec<Class>,
    /// The options that `Options` may set, in lower case; `None`: all.
    options: Option<Vec<String>>,
    /// Directives that are allowed by name, in lower case.
    names: Vec<String>,
    /// A directive that is not allowed has no effect, and is not an error.
    is_ignored: bool,
}

/// The directives outside all hosts, with the `.htaccess` files as they apply to a host.
pub fn in_force(
    outside: &[&Directive],
    host: &[Directive],
    section: &mut Section,
    account: &mut Account,
) -> Vec<Directive> {
    let has = |name: &str| outside.iter().any(|line| is(line, name));
    // A file of hosts says nothing about directives of the main file.
    let is_complete = has("Listen") && (has("ServerRoot") || has("LoadModule"));
    let mut refused: Vec<String> = Vec::new();
    let mut kept = Vec::new();
    for line in outside.iter().copied() {
        if !is(line, "Directory") || line.argument(1) != HTACCESS {
            kept.push(line.clone());
            continue;
        }
        let directory = name(line).trim_end_matches('/');
        if refused.iter().any(|outer| is_in(directory, outer)) {
            account.unneeded(line, section, "requests for its directory are refused");
            continue;
        }
        let allowed = match allowed(directory, outside.iter().copied().chain(host)) {
            // Apache reads the file, and allows none of its directives.
            None if is_complete => Allowed::default(),
            None if line.argument(2) == ABOVE => {
                account.unneeded(line, section, "no 'AllowOverride' is set for its directory");
                continue;
            }
            None => Allowed::everything(),
            Some(nothing) if nothing == Allowed::default() => {
                account.unneeded(line, section, "'AllowOverride None' is set for its directory");
                continue;
            }
            Some(allowed) => allowed,
        };
        let mut file = line.clone();
        let mut wrong = Vec::new();
        file.block = Some(allowed.filtered(line.inside(), &mut wrong));
        for one in &wrong {
            let advice = match allowed.is_ignored {
                true => "'AllowOverride' does not allow it, so it has no effect",
                false => {
                    "'AllowOverride' does not allow it: Apache answers 500 to all requests here, as \
                     does this server; remove the line, or allow it and import again"
                }
            };
            account.problem(one, section, advice);
        }
        if !wrong.is_empty() && !allowed.is_ignored {
            refused.push(directory.to_string());
            file.block = Some(vec![Directive {
                name: REFUSED.to_string(),
                arguments: Vec::new(),
                block: None,
                place: line.place.clone(),
                form: line.form,
            }]);
        }
        if file.argument(2) == ABOVE {
            without_rules(&mut file, section, account);
        }
        kept.push(file);
    }
    kept
}

/// Takes the rules from the file of a directory above the document root: their paths are other ones there.
fn without_rules(file: &mut Directive, section: &mut Section, account: &mut Account) {
    const RULES: [&str; 6] =
        ["RewriteRule", "RewriteCond", "Redirect", "RedirectMatch", "RedirectPermanent", "RedirectTemp"];
    file.block.iter_mut().flatten().filter(|line| RULES.iter().any(|name| is(line, name))).for_each(|line| {
        let advice = "it is of a directory above the document root: write a route for it; until then what it \
                      forbids is allowed";
        account.problem(line, section, advice);
    });
    if let Some(block) = &mut file.block {
        block.retain(|line| !RULES.iter().any(|name| is(line, name)));
    }
}

/// What is allowed in the file of a directory; `None`: nothing is said about it.
fn allowed<'d>(directory: &str, directives: impl Iterator<Item = &'d Directive>) -> Option<Allowed> {
    let of_directories = |one: &&Directive| {
        is(one, "Directory") && one.arguments.len() == 1 && is_around(name(one), directory)
    };
    let mut sections: Vec<&Directive> = directives.filter(of_directories).collect();
    // Sections with more parts in their names count more; of those for the same directory the last one.
    sections.sort_by_key(|one| parts(name(one)).count());
    let last = |name: &str| {
        let lines = sections.iter().rev().filter_map(|one| one.inside().iter().rfind(|line| is(line, name)));
        lines.into_iter().next()
    };
    let (classes, list) = (last("AllowOverride"), last("AllowOverrideList"));
    if classes.is_none() && list.is_none() {
        return None;
    }
    let mut allowed = Allowed::default();
    for word in classes.map_or(&[][..], |line| line.arguments.as_slice()) {
        allowed.add(word);
    }
    let names = list.map_or(&[][..], |line| line.arguments.as_slice());
    allowed.names =
        names.iter().map(|name| name.to_ascii_lowercase()).filter(|name| name != "none").collect();
    if allowed.classes.is_empty() && allowed.names.is_empty() {
        return Some(Allowed::default());
    }
    Some(allowed)
}

/// The parts of the name of a directory.
fn parts(directory: &str) -> impl Iterator<Item = &str> {
    directory.split('/').filter(|part| !part.is_empty())
}

/// Whether a section with this name, which may have wildcards, covers a directory.
fn is_around(named: &str, directory: &str) -> bool {
    let mut own = parts(directory);
    parts(named).all(|wanted| {
        let Some(own) = own.next() else { return false };
        let has_wildcards = wanted.contains(['*', '?', '[']);
        wanted == own || has_wildcards && expression::matches(&expression::of_wildcards(wanted), own)
    })
}

fn is_in(directory: &str, outer: &str) -> bool {
    directory.strip_prefix(outer).is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

impl Allowed {
    fn everything() -> Allowed {
        use Class::{AuthConfig, FileInfo, Indexes, Limit, Options};
        Allowed { classes: vec![AuthConfig, FileInfo, Indexes, Limit, Options], ..Allowed::default() }
    }

    /// Adds a word of `AllowOverride`.
    fn add(&mut self, word: &str) {
        let lower = word.to_ascii_lowercase();
        let (name, value) = lower.split_once('=').unwrap_or((&lower, ""));
        match name {
            "all" => self.classes = Allowed::everything().classes,
            "authconfig" => self.classes.push(Class::AuthConfig),
            "fileinfo" => self.classes.push(Class::FileInfo),
            "indexes" => self.classes.push(Class::Indexes),
            "limit" => self.classes.push(Class::Limit),
            "options" => {
                self.classes.push(Class::Options);
                if !value.is_empty() {
                    self.options = Some(value.split(',').map(str::to_string).collect());
                }
            }
            "nonfatal" => self.is_ignored |= value == "override" || value == "all",
            _ => {}
        }
    }

    /// The directives that are allowed; the others are added to `wrong`.
    fn filtered(&self, block: &[Directive], wrong: &mut Vec<Directive>) -> Vec<Directive> {
        let mut kept = Vec::new();
        for line in block {
            // A part for some names or requests is allowed in each class; its directives are not.
            if is_variant(line) {
                let inside = self.filtered(line.inside(), wrong);
                kept.push(Directive { block: Some(inside), ..line.clone() });
            } else if self.allows(line) {
                kept.push(line.clone());
            } else {
                wrong.push(line.clone());
            }
        }
        kept
    }

    fn allows(&self, line: &Directive) -> bool {
        let name = line.name.to_ascii_lowercase();
        let Some(class) = class(&name) else { return true };
        if self.names.contains(&name) {
            return true;
        }
        let sets_allowed = |options: &Vec<String>| {
            line.arguments.iter().all(|word| {
                let word = word.trim_start_matches(['+', '-']).to_ascii_lowercase();
                options.contains(&word) || word == "none"
            })
        };
        let is_of_options = name == "options";
        self.classes.contains(&class) && (!is_of_options || self.options.as_ref().is_none_or(sets_allowed))
    }
}

/// The class of a directive, in lower case; `None`: it is not known here.
fn class(name: &str) -> Option<Class> {
    const FILE_INFO: [&str; 44] = [
        "acceptpathinfo",
        "action",
        "addcharset",
        "adddefaultcharset",
        "addencoding",
        "addhandler",
        "addinputfilter",
        "addlanguage",
        "addoutputfilter",
        "addoutputfilterbytype",
        "addtype",
        "browsermatch",
        "browsermatchnocase",
        "defaultlanguage",
        "defaulttype",
        "directoryslash",
        "enablemmap",
        "enablesendfile",
        "errordocument",
        "fileetag",
        "forcelanguagepriority",
        "forcetype",
        "header",
        "languagepriority",
        "passenv",
        "redirect",
        "redirectmatch",
        "redirectpermanent",
        "redirecttemp",
        "removehandler",
        "removetype",
        "requestheader",
        "rewritebase",
        "rewritecond",
        "rewriteengine",
        "rewriteoptions",
        "rewriterule",
        "setenv",
        "setenvif",
        "setenvifnocase",
        "sethandler",
        "setinputfilter",
        "setoutputfilter",
        "unsetenv",
    ];
    const AUTH_CONFIG: [&str; 8] = [
        "cgipassauth",
        "require",
        "requireall",
        "requireany",
        "requirenone",
        "satisfy",
        "sslrequire",
        "sslrequiressl",
    ];
    const INDEXES: [&str; 12] = [
        "adddescription",
        "defaulticon",
        "directoryindex",
        "directoryindexredirect",
        "fallbackresource",
        "fancyindexing",
        "headername",
        "readmename",
        "indexignore",
        "indexignorereset",
        "indexoptions",
        "indexorderdefault",
    ];
    let begins = |begins: &[&str]| begins.iter().any(|begin| name.starts_with(begin));
    match name {
        "order" | "allow" | "deny" => Some(Class::Limit),
        "options" | "xbithack" | "ssloptions" | "checkspelling" | "php_value" | "php_flag" => {
            Some(Class::Options)
        }
        _ if AUTH_CONFIG.contains(&name) || begins(&["auth", "anonymous", "oidc"]) => Some(Class::AuthConfig),
        _ if FILE_INFO.contains(&name) => Some(Class::FileInfo),
        _ if INDEXES.contains(&name) || begins(&["addicon", "addalt", "expires"]) => Some(Class::Indexes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{parse, read, translate};

    #[test]
    fn the_last_section_around_a_directory_counts() {
        let text = "<Directory />\nAllowOverride None\n</Directory>\n<Directory /srv/*/www>\nAllowOverride \
                    AuthConfig Options=Indexes,MultiViews\n</Directory>\n<Directory /srv>\n\
                    AllowOverride All\n</Directory>\n<Directory /srv/list>\nAllowOverride None\n\
                    AllowOverrideList Redirect\n</Directory>";
        let directives = parse("a.conf", text).unwrap();
        let allowed = |directory: &str| allowed(directory, directives.iter());
        assert_eq!(allowed("/opt"), Some(Allowed::default()));
        assert_eq!(allowed("/srv/a"), Some(Allowed::everything()));
        let classes = vec![Class::AuthConfig, Class::Options];
        let options = Some(vec!["indexes".to_string(), "multiviews".to_string()]);
        let found = Allowed { classes, options, ..Allowed::default() };
        assert_eq!(allowed("/srv/a/www/b"), Some(found));
        let found = Allowed { names: vec!["redirect".to_string()], ..Allowed::default() };
        assert_eq!(allowed("/srv/list"), Some(found));
        assert_eq!(super::allowed("/srv", [].iter()), None);
    }

    #[test]
    fn directives_of_other_classes_are_refused() {
        for (allowed, line, is_allowed) in [
            ("AuthConfig", "Require all granted", true),
            ("FileInfo", "Require all granted", false),
            ("FileInfo", "<Files x>\nRequire all granted\n</Files>", false),
            ("Limit", "Allow from all", true),
            ("AuthConfig", "Allow from all", false),
            ("AuthConfig", "Satisfy Any", true),
            ("AuthConfig", "RewriteRule x y", false),
            ("Options=Indexes", "Options +Indexes", true),
            ("Options=Indexes", "Options +Includes", false),
            ("Indexes", "ExpiresActive On", true),
            ("Indexes", "UnknownDirective", true),
            ("All", "Header set A b", true),
        ] {
            let directives = parse("a.conf", line).unwrap();
            let mut found = Allowed::default();
            found.add(allowed);
            let mut wrong = Vec::new();
            found.filtered(&directives, &mut wrong);
            assert_eq!(wrong.is_empty(), is_allowed, "{allowed}: {line}");
        }
    }

    /// The routes for `/a/` and below of a site with this `AllowOverride` and this file in `/a`.
    fn routes(main: &str, allow: &str, file: &str) -> String {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("www");
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/.htaccess"), file).unwrap();
        std::fs::write(root.join("a/b/.htaccess"), "Require all granted\n").unwrap();
        let shown = root.display();
        let text = format!(
            "{main}\nDocumentRoot {shown}\n<Directory {shown}>\n{allow}\n</Directory>\n\
             <Directory {shown}/a>\nRequire all denied\n</Directory>\n"
        );
        let conf = directory.path().join("httpd.conf");
        std::fs::write(&conf, text).unwrap();
        let imported = translate(&read(&conf).unwrap());
        let routes = imported.text.split("[[site.route]]").filter(|route| route.contains("path = \"/a/"));
        let keys = routes.flat_map(str::lines).filter(|line| !line.starts_with('#') && !line.is_empty());
        keys.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_directory_with_a_refused_file_is_refused() {
        let refused = "path = \"/a/\"\nrespond = { status = 500 }";
        assert_eq!(routes("", "AllowOverride FileInfo", "Require all granted\n"), refused);
        let shut = "path = \"/a/\"\nrespond = { status = 403 }";
        let open = "path = \"/a/b/\"\n";
        let nonfatal = "AllowOverride FileInfo Nonfatal=Override";
        assert_eq!(
            routes("", nonfatal, "Require all granted\n"),
            format!("path = \"/a/b/\"\nrespond = {{ status = 403 }}\n{shut}")
        );
        let complete = "Listen 80\nServerRoot /etc/apache2";
        assert_eq!(routes(complete, "", "Require all granted\n"), refused);
        assert_eq!(routes(complete, "AllowOverride None", "Require all granted\n"), shut);
        assert!(routes(complete, "AllowOverride All", "").starts_with(open));
        assert!(!routes("", "", "Require all granted\n").contains("403"));
    }
}
