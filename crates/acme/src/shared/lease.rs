//! An exclusive lease, which is valid as long as it is extended.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::rand;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::store::SharedStore;

/// How often a lease is extended within its time.
const BEATS: u32 = 4;

/// All leases of a process.
pub struct Leases {
    store: SharedStore,
    /// This process.
    owner: String,
    time: Duration,
    /// The leases of others: their revision, and since when it has been the same.
    observed: Mutex<HashMap<String, (u64, Instant)>>,
}

/// A lease that this process holds. Dropping it releases it.
pub struct Lease {
    revision: watch::Receiver<Option<u64>>,
    /// Dropped with the lease; the task that extends the lease then releases it.
    _held: oneshot::Sender<Infallible>,
    /// The process that held it before and did not release it.
    pub previous_holder: Option<String>,
}

impl Leases {
    /// Leases that are over when they were not extended for `time`.
    pub fn new(store: SharedStore, time: Duration) -> Leases {
        Leases { store, owner: new_owner(), time, observed: Mutex::default() }
    }

    /// The name of this process in leases and values.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The store of the leases.
    pub fn store(&self) -> &SharedStore {
        &self.store
    }

    /// Takes a lease; `None` if another process has it.
    pub async fn take(self: &Arc<Self>, what: &str) -> Result<Option<Lease>, String> {
        let key = format!("leases/{what}");
        let present = self.store.get(&key).await?;
        let mut previous_holder = None;
        let before = match present {
            None => None,
            Some(stored) if self.is_over(&key, stored.revision) => {
                previous_holder = Some(owner_of(&stored.bytes));
                Some(stored.revision)
            }
            Some(_) => return Ok(None),
        };
        let Some(revision) = self.store.replace(&key, &self.value(0), before).await? else {
            return Ok(None);
        };
        self.observed.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        let (sender, revision) = watch::channel(Some(revision));
        let (held, released) = oneshot::channel();
        let leases = self.clone();
        tokio::spawn(async move { leases.extend(&key, &sender, released).await });
        Ok(Some(Lease { revision, _held: held, previous_holder }))
    }

    /// Whether a lease of another process has not changed for its whole time. The first check only starts
    /// that time.
    fn is_over(&self, key: &str, revision: u64) -> bool {
        let now = Instant::now();
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        match observed.get(key) {
            Some((last_revision, since)) if *last_revision == revision => {
                now.duration_since(*since) >= self.time
            }
            _ => {
                observed.insert(key.to_string(), (revision, now));
                false
            }
        }
    }

    /// Extends a lease until it is lost or released. It does not stop within an extension: the store could
    /// have the new value already, under a revision that nothing would remove.
    async fn extend(
        &self,
        key: &str,
        revision: &watch::Sender<Option<u64>>,
        mut released: oneshot::Receiver<Infallible>,
    ) {
        let mut extended = Instant::now();
        for count in 1.. {
            let current = *revision.borrow();
            if tokio::time::timeout(self.time / BEATS, &mut released).await.is_ok() {
                if let Some(current) = current {
                    // A lease that is not removed expires.
                    let _ = self.store.remove(key, current).await;
                }
                return;
            }
            match self.store.replace(key, &self.value(count), current).await {
                Ok(Some(new)) => {
                    extended = Instant::now();
                    revision.send_replace(Some(new));
                }
                Ok(None) => break,
                // The store is not available: for the others this process is not available either.
                Err(_) if extended.elapsed() + self.time / BEATS >= self.time => break,
                Err(_) => {}
            }
        }
        revision.send_replace(None);
    }

    fn value(&self, count: u64) -> Vec<u8> {
        format!("{} {count}", self.owner).into_bytes()
    }
}

impl Lease {
    /// Waits until another process may have the lease.
    pub async fn lost(&self) {
        let mut revision = self.revision.clone();
        // An error means that the beats have ended.
        let _ = revision.wait_for(Option::is_none).await;
    }
}

/// The process in a lease's value.
fn owner_of(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    let owner = text.split(' ').next().unwrap_or_default();
    owner.chars().filter(|c| c.is_ascii_graphic()).take(120).collect()
}

/// A name for this process that no other has.
fn new_owner() -> String {
    let mut bytes = [0; 8];
    // The process id alone distinguishes processes of one machine.
    let _ = rand::fill(&mut bytes);
    let host = rustix::system::uname().nodename().to_string_lossy().replace(' ', "-");
    format!("{host}-{}-{:016x}", std::process::id(), u64::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::super::directory::DirectoryStore;
    use super::*;

    fn leases(directory: &tempfile::TempDir, time: Duration) -> Arc<Leases> {
        let store = DirectoryStore::new(directory.path().join("shared"));
        Arc::new(Leases::new(SharedStore::Directory(Arc::new(store)), time))
    }

    #[tokio::test]
    async fn one_process_at_a_time() {
        let directory = tempfile::tempdir().expect("a directory");
        let (one, other) =
            (leases(&directory, Duration::from_secs(60)), leases(&directory, Duration::from_secs(60)));
        let lease = one.take("a.org").await.expect("it works").expect("it is free");
        assert!(lease.previous_holder.is_none());
        assert!(other.take("a.org").await.expect("it works").is_none());
        assert!(one.take("a.org").await.expect("it works").is_none());
        assert!(other.take("b.org").await.expect("it works").is_some());
        drop(lease);
        loop {
            tokio::task::yield_now().await;
            if other.take("a.org").await.expect("it works").is_some() {
                break;
            }
        }
    }

    #[tokio::test]
    async fn a_lease_that_is_not_extended_is_taken_over() {
        let directory = tempfile::tempdir().expect("a directory");
        let time = Duration::from_millis(200);
        let (one, other) = (leases(&directory, time), leases(&directory, time));
        // A process has acquired it and was killed.
        one.store.replace("leases/a.org", &one.value(0), None).await.expect("it works").expect("it is free");
        let taken = loop {
            if let Some(taken) = other.take("a.org").await.expect("it works") {
                break taken;
            }
            tokio::time::sleep(time / 10).await;
        };
        assert_eq!(taken.previous_holder.as_deref(), Some(one.owner()));
        assert_ne!(one.owner(), other.owner());
    }

    #[tokio::test]
    async fn a_former_holder_does_not_release_the_lease_of_another() {
        let directory = tempfile::tempdir().expect("a directory");
        let (one, other) =
            (leases(&directory, Duration::from_secs(60)), leases(&directory, Duration::from_secs(60)));
        let lease = one.take("a.org").await.expect("it works").expect("it is free");
        let stored = other.store.get("leases/a.org").await.expect("it works").expect("it is there");
        let replaced = other.store.replace("leases/a.org", &other.value(0), Some(stored.revision)).await;
        replaced.expect("it works").expect("the revision is known");
        drop(lease);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(one.take("a.org").await.expect("it works").is_none());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_lease_that_is_dropped_while_it_is_extended_is_released() {
        let directory = tempfile::tempdir().expect("a directory");
        let time = Duration::from_millis(8);
        for turn in 0..100 {
            let name = format!("{turn}.org");
            let one = leases(&directory, time);
            let lease = one.take(&name).await.expect("it works").expect("it is free");
            tokio::time::sleep(time / BEATS + Duration::from_micros(turn * 20)).await;
            drop(lease);
            let key = format!("leases/{name}");
            let is_gone = async {
                while one.store.get(&key).await.expect("it works").is_some() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(20), is_gone).await.expect("it is released");
        }
    }

    #[tokio::test]
    async fn a_holder_notices_that_it_lost_its_lease() {
        let directory = tempfile::tempdir().expect("a directory");
        let one = leases(&directory, Duration::from_millis(200));
        let lease = one.take("a.org").await.expect("it works").expect("it is free");
        let stored = one.store.get("leases/a.org").await.expect("it works");
        assert!(stored.is_some());
        // Another process has acquired it, for example while this machine was suspended.
        let file = directory.path().join("shared/leases%2Fa.org.value");
        std::fs::write(file, "other 1").expect("it is written");
        lease.lost().await;
    }

    #[test]
    fn owners_in_messages_are_plain() {
        assert_eq!(owner_of(b"host-1-00 17"), "host-1-00");
        assert_eq!(owner_of(b"\x1b[31m\xff x"), "[31m");
    }
}
