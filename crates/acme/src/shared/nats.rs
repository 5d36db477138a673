//! The store in a NATS key-value bucket. A watch of the bucket keeps a copy of all values here, and writes
//! the files of accounts and certificates into the storage of this machine, from where they are served.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::jetstream::kv::{self, CreateErrorKind, Operation, UpdateErrorKind};
use async_nats::{ConnectOptions, jetstream};
use futures_util::StreamExt as _;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::sync::OnceCell;
use touchstone_config::AcmeNatsConfig;
use touchstone_observe::log::error::ErrorLog;
use touchstone_tls::private_file;

use super::value::VersionedValue;

/// How long an answer of the NATS server may take.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// The pause before a watch that ended begins again.
const WATCH_PAUSE: Duration = Duration::from_secs(1);

/// The begin of the keys of files.
const FILES: &str = "files/";

/// The largest file that is taken.
const MOST_FILE_BYTES: usize = 256 * 1024;

/// The largest file with credentials.
const MOST_CREDENTIAL_BYTES: u64 = 64 * 1024;

/// A bucket.
pub struct NatsStore {
    settings: AcmeNatsConfig,
    /// The storage of this machine.
    root: PathBuf,
    bucket: OnceCell<kv::Store>,
    /// All values, as the watch has received them.
    values: Mutex<BTreeMap<String, VersionedValue>>,
}

impl NatsStore {
    /// A bucket whose files are copied into `root`. No request is sent yet.
    pub fn new(settings: AcmeNatsConfig, root: PathBuf) -> NatsStore {
        NatsStore { settings, root, bucket: OnceCell::new(), values: Mutex::default() }
    }

    /// The value of a key.
    pub async fn get(&self, key: &str) -> Result<Option<VersionedValue>, String> {
        let bucket = self.bucket().await?;
        let entry = bucket.entry(subject(key)).await.map_err(|error| self.about(&error))?;
        let entry = entry.filter(|entry| entry.operation == Operation::Put);
        Ok(entry.map(|entry| VersionedValue { bytes: entry.value.to_vec(), revision: entry.revision }))
    }

    /// Sets a value if its revision is still the given one.
    pub async fn replace(&self, key: &str, bytes: &[u8], before: Option<u64>) -> Result<Option<u64>, String> {
        let bucket = self.bucket().await?;
        let (key, value) = (subject(key), bytes.to_vec().into());
        match before {
            None => match bucket.create(&key, value).await {
                Ok(revision) => Ok(Some(revision)),
                Err(error) if error.kind() == CreateErrorKind::AlreadyExists => Ok(None),
                Err(error) => Err(self.about(&error)),
            },
            Some(before) => match bucket.update(&key, value, before).await {
                Ok(revision) => Ok(Some(revision)),
                Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => Ok(None),
                Err(error) => Err(self.about(&error)),
            },
        }
    }

    /// Removes a value if its revision is still the given one.
    pub async fn remove(&self, key: &str, revision: u64) -> Result<(), String> {
        let removed = self.bucket().await?.delete_expect_revision(subject(key), Some(revision)).await;
        removed.map_err(|error| self.about(&error))
    }

    /// The keys that begin with `prefix`, with their values.
    pub fn list(&self, prefix: &str) -> Vec<(String, VersionedValue)> {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let from = values.range(prefix.to_string()..);
        from.take_while(|(key, _)| key.starts_with(prefix))
            .map(|(key, stored)| (key.clone(), stored.clone()))
            .collect()
    }

    /// Passes a file on to the other machines.
    pub async fn publish_file(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        let put = self.bucket().await?.put(subject(&format!("{FILES}{name}")), bytes.to_vec().into()).await;
        put.map(drop).map_err(|error| self.about(&error))
    }

    /// Removes a file from the bucket.
    pub async fn forget_file(&self, name: &str) -> Result<(), String> {
        let deleted = self.bucket().await?.delete(subject(&format!("{FILES}{name}"))).await;
        deleted.map_err(|error| self.about(&error))
    }

    /// Gets the newest version of a file from the others.
    pub async fn fetch_file(&self, name: &str) -> Result<(), String> {
        match self.get(&format!("{FILES}{name}")).await? {
            Some(stored) => self.write_file(name, &stored.bytes),
            None => Ok(()),
        }
    }

    /// Follows the changes of others, without an end.
    pub async fn follow(self: Arc<Self>, error_log: ErrorLog) {
        loop {
            if let Err(reason) = self.watch(&error_log).await {
                error_log.failing("acme: the shared bucket", reason);
            }
            tokio::time::sleep(WATCH_PAUSE).await;
        }
    }

    async fn watch(&self, error_log: &ErrorLog) -> Result<(), String> {
        let bucket = self.bucket().await?;
        let mut changes = bucket.watch_with_history(">").await.map_err(|error| self.about(&error))?;
        error_log.recovered("acme: the shared bucket");
        while let Some(change) = changes.next().await {
            let change = change.map_err(|error| self.about(&error))?;
            let Some(key) = key_of(&change.key) else { continue };
            let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
            if change.operation != Operation::Put {
                values.remove(&key);
                continue;
            }
            match key.strip_prefix(FILES) {
                Some(name) => {
                    drop(values);
                    if let Err(reason) = self.write_file(name, &change.value) {
                        error_log.warning(format_args!("acme: {reason}"));
                    }
                }
                None => {
                    let stored = VersionedValue { bytes: change.value.to_vec(), revision: change.revision };
                    values.insert(key, stored);
                }
            }
        }
        Err(format!("the watch of bucket {} has ended", self.settings.bucket))
    }

    /// Writes a file of the bucket into the storage, if it differs.
    fn write_file(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        if !is_file_of_storage(Path::new(name)) || bytes.len() > MOST_FILE_BYTES {
            let bucket = &self.settings.bucket;
            return Err(format!("bucket {bucket} has a value that is not a file of a storage: {name:?}"));
        }
        let file = self.root.join(name);
        if fs::read(&file).is_ok_and(|present| present == bytes) {
            return Ok(());
        }
        let written = private_file::make_directory(file.parent().unwrap_or(&self.root))
            .and_then(|()| private_file::write(&file, bytes, 0o600));
        written.map_err(|error| format!("{}: cannot be written: {error}", file.display()))
    }

    async fn bucket(&self) -> Result<&kv::Store, String> {
        let open = async || match tokio::time::timeout(2 * ANSWER_TIME, self.open()).await {
            Ok(opened) => opened,
            Err(_) => Err(format!("{}: no answer in {} s", self.settings.url, 2 * ANSWER_TIME.as_secs())),
        };
        self.bucket.get_or_try_init(open).await
    }

    async fn open(&self) -> Result<kv::Store, String> {
        let settings = &self.settings;
        let mut options = ConnectOptions::new()
            .name("touchstone certificates")
            .connection_timeout(ANSWER_TIME)
            .request_timeout(Some(ANSWER_TIME));
        if let Some(file) = &settings.credentials {
            let text = read_credentials(file)?;
            options = if text.starts_with("SU") {
                // An invalid seed would make the client library panic.
                nkeys::KeyPair::from_seed(text.trim())
                    .map_err(|error| format!("{}: is not the seed of a user: {error}", file.display()))?;
                options.nkey(text.trim().to_string())
            } else {
                let unreadable = |_| format!("{}: are not credentials of NATS", file.display());
                options.credentials(&text).map_err(unreadable)?
            };
        }
        if settings.url.starts_with("tls://") {
            options = options.require_tls(true).tls_client_config(tls(settings.ca_certificate.as_deref())?);
        }
        let client = options.connect(&settings.url).await.map_err(|error| self.about(&error))?;
        let mut context = jetstream::new(client);
        context.set_timeout(ANSWER_TIME);
        if let Ok(bucket) = context.get_key_value(&settings.bucket).await {
            return Ok(bucket);
        }
        let config = kv::Config {
            bucket: settings.bucket.clone(),
            description: "certificates of Touchstone, with their keys".to_string(),
            history: 1,
            max_value_size: i32::try_from(MOST_FILE_BYTES).unwrap_or(i32::MAX),
            storage: jetstream::stream::StorageType::File,
            ..Default::default()
        };
        context.create_key_value(config).await.map_err(|error| self.about(&error))
    }

    fn about(&self, error: &dyn std::fmt::Display) -> String {
        format!("{}: {error}", self.settings.url)
    }
}

/// Reads credentials that other users cannot read.
fn read_credentials(file: &Path) -> Result<String, String> {
    use std::io::Read as _;
    if let Some(warning) = touchstone_tls::key_warning(file) {
        return Err(warning);
    }
    let mut text = String::new();
    let read =
        fs::File::open(file).and_then(|file| file.take(MOST_CREDENTIAL_BYTES).read_to_string(&mut text));
    match read {
        Ok(_) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            Err(format!("{}: is not text", file.display()))
        }
        Err(error) => Err(format!("{}: cannot be read: {error}", file.display())),
    }
}

/// TLS that trusts this authority, or those of the system.
fn tls(authority: Option<&Path>) -> Result<rustls::ClientConfig, String> {
    let mut roots = rustls::RootCertStore::empty();
    let file = authority.unwrap_or(Path::new("/etc/ssl/certs/ca-certificates.crt"));
    let unreadable = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| unreadable(&error))? {
        let certificate = certificate.map_err(|error| unreadable(&error))?;
        // The system's file may have certificates that are not for this use.
        if let (Err(error), Some(_)) = (roots.add(certificate), authority) {
            return Err(unreadable(&error));
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// A key in the characters that NATS allows.
fn subject(key: &str) -> String {
    key.replace('=', "=3D").replace('+', "=2B").replace('*', "=2A")
}

/// The key of such a text; `None` if no key has this text.
fn key_of(subject: &str) -> Option<String> {
    let key = subject.replace("=2A", "*").replace("=2B", "+").replace("=3D", "=");
    (self::subject(&key) == subject).then_some(key)
}

/// Whether a path is that of a file that is shared: an account or a certificate, below the storage.
fn is_file_of_storage(path: &Path) -> bool {
    let is_plain = |component: Component<'_>| matches!(component, Component::Normal(_));
    let name = path.file_name().and_then(|name| name.to_str());
    let depth = path.components().count();
    path.components().all(is_plain)
        && (2..=4).contains(&depth)
        && matches!(name, Some("account.json" | "certificate.pem"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn files_that_are_taken() {
        for good in ["ca_dir/account.json", "ca/a.org/certificate.pem", "ca/on-demand/a.org/certificate.pem"]
        {
            assert!(is_file_of_storage(Path::new(good)), "{good}");
        }
        for bad in [
            "",
            "account.json",
            "/etc/account.json",
            "../x/account.json",
            "a/../../account.json",
            "ca/a.org/certificate.sh",
            "a/b/c/d/e/certificate.pem",
        ] {
            assert!(!is_file_of_storage(Path::new(bad)), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn keys_read_back(key in "[a-zA-Z0-9./_=+*-]{0,60}") {
            let subject = subject(&key);
            prop_assert!(!subject.contains(['+', '*']));
            prop_assert_eq!(key_of(&subject), Some(key));
        }

        #[test]
        fn no_name_leads_out_of_the_storage(name: String) {
            if is_file_of_storage(Path::new(&name)) {
                prop_assert!(Path::new("/s").join(&name).starts_with("/s"));
            }
        }
    }
}
