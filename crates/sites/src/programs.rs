//! Opens the interface for a route's `fastcgi`, `scgi`, `uwsgi`, `php` or `ajp`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use touchstone_config::{AjpConfig, ProgramsConfig, RouteConfig, Sessions, SiteConfig};
use touchstone_files::root::Root;
use touchstone_handler::handler::Interface;
use touchstone_interfaces::ajp::Containers;
use touchstone_interfaces::backend::{
    Address, Backend, Backends, ConnectionRules, FrontController, GroupRules, HealthRules, Paths, PingRules,
    ScriptRules, Settings, TimeLimits,
};
use touchstone_interfaces::cgi_response::HeaderLimits;
use touchstone_interfaces::fastcgi::FastCgiPrograms;
use touchstone_interfaces::scgi::ScgiPrograms;
use touchstone_interfaces::uwsgi::UwsgiPrograms;
use touchstone_observe::log::error::ErrorLog;
use touchstone_processes::pool::{self, Pool, PoolSpec, Pools, ProcessLimits, Program};
use touchstone_processes::user::User;
use touchstone_upstream::SessionRules;

use crate::file_access::{NO_ROOT, symlink_policy};
use crate::services::Services;

/// The key of the route that names its programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    FastCgi,
    Scgi,
    Uwsgi,
    Php,
    Ajp,
}

impl Kind {
    fn key(self) -> &'static str {
        match self {
            Kind::FastCgi => "fastcgi",
            Kind::Scgi => "scgi",
            Kind::Uwsgi => "uwsgi",
            Kind::Php => "php",
            Kind::Ajp => "ajp",
        }
    }
}

/// The interface of a route with programs that listen on an address, if it has one. The error states the
/// fault, with the key.
pub fn open(
    route: &RouteConfig,
    site: &SiteConfig,
    services: &Services,
) -> Result<Option<Arc<dyn Interface>>, String> {
    let backends = &services.backends;
    let Some((kind, config)) = programs_of(route) else { return Ok(None) };
    if let Some((key, message)) = problems(route).into_iter().next() {
        return Err(format!("'{key}': {message}"));
    }
    let settings = match kind {
        Kind::Ajp => return open_containers(config, backends).map(Some),
        _ => settings(kind, config, route, site, services),
    };
    let settings = settings.map_err(|message| format!("'{}': {message}", kind.key()))?;
    Ok(Some(match kind {
        Kind::Scgi => Arc::new(ScgiPrograms::new(settings, backends)),
        Kind::Uwsgi => Arc::new(UwsgiPrograms::new(settings, backends)),
        _ => Arc::new(FastCgiPrograms::new(settings, backends)),
    }))
}

/// Lets the managed processes write their events to the error log.
pub fn log_to(pools: &Pools, error_log: &ErrorLog) {
    let error_log = error_log.clone();
    pools.log_to(Arc::new(move |level, what, message| {
        error_log.limited(level.into(), what, message);
    }));
}

/// The faults of a route's programs on this machine, with the keys (`php.program`).
pub fn problems(route: &RouteConfig) -> Vec<(String, String)> {
    let Some((kind, config)) = programs_of(route) else { return Vec::new() };
    let mut problems = Vec::new();
    let mut problem = |key: &str, message: String| problems.push((format!("{}.{key}", kind.key()), message));
    let is_managed = config.backends.is_empty();
    match (kind, is_managed, config.command.as_slice()) {
        (Kind::FastCgi | Kind::Scgi | Kind::Uwsgi, true, []) => {
            problem("backends", "there are neither 'backends' nor a 'command'".to_string());
        }
        (Kind::FastCgi | Kind::Scgi | Kind::Uwsgi, false, [_, ..]) => {
            problem("command", "'command' and 'backends' cannot both be set".to_string());
        }
        (Kind::FastCgi | Kind::Scgi | Kind::Uwsgi, true, [program, ..])
            if pool::find_program(program, Path::new("")).is_none() =>
        {
            problem("command", format!("there is no program {program:?}"));
        }
        (Kind::Ajp, true, _) => problem("backends", "there is none".to_string()),
        (Kind::Php, true, _) if find_php_fpm(&config.program).is_none() => {
            let wanted = if config.program.is_empty() { "php-fpm" } else { &config.program };
            problem("program", format!("there is no program {wanted:?}; install php-fpm, or name it"));
        }
        _ => {}
    }
    if config.backends.iter().all(|text| text.contains(" backup")) && !is_managed {
        problem("backends", "at least one must not be a backup".to_string());
    }
    let is_root = rustix::process::geteuid().is_root();
    if !config.user.is_empty() {
        if !is_root {
            problem("user", "only a server that is started as root can give programs a user".to_string());
        }
        if let Err(message) = User::find(&config.user) {
            problem("user", message);
        }
    } else if kind == Kind::Php && is_managed && is_root {
        problem(
            "user",
            "the server runs as root: name the user for php-fpm, such as \"www-data\"".to_string(),
        );
    }
    if kind == Kind::Ajp
        && let Err(message) = secret(&config.ajp)
    {
        problem("secret_file", message);
    }
    if !config.front_controller.is_empty() && config.scripts.is_empty() {
        problem("front_controller", "needs 'scripts'; it must be one of them".to_string());
    }
    for (key, directory) in [("directory", &config.directory), ("send_files_from", &config.send_files_from)] {
        if let Some(directory) = directory
            && !directory.is_dir()
        {
            problem(key, format!("{} is not a directory", directory.display()));
        }
    }
    problems
}

fn programs_of(route: &RouteConfig) -> Option<(Kind, &ProgramsConfig)> {
    let fastcgi = route.fastcgi.as_ref().map(|config| (Kind::FastCgi, config));
    let scgi = route.scgi.as_ref().map(|config| (Kind::Scgi, config));
    let ajp = route.ajp.as_ref().map(|config| (Kind::Ajp, config));
    let uwsgi = route.uwsgi.as_ref().map(|config| (Kind::Uwsgi, config));
    fastcgi.or(scgi).or(uwsgi).or(ajp).or(route.php.as_ref().map(|config| (Kind::Php, config)))
}

fn settings(
    kind: Kind,
    config: &ProgramsConfig,
    route: &RouteConfig,
    site: &SiteConfig,
    services: &Services,
) -> Result<Settings, String> {
    let root_path = route.root_in(site).map(|root| absolute(root));
    let symlinks = symlink_policy(site.symlinks);
    let open_root = |path: &Path, symlinks| {
        let root =
            Root::new(path, symlinks).map_err(|error| format!("cannot open {}: {error}", path.display()))?;
        Ok::<_, String>(Arc::new(root.without(services.own_files.clone())))
    };
    let paths = if config.scripts.is_empty() {
        Paths::Application { script_name: config.script_name.clone().into_bytes() }
    } else {
        Paths::Scripts(ScriptRules {
            root: open_root(root_path.as_deref().ok_or(NO_ROOT)?, symlinks)?,
            suffixes: config.scripts.clone(),
            index: config.index.clone(),
            front_controller: front_controller(config, route)?,
            hidden_files: site.hidden_files,
        })
    };
    let send_files_from = config.send_files_from.as_ref();
    let pool = match config.backends.as_slice() {
        [] => Some(start(kind, config, &services.pools)?),
        _ => None,
    };
    let backends = match &pool {
        Some(pool) => {
            let address = Address::Unix(pool.socket().to_path_buf());
            vec![Backend { address, weight: 1, is_backup: false, route: String::new() }]
        }
        None => config.parsed_backends(),
    };
    let connections = connection_rules(kind, config, pool.is_some());
    Ok(Settings {
        group: group_rules(config, backends, connections),
        times: time_limits(config),
        header: HeaderLimits { bytes: count(config.header_bytes), ..HeaderLimits::default() },
        paths,
        document_root: config.document_root.clone().or(root_path),
        parameters: config.variables.clone().into_iter().collect(),
        pass_authorization: config.pass_authorization,
        send_files_from: send_files_from.map(|path| open_root(&absolute(path), symlinks)).transpose()?,
        pool,
    })
}

/// The script for paths that name no file, with the query that it gets.
fn front_controller(config: &ProgramsConfig, route: &RouteConfig) -> Result<Option<FrontController>, String> {
    let Some(script) = config.front_script() else { return Ok(None) };
    let target = config.has_front_query().then(|| route.target(&config.front_controller)).transpose();
    let target = target.map_err(|message| format!("'front_controller': {message}"))?;
    Ok(Some(FrontController { script: script.to_string(), target }))
}

fn open_containers(config: &ProgramsConfig, backends: &Backends) -> Result<Arc<dyn Interface>, String> {
    let ajp = &config.ajp;
    let secret = secret(ajp).map_err(|message| format!("'ajp.secret_file': {message}"))?;
    let mut group = group_rules(config, config.parsed_backends(), connection_rules(Kind::Ajp, config, false));
    group.ping = Some(PingRules {
        ping: touchstone_interfaces::ajp::ping(ajp.ping_timeout),
        after_idle: ajp.ping_after,
        on_connect: ajp.ping_new,
    });
    let rules = |is_binding| SessionRules {
        cookie: ajp.session_cookie.clone(),
        parameter: ajp.session_parameter.clone(),
        is_binding,
    };
    let settings = touchstone_interfaces::ajp::Settings {
        group,
        times: TimeLimits { quiet: not_zero(ajp.ping_waiting), ..time_limits(config) },
        packet_bytes: ajp.packet_bytes,
        most_fields: ajp.header_fields,
        secret,
        attributes: ajp.attributes.clone().into_iter().collect(),
        pass_authorization: config.pass_authorization,
        sessions: match ajp.sessions {
            Sessions::Prefer => Some(rules(false)),
            Sessions::Bind => Some(rules(true)),
            Sessions::Ignore => None,
        },
    };
    Ok(Arc::new(Containers::new(settings, backends)))
}

/// The secret of containers, from the configuration or its file.
fn secret(config: &AjpConfig) -> Result<String, String> {
    let Some(path) = &config.secret_file else { return Ok(config.secret.clone()) };
    if !config.secret.is_empty() {
        return Err("'secret' and 'secret_file' cannot both be set".to_string());
    }
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("'{name}' cannot be read: {error}"))?;
    match text.lines().next().map(str::trim) {
        Some(secret) if !secret.is_empty() && !secret.contains('\0') => Ok(secret.to_string()),
        _ => Err(format!("the first line of '{name}' is not a secret")),
    }
}

fn group_rules(config: &ProgramsConfig, backends: Vec<Backend>, connections: ConnectionRules) -> GroupRules {
    GroupRules {
        backends,
        balance: config.balance.clone(),
        health: HealthRules::by_failures(
            u32::try_from(config.max_failures).unwrap_or(u32::MAX),
            config.fail_timeout,
        ),
        check_interval: not_zero(config.check_interval),
        connections,
        ping: None,
    }
}

fn time_limits(config: &ProgramsConfig) -> TimeLimits {
    TimeLimits {
        first_byte: config.first_byte_timeout,
        quiet: None,
        stall: config.idle_timeout,
        total: not_zero(config.total_timeout),
    }
}

fn not_zero(span: Duration) -> Option<Duration> {
    (span > Duration::ZERO).then_some(span)
}

fn connection_rules(kind: Kind, config: &ProgramsConfig, is_managed: bool) -> ConnectionRules {
    ConnectionRules {
        // The number of processes of other programs is not known, and a persistent connection occupies one.
        keep: !matches!(kind, Kind::Scgi | Kind::Uwsgi) && config.keep_connections.unwrap_or(is_managed),
        most: match config.connections {
            // More connections would only wait at the socket, where the server cannot count them.
            0 if is_managed => processes(kind, config),
            most => count(most),
        },
        most_waiting: count(config.queue),
        wait_timeout: config.queue_timeout,
        most_idle: count(config.idle_connections),
        idle_timeout: config.keep_alive_timeout,
        most_requests: config.connection_requests,
        connect_timeout: config.connect_timeout,
    }
}

/// Starts the processes that the server manages.
fn start(kind: Kind, config: &ProgramsConfig, pools: &Pools) -> Result<Arc<Pool>, String> {
    let program = match kind {
        Kind::Php => Program::PhpFpm {
            program: find_php_fpm(&config.program).ok_or("there is no php-fpm")?,
            suffixes: config.scripts.clone(),
            settings: config.settings.clone().into_iter().collect(),
            requests_per_process: config.process_requests,
        },
        _ => Program::Command(config.command.clone()),
    };
    let user = match config.user.as_str() {
        "" => None,
        user => Some(User::find(user)?),
    };
    let limit = |most: u64| (most > 0).then_some(most);
    let spec = PoolSpec {
        program,
        processes: processes(kind, config),
        directory: config.directory.clone(),
        environment: config.environment.clone().into_iter().collect(),
        user,
        limits: ProcessLimits { open_files: limit(config.open_files), memory_bytes: limit(config.memory) },
        socket: config.socket.clone(),
        stop_timeout: config.stop_timeout,
    };
    pools.get(&spec).map_err(|error| format!("its processes cannot be started: {error}"))
}

fn processes(kind: Kind, config: &ProgramsConfig) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    match (config.processes, kind) {
        (0, Kind::Php) => processors * 4,
        (0, _) => processors,
        (processes, _) => count(processes),
    }
}

/// The program of this name; without a name, the newest version of php-fpm.
fn find_php_fpm(name: &str) -> Option<PathBuf> {
    if !name.is_empty() {
        return pool::find_program(name, Path::new(""));
    }
    // The names that Debian and Fedora use.
    let versions = (0..=9).rev().map(|minor| format!("php-fpm8.{minor}"));
    std::iter::once("php-fpm".to_string())
        .chain(versions)
        .find_map(|name| pool::find_program(&name, Path::new("")))
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
