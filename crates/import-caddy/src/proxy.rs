//! `reverse_proxy`: other servers that answer.

use super::context::{Context, name_of};
use super::origin::{duration, origin};
use super::placeholder::{plain, text, tried};
use super::rewrite::{self, Target};
use super::routing::{Change, ChangeKind, Level, Routing};
use super::steps::Step;
use touchstone_import_base::directive::Directive;
use touchstone_import_base::output::Section;
use touchstone_import_base::toml_text::{toml_string, toml_strings};

/// `reverse_proxy UPSTREAM ...`
///
/// # Errors
/// A part without which the route cannot be written has no counterpart.
pub fn proxy<'d>(
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
    let below = beginning(step, level, changes, context, &mut table)?;
    let mut is_tls = false;
    for line in step.directive.inside() {
        table.note(line.to_string());
        match (line.name.as_str(), line.argument(0)) {
            ("to", _) => upstreams.extend(line.arguments.iter().cloned()),
            ("header_up", _) => match header_up(line, context, &mut removed, &mut forward, &mut table) {
                Ok(()) => {}
                Err(advice) => routing.problem(line, &advice),
            },
            ("header_down", _) => match header_down(line, context, route) {
                Ok(()) => {}
                Err(advice) => routing.problem(line, advice),
            },
            ("lb_policy", _) => match balance(line, &mut table) {
                Ok(()) => {}
                Err(advice) => routing.problem(line, advice),
            },
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

/// The beginning of the path that an origin gets, by the rewrite of its block.
fn beginning(
    step: &Step<'_>,
    level: &Level<'_>,
    changes: &[&Change<'_>],
    context: &Context,
    table: &mut Section,
) -> Result<String, String> {
    let path = match rewrite::target(changes, level, context)? {
        None => return Ok(String::new()),
        Some(Target::Below(path)) => return Ok(path),
        Some(Target::Path(path)) => path,
    };
    let only = rewrite::only_path(step, level).filter(|_| level.stripped.is_empty());
    let (before, after) = only.and_then(|only| rewrite::beginnings(&only, &path)).ok_or(
        "only the beginning of a path can be another one for an origin: write a route with 'rewrite', and \
         one for the new path",
    )?;
    if !before.is_empty() {
        table.key("strip_prefix", toml_string(&before));
    }
    Ok(after)
}

/// `header_down [-]NAME [VALUE]`
fn header_down(line: &Directive, context: &Context, route: &mut Section) -> Result<(), &'static str> {
    let (name, value) = match line.argument(0).strip_prefix('-') {
        Some(name) => (name, ""),
        None => (line.argument(0).trim_start_matches(['+', '?', '>']), line.argument(1)),
    };
    match text(value, context) {
        Ok(value) if line.arguments.len() <= 2 => {
            route.entry("headers", name, toml_string(&value));
            Ok(())
        }
        _ => Err("a field of an answer has one fixed value"),
    }
}

/// `lb_policy POLICY [BY]`
fn balance(line: &Directive, table: &mut Section) -> Result<(), &'static str> {
    let hash_by = line.argument(1);
    match line.argument(0) {
        "round_robin" | "random" | "weighted_round_robin" => {
            table.key("balance", toml_string("round_robin"));
        }
        "least_conn" => table.key("balance", toml_string("least_requests")),
        "ip_hash" | "client_ip_hash" => hash(table, "client"),
        "uri_hash" => hash(table, "path"),
        "header" => hash(table, &format!("field:{hash_by}")),
        "cookie" if !hash_by.is_empty() => hash(table, &format!("cookie:{hash_by}")),
        _ => return Err("see 'balance' of 'proxy' (docs/proxy.md)"),
    }
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
