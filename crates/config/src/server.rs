//! `[server]`: the whole process: its cores, its user, and its commands, stop and replacement.

use std::path::{Path, PathBuf};
use std::time::Duration;

use touchstone_config_section::values::{self, DAY};
use touchstone_config_section::{ABSENT, Key, Kind, Section, SectionPlaces, account_name, as_usize};

use super::ConfigWithPlaces;
use super::config_reader::ConfigReader;

/// The longest path of a unix socket (sun_path without its end).
const LONGEST_SOCKET_PATH_BYTES: usize = 107;

/// `[server]`: the whole process.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerConfig {
    /// Event loops, one a core; 0: as many as the process may run on.
    pub cores: usize,
    /// Pin each event loop to its processor.
    pub pin_cores: bool,
    /// How long a stop waits for running requests.
    pub drain_timeout: Duration,
    /// How long an upgrade waits for the new process.
    pub upgrade_timeout: Duration,
    /// The file with the process id.
    pub pid_file: Option<PathBuf>,
    /// The socket for `touchstone reload` and similar commands.
    pub control_socket: ControlSocket,
    /// The user under which it runs once it listens; empty: the user who starts it.
    pub user: String,
    /// The group; empty: that of the user.
    pub group: String,
    /// Supplementary groups, by name or number; `None`: those of the user in the group database.
    pub supplementary_groups: Option<Vec<String>>,
    /// The permissions that files created by the server never have; `None`: unchanged.
    pub umask: Option<u32>,
    /// Whether the programs that it starts are kept from gaining rights by set-user-id files.
    pub no_new_privileges: bool,
}

/// Where the server accepts commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlSocket {
    /// Not at all.
    Off,
    /// At a name of Linux's abstract namespace that is derived from the configuration file's; this needs no
    /// file.
    Automatic,
    /// At this path.
    Path(PathBuf),
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        SERVER.defaults()
    }
}

const ZERO: Duration = Duration::ZERO;

/// `[server]`
pub static SERVER: Section<ServerConfig> = Section {
    name: "server",
    repeated: false,
    documentation: "The whole process. A reload applies only `drain_timeout` and `upgrade_timeout`; the \
        other keys take effect when the server is started or upgraded.",
    blank: || ServerConfig {
        cores: 0,
        pin_cores: false,
        drain_timeout: ZERO,
        upgrade_timeout: ZERO,
        pid_file: None,
        control_socket: ControlSocket::Off,
        user: String::new(),
        group: String::new(),
        supplementary_groups: None,
        umask: None,
        no_new_privileges: false,
    },
    keys: &[
        Key {
            name: "cores",
            default: Some("0"),
            example: "2",
            documentation: "The number of event loops, each in its own thread. 0 means the number of \
                processors that the process may use.",
            kind: Kind::Number { least: 0, most: 1024, set: |server, value| server.cores = as_usize(value) },
        },
        Key {
            name: "pin_cores",
            default: Some("false"),
            example: "true",
            documentation: "Whether each event loop is pinned to one processor. It reduces the variation of \
                measurements; keep it off if other programs share the machine.",
            kind: Kind::Boolean(|server, value| server.pin_cores = value),
        },
        Key {
            name: "drain_timeout",
            default: Some("\"30s\""),
            example: "\"10s\"",
            documentation: "How long a stop (SIGTERM, SIGINT or `touchstone stop`) waits for running \
                requests. Connections that are still open after it are closed; `\"0s\"` closes them at once. \
                The old process of an upgrade keeps its connections for the same time.",
            kind: Kind::Duration {
                least: ZERO,
                most: DAY,
                set: |server, value| server.drain_timeout = value,
            },
        },
        Key {
            name: "upgrade_timeout",
            default: Some("\"60s\""),
            example: "\"2m\"",
            documentation: "How long an upgrade (SIGUSR2 or `touchstone upgrade`) waits until the new \
                process is ready. After that the new process is ended and the old one continues.",
            kind: Kind::Duration {
                least: Duration::from_secs(1),
                most: DAY,
                set: |server, value| server.upgrade_timeout = value,
            },
        },
        Key {
            name: "pid_file",
            default: Some("\"\""),
            example: "\"/run/touchstone/touchstone.pid\"",
            documentation: "A file that holds the process id while the server runs. \
                An upgrade writes the id of the new process. Empty: no such file.",
            kind: Kind::File(|server, value| server.pid_file = value),
        },
        Key {
            name: "control_socket",
            default: Some("\"auto\""),
            example: "\"/run/touchstone/control.sock\"",
            documentation: "The socket on which the server accepts `touchstone reload`, `upgrade`, `status` \
                and `stop`: the path of a unix socket, `\"auto\"` or `\"off\"`. `\"auto\"` needs no file: it \
                is a name in Linux's abstract namespace, made from the path of the configuration file. In \
                both cases the server answers only root and the user who started it.",
            kind: Kind::Checked {
                what: "`\"auto\"`, `\"off\"` or a path",
                parse: check_control_socket,
                set: |server, value| server.control_socket = control_socket(value),
            },
        },
        Key {
            name: "user",
            default: Some("\"\""),
            example: "\"www-data\"",
            documentation: "The user under which the server runs once it listens, by name or number; root \
                must start it for that. Certificates, logs and roots are opened as this user, so that a file \
                that cannot be read fails at the start and not at the first reload. Empty: the user who \
                starts it.",
            kind: Kind::Checked {
                what: "name or number of a user",
                parse: |text, _| account_name::check_name(text).map(|()| text.to_string()),
                set: |server, value| server.user = value,
            },
        },
        Key {
            name: "group",
            default: Some("\"\""),
            example: "\"www-data\"",
            documentation: "The group of that user, by name or number. Empty: the user's own.",
            kind: Kind::Checked {
                what: "name or number of a group",
                parse: |text, _| account_name::check_name(text).map(|()| text.to_string()),
                set: |server, value| server.group = value,
            },
        },
        Key {
            name: "supplementary_groups",
            default: Some(ABSENT),
            example: "[\"ssl-cert\"]",
            documentation: "The supplementary groups of the user, by name or number. \
                By default those of the group database; `[]`: none.",
            kind: Kind::CheckedArray {
                what: "names or numbers of groups",
                parse: |text| match text {
                    "" => Err("a group has a name or number".to_string()),
                    name => account_name::check_name(name).map(|()| name.to_string()),
                },
                set: |server, value| server.supplementary_groups = Some(value),
            },
        },
        Key {
            name: "umask",
            default: Some("\"\""),
            example: "\"027\"",
            documentation: "The permissions, in octal, that files created by the server, such as logs, never \
                have. Empty: unchanged from the start.",
            kind: Kind::Checked {
                what: "three octal digits",
                parse: |text, _| match text {
                    "" => Ok(String::new()),
                    digits => parse_umask(digits).map(|_| digits.to_string()),
                },
                set: |server, value| server.umask = parse_umask(&value).ok(),
            },
        },
        Key {
            name: "no_new_privileges",
            default: Some("true"),
            example: "false",
            documentation: "Whether neither the server nor a program that it starts can gain rights by \
                set-user-id or set-group-id files or by file capabilities. Switch it off if programs send \
                mail or run sudo.",
            kind: Kind::Boolean(|server, value| server.no_new_privileges = value),
        },
    ],
};

/// The value of `control_socket` as it is stored: a word, or an absolute path.
fn check_control_socket(text: &str, base: &Path) -> Result<String, String> {
    match text {
        "auto" | "off" => Ok(text.to_string()),
        "" => Err("write \"auto\", \"off\" or the path of a socket".to_string()),
        path => {
            let path = values::parse_path(path, base)?;
            let path = path.to_str().ok_or("the path is not text")?;
            if path.len() > LONGEST_SOCKET_PATH_BYTES {
                return Err(format!(
                    "a unix socket's path has at most {LONGEST_SOCKET_PATH_BYTES} bytes, and this has {}",
                    path.len()
                ));
            }
            // An absolute path cannot be one of the words: a file of that name is written ./auto.
            Ok(path.to_string())
        }
    }
}

fn control_socket(value: String) -> ControlSocket {
    match value.as_str() {
        "auto" => ControlSocket::Automatic,
        "off" => ControlSocket::Off,
        _ => ControlSocket::Path(value.into()),
    }
}

/// Parses the octal digits of a umask.
fn parse_umask(text: &str) -> Result<u32, String> {
    let is_octal = (1..=4).contains(&text.len()) && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    match u32::from_str_radix(text, 8) {
        Ok(mask) if is_octal && mask <= 0o777 => Ok(mask),
        _ => Err(format!("{text:?} is not a umask; write octal digits such as \"027\"")),
    }
}

impl ConfigReader<'_> {
    /// Checks keys of `[server]` that depend on each other.
    pub(super) fn check_server(&mut self, loaded: &ConfigWithPlaces) {
        let server = &loaded.config.server;
        let nothing = SectionPlaces::default();
        let places = loaded.places.sections.get(SERVER.name).unwrap_or(&nothing);
        let without_user = [
            ("group", !server.group.is_empty()),
            ("supplementary_groups", server.supplementary_groups.is_some()),
        ];
        for (key, given) in without_user {
            if given && server.user.is_empty() {
                self.problem(places.key(key), format!("'{key}' has no effect without 'user'"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use proptest::prelude::*;

    const SITE: &str = "[[site]]\nlisten = ['127.0.0.1:0']\nroot = 'www'\n";

    fn read(server: &str) -> Result<ServerConfig, Vec<String>> {
        parse(&format!("[server]\n{server}\n{SITE}"), Path::new("/etc/t/t.toml"))
            .map(|config| config.server)
            .map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn values_land_where_they_belong() {
        let server = read(
            "user = 'www-data'\ngroup = '33'\nsupplementary_groups = ['ssl-cert']\numask = '027'\n\
             no_new_privileges = false\npid_file = 'run/t.pid'\ncontrol_socket = \
             'run/t.sock'\nupgrade_timeout = '5s'",
        )
        .unwrap();
        assert_eq!((server.user.as_str(), server.group.as_str()), ("www-data", "33"));
        assert_eq!(server.supplementary_groups, Some(vec!["ssl-cert".to_string()]));
        assert_eq!(server.umask, Some(0o027));
        assert_eq!(server.pid_file, Some("/etc/t/run/t.pid".into()));
        assert_eq!(server.control_socket, ControlSocket::Path("/etc/t/run/t.sock".into()));
        assert!(!server.no_new_privileges && server.upgrade_timeout == Duration::from_secs(5));
        assert_eq!(read("control_socket = 'off'").unwrap().control_socket, ControlSocket::Off);
        let defaults = read("").unwrap();
        assert_eq!(defaults, ServerConfig::default());
        assert_eq!(defaults.control_socket, ControlSocket::Automatic);
        assert_eq!((defaults.umask, defaults.supplementary_groups), (None, None));
        assert!(defaults.no_new_privileges && defaults.user.is_empty());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let long = "a".repeat(200);
        let table = [
            ("umask = '0888'", "umask"),
            ("umask = '7777'", "umask"),
            ("user = 'a:b'", "user"),
            ("user = 'a b'", "user"),
            ("user = 'daemon'\nsupplementary_groups = ['']", "supplementary_groups"),
            ("group = 'www-data'", "has no effect without 'user'"),
            ("supplementary_groups = []", "has no effect without 'user'"),
            ("control_socket = ''", "control_socket"),
            (&format!("control_socket = '{long}'"), "at most"),
            ("upgrade_timeout = '0s'", "upgrade_timeout"),
        ];
        for (text, word) in table {
            let problems = read(text).expect_err(text);
            assert!(problems.len() == 1 && problems[0].contains(word), "{text}: {problems:?}");
            assert!(problems[0].starts_with("/etc/t/t.toml:"), "{problems:?}");
        }
    }

    #[test]
    fn the_section_of_a_broken_file_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("t.toml");
        std::fs::write(&file, "[server]\ncontrol_socket = 'c.sock'\n[limits]\nranges = = 7\n[[site]\n")
            .unwrap();
        let server = crate::load_server_section(&file).unwrap();
        assert_eq!(server.control_socket, ControlSocket::Path(directory.path().join("c.sock")));
        assert_eq!(crate::load_server_section(&directory.path().join("missing")), None);
    }

    proptest! {
        #[test]
        fn any_umask_text_is_one_or_is_refused(text in ".{0,6}") {
            if let Ok(mask) = parse_umask(&text) {
                prop_assert!(mask <= 0o777);
                prop_assert_eq!(u32::from_str_radix(&text, 8).unwrap(), mask);
            }
        }
    }
}
