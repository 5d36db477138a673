//! Systems under test: how each server is found, configured, started and stopped.
//!
//! A system is a TOML file. Those in `systems/` at the repository's root are built in; [`Definition::find`]
//! accepts the name of one of them or the path of a file. A server that runs already is named by its URL
//! instead ([`url::SystemUrl`]) and no program is started.

pub mod companion;
pub mod launch;
pub mod memory_group;
pub mod process;
mod read;
pub(crate) mod template;
pub mod url;
pub mod user;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use touchstone_lab::capability;
use touchstone_lab::definition::{DefinitionError, nearest};
use touchstone_lab::result::ConfigurationFile;

use companion::{Companion, PreparedCompanion};
pub use template::Values;

/// The systems that are built in: name and TOML text.
const BUILT_IN: [(&str, &str); 30] = [
    ("touchstone", include_str!("../../../../systems/touchstone.toml")),
    ("touchstone-accelerator", include_str!("../../../../systems/touchstone-accelerator.toml")),
    ("touchstone-check", include_str!("../../../../systems/touchstone-check.toml")),
    ("touchstone-proxy", include_str!("../../../../systems/touchstone-proxy.toml")),
    ("limit", include_str!("../../../../systems/limit.toml")),
    ("nginx", include_str!("../../../../systems/nginx.toml")),
    ("h2o", include_str!("../../../../systems/h2o.toml")),
    ("lighttpd", include_str!("../../../../systems/lighttpd.toml")),
    ("apache", include_str!("../../../../systems/apache.toml")),
    ("caddy", include_str!("../../../../systems/caddy.toml")),
    ("haproxy", include_str!("../../../../systems/haproxy.toml")),
    ("nginx-proxy", include_str!("../../../../systems/nginx-proxy.toml")),
    ("caddy-proxy", include_str!("../../../../systems/caddy-proxy.toml")),
    ("haproxy-cache", include_str!("../../../../systems/haproxy-cache.toml")),
    ("nginx-cache", include_str!("../../../../systems/nginx-cache.toml")),
    ("varnish", include_str!("../../../../systems/varnish.toml")),
    ("trafficserver", include_str!("../../../../systems/trafficserver.toml")),
    ("squid", include_str!("../../../../systems/squid.toml")),
    ("tomcat", include_str!("../../../../systems/tomcat.toml")),
    ("jetty", include_str!("../../../../systems/jetty.toml")),
    ("apache-ajp", include_str!("../../../../systems/apache-ajp.toml")),
    ("touchstone-ajp", include_str!("../../../../systems/touchstone-ajp.toml")),
    ("granian", include_str!("../../../../systems/granian.toml")),
    ("granian-asgi", include_str!("../../../../systems/granian-asgi.toml")),
    ("uvicorn", include_str!("../../../../systems/uvicorn.toml")),
    ("hypercorn", include_str!("../../../../systems/hypercorn.toml")),
    ("gunicorn", include_str!("../../../../systems/gunicorn.toml")),
    ("uwsgi", include_str!("../../../../systems/uwsgi.toml")),
    ("apache-wsgi", include_str!("../../../../systems/apache-wsgi.toml")),
    ("wasmtime-serve", include_str!("../../../../systems/wasmtime-serve.toml")),
];

/// Directories of servers that are not on an ordinary user's PATH.
const SYSTEM_DIRECTORIES: [&str; 4] = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin"];

/// How long a server may take to print its version; a server in Java starts Java for that.
const VERSION_TIME_LIMIT: Duration = Duration::from_secs(30);

/// How a system under test is found, configured and started.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// For example `nginx`.
    pub name: String,
    /// Its name for readers; `{version}` is replaced by the version.
    pub title: String,
    /// A line for the list of systems.
    pub description: String,
    /// The Debian package that installs it.
    pub package: Option<String>,
    /// The names of its executable; the first that is found is used; `{self}` is this program.
    pub executables: Vec<String>,
    /// The arguments that make it print its version.
    pub version_arguments: Vec<String>,
    /// The version follows this text.
    pub version_after: String,
    /// The command with its arguments, as templates.
    pub command: Vec<String>,
    /// Environment variables set for it: name and template.
    pub environment: Vec<(String, String)>,
    /// Its configuration files, as templates.
    pub files: Vec<ConfigurationFile>,
    /// What it can do, for example `files`.
    pub capabilities: Vec<String>,
    /// What only some of its builds can do.
    pub capabilities_of_builds: Vec<CapabilityOfBuild>,
    /// Programs that are started with it, because it does not start them itself.
    pub companions: Vec<Companion>,
    /// The capabilities with programs whose processor time the kernel adds to none of its processes.
    pub uncounted: Vec<String>,
    /// The system behind this one, by name or path: it is started before this one, on its own port.
    pub origin: Option<String>,
    /// True for the kernel's limit: it answers every request with one length.
    pub is_limit: bool,
}

/// A capability that a build of a system has if its executable prints a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapabilityOfBuild {
    /// The capability.
    pub capability: String,
    /// The arguments that make the executable print how it was built.
    pub arguments: Vec<String>,
    /// The text in that output.
    pub prints: String,
}

/// An installed system.
#[derive(Debug, Clone, PartialEq)]
pub struct InstalledSystem {
    /// Its executable.
    pub executable: PathBuf,
    /// Its version, if the server reports one.
    pub version: Option<String>,
    /// The capabilities that this build has in addition to those of every build.
    pub capabilities: Vec<String>,
}

/// A system with its templates filled: ready to be written to disk and started.
#[derive(Debug, Clone, PartialEq)]
pub struct PreparedSystem {
    /// The command with its arguments.
    pub command: Vec<String>,
    /// Environment variables set for it.
    pub environment: Vec<(String, String)>,
    /// Its configuration files.
    pub files: Vec<ConfigurationFile>,
    /// The programs that run beside it.
    pub companions: Vec<PreparedCompanion>,
}

impl Definition {
    /// The systems that are built in, in the order of the list.
    pub fn built_in() -> Result<Vec<Definition>, DefinitionError> {
        BUILT_IN.iter().map(|(name, text)| Definition::read(name, text)).collect()
    }

    /// A built-in system by name, or a definition by the path of its file; with `=` and a path behind it,
    /// that system with the executable there, for example another version: `nginx=/opt/nginx/sbin/nginx`.
    pub fn find(name_or_path: &str) -> Result<Definition, String> {
        if let Some((name, executable)) = name_or_path.split_once('=') {
            let mut definition = Definition::find(name)?;
            if !executable.contains('/') || !is_executable(Path::new(executable)) {
                return Err(format!(
                    "--sut {name_or_path}: {executable} is not a path of an executable file, such as \
                     /opt/{name}/sbin/{name}"
                ));
            }
            definition.executables = vec![executable.to_owned()];
            return Ok(definition);
        }
        let text = Definition::text_of(name_or_path)?;
        Definition::read(name_or_path, &text).map_err(|error| error.to_string())
    }

    /// The TOML text of what [`Definition::find`] finds.
    pub fn text_of(name_or_path: &str) -> Result<String, String> {
        if let Some((_, text)) = BUILT_IN.iter().find(|(name, _)| *name == name_or_path) {
            return Ok((*text).to_owned());
        }
        if !name_or_path.contains('/') && !name_or_path.ends_with(".toml") {
            return Err(unknown_system(name_or_path));
        }
        std::fs::read_to_string(name_or_path)
            .map_err(|error| format!("definition of a system, {name_or_path}: {error}"))
    }

    /// Reads a system's TOML text; `file` names it in messages.
    pub fn read(file: &str, text: &str) -> Result<Definition, DefinitionError> {
        read::definition(file, text)
    }

    /// Whether its executable is this program.
    pub fn is_this_program(&self) -> bool {
        self.executables.iter().any(|name| name == THIS_PROGRAM)
    }

    /// The executable and its version, or `None` where it is not installed.
    pub fn installed(&self) -> Option<InstalledSystem> {
        let executable = self.executables.iter().find_map(|name| find_executable(name))?;
        let version = self.version_of(&executable);
        let has = |of_build: &&CapabilityOfBuild| {
            printed_by(&executable, &of_build.arguments).is_ok_and(|text| text.contains(&of_build.prints))
        };
        let of_build = self.capabilities_of_builds.iter().filter(has);
        let capabilities = of_build.map(|of_build| of_build.capability.clone()).collect();
        Some(InstalledSystem { executable, version, capabilities })
    }

    /// This definition with the capabilities of the build that is installed.
    pub fn of_build(mut self, installed: &InstalledSystem) -> Definition {
        self.capabilities.extend(installed.capabilities.iter().cloned());
        self
    }

    /// What to do if a system is not installed.
    pub fn how_to_install(&self) -> String {
        match &self.package {
            Some(package) => format!("install the package {package} (apt-get install {package})"),
            None => format!("no {} was found on the PATH", self.executables.join(" and no ")),
        }
    }

    /// Its name for people, with its version.
    pub fn title_with(&self, version: Option<&str>) -> String {
        self.title.replace("{version}", version.unwrap_or("")).trim().to_string()
    }

    /// Fills the templates.
    pub fn prepare(&self, values: &Values<'_>) -> PreparedSystem {
        let fill = |template: &String| values.fill(template);
        let file = |file: &ConfigurationFile| ConfigurationFile {
            name: file.name.clone(),
            text: values.fill(file.text.trim_start_matches('\n')),
        };
        PreparedSystem {
            command: self.command.iter().map(fill).collect(),
            environment: self.environment.iter().map(|(name, value)| (name.clone(), fill(value))).collect(),
            files: self.files.iter().map(file).collect(),
            companions: self
                .companions
                .iter()
                .filter(|companion| values.needs.contains(&companion.needs.as_str()))
                .map(|companion| PreparedCompanion {
                    socket: companion.socket.clone(),
                    command: companion.command.iter().map(fill).collect(),
                })
                .collect(),
        }
    }

    /// Why it cannot do what is needed, as a sentence without its full stop; `title` is its name for people.
    pub fn lacks(&self, needs: &[&str], title: &str) -> Option<String> {
        let missing = needs.iter().find(|need| !self.capabilities.iter().any(|own| own == *need))?;
        let does_not = format!("{title} does not {}", capability::in_words(missing));
        let of_builds = self.capabilities_of_builds.iter().find(|of_build| of_build.capability == **missing);
        Some(match of_builds {
            Some(CapabilityOfBuild { arguments, prints, .. }) => format!(
                "{does_not}: this build lacks it (`{} {}` does not print {prints})",
                self.executables[0],
                arguments.join(" ")
            ),
            None => does_not,
        })
    }

    fn version_of(&self, executable: &Path) -> Option<String> {
        if self.version_arguments.is_empty() {
            return None;
        }
        let printed = printed_by(executable, &self.version_arguments).ok()?;
        let (_, after) = printed.split_once(&self.version_after)?;
        let version: String = after
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '_'))
            .collect();
        (!version.is_empty()).then_some(version)
    }
}

impl PreparedSystem {
    /// Writes the configuration files into the system's directory.
    pub fn write_files(&self, directory: &Path) -> io::Result<()> {
        self.files.iter().try_for_each(|file| {
            touchstone_lab::output::write_atomically(&directory.join(&file.name), file.text.as_bytes())
        })
    }
}

/// The name of this program's executable in a definition.
const THIS_PROGRAM: &str = "{self}";

/// The executable's path: `{self}`, a path, or a name on the PATH or in the system's directories.
fn find_executable(name: &str) -> Option<PathBuf> {
    if name == THIS_PROGRAM {
        return std::env::current_exe().ok();
    }
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| is_executable(path));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(SYSTEM_DIRECTORIES.iter().map(PathBuf::from));
    directories.map(|directory| directory.join(name)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// The output of a short command, standard output and error together; a command that does not end in time is
/// killed.
fn printed_by(executable: &Path, arguments: &[String]) -> io::Result<String> {
    let mut child = Command::new(executable)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let deadline = Instant::now() + VERSION_TIME_LIMIT;
    while child.try_wait()?.is_none() {
        if Instant::now() > deadline {
            child.kill()?;
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(text(&output.stdout) + &text(&output.stderr))
}

fn unknown_system(name: &str) -> String {
    let names = BUILT_IN.iter().map(|(name, _)| *name);
    let advice = match nearest(name, names.clone()) {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!("known: {}.", names.collect::<Vec<_>>().join(", ")),
    };
    format!(
        "there is no system `{name}`; {advice} A server that runs already is named by its URL \
         (http://...), a definition of your own by its path."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(directory: &Path) -> Values<'_> {
        Values {
            executable: Path::new("/usr/sbin/server"),
            root: Path::new("/tree"),
            directory,
            address: std::net::Ipv4Addr::LOCALHOST.into(),
            port: 8080,
            origin_port: 8081,
            tls_port: 8443,
            certificate: Path::new("/tmp/c.pem"),
            certificate_key: Path::new("/tmp/k.pem"),
            cores: 3,
            mean_body_bytes: 8348,
            programs: Path::new("/programs"),
            jars: Some(Path::new("/jars")),
            sockets: Path::new("/tmp/sockets"),
            user: "nobody",
            group: "nogroup",
            as_root: true,
            needs: &[
                "files",
                "includes",
                "cgi",
                "fastcgi",
                "nsapi",
                "servlet",
                "jsp",
                "ajp",
                "wsgi",
                "asgi",
                "wasm",
                "wasm_reused",
                "tls",
                "http_two",
                "http_three",
                "application",
            ],
        }
    }

    #[test]
    fn built_in_systems_bear_their_names_and_have_no_open_placeholder() {
        let systems = Definition::built_in().unwrap();
        assert_eq!(systems.len(), BUILT_IN.len());
        for (system, (name, _)) in systems.iter().zip(BUILT_IN) {
            assert_eq!(system.name, name);
            let prepared = system.prepare(&values(Path::new("/results/x")));
            assert!(prepared.command.iter().any(|word| word == "/usr/sbin/server"), "{name}");
            let all = prepared.command.join(" ")
                + &prepared.files.iter().map(|f| f.text.as_str()).collect::<String>();
            assert!(all.contains("8080"), "{name} is not told its port");
            assert!(!all.contains("{?") && !all.contains("{/"), "{name}");
            for placeholder in template::PLACEHOLDERS {
                assert!(!all.contains(&format!("{{{placeholder}}}")), "{name} keeps {placeholder}");
            }
        }
        assert!(systems.iter().filter(|system| system.is_limit).count() == 1);
    }

    #[test]
    fn nginx_is_configured_fairly() {
        let nginx = Definition::find("nginx").unwrap();
        let text = nginx.prepare(&values(Path::new("/results/nginx"))).files[0].text.clone();
        let expected = [
            "worker_processes 3;",
            "sendfile on;",
            "tcp_nopush on;",
            "open_file_cache max=",
            "access_log off;",
            "listen 127.0.0.1:8443 quic reuseport;",
        ];
        for directive in expected {
            assert!(text.contains(directive), "{directive}");
        }
        assert!(text.starts_with("daemon off;"));
    }

    #[test]
    fn unknown_systems_are_refused_with_the_nearest_name() {
        assert!(
            Definition::find("ngnix")
                .unwrap_err()
                .starts_with("there is no system `ngnix`; did you mean `nginx`?")
        );
        assert!(
            Definition::find("zzz")
                .unwrap_err()
                .contains("known: touchstone, touchstone-accelerator, touchstone-check, touchstone-proxy, ")
        );
        assert!(Definition::find("/nowhere/x.toml").unwrap_err().contains("/nowhere/x.toml"));
    }

    #[test]
    fn a_system_that_is_not_installed_names_its_package() {
        let mut nginx = Definition::find("nginx").unwrap();
        nginx.executables = vec!["no-such-server-here".to_string()];
        assert_eq!(nginx.installed(), None);
        assert_eq!(nginx.how_to_install(), "install the package nginx (apt-get install nginx)");
    }

    #[test]
    fn a_build_has_the_capabilities_that_it_prints() {
        let mut nginx = Definition::find("nginx").unwrap();
        nginx.executables = vec!["echo".to_string()];
        let lacks = |nginx: &Definition| {
            let installed = nginx.installed().unwrap();
            nginx.clone().of_build(&installed).lacks(&["http_three"], "nginx 1")
        };
        // It prints its arguments.
        assert_eq!(
            lacks(&nginx).unwrap(),
            "nginx 1 does not use HTTP/3: this build lacks it (`echo -V` does not print \
             --with-http_v3_module)"
        );
        nginx.capabilities_of_builds[0].arguments = vec!["--a --with-http_v3_module --b".to_string()];
        assert_eq!(lacks(&nginx), None);
        // What no build has is told without a build.
        let text = nginx.lacks(&["cgi"], "nginx 1").unwrap();
        assert_eq!(text, "nginx 1 does not run CGI programs");
    }

    #[test]
    fn the_version_is_what_follows_the_stated_text() {
        let mut system = Definition::find("touchstone").unwrap();
        system.executables = vec!["echo".to_string()];
        system.version_arguments = vec!["Server: touchstone 1.2.3-rc1 (x)".to_string()];
        let installed = system.installed().unwrap();
        assert_eq!(installed.version.as_deref(), Some("1.2.3-rc1"));
        assert_eq!(system.title_with(installed.version.as_deref()), "touchstone 1.2.3-rc1");
        assert_eq!(system.title_with(None), "touchstone");
    }
}
