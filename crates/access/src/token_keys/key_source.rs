//! The file or URL of a key set, followed by a thread of its own.
//!
//! A file is looked at once a second. A URL is fetched at the start, then at every `refresh`, and at once
//! when a token names a key that is not in the set, but then at most every ten seconds: so an issuer may
//! change its keys at any time, and tokens with invented key names cause no load. Keys that were read stay in
//! use while the source fails.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;
use touchstone_client::{HttpClient, Settings};
use touchstone_config::TokenKeys;

use super::key_set::{KeySet, LARGEST_KEY_SET_BYTES};

/// Called with one line when the operator should know something.
type Report = Arc<dyn Fn(&str) + Send + Sync>;

/// How often a file is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The shortest time between two fetches for the sake of unknown keys.
const LEAST_BETWEEN_FETCHES: Duration = Duration::from_secs(10);

/// How long a request waits for keys.
const WAIT_FOR_KEYS: Duration = Duration::from_secs(5);

/// The wait after a failed fetch, doubled each time up to the most.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// The keys of a source at one time.
#[derive(Clone, Default)]
pub struct Keys {
    /// The keys; `None`: none were read yet.
    pub set: Option<Arc<KeySet>>,
    /// Which set it is: the number rises when the keys change.
    pub generation: u64,
    /// How often they were fetched, with or without success.
    fetches: u64,
    /// When that was last.
    fetched_at: Option<Instant>,
}

/// Where keys are read from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Location {
    /// A file.
    File(PathBuf),
    /// An address, with the authorities that its server may have its certificate from; `None`: those of the
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
    /// Asks for a fetch.
    wanted: Mutex<Sender<()>>,
    can_be_fetched: bool,
}

impl KeySource {
    /// Reads a file now, so that a fault is told at once; of a URL, the thread fetches the keys. The error
    /// names the file.
    pub fn open(location: Location, refresh: Duration, report: Report) -> Result<KeySource, String> {
        let (publish, keys) = watch::channel(Keys::default());
        let (wanted, requests) = mpsc::channel();
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
        Ok(KeySource { keys, wanted: Mutex::new(wanted), can_be_fetched })
    }

    /// Whether keys can be read here now, as far as this can be told without the network.
    pub fn check(keys: &TokenKeys) -> Result<(), String> {
        match keys {
            TokenKeys::File(path) => read_file(path).map(|_| ()),
            TokenKeys::Off | TokenKeys::Url(_) => Ok(()),
        }
    }

    /// The keys as they are.
    pub fn keys(&self) -> Keys {
        self.keys.borrow().clone()
    }

    /// Has the keys fetched again, and waits for that, but not for long. `None`: they are still these, or
    /// were fetched so short a while ago that they are not fetched again.
    pub async fn newer_than(&self, known: &Keys) -> Option<Keys> {
        let is_recent = known.fetched_at.is_some_and(|at| at.elapsed() < LEAST_BETWEEN_FETCHES);
        if !self.can_be_fetched || (is_recent && known.set.is_some()) {
            return None;
        }
        _ = self.wanted.lock().unwrap_or_else(PoisonError::into_inner).send(());
        let mut keys = self.keys.clone();
        let fetched = keys.wait_for(|keys| keys.fetches > known.fetches);
        let newer = tokio::time::timeout(WAIT_FOR_KEYS, fetched).await.ok()?.ok()?;
        (newer.generation > known.generation).then(|| newer.clone())
    }
}

/// The client, and an address that it can ask.
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

/// Ends when the source is dropped: its end of `requests` is gone then.
fn follow_file(
    path: &Path,
    mut modified: Option<SystemTime>,
    publish: &watch::Sender<Keys>,
    requests: &mpsc::Receiver<()>,
    report: &Report,
) {
    loop {
        match requests.recv_timeout(LOOK_EVERY) {
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
            Err(problem) => report(&format!("{problem}; the keys that were read before stay in use")),
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
        if !wait_for_turn(fetched_at, wait, requests) {
            return;
        }
    }
}

/// Waits until the next fetch is due; earlier if one is wanted and the last is long enough ago. Returns
/// whether the source is still in use.
fn wait_for_turn(fetched_at: Instant, wait: Duration, requests: &mpsc::Receiver<()>) -> bool {
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
