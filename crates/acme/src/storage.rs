//! The storage of accounts and certificates.
//!
//! ```text
//! STORAGE/lock                                  held by the process that requests certificates
//! STORAGE/AUTHORITY/account.json                the account with its key
//! STORAGE/AUTHORITY/HOST/certificate.pem        key and certificate of the site with this first host
//! STORAGE/AUTHORITY/HOST/attempt                when the last order was made, in seconds since 1970
//! STORAGE/AUTHORITY/on-demand/HOST/...          the same for certificates on demand
//! STORAGE/AUTHORITY/shared/KEY.value            leases and proofs, if several machines use the storage
//! STORAGE/AUTHORITY/issuer.json                 the account's URL and the authority's names in DNS
//! ```
//!
//! Key and certificate are in one file, so that they always belong together. The file is renamed into place
//! when it is complete.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::persistent_record::Issuer;
use touchstone_config::AcmeConfig;
use touchstone_tls::private_file;

/// The word after the time of an order that failed.
const FAILED: &str = "failed";

/// The files of one authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    root: PathBuf,
    authority: PathBuf,
    /// Other machines write files here, too.
    is_shared: bool,
}

impl Storage {
    /// The files of an authority. Directories are created when they are needed.
    pub fn new(settings: &AcmeConfig) -> Storage {
        let root = settings.storage.clone();
        Storage {
            authority: root.join(directory_name(&settings.directory)),
            root,
            is_shared: settings.shared,
        }
    }

    /// The directory for what several machines have in common.
    pub fn shared_directory(&self) -> PathBuf {
        self.authority.join("shared")
    }

    /// The name of a file below the storage.
    pub fn name_of(&self, file: &Path) -> String {
        file.strip_prefix(&self.root).unwrap_or(file).display().to_string()
    }

    /// The directory of all files.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The account's file.
    pub fn account_file(&self) -> PathBuf {
        self.authority.join("account.json")
    }

    /// The file with a certificate and its key, by its first host.
    pub fn certificate_file(&self, host: &str) -> PathBuf {
        self.authority.join(host_directory(host)).join("certificate.pem")
    }

    /// The account and the names of its authority, for records in DNS, as they were last received.
    pub fn issuer(&self) -> Option<Issuer> {
        serde_json::from_slice(&fs::read(self.issuer_file()).ok()?).ok()
    }

    /// Stores what [`Storage::issuer`] reads, if it is new.
    pub fn note_issuer(&self, issuer: &Issuer) -> io::Result<()> {
        match self.issuer().as_ref() == Some(issuer) {
            true => Ok(()),
            false => self.write(&self.issuer_file(), &serde_json::to_vec_pretty(issuer)?),
        }
    }

    fn issuer_file(&self) -> PathBuf {
        self.authority.join("issuer.json")
    }

    /// Acquires the lock that allows only one process at a time to request certificates; `None` if another
    /// process holds it. It is held until the file is dropped.
    pub fn try_lock(&self) -> io::Result<Option<File>> {
        private_file::make_directory(&self.root)?;
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(self.root.join("lock"))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// The problem with the mode of a directory that existed before; its files are protected anyway.
    pub fn mode_warning(&self) -> Option<String> {
        let mode = fs::metadata(&self.root).ok()?.permissions().mode() & 0o777;
        (mode & 0o077 != 0).then(|| {
            format!(
                "{}: other users can read this directory, which contains keys (mode {mode:03o}): \
                 'chmod go= {}'",
                self.root.display(),
                self.root.display()
            )
        })
    }

    /// Writes a file that only its owner can read. The caller must hold the lock.
    pub fn write(&self, file: &Path, bytes: &[u8]) -> io::Result<()> {
        if let Some(directory) = file.parent() {
            private_file::make_directory(directory)?;
        }
        if !self.is_shared {
            private_file::remove_unfinished(file);
        }
        private_file::write(file, bytes, 0o600)
    }

    /// When the last order for this certificate was sent, in seconds since 1970.
    pub fn last_attempt_s(&self, host: &str) -> Option<i64> {
        let text = fs::read_to_string(self.attempt_file(host)).ok()?;
        text.split_whitespace().next()?.parse().ok()
    }

    /// Whether the last order for this certificate failed; an order that was not finished has not.
    pub fn has_failed(&self, host: &str) -> bool {
        fs::read_to_string(self.attempt_file(host)).is_ok_and(|text| text.trim_end().ends_with(FAILED))
    }

    /// Records that an order has failed.
    pub fn note_failure(&self, host: &str, now_s: i64) -> io::Result<()> {
        self.write(&self.attempt_file(host), format!("{now_s} {FAILED}\n").as_bytes())
    }

    /// Records the time of an order before it is sent.
    pub fn note_attempt(&self, host: &str, now_s: i64) -> io::Result<()> {
        self.write(&self.attempt_file(host), format!("{now_s}\n").as_bytes())
    }

    fn attempt_file(&self, host: &str) -> PathBuf {
        self.authority.join(host_directory(host)).join("attempt")
    }
}

/// The name of a directory for a host: a wildcard or an address has characters that are special in shells.
/// Names with '_' or '+' get no certificates, so all names stay different.
fn host_directory(host: &str) -> String {
    match host.strip_prefix("*.") {
        Some(parent) => format!("wildcard_.{parent}"),
        None => host.replace(['[', ']'], "").replace(':', "+"),
    }
}

/// The name of a directory for an authority: its URL, with characters that a file name cannot contain
/// replaced so that two authorities keep different names.
fn directory_name(url: &str) -> String {
    let rest = url.strip_prefix("https://").unwrap_or(url).trim_end_matches('/');
    let name: String = rest
        .chars()
        .map(|character| match character {
            '/' => '_',
            ':' => '+',
            '.' | '-' => character,
            _ if character.is_ascii_alphanumeric() => character,
            _ => '=',
        })
        .take(200)
        .collect();
    // The name is not empty, and is neither the directory itself nor its parent.
    if name.trim_matches('.').is_empty() { format!("authority{name}") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn storage(root: &Path) -> Storage {
        Storage::new(&AcmeConfig {
            directory: "https://ca.test/dir".to_string(),
            storage: root.to_path_buf(),
            ..AcmeConfig::default()
        })
    }

    #[test]
    fn one_process_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("acme");
        let (first, second) = (storage(&root), storage(&root));
        let held = first.try_lock().unwrap();
        assert!(held.is_some());
        assert!(second.try_lock().unwrap().is_none());
        drop(held);
        assert!(second.try_lock().unwrap().is_some());
        assert_eq!(fs::metadata(&root).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(first.mode_warning(), None);
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(first.mode_warning().unwrap().contains("(mode 755): 'chmod go="));
    }

    #[test]
    fn directories_of_hosts() {
        assert_eq!(host_directory("a.org"), "a.org");
        assert_eq!(host_directory("*.a.org"), "wildcard_.a.org");
        assert_eq!(host_directory("[2001:db8::1]"), "2001+db8++1");
        assert_eq!(host_directory("192.0.2.1"), "192.0.2.1");
    }

    #[test]
    fn attempts_are_remembered() {
        let directory = tempfile::tempdir().unwrap();
        let storage = storage(directory.path());
        assert_eq!(storage.last_attempt_s("a.org"), None);
        storage.note_attempt("a.org", 1_700_000_000).unwrap();
        assert_eq!(storage.last_attempt_s("a.org"), Some(1_700_000_000));
        assert!(!storage.has_failed("a.org"));
        storage.note_failure("a.org", 1_700_000_001).unwrap();
        assert_eq!(storage.last_attempt_s("a.org"), Some(1_700_000_001));
        assert!(storage.has_failed("a.org"));
        fs::write(storage.attempt_file("a.org"), "x").unwrap();
        assert_eq!(storage.last_attempt_s("a.org"), None);
    }

    proptest! {
        #[test]
        fn every_url_gives_a_name_below_the_storage(url in ".*") {
            let name = directory_name(&url);
            prop_assert!(!name.is_empty() && name.len() <= 220 && name != "." && name != "..");
            prop_assert!(!name.contains(['/', '\0']));
        }
    }
}
