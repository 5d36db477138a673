//! The table of every variable that a format string of the access log may hold.
//!
//! Each is defined once, here: its name, what it is, and how it is written. The page of the book is made from
//! this table, so a new variable is one new entry.

use touchstone_http::decimal;

use super::clock::LogClock;
use super::escape::append_common;
use super::record::Record;
use crate::client_location;

/// One variable.
pub struct Variable {
    /// Its name, as it stands after the dollar sign.
    pub name: &'static str,
    /// What it stands for.
    pub documentation: &'static str,
    /// What it needs that costs something to find out.
    pub(super) needs: VariableCost,
    /// Writes it.
    pub(super) append: fn(&mut Vec<u8>, &LogClock, &Record<'_>),
}

/// What a variable needs that costs something to find out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VariableCost {
    Nothing,
    /// A look at the clock.
    Duration,
    /// An id that may have to be made.
    RequestId,
}

const fn variable(
    name: &'static str,
    documentation: &'static str,
    append: fn(&mut Vec<u8>, &LogClock, &Record<'_>),
) -> Variable {
    Variable { name, documentation, needs: VariableCost::Nothing, append }
}

/// Every variable, in the order of the documentation. `$header{name}` is one more.
pub static VARIABLES: &[Variable] = &[
    variable(
        "time",
        "the time as in the Common Log Format, `20/Nov/2026:10:00:00 +0000`",
        |line, clock, _| {
            line.extend_from_slice(clock.common());
        },
    ),
    variable("time_rfc3339", "the time with milliseconds, `2026-11-20T10:00:00.123Z`", |line, clock, _| {
        line.extend_from_slice(clock.rfc3339());
    }),
    variable(
        "time_unix",
        "the time in seconds since 1970, with milliseconds, `1795168800.123`",
        |line, clock, _| {
            clock.append_unix(line);
        },
    ),
    variable("client", "the client's address", |line, _, record| {
        line.extend_from_slice(record.client.as_bytes())
    }),
    variable(
        "geoip_country",
        "the country of the client, two letters, with [`[geoip]`](configuration.md#geoip)",
        |line, _, record| {
            let country = client_location::country(record.client);
            optional(line, country.as_ref().map(|country| &country[..]));
        },
    ),
    variable(
        "geoip_asn",
        "the number of the client's autonomous system, with `[geoip]`",
        |line, _, record| match client_location::system(record.client) {
            Some(number) => decimal::append(u64::from(number), line),
            None => optional(line, None),
        },
    ),
    variable("user", "the user name, where the client had to give one", |line, _, record| {
        optional(line, record.user.map(str::as_bytes))
    }),
    Variable {
        name: "request_id",
        documentation: "the request's id, see [request ids](#request-ids)",
        needs: VariableCost::RequestId,
        append: |line, _, record| optional(line, record.request_id),
    },
    variable(
        "traceparent",
        "the field `traceparent` of the request, where it is valid",
        |line, _, record| {
            optional(line, record.trace().map(|trace| trace.text()));
        },
    ),
    variable("trace_id", "the id of the trace in it", |line, _, record| {
        optional(line, record.trace().map(|trace| trace.trace_id()));
    }),
    variable("host", "the host that was asked, with its port if it was given", |line, _, record| {
        optional(line, record.host);
    }),
    variable("request", "the request line, `GET /a.html?b=c HTTP/1.1`", |line, _, record| {
        given(line, record.request_line);
    }),
    variable("method", "the method", |line, _, record| given(line, record.method)),
    variable("target", "the target, path and query, as it was sent", |line, _, record| {
        given(line, record.target)
    }),
    variable("path", "the target's path", |line, _, record| given(line, record.path())),
    variable("query", "the target's query, without `?`", |line, _, record| optional(line, record.query())),
    variable("protocol", "the protocol, `HTTP/1.1` or `HTTP/2.0`", |line, _, record| {
        given(line, record.version.as_bytes());
    }),
    variable("status", "the status", |line, _, record| decimal::append(u64::from(record.status), line)),
    variable("body_bytes", "bytes of the body that were sent; 0 for none", |line, _, record| {
        decimal::append(record.body_bytes, line);
    }),
    Variable {
        name: "duration",
        documentation: "seconds from the request to the end of the answer, with microseconds, `0.000048`",
        needs: VariableCost::Duration,
        append: |line, _, record| {
            decimal::append(record.duration_us / 1_000_000, line);
            line.push(b'.');
            append_padded::<6>(line, record.duration_us % 1_000_000);
        },
    },
    Variable {
        name: "duration_us",
        documentation: "the same in microseconds",
        needs: VariableCost::Duration,
        append: |line, _, record| decimal::append(record.duration_us, line),
    },
    variable("referer", "the field Referer", |line, _, record| optional(line, record.referer)),
    variable("user_agent", "the field User-Agent", |line, _, record| optional(line, record.user_agent)),
    variable("site", "the site: its first host, or its first address", |line, _, record| {
        given(line, record.site.as_bytes());
    }),
    variable("route", "what the route of the request matches", |line, _, record| {
        given(line, record.route.as_bytes());
    }),
    variable("handler", "what answered: `cache`, `files`, `redirect` and so on", |line, _, record| {
        given(line, record.handler.as_bytes());
    }),
    variable(
        "cache",
        "what the cache before a program or origin did: `hit`, `miss`, `stale`, `revalidated`, `bypass`",
        |line, _, record| {
            given(line, record.cache.as_bytes());
        },
    ),
    variable("tls_version", "the version of TLS, `TLSv1.3`", |line, _, record| {
        optional(line, record.tls.map(|tls| tls.version.as_bytes()));
    }),
    variable("tls_cipher", "the cipher suite", |line, _, record| {
        optional(line, record.tls.map(|tls| tls.cipher.as_bytes()));
    }),
    variable(
        "tls_server_name",
        "the name that the client asked for in the TLS handshake",
        |line, _, record| {
            optional(line, record.tls.and_then(|tls| tls.server_name).map(str::as_bytes));
        },
    ),
    variable("tls_subject", "the subject of the client's certificate", |line, _, record| {
        optional(line, record.tls.and_then(|tls| tls.subject).map(str::as_bytes));
    }),
];

/// What other servers call it, for those who come from there.
pub(super) const ELSEWHERE: &[(&str, &str)] = &[
    ("remote_addr", "client"),
    ("remote_user", "user"),
    ("time_local", "time"),
    ("time_iso8601", "time_rfc3339"),
    ("msec", "time_unix"),
    ("request_method", "method"),
    ("request_uri", "target"),
    ("uri", "path"),
    ("args", "query"),
    ("query_string", "query"),
    ("server_protocol", "protocol"),
    ("body_bytes_sent", "body_bytes"),
    ("bytes_sent", "body_bytes"),
    ("request_time", "duration"),
    ("http_referer", "referer"),
    ("http_user_agent", "user_agent"),
    ("http_host", "host"),
    ("server_name", "site"),
    ("ssl_protocol", "tls_version"),
    ("ssl_cipher", "tls_cipher"),
    ("ssl_server_name", "tls_server_name"),
    ("ssl_client_s_dn", "tls_subject"),
];

/// A value as it may stand in a line; nothing is a hyphen.
pub(super) fn optional(line: &mut Vec<u8>, value: Option<&[u8]>) {
    given(line, value.unwrap_or_default());
}

fn given(line: &mut Vec<u8>, value: &[u8]) {
    append_common(line, if value.is_empty() { b"-" } else { value });
}

/// A number with so many digits.
pub(super) fn append_padded<const DIGITS: usize>(line: &mut Vec<u8>, mut value: u64) {
    let mut digits = [b'0'; DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
    line.extend_from_slice(&digits);
}

/// The table of variables, for the page of the book.
pub fn variables_markdown() -> String {
    let row = |name: &str, documentation: &str| format!("| `{name}` | {documentation} |\n");
    let rows = VARIABLES.iter().map(|variable| row(&format!("${}", variable.name), variable.documentation));
    let field = row("$header{name}", "the first field of the request with this name; case does not matter");
    format!("| variable | |\n|---|---|\n{}{field}", rows.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table in the book is that of the code. `BLESS=1` writes it again.
    #[test]
    fn variables_of_the_page_are_up_to_date() {
        const BEGIN: &str = "variables_of_the_page -->\n";
        const END: &str = "<!-- /variables -->";
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/logs.md");
        let page = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = page.split_once(BEGIN).unwrap();
        let (_, after) = rest.split_once(END).unwrap();
        let wanted = format!("{before}{BEGIN}{}{END}{after}", variables_markdown());
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, &wanted).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap();
        assert!(written == wanted, "BLESS=1 cargo test -p touchstone-observe variables_of_the_page");
    }

    #[test]
    fn numbers_are_padded() {
        let mut line = Vec::new();
        append_padded::<6>(&mut line, 48);
        append_padded::<3>(&mut line, 1234);
        assert_eq!(line, b"000048234");
    }
}
