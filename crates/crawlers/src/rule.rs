//! The rules of a site or route on bots and other visitors: from a request to a decision.
//!
//! ```text
//! signed by a bot -> verified -> allowed, limited or denied
//! names a bot that signs, but is not signed by it -> refused
//! must be checked -> has a pass -> admitted, else a page with a task
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use touchstone_access::Report;
use touchstone_config::{BotConfig, ChallengedClients, CrawlersConfig};
use touchstone_expression::Condition;
use touchstone_expression::network::NetworkSet;
use touchstone_handler::answer::Answer;
use touchstone_handler::crawler_counts::{self, Counts, Result as Counted};
use touchstone_handler::request::{BotFacts, Request};
use touchstone_handler::service_counts::ServiceCounts;
use touchstone_http::addresses::is_this_machine;
use touchstone_http::request_view::RequestView;

use crate::bots::agent::Agent;
use crate::bots::directories::{Directories, FetchSettings};
use crate::bots::directory::{Directory, LARGEST_BYTES};
use crate::bots::verification::{BotKeys, NamedBot, Outcome, SignatureContext, VerifiedBot, Verifier};
use crate::check::binding::Properties;
use crate::check::token::TextKeys;
use crate::pace::Pace;
use crate::request_message::{as_message, target_parts};
use crate::shared::CrawlersShared;

/// The rules of a site or route.
pub struct Crawlers {
    verifier: Verifier,
    /// What each bot of the verifier may do, in the same order.
    bots: Vec<BotRule>,
    refuses_invalid: bool,
    challenged: ChallengedClients,
    when: Option<Condition>,
    except: Vec<PathPattern>,
    exempt: NetworkSet,
    pub(crate) task: TaskSettings,
    pub(crate) counts: Arc<Counts>,
    report: Report,
    /// A bot that cannot be verified was logged.
    has_reported: AtomicBool,
}

struct BotRule {
    user_agents: Vec<String>,
    is_allowed: bool,
    pace: Option<Pace>,
    counts: Arc<Counts>,
}

/// The check for visitors, and its passes.
pub(crate) struct TaskSettings {
    pub keys: Arc<TextKeys>,
    /// The name of the cookie of a pass, without its prefix.
    pub cookie: String,
    pub difficulty: u8,
    pub wait_s: u16,
    pub lifetime_s: u64,
    pub wait_lifetime_s: u64,
    pub bound_to: Properties,
}

/// A path, or the beginning or the end of paths.
#[derive(Debug, PartialEq, Eq)]
enum PathPattern {
    Whole(String),
    Begin(String),
    End(String),
}

/// What becomes of a request.
pub enum Decision {
    /// It is answered as without rules.
    Pass(Option<BotFacts>),
    /// It gets this answer.
    Refuse(Box<Answer>, Option<BotFacts>),
}

impl PathPattern {
    fn read(text: &str) -> PathPattern {
        match (text.strip_prefix('*'), text.strip_suffix('*')) {
            (Some(end), _) => PathPattern::End(end.to_string()),
            (None, Some(begin)) => PathPattern::Begin(begin.to_string()),
            (None, None) => PathPattern::Whole(text.to_string()),
        }
    }

    fn matches(&self, path: &[u8]) -> bool {
        match self {
            PathPattern::Whole(whole) => path == whole.as_bytes(),
            PathPattern::Begin(begin) => path.starts_with(begin.as_bytes()),
            PathPattern::End(end) => path.ends_with(end.as_bytes()),
        }
    }
}

/// The seconds of Unix time.
pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

impl Crawlers {
    /// The rules that the keys of a site or route make; `None`: none. The error names the key.
    pub fn open(
        config: &CrawlersConfig,
        site: &str,
        report: Report,
        shared: &CrawlersShared,
        counts: &ServiceCounts,
    ) -> Result<Option<Arc<Crawlers>>, String> {
        if !config.is_on {
            return Ok(None);
        }
        let (keys, sources) = files_of(config)?;
        let settings = FetchSettings {
            ca_certificate: config.ca_certificate.clone(),
            allows_private: config.private_networks,
        };
        let start = |settings: &FetchSettings| Directories::start(settings, report.clone());
        let directories = shared.directories.of_or(settings, start);
        let directories = directories.map_err(|problem| format!("'crawlers': {problem}"))?;
        let counts =
            |bot: &str| counts.crawlers.of(crawler_counts::Name { site: site.into(), bot: bot.into() });
        let mut known = Vec::new();
        for (bot, keys) in config.bots.iter().zip(sources) {
            if let BotKeys::Agent(agent) = &keys {
                directories.prepare(agent);
            }
            known.push(NamedBot { name: bot.name.as_str().into(), keys });
        }
        let rule = |bot: &BotConfig| BotRule {
            user_agents: bot.user_agents.clone(),
            is_allowed: bot.is_allowed,
            pace: Pace::new(bot.requests, bot.per),
            counts: counts(&bot.name),
        };
        Ok(Some(Arc::new(Crawlers {
            verifier: Verifier {
                bots: known,
                directories,
                nonces: shared.nonces.clone(),
                longest_s: config.signature_lifetime.as_secs(),
                needs_nonce: config.needs_nonce,
                accepts_others: config.other_bots,
            },
            bots: config.bots.iter().map(rule).collect(),
            refuses_invalid: config.refuses_invalid,
            challenged: config.challenge,
            when: config.when.clone(),
            except: config.except.iter().map(|text| PathPattern::read(text)).collect(),
            exempt: NetworkSet::new(&config.exempt),
            task: TaskSettings::of(config, keys.map_or_else(|| shared.keys(), Arc::new)),
            counts: counts("-"),
            report,
            has_reported: AtomicBool::new(false),
        })))
    }

    /// What is wrong with the files that the keys name: the key and a message.
    pub fn problem(config: &CrawlersConfig) -> Option<String> {
        if config.is_on { files_of(config).err() } else { None }
    }

    /// Decides about a request of a client. `view` is the same request in the form for rules.
    pub async fn check(&self, request: &Request, view: &RequestView<'_>) -> Decision {
        // An included part was requested with its page.
        if request.depth > 0 || has_passed(request) {
            return Decision::Pass(request.bot.clone());
        }
        let (bot, facts) = match self.bot_of(request).await {
            Ok(found) => found,
            Err(decision) => return decision,
        };
        if let Some(bot) = bot {
            return self.decide_about_bot(&bot, facts);
        }
        if let Some(imitated) = self.imitated(request) {
            imitated.counts.add(Counted::Imitated);
            return Decision::Refuse(Box::new(refused(403)), facts);
        }
        if !self.is_challenged(request, view) {
            return Decision::Pass(facts);
        }
        if self.task.has_pass(request, now_s()) {
            self.counts.add(Counted::Admitted);
            return Decision::Pass(facts);
        }
        self.counts.add(Counted::Challenged);
        Decision::Refuse(Box::new(self.task.challenge(request)), facts)
    }

    /// The verified bot of a request, and the result for its signature. The error is the decision about a
    /// wrong one.
    async fn bot_of(&self, request: &Request) -> Result<(Option<VerifiedBot>, Option<BotFacts>), Decision> {
        if let Some(facts) = &request.bot {
            // Other rules have verified it for this request; its nonce is used.
            let known = self.verifier.bots.iter().position(|bot| bot.name == facts.name);
            let bot = (!facts.name.is_empty()).then(|| VerifiedBot { known, name: facts.name.clone() });
            return Ok((bot, Some(facts.clone())));
        }
        if request.received.values("signature-input").next().is_none() {
            return Ok((None, None));
        }
        let is_https = request.is_https();
        let host = request.host.as_deref().unwrap_or_default();
        let is_private = is_https || std::str::from_utf8(host).is_ok_and(is_this_machine);
        let fields: Vec<(&[u8], &[u8])> = request.received.fields().collect();
        let parts = target_parts(request);
        let message = as_message(request, &parts, &fields);
        let outcome = self.verifier.verify(&message, SignatureContext { now_s: now_s(), is_private }).await;
        let facts = |name: Arc<str>, state| Some(BotFacts { name, state });
        let (counted, status, reason) = match outcome {
            Outcome::Unsigned => return Ok((None, None)),
            Outcome::Verified(bot) => {
                let facts = facts(bot.name.clone(), "verified");
                return Ok((Some(bot), facts));
            }
            Outcome::Unverified(reason) => {
                self.counts.add(Counted::Unverified);
                self.report_once(reason);
                return Ok((None, facts("".into(), "unverified")));
            }
            Outcome::Invalid(reason) => (Counted::Invalid, 403, reason),
            Outcome::Malformed(reason) => (Counted::Invalid, 400, reason),
        };
        self.counts.add(counted);
        self.report_once(reason);
        let facts = facts("".into(), "invalid");
        match self.refuses_invalid {
            true => Err(Decision::Refuse(Box::new(refused(status)), facts)),
            false => Ok((None, facts)),
        }
    }

    /// Logs the first signature that was not accepted; metrics count the others.
    fn report_once(&self, reason: &str) {
        if !self.has_reported.swap(true, Ordering::Relaxed) {
            (self.report)(&format!(
                "crawlers: the signature of a bot is not accepted: {reason}; further ones are counted in the \
                 metric touchstone_crawlers_requests only"
            ));
        }
    }

    fn decide_about_bot(&self, bot: &VerifiedBot, facts: Option<BotFacts>) -> Decision {
        let Some(rule) = bot.known.and_then(|known| self.bots.get(known)) else {
            // It was verified for a rule with this bot, or all bots are verified.
            self.counts.add(Counted::Verified);
            return Decision::Pass(facts);
        };
        if !rule.is_allowed {
            rule.counts.add(Counted::Denied);
            return Decision::Refuse(Box::new(refused(403)), facts);
        }
        if let Some(Err(wait)) = rule.pace.as_ref().map(Pace::count) {
            rule.counts.add(Counted::Limited);
            return Decision::Refuse(Box::new(too_many(wait)), facts);
        }
        rule.counts.add(Counted::Verified);
        Decision::Pass(facts)
    }

    /// The bot whose name a request has in `User-Agent`.
    fn imitated(&self, request: &Request) -> Option<&BotRule> {
        let mut named = self.bots.iter().filter(|bot| !bot.user_agents.is_empty()).peekable();
        named.peek()?;
        let user_agent = request.received.values("user-agent").next()?.to_ascii_lowercase();
        let has = |part: &String| memchr::memmem::find(&user_agent, part.as_bytes()).is_some();
        named.find(|bot| bot.user_agents.iter().any(has))
    }

    fn is_challenged(&self, request: &Request, view: &RequestView<'_>) -> bool {
        let is_meant = match self.challenged {
            ChallengedClients::Off => return false,
            ChallengedClients::All => true,
            ChallengedClients::Browsers => {
                let mut names = request.received.values("user-agent");
                names.any(|name| memchr::memmem::find(name, b"Mozilla").is_some())
            }
        };
        // Browsers send preflight requests for scripts of other sites without cookies.
        let is_preflight = view.method == b"OPTIONS"
            && request.received.values("access-control-request-method").next().is_some();
        is_meant
            && !is_preflight
            && !self.except.iter().any(|pattern| pattern.matches(view.path))
            && !view.client.is_some_and(|client| self.exempt.contains(client))
            && self.when.as_ref().is_none_or(|condition| condition.holds(view))
    }
}

impl TaskSettings {
    fn of(config: &CrawlersConfig, keys: Arc<TextKeys>) -> TaskSettings {
        let wait_s = u16::try_from(config.wait.as_secs()).unwrap_or(u16::MAX);
        // Rules with the same requirements share passes.
        let all = format!("{}|{wait_s}|{}", config.difficulty, config.bind.join(","));
        let name = URL_SAFE_NO_PAD.encode(&digest(&SHA256, all.as_bytes()).as_ref()[..6]);
        TaskSettings {
            keys,
            cookie: name,
            difficulty: config.difficulty,
            wait_s,
            lifetime_s: config.lifetime.as_secs(),
            wait_lifetime_s: config.wait_lifetime.as_secs(),
            bound_to: Properties::named(&config.bind),
        }
    }
}

/// The mark of a request that has passed all rules and has no signature of a bot. A handler may route the
/// request again, when its cookies have been removed; with the mark no pass is required then.
pub fn passed_before() -> BotFacts {
    BotFacts { name: "".into(), state: "" }
}

fn has_passed(request: &Request) -> bool {
    request.bot.as_ref().is_some_and(|facts| facts.state.is_empty())
}

pub(crate) fn refused(status: u16) -> Answer {
    Answer::error(status).field("Cache-Control", "no-store")
}

fn too_many(wait: Duration) -> Answer {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    refused(429).field("Retry-After", &seconds.max(1).to_string())
}

/// Reads the files that the keys name. The error names the key.
fn files_of(config: &CrawlersConfig) -> Result<(Option<TextKeys>, Vec<BotKeys>), String> {
    let keys = match &config.key_file {
        Some(path) => Some(TextKeys::open_file(path).map_err(|problem| format!("'crawlers': {problem}"))?),
        None => None,
    };
    let source = |bot: &BotConfig| match &bot.key_file {
        None => Agent::of_address(&bot.agent)
            .map(BotKeys::Agent)
            .map_err(|problem| format!("'crawlers': 'agent' of the bot {:?} {problem}", bot.name)),
        Some(path) => {
            let about = |problem: String| {
                format!("'crawlers': 'key_file' of the bot {:?}: {} {problem}", bot.name, path.display())
            };
            let length = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
            if length > LARGEST_BYTES as u64 {
                return Err(about(format!("has more than {LARGEST_BYTES} bytes")));
            }
            let text = std::fs::read(path).map_err(|error| about(format!("cannot be read: {error}")))?;
            Directory::parse(&text).map(|directory| BotKeys::File(Arc::new(directory))).map_err(about)
        }
    };
    Ok((keys, config.bots.iter().map(source).collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_paths_beginnings_and_ends() {
        for (pattern, path, matches) in [
            ("/robots.txt", "/robots.txt", true),
            ("/robots.txt", "/robots.txt/", false),
            ("/.well-known/*", "/.well-known/a/b", true),
            ("/.well-known/*", "/.well-known", false),
            ("*.xml", "/feeds/all.xml", true),
            ("*.xml", "/feeds/all.xml/x", false),
        ] {
            assert_eq!(PathPattern::read(pattern).matches(path.as_bytes()), matches, "{pattern} {path}");
        }
    }
}
