//! `forward_auth`: another server decides which requests are allowed.

use super::context::{Context, name_of};
use super::origin::origin;
use super::placeholder::{names, plain, resolved};
use super::steps::Step;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::{toml_string, toml_strings};

/// The header of its table in a route.
pub const TABLE: &str = "[site.route.forward_auth]";

/// The server that decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    /// What is asked.
    pub url: String,
    /// The fields of its answer that programs and origins get.
    fields: Vec<String>,
    /// Where clients without a session are sent.
    sign_in: Option<String>,
}

impl Authority {
    /// Its table in a route.
    pub fn table(&self) -> Section {
        let mut table = Section::new(TABLE);
        table.key("url", toml_string(&self.url));
        if let Some(sign_in) = &self.sign_in {
            table.key("sign_in", toml_string(sign_in));
        }
        if !self.fields.is_empty() {
            table.key("fields", toml_strings(&self.fields));
        }
        table
    }
}

/// `forward_auth UPSTREAM { uri PATH; copy_headers NAME ... }`
///
/// # Errors
/// A part has no counterpart.
pub fn read(step: &Step<'_>, context: &Context) -> Result<Authority, String> {
    let [upstream] = step.arguments else {
        return Err("one server decides: 'url' of 'forward_auth' (docs/forward-auth.md)".to_string());
    };
    let base = origin(&plain(upstream, context)?, false)?;
    if base.starts_with("unix:") {
        return Err("'forward_auth' asks a server at an address and port".to_string());
    }
    let (mut path, mut fields, mut sign_in) = (String::new(), Vec::new(), None);
    let lines = step.directive.inside();
    for line in lines {
        match line.name.as_str() {
            "uri" => path = plain(line.argument(0), context)?,
            "copy_headers" => {
                fields.extend(line.arguments.iter().cloned());
                fields.extend(line.inside().iter().map(|inner| inner.name.clone()));
                if line.inside().iter().any(|inner| !inner.arguments.is_empty()) {
                    return Err("fields of the authority keep their names".to_string());
                }
            }
            "header_up" if is_known(line) => {}
            "handle_response" => sign_in = Some(sign_in_of(line, lines, context)?),
            name if name.starts_with('@') => {}
            other => return Err(format!("'{other}' of it has no counterpart: see docs/forward-auth.md")),
        }
    }
    if fields.iter().any(|field| field.contains('>')) {
        return Err("fields of the authority keep their names".to_string());
    }
    if !path.starts_with('/') {
        return Err("the path that is asked is missing: 'uri'".to_string());
    }
    Ok(Authority { url: format!("{base}{path}"), fields, sign_in })
}

/// Whether the server that decides gets this field anyway, or never.
fn is_known(line: &Directive) -> bool {
    let value = name_of(line.argument(1));
    match line.argument(0).to_ascii_lowercase().as_str() {
        "-connection" | "-upgrade" => true,
        "x-real-ip" | "x-forwarded-for" => {
            ["remote_host", "remote.host", "remote", "client_ip"].contains(&value.as_str())
        }
        "x-forwarded-uri" | "x-original-uri" => value == "uri",
        "x-forwarded-method" | "x-original-method" => value == "method",
        "x-forwarded-host" => value == "host" || value == "hostport",
        "x-forwarded-proto" => value == "scheme",
        _ => false,
    }
}

/// `handle_response @name { redir * TARGET }` with `@name status 401`: the page where a user signs in.
fn sign_in_of(response: &Directive, lines: &[Directive], context: &Context) -> Result<String, String> {
    let other = "an answer of the authority is sent as it is, or a 401 becomes a redirect: see 'sign_in' \
                 (docs/forward-auth.md)";
    let matcher = lines.iter().find(|line| line.name == response.argument(0)).ok_or(other)?;
    let [redirect] = response.inside() else { return Err(other.to_string()) };
    let target = match redirect.arguments.as_slice() {
        [star, target] | [star, target, _] if star == "*" => target,
        [target] | [target, _] => target,
        _ => return Err(other.to_string()),
    };
    let status = redirect.arguments.get(1..).and_then(|rest| rest.iter().find(|word| *word != target));
    let is_found = status.is_none_or(|status| status == "302" || status == "temporary");
    if matcher.arguments != ["status", "401"] || redirect.name != "redir" || !is_found {
        return Err(other.to_string());
    }
    let mut target = resolved(target, context);
    for (scheme, host, uri) in [
        ("{scheme}", "{host}", "{uri}"),
        ("{scheme}", "{hostport}", "{uri}"),
        ("{http.request.scheme}", "{http.request.host}", "{http.request.uri}"),
        ("{http.request.scheme}", "{http.request.hostport}", "{http.request.uri}"),
    ] {
        target = target.replace(&format!("{scheme}://{host}{uri}"), "{url}");
    }
    match names(&target.replace("{url}", "")).is_empty() && target.starts_with(['/', 'h']) {
        true => Ok(target),
        false => Err(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use crate::{parse, translate};

    #[test]
    fn a_page_to_sign_in() {
        let translated = |lines: &str| {
            let text = format!(
                "http://a.org {{\nforward_auth p:4180 {{\nuri /oauth2/auth\n{lines}\n}}\n\
                 reverse_proxy b:1\n}}\n"
            );
            translate(&parse("Caddyfile", &text).unwrap())
        };
        let imported = translated(
            "header_up X-Real-IP {remote_host}\ncopy_headers X-User\n@error status 401\n\
             handle_response @error {\nredir * /oauth2/sign_in?rd={scheme}://{host}{uri}\n}",
        );
        assert!(imported.problems.is_empty(), "{:?}", imported.problems);
        for line in ["url = \"http://p:4180/oauth2/auth\"", "sign_in = \"/oauth2/sign_in?rd={url}\""] {
            assert!(imported.text.lines().any(|written| written == line), "{}", imported.text);
        }
        for lines in [
            "header_up X-Key secret",
            "@e status 403\nhandle_response @e {\nredir * /in\n}",
            "@e status 401\nhandle_response @e {\nrespond 404\n}",
            "@e status 401\nhandle_response @e {\nredir * /in?u={query}\n}",
            "copy_headers {\nA>B\n}",
        ] {
            let imported = translated(lines);
            let [problem] = &imported.problems[..] else { panic!("{lines}: {:?}", imported.problems) };
            assert!(problem.advice.starts_with("all clients are refused"), "{}", problem.advice);
            let deny = "deny = [\"0.0.0.0/0\", \"::/0\"]";
            assert!(imported.text.lines().any(|written| written == deny), "{}", imported.text);
        }
    }
}
