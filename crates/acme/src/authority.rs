//! The state that all certificates of an authority share: its account, its files, the client, and a limit on
//! simultaneous orders.

use std::collections::HashSet;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use instant_acme::Account;
use tokio::sync::{Mutex, Notify, OnceCell, Semaphore, SemaphorePermit};
use tokio::time::Instant;
use touchstone_config::AcmeConfig;
use touchstone_observe::log::error::ErrorLog;
use touchstone_observe::metrics::AcmeCounts;

use super::account;
use super::challenge::Offers;
use super::client::AuthorityClient;
use super::failure::Failure;
use super::shared::{Lease, Leases, SharedStore, follow_proofs};
use super::storage::Storage;

/// The maximum number of simultaneous orders.
const MOST_ORDERS: usize = 4;

/// How long another machine may use the account, in addition to the time of two leases.
const ACCOUNT_TIME: Duration = Duration::from_secs(60);

/// The pause before the next attempt to lock a storage that another process uses.
const LOCK_PAUSE: Duration = Duration::from_secs(1);

/// An authority with the settings of one configuration.
pub struct Authority {
    /// `[acme]`
    pub settings: Arc<AcmeConfig>,
    /// Its files.
    pub storage: Storage,
    /// The place where proofs are published.
    pub offers: Offers,
    /// The log for the operator.
    pub error_log: ErrorLog,
    /// The counters.
    pub counts: Arc<AcmeCounts>,
    /// What this machine has in common with others; `None`: it is alone.
    pub leases: Option<Arc<Leases>>,
    orders: Semaphore,
    /// Names with an active order. A name can have only one proof at a time in TLS handshakes, so orders
    /// that share a name wait for each other.
    busy_names: std::sync::Mutex<HashSet<String>>,
    /// Notified when names become free.
    names_are_free: Notify,
    /// Two orders must not register at the same time.
    account: Mutex<()>,
    lock: OnceCell<File>,
}

/// The permission to make an order; dropping it returns it.
pub struct OrderPermit<'a> {
    authority: &'a Authority,
    names: &'a [String],
    _permit: Option<SemaphorePermit<'a>>,
}

impl Drop for OrderPermit<'_> {
    fn drop(&mut self) {
        let mut busy = self.authority.busy_names.lock().unwrap_or_else(PoisonError::into_inner);
        self.names.iter().for_each(|name| {
            busy.remove(name);
        });
        self.authority.names_are_free.notify_waiters();
    }
}

/// What several machines have in common.
fn shared_store(settings: &AcmeConfig, storage: &Storage) -> Option<SharedStore> {
    match &settings.nats {
        Some(nats) => Some(SharedStore::nats(nats.clone(), storage.root().to_path_buf())),
        None => settings.shared.then(|| SharedStore::directory(storage.shared_directory())),
    }
}

impl Authority {
    /// Creates an authority; sends and writes no data yet.
    pub fn new(
        settings: Arc<AcmeConfig>,
        offers: Offers,
        error_log: ErrorLog,
        counts: Arc<AcmeCounts>,
    ) -> Authority {
        let storage = Storage::new(&settings);
        Authority {
            leases: shared_store(&settings, &storage)
                .map(|store| Arc::new(Leases::new(store, settings.lease))),
            storage,
            settings,
            offers,
            error_log,
            counts,
            orders: Semaphore::new(MOST_ORDERS),
            busy_names: std::sync::Mutex::default(),
            names_are_free: Notify::new(),
            account: Mutex::new(()),
            lock: OnceCell::new(),
        }
    }

    /// Waits until this process is the one that requests certificates for this storage. While an old process
    /// ends after an upgrade, the new one serves the existing certificates.
    pub async fn wait_for_storage(&self) {
        // Machines that share a storage have leases instead.
        if self.leases.is_some() {
            return;
        }
        self.lock.get_or_init(|| self.lock_storage()).await;
    }

    /// Waits until an order for these names is allowed.
    pub async fn order_permit<'a>(&'a self, names: &'a [String]) -> OrderPermit<'a> {
        // The semaphore is never closed, so a permit always follows.
        let permit = self.orders.acquire().await.ok();
        loop {
            let freed = self.names_are_free.notified();
            if self.reserve_names(names) {
                return OrderPermit { authority: self, names, _permit: permit };
            }
            freed.await;
        }
    }

    /// A client for the authority. It is created for each use, so that a change of the file of trusted
    /// authorities applies at once.
    pub fn client(&self) -> Result<AuthorityClient, Failure> {
        AuthorityClient::new(self.settings.ca_certificate.as_deref()).map_err(Failure::Own)
    }

    /// The account, registered if there is none yet.
    pub async fn account(&self, client: &AuthorityClient) -> Result<Account, Failure> {
        let _alone = self.account.lock().await;
        let _lease = self.account_lease().await?;
        let account = account::open(&self.settings, &self.storage, client, &self.error_log).await?;
        self.publish_file(&self.storage.account_file()).await?;
        Ok(account)
    }

    /// Two machines must not register at the same time either; and a machine takes the account of another.
    async fn account_lease(&self) -> Result<Option<Lease>, Failure> {
        let Some(leases) = &self.leases else { return Ok(None) };
        let until = Instant::now() + self.settings.lease.saturating_mul(2) + ACCOUNT_TIME;
        loop {
            if let Some(lease) = leases.take("account").await.map_err(Failure::Own)? {
                self.fetch_file(&self.storage.account_file()).await?;
                return Ok(Some(lease));
            }
            if Instant::now() > until {
                return Err(Failure::Own("another machine uses the account all the time".to_string()));
            }
            tokio::time::sleep(LOCK_PAUSE).await;
        }
    }

    /// Passes a file of the storage to machines that do not share the directory.
    pub async fn publish_file(&self, file: &Path) -> Result<(), Failure> {
        let Some(leases) = &self.leases else { return Ok(()) };
        let bytes = std::fs::read(file)
            .map_err(|error| Failure::Own(format!("{}: cannot be read: {error}", file.display())))?;
        leases.store().publish_file(&self.storage.name_of(file), &bytes).await.map_err(Failure::Own)
    }

    /// Gets the newest version of a file from machines that share it.
    pub async fn fetch_file(&self, file: &Path) -> Result<(), Failure> {
        let Some(leases) = &self.leases else { return Ok(()) };
        leases.store().fetch_file(&self.storage.name_of(file)).await.map_err(Failure::Own)
    }

    /// Follows what other machines share, without an end.
    pub async fn follow_others(self: Arc<Self>) {
        let Some(leases) = self.leases.clone() else { return };
        let proofs = follow_proofs(leases.clone(), self.offers.clone(), self.error_log.clone());
        match leases.store() {
            SharedStore::Directory(_) => proofs.await,
            SharedStore::Nats(store) => {
                tokio::join!(proofs, store.clone().follow(self.error_log.clone()));
            }
        }
    }

    /// Renames the account that the authority has removed.
    pub async fn forget_account(&self) -> Result<(), Failure> {
        let _alone = self.account.lock().await;
        let _lease = self.account_lease().await?;
        account::forget(&self.storage)?;
        let Some(leases) = &self.leases else { return Ok(()) };
        let name = self.storage.name_of(&self.storage.account_file());
        leases.store().forget_file(&name).await.map_err(Failure::Own)
    }

    /// Reserves all of these names, or none.
    fn reserve_names(&self, names: &[String]) -> bool {
        let mut busy = self.busy_names.lock().unwrap_or_else(PoisonError::into_inner);
        let free = names.iter().all(|name| !busy.contains(name));
        if free {
            busy.extend(names.iter().cloned());
        }
        free
    }

    async fn lock_storage(&self) -> File {
        let mut last_problem = None;
        loop {
            let problem = match self.storage.try_lock() {
                Ok(Some(file)) => {
                    if let Some(warning) = self.storage.mode_warning() {
                        self.error_log.warning(format_args!("acme: {warning}"));
                    }
                    return file;
                }
                Ok(None) => {
                    "is used by another process; no certificate is requested until it is released".to_string()
                }
                Err(error) => format!("cannot be used: {error}; no certificate is requested"),
            };
            // Reported at the second attempt: after a reload, the former holder may still be stopping.
            match &mut last_problem {
                None => last_problem = Some(String::new()),
                Some(last_problem) if *last_problem != problem => {
                    let storage = self.settings.storage.display();
                    self.error_log.warning(format_args!("acme: {storage} {problem}"));
                    *last_problem = problem;
                }
                Some(_) => {}
            }
            tokio::time::sleep(LOCK_PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use touchstone_config::{ErrorLogConfig, LogDestination, LogLevel};
    use touchstone_tls::TlsShared;

    fn authority() -> Authority {
        let off = ErrorLogConfig::new(LogDestination::Off, LogLevel::Info);
        let offers = Offers { http: Arc::default(), tls: TlsShared::new() };
        Authority::new(Arc::default(), offers, ErrorLog::start(&off).unwrap(), Arc::default())
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    /// Whether a permit for these names is available now.
    async fn is_free(authority: &Authority, wanted: &[&str]) -> bool {
        let names = names(wanted);
        let order_permit = authority.order_permit(&names);
        tokio::pin!(order_permit);
        let now = std::future::poll_fn(|context| {
            std::task::Poll::Ready(order_permit.as_mut().poll(context).is_ready())
        });
        now.await
    }

    #[tokio::test]
    async fn orders_with_a_name_in_common_come_one_after_the_other() {
        let authority = authority();
        let (one, other) = (names(&["a.org", "b.org"]), names(&["b.org", "c.org"]));
        let order_permit = authority.order_permit(&one).await;
        assert!(!is_free(&authority, &["b.org", "c.org"]).await);
        assert!(is_free(&authority, &["c.org"]).await);
        let (_, next) = tokio::join!(async { drop(order_permit) }, authority.order_permit(&other));
        assert!(is_free(&authority, &["a.org"]).await);
        assert!(!is_free(&authority, &["b.org"]).await);
        drop(next);
        assert!(is_free(&authority, &["b.org"]).await);
    }

    #[tokio::test]
    async fn there_is_a_limit_on_orders() {
        let authority = authority();
        let all: Vec<Vec<String>> = (0..MOST_ORDERS).map(|index| names(&[&format!("{index}.org")])).collect();
        let mut permits = Vec::new();
        for names in &all {
            permits.push(authority.order_permit(names).await);
        }
        assert!(!is_free(&authority, &["z.org"]).await);
        permits.pop();
        assert!(is_free(&authority, &["z.org"]).await);
    }
}
