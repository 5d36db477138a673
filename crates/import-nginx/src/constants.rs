//! `set` of a server whose value is always the same: the value replaces the variable.

use super::language::{UpToVariable, first_variable};
use touchstone_import_base::directive::Directive;

/// A variable without a value at the end of an address: it had a variable, so nginx does not replace the
/// beginning of the path by that of the address.
pub const EMPTY: &str = "$empty";

/// The directives with the values of such variables in their places.
pub fn replaced(directives: &[Directive]) -> Vec<Directive> {
    directives
        .iter()
        .map(|directive| match directive.name.as_str() {
            "server" if directive.block.is_some() => in_server(directive),
            "http" => Directive { block: Some(replaced(directive.inside())), ..directive.clone() },
            _ => directive.clone(),
        })
        .collect()
}

fn in_server(server: &Directive) -> Directive {
    let mut changed = server.clone();
    // A value may have the variables that are set before it.
    for index in 0..server.inside().len() {
        let Some(directive) = changed.inside().get(index).filter(|set| is_constant(set, server)) else {
            continue;
        };
        let (name, value) = (directive.argument(0).to_string(), directive.argument(1).to_string());
        for other in changed.block.iter_mut().flatten().skip(index + 1) {
            replace(other, &name[1..], &value);
        }
    }
    changed
}

/// Whether the variable has this value for all requests of the server.
pub fn is_constant(set: &Directive, server: &Directive) -> bool {
    set.name == "set"
        && set.arguments.len() == 2
        && set.argument(0).len() > 1
        && set.argument(0).starts_with('$')
        && !set.argument(1).contains('$')
        && server.inside().iter().any(|directive| directive.place == set.place && directive.name == "set")
        && count(server, set.argument(0)) == 1
}

/// How often the variable is set.
fn count(block: &Directive, name: &str) -> usize {
    let is_it = |directive: &&Directive| directive.name == "set" && directive.argument(0) == name;
    let inside = block.inside();
    inside.iter().filter(is_it).count() + inside.iter().map(|inner| count(inner, name)).sum::<usize>()
}

fn replace(directive: &mut Directive, name: &str, value: &str) {
    let is_address = directive.name == "proxy_pass";
    for argument in &mut directive.arguments {
        let replaced = replaced_in(argument, name, value);
        let is_changed = replaced != *argument;
        *argument = replaced;
        let has_path = argument.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
        if is_address && is_changed && has_path && !argument.contains('$') {
            argument.push_str(EMPTY);
        }
    }
    for inner in directive.block.iter_mut().flatten() {
        replace(inner, name, value);
    }
}

/// A text with the value of a variable in its place.
pub(super) fn replaced_in(text: &str, name: &str, value: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(UpToVariable { plain, name: found, is_closed, rest: after }) = first_variable(rest) {
        let written = &rest[plain.len()..rest.len() - after.len()];
        out.push_str(plain);
        out.push_str(if is_closed && found == name { value } else { written });
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use crate::{parse, translate};

    #[test]
    fn values_stand_in_their_places() {
        let imported = translate(
            &parse(
                "nginx.conf",
                "server { listen 80; set $base /srv; set $public $base/public; set $twice a;\n\
                 root $public; location /a/ { alias ${public}/b/; }\n\
                 location /c/ { set $twice b; return 301 /$public_not; } }",
            )
            .unwrap(),
        );
        for line in ["root = \"/srv/public\"", "alias = \"/srv/public/b/\""] {
            assert!(imported.text.lines().any(|written| written == line), "{line}\n{}", imported.text);
        }
        let problems: Vec<&str> =
            imported.problems.iter().map(|problem| problem.directive.as_str()).collect();
        assert_eq!(problems, ["set $twice a;", "return 301 /$public_not;", "set $twice b;"], "{problems:?}");
    }
}
