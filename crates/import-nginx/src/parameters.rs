//! The parameters of programs: `fastcgi_param`, `scgi_param`, `uwsgi_param`.

use super::forward_auth::{FromAuthority, from_authority};
use super::scope::Scope;
use touchstone_import_base::account::Account;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::toml_string;

/// Translates `fastcgi_param NAME VALUE` and similar directives, unless the server sets the variable anyway.
pub fn parameters(kind: &str, scope: &Scope<'_>, table: &mut Section, account: &mut Account) {
    for directive in scope.all(&format!("{kind}_param")) {
        let (name, text) = (directive.argument(0), directive.argument(1));
        let given = from_authority(scope, name, text);
        if let Some(FromAuthority::Renamed(field)) = &given
            && name != "REMOTE_USER"
        {
            let advice = format!("programs get the field {field} of the authority under its own name");
            account.problem(directive, table, &advice);
        } else if name == "SCRIPT_FILENAME" && kind == "fastcgi" {
            script_file(directive, scope, table, account);
        } else if matches!(name, "REDIRECT_STATUS" | "HTTP_PROXY") || given.is_some() {
            account.unneeded(directive, table, "the server sets this variable");
        } else if !text.contains('$') {
            account.translated(directive, table);
            table.entry("variables", name, toml_string(text));
        } else if is_of_request(name) {
            // This is the distribution's fastcgi_params, written out.
            account.unneeded(directive, table, "the server sets the CGI variables");
        } else {
            account.problem(directive, table, "'variables' of a program have fixed values");
        }
    }
}

/// Whether the server sets a variable of programs from the request, as nginx does with the files of
/// parameters that distributions have.
fn is_of_request(name: &str) -> bool {
    const NAMES: [&str; 26] = [
        "SCRIPT_FILENAME",
        "DOCUMENT_ROOT",
        "PATH_INFO",
        "PATH_TRANSLATED",
        "HTTPS",
        "SCRIPT_NAME",
        "QUERY_STRING",
        "REQUEST_METHOD",
        "CONTENT_TYPE",
        "CONTENT_LENGTH",
        "REQUEST_URI",
        "DOCUMENT_URI",
        "SERVER_PROTOCOL",
        "REQUEST_SCHEME",
        "GATEWAY_INTERFACE",
        "SERVER_SOFTWARE",
        "REMOTE_ADDR",
        "REMOTE_HOST",
        "REMOTE_PORT",
        "REMOTE_USER",
        "SERVER_ADDR",
        "SERVER_PORT",
        "SERVER_NAME",
        "Host",
        "UWSGI_SCHEME",
        "UNENCODED_URL",
    ];
    let begins = ["HTTP_", "SSL_", "X-Real-", "X-Forwarded-"];
    NAMES.contains(&name) || begins.iter().any(|begin| name.starts_with(begin))
}

/// `fastcgi_param SCRIPT_FILENAME`: the directory of the scripts for php-fpm if it is another one, or the
/// only script that answers.
fn script_file(directive: &Directive, scope: &Scope<'_>, table: &mut Section, account: &mut Account) {
    let root = scope.one("root").map(|root| root.argument(0).trim_end_matches('/'));
    let Some((_, mut file)) = last_script_file(scope).filter(|(last, _)| *last == directive) else {
        return account.unneeded(directive, table, "a later line replaces it");
    };
    if let Some(root) = root {
        file = file.replace("$document_root", root).replace("$realpath_root", root);
    }
    let of_path = ["$fastcgi_script_name", "$document_uri", "$uri"];
    let is_root = |directory: &str| {
        ["$document_root", "$realpath_root"].iter().any(|name| directory.starts_with(name))
            || Some(directory.trim_end_matches('/')) == root
    };
    match of_path.iter().find_map(|name| file.strip_suffix(name)) {
        directory if file == "$request_filename" || directory.is_some_and(is_root) => {
            account.unneeded(directive, table, "the server sets this variable");
        }
        Some(directory) if directory.starts_with('/') && !directory.contains('$') => {
            account.translated(directive, table);
            table.key("document_root", toml_string(directory.trim_end_matches('/')));
        }
        None if file.starts_with('/') && !file.contains('$') => {
            account.translated(directive, table);
            table.note("nginx runs this script for all paths of the location.");
            table.entry("variables", "SCRIPT_FILENAME", toml_string(&file));
        }
        _ => account.problem(directive, table, "here the path names the script that is run"),
    }
}

/// The path of the script that nginx runs for all paths of a location, if it is below the root.
pub fn only_script(scope: &Scope<'_>) -> Option<String> {
    let (_, file) = last_script_file(scope)?;
    let root = scope.one("root")?.argument(0).trim_end_matches('/').to_string();
    let path = ["$document_root", "$realpath_root", root.as_str()]
        .iter()
        .find_map(|begin| file.strip_prefix(begin))?;
    (path.starts_with('/') && path.ends_with(".php") && !path.contains('$')).then(|| path.to_string())
}

/// The `fastcgi_param SCRIPT_FILENAME` that counts, which is the last, and its value without braces.
fn last_script_file<'d>(scope: &Scope<'d>) -> Option<(&'d Directive, String)> {
    let last = scope.all("fastcgi_param").into_iter().rfind(|one| one.argument(0) == "SCRIPT_FILENAME")?;
    Some((last, last.argument(1).replace("${", "$").replace('}', "")))
}

#[cfg(test)]
mod tests {
    use crate::{parse, translate};

    /// The lines of a location for scripts that are about its parameters, and how many lines are told.
    fn keys(parameters: &str) -> (Vec<String>, usize) {
        let text = format!(
            "server {{ root /srv/app; location ~ \\.php$ {{ {parameters} fastcgi_pass 127.0.0.1:9000; }} }}"
        );
        let imported = translate(&parse("nginx.conf", &text).unwrap());
        let wanted = |line: &&str| {
            ["variables", "document_root", "front_controller"].iter().any(|key| line.starts_with(key))
        };
        let lines = imported.text.lines().filter(wanted).map(str::to_string).collect();
        (lines, imported.problems.len())
    }

    #[test]
    fn one_script_for_all_paths_stays_the_only_one() {
        let (lines, problems) = keys("fastcgi_param SCRIPT_FILENAME $document_root/index.php;");
        assert_eq!((lines.len(), problems), (3, 0), "{lines:?}");
        let variable = "variables = { SCRIPT_FILENAME = \"/srv/app/index.php\" }";
        assert_eq!(lines.iter().filter(|line| *line == variable).count(), 2, "{lines:?}");
        assert_eq!(lines.iter().filter(|line| line.starts_with("front_controller")).count(), 1, "{lines:?}");
        let (lines, problems) = keys("fastcgi_param SCRIPT_FILENAME /opt/app.php;");
        assert!(lines[0].contains("SCRIPT_FILENAME = \"/opt/app.php\"") && problems == 0, "{lines:?}");
        let (lines, problems) = keys("fastcgi_param SCRIPT_FILENAME $other/index.php;");
        assert!(lines.is_empty() && problems == 1, "{lines:?}");
    }

    #[test]
    fn scripts_in_another_directory() {
        for text in [
            "$document_root$fastcgi_script_name",
            "${realpath_root}$fastcgi_script_name",
            "/srv/app/$fastcgi_script_name",
            "$request_filename",
        ] {
            assert_eq!(keys(&format!("fastcgi_param SCRIPT_FILENAME {text};")), (Vec::new(), 0), "{text}");
        }
        let (lines, problems) = keys("fastcgi_param SCRIPT_FILENAME /var/www/html$fastcgi_script_name;");
        assert!(lines.iter().all(|line| line == "document_root = \"/var/www/html\"") && problems == 0);
        assert!(!lines.is_empty());
        // The last line counts.
        let both = "fastcgi_param SCRIPT_FILENAME /opt/app.php;\n\
                    fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;";
        assert_eq!(keys(both), (Vec::new(), 0));
    }

    #[test]
    fn values_that_the_server_does_not_know_are_told() {
        let (lines, problems) = keys("fastcgi_param HTTPS on; fastcgi_param QUERY_STRING $query_string;");
        assert!(lines[0].contains("HTTPS = \"on\"") && problems == 0, "{lines:?}");
        assert_eq!(keys("fastcgi_param APP_STAGE $stage;"), (Vec::new(), 1));
    }
}
