//! The directories of bots: fetched on a thread when a request needs one, and stored as long as they are
//! fresh.
//!
//! Fetches are restricted: the server's certificate must be valid, redirects are not followed, only addresses
//! of the public internet are connected to unless a key allows others, and time, size and number are limited.
//! A failed fetch keeps the keys that were fetched before, and is not repeated at once.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::Empty;
use tokio::sync::{Semaphore, mpsc, watch};
use touchstone_access::Report;
use touchstone_client::{HttpClient, Settings};

use super::agent::Agent;
use super::directory::{Directory, LARGEST_BYTES, MEDIA_TYPE};

/// The most directories of bots that the configuration does not name.
const MOST_OTHERS: usize = 256;

/// The most fetches that wait, and the most at a time.
const MOST_WAITING: usize = 64;
const MOST_AT_A_TIME: usize = 4;

/// How long a fetch may take, and how long a request waits for it.
const LONGEST_FETCH: Duration = Duration::from_secs(10);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The time between two fetches of one directory because of a key that it does not have.
const LEAST_BETWEEN: Duration = Duration::from_secs(10);

/// How long a directory without freshness information is fresh, and the limits of this information.
const USUAL_LIFETIME: Duration = Duration::from_secs(3600);
const SHORTEST_LIFETIME: Duration = Duration::from_secs(60);
const LONGEST_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// How long a directory is used after that while it cannot be fetched.
const LONGEST_STALE: Duration = Duration::from_secs(24 * 3600);

/// The wait after a failed fetch; it is doubled each time up to the maximum.
const FIRST_RETRY: Duration = Duration::from_secs(5);
const LONGEST_RETRY: Duration = Duration::from_secs(300);

/// What makes the fetching of two rules the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FetchSettings {
    /// The authorities that certificates may be from; `None`: those of the system.
    pub ca_certificate: Option<PathBuf>,
    /// Servers in private networks may be queried.
    pub allows_private: bool,
}

/// The directories. Their thread ends with them.
pub struct Directories {
    known: Mutex<HashMap<String, Arc<Entry>>>,
    jobs: mpsc::Sender<Arc<Entry>>,
}

struct Entry {
    agent: Agent,
    /// The configuration names it, so that its problems are for the operator.
    is_configured: AtomicBool,
    state: watch::Sender<State>,
    /// A fetch waits or runs.
    is_requested: AtomicBool,
}

#[derive(Clone, Default)]
struct State {
    directory: Option<Arc<Directory>>,
    fresh_until: Option<Instant>,
    /// It is not fetched before this time.
    not_before: Option<Instant>,
    failures: u32,
    attempts: u64,
}

impl State {
    /// The directory, if it has the key and may still be used.
    fn with_key(&self, thumbprint: &str, now: Instant) -> Option<Arc<Directory>> {
        let until = self.fresh_until? + LONGEST_STALE;
        let directory = self.directory.as_ref().filter(|_| now < until)?;
        directory.key(thumbprint).map(|_| directory.clone())
    }
}

impl Directories {
    /// Those that are fetched with these settings. The error names what is wrong.
    pub fn start(settings: &FetchSettings, report: Report) -> Result<Directories, String> {
        let client = HttpClient::new(Settings {
            ca_certificate: settings.ca_certificate.as_deref(),
            ca_key: "crawlers.ca_certificate",
            user_agent: concat!("touchstone/", env!("CARGO_PKG_VERSION")),
            most_answer_bytes: LARGEST_BYTES,
        })?;
        let client = if settings.allows_private { client } else { client.for_public_addresses() };
        let (jobs, wanted) = mpsc::channel(MOST_WAITING);
        let run = move || match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                let tasks = tokio::task::LocalSet::new();
                runtime.block_on(tasks.run_until(work(client, wanted, report)));
            }
            Err(_) => report("no event loop for the directories of bots"),
        };
        std::thread::Builder::new()
            .name("bot-directories".to_string())
            .spawn(run)
            .map_err(|error| format!("no thread for the directories of bots: {error}"))?;
        Ok(Directories { known: Mutex::default(), jobs })
    }

    /// Begins to fetch the directory of a bot that the configuration names.
    pub fn prepare(&self, agent: &Agent) {
        if let Some(entry) = self.entry(agent, true) {
            self.request_fetch(&entry);
        }
    }

    /// The directory of an agent with a key in it. Waits for a short time if it must be fetched. The error
    /// describes why there is none.
    pub async fn with_key(&self, agent: &Agent, thumbprint: &str) -> Result<Arc<Directory>, &'static str> {
        let entry = self.entry(agent, false).ok_or("there are too many directories")?;
        let mut changes = entry.state.subscribe();
        let known = changes.borrow_and_update().clone();
        let now = Instant::now();
        if let Some(directory) = known.with_key(thumbprint, now) {
            if known.fresh_until.is_none_or(|until| until <= now) {
                self.request_fetch(&entry);
            }
            return Ok(directory);
        }
        let unknown = match known.directory {
            Some(_) => "the directory has no such key",
            None => "the directory cannot be fetched",
        };
        if !self.request_fetch(&entry) {
            return Err(unknown);
        }
        let fetched = changes.wait_for(|state| state.attempts > known.attempts);
        match tokio::time::timeout(LONGEST_WAIT, fetched).await {
            Ok(Ok(state)) => state.with_key(thumbprint, Instant::now()).ok_or(unknown),
            _ => Err("the directory is late"),
        }
    }

    fn entry(&self, agent: &Agent, is_configured: bool) -> Option<Arc<Entry>> {
        let mut known = self.lock();
        if let Some(entry) = known.get(&agent.address) {
            entry.is_configured.fetch_or(is_configured, Ordering::Relaxed);
            return Some(entry.clone());
        }
        if known.len() >= MOST_OTHERS && !is_configured {
            // Those without keys are removed first.
            known.retain(|_, entry| {
                entry.is_configured.load(Ordering::Relaxed) || entry.state.borrow().directory.is_some()
            });
            if known.len() >= MOST_OTHERS {
                return None;
            }
        }
        let entry = Arc::new(Entry {
            agent: agent.clone(),
            is_configured: AtomicBool::new(is_configured),
            state: watch::Sender::new(State::default()),
            is_requested: AtomicBool::new(false),
        });
        known.insert(agent.address.clone(), entry.clone());
        Some(entry)
    }

    /// Has a directory fetched; returns whether a fetch waits or runs now.
    fn request_fetch(&self, entry: &Arc<Entry>) -> bool {
        if entry.state.borrow().not_before.is_some_and(|time| Instant::now() < time) {
            return false;
        }
        if entry.is_requested.swap(true, Ordering::AcqRel) {
            return true;
        }
        let is_requested = self.jobs.try_send(entry.clone()).is_ok();
        if !is_requested {
            entry.is_requested.store(false, Ordering::Release);
        }
        is_requested
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Entry>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Fetches the requested directories, until all senders of requests are dropped.
async fn work(client: HttpClient, mut wanted: mpsc::Receiver<Arc<Entry>>, report: Report) {
    let turns = Arc::new(Semaphore::new(MOST_AT_A_TIME));
    while let Some(entry) = wanted.recv().await {
        let Ok(turn) = turns.clone().acquire_owned().await else { return };
        let (client, report) = (client.clone(), report.clone());
        tokio::task::spawn_local(async move {
            let fetched = tokio::time::timeout(LONGEST_FETCH, fetch(&client, &entry.agent)).await;
            let failure = Failure { reason: format!("no answer in {LONGEST_FETCH:?}"), retry: None };
            note(&entry, fetched.unwrap_or(Err(failure)), &report);
            drop(turn);
        });
    }
}

/// A directory with the time for which it is fresh.
type FetchedDirectory = (Directory, Duration);

struct Failure {
    reason: String,
    /// The server states when it may be queried again.
    retry: Option<Duration>,
}

async fn fetch(client: &HttpClient, agent: &Agent) -> Result<FetchedDirectory, Failure> {
    let failed = |reason: String| Failure { reason, retry: None };
    let accept = if agent.is_directory { MEDIA_TYPE } else { "application/jwk-set+json, application/json" };
    let request = Request::get(&agent.address).header(ACCEPT, accept).body(Empty::<Bytes>::new());
    let request = request.map_err(|error| failed(error.to_string()))?;
    let answer = client.send(request).await.map_err(|error| failed(error.0))?;
    if answer.status() != StatusCode::OK {
        let reason = format!("{}: answered {}", agent.address, answer.status());
        return Err(Failure { reason, retry: retry_after(answer.headers()) });
    }
    let has_type = |wanted: &str| {
        let value = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let media_type = value.unwrap_or_default().split(';').next().unwrap_or_default();
        media_type.trim().eq_ignore_ascii_case(wanted)
    };
    if agent.is_directory && !has_type(MEDIA_TYPE) {
        return Err(failed(format!("{}: its Content-Type is not {MEDIA_TYPE}", agent.address)));
    }
    let directory = Directory::parse(answer.body());
    let directory = directory.map_err(|problem| failed(format!("{}: {problem}", agent.address)))?;
    Ok((directory, lifetime(answer.headers())))
}

fn retry_after(fields: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = fields.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_RETRY))
}

/// How long an answer is fresh by `Cache-Control` (RFC 9111 section 5.2.2), within limits.
fn lifetime(fields: &HeaderMap) -> Duration {
    let mut lifetime = None;
    for line in fields.get_all(CACHE_CONTROL) {
        for part in line.to_str().unwrap_or_default().split(',') {
            let (name, value) = part.trim().split_once('=').unwrap_or((part.trim(), ""));
            if ["no-store", "no-cache"].iter().any(|other| name.eq_ignore_ascii_case(other)) {
                return SHORTEST_LIFETIME;
            }
            if name.eq_ignore_ascii_case("max-age") && lifetime.is_none() {
                lifetime = value.trim_matches('"').parse().ok().map(Duration::from_secs);
            }
        }
    }
    lifetime.unwrap_or(USUAL_LIFETIME).clamp(SHORTEST_LIFETIME, LONGEST_LIFETIME)
}

fn note(entry: &Entry, fetched: Result<FetchedDirectory, Failure>, report: &Report) {
    let now = Instant::now();
    entry.is_requested.store(false, Ordering::Release);
    entry.state.send_modify(|state| {
        state.attempts += 1;
        match fetched {
            Ok((directory, lifetime)) => {
                state.directory = Some(Arc::new(directory));
                state.fresh_until = Some(now + lifetime);
                state.not_before = Some(now + LEAST_BETWEEN);
                state.failures = 0;
            }
            Err(failure) => {
                let backed_off = FIRST_RETRY * 2u32.pow(state.failures.min(10));
                let wait = failure.retry.unwrap_or_default().max(backed_off).min(LONGEST_RETRY);
                state.not_before = Some(now + wait);
                state.failures = state.failures.saturating_add(1);
                if entry.is_configured.load(Ordering::Relaxed) {
                    report(&format!("crawlers: {}", failure.reason));
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(lines: &[&'static str]) -> HeaderMap {
        lines.iter().map(|line| (CACHE_CONTROL, line.parse().unwrap())).collect()
    }

    #[test]
    fn directories_are_kept_as_long_as_they_say_within_limits() {
        for (lines, seconds) in [
            (&[][..], 3600),
            (&["max-age=86400"], 86_400),
            (&["public, Max-Age=\"600\""], 600),
            (&["max-age=1"], 60),
            (&["max-age=99999999"], 86_400),
            (&["max-age=x"], 3600),
            (&["max-age=600", "no-store"], 60),
        ] {
            assert_eq!(lifetime(&fields(lines)).as_secs(), seconds, "{lines:?}");
        }
    }

    #[test]
    fn a_failed_fetch_keeps_the_keys_and_is_not_repeated_at_once() {
        let key =
            r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
        let print = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k";
        let entry = Entry {
            agent: Agent::of_address("https://bot.example").unwrap(),
            is_configured: AtomicBool::new(true),
            state: watch::Sender::new(State::default()),
            is_requested: AtomicBool::new(true),
        };
        let lines = Arc::new(Mutex::new(Vec::new()));
        let reported = lines.clone();
        let report: Report = Arc::new(move |line: &str| reported.lock().unwrap().push(line.to_string()));
        let directory = || Directory::parse(key.as_bytes()).unwrap();
        note(&entry, Ok((directory(), Duration::from_secs(60))), &report);
        let failure = || Failure { reason: "down".to_string(), retry: None };
        for wait in [5, 10, 20, 40, 80, 160, 300, 300] {
            note(&entry, Err(failure()), &report);
            let state = entry.state.borrow();
            let left = state.not_before.unwrap() - Instant::now();
            assert_eq!((left + Duration::from_millis(500)).as_secs(), wait);
            assert!(state.with_key(print, Instant::now()).is_some());
            assert!(state.with_key(print, Instant::now() + LONGEST_STALE * 2).is_none());
        }
        assert_eq!(lines.lock().unwrap().len(), 8);
        // A key that was removed from a fetched directory is not used any more.
        let empty = Directory::parse(br#"{"keys":[]}"#).unwrap();
        note(&entry, Ok((empty, Duration::from_secs(60))), &report);
        assert!(entry.state.borrow().with_key(print, Instant::now()).is_none());
        assert!(!entry.is_requested.load(Ordering::Relaxed));
    }
}
