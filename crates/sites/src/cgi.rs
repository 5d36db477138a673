//! Makes the interface of a route with `cgi`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use touchstone_config::{self as config, CgiConfig, RouteConfig, SiteConfig};
use touchstone_handler::handler::Interface;
use touchstone_interfaces::cgi::handler::CgiInterface;
use touchstone_interfaces::cgi::settings::{CgiSettings, Programs};
use touchstone_interfaces::cgi_response::HeaderLimits;
use touchstone_processes::user::User;

use crate::file_access::{NO_ROOT, symlink_policy};

/// The interface of a route with CGI programs; the error states the fault, with the name of the key.
pub fn open(cgi: &CgiConfig, route: &RouteConfig, site: &SiteConfig) -> Result<Arc<dyn Interface>, String> {
    if let Some((key, message)) = problems(cgi, route).into_iter().next() {
        return Err(format!("'cgi.{key}': {message}"));
    }
    let programs = programs(cgi, route, site)?;
    let place = match &programs {
        Programs::Below { directory, .. } => directory.clone(),
        Programs::One { file, .. } => file.clone(),
        Programs::Given => std::path::PathBuf::new(),
    };
    let settings = settings(cgi, route, site, programs)?;
    let interface = CgiInterface::open(settings)
        .map_err(|error| format!("'cgi': cannot open {}: {error}", place.display()))?;
    Ok(interface.shared())
}

/// The interface for programs that the configuration of a plug-in finds, with the route's settings for
/// programs.
pub fn open_given(route: &RouteConfig, site: &SiteConfig) -> Result<Arc<CgiInterface>, String> {
    let cgi = route.cgi.clone().unwrap_or_default();
    if let Some((key, message)) = problems(&cgi, route).into_iter().next() {
        return Err(format!("'cgi.{key}': {message}"));
    }
    let settings = settings(&cgi, route, site, Programs::Given)?;
    CgiInterface::open(settings).map(Arc::new).map_err(|error| format!("'cgi': {error}"))
}

/// The faults of the settings on this machine, with the keys.
pub fn problems(cgi: &CgiConfig, route: &RouteConfig) -> Vec<(&'static str, String)> {
    let mut problems = Vec::new();
    if cgi.directory.is_some() && prefix_below(&route.path).is_none() {
        let message =
            format!("needs a route whose 'path' ends with a slash, without wildcards, not {:?}", route.path);
        problems.push(("directory", message));
    }
    if let Some(directory) = &cgi.directory
        && !directory.is_dir()
    {
        problems.push(("directory", format!("{} is not a directory", directory.display())));
    }
    for (key, file) in [("program", &cgi.program), ("interpreter", &cgi.interpreter)] {
        if let Some(file) = file
            && !file.is_file()
        {
            problems.push((key, format!("{} is not a file", file.display())));
        }
    }
    if !cgi.user.is_empty() {
        if !rustix::process::geteuid().is_root() {
            problems
                .push(("user", "only a server that is started as root can give programs a user".to_string()));
        }
        problems.extend(User::find(&cgi.user).err().map(|message| ("user", message)));
    }
    if let Some(directory) = &cgi.spool_directory
        && !directory.is_dir()
    {
        problems.push(("spool_directory", format!("{} is not a directory", directory.display())));
    }
    problems
}

fn programs(cgi: &CgiConfig, route: &RouteConfig, site: &SiteConfig) -> Result<Programs, String> {
    let absolute = |path: &Path| std::path::absolute(path).map_err(|error| format!("'cgi': {error}"));
    if let Some(file) = &cgi.program {
        let prefix = match prefix_below(&route.path) {
            Some(prefix) => prefix,
            None if has_wildcards(&route.path) => String::new(),
            None => route.path.clone(),
        };
        return Ok(Programs::One { file: absolute(file)?, prefix });
    }
    if let Some(directory) = &cgi.directory {
        let prefix = prefix_below(&route.path).unwrap_or_default();
        return Ok(Programs::Below { directory: absolute(directory)?, prefix });
    }
    let root = route.root_in(site).ok_or(NO_ROOT)?;
    Ok(Programs::Below { directory: absolute(root)?, prefix: String::new() })
}

/// Removes the slash at the end: `/cgi-bin/` gives `/cgi-bin`.
fn prefix_below(path: &str) -> Option<String> {
    path.strip_suffix('/').filter(|_| !has_wildcards(path)).map(str::to_string)
}

fn has_wildcards(path: &str) -> bool {
    path.contains('*')
}

fn settings(
    cgi: &CgiConfig,
    route: &RouteConfig,
    site: &SiteConfig,
    programs: Programs,
) -> Result<CgiSettings, String> {
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let root = route.root_in(site);
    let user = match cgi.user.as_str() {
        "" => None,
        text => Some(User::find(text).map_err(|message| format!("'cgi.user': {message}"))?),
    };
    Ok(CgiSettings {
        programs,
        interpreter: cgi.interpreter.clone(),
        document_root: root.map(|root| std::path::absolute(root).unwrap_or_else(|_| root.clone())),
        symlinks: symlink_policy(site.symlinks),
        hidden_files: site.hidden_files,
        user,
        umask: config::parse_umask(&cgi.umask).map_err(|message| format!("'cgi.umask': {message}"))?,
        niceness: i32::try_from(cgi.niceness).unwrap_or(19),
        no_new_privileges: cgi.no_new_privileges,
        limits: limits(cgi),
        environment: cgi.environment.clone().into_iter().collect(),
        pass_authorization: cgi.pass_authorization,
        background: cgi.background,
        concurrency: count(cgi.concurrency),
        queue: count(cgi.queue),
        queue_timeout: cgi.queue_timeout,
        first_byte_timeout: cgi.first_byte_timeout,
        idle_timeout: cgi.idle_timeout,
        total_timeout: Some(cgi.total_timeout).filter(|limit| *limit > Duration::ZERO),
        grace: cgi.kill_timeout,
        spool_bytes: cgi.spool_bytes,
        spool_directory: cgi.spool_directory.clone().unwrap_or_else(std::env::temp_dir),
        header: HeaderLimits { bytes: count(cgi.header_bytes), ..HeaderLimits::default() },
    })
}

fn limits(cgi: &CgiConfig) -> Vec<(u32, u64)> {
    let cpu_seconds = cgi.cpu_time.as_secs() + u64::from(cgi.cpu_time.subsec_nanos() > 0);
    [
        (libc::RLIMIT_AS, cgi.memory),
        (libc::RLIMIT_CPU, cpu_seconds),
        (libc::RLIMIT_FSIZE, cgi.file_bytes),
        (libc::RLIMIT_NOFILE, cgi.open_files),
        (libc::RLIMIT_NPROC, cgi.processes),
    ]
    .into_iter()
    .filter(|(_, most)| *most > 0)
    .map(|(resource, most)| (resource as _, most))
    .collect()
}
