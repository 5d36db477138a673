//! The directives of a block in the order in which Caddy runs them, which differs from the order in the file.

use super::context::{Context, NamedMatchers};
use super::matcher::Matcher;
use touchstone_import_base::directive::Directive;

/// Caddy's order of directives.
const ORDER: [&str; 38] = [
    "tracing",
    "map",
    "vars",
    "fs",
    "root",
    "log_append",
    "skip_log",
    "log_skip",
    "log_name",
    "header",
    "copy_response_headers",
    "request_body",
    "redir",
    "method",
    "rewrite",
    "uri",
    "try_files",
    "basicauth",
    "basic_auth",
    "forward_auth",
    "request_header",
    "encode",
    "push",
    "intercept",
    "templates",
    "invoke",
    "handle",
    "handle_path",
    "route",
    "abort",
    "error",
    "copy_response",
    "respond",
    "metrics",
    "reverse_proxy",
    "php_fastcgi",
    "file_server",
    "acme_server",
];

/// A directive that applies to some requests.
#[derive(Debug, Clone)]
pub struct Step<'d> {
    /// The directive.
    pub directive: &'d Directive,
    /// The requests that it applies to; an error names the part that has no counterpart.
    pub matcher: Result<Matcher, String>,
    /// The arguments after the matcher.
    pub arguments: &'d [String],
}

impl<'d> Step<'d> {
    /// The step of a directive.
    pub fn of(directive: &'d Directive, named: &NamedMatchers<'d>, context: &Context) -> Step<'d> {
        // A single path is the directory, although it begins as a matcher.
        if let ("root", [_]) = (directive.name.as_str(), directive.arguments.as_slice()) {
            return Step { directive, matcher: Ok(Matcher::default()), arguments: &directive.arguments };
        }
        match Matcher::of(directive, named, context) {
            Ok((matcher, arguments)) => Step { directive, matcher: Ok(matcher), arguments },
            Err(problem) => Step {
                directive,
                matcher: Err(problem),
                arguments: directive.arguments.get(1..).unwrap_or(&[]),
            },
        }
    }
}

impl Step<'_> {
    /// The argument with this index, or an empty text.
    pub fn argument(&self, index: usize) -> &str {
        self.arguments.get(index).map_or("", String::as_str)
    }
}

/// Whether Caddy's order has a directive of this name, so that it applies to requests.
pub fn is_step(name: &str) -> bool {
    ORDER.contains(&name)
}

/// The steps of a block. With `as_written` the order of the file is kept, as in `route`.
pub fn steps<'d>(
    block: &'d [Directive],
    named: &NamedMatchers<'d>,
    context: &Context,
    as_written: bool,
) -> Vec<Step<'d>> {
    let mut steps: Vec<Step<'d>> = block
        .iter()
        .filter(|directive| is_step(&directive.name))
        .map(|directive| Step::of(directive, named, context))
        .collect();
    if !as_written {
        steps.sort_by_key(|step| {
            let rank = ORDER.iter().position(|name| *name == step.directive.name);
            // `handle` and `handle_path` are mutually exclusive, and are sorted together.
            let rank = if step.directive.name == "handle_path" { rank.map(|rank| rank - 1) } else { rank };
            let length = step.matcher.as_ref().map_or(1, Matcher::path_length);
            // A later variable replaces an earlier one, so the narrowest is the last.
            let is_ascending = step.directive.name == "vars";
            (rank, if is_ascending { length } else { usize::MAX - length })
        });
    }
    steps
}

/// The matchers that a block and its nested blocks define.
pub fn named(block: &[Directive]) -> NamedMatchers<'_> {
    let mut all = NamedMatchers::new();
    for directive in block {
        if let Some(name) = directive.name.strip_prefix('@') {
            all.insert(name, directive);
        }
        all.extend(named(directive.inside()));
    }
    all
}
