//! `crawlers`: bots that sign their requests, and work that other visitors do first.

use std::path::{Path, PathBuf};
use std::time::Duration;

use touchstone_config_section::reader::{Reader, Value};
use touchstone_config_section::{ABSENT, Choice, Key, Kind, Network, Section, SectionPlaces, values};
use touchstone_expression::{AvailableFrom, Condition};

/// `crawlers`
#[derive(Debug, Clone, PartialEq)]
pub struct CrawlersConfig {
    /// Whether the rules apply.
    pub is_on: bool,
    /// The bots with names.
    pub bots: Vec<BotConfig>,
    /// Bots that are not named are verified too.
    pub other_bots: bool,
    /// A signature that is wrong is refused.
    pub refuses_invalid: bool,
    /// A signature must have a nonce.
    pub needs_nonce: bool,
    /// The longest life of a signature.
    pub signature_lifetime: Duration,
    /// Keys may be fetched from servers in private networks.
    pub private_networks: bool,
    /// The authorities that servers with keys may have their certificates from; `None`: those of the system.
    pub ca_certificate: Option<PathBuf>,
    /// Who must do some work first.
    pub challenge: ChallengedClients,
    /// The condition on requests; `None`: there is none.
    pub when: Option<Condition>,
    /// Paths that need no work.
    pub except: Vec<String>,
    /// Clients that need to do none.
    pub exempt: Vec<Network>,
    /// The zero bits that the hash must begin with.
    pub difficulty: u8,
    /// How long a browser without scripts waits; zero: such browsers do not pass.
    pub wait: Duration,
    /// How long work lasts.
    pub lifetime: Duration,
    /// How long a wait lasts.
    pub wait_lifetime: Duration,
    /// What of a client a pass is bound to.
    pub bind: Vec<String>,
    /// The file with the keys of passes; `None`: this process makes one.
    pub key_file: Option<PathBuf>,
}

/// Who must do some work before the site answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChallengedClients {
    /// No visitor.
    Off,
    /// Those whose fields are those of a browser.
    Browsers,
    /// All visitors.
    All,
}

/// `bot`
#[derive(Debug, Clone, PartialEq)]
pub struct BotConfig {
    /// Its name in logs, metrics and variables.
    pub name: String,
    /// Where it publishes its keys; empty: `key_file` has them.
    pub agent: String,
    /// The file with its keys.
    pub key_file: Option<PathBuf>,
    /// Parts of `User-Agent` that only it may have.
    pub user_agents: Vec<String>,
    /// Whether its requests are answered.
    pub is_allowed: bool,
    /// How many requests it may make; 0: any number.
    pub requests: u64,
    /// The period of that.
    pub per: Duration,
}

/// What a pass may be bound to.
pub const BINDINGS: [&str; 3] = ["user-agent", "accept-language", "network"];

/// The path below which the check answers itself.
pub const CHECK_PATH: &str = "/.touchstone/check/";

impl CrawlersConfig {
    /// What is wrong with the keys together.
    fn problem(&self) -> Option<String> {
        for (position, bot) in self.bots.iter().enumerate() {
            let name = &bot.name;
            if self.bots[..position].iter().any(|other| other.name == *name) {
                return Some(format!("two bots have the name {name:?}"));
            }
            match (bot.agent.is_empty(), bot.key_file.is_none()) {
                (true, true) => {
                    return Some(format!(
                        "the bot {name:?} needs 'agent', the address of its keys, or 'key_file'"
                    ));
                }
                (false, false) => {
                    return Some(format!("the bot {name:?} has 'agent' and 'key_file'; remove one of them"));
                }
                _ => {}
            }
        }
        None
    }
}

/// `[[site.crawlers.bot]]`
pub static BOT: Section<BotConfig> = Section {
    name: "site.crawlers.bot",
    repeated: true,
    documentation: "A bot that signs its requests (RFC 9421, web-bot-auth), and what it may do. \
        `[[site.route.crawlers.bot]]` has the same keys.",
    blank: || BotConfig {
        name: String::new(),
        agent: String::new(),
        key_file: None,
        user_agents: Vec::new(),
        is_allowed: true,
        requests: 0,
        per: Duration::ZERO,
    },
    keys: &[
        Key {
            name: "name",
            default: None,
            example: "\"example-search\"",
            documentation: "The name of the bot in `$bot`, the log and metrics.",
            kind: Kind::Checked { what: "name", parse: parse_name, set: |bot, value| bot.name = value },
        },
        Key {
            name: "agent",
            default: Some("\"\""),
            example: "\"https://bot.example.com\"",
            documentation: "The address that it names in `Signature-Agent`: an origin, which has its keys at \
                `/.well-known/http-message-signatures-directory`, or with a path that of a JSON Web Key Set. \
                The server fetches the keys at the start, when they are no longer fresh, and when a \
                signature names a key that is not among them.",
            kind: Kind::Checked {
                what: "`https://` address",
                parse: parse_agent,
                set: |bot, value| bot.agent = value,
            },
        },
        Key {
            name: "key_file",
            default: Some("\"\""),
            example: "\"bot-keys.json\"",
            documentation: "The file with its keys, a JSON Web Key Set, instead of `agent`. It is read when \
                the configuration is. Signatures by these keys need no `Signature-Agent`.",
            kind: Kind::File(|bot, value| bot.key_file = value),
        },
        Key {
            name: "user_agents",
            default: Some("[]"),
            example: "[\"ExampleBot/\"]",
            documentation: "Parts of `User-Agent`, in any case, that only this bot may send. A request with \
                one of them and without a right signature of the bot is answered with 403 Forbidden.",
            kind: Kind::CheckedArray {
                what: "array of parts of `User-Agent`",
                parse: parse_user_agent,
                set: |bot, value| bot.user_agents = value,
            },
        },
        Key {
            name: "access",
            default: Some("\"allow\""),
            example: "\"deny\"",
            documentation: "Whether its requests are answered.",
            kind: Kind::Choice(&[
                Choice {
                    word: "allow",
                    meaning: "they are, without a check, within the limit of `requests`",
                    set: |bot| bot.is_allowed = true,
                },
                Choice { word: "deny", meaning: "with 403 Forbidden", set: |bot| bot.is_allowed = false },
            ]),
        },
        Key {
            name: "requests",
            default: Some("0"),
            example: "60",
            documentation: "How many requests it may make in each `per`, from all its addresses together. \
                Further requests are answered with 429 and `Retry-After`. 0 means any number.",
            kind: Kind::Number { least: 0, most: 1_000_000_000, set: |bot, value| bot.requests = value },
        },
        Key {
            name: "per",
            default: Some("\"1m\""),
            example: "\"1s\"",
            documentation: "The period of `requests`.",
            kind: Kind::Duration {
                least: Duration::from_millis(1),
                most: Duration::from_secs(24 * 3600),
                set: |bot, value| bot.per = value,
            },
        },
    ],
};

/// `[site.crawlers]`
pub static CRAWLERS: Section<CrawlersConfig> = Section {
    name: "site.crawlers",
    repeated: false,
    documentation: "Bots that sign their requests, and a check that other visitors pass first, by a proof of \
        work or, without scripts, by waiting, see [crawlers](crawlers.md). `[site.route.crawlers]` has the \
        same keys. Requests of a route or site with it are not served by the fast path of the caches.",
    blank,
    keys: KEYS,
};

fn blank() -> CrawlersConfig {
    CrawlersConfig {
        is_on: true,
        bots: Vec::new(),
        other_bots: false,
        refuses_invalid: true,
        needs_nonce: false,
        signature_lifetime: Duration::ZERO,
        private_networks: false,
        ca_certificate: None,
        challenge: ChallengedClients::Off,
        when: None,
        except: Vec::new(),
        exempt: Vec::new(),
        difficulty: 0,
        wait: Duration::ZERO,
        lifetime: Duration::ZERO,
        wait_lifetime: Duration::ZERO,
        bind: Vec::new(),
        key_file: None,
    }
}

const KEYS: &[Key<CrawlersConfig>] = &[
    Key {
        name: "enabled",
        default: Some("true"),
        example: "false",
        documentation: "`false` in a route switches the rules of its site off there.",
        kind: Kind::Boolean(|crawlers, value| crawlers.is_on = value),
    },
    Key {
        name: "bot",
        default: Some(ABSENT),
        example: "[{ name = \"example-search\", agent = \"https://bot.example.com\" }]",
        documentation: "The bots with names, each written as `[[site.crawlers.bot]]`.",
        kind: Kind::Tables { read: read_bots },
    },
    Key {
        name: "other_bots",
        default: Some("false"),
        example: "true",
        documentation: "Whether bots that no `bot` names are verified too: the server fetches the keys of up \
            to 256 of them, from the usual port of HTTPS. Such a bot passes without a check, and its host is \
            `$bot`: limit it by that. A client can make any number of bots.",
        kind: Kind::Boolean(|crawlers, value| crawlers.other_bots = value),
    },
    Key {
        name: "invalid_signatures",
        default: Some("\"refuse\""),
        example: "\"ignore\"",
        documentation: "How requests with a wrong signature are handled. A request whose keys cannot be \
            fetched, or whose bot has no entry, is treated as unsigned in any case.",
        kind: Kind::Choice(&[
            Choice {
                word: "refuse",
                meaning: "they are answered with 403 Forbidden, or 400 if the fields cannot be read",
                set: |crawlers| crawlers.refuses_invalid = true,
            },
            Choice {
                word: "ignore",
                meaning: "they are treated as unsigned",
                set: |crawlers| crawlers.refuses_invalid = false,
            },
        ]),
    },
    Key {
        name: "nonces",
        default: Some("\"optional\""),
        example: "\"required\"",
        documentation: "Whether signatures must have a nonce. This process accepts a signature with a nonce \
            once. A signature without a nonce can be sent again until it expires, by any client that has \
            received it.",
        kind: Kind::Choice(&[
            Choice {
                word: "optional",
                meaning: "they may lack it",
                set: |crawlers| crawlers.needs_nonce = false,
            },
            Choice { word: "required", meaning: "they must", set: |crawlers| crawlers.needs_nonce = true },
        ]),
    },
    Key {
        name: "signature_lifetime",
        default: Some("\"24h\""),
        example: "\"5m\"",
        documentation: "The longest time from `created` to `expires` of a signature; one that lasts longer \
            is wrong.",
        kind: Kind::Duration {
            least: Duration::from_secs(1),
            most: Duration::from_secs(365 * 24 * 3600),
            set: |crawlers, value| crawlers.signature_lifetime = value,
        },
    },
    Key {
        name: "private_networks",
        default: Some("false"),
        example: "true",
        documentation: "Whether keys may be fetched from servers in private networks and on this machine. \
            `agent` of a bot of your own may need it; do not combine it with `other_bots`.",
        kind: Kind::Boolean(|crawlers, value| crawlers.private_networks = value),
    },
    Key {
        name: "ca_certificate",
        default: Some("\"\""),
        example: "\"/etc/ssl/own-ca.pem\"",
        documentation: "The authorities that may issue the certificates of servers with keys, in PEM form. \
            Empty means the authorities that the system trusts.",
        kind: Kind::File(|crawlers, value| crawlers.ca_certificate = value),
    },
    Key {
        name: "challenge",
        default: Some("\"off\""),
        example: "\"browsers\"",
        documentation: "Which clients must pass a check first.",
        kind: Kind::Choice(&[
            Choice {
                word: "off",
                meaning: "none",
                set: |crawlers| crawlers.challenge = ChallengedClients::Off,
            },
            Choice {
                word: "browsers",
                meaning: "those with `Mozilla` in their `User-Agent`; no clients of an API",
                set: |crawlers| crawlers.challenge = ChallengedClients::Browsers,
            },
            Choice {
                word: "all",
                meaning: "all, also clients of an API and readers of feeds",
                set: |crawlers| crawlers.challenge = ChallengedClients::All,
            },
        ]),
    },
    Key {
        name: "when",
        default: Some("\"\""),
        example: "'$path =~ \"^/(search|history)\" or $arg{page}'",
        documentation: "A [condition](expressions.md) on the request and its connection: only requests for \
            which it holds are checked. Empty: none.",
        kind: Kind::Checked {
            what: "condition",
            parse: |text, _| values::check_condition(text, AvailableFrom::Connection),
            set: |crawlers, value| crawlers.when = Condition::read(&value, AvailableFrom::Connection).ok(),
        },
    },
    Key {
        name: "except",
        default: Some(
            "[\"/robots.txt\", \"/favicon.ico\", \"/.well-known/*\", \"*.rss\", \"*.atom\", \"*.xml\"]",
        ),
        example: "[\"/robots.txt\", \"/.well-known/*\", \"/api/*\"]",
        documentation: "Paths that are not checked: a path, the beginning of paths followed by `*`, or `*` \
            followed by the end of paths.",
        kind: Kind::CheckedArray {
            what: "array of paths",
            parse: parse_path,
            set: |crawlers, value| crawlers.except = value,
        },
    },
    Key {
        name: "exempt",
        default: Some("[]"),
        example: "[\"192.0.2.0/24\"]",
        documentation: "The networks whose clients are not checked, such as those of monitoring and of \
            search engines that publish theirs.",
        kind: Kind::Networks(|crawlers, value| crawlers.exempt = value),
    },
    Key {
        name: "difficulty",
        default: Some("16"),
        example: "18",
        documentation: "How many zero bits the hash must begin with: a browser computes about \
            2^`difficulty` hashes, 65,536 with 16; each bit more doubles that.",
        kind: Kind::Number { least: 1, most: 28, set: |crawlers, value| crawlers.difficulty = value as u8 },
    },
    Key {
        name: "wait",
        default: Some("\"5s\""),
        example: "\"10s\"",
        documentation: "How long a browser without scripts waits instead: the page loads again after this \
            time. `\"0s\"` means that browsers without scripts do not pass.",
        kind: Kind::Duration {
            least: Duration::ZERO,
            most: Duration::from_secs(300),
            set: |crawlers, value| crawlers.wait = value,
        },
    },
    Key {
        name: "lifetime",
        default: Some("\"168h\""),
        example: "\"24h\"",
        documentation: "How long a visitor that has passed by work is not checked again.",
        kind: Kind::Duration {
            least: Duration::from_secs(1),
            most: Duration::from_secs(90 * 24 * 3600),
            set: |crawlers, value| crawlers.lifetime = value,
        },
    },
    Key {
        name: "wait_lifetime",
        default: Some("\"24h\""),
        example: "\"1h\"",
        documentation: "How long a visitor that has passed by waiting is not checked again.",
        kind: Kind::Duration {
            least: Duration::from_secs(1),
            most: Duration::from_secs(90 * 24 * 3600),
            set: |crawlers, value| crawlers.wait_lifetime = value,
        },
    },
    Key {
        name: "bind",
        default: Some("[\"user-agent\"]"),
        example: "[\"user-agent\", \"network\"]",
        documentation: "What of a client its pass is bound to, so that others cannot use it: `user-agent`, \
            `accept-language`, and `network`, the /24 or /56 network of its address. A visitor for whom one \
            of them changes is checked again.",
        kind: Kind::CheckedArray {
            what: "array of `user-agent`, `accept-language` and `network`",
            parse: parse_binding,
            set: |crawlers, value| crawlers.bind = value,
        },
    },
    Key {
        name: "key_file",
        default: Some("\"\""),
        example: "\"check.keys\"",
        documentation: "The file with the secrets of passes, one of at least 32 characters on each line. The \
            first secret signs new passes; passes of all of them are accepted. Machines with the same file \
            accept each other's passes. It is read together with the configuration. Empty means a key that \
            this process generates: its passes are valid until the process ends.",
        kind: Kind::File(|crawlers, value| crawlers.key_file = value),
    },
];

fn read_bots(
    reader: &mut Reader<'_>,
    value: &Value<'_>,
    crawlers: &mut CrawlersConfig,
) -> Vec<SectionPlaces> {
    let (bots, places) = reader.tables(&BOT, value).into_iter().unzip();
    crawlers.bots = bots;
    places
}

fn parse_name(text: &str, _: &Path) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    match !text.is_empty() && text.len() <= 64 && text.bytes().all(is_plain) {
        true => Ok(text.to_string()),
        false => {
            Err(format!("{:?} must be 1 to 64 letters, digits, '-', '_' and '.'", values::shorten(text)))
        }
    }
}

fn parse_agent(text: &str, _: &Path) -> Result<String, String> {
    if !text.is_empty() && !text.starts_with("https://") {
        return Err(format!("{:?} must begin with https://", values::shorten(text)));
    }
    Ok(text.to_string())
}

fn parse_user_agent(text: &str) -> Result<String, String> {
    match text.len() >= 3 && text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
        true => Ok(text.to_ascii_lowercase()),
        false => Err(format!("{:?} must have 3 or more plain characters", values::shorten(text))),
    }
}

fn parse_path(text: &str) -> Result<String, String> {
    let plain = text.strip_prefix('*').or_else(|| text.strip_suffix('*')).unwrap_or(text);
    let begins = text.starts_with('/') || text.starts_with('*');
    match begins && !plain.is_empty() && !plain.contains('*') {
        true => Ok(text.to_string()),
        false => Err(format!(
            "{:?} must be a path such as \"/robots.txt\", or have one '*' at its end or beginning, such as \
             \"/feeds/*\" or \"*.xml\"",
            values::shorten(text)
        )),
    }
}

fn parse_binding(text: &str) -> Result<String, String> {
    match BINDINGS.contains(&text) {
        true => Ok(text.to_string()),
        false => Err(format!("{:?} is none of {}", values::shorten(text), BINDINGS.join(", "))),
    }
}

/// Reads the section, and checks its keys together.
pub(super) fn read(
    reader: &mut Reader<'_>,
    value: &Value<'_>,
    target: &mut Option<CrawlersConfig>,
) -> Vec<SectionPlaces> {
    reader.checked_table_into(&CRAWLERS, value, target, CrawlersConfig::problem)
}

/// `crawlers`
pub(super) const fn crawlers<C>(
    read: fn(&mut Reader<'_>, &Value<'_>, &mut C) -> Vec<SectionPlaces>,
) -> Key<C> {
    Key {
        name: "crawlers",
        default: Some(ABSENT),
        example: "{ challenge = \"browsers\" }",
        documentation: "Bots that sign their requests, and a check for other visitors, see \
            `[site.crawlers]`. A route without this key uses the setting of its site.",
        kind: Kind::Table { read },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConfigProblem, parse};

    fn problems(keys: &str) -> Vec<ConfigProblem> {
        let text = format!("[[site]]\nlisten = ['127.0.0.1:0']\nroot = 'www'\n{keys}");
        parse(&text, Path::new("/etc/t/t.toml")).err().unwrap_or_default()
    }

    #[test]
    fn keys_fit_together() {
        for (keys, message) in [
            ("crawlers = { bot = [{ name = 'a' }] }", "needs 'agent'"),
            ("crawlers = { bot = [{ name = 'a', agent = 'http://a.example' }] }", "https://"),
            (
                "crawlers = { bot = [{ name = 'a', agent = 'https://a.example', key_file = 'k' }] }",
                "remove one",
            ),
            (
                "crawlers = { bot = [{ name = 'a', key_file = 'k' }, { name = 'a', key_file = 'l' }] }",
                "two bots have the name",
            ),
            ("crawlers = { bot = [{ name = 'a b', key_file = 'k' }] }", "letters, digits"),
            ("crawlers = { bot = [{ name = 'a', key_file = 'k', user_agents = ['x'] }] }", "3 or more"),
            ("crawlers = { except = ['robots.txt'] }", "must be a path"),
            ("crawlers = { except = ['/a*b*'] }", "must be a path"),
            ("crawlers = { except = ['*'] }", "must be a path"),
            ("crawlers = { bind = ['cookie'] }", "none of user-agent"),
            ("crawlers = { difficulty = 0 }", "difficulty"),
            ("crawlers = { when = '$status == 200' }", "available only when"),
        ] {
            let found = problems(keys);
            assert!(found.iter().any(|problem| problem.to_string().contains(message)), "{keys}: {found:?}");
        }
        assert_eq!(problems("crawlers = { challenge = 'browsers', when = '$arg{page}' }"), []);
    }
}
