//! `[admin]`: where metrics and the status page are served, and to which clients; `[request_id]`: ids of
//! requests.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use touchstone_config_section::{Choice, Key, Kind, Section, values};

use super::config_reader::ConfigReader;
use super::{AcceptRequestId, ConfigWithPlaces, Network, RequestIdConfig};

/// `[admin]`
#[derive(Debug, Clone, PartialEq)]
pub struct AdminConfig {
    /// Where it listens.
    pub listen: AdminListen,
    /// The networks that may send requests, besides this machine.
    pub allow: Vec<Network>,
    /// The file with the token that clients must send.
    pub token_file: Option<PathBuf>,
    /// The host names under which it may be requested.
    pub hosts: Vec<String>,
    /// The time of one in this many cached answers is measured; 0: of none.
    pub sample_hits: u32,
}

/// Where the admin listener is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdminListen {
    /// None.
    Off,
    /// At this address.
    Tcp(SocketAddr),
    /// At this path.
    Unix(PathBuf),
}

impl Default for AdminConfig {
    fn default() -> AdminConfig {
        ADMIN.defaults()
    }
}

impl AdminConfig {
    /// Whether it listens.
    pub fn is_on(&self) -> bool {
        self.listen != AdminListen::Off
    }

    /// The time of one in this many cached answers is measured; 0: of none. Without a listener the times
    /// would not be visible.
    pub fn hit_sampling(&self) -> u32 {
        if self.is_on() { self.sample_hits } else { 0 }
    }
}

impl AdminListen {
    /// Parses `off`, `ADDRESS:PORT` or `unix:PATH`; a relative path is relative to `base`.
    fn parse(text: &str, base: &Path) -> Result<AdminListen, String> {
        match text.strip_prefix("unix:") {
            _ if text == "off" => Ok(AdminListen::Off),
            Some(path) => {
                let path = values::parse_path(path, base)?;
                // The kernel has room for 108 bytes including the final zero (unix(7)).
                if path.as_os_str().len() > 107 {
                    return Err(format!("the path '{}' is longer than 107 bytes", path.display()));
                }
                Ok(AdminListen::Unix(path))
            }
            None => values::parse_listen_address(text).map(AdminListen::Tcp).map_err(|message| {
                format!("{message}; or write \"off\", or \"unix:\" and the path of a socket")
            }),
        }
    }
}

impl fmt::Display for AdminListen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdminListen::Off => formatter.write_str("off"),
            AdminListen::Tcp(address) => write!(formatter, "{address}"),
            AdminListen::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

/// `[admin]`
pub static ADMIN: Section<AdminConfig> = Section {
    name: "admin",
    repeated: false,
    documentation: "Metrics for monitoring systems and a live status page, on a separate listener. They show \
        the requests of each client, so only this machine has access unless this section allows more.",
    blank: || AdminConfig {
        listen: AdminListen::Off,
        allow: Vec::new(),
        token_file: None,
        hosts: Vec::new(),
        sample_hits: 0,
    },
    keys: &[
        Key {
            name: "listen",
            default: Some("\"off\""),
            example: "\"127.0.0.1:9180\"",
            documentation: "Where `/metrics`, `/status`, `/sessions` and `/health` are served: an address \
                with its port, `\"unix:/run/touchstone/admin.sock\"` for a socket that only the server's own \
                user and root may open, or `\"off\"`. An address that other machines can reach is refused \
                unless `allow` or `token_file` is set.",
            kind: Kind::Checked {
                what: "`\"off\"`, `\"ADDRESS:PORT\"` or `\"unix:PATH\"`",
                parse: |text, base| AdminListen::parse(text, base).map(|listen| listen.to_string()),
                set: |admin, text| {
                    admin.listen = AdminListen::parse(&text, Path::new("")).unwrap_or(AdminListen::Off);
                },
            },
        },
        Key {
            name: "allow",
            default: Some("[]"),
            example: "[\"127.0.0.1\", \"10.1.0.0/16\"]",
            documentation: "The networks whose clients have access; other clients are answered with 403 \
                Forbidden. Empty: every client that can reach the address, and that sends the token if there \
                is one.",
            kind: Kind::Networks(|admin, value| admin.allow = value),
        },
        Key {
            name: "token_file",
            default: Some("\"\""),
            example: "\"admin.token\"",
            documentation: "A file with a token of at least 16 characters that clients must send: as \
                `Authorization: Bearer TOKEN`, or as the password in a browser, with any user name. It is \
                read again with every reload. Empty: no token is needed.",
            kind: Kind::File(|admin, value| admin.token_file = value),
        },
        Key {
            name: "hosts",
            default: Some("[]"),
            example: "[\"metrics.example.org\"]",
            documentation: "The host names under which the listener may be requested, besides numeric \
                addresses and `localhost`. Others are answered with 421 Misdirected Request, so that no web \
                page can make a browser on this machine read these pages. If there is a token, any name is \
                accepted.",
            kind: Kind::Hosts(|admin, value| admin.hosts = value),
        },
        Key {
            name: "sample_hits",
            default: Some("64"),
            example: "1",
            documentation: "One in so many of the requests that are answered straight from the file cache is \
                timed. 1 times every request, which costs each some tens of nanoseconds; 0 times none. All \
                other requests are timed.",
            kind: Kind::Number {
                least: 0,
                most: 1_000_000,
                set: |admin, value| admin.sample_hits = u32::try_from(value).unwrap_or(u32::MAX),
            },
        },
    ],
};

/// `[request_id]`
pub static REQUEST_ID: Section<RequestIdConfig> = Section {
    name: "request_id",
    repeated: false,
    documentation: "An identifier for each request, which its lines in the logs of several servers share. It \
        is generated only for requests whose log line, answer or program contains it.",
    blank: || RequestIdConfig {
        field: String::new(),
        accept: AcceptRequestId::Never,
        answer: false,
        forward: false,
    },
    keys: &[
        Key {
            name: "field",
            default: Some("\"X-Request-Id\""),
            example: "\"X-Request-Id\"",
            documentation: "The header field that holds it, in requests and answers.",
            kind: Kind::Checked {
                what: "name of a header field",
                parse: |text, _| match values::is_token(text) {
                    true => values::check_added_field(text, "x").map(|()| text.to_string()),
                    false => Err(format!("'{}' is not the name of a header field", values::shorten(text))),
                },
                set: |config, text| config.field = text,
            },
        },
        Key {
            name: "accept",
            default: Some("\"proxies\""),
            example: "\"always\"",
            documentation: "Whether the identifier that a request contains is accepted. It must have 1 to \
                128 characters: letters, digits and `-._~+/=:@`. Otherwise a new one is generated, a UUID of \
                version 7.",
            kind: Kind::Choice(&[
                Choice {
                    word: "never",
                    meaning: "every request gets a new one",
                    set: |config| config.accept = AcceptRequestId::Never,
                },
                Choice {
                    word: "proxies",
                    meaning: "from the trusted proxies of `[proxies]`",
                    set: |config| config.accept = AcceptRequestId::Proxies,
                },
                Choice {
                    word: "always",
                    meaning: "from every client; clients can then choose a part of the log lines",
                    set: |config| config.accept = AcceptRequestId::Always,
                },
            ]),
        },
        Key {
            name: "answer",
            default: Some("false"),
            example: "true",
            documentation: "Whether the field is added to every answer. \
                Prepared answers of the file cache cannot have an id each, so every request then takes the \
                longer way.",
            kind: Kind::Boolean(|config, value| config.answer = value),
        },
        Key {
            name: "forward",
            default: Some("false"),
            example: "true",
            documentation: "Whether programs and origins get the field with the id, instead of the one that \
                the request brought.",
            kind: Kind::Boolean(|config, value| config.forward = value),
        },
    ],
};

impl ConfigReader<'_> {
    /// Reports an admin listener that other machines could reach, and keys without effect.
    pub(super) fn check_admin(&mut self, loaded: &ConfigWithPlaces) {
        let Some(places) = loaded.places.sections.get(ADMIN.name) else { return };
        let admin = &loaded.config.admin;
        match &admin.listen {
            AdminListen::Tcp(address) => {
                if !address.ip().to_canonical().is_loopback()
                    && admin.allow.is_empty()
                    && admin.token_file.is_none()
                {
                    let message = format!(
                        "'listen': other machines can reach {address}; name in 'allow' those that may, or \
                         set 'token_file', or listen on 127.0.0.1"
                    );
                    self.problem(places.key("listen"), message);
                }
                let sites = &loaded.config.sites;
                if let Some(position) =
                    sites.iter().position(|site| site.listen.iter().any(|listen| listen == address))
                {
                    let site =
                        loaded.places.sites.get(position).map_or_else(Default::default, |site| site.header);
                    let line = self.line(site, places.key("listen"));
                    let message = format!("'listen': {address} already belongs to the [[site]] of {line}");
                    self.problem(places.key("listen"), message);
                }
            }
            AdminListen::Unix(_) if !admin.allow.is_empty() => {
                let message = "'allow' has no effect for a unix socket; the rights of its file and directory \
                    decide who may open it";
                self.problem(places.key("allow"), message.to_string());
            }
            AdminListen::Unix(_) | AdminListen::Off => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn problems(admin: &str) -> Vec<String> {
        let text = format!("[admin]\n{admin}\n[[site]]\nlisten = ['127.0.0.1:80']\nroot = '/'\n");
        let problems = parse(&text, Path::new("/etc/a.toml")).err().unwrap_or_default();
        problems.iter().map(ToString::to_string).collect()
    }

    fn listen(text: &str) -> Result<AdminListen, String> {
        AdminListen::parse(text, Path::new("/etc"))
    }

    #[test]
    fn places_to_listen() {
        assert_eq!(listen("off"), Ok(AdminListen::Off));
        assert_eq!(listen("127.0.0.1:9"), Ok(AdminListen::Tcp("127.0.0.1:9".parse().unwrap())));
        assert_eq!(listen("unix:/run/a.sock"), Ok(AdminListen::Unix("/run/a.sock".into())));
        assert_eq!(listen("unix:a.sock"), Ok(AdminListen::Unix("/etc/a.sock".into())));
        assert!(listen("unix:").is_err());
        assert!(listen(&format!("unix:/{}", "a".repeat(107))).unwrap_err().contains("107 bytes"));
        assert!(listen("localhost:9").unwrap_err().contains("\"unix:\""));
    }

    #[test]
    fn nobody_else_can_ask_unless_it_is_said_who() {
        assert_eq!(problems("listen = '127.0.0.1:9180'"), [""; 0]);
        assert_eq!(problems("listen = '[::1]:9180'"), [""; 0]);
        assert_eq!(problems("listen = 'unix:admin.sock'"), [""; 0]);
        let refused = problems("listen = '0.0.0.0:9180'");
        assert!(
            refused.len() == 1 && refused[0].starts_with("/etc/a.toml:2:10: 'listen': other machines"),
            "{refused:?}"
        );
        assert_eq!(problems("listen = '0.0.0.0:9180'\nallow = ['10.0.0.0/8']"), [""; 0]);
        assert_eq!(problems("listen = '0.0.0.0:9180'\ntoken_file = 'token'"), [""; 0]);
    }

    #[test]
    fn what_cannot_be_meant() {
        assert!(problems("listen = '127.0.0.1:80'")[0].contains("already belongs to the [[site]] of line 3"));
        assert!(
            problems("listen = 'unix:a'\nallow = ['10.0.0.0/8']")[0]
                .contains("has no effect for a unix socket")
        );
        assert!(problems("listn = 'off'")[0].contains("did you mean 'listen'?"));
    }
}
