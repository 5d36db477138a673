//! `[access_log]` and `[error_log]`, and the same keys of a site or route.

use std::path::Path;

use toml::de::DeValue;
use touchstone_config_section::reader::{Reader, Value};
use touchstone_config_section::{ABSENT, Choice, Key, Kind, Section, SectionPlaces, values};
use touchstone_expression::{AvailableFrom, Condition};
use touchstone_observe::log::{FACILITIES, LogIdentity};

use super::{AccessLogConfig, AccessLogFormat, ErrorLogConfig, LogDestination, LogLevel};

const PATH: &str = "The destination of the lines: `\"off\"`, `\"stdout\"`, `\"stderr\"`, a file, a syslog \
    server (`\"syslog:/dev/log\"`, `\"syslog:udp:HOST:PORT\"` or `\"syslog:tcp:HOST:PORT\"`), or \
    `\"journald\"`. See the [page about logs](logs.md#syslog-and-journald).";

/// `[access_log]`
pub static ACCESS_LOG: Section<AccessLogConfig> = Section {
    name: "access_log",
    repeated: false,
    documentation: "One line for each request that was answered.",
    blank: blank_access_log,
    keys: &[
        path(Some("\"off\""), "\"log/access.log\""),
        access_format(),
        access_when(),
        access_sample(),
        facility(),
        tag(),
    ],
};

/// `[site.access_log]`
pub static SITE_ACCESS_LOG: Section<AccessLogConfig> = Section {
    name: "site.access_log",
    repeated: false,
    documentation: "One line for each request of the site, in place of that of `[access_log]`. \
        `[site.route.access_log]` has the same keys. `access_log = \"off\"` and `access_log = \"FILE\"` are \
        short for a table with that `path`.",
    blank: blank_access_log,
    keys: &[
        path(None, "\"log/shop.log\""),
        access_format(),
        access_when(),
        access_sample(),
        facility(),
        tag(),
    ],
};

/// `[error_log]`
pub static ERROR_LOG: Section<ErrorLogConfig> = Section {
    name: "error_log",
    repeated: false,
    documentation: "Messages for the operator: starts, stops, reloads and errors.",
    blank: blank_error_log,
    keys: &[path(Some("\"stderr\""), "\"log/error.log\""), error_level(), error_format(), facility(), tag()],
};

/// `[site.error_log]`
pub static SITE_ERROR_LOG: Section<ErrorLogConfig> = Section {
    name: "site.error_log",
    repeated: false,
    documentation: "The error log for requests of the site and for the programs and origins of its routes, \
        in place of `[error_log]`. `[site.route.error_log]` has the same keys. `error_log = \"off\"` and \
        `error_log = \"FILE\"` are short for a table with that `path`.",
    blank: blank_error_log,
    keys: &[path(None, "\"log/shop-error.log\""), error_level(), error_format(), facility(), tag()],
};

fn blank_access_log() -> AccessLogConfig {
    AccessLogConfig::new(LogDestination::Off, AccessLogFormat::Common)
}

fn blank_error_log() -> ErrorLogConfig {
    ErrorLogConfig::new(LogDestination::Off, LogLevel::Error)
}

const fn path<C: HasDestination>(default: Option<&'static str>, example: &'static str) -> Key<C> {
    Key {
        name: "path",
        default,
        example,
        documentation: PATH,
        kind: Kind::LogDestination(|log, value| *log.destination() = value),
    }
}

const fn access_format() -> Key<AccessLogConfig> {
    Key {
        name: "format",
        default: Some("\"combined\""),
        example: "\"json\"",
        documentation: "The form of a line: `\"common\"`, the Common Log Format; `\"combined\"`, the same \
            with Referer and User-Agent; `\"json\"`, one JSON object a line; or your own line with \
            variables, such as `\"$client $status $duration $header{accept}\"`. The [page about \
            logs](logs.md#a-custom-line) has all variables.",
        kind: Kind::LineFormat(|log, value| log.format = value),
    }
}

const fn access_when() -> Key<AccessLogConfig> {
    Key {
        name: "when",
        default: Some("\"\""),
        example: "\"$status >= 400 or $duration_us > 1000000\"",
        documentation: "A [condition](expressions.md): only requests for which it holds have a line. \
            Empty: all have.",
        kind: Kind::Checked {
            what: "condition",
            parse: |text, _| values::check_condition(text, AvailableFrom::Answer),
            set: |log, value| log.when = Condition::read(&value, AvailableFrom::Answer).ok(),
        },
    }
}

const fn access_sample() -> Key<AccessLogConfig> {
    Key {
        name: "sample",
        default: Some("1"),
        example: "100",
        documentation: "One in so many of these requests has a line, counted by each core. \
            Answers with a status of 500 or more always have one.",
        kind: Kind::Number { least: 1, most: 1_000_000_000, set: |log, value| log.sample = value },
    }
}

const fn error_level() -> Key<ErrorLogConfig> {
    Key {
        name: "level",
        default: Some("\"info\""),
        example: "\"warning\"",
        documentation: "The lowest level that is written.",
        kind: Kind::Choice(&[
            Choice {
                word: "debug",
                meaning: "every message, to find faults",
                set: |log| log.level = LogLevel::Debug,
            },
            Choice {
                word: "info",
                meaning: "normal events too: start, reload, stop",
                set: |log| log.level = LogLevel::Info,
            },
            Choice {
                word: "warning",
                meaning: "data or a request was refused or lost, and the server continues",
                set: |log| log.level = LogLevel::Warning,
            },
            Choice {
                word: "error",
                meaning: "a problem that the operator must repair",
                set: |log| log.level = LogLevel::Error,
            },
        ]),
    }
}

const fn error_format() -> Key<ErrorLogConfig> {
    Key {
        name: "format",
        default: Some("\"text\""),
        example: "\"json\"",
        documentation: "The form of a line.",
        kind: Kind::Choice(&[
            Choice { word: "text", meaning: "time, level and message", set: |log| log.is_json = false },
            Choice {
                word: "json",
                meaning: "a JSON object with `time`, `level` and `message`",
                set: |log| log.is_json = true,
            },
        ]),
    }
}

const fn facility<C: HasDestination>() -> Key<C> {
    Key {
        name: "facility",
        default: Some("\"daemon\""),
        example: "\"local7\"",
        documentation: "The facility of messages to syslog and to the journal, such as `\"daemon\"`, \
            `\"user\"` or `\"local0\"` to `\"local7\"`.",
        kind: Kind::Checked {
            what: "name of a syslog facility",
            parse: |text, _| match number_of_facility(text) {
                Some(_) => Ok(text.to_string()),
                None => Err(format!("{text:?} is not a facility; there are {}", FACILITIES.join(", "))),
            },
            set: |log, value| log.identity().facility = number_of_facility(&value).unwrap_or_default(),
        },
    }
}

const fn tag<C: HasDestination>() -> Key<C> {
    Key {
        name: "tag",
        default: Some("\"touchstone\""),
        example: "\"shop\"",
        documentation: "The name of the application in messages to syslog and to the journal, up to 48 \
            visible characters.",
        kind: Kind::Checked {
            what: "name without spaces",
            parse: |text, _| match (1..=48).contains(&text.len())
                && text.bytes().all(|b| b.is_ascii_graphic())
            {
                true => Ok(text.to_string()),
                false => Err(format!("{text:?} is not a name of 1 to 48 visible ASCII characters")),
            },
            set: |log, value| log.identity().tag = value,
        },
    }
}

/// A log with a destination; syslog and the journal get its sender.
trait HasDestination {
    fn destination(&mut self) -> &mut LogDestination;
    fn identity(&mut self) -> &mut LogIdentity;
}

impl HasDestination for AccessLogConfig {
    fn destination(&mut self) -> &mut LogDestination {
        &mut self.destination
    }

    fn identity(&mut self) -> &mut LogIdentity {
        &mut self.identity
    }
}

impl HasDestination for ErrorLogConfig {
    fn destination(&mut self) -> &mut LogDestination {
        &mut self.destination
    }

    fn identity(&mut self) -> &mut LogIdentity {
        &mut self.identity
    }
}

fn number_of_facility(name: &str) -> Option<u8> {
    FACILITIES.iter().position(|known| *known == name).and_then(|number| u8::try_from(number).ok())
}

/// `access_log` of a site or route.
pub(super) const fn access_log<C>(
    read: fn(&mut Reader<'_>, &Value<'_>, &mut C) -> Vec<SectionPlaces>,
) -> Key<C> {
    Key {
        name: "access_log",
        default: Some(ABSENT),
        example: "{ path = \"log/shop.log\", when = \"$status >= 400\" }",
        documentation: "A separate log for its requests, see `[site.access_log]`; `\"off\"`: none. A route \
            without this key is in the log of its site, and a site in that of `[access_log]`.",
        kind: Kind::Table { read },
    }
}

/// `error_log` of a site or route.
pub(super) const fn error_log<C>(
    read: fn(&mut Reader<'_>, &Value<'_>, &mut C) -> Vec<SectionPlaces>,
) -> Key<C> {
    Key {
        name: "error_log",
        default: Some(ABSENT),
        example: "{ path = \"log/shop-error.log\" }",
        documentation: "A separate log for problems with its requests, programs and origins, see \
            `[site.error_log]`; `\"off\"`: none. A route without this key is in the log of its site, and a \
            site in that of `[error_log]`.",
        kind: Kind::Table { read },
    }
}

/// Reads `access_log` of a site or route.
pub(super) fn read_access_log(
    reader: &mut Reader<'_>,
    value: &Value<'_>,
    target: &mut Option<AccessLogConfig>,
) -> Vec<SectionPlaces> {
    read_log(reader, "access_log", &SITE_ACCESS_LOG, value, target)
}

/// Reads `error_log` of a site or route.
pub(super) fn read_error_log(
    reader: &mut Reader<'_>,
    value: &Value<'_>,
    target: &mut Option<ErrorLogConfig>,
) -> Vec<SectionPlaces> {
    read_log(reader, "error_log", &SITE_ERROR_LOG, value, target)
}

/// Reads a log: a table, or the text of its destination.
fn read_log<C: HasDestination>(
    reader: &mut Reader<'_>,
    key: &str,
    section: &'static Section<C>,
    value: &Value<'_>,
    target: &mut Option<C>,
) -> Vec<SectionPlaces> {
    let Some(destination) = destination(reader, key, value) else {
        return reader.table_into(section, value, target);
    };
    let mut short = section.defaults();
    *short.destination() = destination;
    *target = Some(short);
    Vec::new()
}

/// The destination that a text in the place of a table names; one that is wrong is off, and a problem.
fn destination(reader: &mut Reader<'_>, key: &str, value: &Value<'_>) -> Option<LogDestination> {
    let DeValue::String(text) = value.get_ref() else { return None };
    let base: &Path = reader.base;
    Some(values::parse_log_destination(text, base).unwrap_or_else(|message| {
        let place = reader.place(value.span().start);
        reader.problem(place, format!("'{key}': {message}"));
        LogDestination::Off
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, parse};
    use touchstone_observe::log::SyslogServer;

    fn config(text: &str) -> Result<Config, String> {
        let site = "[[site]]\nlisten = ['127.0.0.1:1']\nroot = '/'\n";
        parse(&format!("{text}\n{site}"), Path::new("/etc/a.toml"))
            .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn destinations() {
        let destination = |path: &str| {
            config(&format!("[access_log]\npath = '{path}'")).map(|config| config.access_log.destination)
        };
        let syslog = |server| Ok(LogDestination::Syslog(server));
        assert_eq!(destination("syslog:/dev/log"), syslog(SyslogServer::Unix("/dev/log".into())));
        assert_eq!(destination("syslog"), syslog(SyslogServer::Unix("/dev/log".into())));
        assert_eq!(destination("syslog:udp:[::1]:514"), syslog(SyslogServer::Udp("[::1]:514".into())));
        assert_eq!(
            destination("syslog:tcp:logs.example:601"),
            syslog(SyslogServer::Tcp("logs.example:601".into()))
        );
        let journal = |path: &str| Ok(LogDestination::Journal(path.into()));
        assert_eq!(destination("journald"), journal("/run/systemd/journal/socket"));
        assert_eq!(destination("journald:/run/a"), journal("/run/a"));
        assert!(destination("syslog:udp:host").unwrap_err().contains("HOST:PORT"));
        assert!(destination("syslog:local").unwrap_err().contains("syslog:"));
    }

    #[test]
    fn keys() {
        let text = "[access_log]\npath = 'a'\nwhen = '$status >= 500'\nsample = 10\nfacility = 'local7'\n\
                    tag = 'shop'\n[error_log]\nformat = 'json'";
        let config_of = config(text).unwrap();
        let log = &config_of.access_log;
        assert_eq!(log.when.as_ref().map(Condition::source), Some("$status >= 500"));
        assert_eq!((log.sample, log.identity.facility, log.identity.tag.as_str()), (10, 23, "shop"));
        assert!(config_of.error_log.is_json);
        for (line, expected) in [
            ("when = '$statu > 1'", "did you mean '$status'?"),
            ("sample = 0", "1"),
            ("facility = 'x'", "local7"),
            ("tag = 'a b'", "visible"),
        ] {
            let problem = config(&format!("[access_log]\n{line}")).unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn logs_of_sites_and_routes() {
        let text = "[[site]]\nlisten = ['127.0.0.1:1']\nroot = '/'\naccess_log = 'off'\nerror_log = 'e'\n\
                    [[site.route]]\npath = '/a'\naccess_log = { path = 'r', format = 'json' }\n";
        let config = parse(text, Path::new("/etc/a.toml")).unwrap();
        let site = &config.sites[0];
        assert_eq!(site.access_log.as_ref().unwrap().destination, LogDestination::Off);
        assert_eq!(site.error_log.as_ref().unwrap().destination, LogDestination::File("/etc/e".into()));
        let log = site.routes[0].access_log.as_ref().unwrap();
        assert_eq!(log.destination, LogDestination::File("/etc/r".into()));
        assert_eq!((&log.format, log.sample), (&AccessLogFormat::Json, 1));
        let without = "[[site]]\nlisten = ['127.0.0.1:1']\nroot = '/'\naccess_log = { sample = 2 }\n";
        let problems = parse(without, Path::new("/etc/a.toml")).unwrap_err();
        assert!(problems[0].to_string().contains("path"), "{}", problems[0]);
    }
}
