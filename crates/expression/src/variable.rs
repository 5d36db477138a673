//! The table of every variable of the language.
//!
//! Each is defined once, here: its name, its value, and when the value is available. The page of the book is
//! generated from this table.

/// When the value of a variable is available. Values of an earlier stage are available at each later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AvailableFrom {
    /// From the head of the request and the client's address.
    Request,
    /// With the connection.
    Connection,
    /// When the access rules have admitted the request.
    Admitted,
    /// When the head of the answer has arrived.
    Head,
    /// When the request has been answered.
    Answer,
    /// When a line of a log is written.
    Line,
}

impl AvailableFrom {
    /// For a message: what must have happened.
    pub(crate) fn when(self) -> &'static str {
        match self {
            AvailableFrom::Request => "the request has arrived",
            AvailableFrom::Connection => "the connection is known",
            AvailableFrom::Admitted => "the access rules have been passed",
            AvailableFrom::Head => "the head of the answer has arrived",
            AvailableFrom::Answer => "the request has been answered",
            AvailableFrom::Line => "a line of a log is written",
        }
    }

    /// In the table of the book.
    fn name(self) -> &'static str {
        match self {
            AvailableFrom::Request => "request",
            AvailableFrom::Connection => "connection",
            AvailableFrom::Admitted => "admitted",
            AvailableFrom::Head => "head",
            AvailableFrom::Answer => "answer",
            AvailableFrom::Line => "line",
        }
    }
}

/// The value of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fact {
    /// The client's address.
    Client,
    /// The method.
    Method,
    /// The path in its normal form.
    Path,
    /// The query.
    Query,
    /// Path and query as they were sent.
    Target,
    /// The host without its port.
    Host,
    /// The first value of a header field.
    Header,
    /// A cookie.
    Cookie,
    /// A parameter of the query.
    Argument,
    /// The client's country.
    Country,
    /// The client's autonomous system.
    System,
    /// A match of the pattern beside it, by its position.
    Capture,
    /// The value of a map.
    Map,
    /// `http` or `https`.
    Scheme,
    /// The version of HTTP.
    Protocol,
    /// The authenticated user.
    User,
    /// A claim of that user.
    Claim,
    /// The bot whose signature is right.
    Bot,
    /// The result of the check of a bot's signature.
    BotVerified,
    /// The request's id.
    RequestId,
    /// The version of TLS.
    TlsVersion,
    /// The cipher suite.
    TlsCipher,
    /// The host of the TLS handshake.
    TlsServerName,
    /// The subject of the client's certificate.
    TlsSubject,
    /// Whether the client's certificate was verified.
    TlsVerified,
    /// The status.
    Status,
    /// Bytes of the body.
    BodyBytes,
    /// Microseconds until the end of the answer.
    Duration,
    /// The site's name.
    Site,
    /// The route's name.
    Route,
    /// What answered.
    Handler,
    /// What the cache did.
    Cache,
    /// The same duration in seconds.
    DurationSeconds,
    /// The request line.
    RequestLine,
    /// The field Referer.
    Referer,
    /// The field User-Agent.
    UserAgent,
    /// The trace context.
    TraceParent,
    /// The id of the trace.
    TraceId,
    /// The id of the server's span in it.
    SpanId,
    /// The time as in the Common Log Format.
    Time,
    /// The time with milliseconds.
    TimeRfc3339,
    /// The time in seconds since 1970.
    TimeUnix,
}

/// One entry of the table.
pub struct Entry {
    /// The name, as it is written after the dollar.
    pub name: &'static str,
    /// The description of its value.
    pub fact: Fact,
    /// When it is available.
    pub known: AvailableFrom,
    /// For a variable that needs a name in braces: such a name.
    pub example: Option<&'static str>,
    /// For the book.
    pub documentation: &'static str,
}

/// A variable as it is used: the fact, and the name in its braces.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Variable {
    /// The fact.
    pub fact: Fact,
    /// The name in braces; that of a header field is in lower case. Empty: there are none.
    pub name: Box<str>,
    /// The position of a match, from 0.
    pub position: usize,
    /// When its value is available.
    pub known: AvailableFrom,
}

const fn entry(name: &'static str, fact: Fact, known: AvailableFrom, documentation: &'static str) -> Entry {
    Entry { name, fact, known, example: None, documentation }
}

const fn named(name: &'static str, fact: Fact, example: &'static str, documentation: &'static str) -> Entry {
    Entry { name, fact, known: AvailableFrom::Request, example: Some(example), documentation }
}

/// Every variable, in the order of the documentation.
pub static VARIABLES: &[Entry] = &[
    entry("client", Fact::Client, AvailableFrom::Request, "the client's address, behind trusted proxies"),
    entry("method", Fact::Method, AvailableFrom::Request, "the method"),
    entry("path", Fact::Path, AvailableFrom::Request, "the path in its normal form, without the query"),
    entry("query", Fact::Query, AvailableFrom::Request, "the query as it was sent, without `?`"),
    entry(
        "target",
        Fact::Target,
        AvailableFrom::Request,
        "path and query as they are sent to programs and origins",
    ),
    entry(
        "host",
        Fact::Host,
        AvailableFrom::Request,
        "the host of the request, in lower case and without its port",
    ),
    named("header", Fact::Header, "x-api-key", "the first header field of the request with this name"),
    named("cookie", Fact::Cookie, "session", "the first cookie with this name"),
    named("arg", Fact::Argument, "page", "the first parameter of the query with this name, as it was sent"),
    entry(
        "geoip_country",
        Fact::Country,
        AvailableFrom::Request,
        "the country of the client, two letters, with [`[geoip]`](configuration.md#geoip)",
    ),
    entry("geoip_asn", Fact::System, AvailableFrom::Request, "the number of the client's autonomous system"),
    named(
        "map",
        Fact::Map,
        "backend",
        "the value of a [map](#maps); available when the variables of the map \
        are",
    ),
    entry("scheme", Fact::Scheme, AvailableFrom::Connection, "`https` over TLS, else `http`"),
    entry(
        "protocol",
        Fact::Protocol,
        AvailableFrom::Connection,
        "the version, such as `HTTP/1.1` or `HTTP/2.0`",
    ),
    entry(
        "request_id",
        Fact::RequestId,
        AvailableFrom::Connection,
        "the identifier of the request, if identifiers \
        are generated",
    ),
    entry(
        "tls_version",
        Fact::TlsVersion,
        AvailableFrom::Connection,
        "the version of TLS, such as `TLSv1.3`",
    ),
    entry("tls_cipher", Fact::TlsCipher, AvailableFrom::Connection, "the cipher suite"),
    entry("tls_server_name", Fact::TlsServerName, AvailableFrom::Connection, "the host of the TLS handshake"),
    entry(
        "tls_subject",
        Fact::TlsSubject,
        AvailableFrom::Connection,
        "the subject of the client's certificate",
    ),
    entry(
        "tls_verified",
        Fact::TlsVerified,
        AvailableFrom::Connection,
        "`SUCCESS` if the client has a certificate that was verified, otherwise empty",
    ),
    entry("user", Fact::User, AvailableFrom::Admitted, "the authenticated user"),
    Entry {
        known: AvailableFrom::Admitted,
        ..named(
            "claim",
            Fact::Claim,
            "groups",
            "a claim of the user's [token](access.md#tokens) or [login](login.md); a dot selects a member of \
             an object, the items of an array are separated by commas",
        )
    },
    entry(
        "bot",
        Fact::Bot,
        AvailableFrom::Admitted,
        "the name of the bot that has signed the request, where [`crawlers`](crawlers.md) has verified it",
    ),
    entry(
        "bot_verified",
        Fact::BotVerified,
        AvailableFrom::Admitted,
        "`verified`, `invalid` or `unverified` for a request with a signature of a bot, otherwise empty",
    ),
    entry("status", Fact::Status, AvailableFrom::Head, "the status of the answer"),
    entry("site", Fact::Site, AvailableFrom::Head, "the name of the site, its first host or address"),
    entry("route", Fact::Route, AvailableFrom::Head, "what the route of the request matches"),
    entry(
        "handler",
        Fact::Handler,
        AvailableFrom::Head,
        "what answered: `cache`, `files`, `proxy` and so on",
    ),
    entry(
        "cache",
        Fact::Cache,
        AvailableFrom::Head,
        "what the cache before a program or origin did: `hit`, `miss`, `stale`, `revalidated`, `bypass`",
    ),
    entry("body_bytes", Fact::BodyBytes, AvailableFrom::Answer, "bytes of the body that were sent"),
    entry("duration_us", Fact::Duration, AvailableFrom::Answer, "microseconds until the end of the answer"),
    entry("duration", Fact::DurationSeconds, AvailableFrom::Answer, "the same in seconds, `0.000048`"),
    entry(
        "request",
        Fact::RequestLine,
        AvailableFrom::Answer,
        "the request line, `GET /a.html?b=c HTTP/1.1`",
    ),
    entry("referer", Fact::Referer, AvailableFrom::Answer, "the field Referer"),
    entry("user_agent", Fact::UserAgent, AvailableFrom::Answer, "the field User-Agent"),
    entry(
        "traceparent",
        Fact::TraceParent,
        AvailableFrom::Answer,
        "the field `traceparent`, where it is valid",
    ),
    entry(
        "trace_id",
        Fact::TraceId,
        AvailableFrom::Answer,
        "the id of the trace: that of the server where it [traces](telemetry.md) the request, else that in \
         `traceparent`",
    ),
    entry("span_id", Fact::SpanId, AvailableFrom::Answer, "the id of the server's span in that trace"),
    entry(
        "time",
        Fact::Time,
        AvailableFrom::Line,
        "the time as in the Common Log Format, `20/Nov/2026:10:00:00 +0000`",
    ),
    entry(
        "time_rfc3339",
        Fact::TimeRfc3339,
        AvailableFrom::Line,
        "the time with milliseconds, `2026-11-20T10:00:00.123Z`",
    ),
    entry(
        "time_unix",
        Fact::TimeUnix,
        AvailableFrom::Line,
        "the time in seconds since 1970, `1795168800.123`",
    ),
];

/// What other servers call it.
const ELSEWHERE: &[(&str, &str)] = &[
    ("remote_addr", "client"),
    ("binary_remote_addr", "client"),
    ("realip_remote_addr", "client"),
    ("remote_user", "user"),
    ("request_method", "method"),
    ("uri", "path"),
    ("document_uri", "path"),
    ("request_uri", "target"),
    ("args", "query"),
    ("query_string", "query"),
    ("server_protocol", "protocol"),
    ("server_name", "host"),
    ("http_host", "host"),
    ("body_bytes_sent", "body_bytes"),
    ("bytes_sent", "body_bytes"),
    ("time_local", "time"),
    ("time_iso8601", "time_rfc3339"),
    ("msec", "time_unix"),
    ("http_referer", "referer"),
    ("http_user_agent", "user_agent"),
    ("request_time", "duration_us"),
    ("upstream_cache_status", "cache"),
    ("ssl_protocol", "tls_version"),
    ("ssl_cipher", "tls_cipher"),
    ("ssl_server_name", "tls_server_name"),
    ("ssl_client_s_dn", "tls_subject"),
    ("ssl_client_verify", "tls_verified"),
    ("https", "scheme"),
    ("geoip2_country_code", "geoip_country"),
];

impl Variable {
    /// Reads what follows a dollar: `name`, `{name}`, `header{name}` or `{header{name}}`. Returns the rest
    /// too. Variables that are available only later than `known` are refused. The names of matches, in
    /// `captures`, take precedence over those of variables.
    pub fn read<'t>(
        text: &'t str,
        known: AvailableFrom,
        captures: &[Option<String>],
    ) -> Result<(Variable, &'t str), String> {
        if let Some(inside) = text.strip_prefix('{') {
            let (variable, rest) = Variable::read(inside, known, captures)?;
            let rest = rest.strip_prefix('}').ok_or_else(|| format!("'${text}' has no '}}' at its end"))?;
            return Ok((variable, rest));
        }
        let is_number = text.starts_with(|first: char| first.is_ascii_digit());
        let is_of_name =
            |byte: u8| byte.is_ascii_digit() || !is_number && (byte.is_ascii_alphabetic() || byte == b'_');
        let end = text.bytes().position(|byte| !is_of_name(byte)).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        if name.is_empty() {
            return Err("'$' is followed by no name; a dollar itself is written '$$'".to_string());
        }
        if let Some(position) = capture_position(name, captures) {
            let known = AvailableFrom::Request;
            return Ok((Variable { fact: Fact::Capture, name: name.into(), position, known }, rest));
        }
        if is_number {
            return Err(format!("'${name}' has no value: no pattern beside it has such a group"));
        }
        let entry = find(name)?;
        if entry.known > known {
            let when = entry.known.when();
            return Err(format!("'${name}' is available only when {when}, so it is not valid here"));
        }
        let Some(example) = entry.example else {
            return Ok((Variable::of(entry, ""), rest));
        };
        let inside = rest
            .strip_prefix('{')
            .ok_or_else(|| format!("'${name}' needs a name, such as ${name}{{{example}}}"))?;
        let (inner, rest) = inside.split_once('}').ok_or_else(|| format!("'${name}{{' has no '}}'"))?;
        let is_good = match entry.fact {
            Fact::Header | Fact::Cookie => touchstone_http::grammar::is_token(inner.as_bytes()),
            _ => !inner.is_empty() && !inner.bytes().any(|byte| b"&=#{}".contains(&byte) || byte <= b' '),
        };
        if !is_good {
            return Err(format!("'${name}{{{inner}}}' has no valid name, such as ${name}{{{example}}}"));
        }
        let inner = if entry.fact == Fact::Header { inner.to_ascii_lowercase() } else { inner.to_string() };
        Ok((Variable::of(entry, &inner), rest))
    }

    fn of(entry: &Entry, name: &str) -> Variable {
        Variable { fact: entry.fact, name: name.into(), position: 0, known: entry.known }
    }
}

/// The position of the match with a number or name; `names` are those of the groups.
pub fn capture_position(name: &str, captures: &[Option<String>]) -> Option<usize> {
    match name.parse::<usize>() {
        Ok(number) => number.checked_sub(1).filter(|position| *position < captures.len()),
        Err(_) => captures.iter().position(|known| known.as_deref() == Some(name)),
    }
}

/// The variable that was probably meant: the one whose name differs in the fewest letters, if these are few.
pub fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let distance = |candidate: &&str| strsim::damerau_levenshtein(name, candidate);
    let best = known.into_iter().min_by_key(distance)?;
    (distance(&best) <= (best.len() / 3).clamp(1, 3)).then_some(best)
}

fn find(name: &str) -> Result<&'static Entry, String> {
    if let Some(entry) = VARIABLES.iter().find(|entry| entry.name == name) {
        return Ok(entry);
    }
    let elsewhere = ELSEWHERE.iter().find(|(other, _)| *other == name).map(|(_, here)| (*here).to_string());
    let begin = |prefix: &str, here: &str| {
        let rest = name.strip_prefix(prefix).filter(|rest| !rest.is_empty())?;
        let rest = if here == "header" { rest.replace('_', "-") } else { rest.to_string() };
        Some(format!("{here}{{{rest}}}"))
    };
    let field =
        || begin("http_", "header").or_else(|| begin("cookie_", "cookie")).or_else(|| begin("arg_", "arg"));
    let near = || nearest(name, VARIABLES.iter().map(|entry| entry.name)).map(str::to_string);
    Err(match elsewhere.or_else(field).or_else(near) {
        Some(near) => format!("unknown variable '${name}'; did you mean '${near}'?"),
        None => {
            let names: Vec<&str> = VARIABLES.iter().map(|entry| entry.name).collect();
            format!("unknown variable '${name}'; the variables are {}", names.join(", "))
        }
    })
}

/// The table of variables, for the page of the book.
pub fn variables_markdown() -> String {
    let mut table = "| variable | known | |\n|---|---|---|\n".to_string();
    for entry in VARIABLES {
        let name = match entry.example {
            Some(example) => format!("${}{{{example}}}", entry.name),
            None => format!("${}", entry.name),
        };
        table.push_str(&format!("| `{name}` | {} | {} |\n", entry.known.name(), entry.documentation));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Variable, &str), String> {
        Variable::read(text, AvailableFrom::Answer, &[])
    }

    #[test]
    fn forms() {
        let (variable, rest) = read("client and").unwrap();
        assert_eq!((variable.fact, rest), (Fact::Client, " and"));
        let (variable, rest) = read("{host}x").unwrap();
        assert_eq!((variable.fact, rest), (Fact::Host, "x"));
        let (variable, rest) = read("header{X-Key}!").unwrap();
        assert_eq!((variable.fact, &*variable.name, rest), (Fact::Header, "x-key", "!"));
        let (variable, rest) = read("{cookie{Id}}").unwrap();
        assert_eq!((variable.fact, &*variable.name, rest), (Fact::Cookie, "Id", ""));
    }

    #[test]
    fn refused() {
        let problem = |text: &str| read(text).unwrap_err();
        assert_eq!(problem("remote_addr"), "unknown variable '$remote_addr'; did you mean '$client'?");
        assert_eq!(problem("http_x_key"), "unknown variable '$http_x_key'; did you mean '$header{x-key}'?");
        assert_eq!(problem("arg_page"), "unknown variable '$arg_page'; did you mean '$arg{page}'?");
        assert_eq!(problem("metod"), "unknown variable '$metod'; did you mean '$method'?");
        assert!(problem("qqqqqqqqqqqqqqqqq").contains("the variables are client, method"));
        assert_eq!(problem("header"), "'$header' needs a name, such as $header{x-api-key}");
        assert!(problem("header{a b}").contains("no valid name"));
        assert!(problem("header{a").contains("no '}'"));
        assert!(problem("{client").contains("no '}' at its end"));
        assert!(problem("-").contains("'$$'"));
        let early = Variable::read("status", AvailableFrom::Request, &[]).unwrap_err();
        assert_eq!(
            early,
            "'$status' is available only when the head of the answer has arrived, so it is not valid here"
        );
    }

    /// The table in the book is that of the code. `BLESS=1` writes it again.
    #[test]
    fn variables_of_the_page_are_up_to_date() {
        const BEGIN: &str = "<!-- variables -->\n";
        const END: &str = "<!-- /variables -->";
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/expressions.md");
        let page = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = page.split_once(BEGIN).unwrap();
        let (_, after) = rest.split_once(END).unwrap();
        let wanted = format!("{before}{BEGIN}{}{END}{after}", variables_markdown());
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, &wanted).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap();
        assert!(written == wanted, "BLESS=1 cargo test -p touchstone-expression variables_of_the_page");
    }
}
