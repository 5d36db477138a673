//! `[site.route.fastcgi]`, `[site.route.scgi]`, `[site.route.uwsgi]` and `[site.route.php]`.
//!
//! They share most of their keys: `php` is FastCGI with scripts that are files, and `scgi` and `uwsgi` are
//! other protocols for the same.

use toml::de::DeValue;

use touchstone_config_section::reader::{Reader, Value};
use touchstone_config_section::{Key, Section, SectionPlaces};

use super::backend::parse_backend;
use super::keys::*;
use super::{ProgramsConfig, blank};

/// The keys of a section: its own, then those of requests, those of connections, of time limits and of
/// health.
macro_rules! keys {
    ($($own:expr),+ $(,)?; $($connections:expr),+) => {
        &[
            $($own,)+
            FRONT_CONTROLLER,
            DOCUMENT_ROOT,
            VARIABLES,
            PASS_AUTHORIZATION,
            SEND_FILES_FROM,
            $($connections,)+
            CONNECT_TIMEOUT,
            QUEUE,
            QUEUE_TIMEOUT,
            FIRST_BYTE_TIMEOUT,
            IDLE_TIMEOUT,
            TOTAL_TIMEOUT,
            HEADER_BYTES,
            BALANCE,
            MAX_FAILURES,
            FAIL_TIMEOUT,
            CHECK_INTERVAL,
        ]
    };
}

/// `[site.route.fastcgi]`
pub static FASTCGI: Section<ProgramsConfig> = Section {
    name: "site.route.fastcgi",
    repeated: false,
    documentation: "FastCGI programs answer the requests of the route, see [FastCGI and SCGI](fastcgi.md): \
        those that listen at `backends`, or processes of `command`, which the server starts and watches \
        itself.",
    blank,
    keys: keys![
        BACKENDS,
        COMMAND,
        PROCESSES,
        SOCKET,
        DIRECTORY,
        ENVIRONMENT,
        USER,
        MEMORY,
        OPEN_FILES,
        STOP_TIMEOUT,
        SCRIPT_NAME,
        SCRIPTS,
        INDEX,
        ; KEEP_CONNECTIONS, CONNECTIONS, IDLE_CONNECTIONS, KEEP_ALIVE_TIMEOUT, CONNECTION_REQUESTS
    ],
};

/// `[site.route.scgi]`
pub static SCGI: Section<ProgramsConfig> = Section {
    name: "site.route.scgi",
    repeated: false,
    documentation: "SCGI programs answer the requests of the route, see [FastCGI and SCGI](fastcgi.md): \
        those that listen at `backends`, or processes of `command`, which the server starts and watches \
        itself.",
    blank,
    keys: keys![
        BACKENDS,
        COMMAND,
        PROCESSES,
        SOCKET,
        DIRECTORY,
        ENVIRONMENT,
        USER,
        MEMORY,
        OPEN_FILES,
        STOP_TIMEOUT,
        SCRIPT_NAME,
        SCRIPTS,
        INDEX,
        ; CONNECTIONS
    ],
};

/// `[site.route.uwsgi]`
pub static UWSGI: Section<ProgramsConfig> = Section {
    name: "site.route.uwsgi",
    repeated: false,
    documentation: "Programs of a uWSGI server answer the requests of the route, in its own protocol, as \
        `uwsgi_pass` of nginx, see [FastCGI, SCGI and uwsgi](fastcgi.md): those that listen at `backends`, \
        or processes of `command`, which the server starts and watches itself.",
    blank,
    keys: keys![
        BACKENDS,
        COMMAND,
        PROCESSES,
        SOCKET,
        DIRECTORY,
        ENVIRONMENT,
        USER,
        MEMORY,
        OPEN_FILES,
        STOP_TIMEOUT,
        SCRIPT_NAME,
        SCRIPTS,
        INDEX,
        ; CONNECTIONS
    ],
};

/// `[site.route.php]`
pub static PHP: Section<ProgramsConfig> = Section {
    name: "site.route.php",
    repeated: false,
    documentation: "PHP scripts answer the requests of the route, see [PHP](php.md). \
        `php = \"unix:/run/php/php-fpm.sock\"` is enough for a php-fpm that already runs, and `php = \
        \"managed\"` for one that the server starts and watches itself. Other files are served as they \
        are.",
    blank,
    keys: keys![
        BACKENDS,
        PROGRAM,
        PROCESSES,
        SETTINGS,
        PROCESS_REQUESTS,
        SOCKET,
        DIRECTORY,
        ENVIRONMENT,
        USER,
        OPEN_FILES,
        STOP_TIMEOUT,
        Key { default: Some("[\".php\"]"), ..SCRIPTS },
        Key { default: Some("[\"index.php\", \"index.html\"]"), ..INDEX },
        ; KEEP_CONNECTIONS, CONNECTIONS, IDLE_CONNECTIONS, KEEP_ALIVE_TIMEOUT, CONNECTION_REQUESTS
    ],
};

/// Reads a table, or one word for a common setting.
pub fn read_php(
    reader: &mut Reader<'_>,
    value: &Value<'_>,
    php: &mut Option<ProgramsConfig>,
) -> Vec<SectionPlaces> {
    let DeValue::String(text) = value.get_ref() else {
        return reader.table_into(&PHP, value, php);
    };
    let mut config = PHP.defaults();
    if text != "managed" {
        match parse_backend(text) {
            Ok(_) => config.backends = vec![text.to_string()],
            Err(message) => {
                let place = reader.place(value.span().start);
                reader.problem(place, format!("'php': {message}, or \"managed\""));
            }
        }
    }
    *php = Some(config);
    Vec::new()
}
