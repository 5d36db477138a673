//! Makes the interface of a route with `proxy`.

use std::sync::Arc;

use touchstone_config::{ProxyConfig, ProxyHealthConfig, RouteConfig, SiteConfig, route_name, site_name};
use touchstone_http::response::ResponseLimits;
use touchstone_proxy::{
    AnswerRules, Balance, CheckRules, ConnectionRules, ForwardRules, GroupName, HashBy, HealthRules,
    OriginGroups, OriginSpec, OriginTls, Proxy, ProxySettings, RetryRules, Role, TimeLimits, Version,
};
use touchstone_upstream::SessionRules;

/// The interface of a route with `proxy`; the error states the fault, with the name of the key.
pub fn open(
    config: &ProxyConfig,
    route: &RouteConfig,
    site: &SiteConfig,
    groups: &OriginGroups,
) -> Result<Proxy, String> {
    let name = GroupName { site: site_name(site), route: route_name(&site.routes, route) };
    let mut settings = settings(config, name).map_err(|problem| format!("'proxy': {problem}"))?;
    if !config.path.is_empty() {
        let path = route.target(&config.path).map_err(|problem| format!("'proxy': 'path': {problem}"))?;
        settings.path = Some(path);
    }
    Ok(Proxy::new(settings, groups))
}

/// The fault of a route's origins: of their keys together, or of files that they name.
pub fn problem(config: &ProxyConfig) -> Option<String> {
    let name = GroupName { site: String::new(), route: String::new() };
    settings(config, name).err().map(|problem| format!("'proxy': {problem}"))
}

/// The settings of the client for these origins.
pub fn settings(config: &ProxyConfig, name: GroupName) -> Result<ProxySettings, String> {
    let origins = config.origins();
    if origins.iter().all(|origin| origin.role != Role::Active) {
        return Err("'to': one origin must be neither backup nor drain".to_string());
    }
    let is_double = |(index, origin): (usize, &OriginSpec)| {
        origins[..index].iter().any(|other| other.url == origin.url).then(|| origin.url.to_string())
    };
    if let Some(url) = origins.iter().enumerate().find_map(is_double) {
        return Err(format!("'to': {url} is listed twice; give it a weight"));
    }
    let is_tls = origins.iter().any(|origin| origin.url.is_tls);
    if config.proxy_protocol.is_some() && config.version != Version::Http11 {
        return Err("'proxy_protocol' goes with 'version' \"1.1\" only".to_string());
    }
    if config.version == Version::Negotiated && !is_tls {
        return Err("'version' \"auto\" needs an origin with https://; without TLS no version is negotiated"
            .to_string());
    }
    let without_tls = origins.iter().find(|origin| !origin.url.is_tls);
    if let Some(origin) = without_tls.filter(|_| config.version == Version::Http3) {
        return Err(format!("'version' \"3\" needs origins with https://, not {}", origin.url));
    }
    let tls = is_tls.then(|| OriginTls::open(config.tls.clone(), config.version)).transpose()?;
    let most = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    Ok(ProxySettings {
        name,
        origins,
        balance: match &config.balance {
            Balance::Hash(_) => Balance::Hash(HashBy::parse(&config.hash_by)?),
            other => other.clone(),
        },
        sessions: SessionRules {
            cookie: config.session_cookie.clone(),
            parameter: config.session_parameter.clone(),
            is_binding: false,
        },
        strip_prefix: config.strip_prefix.clone().into_bytes(),
        path: None,
        host: config.host,
        version: config.version,
        tls: tls.map(Arc::new),
        times: TimeLimits {
            resolve: config.resolve_timeout,
            connect: config.connect_timeout,
            handshake: config.handshake_timeout,
            send: config.send_timeout,
            response: config.response_timeout,
            idle: config.idle_timeout,
            total: Some(config.total_timeout).filter(|total| !total.is_zero()),
            tunnel: config.tunnel_timeout,
        },
        connections: ConnectionRules {
            keep_alive_timeout: config.keep_alive_timeout,
            most_idle: config.idle_connections,
            most_uses: config.connection_requests,
            most_open: config.connections,
            most_waiting: config.queue,
            wait_timeout: config.queue_timeout,
        },
        most_requests: most(config.requests),
        health: health_rules(&config.health),
        check: config.check.as_ref().map(check).transpose()?,
        retry: RetryRules {
            most: most(config.retry.attempts),
            budget_percent: most(config.retry.budget_percent),
            statuses: config.retry.statuses.iter().filter_map(|status| status.parse().ok()).collect(),
        },
        forward: ForwardRules {
            x_forwarded: config.forward.x_forwarded,
            forwarded: config.forward.forwarded,
            via: config.forward.via.clone(),
            set: config.forward.set.clone().into_iter().collect(),
            remove: config.forward.remove.clone(),
            upgrades: config.forward.upgrades.clone(),
        },
        answers: AnswerRules {
            own_location: config.rewrite_location,
            locations: config.location_prefixes.clone().into_iter().collect(),
            cookie_paths: config.cookie_paths.clone().into_iter().collect(),
            cookie_domains: config.cookie_domains.clone().into_iter().collect(),
        }
        .with_origins(&config.origins(), &config.strip_prefix),
        proxy_header: config.proxy_protocol,
        buffered_request_bytes: usize::try_from(config.buffer_request).unwrap_or(usize::MAX),
        head_limits: ResponseLimits {
            head_bytes: most(config.header_bytes),
            fields: most(config.header_fields),
            // Old programs that contain their own server write such heads, and an origin is trusted.
            bare_line_feeds: true,
        },
        resolve_interval: config.resolve_interval,
    })
}

/// When an origin is ejected because of failures.
pub fn health_rules(health: &ProxyHealthConfig) -> HealthRules {
    let most = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    HealthRules {
        most_failures: most(health.max_failures),
        window: health.window,
        longest: health.longest,
        outlier_percent: most(health.outlier_percent),
        outlier_requests: most(health.outlier_requests),
        most_ejected_percent: most(health.max_ejected_percent),
        slow_start: health.slow_start,
    }
}

fn check(config: &touchstone_config::ProxyCheckConfig) -> Result<CheckRules, String> {
    let count = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    Ok(CheckRules {
        connects_only: false,
        path: config.path.clone(),
        host: Some(config.host.clone()).filter(|host| !host.is_empty()),
        interval: config.interval,
        timeout: config.timeout,
        statuses: CheckRules::parse_statuses(&config.status)?,
        rise: count(config.rise),
        fall: count(config.fall),
    })
}
