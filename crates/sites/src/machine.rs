//! What a configuration needs from the machine: roots that can be read, log files that can be written.
//!
//! Checked before a start and by `touchstone check`. The state can change a moment later, so the code that
//! opens the files must still report errors.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::Access;
use touchstone_access::{GeoFile, KeySource, PasswordFile, SignedLinks};
use touchstone_acme::{check_key, read_hmac_key};
use touchstone_admin::token::read_token;
use touchstone_config::{
    AccessConfig, AcmeConfig, AdminListen, Config, ConfigPlaces, ConfigProblem, ControlSocket,
    LogDestination, PasswordSource, SectionPlaces, ServerConfig, SiteConfig, StreamCertificate,
    UnixSocketName, listen_addresses,
};
use touchstone_control::Tokens;
use touchstone_crawlers::Crawlers;
use touchstone_lifecycle::privileges::{Account, socket_file_rights};
use touchstone_login::Login;
use touchstone_servlet::before_start::problems_of_java;
use touchstone_telemetry::read_fields;
use touchstone_tls::read_certificates;

use crate::file_access::{existing, may};
use crate::shared_libraries::{self, IS_STATIC};
use crate::streams;

/// Everything that the machine lacks for this configuration, each at the place of the key that needs it.
///
/// Without places (the quick form), pass `&ConfigPlaces::default()`.
///
/// If the process will change from root to another user (`server.user`), the rights of that user are checked:
/// that user opens the files, at the start and at every reload.
pub fn check_machine(config: &Config, places: &ConfigPlaces) -> Vec<ConfigProblem> {
    let mut problems = check_process(&config.server, places);
    let account = match Account::configured(&config.server) {
        Ok(account) => account.filter(|account| rustix::process::geteuid().is_root() && !account.is_ours()),
        Err(problem) => {
            problems.push(places.problem_in_section("server", problem.key, problem.to_string()));
            None
        }
    };
    problems.extend(check_sockets(config, places));
    problems.extend(match &account {
        None => check_files(config, places),
        Some(account) => match account.as_it(|| check_files(config, places)) {
            Ok(found) => found.into_iter().map(|problem| as_seen_by(account, problem)).collect(),
            Err(error) => {
                let message = format!("the rights of user '{}' cannot be checked: {error}", account.name);
                vec![places.problem_in_section("server", "user", message)]
            }
        },
    });
    problems.sort_by_key(|problem| (problem.line, problem.column));
    problems
}

/// Checks the files that are made while the process still has root's rights.
fn check_process(server: &ServerConfig, places: &ConfigPlaces) -> Vec<ConfigProblem> {
    let control = match &server.control_socket {
        ControlSocket::Path(path) => Some(path),
        ControlSocket::Automatic | ControlSocket::Off => None,
    };
    let files = [("pid_file", server.pid_file.as_ref()), ("control_socket", control)];
    let problem = |(key, path): (&str, Option<&PathBuf>)| {
        let path = path?;
        let reason = check_log_directory(&directory_of(path)).err()?;
        Some(places.problem_in_section("server", key, format!("{key} '{}' {reason}", path.display())))
    };
    files.into_iter().filter_map(problem).collect()
}

/// Checks the directories and the owners of unix sockets, which are made while the process still has root's
/// rights.
fn check_sockets(config: &Config, places: &ConfigPlaces) -> Vec<ConfigProblem> {
    let sections = places.sites.iter().chain(&places.streams).map(Some).chain(std::iter::repeat(None));
    let mut problems = Vec::new();
    for ((listen, file), section) in listen_addresses(config).zip(sections) {
        let names = listen.iter().filter_map(|address| address.unix());
        if names.clone().next().is_none() {
            continue;
        }
        if let Err((key, message)) = socket_file_rights(file, None) {
            let place = section.map(|section| section.key(key));
            problems.push(places.problem(place, format!("'{key}': {message}")));
        }
        for path in names.filter_map(UnixSocketName::path) {
            let directory = directory_of(path);
            // If the socket exists, the directory need not be writable: systemd or the previous process may
            // have made the socket.
            let reason = match metadata(&directory) {
                Err(reason) => reason,
                Ok(found) if !found.is_dir() => "is not a directory".to_string(),
                Ok(_) => continue,
            };
            let place = section.map(|section| section.key("listen"));
            let (path, directory) = (path.display(), directory.display());
            let message = format!("'listen': the socket '{path}' cannot be made: '{directory}' {reason}");
            problems.push(places.problem(place, message));
        }
    }
    problems
}

fn as_seen_by(account: &Account, problem: ConfigProblem) -> ConfigProblem {
    let message = format!("{} (as user '{}' of server.user)", problem.message, account.name);
    ConfigProblem { message, ..problem }
}

/// Checks the files of telemetry.
fn check_telemetry(config: &Config, places: &ConfigPlaces, problems: &mut Vec<ConfigProblem>) {
    let telemetry = &config.telemetry;
    if let Some(Err(message)) = telemetry.headers_file.as_deref().map(read_fields) {
        problems.push(places.problem_in_section("telemetry", "headers_file", message));
    }
    if let Some(file) = &telemetry.ca_certificate
        && let Err(problem) = read_certificates(file)
    {
        let message = format!("telemetry.ca_certificate: {problem}");
        problems.push(places.problem_in_section("telemetry", "ca_certificate", message));
    }
}

/// Checks what is opened as the user under which the server runs.
fn check_files(config: &Config, places: &ConfigPlaces) -> Vec<ConfigProblem> {
    let mut problems = Vec::new();
    for (position, site) in config.sites.iter().enumerate() {
        if let Some(root) = &site.root
            && let Err(reason) = check_root(root)
        {
            let message = format!("root '{}' {reason}{}", root.display(), what_to_do(&reason));
            problems.push(places.problem_in_site(position, "root", message));
        }
        check_access_and_routes(site, position, places, &mut problems);
        let tls = &site.tls;
        let files = [
            ("certificate", &tls.certificate),
            ("key", &tls.key),
            ("client_authorities", &tls.client_authorities),
        ];
        for (key, path) in files {
            // The code that reads the files reports whether they exist and have the right content.
            if let Some(path) = path
                && let Err(error) = fs::File::open(path)
                && error.kind() == io::ErrorKind::PermissionDenied
            {
                let message = format!("{key} '{}' cannot be read: {error}", path.display());
                problems.push(places.problem_in_site(position, key, message));
            }
        }
    }
    let logs = [("access_log", &config.access_log.destination), ("error_log", &config.error_log.destination)];
    for (section, destination) in logs {
        if let LogDestination::File(path) = destination
            && let Err(reason) = check_log_file(path)
        {
            let message = format!("log file '{}' {reason}", path.display());
            problems.push(places.problem_in_section(section, "path", message));
        }
    }
    check_own_logs(config, places, &mut problems);
    check_streams(config, places, &mut problems);
    if config.sites.iter().any(|site| site.tls.acme) {
        check_acme(&config.acme, places, &mut problems);
    }
    for path in &config.geoip.files {
        if let Err(message) = GeoFile::check(path) {
            problems.push(places.problem_in_section("geoip", "files", message));
        }
    }
    check_telemetry(config, places, &mut problems);
    check_admin(config, places, &mut problems);
    check_java(config, places, &mut problems);
    problems
}

/// Checks the files of the logs that sites and routes have of their own.
fn check_own_logs(config: &Config, places: &ConfigPlaces, problems: &mut Vec<ConfigProblem>) {
    for (position, site) in config.sites.iter().enumerate() {
        let site_places = places.sites.get(position);
        let mut check = |key: &str, destination: Option<&LogDestination>, within: Option<&SectionPlaces>| {
            if let Some(LogDestination::File(path)) = destination
                && let Err(reason) = check_log_file(path)
            {
                let place = within.map(|within| within.key_below(&format!("{key}.path")));
                problems.push(places.problem(place, format!("log file '{}' {reason}", path.display())));
            }
        };
        check("access_log", site.access_log.as_ref().map(|log| &log.destination), site_places);
        check("error_log", site.error_log.as_ref().map(|log| &log.destination), site_places);
        for (index, route) in site.routes.iter().enumerate() {
            let within = site_places.and_then(|places| places.table("route", index));
            check("access_log", route.access_log.as_ref().map(|log| &log.destination), within);
            check("error_log", route.error_log.as_ref().map(|log| &log.destination), within);
        }
    }
}

/// Checks the files of streams: logs, certificates, and what TLS to origins needs.
fn check_streams(config: &Config, places: &ConfigPlaces, problems: &mut Vec<ConfigProblem>) {
    for (position, stream) in config.streams.iter().enumerate() {
        if let LogDestination::File(path) = &stream.access_log
            && let Err(reason) = check_log_file(path)
        {
            let message = format!("log file '{}' {reason}", path.display());
            problems.push(places.problem_in_stream(position, "access_log", message));
        }
        if let StreamCertificate::File(chain) = &stream.certificate
            && let Err(problem) = read_certificates(chain)
        {
            problems.push(places.problem_in_stream(position, "certificate", problem.to_string()));
        }
        if let Some(key) = &stream.key
            && let Err(error) = fs::File::open(key)
        {
            let message = format!("key '{}' cannot be read: {error}", key.display());
            problems.push(places.problem_in_stream(position, "key", message));
        }
        if let Some(problem) = streams::problem_of_origin_tls(stream) {
            problems.push(places.problem_in_stream(position, "origin_tls", problem));
        }
    }
}

/// Checks the values of `[java]`, if a route needs it and this program can load it.
fn check_java(config: &Config, places: &ConfigPlaces, problems: &mut Vec<ConfigProblem>) {
    if IS_STATIC {
        return;
    }
    let routes = config.sites.iter().flat_map(|site| &site.routes);
    if routes.filter_map(|route| route.servlet.as_ref()).all(|servlet| servlet.is_over_ajp) {
        return;
    }
    for (key, message) in problems_of_java(&config.java.settings) {
        problems.push(places.problem_in_section("java", key, format!("'java.{key}': {message}")));
    }
}

/// Checks what a request for certificates needs: storage, and files of the operator.
fn check_acme(acme: &AcmeConfig, places: &ConfigPlaces, problems: &mut Vec<ConfigProblem>) {
    if let Err(reason) = check_storage(&acme.storage) {
        let message = format!("storage '{}' {reason}", acme.storage.display());
        problems.push(places.problem_in_section("acme", "storage", message));
    }
    if let Some(Err(problem)) = acme.ca_certificate.as_deref().map(read_certificates) {
        problems.push(places.problem_in_section("acme", "ca_certificate", problem.to_string()));
    }
    if let Some(dns) = &acme.dns {
        let place = |key: &str| places.sections.get("acme").map(|within| within.key_below(key));
        if let Some(Err(message)) = dns.key.as_deref().map(check_key) {
            problems.push(places.problem(place("dns.key"), message));
        }
        let program = dns.hook.first().map(Path::new).filter(|program| program.is_absolute());
        if let Some(Err(reason)) = program.map(|program| may(program, Access::EXEC_OK, "cannot be run")) {
            let message = format!("the program '{}' {reason}", dns.hook[0]);
            problems.push(places.problem(place("dns.hook"), message));
        }
    }
    let account = acme.external_account.as_ref();
    if let Some(Err(message)) = account.and_then(|account| account.hmac_key.as_deref()).map(read_hmac_key) {
        let place = places.sections.get("acme").map(|within| within.key_below("external_account.hmac_key"));
        problems.push(places.problem(place, message));
    }
}

/// Checks the storage. If it is missing, it and its parent directories are made later.
fn check_storage(storage: &Path) -> Result<(), String> {
    let writable = |directory: &Path| {
        if !metadata(directory)?.is_dir() {
            return Err("is not a directory".to_string());
        }
        may(directory, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK, "cannot be written")
    };
    let there = existing(storage);
    if there == storage {
        return writable(storage);
    }
    writable(there).map_err(|reason| format!("cannot be made: '{}' {reason}", there.display()))
}

/// Checks the admin listener's token, the directory of its socket, and the files of the control API.
fn check_admin(config: &Config, places: &ConfigPlaces, problems: &mut Vec<ConfigProblem>) {
    if let Some(path) = config.control.token_file.as_ref().filter(|_| config.control.enabled)
        && let Err(message) = Tokens::read(path)
    {
        problems.push(places.problem_in_section("control", "token_file", message));
    }
    if config.control.enabled {
        if let Some(path) = &config.control.audit_log
            && let Err(reason) = check_log_directory(&directory_of(path))
        {
            let message = format!("the file '{}' {reason}", path.display());
            problems.push(places.problem_in_section("control", "audit_log", message));
        }
        if let Some(path) = &config.control.directory
            && let Err(reason) = check_storage(path)
        {
            let message = format!("the directory '{}' {reason}", path.display());
            problems.push(places.problem_in_section("control", "directory", message));
        }
    }
    if let Some(path) = &config.admin.token_file
        && let Err(message) = read_token(path)
    {
        problems.push(places.problem_in_section("admin", "token_file", message));
    }
    if let AdminListen::Unix(path) = &config.admin.listen
        && let Err(reason) = check_log_directory(&directory_of(path))
    {
        let message = format!("the socket '{}' {reason}", path.display());
        problems.push(places.problem_in_section("admin", "listen", message));
    }
}

/// Checks the files that a login names.
fn check_login(
    access: &AccessConfig,
    within: Option<&SectionPlaces>,
    places: &ConfigPlaces,
    problems: &mut Vec<ConfigProblem>,
) {
    let Some(login) = &access.login else { return };
    if let Some(problem) = Login::problem(login) {
        problems.push(places.problem(within.map(|within| within.key_below("login.issuer")), problem));
    }
    if let Some(Err(problem)) = login.ca_certificate.as_deref().map(read_certificates) {
        let place = within.map(|within| within.key_below("login.ca_certificate"));
        problems.push(places.problem(place, format!("'login.ca_certificate': {problem}")));
    }
}

/// Checks the files that rules on crawlers name.
fn check_crawlers(
    access: &AccessConfig,
    within: Option<&SectionPlaces>,
    places: &ConfigPlaces,
    problems: &mut Vec<ConfigProblem>,
) {
    let Some(crawlers) = &access.crawlers else { return };
    if let Some(problem) = Crawlers::problem(crawlers) {
        problems.push(places.problem(within.map(|within| within.key("crawlers")), problem));
    }
    if let Some(Err(problem)) = crawlers.ca_certificate.as_deref().map(read_certificates) {
        let place = within.map(|within| within.key_below("crawlers.ca_certificate"));
        problems.push(places.problem(place, format!("'crawlers.ca_certificate': {problem}")));
    }
}

/// Checks the files of the access keys of a site or route.
fn check_users(
    access: &AccessConfig,
    within: Option<&SectionPlaces>,
    places: &ConfigPlaces,
    problems: &mut Vec<ConfigProblem>,
) {
    if let Some(problem) = access.jwt.as_ref().and_then(|jwt| KeySource::check(&jwt.keys).err()) {
        problems.push(places.problem(within.map(|within| within.key_below("jwt.keys")), problem));
    }
    let authorities = access.jwt.as_ref().and_then(|jwt| jwt.ca_certificate.as_deref());
    if let Some(Err(problem)) = authorities.map(read_certificates) {
        let place = within.map(|within| within.key_below("jwt.ca_certificate"));
        problems.push(places.problem(place, format!("'jwt.ca_certificate': {problem}")));
    }
    if let Some(problem) = access.forward_auth.as_ref().and_then(crate::forward_auth::problem) {
        problems.push(places.problem(within.map(|within| within.key_below("forward_auth.url")), problem));
    }
    check_login(access, within, places, problems);
    check_crawlers(access, within, places, problems);
    let link = access.signed_link.as_ref().map(SignedLinks::open);
    if let Some(Err(problem)) = link {
        let place = within.map(|within| within.key_below("signed_link.secret_file"));
        problems.push(places.problem(place, problem));
    }
    let basic = access.basic_authentication.as_ref();
    let Some(PasswordSource::File(path)) = basic.map(|basic| &basic.file) else { return };
    let place = within.map(|within| within.key_below("basic_authentication.file"));
    for message in PasswordFile::open(path).err().unwrap_or_default() {
        problems.push(places.problem(place, message));
    }
}

/// Checks the directories of routes, and the password files of the site and its routes.
fn check_access_and_routes(
    site: &SiteConfig,
    position: usize,
    places: &ConfigPlaces,
    problems: &mut Vec<ConfigProblem>,
) {
    let site_places = places.sites.get(position);
    if let Some(problem) = crate::login::shared_path(site) {
        problems.push(places.problem(site_places.map(|within| within.key("login")), problem));
    }
    check_users(&site.access, site_places, places, problems);
    for (index, route) in site.routes.iter().enumerate() {
        let within = site_places.and_then(|places| places.table("route", index));
        check_users(&route.access, within, places, problems);
    }
    for (index, route) in site.routes.iter().enumerate() {
        let Some(cgi) = &route.cgi else { continue };
        let within = site_places.and_then(|places| places.table("route", index));
        for (key, message) in crate::cgi::problems(cgi, route) {
            let place = within.map(|within| within.key_below(&format!("cgi.{key}")));
            problems.push(places.problem(place, format!("'cgi.{key}': {message}")));
        }
    }
    for (index, route) in site.routes.iter().enumerate() {
        let within = site_places.and_then(|places| places.table("route", index));
        if let Some((key, message)) = shared_libraries::problem(route) {
            problems.push(places.problem(within.map(|within| within.key(key)), message));
            continue;
        }
        for (key, message) in crate::programs::problems(route) {
            let place = within.map(|within| within.key_below(&key));
            problems.push(places.problem(place, format!("'{key}': {message}")));
        }
        if let Some(nsapi) = &route.nsapi {
            for message in crate::nsapi::problems(nsapi, route, site) {
                problems.push(places.problem(within.map(|within| within.key("nsapi")), message));
            }
        }
        for (key, message) in route.wasm.as_ref().map(crate::wasm::problems).unwrap_or_default() {
            let place = within.map(|within| within.key_below(&format!("wasm.{key}")));
            problems.push(places.problem(place, format!("'wasm.{key}': {message}")));
        }
        for (key, message) in route.middleware.iter().flat_map(crate::wasm::problems) {
            let place = within.map(|within| within.key("middleware"));
            problems.push(places.problem(place, format!("'middleware.{key}': {message}")));
        }
        if let Some(message) = route.proxy.as_ref().and_then(crate::proxy::problem) {
            problems.push(places.problem(within.map(|within| within.key("proxy")), message));
        }
    }
    for (index, route) in site.routes.iter().enumerate() {
        let Some(servlet) = &route.servlet else { continue };
        let within = site_places.and_then(|places| places.table("route", index));
        for (key, message) in crate::servlet::problems(servlet, route) {
            let place = within.map(|within| within.key_below(&format!("servlet.{key}")));
            problems.push(places.problem(place, format!("'servlet.{key}': {message}")));
        }
    }
    for (index, route) in site.routes.iter().enumerate() {
        let Some(python) = &route.python else { continue };
        let within = site_places.and_then(|places| places.table("route", index));
        for (key, message) in crate::python::problems(python) {
            let place = within.map(|within| within.key_below(&format!("python.{key}")));
            problems.push(places.problem(place, format!("'python.{key}': {message}")));
        }
    }
    for (index, route) in site.routes.iter().enumerate() {
        let within = site_places.and_then(|places| places.table("route", index));
        for (key, message) in crate::webdav::problems(route, site) {
            let place = within.map(|within| within.key_below(&format!("webdav.{key}")));
            problems.push(places.problem(place, format!("'webdav.{key}': {message}")));
        }
    }
    for (index, route) in site.routes.iter().enumerate() {
        for (key, directory) in [("root", &route.root), ("alias", &route.alias)] {
            let Some(directory) = directory else { continue };
            if let Err(reason) = check_root(directory) {
                let within = site_places.and_then(|places| places.table("route", index));
                let place = within.map(|within| within.key(key));
                problems.push(places.problem(
                    place,
                    format!("{key} '{}' {reason}{}", directory.display(), what_to_do(&reason)),
                ));
            }
        }
    }
}

/// What to do about a directory of files that cannot be used.
fn what_to_do(reason: &str) -> &'static str {
    match reason {
        "does not exist" => {
            "; create it, or name another one (relative to the directory of the configuration file)"
        }
        "is not a directory" => "; name the directory that contains the files",
        _ => "",
    }
}

fn check_root(root: &Path) -> Result<(), String> {
    if !metadata(root)?.is_dir() {
        return Err("is not a directory".to_string());
    }
    may(root, Access::READ_OK | Access::EXEC_OK, "cannot be read")
}

fn check_log_file(path: &Path) -> Result<(), String> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Err("is a directory".to_string()),
        Ok(_) => may(path, Access::WRITE_OK, "cannot be written"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => check_log_directory(&directory_of(path)),
        Err(error) => Err(format!("cannot be opened: {error}")),
    }
}

/// Checks a directory for a log file. A missing log file is made later; a missing directory is not.
fn check_log_directory(directory: &Path) -> Result<(), String> {
    let about = |reason: String| format!("cannot be made: its directory '{}' {reason}", directory.display());
    if !metadata(directory).map_err(about)?.is_dir() {
        return Err(about("is not a directory".to_string()));
    }
    may(directory, Access::WRITE_OK | Access::EXEC_OK, "cannot be written").map_err(about)
}

fn metadata(path: &Path) -> Result<fs::Metadata, String> {
    fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "does not exist".to_string(),
        _ => format!("cannot be opened: {error}"),
    })
}

fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use touchstone_config::{load_file, quick};

    fn write(directory: &Path, text: &str) -> PathBuf {
        let path = directory.join("site.toml");
        fs::write(&path, text).unwrap();
        path
    }

    fn problems(directory: &Path, text: &str) -> Vec<String> {
        let loaded = load_file(&write(directory, text)).unwrap();
        let prefix = format!("{}/", directory.display());
        let problems = check_machine(&loaded.config, &loaded.places);
        problems.iter().map(|problem| problem.to_string().replace(&prefix, "")).collect()
    }

    #[test]
    fn existing_files_are_no_problem() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("www")).unwrap();
        let text = "[access_log]\npath = 'access.log'\n[[site]]\nlisten = ['127.0.0.1:0']\nroot = 'www'\n";
        assert_eq!(problems(directory.path(), text), Vec::<String>::new());
        fs::write(directory.path().join("access.log"), "").unwrap();
        assert_eq!(problems(directory.path(), text), Vec::<String>::new());
    }

    #[test]
    fn missing_files_are_reported_with_their_place() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("file"), "").unwrap();
        fs::create_dir(directory.path().join("www")).unwrap();
        let text = "\
[access_log]
path = 'missing/access.log'
[error_log]
path = 'www'
[[site]]
listen = ['127.0.0.1:0']
root = 'www'
[[site]]
listen = ['127.0.0.2:0']
root = 'nowhere'
[[site]]
listen = ['127.0.0.3:0']
root =   'file'
";
        assert_eq!(
            problems(directory.path(), text),
            [
                "site.toml:2:8: log file 'missing/access.log' cannot be made: \
                 its directory 'missing' does not exist"
                    .replace("'missing'", &format!("'{}'", directory.path().join("missing").display()))
                    .replace(&format!("{}/", directory.path().display()), ""),
                "site.toml:4:8: log file 'www' is a directory".to_string(),
                "site.toml:10:8: root 'nowhere' does not exist; create it, or name another one (relative to \
                 the directory of the configuration file)"
                    .to_string(),
                "site.toml:13:10: root 'file' is not a directory; name the directory that contains the files"
                    .to_string(),
            ]
        );
    }

    #[test]
    fn a_log_below_a_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("file"), "").unwrap();
        fs::create_dir(directory.path().join("www")).unwrap();
        let text = "[access_log]\npath = 'file/a'\n[[site]]\nlisten = ['127.0.0.1:0']\nroot = 'www'\n";
        let expected = "site.toml:2:8: log file 'file/a' cannot be opened: Not a directory (os error 20)";
        assert_eq!(problems(directory.path(), text), [expected]);
    }

    #[test]
    fn a_root_without_rights_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("www");
        fs::create_dir(&root).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o000)).unwrap();
        let found = check_root(&root);
        // The superuser may read every file.
        if rustix::process::geteuid().is_root() {
            assert_eq!(found, Ok(()));
        } else {
            assert_eq!(found, Err("cannot be read: Permission denied (os error 13)".to_string()));
        }
    }

    #[test]
    fn what_certificates_by_acme_need() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("www")).unwrap();
        fs::write(directory.path().join("file"), "-_-_").unwrap();
        let text = |storage: &str, more: &str| {
            format!(
                "[acme]\ndirectory = 'letsencrypt-staging'\nagree_to_terms = true\nstorage = '{storage}'\n\
                 {more}\n[[site]]\nlisten = ['127.0.0.1:0']\nroot = 'www'\nhosts = ['a.org']\n\
                 certificate = 'acme'\n"
            )
        };
        let account = |file: &str| format!("external_account = {{ key_id = 'k', hmac_key = '{file}' }}");
        for good in [text("new/acme", ""), text("www", ""), text("new", &account("file"))] {
            assert_eq!(problems(directory.path(), &good), Vec::<String>::new());
        }
        for (bad, expected) in [
            (text("file", ""), "site.toml:4:11: storage 'file' is not a directory"),
            (
                text("file/a", ""),
                "site.toml:4:11: storage 'file/a' cannot be made: 'file' is not a directory",
            ),
            (text("new", "ca_certificate = 'file'"), "site.toml:5:18: file: holds no certificate"),
            (text("new", "ca_certificate = 'gone'"), "site.toml:5:18: gone: there is no such file"),
            (text("new", &account("www/gone")), "site.toml:5:47: www/gone: the file does not exist"),
            (text("new", &account("www")), "site.toml:5:47: www: cannot be read"),
        ] {
            let found = problems(directory.path(), &bad);
            assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?} is not {expected:?}");
        }
    }

    #[test]
    fn the_quick_form_has_no_places() {
        let config = quick(PathBuf::from("/nowhere/at/all"), "127.0.0.1:0".parse().unwrap());
        let problems = check_machine(&config, &ConfigPlaces::default());
        assert_eq!(problems.len(), 1);
        assert!(problems[0].to_string().starts_with("root '/nowhere/at/all' does not exist; create it"));
    }

    #[test]
    fn places_of_what_the_machine_lacks_name_the_file() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("conf.d")).unwrap();
        let site = "[[site]]\nlisten = ['127.0.0.1:1']\nroot = 'www'\n";
        fs::write(directory.path().join("conf.d/a.toml"), site).unwrap();
        let main = "include = 'conf.d/*.toml'\n[access_log]\npath = 'missing/log'\n";
        let loaded = load_file(&write(directory.path(), main)).unwrap();
        let found = check_machine(&loaded.config, &loaded.places);
        let mut files: Vec<_> =
            found.iter().map(|problem| problem.file.file_name().unwrap().to_owned()).collect();
        files.sort();
        assert_eq!(files, ["a.toml", "site.toml"], "{found:?}");
    }
}
