//! What refuses requests, and the routes that take its place where it cannot be translated: nothing that
//! Apache refuses may be open here until the operator writes what that line does.

use touchstone_import_base::directive::Directive;
use touchstone_import_base::expression;
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::toml_string;

/// What is said of lines that may refuse requests.
pub const REFUSED_UNTIL: &str = "all of these requests are refused until you do this: ";

/// The status of `permanent`, `gone` or a number.
pub fn status_of(word: &str) -> Option<u16> {
    match word {
        "permanent" => Some(301),
        "temp" => Some(302),
        "seeother" => Some(303),
        "gone" => Some(410),
        number => number.parse().ok().filter(|status| (200..600).contains(status)),
    }
}

/// Whether a `RewriteRule` or `RedirectMatch` refuses requests.
pub fn is_refusal(line: &Directive) -> bool {
    match line.name.to_ascii_lowercase().as_str() {
        "rewriterule" => {
            let flags = flags(line);
            let is_error = |flag: &String| flag.starts_with("R=4") || flag.starts_with("R=5");
            forbids(&flags) || flags.iter().any(is_error)
        }
        "redirectmatch" | "redirect" => status_of(line.argument(0)).is_some_and(|status| status >= 400),
        _ => false,
    }
}

/// The route that refuses the paths with this beginning, because a line that refuses some of them was not
/// translated.
pub fn refused_until(line: &Directive, begin: &str) -> Section {
    match begin.ends_with('/') {
        true => refused(line, "path", begin),
        false => refused_pattern(line, &format!("(?i){}(?s:.*)", expression::literal(begin))),
    }
}

/// The same for the paths that an expression matches.
pub fn refused_pattern(line: &Directive, pattern: &str) -> Section {
    refused(line, "pattern", pattern)
}

fn refused(line: &Directive, key: &str, value: &str) -> Section {
    let mut route = Section::new("[[site.route]]");
    route.note(format!("{line}"));
    route.note("This line was not translated: all of these paths are refused until you write what it does,");
    route.note("and remove this route.");
    route.key(key, toml_string(value));
    route.key("respond", "{ status = 403 }");
    route
}

/// The literal text that each path which an expression matches begins with; `path` if nothing is known of it.
pub fn literal_beginning(expression: &str, path: &str) -> String {
    expression::literal_beginning(expression).unwrap_or(path).to_string()
}

/// The flags of a rule.
pub fn flags(rule: &Directive) -> Vec<String> {
    let text = rule.argument(2).trim_matches(['[', ']']);
    text.split(',').map(|flag| flag.trim().to_string()).filter(|flag| !flag.is_empty()).collect()
}

/// Whether a rule refuses clients: this server then refuses them without a look at the files.
pub fn forbids(flags: &[String]) -> bool {
    let names = ["F", "forbidden", "G", "gone", "R=403", "R=404", "R=410"];
    flags.iter().any(|flag| names.iter().any(|name| flag.eq_ignore_ascii_case(name)))
}
