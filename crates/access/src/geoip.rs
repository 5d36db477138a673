//! Finds the country and the autonomous system of an address in files in MaxMind's format.
//!
//! A thread checks each file once a second and reads it again when it has changed. If the new version cannot
//! be read, the old one stays in use and the problem is reported. An address that a file does not contain is
//! unknown; a damaged record counts as unknown too.

use std::fs::Metadata;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use maxminddb::{Reader, path};
use touchstone_config::{GeoEntry, GeoRulesConfig, NetworkSet};
use touchstone_http::request_view::{AddressLocator, is_lost};

/// Called with a message for the operator, of one line.
type Report = Arc<dyn Fn(&str) + Send + Sync>;

/// The largest file that is read.
const LARGEST_FILE_BYTES: u64 = 1 << 30;

/// The interval at which a file is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The facts about an address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Location {
    /// The country, two capital letters (ISO 3166-1).
    pub country: Option<[u8; 2]>,
    /// The number of the autonomous system.
    pub asn: Option<u32>,
}

/// The files of a configuration.
pub struct GeoIp {
    files: Vec<Arc<GeoFile>>,
}

/// A file that is read again when it changes.
pub struct GeoFile {
    path: PathBuf,
    reader: RwLock<Arc<Reader<Vec<u8>>>>,
}

/// What distinguishes one version of a file from the next.
type Version = (u64, u64, u64, i64, i64);

impl GeoIp {
    /// These files, in the order of their use.
    pub fn new(files: Vec<Arc<GeoFile>>) -> GeoIp {
        GeoIp { files }
    }

    /// Finds the facts about an address. The first file with its country sets it; the same holds for the
    /// system.
    pub fn locate(&self, address: IpAddr) -> Location {
        let mut found = Location::default();
        for file in &self.files {
            if found.country.is_some() && found.asn.is_some() {
                break;
            }
            let now = file.locate(address);
            found = Location { country: found.country.or(now.country), asn: found.asn.or(now.asn) };
        }
        found
    }
}

impl AddressLocator for GeoIp {
    fn country(&self, address: IpAddr) -> Option<[u8; 2]> {
        self.locate(address).country
    }

    fn system(&self, address: IpAddr) -> Option<u32> {
        self.locate(address).asn
    }
}

impl GeoFile {
    /// Reads a file and watches it for changes. The error names the file.
    pub fn open(path: &Path, report: Report) -> Result<Arc<GeoFile>, String> {
        let (version, reader) = read(path)?;
        let file = Arc::new(GeoFile { path: path.to_path_buf(), reader: RwLock::new(Arc::new(reader)) });
        let followed = Arc::downgrade(&file);
        std::thread::Builder::new()
            .name("geoip".to_string())
            .spawn(move || follow(&followed, version, &report))
            .map_err(|error| format!("{}: no thread for it: {error}", path.display()))?;
        Ok(file)
    }

    /// Checks whether a file can be read. The error names it.
    pub fn check(path: &Path) -> Result<(), String> {
        read(path).map(|_| ())
    }

    fn locate(&self, address: IpAddr) -> Location {
        let reader = self.reader.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Ok(found) = reader.lookup(address.to_canonical()) else { return Location::default() };
        let code = |text: Option<&str>| {
            let code: [u8; 2] = text?.as_bytes().try_into().ok()?;
            code.iter().all(u8::is_ascii_alphanumeric).then(|| code.map(|byte| byte.to_ascii_uppercase()))
        };
        let country = found.decode_path::<&str>(&path!["country", "iso_code"]).ok().flatten();
        // If the country where the address is used is unknown, the country of registration is used.
        let registered =
            || found.decode_path::<&str>(&path!["registered_country", "iso_code"]).ok().flatten();
        Location {
            country: code(country).or_else(|| code(registered())),
            asn: found.decode_path(&path!["autonomous_system_number"]).ok().flatten(),
        }
    }
}

fn read(path: &Path) -> Result<(Option<Version>, Reader<Vec<u8>>), String> {
    let about = |problem: String| format!("{}: {problem}", path.display());
    let metadata = std::fs::metadata(path).map_err(|error| about(format!("cannot be read: {error}")))?;
    if metadata.len() > LARGEST_FILE_BYTES {
        return Err(about(format!("has more than {LARGEST_FILE_BYTES} bytes")));
    }
    let bytes = std::fs::read(path).map_err(|error| about(format!("cannot be read: {error}")))?;
    let reader = Reader::from_source(bytes)
        .map_err(|error| about(format!("is not a file in MaxMind's format (.mmdb): {error}")))?;
    Ok((Some(version(&metadata)), reader))
}

fn version(metadata: &Metadata) -> Version {
    (metadata.dev(), metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

/// Reads the file again whenever it has changed, until it is no longer used.
fn follow(file: &Weak<GeoFile>, mut seen: Option<Version>, report: &Report) {
    loop {
        std::thread::sleep(CHECK_INTERVAL);
        let Some(file) = file.upgrade() else { return };
        let now = std::fs::metadata(&file.path).ok().map(|metadata| version(&metadata));
        if now == seen {
            continue;
        }
        match read(&file.path) {
            Ok((version, reader)) => {
                *file.reader.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(reader);
                seen = version;
            }
            Err(problem) => {
                report(&format!("{problem}; the version read before stays in use"));
                seen = now;
            }
        }
    }
}

/// The countries and systems that a site or route admits.
pub struct GeoRules {
    geoip: Arc<GeoIp>,
    allow: Vec<GeoEntry>,
    deny: Vec<GeoEntry>,
    /// Addresses in the `allow` list of the site or route: they are admitted from any country.
    exempt: NetworkSet,
}

impl GeoRules {
    /// The rules of a site or route; `None` if both lists are empty.
    pub fn new(config: &GeoRulesConfig, exempt: NetworkSet, geoip: &Arc<GeoIp>) -> Option<GeoRules> {
        let (allow, deny) = (config.entries_allowed(), config.entries_denied());
        let is_empty = allow.is_empty() && deny.is_empty();
        (!is_empty).then(|| GeoRules { geoip: geoip.clone(), allow, deny, exempt })
    }

    /// Whether a client is admitted.
    pub fn allows(&self, client: Option<IpAddr>) -> bool {
        let Some(client) = client.filter(|client| !is_lost(*client)) else { return false };
        self.exempt.contains(client) || decide(&self.allow, &self.deny, self.geoip.locate(client))
    }
}

/// The system takes precedence over the country, because it is more specific. An address in neither list is
/// admitted if no list is an allow list.
fn decide(allow: &[GeoEntry], deny: &[GeoEntry], location: Location) -> bool {
    let system = location.asn.map(GeoEntry::System);
    let country = location.country.map(GeoEntry::Country);
    for entry in system.into_iter().chain(country) {
        if deny.contains(&entry) {
            return false;
        }
        if allow.contains(&entry) {
            return true;
        }
    }
    allow.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn location(country: &str, asn: u32) -> Location {
        Location { country: country.as_bytes().try_into().ok(), asn: Some(asn).filter(|asn| *asn != 0) }
    }

    #[test]
    fn systems_decide_before_countries() {
        let entries =
            |texts: &[&str]| texts.iter().map(|text| GeoEntry::parse(text).unwrap()).collect::<Vec<_>>();
        let allows = |allow: &[&str], deny: &[&str], country: &str, asn| {
            decide(&entries(allow), &entries(deny), location(country, asn))
        };
        assert!(allows(&["DE"], &[], "DE", 0) && !allows(&["DE"], &[], "FR", 0));
        assert!(!allows(&["DE"], &[], "", 0), "an unknown country is not on the list");
        assert!(allows(&[], &["DE"], "", 0) && !allows(&[], &["DE"], "DE", 1));
        assert!(allows(&["AS1"], &["DE"], "DE", 1) && !allows(&["AS1"], &["DE"], "DE", 2));
        assert!(!allows(&["DE"], &["AS1"], "DE", 1) && allows(&["DE"], &["AS1"], "DE", 2));
        assert!(!allows(&["AS1"], &["DE"], "FR", 2));
    }

    #[test]
    fn what_is_no_such_file_is_refused_with_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.mmdb");
        assert!(GeoFile::check(&path).unwrap_err().contains("a.mmdb: cannot be read"));
        std::fs::write(&path, "nonsense").unwrap();
        assert!(GeoFile::check(&path).unwrap_err().contains("is not a file in MaxMind's format"));
    }

    /// Metadata in MaxMind's format after other bytes, so that readers parse these.
    fn with_metadata(mut bytes: Vec<u8>, nodes: u16) -> Vec<u8> {
        bytes.extend_from_slice(b"\xab\xcd\xefMaxMind.com\xe9");
        let text = |bytes: &mut Vec<u8>, text: &str| {
            bytes.push(0x40 | u8::try_from(text.len()).unwrap());
            bytes.extend_from_slice(text.as_bytes());
        };
        for (name, value) in [
            ("node_count", &[0xc2, (nodes >> 8) as u8, nodes as u8][..]),
            ("record_size", &[0xa1, 24]),
            ("ip_version", &[0xa1, 4]),
            ("binary_format_major_version", &[0xa1, 2]),
            ("binary_format_minor_version", &[0xa1, 0]),
            ("build_epoch", &[0x01, 0x02, 1]),
            ("database_type", &[0x41, b'a']),
            ("languages", &[0x00, 0x04]),
            ("description", &[0xe0]),
        ] {
            match name.len() {
                0..=28 => text(&mut bytes, name),
                length => {
                    bytes.extend_from_slice(&[0x5d, u8::try_from(length - 29).unwrap()]);
                    bytes.extend_from_slice(name.as_bytes());
                }
            }
            bytes.extend_from_slice(value);
        }
        bytes
    }

    proptest! {
        #[test]
        fn damaged_files_say_nothing_and_break_nothing(
            bytes in prop::collection::vec(any::<u8>(), 0..400),
            nodes in 0u16..40,
            addresses in prop::collection::vec(any::<u32>(), 1..8),
        ) {
            if let Ok(reader) = Reader::from_source(with_metadata(bytes, nodes)) {
                let file = GeoFile { path: PathBuf::new(), reader: RwLock::new(Arc::new(reader)) };
                for address in addresses {
                    let found = file.locate(IpAddr::from(address.to_be_bytes()));
                    let is_code = |code: [u8; 2]| code.iter().all(u8::is_ascii_alphanumeric);
                    prop_assert!(found.country.is_none_or(is_code));
                }
            }
        }
    }
}
