//! Reads a key set from a file or URL, and keeps it current on a thread.
//!
//! A file is checked once a second. A URL is fetched at the start, then at every `refresh`, and at once if a
//! token names a key that is not in the set, but then at most every ten seconds: so an issuer may change its
//! keys at any time, and tokens with invented key names cause no load. While the source fails, the last keys
//! stay in use.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;
use touchstone_client::{HttpClient, Settings};
use touchstone_config::TokenKeys;

use super::key_set::{KeySet, LARGEST_KEY_SET_BYTES};

/// Called with a message for the operator, of one line.
type Report = Arc<dyn Fn(&str) + Send + Sync>;

/// The interval at which a file is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The minimum time between two fetches because of unknown keys.
const LEAST_BETWEEN_FETCHES: Duration = Duration::from_secs(10);

/// The maximum time that a request waits for keys.
const WAIT_FOR_KEYS: Duration = Duration::from_secs(5);

/// The wait after a failed fetch; it is doubled each time up to the maximum.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// The keys of a source at one moment.
#[derive(Clone, Default)]
pub struct Keys {
    /// The keys; `None`: none have been read yet.
    pub set: Option<Arc<KeySet>>,
    /// The version of the set: the number rises when the keys change.
    pub generation: u64,
    /// The number of fetches, successful or not.
    fetches: u64,
    /// The time of the last fetch.
    fetched_at: Option<Instant>,
}

/// The location of a key set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Location {
    /// A file.
    File(PathBuf),
    /// An address, and the authorities that are trusted for its server's certificate; `None`: those of the
    /// system.
    Url(String, Option<PathBuf>),
}

impl Location {
    fn name(&self) -> String {
        match self {
            Location::File(path) => path.display().to_string(),
            Location::Url(url, _) => url.clone(),
        }
    }
}

/// A key set that follows its source. Its thread ends with it.
pub struct KeySource {
    keys: watch::Receiver<Keys>,
    /// Requests a fetch.
    fetch_requests: Mutex<Sender<()>>,
    can_be_fetched: bool,
}

impl KeySource {
    /// Reads a file now, so that a problem is reported at once; a URL is fetched by the thread. The error
    /// names the file.
    pub fn open(location: Location, refresh: Duration, report: Report) -> Result<KeySource, String> {
        let (publish, keys) = watch::channel(Keys::default());
        let (fetch_requests, requests) = mpsc::channel();
        let can_be_fetched = matches!(location, Location::Url(..));
        let (name, run): (String, Box<dyn FnOnce() + Send>) = match location {
            Location::File(path) => {
                let read = read_file(&path)?;
                replace(&publish, read.1);
                let name = path.display().to_string();
                (name, Box::new(move || follow_file(&path, read.0, &publish, &requests, &report)))
            }
            url @ Location::Url(..) => {
                let client = client_of(&url)?;
                let name = url.name();
                (name, Box::new(move || follow_url(&url, &client, refresh, &publish, &requests, &report)))
            }
        };
        std::thread::Builder::new()
            .name("token-keys".to_string())
            .spawn(run)
            .map_err(|error| format!("{name}: no thread for it: {error}"))?;
        Ok(KeySource { keys, fetch_requests: Mutex::new(fetch_requests), can_be_fetched })
    }

    /// Checks whether keys can be read here, as far as this is possible without the network.
    pub fn check(keys: &TokenKeys) -> Result<(), String> {
        match keys {
            TokenKeys::File(path) => read_file(path).map(|_| ()),
            TokenKeys::Off | TokenKeys::Url(_) => Ok(()),
        }
    }

    /// The present keys.
    pub fn keys(&self) -> Keys {
        self.keys.borrow().clone()
    }

    /// Requests a fetch and waits for it for a short time. `None`: the keys have not changed, or they were
    /// fetched too recently to fetch them again.
    pub async fn newer_than(&self, known: &Keys) -> Option<Keys> {
        let is_recent = known.fetched_at.is_some_and(|at| at.elapsed() < LEAST_BETWEEN_FETCHES);
        if !self.can_be_fetched || (is_recent && known.set.is_some()) {
            return None;
        }
        _ = self.fetch_requests.lock().unwrap_or_else(PoisonError::into_inner).send(());
        let mut keys = self.keys.clone();
        let fetched = keys.wait_for(|keys| keys.fetches > known.fetches);
        let newer = tokio::time::timeout(WAIT_FOR_KEYS, fetched).await.ok()?.ok()?;
        (newer.generation > known.generation).then(|| newer.clone())
    }
}

/// The client, and an address that it accepts.
fn client_of(location: &Location) -> Result<HttpClient, String> {
    let Location::Url(url, authorities) = location else { return Err("not an address".to_string()) };
    HttpClient::check_url(url).map_err(|problem| format!("{url}: {problem}"))?;
    HttpClient::new(Settings {
        ca_certificate: authorities.as_deref(),
        ca_key: "jwt.ca_certificate",
        user_agent: concat!("touchstone/", env!("CARGO_PKG_VERSION")),
        most_answer_bytes: LARGEST_KEY_SET_BYTES,
    })
}

fn read_file(path: &Path) -> Result<(Option<SystemTime>, KeySet), String> {
    let about = |problem: String| format!("{}: {problem}", path.display());
    let metadata = std::fs::metadata(path).map_err(|error| about(format!("cannot be read: {error}")))?;
    if metadata.len() > LARGEST_KEY_SET_BYTES as u64 {
        return Err(about(format!("has more than {LARGEST_KEY_SET_BYTES} bytes")));
    }
    let text = std::fs::read(path).map_err(|error| about(format!("cannot be read: {error}")))?;
    let set = KeySet::parse(&text).map_err(about)?;
    Ok((metadata.modified().ok(), set))
}

/// Ends when the source is dropped and closes its end of `requests`.
fn follow_file(
    path: &Path,
    mut modified: Option<SystemTime>,
    publish: &watch::Sender<Keys>,
    requests: &mpsc::Receiver<()>,
    report: &Report,
) {
    loop {
        match requests.recv_timeout(CHECK_INTERVAL) {
            Err(RecvTimeoutError::Disconnected) => return,
            Ok(()) | Err(RecvTimeoutError::Timeout) => {}
        }
        let now = std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
        if now == modified {
            continue;
        }
        modified = now;
        match read_file(path) {
            Ok((read, set)) => {
                modified = read;
                replace(publish, set);
            }
            Err(problem) => report(&format!("{problem}; the keys read before stay in use")),
        }
    }
}

fn follow_url(
    location: &Location,
    client: &HttpClient,
    refresh: Duration,
    publish: &watch::Sender<Keys>,
    requests: &mpsc::Receiver<()>,
    report: &Report,
) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        report(&format!("{}: no event loop for it", location.name()));
        return;
    };
    let mut retry = FIRST_RETRY;
    let mut last_text = Vec::new();
    loop {
        let fetched_at = Instant::now();
        let fetched = runtime.block_on(client.get(&location.name()));
        let read = fetched.and_then(|text| Ok((KeySet::parse(&text)?, text)));
        let wait = match read {
            Ok((set, text)) => {
                if text != last_text {
                    replace(publish, set);
                    last_text = text.to_vec();
                }
                retry = FIRST_RETRY;
                refresh
            }
            Err(problem) => {
                report(&format!("{}: {problem}", location.name()));
                let wait = retry;
                retry = (retry * 2).min(LONGEST_RETRY);
                wait
            }
        };
        publish.send_modify(|keys| {
            keys.fetches += 1;
            keys.fetched_at = Some(fetched_at);
        });
        if !wait_for_fetch(fetched_at, wait, requests) {
            return;
        }
    }
}

/// Waits until the next fetch is due, or until one is requested and the last is long enough ago. Returns
/// whether the source is still in use.
fn wait_for_fetch(fetched_at: Instant, wait: Duration, requests: &mpsc::Receiver<()>) -> bool {
    let is_wanted = match requests.recv_timeout(wait) {
        Err(RecvTimeoutError::Disconnected) => return false,
        Err(RecvTimeoutError::Timeout) => false,
        Ok(()) => true,
    };
    if is_wanted {
        std::thread::sleep(LEAST_BETWEEN_FETCHES.min(wait).saturating_sub(fetched_at.elapsed()));
    }
    while let Ok(()) = requests.try_recv() {}
    true
}

fn replace(publish: &watch::Sender<Keys>, set: KeySet) {
    publish.send_modify(|keys| {
        keys.set = Some(Arc::new(set));
        keys.generation += 1;
    });
}
