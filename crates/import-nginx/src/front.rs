//! The script that answers for paths that are not files, with the parameters that it gets of the path.

use super::language::Language;
use super::matching::Match;
use super::missing_files::{REST, as_tried, takes_all};
use super::site::Site;
use super::value;
use touchstone_import_base::account::Account;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::check_target;

/// The script for missing paths with its parameters, as `front_controller` has them.
pub fn front_target(
    directive: &Directive,
    target: &str,
    (how, site): (&Match, &Site<'_>),
    route: &mut Section,
    account: &mut Account,
) -> String {
    let script = target.split(['?', '$']).next().unwrap_or_default().trim_end_matches('/');
    let passed = ["$args", "$query_string", "$is_args$args", ""];
    let Some((_, query)) = target.split_once('?').filter(|(_, query)| !passed.contains(query)) else {
        return script.to_string();
    };
    match parameters(query, how, site) {
        Ok(query) => format!("{script}?{query}"),
        Err(advice) => {
            let advice = format!("{script} answers without the parameters '{query}': {advice}");
            account.problem(directive, route, &advice);
            script.to_string()
        }
    }
}

/// The parameters of a front controller as a text of this server.
fn parameters(query: &str, how: &Match, site: &Site<'_>) -> Result<String, String> {
    if query.contains("$request_uri") {
        return Err("'$request_uri' has a query of its own; write '$path' and '$query'".to_string());
    }
    let has_group = (1..=9).any(|digit| query.contains(&format!("${digit}")));
    if has_group && how.expression().is_none() {
        return Err("its location has no groups".to_string());
    }
    let rest = match how {
        Match::Prefix { path, .. } if path == "/" => "$1",
        _ if query.contains(REST) => return Err("only all paths have such a rest".to_string()),
        _ => "",
    };
    let query = query.replace(REST, rest);
    let language = Language { groups: how.group_names(), ..site.language() };
    let target = value::template(&format!("/?{query}"), &site.facts(false), &language)?;
    check_target(&target)?;
    Ok(target.trim_start_matches("/?").to_string())
}

/// The line with the script of `rewrite ^ /index.php` in a named location, and that script with its
/// parameters.
pub fn front_controller(named: &Directive) -> Option<(&Directive, String)> {
    let rewrites: Vec<&Directive> = rewrites(named).collect();
    let rewrite = match rewrites.as_slice() {
        [only] => only,
        several => several.iter().find(|rewrite| takes_all(rewrite.argument(0)))?,
    };
    is_of_script(rewrite).then(|| (*rewrite, as_tried(rewrite)))
}

fn rewrites(named: &Directive) -> impl Iterator<Item = &Directive> {
    named.inside().iter().filter(|directive| directive.name == "rewrite")
}

fn is_of_script(rewrite: &Directive) -> bool {
    let script = rewrite.argument(1).split(['?', '$']).next().unwrap_or_default();
    script.trim_end_matches('/').ends_with(".php")
}

/// The locations for the paths of which a named location has other scripts than for the others: `try_files
/// $uri @wiki;` with several `rewrite` in `@wiki`.
pub fn of_some_paths(how: &Match, location: &Directive, site: &Site<'_>) -> Vec<(Match, Directive)> {
    let inside = location.inside();
    let tried = inside.iter().find(|one| one.name == "try_files" && site.php().is_some());
    let name = tried.and_then(|tried| tried.arguments.last()?.strip_prefix('@'));
    let named = site.locations().find(|one| name.is_some() && one.argument(0).strip_prefix('@') == name);
    let before = named.into_iter().flat_map(|named| {
        rewrites(named).take_while(|rewrite| !takes_all(rewrite.argument(0)) && is_of_script(rewrite))
    });
    let is_alone = named.is_some_and(|named| rewrites(named).count() == 1);
    let translated = |rewrite: &Directive| {
        let (expression, any_case) = (rewrite.argument(0).to_string(), false);
        let how = match how {
            Match::Prefix { path, .. } if path == "/" => Match::Expression { expression, any_case },
            Match::Prefix { path, is_first } => {
                let (path, is_first) = (path.clone(), *is_first);
                Match::Inside { path, is_first, expression, any_case, longer: Vec::new(), around: Vec::new() }
            }
            _ => return None,
        };
        let mut location = location.clone();
        for one in location.block.iter_mut().flatten().filter(|one| one.name == "try_files") {
            if let Some(last) = one.arguments.last_mut() {
                *last = as_tried(rewrite);
            }
        }
        Some((how, location))
    };
    before.filter(|_| !is_alone).filter_map(translated).collect()
}

#[cfg(test)]
mod tests {
    use crate::{parse, translate};

    fn keys(server: &str) -> (Vec<String>, usize) {
        let php = "location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; }";
        let text = format!("server {{ root /srv; index index.php; {server} {php} }}");
        let imported = translate(&parse("nginx.conf", &text).unwrap());
        let wanted = |line: &&str| {
            ["path", "pattern", "front_controller", "basic_authentication"]
                .iter()
                .any(|key| line.starts_with(key))
        };
        let lines = imported.text.lines().filter(wanted).map(str::to_string).collect();
        (lines, imported.problems.len())
    }

    #[test]
    fn parameters_of_scripts() {
        for (tried, expected, problems) in [
            ("/index.php?url=$uri&$args", "/index.php?url=$path&${query}", 0),
            ("/index.php?$args", "/index.php", 0),
            ("/index.php?$query_string", "/index.php", 0),
            ("/index.php$is_args$args", "/index.php", 0),
            ("/index.php?a=$arg_b&h=$host", "/index.php?a=${arg{b}}&h=$host", 0),
            ("/index.php?q=$1", "/index.php", 1),
            ("/index.php?q=$request_uri", "/index.php", 1),
            ("/index.php?q=$upstream_addr", "/index.php", 1),
            ("/index.php?q=a|b", "/index.php", 1),
        ] {
            let (lines, told) = keys(&format!("location / {{ try_files $uri $uri/ {tried}; }}"));
            let front = format!("front_controller = \"{expected}\"");
            assert!(lines.contains(&front), "{tried}: {lines:?}");
            assert_eq!(told, problems, "{tried}");
        }
        let (lines, _) = keys(
            "location ~ ^/b/([0-9]+)/(.*)$ { try_files $uri /b.php?id=$1&n=$2; } location / { return 404; }",
        );
        let front = "front_controller = \"/b.php?id=${1}&n=${2}\"".to_string();
        assert!(
            lines.contains(&front) && lines.contains(&"pattern = \"/b/([0-9]+)/(.*)\"".to_string()),
            "{lines:?}"
        );
    }

    #[test]
    fn several_scripts_of_a_named_location() {
        let (lines, problems) = keys(
            "location / { auth_basic x; auth_basic_user_file /u; try_files $uri $uri/ @wiki; }\n\
             location @wiki { rewrite ^/_media/(.*) /lib/fetch.php?media=$1 last;\n\
             rewrite ^/_export/([^/]+)/(.*) /doku.php?do=export_$1&id=$2 last;\n\
             rewrite ^/(.*) /doku.php?id=$1&$args last; }",
        );
        assert_eq!(problems, 0);
        for front in [
            "front_controller = \"/lib/fetch.php?media=${1}&${query}\"",
            "front_controller = \"/doku.php?do=export_${1}&id=${2}&${query}\"",
            "front_controller = \"/doku.php?id=${1}&${query}&${query}\"",
        ] {
            assert_eq!(lines.iter().filter(|line| *line == front).count(), 1, "{front}: {lines:?}");
        }
        // Each of these paths has the rules of the location.
        let passwords = lines.iter().filter(|line| line.starts_with("basic_authentication")).count();
        assert_eq!(passwords, 3, "{lines:?}");
    }
}
