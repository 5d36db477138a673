//! What the conditions of a server have set at one of its directives.

use super::flags::{Flags, Truth, appended, variable};
use super::language::Language;
use touchstone_import_base::directive::Directive;

/// The variables of a server as they are at one of its directives; `None`: at its end.
pub fn flags_at(server: &Directive, language: &Language<'_>, at: Option<&Directive>) -> Flags {
    let mut flags = Flags::default();
    let names = names(server);
    for directive in server.inside() {
        if at.is_some_and(|at| at == directive) {
            break;
        }
        if directive.name == "set" && names.contains(&directive.argument(0)) {
            flags.set(directive, &Truth::Always);
        } else if sets(directive).any(|set| names.contains(&set.argument(0))) {
            let here = Language { flags: flags.clone(), ..language.clone() };
            match here.condition(directive) {
                Ok(condition) => {
                    sets(directive).for_each(|set| flags.set(set, &Truth::If(condition.clone())));
                }
                // What depends on it is not known either.
                Err(_) => sets(directive).for_each(|set| flags.forget(variable(set))),
            }
        }
    }
    flags
}

/// The `set` directives of an `if`.
fn sets(directive: &Directive) -> impl Iterator<Item = &Directive> {
    let inside: &[Directive] = if directive.name == "if" { directive.inside() } else { &[] };
    inside.iter().filter(|inner| inner.name == "set")
}

/// The variables that are set only to fixed values, in the server and in its conditions.
fn names(server: &Directive) -> Vec<&str> {
    let is_fixed = |set: &Directive| {
        set.arguments.len() == 2 && (!set.argument(1).contains('$') || appended(set).is_some())
    };
    let own = server.inside().iter().filter(|directive| directive.name == "set");
    let all: Vec<&Directive> = own.chain(server.inside().iter().flat_map(sets)).collect();
    let mut names: Vec<&str> = server.inside().iter().flat_map(sets).map(|set| set.argument(0)).collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| {
        let here = all.iter().filter(|set| set.argument(0) == *name);
        name.len() > 1 && here.clone().all(|set| is_fixed(set)) && here.count() == count(server, name)
    });
    names
}

/// How often a variable is set, at any depth.
fn count(block: &Directive, name: &str) -> usize {
    let is_it = |directive: &&Directive| directive.name == "set" && directive.argument(0) == name;
    let inside = block.inside();
    inside.iter().filter(is_it).count() + inside.iter().map(|inner| count(inner, name)).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use crate::{parse, translate};

    fn keys(server: &str) -> (String, Vec<String>) {
        let imported = translate(&parse("nginx.conf", &format!("server {{ root /srv; {server} }}")).unwrap());
        let lines: Vec<&str> =
            imported.text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        (lines.join("\n"), imported.problems.into_iter().map(|problem| problem.directive).collect())
    }

    #[test]
    fn a_cache_that_some_requests_pass_by() {
        let (text, problems) = keys(
            "set $skip_cache 0; if ($request_method = POST) { set $skip_cache 1; }\n\
             if ($query_string != \"\") { set $skip_cache 1; }\n\
             if ($http_cookie ~* \"wordpress_logged_in\") { set $skip_cache 1; }\n\
             location ~ \\.php$ { fastcgi_pass unix:/run/php.sock; fastcgi_cache zone;\n\
             fastcgi_cache_bypass $skip_cache; fastcgi_no_cache $skip_cache; }",
        );
        assert!(problems.is_empty(), "{problems:?}\n{text}");
        let condition = "$method == 'POST' or $query != '' or $header{cookie} =~ '(?i)wordpress_logged_in'";
        assert!(text.contains(&format!("bypass = \"{condition}\"")), "{text}");
    }

    #[test]
    fn two_conditions_that_both_must_hold() {
        let (text, problems) = keys(
            "if ($request_method = POST) { set $both A; }\n\
             if ($arg_key = \"\") { set $both \"${both}B\"; }\n\
             if ($both = AB) { return 403; }",
        );
        assert!(problems.is_empty(), "{problems:?}\n{text}");
        assert!(text.contains("when = \"$method == 'POST' and $arg{key} == ''\""), "{text}");
    }

    #[test]
    fn a_flag_counts_as_it_is_at_that_place() {
        let (text, problems) = keys(
            "set $a 0; if ($a) { return 403; }\n if ($arg_x) { set $a 1; }\n if ($a != 1) { return 404; }",
        );
        assert!(problems.is_empty(), "{problems:?}\n{text}");
        assert!(!text.contains("403"), "{text}");
        assert!(
            text.contains("path = \"/\"\nrespond = { status = 404 }\nwhen = \"not ($arg{x})\""),
            "{text}"
        );
    }

    #[test]
    fn what_is_not_fixed_is_told() {
        for server in [
            "if ($arg_x) { set $a $arg_y; } if ($a) { return 403; }",
            "if (-d $request_filename) { set $a 1; } if ($a) { return 403; }",
            "set $a 0; location / { set $a 1; if ($a) { return 403; } }",
        ] {
            assert!(!keys(server).1.is_empty(), "{server}");
        }
    }
}
