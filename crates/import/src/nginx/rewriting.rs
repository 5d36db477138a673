//! Translates `return`, `rewrite` and `if` to routes.

use super::common::common;
use super::flags;
use super::matching::Match;
use super::site::Site;
use super::value;
use crate::account::Account;
use crate::directive::Directive;
use crate::expression;
use crate::output::Section;
use crate::toml_text::{toml_string, toml_strings};

/// Translates `return` and `rewrite` to routes; `within` is the location that contains them.
pub fn rewriting(
    directive: &Directive,
    within: Option<&Match>,
    site: &Site<'_>,
    section: &mut Section,
    account: &mut Account,
) -> Option<Section> {
    let mut route = Section::new("[[site.route]]");
    let result = match directive.name.as_str() {
        "return" => keys_within(within, &mut route).and_then(|()| answer(directive, site, &mut route)),
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
fn answer(directive: &Directive, site: &Site<'_>, route: &mut Section) -> Result<(), String> {
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
            let body =
                if text.is_empty() { String::new() } else { format!(", body = {}", toml_string(text)) };
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
    match within {
        None => {}
        Some(Match::Expression { .. } | Match::Inside { .. }) => {
            return Err("a route has one expression: put this one in the location".to_string());
        }
        Some(how) => how.keys(route)?,
    }
    route.key("pattern", toml_string(&expression::whole_path(directive.argument(0), false)?));
    // A group that is the whole path may follow a host.
    let is_whole = matches!(directive.argument(0), "^(.*)$" | "^(.*)" | "(.*)" | "^(.+)$" | "^(/.*)$");
    let to = &if is_whole {
        directive.argument(1).replace("$1", "$uri")
    } else {
        directive.argument(1).to_string()
    };
    match directive.argument(2) {
        "permanent" => redirect(301, to, false, site, route),
        "redirect" => redirect(302, to, false, site, route),
        _ if to.starts_with("http://") || to.starts_with("https://") => redirect(302, to, false, site, route),
        _ => {
            let to = value::template(to, &site.facts(false), &site.language())?;
            route.key("rewrite", format!("{{ to = {} }}", toml_string(&to)));
            Ok(())
        }
    }
}

/// `if (CONDITION) { return ...; }`, or with one `rewrite`; `within` is given for one in a location.
pub fn condition(
    directive: &Directive,
    within: Option<&Match>,
    site: &Site<'_>,
    section: &mut Section,
    account: &mut Account,
) -> Option<Section> {
    let words: Vec<String> =
        directive.arguments.iter().map(|word| word.trim_matches(['(', ')']).to_string()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
    let inside: Vec<&Directive> = directive.inside().iter().filter(|d| d.name != "break").collect();
    let [inner] = inside.as_slice() else {
        common(directive, section, account);
        return None;
    };
    let mut route = Section::new("[[site.route]]");
    match words.as_slice() {
        ["$host" | "$http_host", "=", wanted] => {
            route.entry("request_headers", "Host", toml_string(wanted));
        }
        ["$scheme", "=", wanted] if (*wanted == "https") != site.is_secure => {
            account.unneeded(directive, section, "the site has no such clients");
            return None;
        }
        ["$scheme", "=", _] => {}
        ["$request_method", "=", wanted] => route.key("methods", toml_strings([wanted])),
        _ => match site.language_at(Some(directive)).condition(directive) {
            Ok(condition) if condition == flags::NEVER => {
                account.unneeded(directive, section, "the variable has no such value here");
                return None;
            }
            Ok(condition) => route.key("when", toml_string(&condition)),
            Err(advice) => {
                account.problem(directive, section, &advice);
                return None;
            }
        },
    }
    let answered = match inner.name.as_str() {
        "return" => keys_within(within, &mut route).and_then(|()| answer(inner, site, &mut route)),
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
            route.notes_first();
            Some(route)
        }
        Err(advice) => {
            account.problem(directive, section, &advice);
            None
        }
    }
}
