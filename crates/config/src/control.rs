//! `[control]`: the control API of the admin listener, which changes the server while it runs.

use std::path::PathBuf;

use touchstone_config_section::{Choice, Key, Kind, Section};

use super::admin::ADMIN;
use super::config_reader::ConfigReader;
use super::{AdminListen, ConfigWithPlaces};

/// `[control]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlConfig {
    /// Whether the control API is available.
    pub enabled: bool,
    /// The file with the tokens of clients.
    pub token_file: Option<PathBuf>,
    /// How long changes last.
    pub persist: Persistence,
    /// The directory for changes and certificates.
    pub directory: Option<PathBuf>,
    /// The file of the audit log; `None`: the error log.
    pub audit_log: Option<PathBuf>,
}

/// How long changes by the control API last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// Until the next reload, upgrade or stop.
    None,
    /// They are kept in a file, and applied over the configuration file.
    File,
}

impl Persistence {
    /// The word for it in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            Persistence::None => "none",
            Persistence::File => "file",
        }
    }
}

impl Default for ControlConfig {
    fn default() -> ControlConfig {
        CONTROL.defaults()
    }
}

/// `[control]`
pub static CONTROL: Section<ControlConfig> = Section {
    name: "control",
    repeated: false,
    documentation: "The control API: clients read and change sites, routes, origins and certificates while \
        the server runs, at `/control` of the admin listener. See [the control API](control.md).",
    blank: || ControlConfig {
        enabled: false,
        token_file: None,
        persist: Persistence::None,
        directory: None,
        audit_log: None,
    },
    keys: &[
        Key {
            name: "enabled",
            default: Some("false"),
            example: "true",
            documentation: "Whether the control API is available. It needs `admin.listen`, and `token_file` \
                unless that is a unix socket.",
            kind: Kind::Boolean(|control, value| control.enabled = value),
        },
        Key {
            name: "token_file",
            default: Some("\"\""),
            example: "\"control.tokens\"",
            documentation: "A file with a line for each client: its name, `read` or `change`, and its token \
                of at least 16 characters or `sha256:` and the digest of the token. Lines that begin with \
                `#` are comments. It is read again with every reload. Empty: only root and the server's \
                user have access, by a unix socket.",
            kind: Kind::File(|control, value| control.token_file = value),
        },
        Key {
            name: "persist",
            default: Some("\"none\""),
            example: "\"file\"",
            documentation: "How long changes last. With `\"file\"` they are in `overlay.json` of \
                `directory`; with `\"none\"` the configuration file alone is the truth.",
            kind: Kind::Choice(&[
                Choice {
                    word: "none",
                    meaning: "until the next reload, upgrade or stop",
                    set: |control| control.persist = Persistence::None,
                },
                Choice {
                    word: "file",
                    meaning: "each start and reload applies them over the configuration file",
                    set: |control| control.persist = Persistence::File,
                },
            ]),
        },
        Key {
            name: "directory",
            default: Some("\"\""),
            example: "\"/var/lib/touchstone/control\"",
            documentation: "The directory of `overlay.json`, and of certificates that the control API has \
                received. Only the server's user may read it. Needed for `persist = \"file\"` and for \
                certificates.",
            kind: Kind::File(|control, value| control.directory = value),
        },
        Key {
            name: "audit_log",
            default: Some("\"\""),
            example: "\"audit.log\"",
            documentation: "The file that gets a line of JSON for each change, accepted or refused. It is \
                opened again with the other logs. Empty: the lines are in the error log.",
            kind: Kind::File(|control, value| control.audit_log = value),
        },
    ],
};

impl ConfigReader<'_> {
    /// Checks that no client can change the server without showing who it is, and that changes can be kept.
    pub(super) fn check_control(&mut self, loaded: &ConfigWithPlaces) {
        let Some(places) = loaded.places.sections.get(CONTROL.name) else { return };
        let (control, admin) = (&loaded.config.control, &loaded.config.admin);
        if !control.enabled || loaded.places.is_unread(ADMIN.name, "listen") {
            return;
        }
        let is_unix = matches!(admin.listen, AdminListen::Unix(_));
        if !admin.is_on() {
            let message = "'enabled' needs an admin listener; set 'listen' in [admin]";
            self.problem(places.key("enabled"), message.to_string());
        } else if control.token_file.is_none() && !is_unix {
            let message = format!(
                "'enabled': every program and user of this machine could change the server at {}; set \
                 'token_file', or use a unix socket for the admin listener",
                admin.listen
            );
            self.problem(places.key("enabled"), message);
        }
        if control.persist == Persistence::File && control.directory.is_none() {
            let message = "'persist' \"file\" needs 'directory', where the changes are kept";
            self.problem(places.key("persist"), message.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::parse;
    use std::path::Path;

    fn problems(text: &str) -> Vec<String> {
        let text = format!("{text}\n[[site]]\nlisten = ['127.0.0.1:80']\nroot = '/'\n");
        let problems = parse(&text, Path::new("/etc/a.toml")).err().unwrap_or_default();
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_client_must_show_who_it_is() {
        let tcp = "[admin]\nlisten = '127.0.0.1:9180'\n[control]\nenabled = true\n";
        let unix = "[admin]\nlisten = 'unix:/run/a.sock'\n[control]\nenabled = true\n";
        assert_eq!(problems(unix), [""; 0]);
        assert_eq!(problems(&format!("{tcp}token_file = 'tokens'")), [""; 0]);
        for (text, expected) in [
            (tcp, "'token_file'"),
            ("[control]\nenabled = true", "needs an admin listener"),
            (&format!("{unix}persist = 'file'"), "needs 'directory'"),
            (&format!("{unix}token = 'a'"), "unknown key 'token'"),
        ] {
            let found = problems(text);
            assert!(found.len() == 1 && found[0].contains(expected), "{text}: {found:?}");
        }
        // An admin token that all readers have does not distinguish clients.
        let admin_token = tcp.replace("[control]", "token_file = 'a'\n[control]");
        assert!(problems(&admin_token)[0].contains("'token_file'"));
        assert_eq!(problems("[control]\npersist = 'file'"), [""; 0], "it is not enabled");
    }
}
