//! The state that all rules of the process share and that a reload keeps: counts of clients and connections,
//! password files, stored successes, and the clock.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, DefaultHasher, Hash, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::checks::Checks;
use super::client_table::{Client, ClientTable};
use super::connections::ConnectionCounts;
use super::geoip::{GeoFile, GeoIp};
use super::password_file::PasswordFile;
use super::success_cache::SuccessCache;
use super::token_keys::{KeySource, Location};
use touchstone_config::{GeoIpConfig, TokenKeys};

/// The number of clients that are stored for rates, counted once per limit: 2 MiB, allocated when the first
/// limit is used.
const CLIENT_PLACES: usize = 131_072;

/// Called with a message for the operator, of one line; may be called from any thread.
pub type Report = Arc<dyn Fn(&str) + Send + Sync>;

/// The state that all rules of the process share. It is created once, before the first configuration.
pub struct AccessShared {
    /// The state of each client under each limit.
    pub(super) clients: ClientTable,
    /// The open connections of each client.
    pub(super) connections: Arc<ConnectionCounts>,
    /// Passwords that were verified a short time ago.
    pub(super) successes: SuccessCache,
    /// Passwords that are being verified.
    pub(super) checks: Checks,
    pub(super) report: Report,
    files: Mutex<HashMap<PathBuf, Weak<PasswordFile>>>,
    key_sources: Mutex<HashMap<(Location, Duration), Weak<KeySource>>>,
    geoip: Mutex<GeoIpFiles>,
    started: Instant,
    /// Hashes texts to client keys, with a secret, so that clients cannot choose two texts with the same key.
    keys: RandomState,
    /// How far tests have advanced the clock.
    #[cfg(test)]
    ahead_ns: std::sync::atomic::AtomicU64,
    /// When a test has stopped the clock.
    #[cfg(test)]
    stopped_ns: std::sync::OnceLock<u64>,
}

/// The files with locations of addresses.
#[derive(Default)]
struct GeoIpFiles {
    files: HashMap<PathBuf, Weak<GeoFile>>,
    geoip: Option<Arc<GeoIp>>,
    tells_programs: bool,
}

impl AccessShared {
    /// Creates the state of a process; `report` gets the problems of password files.
    pub fn new(report: Report) -> Arc<AccessShared> {
        // A check occupies a processor for some time; the cores need the others.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Arc::new(AccessShared {
            clients: ClientTable::new(CLIENT_PLACES),
            connections: Arc::default(),
            successes: SuccessCache::new(),
            checks: Checks::new(processors.div_ceil(2)),
            report,
            files: Mutex::default(),
            key_sources: Mutex::default(),
            geoip: Mutex::default(),
            started: Instant::now(),
            keys: RandomState::new(),
            #[cfg(test)]
            ahead_ns: Default::default(),
            #[cfg(test)]
            stopped_ns: Default::default(),
        })
    }

    /// The function that reports problems.
    pub fn report(&self) -> Report {
        self.report.clone()
    }

    /// The process's clock: nanoseconds since it started, never 0.
    #[inline]
    pub(super) fn now_ns(&self) -> u64 {
        let elapsed_ns = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        #[cfg(test)]
        let elapsed_ns = self.stopped_ns.get().unwrap_or(&elapsed_ns)
            + self.ahead_ns.load(std::sync::atomic::Ordering::Relaxed);
        elapsed_ns.saturating_add(1)
    }

    /// Advances the clock.
    #[cfg(test)]
    pub(super) fn advance(&self, seconds: u64) {
        self.ahead_ns.fetch_add(seconds * 1_000_000_000, std::sync::atomic::Ordering::Relaxed);
    }

    /// Stops the clock: from now on only [`AccessShared::advance`] advances it.
    #[cfg(test)]
    pub(super) fn stop_clock(&self) {
        self.stopped_ns.get_or_init(|| self.now_ns());
    }

    /// The file with this path, read once for all rules that name it.
    pub(super) fn password_file(&self, path: &Path) -> Result<Arc<PasswordFile>, Vec<String>> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|_, file| file.strong_count() > 0);
        if let Some(file) = files.get(path).and_then(Weak::upgrade) {
            // A new configuration will rely on the file, so its present version must be valid.
            PasswordFile::open(path)?;
            return Ok(file);
        }
        let file = Arc::new(PasswordFile::open(path)?);
        files.insert(path.to_path_buf(), Arc::downgrade(&file));
        Ok(file)
    }

    /// Opens the files with locations of addresses, for the rules that are opened next and for the log.
    pub fn open_geoip(&self, config: &GeoIpConfig) -> Result<(), String> {
        let mut places = self.geoip.lock().unwrap_or_else(PoisonError::into_inner);
        places.files.retain(|_, file| file.strong_count() > 0);
        let mut files = Vec::new();
        for path in &config.files {
            let file = match places.files.get(path).and_then(Weak::upgrade) {
                Some(file) => {
                    // A new configuration will rely on the file, so its present version must be valid.
                    GeoFile::check(path)?;
                    file
                }
                None => GeoFile::open(path, self.report.clone())?,
            };
            places.files.insert(path.clone(), Arc::downgrade(&file));
            files.push(file);
        }
        places.geoip = (!files.is_empty()).then(|| Arc::new(GeoIp::new(files)));
        places.tells_programs = config.request_fields && places.geoip.is_some();
        Ok(())
    }

    /// The locations of addresses, as they were opened last.
    pub fn geoip(&self) -> Option<Arc<GeoIp>> {
        self.geoip.lock().unwrap_or_else(PoisonError::into_inner).geoip.clone()
    }

    /// The same, if programs and origins get the location.
    pub fn geoip_for_programs(&self) -> Option<Arc<GeoIp>> {
        let places = self.geoip.lock().unwrap_or_else(PoisonError::into_inner);
        places.geoip.clone().filter(|_| places.tells_programs)
    }

    /// The keys from this location, read once for all rules that name it.
    pub(super) fn key_source(&self, location: Location, refresh: Duration) -> Result<Arc<KeySource>, String> {
        let mut sources = self.key_sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.retain(|_, source| source.strong_count() > 0);
        let name = (location, refresh);
        if let Some(source) = sources.get(&name).and_then(Weak::upgrade) {
            // A new configuration will rely on the file, so its present version must be valid.
            if let Location::File(path) = &name.0 {
                KeySource::check(&TokenKeys::File(path.clone()))?;
            }
            return Ok(source);
        }
        let source = Arc::new(KeySource::open(name.0.clone(), refresh, self.report.clone())?);
        sources.insert(name, Arc::downgrade(&source));
        Ok(source)
    }

    /// The client key for this text.
    pub(super) fn client_of_key(&self, key: &[u8]) -> Client {
        Client::of_key(self.keys.hash_one(key))
    }

    /// Seconds since 1970.
    pub(super) fn unix_seconds(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(0, |since| since.as_secs())
    }

    /// The id of a limit: equal for equal descriptions, also after a reload.
    pub(super) fn limit_id(&self, description: &impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        description.hash(&mut hasher);
        hasher.finish()
    }
}
