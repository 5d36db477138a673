//! Translates `auth_request`: the origin of the location that it names decides which requests are allowed,
//! which is `forward_auth` here.
//!
//! nginx sends the authority a request inside the server, and `error_page 401` determines the answer for a
//! client without a session. This server sends the request directly, and redirects such a client to
//! `sign_in`.

use super::matching::Match;
use super::scope::Scope;
use super::site::Site;
use touchstone_import_base::account::Account;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::{toml_string, toml_strings};

/// The directives that are handled here.
pub const DIRECTIVES: [&str; 2] = ["auth_request", "auth_request_set"];

/// Authelia's path for nginx, and the one that redirects on its own.
const AUTHELIA: (&str, &str) = ("/api/authz/auth-request", "/api/authz/forward-auth");

/// The requested URL, as configurations write it.
const REQUESTED: [&str; 7] = [
    "$scheme://$http_host$request_uri",
    "$scheme://$host$request_uri",
    "$scheme://$server_name$request_uri",
    "https://$http_host$request_uri",
    "https://$host$request_uri",
    "https://$server_name$request_uri",
    "$request_uri",
];

/// Writes the authority that decides. `own` has the directives of the site or location, and `scope` also
/// those of the blocks around it.
pub fn forward_auth(
    own: &Scope<'_>,
    scope: &Scope<'_>,
    site: &Site<'_>,
    section: &mut Section,
    account: &mut Account,
) {
    let Some(directive) = own.one("auth_request") else {
        for set in own.all("auth_request_set") {
            account.problem(set, section, "write it beside the 'auth_request' that it belongs to");
        }
        return;
    };
    let header = if section.is_site() { "[site.forward_auth]" } else { "[site.route.forward_auth]" };
    if section.has_section(header) {
        return account.problem(directive, section, "one authority decides for a route");
    }
    let mut table = Section::new(header);
    if directive.argument(0) == "off" {
        account.translated(directive, &mut table);
        table.key("url", toml_string("off"));
        return section.push(table);
    }
    let (url, servers) = match authority(directive.argument(0), site) {
        Ok(found) => found,
        Err(advice) => {
            let advice = format!("all requests are refused until you write 'forward_auth': {advice}");
            account.problem(directive, section, &advice);
            return section.key("respond", "{ status = 503 }");
        }
    };
    account.translated(directive, &mut table);
    servers.into_iter().for_each(|server| account.translated(server, &mut table));
    let pages: Vec<&Directive> =
        scope.all("error_page").into_iter().filter(|page| is_sign_in(page)).collect();
    let redirects =
        pages.iter().find(|page| source(scope, page.argument(page.arguments.len() - 1)).is_some());
    match url.strip_suffix(AUTHELIA.0).filter(|_| redirects.is_some()) {
        Some(base) => {
            table.note("This address of Authelia answers with the redirect that 'error_page' made.");
            table.key("url", toml_string(&format!("{base}{}", AUTHELIA.1)));
            redirects.iter().for_each(|page| account.translated(page, &mut table));
        }
        None => {
            table.key("url", toml_string(&url));
            pages.iter().for_each(|page| sign_in(page, site, &mut table, account));
        }
    }
    passed_fields(scope, &mut table, account);
    section.push(table);
}

/// The URL of the authority, and the server of an `upstream` that it names.
fn authority<'d>(question: &str, site: &Site<'d>) -> Result<(String, Vec<&'d Directive>), String> {
    if question.contains('$') {
        return Err("its address has no variables".to_string());
    }
    let path = question.split('?').next().unwrap_or_default();
    let (how, location) = location_of(path, site).ok_or("the location that it names does not exist")?;
    let pass = location.inside().iter().rfind(|inner| inner.name == "proxy_pass");
    let pass = pass.ok_or("the location that it names has no 'proxy_pass'")?.argument(0);
    let (scheme, rest) =
        pass.split_once("://").filter(|_| !pass.contains('$')).ok_or("an address has no variables")?;
    let (host, target) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let servers = site.scope.upstream(host).unwrap_or_default();
    let address = match servers.as_slice() {
        [] => host,
        [server] => server.argument(0),
        _ => return Err("one server decides, not all of an 'upstream'".to_string()),
    };
    if address.starts_with("unix:") {
        return Err("the authority must have an address and a port".to_string());
    }
    let address = address.replace("localhost:", "127.0.0.1:");
    let target_path = match (target, how) {
        ("", _) => question.to_string(),
        (target, Match::Prefix { path, .. }) => format!("{target}{}", &question[path.len()..]),
        (target, _) => target.to_string(),
    };
    Ok((format!("{scheme}://{address}{target_path}"), servers))
}

/// The location that a request inside the server for this path gets to.
fn location_of<'d>(path: &str, site: &Site<'d>) -> Option<(Match, &'d Directive)> {
    let matching = site.locations().filter_map(|location| match Match::of(location) {
        Match::Exact(exact) if exact == path => Some((usize::MAX, Match::Exact(exact), location)),
        Match::Prefix { path: prefix, is_first } if path.starts_with(&prefix) => {
            Some((prefix.len(), Match::Prefix { path: prefix, is_first }, location))
        }
        _ => None,
    });
    matching.max_by_key(|(length, ..)| *length).map(|(_, how, location)| (how, location))
}

/// Whether requests inside the server use this location.
pub fn is_question(location: &Directive, site: &Site<'_>) -> bool {
    questions(site.server.inside()).iter().any(|path| {
        let found = location_of(path.split('?').next().unwrap_or_default(), site);
        // It may be a copy, and several locations may be on one line.
        found.is_some_and(|(_, found)| found.place == location.place && found.arguments == location.arguments)
    })
}

/// The paths of all questions of a block.
fn questions(block: &[Directive]) -> Vec<&str> {
    let own = block.iter().filter(|one| one.name == "auth_request").map(|one| one.argument(0));
    own.chain(block.iter().flat_map(|one| questions(one.inside()))).filter(|path| *path != "off").collect()
}

/// Whether this block, or one inside it, asks the authority about requests.
pub fn asks(block: &[Directive]) -> bool {
    !questions(block).is_empty()
}

/// A location of questions without the directives that only drop the body of the request.
pub fn without_body(location: &Directive, route: &mut Section, account: &mut Account) -> Directive {
    let mut whole = location.clone();
    whole.block.get_or_insert_default().retain(|inner| {
        let is_of_body = inner.name == "proxy_pass_request_body"
            || inner.name == "proxy_set_header" && inner.argument(0).eq_ignore_ascii_case("content-length");
        if is_of_body {
            account.unneeded(inner, route, "the authority is asked without the body of the request");
        }
        !is_of_body
    });
    whole
}

/// A location inside the server that only sends requests to the authority: 404 for clients, as in nginx.
pub fn inner_question(location: &Directive, route: &mut Section, account: &mut Account) {
    for inner in location.inside() {
        match inner.name.as_str() {
            "internal" | "proxy_pass" => account.translated(inner, route),
            "proxy_set_header" => {
                account.unneeded(inner, route, "the authority gets the fields of docs/forward-auth.md");
            }
            name if name.starts_with("proxy_") => {
                account.unneeded(
                    inner,
                    route,
                    "see 'timeout', 'send' and 'ca_certificate' of 'forward_auth'",
                );
            }
            _ => super::common::common(inner, route, account),
        }
    }
    route.key("respond", "{ status = 404 }");
}

/// Whether an `error_page` is for requests that the authority refuses with 401 only.
pub fn is_sign_in(page: &Directive) -> bool {
    let statuses = page.arguments.split_last().map_or(&[][..], |(_, statuses)| statuses);
    statuses.first().is_some_and(|first| first == "401")
        && statuses[1..].iter().all(|other| other.starts_with('='))
}

/// `error_page 401`: where a client is sent.
fn sign_in(page: &Directive, site: &Site<'_>, table: &mut Section, account: &mut Account) {
    let target = page.argument(page.arguments.len() - 1);
    let place = if let Some(name) = target.strip_prefix('@') {
        let named = site.locations().find(|location| location.argument(0).strip_prefix('@') == Some(name));
        let answer = named.and_then(|named| match named.inside() {
            [only] if only.name == "return" => Some((named, only)),
            _ => None,
        });
        let Some((named, only)) = answer else {
            return account.problem(page, table, "the location that it names must only 'return' an address");
        };
        account.translated(named, table);
        account.translated(only, table);
        only.arguments.last().map(|url| requested(url)).unwrap_or_default()
    } else if target.starts_with('/') {
        table.note("nginx answers with this page in place. Here the client is redirected to it.");
        let sign = if target.contains('?') { '&' } else { '?' };
        requested(&format!("{target}{sign}rd=$request_uri"))
    } else {
        requested(target)
    };
    if place.contains('$') || place.is_empty() {
        return account.problem(
            page,
            table,
            "'{url}' is the only variable of 'sign_in' (docs/forward-auth.md)",
        );
    }
    account.translated(page, table);
    table.key("sign_in", toml_string(&place));
}

/// An address with `{url}` where it has the requested URL.
fn requested(address: &str) -> String {
    let begin = ["$scheme://$http_host/", "$scheme://$host/", "https://$http_host/", "https://$host/"];
    let address = match begin.iter().find_map(|begin| address.strip_prefix(begin)) {
        Some(path) => format!("/{path}"),
        None => address.to_string(),
    };
    REQUESTED.iter().fold(address, |address, url| address.replace(url, "{url}"))
}

/// The field of the authority's answer that a variable has; `None`: it is another variable.
fn source(scope: &Scope<'_>, text: &str) -> Option<String> {
    let set = scope.all("auth_request_set").into_iter().find(|set| set.argument(0) == text)?;
    let field = set.argument(1).strip_prefix("$upstream_http_")?;
    let words: Vec<String> = field
        .split('_')
        .map(|word| {
            let (first, rest) = word.split_at_checked(1).unwrap_or((word, ""));
            first.to_ascii_uppercase() + rest
        })
        .collect();
    Some(words.join("-"))
}

/// What becomes of a field or variable whose value is from the authority's answer.
pub enum FromAuthority {
    /// `fields` passes it on.
    Field,
    /// It is the name of the user.
    User,
    /// It has another name than the authority's field.
    Renamed(String),
}

/// What becomes of a field, or of a CGI variable, with this value; `None`: the value is not the authority's.
pub fn from_authority(scope: &Scope<'_>, name: &str, text: &str) -> Option<FromAuthority> {
    let field = source(scope, text)?;
    let same = name.strip_prefix("HTTP_").unwrap_or(name).replace('_', "-");
    Some(match () {
        () if same.eq_ignore_ascii_case(&field) => FromAuthority::Field,
        () if user(scope).is_some_and(|user| user == field) => FromAuthority::User,
        () => FromAuthority::Renamed(field),
    })
}

/// Whether the cookies of the authority's answer are added to that of the client.
pub fn is_of_cookies(scope: &Scope<'_>, name: &str, text: &str) -> bool {
    name.eq_ignore_ascii_case("set-cookie") && source(scope, text).is_some_and(|field| field == "Set-Cookie")
}

/// The directives that send values to origins and programs.
const VALUE_DIRECTIVES: [&str; 4] = ["proxy_set_header", "fastcgi_param", "scgi_param", "uwsgi_param"];

/// The names and values that origins and programs get in the innermost block and the blocks in it.
fn given<'d>(scope: &Scope<'d>) -> Vec<(&'d str, &'d str)> {
    fn within<'d>(block: &'d [Directive], given: &mut Vec<(&'d str, &'d str)>) {
        for one in block {
            if VALUE_DIRECTIVES.contains(&one.name.as_str()) {
                given.push((one.argument(0), one.argument(1)));
            }
            within(one.inside(), given);
        }
    }
    let all = VALUE_DIRECTIVES.iter().flat_map(|name| scope.all(name));
    let mut given: Vec<(&str, &str)> = all.map(|one| (one.argument(0), one.argument(1))).collect();
    within(scope.innermost(), &mut given);
    given
}

/// The field that names the user: that of `REMOTE_USER`, or the first one that gets another name.
fn user(scope: &Scope<'_>) -> Option<String> {
    let given: Vec<(&str, String)> =
        given(scope).into_iter().filter_map(|(name, text)| Some((name, source(scope, text)?))).collect();
    let is_user = |(name, _): &&(&str, String)| *name == "REMOTE_USER";
    let is_renamed =
        |(name, field): &&(&str, String)| field.contains("User") && !name.eq_ignore_ascii_case(field);
    given.iter().find(is_user).or_else(|| given.iter().find(is_renamed)).map(|(_, field)| field.clone())
}

/// Writes `fields` and `user`: what origins and programs get from the authority's answer.
fn passed_fields(scope: &Scope<'_>, table: &mut Section, account: &mut Account) {
    let given = given(scope);
    let mut fields = Vec::new();
    for set in scope.all("auth_request_set") {
        let variable = set.argument(0);
        match source(scope, variable).as_deref() {
            Some("Set-Cookie") => account.unneeded(set, table, "cookies of the authority reach the client"),
            Some(_) => {
                account.translated(set, table);
                let passes = |(name, text): &(&str, &str)| {
                    *text == variable
                        && matches!(from_authority(scope, name, text), Some(FromAuthority::Field))
                };
                if given.iter().any(passes) {
                    fields.extend(source(scope, variable));
                }
            }
            None => account.problem(set, table, "only fields of the authority's answer can be passed on"),
        }
    }
    if !fields.is_empty() {
        table.key("fields", toml_strings(fields));
    }
    if let Some(user) = user(scope) {
        table.key("user", toml_string(&user));
    }
}

#[cfg(test)]
mod tests {
    use crate::{parse, translate};
    use touchstone_import_base::Imported;

    fn imported(server: &str) -> Imported {
        translate(&parse("nginx.conf", &format!("server {{ root /srv; {server} }}")).unwrap())
    }

    fn keys(imported: &Imported) -> Vec<&str> {
        imported.text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
    }

    #[test]
    fn oauth2_proxy_as_its_guide_has_it() {
        let imported = imported(
            "location /oauth2/ { proxy_pass http://127.0.0.1:4180; proxy_set_header Host $host; }\n\
             location = /oauth2/auth { proxy_pass http://127.0.0.1:4180; proxy_set_header Host $host;\n\
             proxy_set_header X-Forwarded-Uri $request_uri;\n\
             proxy_set_header Content-Length \"\"; proxy_pass_request_body off; }\n\
             location / { auth_request /oauth2/auth; error_page 401 = @oauth2_signin;\n\
             auth_request_set $user $upstream_http_x_auth_request_user;\n\
             auth_request_set $email $upstream_http_x_auth_request_email;\n\
             proxy_set_header X-User $user; proxy_set_header X-Auth-Request-Email $email;\n\
             auth_request_set $auth_cookie $upstream_http_set_cookie; add_header Set-Cookie $auth_cookie;\n\
             proxy_pass http://backend:8080; }\n\
             location @oauth2_signin { return 302 /oauth2/sign_in?rd=$scheme://$host$request_uri; }",
        );
        assert!(imported.problems.is_empty(), "{:?}\n{}", imported.problems, imported.text);
        let keys = keys(&imported).join("\n");
        for expected in [
            "[site.route.forward_auth]\nurl = \"http://127.0.0.1:4180/oauth2/auth\"\n\
             sign_in = \"/oauth2/sign_in?rd={url}\"\nfields = [\"X-Auth-Request-Email\"]\n\
             user = \"X-Auth-Request-User\"",
            "set = { X-User = \"${user}\" }",
        ] {
            assert!(keys.contains(expected), "{expected}\n{}", imported.text);
        }
    }

    #[test]
    fn authelia_redirects_by_itself() {
        let imported = imported(
            "location /internal/authelia/authz { internal;\n\
             proxy_pass http://127.0.0.1:9091/api/authz/auth-request;\n\
             proxy_set_header X-Original-URL $scheme://$http_host$request_uri;\n\
             proxy_set_header Content-Length \"\"; proxy_pass_request_body off; }\n\
             auth_request /internal/authelia/authz;\n\
             auth_request_set $user $upstream_http_remote_user;\n\
             auth_request_set $redirection_url $upstream_http_location;\n\
             error_page 401 =302 $redirection_url;\n\
             location / { proxy_set_header Remote-User $user; proxy_pass http://backend; }\n\
             location /public/ { auth_request off; }\n\
             location = /health { return 200; }",
        );
        assert!(imported.problems.is_empty(), "{:?}\n{}", imported.problems, imported.text);
        let keys = keys(&imported).join("\n");
        for expected in [
            "url = \"http://127.0.0.1:9091/api/authz/forward-auth\"",
            "fields = [\"Remote-User\"]",
            "path = \"/internal/authelia/authz**\"\nrespond = { status = 404 }",
            "path = \"/public/\"\n[site.route.forward_auth]\nurl = \"off\"",
            "path = \"/health\"\nrespond = { status = 200 }",
        ] {
            assert!(keys.contains(expected), "{expected}\n{}", imported.text);
        }
        assert_eq!(keys.matches("url = \"off\"").count(), 2, "{}", imported.text);
    }

    #[test]
    fn nothing_is_allowed_where_no_authority_is_known() {
        for (server, advice) in [
            ("location /a/ { auth_request /auth; proxy_pass http://a; }", "does not exist"),
            ("location = /auth { return 200; } location / { auth_request /auth; }", "has no 'proxy_pass'"),
            ("location = /auth { proxy_pass http://$x; } location / { auth_request /auth; }", "no variables"),
            (
                "location = /auth { proxy_pass http://unix:/run/a:/x; } location / { auth_request /auth; }",
                "address and a port",
            ),
        ] {
            let imported = imported(server);
            let is_told = imported.problems.iter().any(|problem| {
                problem.advice.starts_with("all requests are refused") && problem.advice.contains(advice)
            });
            assert!(is_told, "{advice}: {:?}", imported.problems);
            assert!(keys(&imported).contains(&"respond = { status = 503 }"), "{}", imported.text);
        }
    }

    #[test]
    fn other_locations_of_a_line_are_no_questions() {
        let imported = imported(
            "location = /auth { proxy_pass http://10.0.0.1:9; } location /a/ { auth_request /auth; \
             proxy_pass http://b; proxy_set_header Content-Length \"\"; }",
        );
        assert!(keys(&imported).contains(&"remove = [\"Content-Length\"]"), "{}", imported.text);
    }

    #[test]
    fn questions_get_to_the_path_that_nginx_asks() {
        for (location, expected) in [
            ("location = /auth { proxy_pass http://10.0.0.1:9; }", "http://10.0.0.1:9/auth"),
            ("location = /auth { proxy_pass http://localhost:9/check; }", "http://127.0.0.1:9/check"),
            ("location /auth { proxy_pass http://10.0.0.1/check; }", "http://10.0.0.1/check"),
            ("location / { proxy_pass http://10.0.0.1/base/; }", "http://10.0.0.1/base/auth"),
        ] {
            let imported = imported(&format!("{location} location /a/ {{ auth_request /auth; }}"));
            let url = format!("url = \"{expected}\"");
            assert!(keys(&imported).contains(&url.as_str()), "{url}\n{}", imported.text);
        }
    }
}
