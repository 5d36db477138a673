//! Translates `dav_methods` and `dav_ext_methods` of locations to the `webdav` key of a route.

use super::scope::Scope;
use touchstone_import_base::account::Account;
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::toml_strings;

/// The methods that both servers have; GET, HEAD and OPTIONS are always answered.
const METHODS: [&str; 9] =
    ["PROPFIND", "PROPPATCH", "MKCOL", "PUT", "DELETE", "COPY", "MOVE", "LOCK", "UNLOCK"];

/// Writes which methods change the files of a location. `scope` has what the location inherits.
pub fn uploads(own: &Scope<'_>, scope: &Scope<'_>, route: &mut Section, account: &mut Account) {
    let directives = [own.one("dav_methods"), own.one("dav_ext_methods")];
    let mut methods = Vec::new();
    for directive in directives.into_iter().flatten() {
        let is_known = |name: &str| METHODS.contains(&name) || matches!(name, "off" | "OPTIONS");
        match directive.arguments.iter().find(|name| !is_known(name)) {
            Some(name) => account.problem(directive, route, &format!("{name} is not a method of WebDAV")),
            None => account.translated(directive, route),
        }
        methods.extend(directive.arguments.iter().filter(|name| METHODS.contains(&name.as_str())));
    }
    if methods.is_empty() {
        return;
    }
    let mut table = Section::new("[site.route.webdav]");
    table.key("write", methods.iter().any(|name| *name != "PROPFIND"));
    table.key("methods", toml_strings(methods));
    let has_password = scope.one("auth_basic").is_some_and(|realm| realm.argument(0) != "off");
    if !has_password && scope.all("allow").is_empty() {
        table.note("Every client may write, as before: require a password here, or name the addresses.");
        table.key("open", "true");
    }
    route.push(table);
}

#[cfg(test)]
mod tests {
    use crate::{parse, translate};

    fn imported(location: &str) -> (String, usize) {
        let text = format!("server {{ listen 80; root /srv; location /up/ {{ {location} }} }}");
        let imported = translate(&parse("nginx.conf", &text).unwrap());
        (imported.text, imported.problems.len())
    }

    #[test]
    fn methods_that_change_files() {
        let (text, problems) = imported(
            "auth_basic \"x\"; auth_basic_user_file users; dav_methods PUT DELETE;\n\
             dav_ext_methods PROPFIND OPTIONS;",
        );
        assert_eq!(problems, 0, "{text}");
        for line in ["[site.route.webdav]", "write = true", "methods = [\"PUT\", \"DELETE\", \"PROPFIND\"]"] {
            assert!(text.lines().any(|written| written == line), "{line}\n{text}");
        }
        assert!(!text.contains("open = true"), "{text}");
        assert!(imported("dav_methods PUT;").0.contains("open = true"));
        assert!(!imported("dav_methods off;").0.contains("webdav"));
        assert_eq!(imported("dav_methods PUT POST;").1, 1);
    }
}
