//! `[accelerator]` and `[site.route.cache]`: which answers of programs and origins are cached, how many, and
//! for how long.

use std::path::PathBuf;
use std::time::Duration;

use touchstone_accelerator::rules::policy::{Esi, Policy, SetCookie};
use touchstone_config_section::values::{self, MIB};
use touchstone_config_section::{Choice, Key, Kind, Section};
use touchstone_expression::{AvailableFrom, Condition, Text};

/// `[accelerator]`: what all routes with a cache share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceleratorConfig {
    /// The most bytes of stored responses in memory; `None`: derived from the available memory.
    pub memory_bytes: Option<u64>,
    /// The directory for copies on disk; `None`: no copies.
    pub disk: Option<PathBuf>,
    /// The most bytes of the copies.
    pub disk_bytes: u64,
}

impl Default for AcceleratorConfig {
    fn default() -> AcceleratorConfig {
        ACCELERATOR.defaults()
    }
}

const TIB: u64 = 1024 * 1024 * MIB;
const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// `[accelerator]`
pub static ACCELERATOR: Section<AcceleratorConfig> = Section {
    name: "accelerator",
    repeated: false,
    documentation: "The settings that all routes with a `cache` share, see [the \
        accelerator](accelerator.md). Stored responses survive a reload.",
    blank: || AcceleratorConfig { memory_bytes: None, disk: None, disk_bytes: 0 },
    keys: &[
        Key {
            name: "memory",
            default: Some("\"auto\""),
            example: "\"2GiB\"",
            documentation: "The most memory that stored responses may take, all together, in bytes. \
            The least used ones make room for new ones. The size at the start determines the number of locks \
            that cores share. `\"auto\"` is 256MiB, or a quarter of the memory that the server may \
            use (its control group's or the machine's) where that is less.",
            kind: Kind::SizeOrAuto {
                least: MIB,
                most: 16 * TIB,
                set: |config, value| config.memory_bytes = Some(value),
            },
        },
        Key {
            name: "disk",
            default: Some("\"\""),
            example: "\"/var/cache/touchstone\"",
            documentation: "A directory for copies of stored responses, which survive a restart. It is \
                created if it is missing. The server must be able to write to it, and no other user should \
                be. The key takes effect when the server starts, not on a reload. Empty: there are no \
                copies.",
            kind: Kind::File(|config, value| config.disk = value),
        },
        Key {
            name: "disk_size",
            default: Some("\"10GiB\""),
            example: "\"100GiB\"",
            documentation: "The most space on disk for all copies, in bytes. If less space is free, the \
                oldest copies are removed earlier. The key takes effect when the server starts, not on a \
                reload.",
            kind: Kind::Size {
                least: 8 * MIB,
                most: 1024 * TIB,
                set: |config, value| config.disk_bytes = value,
            },
        },
    ],
};

const fn seconds(
    name: &'static str,
    default: &'static str,
    example: &'static str,
    documentation: &'static str,
    set: fn(&mut Policy, Duration),
) -> Key<Policy> {
    let kind = Kind::Duration { least: Duration::ZERO, most: YEAR, set };
    Key { name, default: Some(default), example, documentation, kind }
}

fn whole_seconds(value: Duration) -> u32 {
    u32::try_from(value.as_secs()).unwrap_or(u32::MAX)
}

/// `[site.route.cache]`
pub static CACHE_OF_ROUTE: Section<Policy> = Section {
    name: "site.route.cache",
    repeated: false,
    documentation: "The route's answers are cached according to RFC 9111, see [the \
        accelerator](accelerator.md). An empty table is enough: then only the fields of the answers decide. \
        Each key sets a value for answers without such fields, or limits those fields.",
    blank: Policy::default,
    keys: &[
        seconds(
            "default_freshness",
            "\"0s\"",
            "\"5s\"",
            "How long an answer is fresh if it has neither freshness information nor `Last-Modified`. With \
             more than 0, answers that do not state that they may be cached are cached too, as in Novell's \
             FastCache. Answers that set a cookie, and answers to requests with cookies, are excepted unless \
             `ignore_cookies` is set.",
            |policy, value| policy.default_freshness = whole_seconds(value),
        ),
        seconds(
            "minimum_freshness",
            "\"0s\"",
            "\"10s\"",
            "An answer that may be stored is fresh for at least so long. \
             It does not override `no-cache`, `must-revalidate`, `private`, `no-store` or an explicit 0.",
            |policy, value| policy.minimum_freshness = whole_seconds(value),
        ),
        seconds(
            "maximum_freshness",
            "\"8760h\"",
            "\"24h\"",
            "The longest time for which any answer is fresh, regardless of its fields. After that it is \
                validated.",
            |policy, value| policy.maximum_freshness = whole_seconds(value),
        ),
        seconds(
            "negative_freshness",
            "\"0s\"",
            "\"2s\"",
            "How long answers such as 404 are fresh if they have no freshness information. It holds for 404, \
             405, 410, 414 and 501.",
            |policy, value| policy.negative_freshness = whole_seconds(value),
        ),
        Key {
            name: "heuristic_percent",
            default: Some("10"),
            example: "0",
            documentation: "The share of its age, in percent, for which an answer with `Last-Modified` is \
                fresh if it has no freshness information. 0: such answers are validated each time.",
            kind: Kind::Number {
                least: 0,
                most: 100,
                set: |policy, value| policy.heuristic_percent = u32::try_from(value).unwrap_or(100),
            },
        },
        seconds(
            "heuristic_maximum",
            "\"24h\"",
            "\"1h\"",
            "No answer is fresh for longer by its age alone.",
            |policy, value| policy.heuristic_maximum = whole_seconds(value),
        ),
        seconds(
            "stale_while_revalidate",
            "\"0s\"",
            "\"30s\"",
            "How long a stale answer is still sent while it is validated in the background, unless the \
             answer sets this itself (RFC 5861).",
            |policy, value| policy.stale_while_revalidate = whole_seconds(value),
        ),
        seconds(
            "stale_if_error",
            "\"24h\"",
            "\"1h\"",
            "How long a stale answer is sent when the origin cannot be reached or answers 500, 502, 503 or \
             504, unless the answer sets this itself. Never with `must-revalidate` or similar directives.",
            |policy, value| policy.stale_if_error = whole_seconds(value),
        ),
        Key {
            name: "ignore_query",
            default: Some("false"),
            example: "true",
            documentation: "Whether requests that differ only in the query share one answer.",
            kind: Kind::Boolean(|policy, value| policy.ignore_query = value),
        },
        Key {
            name: "ignore_parameters",
            default: Some("[]"),
            example: "[\"utm_*\", \"fbclid\"]",
            documentation: "Parameters of the query that are ignored. A `*` at the end of a name matches any \
                ending.",
            kind: Kind::CheckedArray {
                what: "array of names of parameters",
                parse: |text| match text {
                    "" => Err("an empty string names no parameter".to_string()),
                    _ => Ok(text.to_string()),
                },
                set: |policy, value| policy.ignore_parameters = value.into_iter().map(boxed).collect(),
            },
        },
        Key {
            name: "sort_query",
            default: Some("false"),
            example: "true",
            documentation: "Whether the order of the query's parameters is ignored.",
            kind: Kind::Boolean(|policy, value| policy.sort_query = value),
        },
        Key {
            name: "ignore_cookies",
            default: Some("false"),
            example: "true",
            documentation: "Whether answers do not depend on cookies. Then `Cookie` in `Vary` is ignored, \
                and `Set-Cookie` is not stored. Only for answers that are the same for all clients.",
            kind: Kind::Boolean(|policy, value| policy.ignore_cookies = value),
        },
        Key {
            name: "set_cookie",
            default: Some("\"refuse\""),
            example: "\"remove\"",
            documentation: "What is done with an answer that sets a cookie and could otherwise be stored.",
            kind: Kind::Choice(&[
                Choice {
                    word: "refuse",
                    meaning: "such an answer is not stored",
                    set: |policy| policy.set_cookie = SetCookie::Refuse,
                },
                Choice {
                    word: "remove",
                    meaning: "it is stored without the field; only the client that made the request gets the \
                        field",
                    set: |policy| policy.set_cookie = SetCookie::Remove,
                },
                Choice {
                    word: "store",
                    meaning: "stored if it has a lifetime; all clients get the cookie",
                    set: |policy| policy.set_cookie = SetCookie::Store,
                },
            ]),
        },
        Key {
            name: "vary_also",
            default: Some("[]"),
            example: "[\"X-Device\"]",
            documentation: "Fields of requests that select an answer as if every answer named them in \
                `Vary`.",
            kind: Kind::CheckedArray {
                what: "array of names of header fields",
                parse: |text| match values::is_token(text) {
                    true => Ok(text.to_string()),
                    false => Err(format!("{text:?} is not the name of a header field")),
                },
                set: |policy, value| policy.vary_also = value.into_iter().map(boxed).collect(),
            },
        },
        Key {
            name: "key",
            default: Some("\"\""),
            example: "\"$cookie{currency} $geoip_country\"",
            documentation: "A [text with variables](expressions.md) that is part of the key, beside scheme, \
                host, path and query: requests share an answer only where it is equal. A purge of a URL is \
                for all of its keys.",
            kind: Kind::Checked {
                what: "text with variables",
                parse: |text, _| values::check_text(text, AvailableFrom::Admitted),
                set: |policy, value| {
                    policy.key = Text::read(&value, AvailableFrom::Admitted).ok().filter(Text::has_variables);
                },
            },
        },
        Key {
            name: "bypass",
            default: Some("\"\""),
            example: "'$cookie{preview} or $arg{nocache}'",
            documentation: "A [condition](expressions.md): requests for which it is true are sent to the \
                origin. They get no stored answer, and their answers are not stored.",
            kind: Kind::Checked {
                what: "condition",
                parse: |text, _| values::check_condition(text, AvailableFrom::Admitted),
                set: |policy, value| policy.bypass = Condition::read(&value, AvailableFrom::Admitted).ok(),
            },
        },
        Key {
            name: "no_store",
            default: Some("\"\""),
            example: "'$header{x-draft}'",
            documentation: "A [condition](expressions.md): answers to requests for which it holds are not \
                stored, but such requests may get a stored one.",
            kind: Kind::Checked {
                what: "condition",
                parse: |text, _| values::check_condition(text, AvailableFrom::Admitted),
                set: |policy, value| policy.no_store = Condition::read(&value, AvailableFrom::Admitted).ok(),
            },
        },
        Key {
            name: "client_directives",
            default: Some("true"),
            example: "false",
            documentation: "Whether `Cache-Control` and `Pragma` of requests are obeyed. \
                With `false` clients cannot force a request to the origin, nor restrict which stored answers \
                they get.",
            kind: Kind::Boolean(|policy, value| policy.client_directives = value),
        },
        Key {
            name: "object_bytes",
            default: Some("\"32MiB\""),
            example: "\"256MiB\"",
            documentation: "The longest body that is stored, in bytes. Longer ones pass without being \
                stored.",
            kind: Kind::Size { least: 0, most: TIB, set: |policy, value| policy.object_bytes = value },
        },
        Key {
            name: "cache_status",
            default: Some("true"),
            example: "false",
            documentation: "Whether answers have a field `Cache-Status` with the result of the cache (RFC \
                9211).",
            kind: Kind::Boolean(|policy, value| policy.cache_status = value),
        },
        Key {
            name: "esi",
            default: Some("\"off\""),
            example: "\"origin\"",
            documentation: "Which pages are composed of parts (Edge Side Includes), each cached by its own \
                rules, see [pages of parts](accelerator.md#pages-of-parts).",
            kind: Kind::Choice(&[
                Choice { word: "off", meaning: "none", set: |policy| policy.esi = Esi::Off },
                Choice {
                    word: "origin",
                    meaning: "those with `Surrogate-Control: content=\"ESI/1.0\"`",
                    set: |policy| policy.esi = Esi::Origin,
                },
                Choice {
                    word: "html",
                    meaning: "these, and all answers of the type text/html",
                    set: |policy| policy.esi = Esi::Html,
                },
            ]),
        },
    ],
};

fn boxed(text: String) -> Box<[u8]> {
    text.into_bytes().into_boxed_slice()
}
