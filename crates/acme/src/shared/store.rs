//! Small values by key. A value has a revision, so that it is changed only if no other process has changed
//! it.

use std::path::PathBuf;
use std::sync::Arc;

use touchstone_config::AcmeNatsConfig;

use super::directory::DirectoryStore;
use super::nats::NatsStore;
use super::value::VersionedValue;

/// The place that machines share.
#[derive(Clone)]
pub enum SharedStore {
    /// A directory.
    Directory(Arc<DirectoryStore>),
    /// A bucket.
    Nats(Arc<NatsStore>),
}

impl SharedStore {
    /// A store in a directory.
    pub fn directory(root: PathBuf) -> SharedStore {
        SharedStore::Directory(Arc::new(DirectoryStore::new(root)))
    }

    /// In a bucket, with copies of its files below `root`.
    pub fn nats(settings: AcmeNatsConfig, root: PathBuf) -> SharedStore {
        SharedStore::Nats(Arc::new(NatsStore::new(settings, root)))
    }

    /// The value of a key.
    pub async fn get(&self, key: &str) -> Result<Option<VersionedValue>, String> {
        match self {
            SharedStore::Directory(store) => store.get(key),
            SharedStore::Nats(store) => store.get(key).await,
        }
    }

    /// Sets a value if its revision is still the given one (`None`: if there is none), and returns its new
    /// revision; `None` if it was changed.
    pub async fn replace(&self, key: &str, bytes: &[u8], before: Option<u64>) -> Result<Option<u64>, String> {
        match self {
            SharedStore::Directory(store) => store.replace(key, Some(bytes), before),
            SharedStore::Nats(store) => store.replace(key, bytes, before).await,
        }
    }

    /// Removes a value if its revision is still the given one.
    pub async fn remove(&self, key: &str, revision: u64) -> Result<(), String> {
        match self {
            SharedStore::Directory(store) => store.replace(key, None, Some(revision)).map(drop),
            SharedStore::Nats(store) => store.remove(key, revision).await,
        }
    }

    /// The keys that begin with `prefix`, with their values.
    pub async fn list(&self, prefix: &str) -> Result<Vec<(String, VersionedValue)>, String> {
        match self {
            SharedStore::Directory(store) => store.list(prefix),
            SharedStore::Nats(store) => Ok(store.list(prefix)),
        }
    }

    /// Passes a file that was written to the machines that do not share the directory.
    pub async fn publish_file(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        match self {
            SharedStore::Directory(_) => Ok(()),
            SharedStore::Nats(store) => store.publish_file(name, bytes).await,
        }
    }

    /// Removes a file that was passed on. Copies of it stay until they are replaced.
    pub async fn forget_file(&self, name: &str) -> Result<(), String> {
        match self {
            SharedStore::Directory(_) => Ok(()),
            SharedStore::Nats(store) => store.forget_file(name).await,
        }
    }

    /// Gets the newest version of a file from the others.
    pub async fn fetch_file(&self, name: &str) -> Result<(), String> {
        match self {
            SharedStore::Directory(_) => Ok(()),
            SharedStore::Nats(store) => store.fetch_file(name).await,
        }
    }
}
