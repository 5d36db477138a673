//! How answers of a site or route are delivered: how fast, how patiently, and with what replaced in them.

use std::collections::BTreeMap;
use std::time::Duration;

use touchstone_config_section::reader::{Reader, Value};
use touchstone_config_section::values::{self, HOUR, TIB};
use touchstone_config_section::{ABSENT, Key, Kind, Section, SectionPlaces};

use super::SiteConfig;

/// The most texts that are replaced.
const MOST_TEXTS: usize = 64;

/// The longest text that is replaced, in bytes.
const LONGEST_TEXT: usize = 1024;

const GIB: u64 = 1 << 30;

/// The keys of a site or route; what is `None` is as above it: in the site, in `[limits]`, or not at all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeliveryConfig {
    /// The most bytes of an answer in a second; 0: any number.
    pub limit_rate: Option<u64>,
    /// How many bytes of an answer are sent before that counts.
    pub limit_rate_after: Option<u64>,
    /// How long a body may make no progress.
    pub stall_timeout: Option<Duration>,
    /// The least bytes of a request's body in a second.
    pub minimum_receive_rate: Option<u64>,
    /// The least bytes of an answer that a client takes in a second.
    pub minimum_send_rate: Option<u64>,
    /// Texts that are replaced.
    pub substitute: Option<SubstituteConfig>,
}

/// `substitute`
#[derive(Debug, Clone, PartialEq)]
pub struct SubstituteConfig {
    /// Texts, and what takes their place.
    pub replace: BTreeMap<String, String>,
    /// The media types of answers in which they are replaced; `*`: all.
    pub types: Vec<String>,
    /// Only the first place of each text.
    pub once: bool,
    /// The case of letters is ignored.
    pub ignore_case: bool,
    /// Last-Modified stays, and a strong entity tag becomes a weak one; otherwise both are removed.
    pub keep_validators: bool,
}

impl DeliveryConfig {
    /// The settings of a route; those of the site replace missing ones.
    pub fn below(&self, site: &DeliveryConfig) -> DeliveryConfig {
        DeliveryConfig {
            limit_rate: self.limit_rate.or(site.limit_rate),
            limit_rate_after: self.limit_rate_after.or(site.limit_rate_after),
            stall_timeout: self.stall_timeout.or(site.stall_timeout),
            minimum_receive_rate: self.minimum_receive_rate.or(site.minimum_receive_rate),
            minimum_send_rate: self.minimum_send_rate.or(site.minimum_send_rate),
            substitute: self.substitute.clone().or_else(|| site.substitute.clone()),
        }
    }

    /// Whether it sets a limit for slow clients.
    pub fn has_minimum_rate(&self) -> bool {
        self.stall_timeout.is_some()
            || self.minimum_receive_rate.is_some()
            || self.minimum_send_rate.is_some()
    }
}

/// What has these keys.
pub(super) trait HasDelivery {
    /// The keys.
    fn delivery(&mut self) -> &mut DeliveryConfig;
}

impl HasDelivery for SiteConfig {
    fn delivery(&mut self) -> &mut DeliveryConfig {
        &mut self.delivery
    }
}

/// `[site.substitute]`
pub static SUBSTITUTE: Section<SubstituteConfig> = Section {
    name: "site.substitute",
    repeated: false,
    documentation: "Texts that are replaced in answers, as `sub_filter` of nginx does. \
        `[site.route.substitute]` has the same keys. An answer in which texts may be replaced is sent whole \
        (no ranges), and compressed after that. Requests to programs and origins require uncompressed \
        answers; an answer that is compressed anyway is not changed.",
    blank: || SubstituteConfig {
        replace: BTreeMap::new(),
        types: Vec::new(),
        once: false,
        ignore_case: false,
        keep_validators: false,
    },
    keys: &[
        Key {
            name: "replace",
            default: None,
            example: "{ \"http://localhost:3000/\" = \"https://www.example.org/\" }",
            documentation: "The texts, each with what takes its place; up to 64 of 1 to 1,024 bytes. Where \
                two begin at the same place, the longer one counts. An empty table in a route turns the \
                site's setting off.",
            kind: Kind::Pairs {
                what: "table from texts to what takes their place",
                check: |text, _| match (1..=LONGEST_TEXT).contains(&text.len()) {
                    true => Ok(()),
                    false => Err(format!("a text has 1 to {LONGEST_TEXT} bytes, not {}", text.len())),
                },
                set: |substitute, value| substitute.replace = value,
            },
        },
        Key {
            name: "types",
            default: Some("[\"text/html\"]"),
            example: "[\"text/html\", \"text/css\"]",
            documentation: "The media types of the answers; `\"*\"`: all.",
            kind: Kind::CheckedArray {
                what: "array of media types",
                parse: |text| match text {
                    "*" => Ok(text.to_string()),
                    _ => values::parse_media_type(text).map(|text| text.to_ascii_lowercase()),
                },
                set: |substitute, value| substitute.types = value,
            },
        },
        Key {
            name: "once",
            default: Some("true"),
            example: "false",
            documentation: "Whether only the first place of each text is replaced.",
            kind: Kind::Boolean(|substitute, value| substitute.once = value),
        },
        Key {
            name: "ignore_case",
            default: Some("true"),
            example: "false",
            documentation: "Whether the case of letters (A to Z) is ignored.",
            kind: Kind::Boolean(|substitute, value| substitute.ignore_case = value),
        },
        Key {
            name: "keep_validators",
            default: Some("false"),
            example: "true",
            documentation: "Whether Last-Modified is sent, and the entity tag in its weak form. They show a \
                change of the original answer, but not a change of these texts. `false`: neither is sent.",
            kind: Kind::Boolean(|substitute, value| substitute.keep_validators = value),
        },
    ],
};

/// `limit_rate`
pub(super) const fn limit_rate<C: HasDelivery>() -> Key<C> {
    Key {
        name: "limit_rate",
        default: Some(ABSENT),
        example: "\"500KiB\"",
        documentation: "The most bytes of a response body in a second, for each response separately. 0: any \
            number, for a route in a site that has a limit.",
        kind: Kind::Size { least: 0, most: TIB, set: |of, value| of.delivery().limit_rate = Some(value) },
    }
}

/// `limit_rate_after`
pub(super) const fn limit_rate_after<C: HasDelivery>() -> Key<C> {
    Key {
        name: "limit_rate_after",
        default: Some(ABSENT),
        example: "\"10MiB\"",
        documentation: "How many bytes of an answer's body are sent before `limit_rate` counts.",
        kind: Kind::Size {
            least: 0,
            most: TIB,
            set: |of, value| of.delivery().limit_rate_after = Some(value),
        },
    }
}

/// `stall_timeout`
pub(super) const fn stall_timeout<C: HasDelivery>() -> Key<C> {
    Key {
        name: "stall_timeout",
        default: Some(ABSENT),
        example: "\"2m\"",
        documentation: "How long a request body or an answer may make no progress, in place of \
            `limits.stall_timeout`. Over HTTP/2, where answers share the windows of a connection, the \
            longest of all sites and routes holds for all answers.",
        kind: Kind::Duration {
            least: Duration::from_millis(100),
            most: HOUR,
            set: |of, value| of.delivery().stall_timeout = Some(value),
        },
    }
}

/// `minimum_receive_rate`
pub(super) const fn minimum_receive_rate<C: HasDelivery>() -> Key<C> {
    Key {
        name: "minimum_receive_rate",
        default: Some(ABSENT),
        example: "\"1KiB\"",
        documentation: "The lowest rate of a request body, in place of `limits.minimum_receive_rate`.",
        kind: Kind::Size {
            least: 0,
            most: GIB,
            set: |of, value| of.delivery().minimum_receive_rate = Some(value),
        },
    }
}

/// `minimum_send_rate`
pub(super) const fn minimum_send_rate<C: HasDelivery>() -> Key<C> {
    Key {
        name: "minimum_send_rate",
        default: Some(ABSENT),
        example: "\"1KiB\"",
        documentation: "The lowest rate at which a client may take an answer, in place of \
            `limits.minimum_send_rate`. Over HTTP/2 the lowest of all sites and routes holds.",
        kind: Kind::Size {
            least: 0,
            most: GIB,
            set: |of, value| of.delivery().minimum_send_rate = Some(value),
        },
    }
}

/// `substitute`
pub(super) const fn substitute<C: HasDelivery>() -> Key<C> {
    Key {
        name: "substitute",
        default: Some(ABSENT),
        example: "{ replace = { \"</head>\" = \"<script src='/a.js'></script></head>\" } }",
        documentation: "Texts that are replaced in answers, see `[site.substitute]`. A route without this \
            key uses the setting of its site.",
        kind: Kind::Table { read: read_substitute::<C> },
    }
}

fn read_substitute<C: HasDelivery>(
    reader: &mut Reader<'_>,
    value: &Value<'_>,
    of: &mut C,
) -> Vec<SectionPlaces> {
    let target = &mut of.delivery().substitute;
    let places = reader.table_into(&SUBSTITUTE, value, target);
    if target.as_ref().is_some_and(|substitute| substitute.replace.len() > MOST_TEXTS) {
        let place = reader.place(value.span().start);
        reader.problem(place, format!("'replace' has more than {MOST_TEXTS} texts"));
    }
    places
}
