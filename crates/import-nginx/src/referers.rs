//! `valid_referers`: what asks for `$invalid_referer` asks for the field `Referer` instead.

use touchstone_import_base::directive::Directive;
use touchstone_import_base::expression;

/// The directives with such conditions changed.
pub fn replaced(directives: &[Directive]) -> Vec<Directive> {
    within(directives, None, &[])
}

fn within(block: &[Directive], valid: Option<&str>, names: &[String]) -> Vec<Directive> {
    let own: Vec<String> = block
        .iter()
        .filter(|one| one.name == "server_name")
        .flat_map(|one| one.arguments.iter().cloned())
        .collect();
    let names = if own.is_empty() { names } else { &own[..] };
    let of_block =
        block.iter().find(|one| one.name == "valid_referers").and_then(|one| expression(one, names));
    let valid = of_block.as_deref().or(valid);
    let changed_directive = |directive: &Directive| {
        let mut changed = directive.clone();
        if let Some(inner) = &directive.block {
            changed.block = Some(within(inner, valid, names));
        }
        let asks = directive.name == "if"
            && directive.arguments.concat().trim_matches(['(', ')']) == "$invalid_referer";
        if let (true, Some(valid)) = (asks, valid) {
            changed.arguments = ["(", "$http_referer", "!~*", valid, ")"].map(str::to_string).to_vec();
        }
        changed
    };
    block.iter().map(changed_directive).collect()
}

/// The expression of all values that are allowed.
fn expression(directive: &Directive, names: &[String]) -> Option<String> {
    let mut values: Vec<String> = Vec::new();
    let mut servers: Vec<String> = Vec::new();
    for word in &directive.arguments {
        match word.as_str() {
            "none" => values.push("$".to_string()),
            // A value that is no URL. More is refused here: any word that begins with `h`.
            "blocked" => values.push("[^h]".to_string()),
            "server_names" => servers.extend(names.iter().filter_map(|name| server(name))),
            text => match text.strip_prefix('~') {
                Some(text) => values.push(format!("https?://.*(?:{})", expression::converted(text).ok()?)),
                None => servers.extend(server(text)),
            },
        }
    }
    if !servers.is_empty() {
        values.push(format!("https?://(?:{})", servers.join("|")));
    }
    Some(format!("^(?:{})", values.join("|")))
}

/// A name of a server, with a path or without.
fn server(text: &str) -> Option<String> {
    let (name, path) = text.find('/').map_or((text, ""), |at| text.split_at(at));
    let literal = |text: &str| expression::literal(text);
    let host = match (name.strip_prefix("*."), name.strip_prefix('.'), name.strip_suffix(".*")) {
        (Some(rest), _, _) => format!("[^/:]+\\.{}", literal(rest)),
        (None, Some(rest), _) => format!("(?:[^/:]+\\.)?{}", literal(rest)),
        (None, None, Some(rest)) => format!("{}\\.[^/:]+", literal(rest)),
        (None, None, None) => literal(name),
    };
    let is_name = !name.is_empty() && !name.starts_with('~') && !name.contains('$') && name != "_";
    let end = if path.is_empty() { "(?:/|$)".to_string() } else { literal(path) };
    is_name.then(|| format!("{host}(?::[0-9]+)?{end}"))
}

#[cfg(test)]
mod tests {
    use crate::{parse, translate};
    use touchstone_import_base::expression::matches;

    #[test]
    fn other_sites_are_refused() {
        let imported = translate(
            &parse(
                "nginx.conf",
                "server { root /srv; server_name www.example.org .example.net; location /img/ {\n\
                 valid_referers none blocked server_names *.example.com example.* ~\\.google\\. a.org/x/;\n\
                 if ($invalid_referer) { return 403; } } }",
            )
            .unwrap(),
        );
        assert!(imported.problems.is_empty(), "{:?}", imported.problems);
        let text: toml::Table = imported.text.parse().unwrap();
        let when = text["site"][0]["route"][0]["when"].as_str().unwrap();
        let expression = when.split('\'').nth(1).unwrap();
        let is_allowed = |referer: &str| matches(&format!("{expression}.*"), referer);
        for referer in [
            "",
            "---",
            "http://www.example.org",
            "HTTPS://www.example.org:8080/a",
            "https://example.net/",
            "https://a.example.net/",
            "http://shop.example.com/x",
            "http://example.info/",
            "https://www.google.de/q",
            "http://a.org/x/y",
        ] {
            assert!(is_allowed(referer), "{referer}: {expression}");
        }
        for referer in [
            "http://evil.test/",
            "http://www.example.org.evil.test/",
            "http://evil.test/www.example.org",
            "http://a.org/y/",
        ] {
            assert!(!is_allowed(referer), "{referer}: {expression}");
        }
    }
}
