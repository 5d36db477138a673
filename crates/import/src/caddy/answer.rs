//! The action of a route: another server, PHP, files, a redirect, another path or a fixed answer.

use super::context::{Context, name_of};
use super::placeholder::{plain, template, text};
use super::rewrite::{self, Target};
use super::routing::{Change, ChangeKind, Level, Routing};
use super::steps::Step;
use crate::directive::Directive;
use crate::output::Section;
use crate::toml_text::{toml_string, toml_strings};

/// Writes the action into the route.
///
/// # Errors
/// The action has no counterpart, so the route cannot be written.
pub fn write<'d>(
    step: &Step<'d>,
    level: &Level<'d>,
    changes: &[&Change<'d>],
    context: &Context,
    routing: &mut Routing<'_, 'd>,
    route: &mut Section,
) -> Result<(), String> {
    match step.directive.name.as_str() {
        "redir" => redirect(step, context, route),
        "rewrite" => rewrite::write(step, context, route),
        "respond" | "error" | "abort" => respond(step, context, routing, route),
        "reverse_proxy" => proxy(step, level, changes, context, routing, route),
        "php_fastcgi" => php(step, changes, context, routing, route),
        _ => files(step, level, changes, context, routing, route),
    }
}

/// `redir TO [CODE]`
fn redirect(step: &Step<'_>, context: &Context, route: &mut Section) -> Result<(), String> {
    let code = plain(step.argument(1), context)?;
    let status = match code.as_str() {
        "" | "temporary" => 302,
        "permanent" => 301,
        "html" => return Err("write the redirecting page as a file of the site".to_string()),
        code => match code.parse::<u16>() {
            Ok(code @ (301 | 302 | 303 | 307 | 308)) => code,
            _ => return Err("a redirect has the status 301, 302, 303, 307 or 308".to_string()),
        },
    };
    let to = template(step.argument(0), context, false)?;
    route.key("redirect", format!("{{ to = {}, status = {status} }}", toml_string(&to)));
    Ok(())
}

/// `respond [BODY] [STATUS]`, `error [MESSAGE] STATUS`, `abort`
fn respond(
    step: &Step<'_>,
    context: &Context,
    routing: &mut Routing<'_, '_>,
    route: &mut Section,
) -> Result<(), String> {
    let name = step.directive.name.as_str();
    if name == "abort" {
        route.note("Caddy closes the connection; here the answer is 403.");
        route.key("respond", "{ status = 403 }");
        return Ok(());
    }
    let in_block = |name: &str| step.directive.inside().iter().find(|line| line.name == name);
    let (mut body, mut status) = ("", if name == "error" { 500 } else { 200 });
    match step.arguments {
        [] => {}
        [one] => match one.parse::<u16>() {
            Ok(code @ 100..=999) => status = code,
            _ => body = one,
        },
        [text, code, ..] => {
            body = text;
            let code = plain(code, context)?;
            status = code.parse().map_err(|_| format!("'{code}' is not a status"))?;
        }
    }
    if let Some(line) = in_block("body") {
        body = line.argument(0);
    }
    if !(200..600).contains(&status) {
        return Err("an answer has a status from 200 to 599".to_string());
    }
    let body = match plain(body, context) {
        // What it forbids stays forbidden, without its text.
        Err(advice) if status >= 400 => {
            routing.problem(step.directive, &format!("the status is sent without the text: {advice}"));
            String::new()
        }
        other => other?,
    };
    let body = match body.as_str() {
        // Caddy uses the text of an error only in its log and its error handlers.
        _ if name == "error" => String::new(),
        "" => String::new(),
        body => format!(", body = {}", toml_string(body)),
    };
    route.key("respond", format!("{{ status = {status}{body} }}"));
    Ok(())
}

/// `reverse_proxy UPSTREAM ...`
fn proxy<'d>(
    step: &Step<'d>,
    level: &Level<'d>,
    changes: &[&Change<'d>],
    context: &Context,
    routing: &mut Routing<'_, 'd>,
    route: &mut Section,
) -> Result<(), String> {
    let mut table = Section::new("[site.route.proxy]");
    let mut forward = Section::new("[site.route.proxy.forward]");
    let mut check = Section::new("[site.route.proxy.check]");
    let mut tls = Section::new("[site.route.proxy.tls]");
    let mut upstreams: Vec<String> = step.arguments.to_vec();
    let mut removed: Vec<String> = Vec::new();
    for change in changes {
        match &change.what {
            ChangeKind::OriginField(name, Some(value)) => match text(value, context) {
                Ok(value) => forward.entry("set", name, toml_string(&value)),
                Err(advice) => routing.problem(change.directive, &advice),
            },
            ChangeKind::OriginField(name, None) => removed.push(name.clone()),
            ChangeKind::StripPrefix(prefix) => table.key("strip_prefix", toml_string(prefix)),
            ChangeKind::TryFiles(files) => route.key("try_files", toml_strings(tried(files)?)),
            _ => {}
        }
    }
    if !level.stripped.is_empty() {
        table.key("strip_prefix", toml_string(&level.stripped));
    }
    let below = match rewrite::target(changes, level, context)? {
        None => String::new(),
        Some(Target::Below(path)) => path,
        Some(Target::Path(path)) => {
            let only = rewrite::only_path(step, level).filter(|_| level.stripped.is_empty());
            let (before, after) = only.and_then(|only| rewrite::beginnings(&only, &path)).ok_or(
                "only the beginning of a path can be another one for an origin: write a route with 'rewrite', \
                 and one for the new path",
            )?;
            if !before.is_empty() {
                table.key("strip_prefix", toml_string(&before));
            }
            after
        }
    };
    let mut is_tls = false;
    for line in step.directive.inside() {
        table.note(line.to_string());
        match (line.name.as_str(), line.argument(0)) {
            ("to", _) => upstreams.extend(line.arguments.iter().cloned()),
            ("header_up", _) => match header_up(line, context, &mut removed, &mut forward, &mut table) {
                Ok(()) => {}
                Err(advice) => routing.problem(line, &advice),
            },
            ("header_down", name) => {
                let (name, value) = match name.strip_prefix('-') {
                    Some(name) => (name, ""),
                    None => (name.trim_start_matches(['+', '?', '>']), line.argument(1)),
                };
                match text(value, context) {
                    Ok(value) if line.arguments.len() <= 2 => {
                        route.entry("headers", name, toml_string(&value))
                    }
                    _ => routing.problem(line, "a field of an answer has one fixed value"),
                }
            }
            ("lb_policy", policy) => {
                let hash_by = line.argument(1);
                match policy {
                    "round_robin" | "random" | "weighted_round_robin" => {
                        table.key("balance", toml_string("round_robin"));
                    }
                    "least_conn" => table.key("balance", toml_string("least_requests")),
                    "ip_hash" | "client_ip_hash" => hash(&mut table, "client"),
                    "uri_hash" => hash(&mut table, "path"),
                    "header" => hash(&mut table, &format!("field:{hash_by}")),
                    "cookie" if !hash_by.is_empty() => hash(&mut table, &format!("cookie:{hash_by}")),
                    _ => routing.problem(line, "see 'balance' of 'proxy' (docs/proxy.md)"),
                }
            }
            ("health_uri" | "health_path", path) => check.key("path", toml_string(path)),
            ("health_interval" | "health_timeout", time) => match duration(time) {
                Some(time) => check.key(&line.name["health_".len()..], toml_string(&time)),
                None => routing.problem(line, "it is not a time"),
            },
            ("transport", "http") => is_tls |= transport(line, &mut table, &mut tls, routing),
            ("flush_interval" | "buffer_requests" | "buffer_responses" | "stream_timeout", _) => {}
            ("lb_try_duration" | "lb_try_interval" | "lb_retries", _) => {
                routing.problem(line, "use 'retry' of 'proxy' to repeat requests (docs/proxy.md)");
            }
            ("trusted_proxies", _) => routing.problem(line, "see [proxies] (docs/access.md)"),
            _ => routing.problem(line, "see docs/proxy.md"),
        }
    }
    let mut origins = Vec::new();
    for upstream in &upstreams {
        let address = plain(upstream, context)?;
        if address.is_empty() && upstreams.len() == 1 {
            route.note("As in Caddy, there is no server for these requests.");
            route.key("respond", "{ status = 502 }");
            return Ok(());
        }
        let origin = origin(&address, is_tls)?;
        if origin.starts_with("unix:") && !below.is_empty() {
            return Err("the path for an origin at a socket is not changed".to_string());
        }
        origins.push(format!("{origin}{below}"));
    }
    match origins.as_slice() {
        [] => return Err("it names no upstream".to_string()),
        [one] => table.key("to", toml_string(one)),
        several => table.key("to", toml_strings(several)),
    }
    if upstreams.iter().any(|upstream| upstream.starts_with("h2c://")) {
        table.key("version", toml_string("2"));
    }
    if !removed.is_empty() {
        forward.key("remove", toml_strings(&removed));
    }
    for section in [forward, check, tls] {
        if !section.is_empty() {
            table.push(section);
        }
    }
    route.push(table);
    Ok(())
}

fn hash(table: &mut Section, by: &str) {
    table.key("balance", toml_string("hash"));
    table.key("hash_by", toml_string(by));
}

fn header_up(
    line: &Directive,
    context: &Context,
    removed: &mut Vec<String>,
    forward: &mut Section,
    table: &mut Section,
) -> Result<(), String> {
    let name = line.argument(0);
    if let Some(name) = name.strip_prefix('-') {
        removed.push(name.to_string());
        return Ok(());
    }
    let (name, value) = (name.trim_start_matches('+'), line.argument(1));
    match (name.to_ascii_lowercase().as_str(), name_of(value).as_str()) {
        ("x-real-ip" | "x-forwarded-for", "remote_host" | "remote.host" | "remote" | "client_ip")
        | ("x-forwarded-proto", "scheme")
        | ("x-forwarded-host", "host" | "hostport")
            if value.starts_with('{') =>
        {
            table.note("(not needed: origins get the client's address, scheme and host)");
        }
        ("host", "host" | "hostport") if value.starts_with('{') => {}
        ("host", name) if name.contains("upstream") => table.key("host", toml_string("origin")),
        ("host", _) => {
            return Err(
                "an origin gets the name that the client asks for, or its own: 'host' of 'proxy'".to_string()
            );
        }
        ("connection" | "upgrade", _) => table.note("(not needed: WebSocket passes)"),
        _ if line.arguments.len() == 2 => {
            forward.entry("set", name, toml_string(&text(value, context)?));
        }
        _ => return Err("a field for an origin is set; search and replace is not supported".to_string()),
    }
    Ok(())
}

/// `transport http { ... }`; returns whether the origins use TLS.
fn transport(
    line: &Directive,
    table: &mut Section,
    tls: &mut Section,
    routing: &mut Routing<'_, '_>,
) -> bool {
    let mut is_tls = false;
    for inner in line.inside() {
        match (inner.name.as_str(), inner.argument(0)) {
            ("tls", _) => is_tls = true,
            ("tls_insecure_skip_verify", _) => {
                is_tls = true;
                tls.key("insecure", true);
            }
            ("tls_server_name", name) => tls.key("server_name", toml_string(name)),
            ("tls_trusted_ca_certs", file) => tls.key("authorities", toml_string(file)),
            ("versions", "h2c") => table.key("version", toml_string("2")),
            ("versions", "3" | "h3") => table.key("version", toml_string("3")),
            ("versions", _) => table.key("version", toml_string("auto")),
            ("dial_timeout", time) if duration(time).is_some() => {
                table.key("connect_timeout", toml_string(&duration(time).unwrap_or_default()));
            }
            ("response_header_timeout", time) if duration(time).is_some() => {
                table.key("response_timeout", toml_string(&duration(time).unwrap_or_default()));
            }
            ("keepalive" | "keepalive_idle_conns" | "read_buffer" | "write_buffer" | "compression", _) => {}
            _ => routing.problem(inner, "see docs/proxy.md"),
        }
    }
    is_tls
}

/// `localhost:3000`, `https://host`, `unix//run/app.sock`, `h2c://host:port`, `:8080`
///
/// # Errors
/// The address has no counterpart.
pub fn origin(upstream: &str, is_tls: bool) -> Result<String, String> {
    if upstream.contains('{') {
        return Err("an origin is an address without placeholders".to_string());
    }
    if let Some(socket) = upstream.strip_prefix("unix/") {
        return Ok(format!("unix:{socket}"));
    }
    if upstream.contains("://") {
        return Ok(upstream.replace("h2c://", "http://").trim_end_matches('/').to_string());
    }
    if upstream.contains('/') {
        return Err("an origin is an address with a port, and has no path in Caddy".to_string());
    }
    if upstream.rsplit(':').next().is_some_and(|ports| ports.contains('-')) {
        return Err("list each port separately".to_string());
    }
    let is_port = upstream.strip_prefix(':').is_some();
    let host = if is_port { format!("127.0.0.1{upstream}") } else { upstream.to_string() };
    let host = if host.contains(':') { host } else { format!("{host}:{}", if is_tls { 443 } else { 80 }) };
    Ok(format!("{}://{host}", if is_tls { "https" } else { "http" }))
}

/// `php_fastcgi ADDRESS`
fn php<'d>(
    step: &Step<'d>,
    changes: &[&Change<'d>],
    context: &Context,
    routing: &mut Routing<'_, 'd>,
    route: &mut Section,
) -> Result<(), String> {
    if changes.iter().any(|change| matches!(change.what, ChangeKind::Rewrite(_))) {
        return Err(
            "the path for PHP is not rewritten in a block for some paths; see docs/php.md".to_string()
        );
    }
    let mut table = Section::new("[site.route.php]");
    let mut front = Some("/index.php".to_string());
    let backends: Vec<String> = step
        .arguments
        .iter()
        .map(|address| Ok(backend(&plain(address, context)?)))
        .collect::<Result<_, String>>()?;
    if backends.is_empty() {
        return Err("it names no address".to_string());
    }
    table.key("backends", toml_strings(&backends));
    for change in changes {
        match &change.what {
            ChangeKind::TryFiles(files) => front = front_controller(files),
            ChangeKind::Root(root) => table.key("document_root", toml_string(&plain(root, context)?)),
            _ => {}
        }
    }
    for line in step.directive.inside() {
        table.note(line.to_string());
        match (line.name.as_str(), line.argument(0)) {
            ("root", root) => table.key("document_root", toml_string(&plain(root, context)?)),
            ("index", "off") => front = None,
            ("index", name) => table.key("index", toml_strings([name, "index.html"])),
            ("try_files", _) => front = front_controller(&line.arguments),
            ("env", name) => match plain(line.argument(1), context) {
                Ok(value) => table.entry("variables", name, toml_string(&value)),
                Err(advice) => routing.problem(line, &advice),
            },
            ("read_timeout", time) if duration(time).is_some() => {
                table.key("first_byte_timeout", toml_string(&duration(time).unwrap_or_default()));
            }
            ("dial_timeout", time) if duration(time).is_some() => {
                table.key("connect_timeout", toml_string(&duration(time).unwrap_or_default()));
            }
            ("split" | "resolve_root_symlink" | "capture_stderr" | "write_timeout", _) => {}
            _ => routing.problem(line, "see docs/php.md"),
        }
    }
    if let Some(front) = front {
        table.key("front_controller", toml_string(&front));
    }
    route.push(table);
    Ok(())
}

fn backend(address: &str) -> String {
    match address.strip_prefix("unix/") {
        Some(socket) => format!("unix:{socket}"),
        None => address.replace("localhost:", "127.0.0.1:"),
    }
}

/// The script that answers when no file does.
fn front_controller(files: &[String]) -> Option<String> {
    let last = files.last()?.split(['?', '{']).next()?;
    let last = if last.starts_with('/') { last.to_string() } else { format!("/{last}") };
    last.ends_with(".php").then_some(last)
}

/// `file_server`
fn files<'d>(
    step: &Step<'d>,
    level: &Level<'d>,
    changes: &[&Change<'d>],
    context: &Context,
    routing: &mut Routing<'_, 'd>,
    route: &mut Section,
) -> Result<(), String> {
    let mut root = level.root.clone();
    for change in changes {
        match &change.what {
            ChangeKind::Root(other) => root = Some(other.clone()),
            ChangeKind::TryFiles(files) => route.key("try_files", toml_strings(tried(files)?)),
            _ => {}
        }
    }
    let mut is_listed = step.arguments.iter().any(|argument| argument == "browse");
    for line in step.directive.inside() {
        route.note(line.to_string());
        match line.name.as_str() {
            "root" => root = Some(line.argument(0).to_string()),
            "browse" => is_listed = true,
            "index" => route.key("index", toml_strings(&line.arguments)),
            "precompressed" => {}
            "hide" => {
                routing.problem(line, "write a route with 'respond = { status = 404 }' for these names")
            }
            _ => routing.problem(line, "see docs/content.md"),
        }
    }
    if is_listed {
        route.key("listing", toml_string("html"));
    }
    let prefix = changes.iter().find_map(|change| match &change.what {
        ChangeKind::StripPrefix(prefix) => Some(prefix.as_str()),
        _ => None,
    });
    let prefix = prefix.unwrap_or(&level.stripped);
    let mut root = root.map(|root| plain(&root, context)).transpose()?;
    match rewrite::target(changes, level, context)? {
        None => {}
        Some(Target::Path(path)) => route.key("try_files", toml_strings([path])),
        Some(Target::Below(path)) => {
            let site =
                root.as_deref().ok_or("a path below the directory of the site: write 'root' in the block")?;
            root = Some(format!("{}{path}", site.trim_end_matches('/')));
        }
    }
    match (prefix, root) {
        ("", Some(root)) => route.key("root", toml_string(&root)),
        ("", None) => {}
        (_, root) => {
            let is_its_path = route.has_value("path", &toml_string(&format!("{prefix}/")));
            if !is_its_path {
                return Err(
                    "a directory is served under one prefix: write a route with 'alias' for it".to_string()
                );
            }
            route.key("alias", toml_string(root.as_deref().unwrap_or(".")));
        }
    }
    Ok(())
}

/// `{path} /index.html`: a name that ends in a slash means a directory.
fn tried(files: &[String]) -> Result<Vec<String>, String> {
    files
        .iter()
        .map(|file| {
            let file = file.replace("{http.request.uri.path}", "{path}").replace("{path}", "$path");
            let file = file.split('?').next().unwrap_or_default().to_string();
            match file.contains('{') || file.starts_with('=') {
                true => Err("'{path}' is the only placeholder in names of files".to_string()),
                false if file.starts_with(['/', '$']) => Ok(file),
                false => Ok(format!("/{file}")),
            }
        })
        .collect()
}

/// `5s`, `1m30s`, `500ms` as a duration with one unit.
fn duration(text: &str) -> Option<String> {
    let mut milliseconds = 0u64;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        rest = &rest[letters..];
        milliseconds = milliseconds.checked_add(number.checked_mul(unit)?)?;
    }
    match milliseconds {
        0 => None,
        whole if whole.is_multiple_of(1_000) => Some(format!("{}s", whole / 1_000)),
        part => Some(format!("{part}ms")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_origins() {
        for (text, is_tls, expected) in [
            ("localhost:3000", false, "http://localhost:3000"),
            (":3000", false, "http://127.0.0.1:3000"),
            ("unix//run/app.sock", false, "unix:/run/app.sock"),
            ("https://a.org", false, "https://a.org"),
            ("a.org", true, "https://a.org:443"),
            ("h2c://a:1", false, "http://a:1"),
        ] {
            assert_eq!(origin(text, is_tls).unwrap(), expected);
        }
        assert!(origin("{upstream}", false).is_err() && origin("a:1-3", false).is_err());
    }

    #[test]
    fn times_and_scripts() {
        assert_eq!(duration("1m30s").as_deref(), Some("90s"));
        assert_eq!(duration("250ms").as_deref(), Some("250ms"));
        assert!(duration("x").is_none() && duration("0s").is_none());
        let files = ["{path}".to_string(), "index.php?x={path}".to_string()];
        assert_eq!(front_controller(&files).as_deref(), Some("/index.php"));
        assert_eq!(tried(&["{path}".into(), "{path}/".into()]).unwrap(), ["$path", "$path/"]);
    }
}
