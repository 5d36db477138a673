//! Translates `return`, `rewrite` and `if` to routes.

use super::common::common;
use super::flags;
use super::keys::headers;
use super::matching::Match;
use super::refused::{REFUSED_UNTIL, may_refuse};
use super::scope::Scope;
use super::site::Site;
use super::value;
use touchstone_import_base::account::Account;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::expression;
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::{check_target, toml_string, toml_strings};

/// Translates `return` and `rewrite` to routes; `within` and `location` are the location that contains them.
pub fn rewriting(
    directive: &Directive,
    within: Option<&Match>,
    location: Option<&Directive>,
    site: &Site<'_>,
    section: &mut Section,
    account: &mut Account,
) -> Option<Section> {
    let mut route = Section::new("[[site.route]]");
    let result = match directive.name.as_str() {
        "return" => keys_within(within, &mut route).and_then(|()| {
            let location = location.map_or(&[][..], Directive::inside);
            let kind = site.scope.within(location).one("default_type").map(|one| one.argument(0));
            answer(directive, kind, site, &mut route)
        }),
        _ => rewrite(directive, within, site, &mut route),
    };
    match result {
        Ok(()) => {
            account.translated(directive, &mut route);
            route.notes_first();
            Some(route)
        }
        Err(advice) => {
            account.problem(directive, section, &advice);
            None
        }
    }
}

fn keys_within(within: Option<&Match>, route: &mut Section) -> Result<(), String> {
    match within {
        Some(how) => how.keys(route),
        None => {
            route.key("path", toml_string("/"));
            Ok(())
        }
    }
}

/// `return 301 https://...`, `return 403`, `return 200 "ok"`, `return https://...`
fn answer(
    directive: &Directive,
    kind: Option<&str>,
    site: &Site<'_>,
    route: &mut Section,
) -> Result<(), String> {
    let (code, text) = match directive.argument(0).parse::<u16>() {
        Ok(code) => (code, directive.argument(1)),
        Err(_) => (302, directive.argument(0)),
    };
    match code {
        301 | 302 | 303 | 307 | 308 => redirect(code, text, true, site, route),
        444 => {
            route.note("nginx closes the connection; here the answer is 403.");
            route.key("respond", "{ status = 403 }");
            Ok(())
        }
        200..=599 => {
            if text.contains('$') {
                return Err("the text of an answer cannot contain variables".to_string());
            }
            let mut body =
                if text.is_empty() { String::new() } else { format!(", body = {}", toml_string(text)) };
            if let (Some(kind), false) = (kind.filter(|kind| kind.contains('/')), text.is_empty()) {
                body.push_str(&format!(", content_type = {}", toml_string(kind)));
            }
            route.key("respond", format!("{{ status = {code}{body} }}"));
            Ok(())
        }
        _ => Err("no such status".to_string()),
    }
}

fn redirect(
    code: u16,
    to: &str,
    drops_query: bool,
    site: &Site<'_>,
    route: &mut Section,
) -> Result<(), String> {
    let to = value::template(to, &site.facts(drops_query), &site.language())?;
    check_target(&to)?;
    let rest = to.split_once("://").map_or("", |(_, rest)| rest).replace("${host}", "").replace("$host", "");
    // A path begins with a slash.
    let end = ["/", "?", "$path", "${path}"].iter().filter_map(|begin| rest.find(begin)).min();
    if rest[..end.unwrap_or(rest.len())].contains('$') {
        return Err("the name of a server in a target has no variables except '$host'".to_string());
    }
    route.key("redirect", format!("{{ to = {}, status = {code} }}", toml_string(&to)));
    Ok(())
}

/// `rewrite EXPRESSION TO [permanent|redirect|last|break]`
fn rewrite(
    directive: &Directive,
    within: Option<&Match>,
    site: &Site<'_>,
    route: &mut Section,
) -> Result<(), String> {
    let (from, to) = (directive.argument(0), directive.argument(1));
    let moved = expression::with_slash(from, to).or_else(|| expression::slash_before_group(from, to));
    let (from, to) = moved.as_ref().map_or((from, to), |(from, to)| (from.as_str(), to.as_str()));
    match within {
        None => {}
        // A route has one pattern, which is that of the groups.
        Some(how) if how.expression().is_some() => how.conditions(route)?,
        Some(how) => how.keys(route)?,
    }
    route.key("pattern", toml_string(&expression::whole_path(from, false)?));
    // A group that is the whole path may follow a host.
    let is_whole = matches!(from, "^(.*)$" | "^(.*)" | "(.*)" | "^(.+)$" | "^(/.*)$");
    let to = &if is_whole { to.replace("$1", "$uri") } else { to.to_string() };
    match directive.argument(2) {
        "permanent" => redirect(301, to, false, site, route),
        "redirect" => redirect(302, to, false, site, route),
        _ if to.starts_with("http://") || to.starts_with("https://") => redirect(302, to, false, site, route),
        _ => {
            let mut to = value::template(to, &site.facts(false), &site.language())?;
            if to.contains('?') && !to.ends_with('?') && !to.contains("{query}") {
                // nginx appends the query of the request to that of the target.
                to.push_str("&${query}");
            }
            route.key("rewrite", format!("{{ to = {} }}", toml_string(&to)));
            Ok(())
        }
    }
}

/// Writes the condition of an `if` to a route; `false`: the `if` becomes no route, and is reported.
fn condition_keys(
    directive: &Directive,
    (location, site): (Option<&Directive>, &Site<'_>),
    route: &mut Section,
    section: &mut Section,
    account: &mut Account,
) -> bool {
    let words: Vec<String> =
        directive.arguments.iter().map(|word| word.trim_matches(['(', ')']).to_string()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
    match on_file(&words, site, location) {
        Some(true) => return true,
        Some(false) => {
            let advice = "a file was looked for when the import ran, and this has no effect now: to switch \
                          the site off later, write a route with 'respond' for all paths";
            account.without_effect(directive, section, advice);
            return false;
        }
        None => {}
    }
    match words.as_slice() {
        ["$host" | "$http_host", "=", wanted] => {
            route.entry("request_headers", "Host", toml_string(wanted));
        }
        ["$scheme", "=", wanted] if (*wanted == "https") != site.is_secure => {
            account.unneeded(directive, section, "the site has no such clients");
            return false;
        }
        ["$scheme", "=", _] => {}
        // `$https` is `on` or empty.
        ["$https", "=" | "!=", ..] | ["$https"] => {
            let is_on = matches!(words.as_slice(), ["$https"] | ["$https", "=", "on"] | ["$https", "!="]);
            if is_on != site.is_secure {
                account.unneeded(directive, section, "the site has no such clients");
                return false;
            }
        }
        ["$request_method", "=", wanted] => route.key("methods", toml_strings([wanted])),
        _ => match site.language_in(location, Some(directive)).condition(directive) {
            Ok(condition) if condition == flags::NEVER => {
                account.unneeded(directive, section, "the variable has no such value here");
                return false;
            }
            Ok(condition) => route.and_when(&condition),
            Err(advice) => {
                let warning = if may_refuse(directive) { REFUSED_UNTIL } else { "" };
                account.problem(directive, section, &format!("{warning}{advice}"));
                return false;
            }
        },
    }
    true
}

/// Whether a condition on a fixed file holds while the import runs; `None`: it is another condition.
fn on_file(words: &[&str], site: &Site<'_>, location: Option<&Directive>) -> Option<bool> {
    let [sign, file] = words else { return None };
    let scope = location.map_or_else(|| site.scope.clone(), |location| site.scope.within(location.inside()));
    let root = scope.one("root").map_or("", |root| root.argument(0)).trim_end_matches('/');
    let file = file.trim_matches(['"', '\'']);
    let file = ["$document_root", "${document_root}"]
        .iter()
        .find_map(|begin| file.strip_prefix(begin))
        .map_or_else(|| file.to_string(), |rest| format!("{root}{rest}"));
    let path = std::path::Path::new(&file);
    let found = match sign.trim_start_matches('!') {
        "-f" => path.is_file(),
        "-d" => path.is_dir(),
        "-e" | "-x" => path.exists(),
        _ => return None,
    };
    (file.starts_with('/') && !file.contains('$')).then_some(found != sign.starts_with('!'))
}

/// `if (CONDITION) { return ...; }`, or with one `rewrite`; `within` is given for one in a location, and
/// `location` is the one that contains it.
pub fn condition(
    directive: &Directive,
    within: Option<&Match>,
    location: Option<&Directive>,
    site: &Site<'_>,
    section: &mut Section,
    account: &mut Account,
) -> Option<Section> {
    let is_answer = |one: &&Directive| !matches!(one.name.as_str(), "break" | "add_header");
    let inside: Vec<&Directive> = directive.inside().iter().filter(is_answer).collect();
    let fields = Scope::new(directive.inside());
    let is_return = inside.iter().any(|one| one.name == "return");
    let [inner] = inside.as_slice() else {
        common(directive, section, account);
        return None;
    };
    let has_group =
        (1..=9).any(|number| inner.arguments.iter().any(|word| word.contains(&format!("${number}"))));
    if inner.name == "return" && has_group {
        let advice = "the groups of a condition cannot be used: write a route with 'pattern' and 'redirect'";
        account.problem(directive, section, advice);
        return None;
    }
    let mut route = Section::new("[[site.route]]");
    let place = (location, site);
    if !condition_keys(directive, place, &mut route, section, account) {
        return None;
    }
    let answered = match inner.name.as_str() {
        "return" => keys_within(within, &mut route).and_then(|()| answer(inner, None, site, &mut route)),
        "rewrite" => rewrite(inner, within, site, &mut route),
        _ => {
            common(directive, section, account);
            return None;
        }
    };
    match answered {
        Ok(()) => {
            account.translated(directive, &mut route);
            account.translated(inner, &mut route);
            if is_return && !fields.all("add_header").is_empty() {
                headers(&fields, &site.language(), false, &mut route, account);
            }
            route.notes_first();
            Some(route)
        }
        Err(advice) => {
            account.problem(directive, section, &advice);
            None
        }
    }
}
