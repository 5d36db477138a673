//! `templates`: pages with actions of Go's templates, which this server does not run. The advice says which
//! actions have counterparts in pages with directives.

use crate::directive::Directive;

/// What to do about the directive.
pub fn advice(templates: &Directive) -> String {
    let tags = templates.inside().iter().find(|line| line.name == "between");
    let (begin, end) = tags.map_or(("{{", "}}"), |line| (line.argument(0), line.argument(1)));
    format!(
        "pages with {begin} {end} are sent as they are, with what is between them: change their actions to \
         directives (docs/import.md, 'Templates of Caddy'), or keep a program that makes them"
    )
}
