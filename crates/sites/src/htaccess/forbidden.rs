//! What the text of a `.htaccess` file forbids.
//!
//! Conditions that cannot be evaluated here are treated as true, and a text that cannot be read forbids its
//! directory.

use touchstone_import_base::apache;
use touchstone_import_base::directive::Directive;

/// What a file forbids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forbidden {
    /// The directory as a whole, to some or to all.
    Directory,
    /// Files of this name, with wildcards.
    Files(String),
    /// Files whose name matches this expression, which may match anywhere in it.
    Matching(String),
    /// Paths below the directory that match this expression, which may match anywhere in them.
    Paths(String),
    /// This path of the site, and those below it.
    Url(String),
    /// Paths of the site that match this expression, which may match anywhere in them.
    Urls(String),
    /// Running scripts.
    Scripts,
}

/// What a file says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// What it forbids.
    pub forbids: Vec<Forbidden>,
    /// Whether its directories without an index file may be listed, if it says so.
    pub lists: Option<bool>,
}

/// Reads a file.
pub fn content(text: &str) -> Content {
    let mut content = Content::default();
    match apache::parse(".htaccess", &with_conditions(text)) {
        Ok(directives) => content.read(&directives, &Forbidden::Directory, false),
        Err(_) => content.forbid(Forbidden::Directory),
    }
    content
}

/// The text with each condition of a module, a definition or a file as one that holds.
fn with_conditions(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let lower = line.trim_start().trim_start_matches('\u{feff}').to_ascii_lowercase();
        let is = |begin: &str| {
            ["ifmodule", "ifdefine", "iffile"]
                .iter()
                .any(|name| lower.strip_prefix(begin).is_some_and(|rest| rest.starts_with(name)))
        };
        match (is("<"), is("</")) {
            (true, _) => out.push_str("<IfModule any>"),
            (_, true) => out.push_str("</IfModule>"),
            _ => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

impl Content {
    fn forbid(&mut self, forbidden: Forbidden) {
        if !self.forbids.contains(&forbidden) {
            self.forbids.push(forbidden);
        }
    }

    /// Reads the lines of a section. `current` is what it is for; `is_none`: it forbids what its lines
    /// require.
    fn read(&mut self, lines: &[Directive], current: &Forbidden, is_none: bool) {
        let (mut denies_others, mut allows_all, mut rewrites) = (false, false, true);
        let mut depends_on_client = false;
        for line in lines {
            let name = line.name.to_ascii_lowercase();
            let words: Vec<String> = line.arguments.iter().map(|word| word.to_ascii_lowercase()).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            if line.block.is_some() {
                let inner = section(&name, &line.arguments).unwrap_or_else(|| current.clone());
                self.read(line.inside(), &inner, name == "requirenone");
                continue;
            }
            match (name.as_str(), words.as_slice()) {
                ("require", ["all", "granted"] | ["method", ..]) if !is_none => {}
                ("require", _) => self.forbid(current.clone()),
                ("deny", ["from", from, ..]) if *from != "none" => self.forbid(current.clone()),
                ("order", order) => {
                    denies_others = matches!(order.concat().as_str(), "allow,deny" | "mutual-failure");
                }
                ("allow", ["from", from @ ..]) => allows_all |= from.contains(&"all"),
                ("rewriteengine", ["off"]) => rewrites = false,
                ("rewritecond", _) => depends_on_client |= is_of_client(line.argument(0)),
                ("rewriterule", _) => {
                    if rewrites && let Some(refused) = rule(line, current, depends_on_client) {
                        self.forbid(refused);
                    }
                    depends_on_client = false;
                }
                ("redirect", [status, _]) if is_refusal(status) => {
                    self.forbid(Forbidden::Url(line.argument(1).to_string()));
                }
                ("redirectmatch", [status, _]) if is_refusal(status) => {
                    self.forbid(Forbidden::Urls(line.argument(1).to_string()));
                }
                ("options", options) if *current == Forbidden::Directory => {
                    self.lists = lists(options).or(self.lists);
                }
                _ if takes_handler(&name, &words) => self.without_scripts(current),
                _ => {}
            }
        }
        if denies_others && !allows_all {
            self.forbid(current.clone());
        }
    }

    /// Scripts of a part are not run.
    fn without_scripts(&mut self, current: &Forbidden) {
        match current {
            Forbidden::Files(text) | Forbidden::Matching(text) => {
                let names_scripts = text.contains("ph") || matches!(text.as_str(), "*" | "." | ".*");
                if names_scripts {
                    self.forbid(current.clone());
                }
            }
            _ => self.forbid(Forbidden::Scripts),
        }
    }
}

/// What a section is for; `None`: what the section around it is for.
fn section(name: &str, arguments: &[String]) -> Option<Forbidden> {
    match (name, arguments) {
        ("files", [tilde, expression]) if tilde == "~" => Some(Forbidden::Matching(expression.clone())),
        ("files", [file]) => Some(Forbidden::Files(file.clone())),
        ("filesmatch", [expression]) => Some(Forbidden::Matching(expression.clone())),
        _ => None,
    }
}

/// What a rewrite rule refuses. Rules for some paths whose conditions are about the request of a client, such
/// as its fields, do not protect these paths.
fn rule(line: &Directive, current: &Forbidden, depends_on_client: bool) -> Option<Forbidden> {
    let (expression, target) = (line.argument(0), line.argument(1));
    let flags = line.arguments.get(2..).unwrap_or_default().concat().to_ascii_lowercase();
    let flags = flags.trim_matches(['[', ']']);
    let refuses = flags.split(',').map(str::trim).any(|flag| match flag.split_once('=') {
        None => matches!(flag, "f" | "forbidden" | "g" | "gone"),
        Some(("r" | "redirect", status)) => is_refusal(status),
        Some(_) => false,
    });
    if !refuses {
        return None;
    }
    if matches!(expression, "^" | "" | "." | ".*" | "^.*$" | "^(.*)$" | "(.*)") {
        return (target == "-" || !depends_on_client).then(|| current.clone());
    }
    if depends_on_client {
        return None;
    }
    if expression.starts_with('!') {
        return Some(current.clone());
    }
    let any_case = flags.split(',').map(str::trim).any(|flag| matches!(flag, "nc" | "nocase"));
    Some(Forbidden::Paths(format!("{}{expression}", if any_case { "(?i)" } else { "" })))
}

/// Whether a condition is about what a client sends besides the path.
fn is_of_client(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    let of_path_or_address =
        ["REQUEST_URI", "REQUEST_FILENAME", "SCRIPT_FILENAME", "REMOTE_ADDR", "REMOTE_HOST", "REMOTE_USER"];
    !of_path_or_address.iter().any(|name| upper.contains(name))
}

/// Whether a status of a redirect is an error.
fn is_refusal(status: &str) -> bool {
    status == "gone" || status.parse::<u16>().is_ok_and(|status| status >= 400)
}

/// Whether directories may be listed after a line with options.
fn lists(options: &[&str]) -> Option<bool> {
    let is_relative = options.iter().any(|option| option.starts_with(['+', '-']));
    let last = options.iter().rev().find_map(|option| match *option {
        "indexes" | "+indexes" | "all" => Some(true),
        "-indexes" => Some(false),
        _ => None,
    });
    last.or((!is_relative && !options.is_empty()).then_some(false))
}

/// Whether a line takes the handler of scripts away.
fn takes_handler(name: &str, words: &[&str]) -> bool {
    let runs = |handler: &str| ["php", "fcgi", "proxy:"].iter().any(|one| handler.contains(one));
    let is_ending = |word: &&str| word.trim_start_matches('.').starts_with("ph");
    match (name, words) {
        ("php_flag" | "php_admin_flag" | "php_value" | "php_admin_value", ["engine", value]) => {
            !matches!(*value, "on" | "1" | "true" | "yes")
        }
        ("sethandler" | "forcetype", [handler, ..]) => !runs(handler),
        ("removehandler" | "removetype", endings) => endings.iter().any(is_ending),
        ("addhandler" | "addtype", [handler, endings @ ..]) => {
            !runs(handler) && endings.iter().any(is_ending)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forbids(text: &str) -> Vec<Forbidden> {
        content(text).forbids
    }

    #[test]
    fn what_is_forbidden() {
        let directory = || vec![Forbidden::Directory];
        for (text, expected) in [
            ("Require all denied", directory()),
            ("REQUIRE ALL DENIED", directory()),
            ("\u{feff}Require all denied", directory()),
            ("Require all \\\n  denied", directory()),
            ("Order deny,allow\nDeny from all", directory()),
            ("Order deny,allow\nDeny \\\nfrom all", directory()),
            ("AuthType Basic\nRequire valid-user", directory()),
            ("<IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>", directory()),
            ("<IfModule !mod_authz_core.c>\nDeny from all\n</IfModule>", directory()),
            ("<IfDefine X>\nDeny from all\n</IfDefine>", directory()),
            ("<RequireNone>\nRequire all granted\n</RequireNone>", directory()),
            ("<RequireAll>\nRequire all granted\nRequire not ip 10.0.0.1\n</RequireAll>", directory()),
            ("<If \"%{REQUEST_METHOD} == 'GET'\">\nRequire all denied\n</If>", directory()),
            ("<Limit GET>\nDeny from all\n</Limit>", directory()),
            // The default of this order is to deny.
            ("Order allow,deny", directory()),
            ("Order Allow, Deny\nAllow from 10.0.0.0/8", directory()),
            ("Order allow,deny\nAllow from all", vec![]),
            ("Order deny,allow\nAllow from 10.0.0.1", vec![]),
            ("Order mutual-failure\nAllow from 10.0.0.1", directory()),
            // What cannot be read.
            ("<Files a>\nRequire all granted", directory()),
            ("Require \"all", directory()),
            ("# Require all denied\nRequire all granted", vec![]),
            (
                "<Files wp-config.php>\nDeny from all\n</Files>",
                vec![Forbidden::Files("wp-config.php".into())],
            ),
            ("<FILES \"a b.txt\">\nDeny from all\n</FILES>", vec![Forbidden::Files("a b.txt".into())]),
            (
                "<FilesMatch \"\\.(bak|inc)$\">\nRequire all denied\n</FilesMatch>",
                vec![Forbidden::Matching("\\.(bak|inc)$".into())],
            ),
            (
                "<FilesMatch x>\n<IfModule mod_a.c>\nOrder allow,deny\n</IfModule>\n</FilesMatch>",
                vec![Forbidden::Matching("x".into())],
            ),
        ] {
            assert_eq!(forbids(text), expected, "{text}");
        }
    }

    #[test]
    fn rules_and_redirects_that_refuse() {
        for (text, expected) in [
            ("RewriteEngine On\nRewriteRule . /index.php [L]", vec![]),
            ("RewriteRule ^ - [F,L]", vec![Forbidden::Directory]),
            ("RewriteRule ^ - \\\n[F]", vec![Forbidden::Directory]),
            ("RewriteRule ^ - [G]", vec![Forbidden::Directory]),
            ("RewriteRule ^ - [R=404]", vec![Forbidden::Directory]),
            ("RewriteRule ^ /x [R=301]", vec![]),
            ("RewriteEngine off\nRewriteRule ^ - [F]", vec![]),
            ("RewriteRule \\.sql$ - [F]", vec![Forbidden::Paths("\\.sql$".into())]),
            ("RewriteRule ^inc/ - [NC, F]", vec![Forbidden::Paths("(?i)^inc/".into())]),
            ("RewriteRule !^public/ - [F]", vec![Forbidden::Directory]),
            (
                "RewriteCond %{REQUEST_FILENAME} -f\nRewriteRule \\.sql$ - [F]",
                vec![Forbidden::Paths("\\.sql$".into())],
            ),
            ("RewriteCond %{HTTP_REFERER} !^$\nRewriteRule \\.jpg$ - [F]", vec![]),
            ("RewriteCond %{QUERY_STRING} a\nRewriteRule .* index.php [F]", vec![]),
            (
                "RewriteCond %{QUERY_STRING} a\nRewriteRule x y\nRewriteRule z - [F]",
                vec![Forbidden::Paths("z".into())],
            ),
            ("Redirect 403 /private", vec![Forbidden::Url("/private".into())]),
            ("Redirect gone /old.html", vec![Forbidden::Url("/old.html".into())]),
            ("Redirect /a /b\nRedirect 301 /a /b\nRedirect permanent /a /b", vec![]),
            ("RedirectMatch 404 /\\.git", vec![Forbidden::Urls("/\\.git".into())]),
        ] {
            assert_eq!(forbids(text), expected, "{text}");
        }
    }

    #[test]
    fn scripts_that_are_not_run() {
        for text in [
            "php_flag engine off",
            "php_admin_value engine 0",
            "<IfModule mod_php.c>\nphp_flag engine off\n</IfModule>",
            "SetHandler none",
            "SetHandler Drupal_Security_Do_Not_Remove_See_SA_2006_006",
            "RemoveHandler .php .phtml",
            "RemoveType php",
            "AddType text/plain .html .php",
            "AddHandler cgi-script .php .pl\nOptions -ExecCGI",
            "ForceType text/plain",
        ] {
            assert_eq!(forbids(text), [Forbidden::Scripts], "{text}");
        }
        for text in [
            "php_flag engine on",
            "php_flag display_errors off",
            "SetHandler application/x-httpd-php",
            "AddHandler application/x-httpd-php82 .php",
            "AddType application/x-httpd-php .php",
            "AddType image/webp .webp",
            "<Files a.html>\nSetHandler None\n</Files>",
            "RemoveHandler .cgi",
        ] {
            assert_eq!(forbids(text), [], "{text}");
        }
        let of_files = forbids("<FilesMatch \"\\.php$\">\nSetHandler None\n</FilesMatch>");
        assert_eq!(of_files, [Forbidden::Matching("\\.php$".into())]);
    }

    #[test]
    fn lists_of_directories() {
        for (text, expected) in [
            ("Options -Indexes", Some(false)),
            ("Options All -Indexes", Some(false)),
            ("Options +Indexes", Some(true)),
            ("Options None", Some(false)),
            ("Options FollowSymLinks", Some(false)),
            ("Options +FollowSymLinks", None),
            ("Options -Indexes\nOptions +FollowSymLinks", Some(false)),
            ("<Files x>\nOptions -Indexes\n</Files>", None),
            ("", None),
        ] {
            assert_eq!(content(text).lists, expected, "{text}");
        }
    }
}
