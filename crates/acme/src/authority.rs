//! The state that all certificates of an authority share: its account, its files, the client, and a limit on
//! simultaneous orders.

use std::collections::HashSet;
use std::fs::File;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use instant_acme::Account;
use tokio::sync::{Mutex, Notify, OnceCell, Semaphore, SemaphorePermit};
use touchstone_config::AcmeConfig;
use touchstone_observe::log::error::ErrorLog;

use super::account;
use super::challenge::Offers;
use super::client::AuthorityClient;
use super::counts::AcmeCounts;
use super::failure::Failure;
use super::storage::Storage;

/// The maximum number of simultaneous orders.
const MOST_ORDERS: usize = 4;

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
    orders: Semaphore,
    /// Names with an order under way. A name can have only one proof at a time in TLS handshakes, so orders
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

impl Authority {
    /// Creates an authority; sends and writes nothing yet.
    pub fn new(
        settings: Arc<AcmeConfig>,
        offers: Offers,
        error_log: ErrorLog,
        counts: Arc<AcmeCounts>,
    ) -> Authority {
        Authority {
            storage: Storage::new(&settings),
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
        self.lock.get_or_init(|| self.lock_storage()).await;
    }

    /// Waits until an order for these names may be made.
    pub async fn order_permit<'a>(&'a self, names: &'a [String]) -> OrderPermit<'a> {
        // The semaphore is never closed, so a permit always follows.
        let permit = self.orders.acquire().await.ok();
        loop {
            let freed = self.names_are_free.notified();
            if self.take_names(names) {
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
        account::open(&self.settings, &self.storage, client, &self.error_log).await
    }

    /// Moves the account aside that the authority no longer knows.
    pub async fn forget_account(&self) -> Result<(), Failure> {
        let _alone = self.account.lock().await;
        account::forget(&self.storage)
    }

    /// Reserves all of these names, or none.
    fn take_names(&self, names: &[String]) -> bool {
        let mut busy = self.busy_names.lock().unwrap_or_else(PoisonError::into_inner);
        let free = names.iter().all(|name| !busy.contains(name));
        if free {
            busy.extend(names.iter().cloned());
        }
        free
    }

    async fn lock_storage(&self) -> File {
        let mut said = None;
        loop {
            let trouble = match self.storage.try_lock() {
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
            match &mut said {
                None => said = Some(String::new()),
                Some(said) if *said != trouble => {
                    let storage = self.settings.storage.display();
                    self.error_log.warning(format_args!("acme: {storage} {trouble}"));
                    *said = trouble;
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
