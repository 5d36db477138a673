//! What all certificates of an authority share: its account, the files, the way to it, and a limit on what is
//! asked of it at a time.

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
use super::failure::Failure;
use super::storage::Storage;

/// Orders under way at a time.
const MOST_ORDERS: usize = 4;

/// Between two looks whether another process has let go of the storage.
const LOCK_PAUSE: Duration = Duration::from_secs(1);

/// An authority, as one configuration knows it.
pub struct Authority {
    /// `[acme]`
    pub settings: Arc<AcmeConfig>,
    /// Its files.
    pub storage: Storage,
    /// Where proofs are offered.
    pub offers: Offers,
    /// Where the operator is told.
    pub error_log: ErrorLog,
    orders: Semaphore,
    /// Names with an order under way. A name has one proof at a time in TLS handshakes, so two orders that
    /// have a name in common come one after the other.
    busy_names: std::sync::Mutex<HashSet<String>>,
    /// Told when names are not busy any more.
    names_are_free: Notify,
    /// Two orders must not register at the same time.
    account: Mutex<()>,
    lock: OnceCell<File>,
}

/// The right to make an order; given back when it is dropped.
pub struct Turn<'a> {
    authority: &'a Authority,
    names: &'a [String],
    _permit: Option<SemaphorePermit<'a>>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut busy = self.authority.busy_names.lock().unwrap_or_else(PoisonError::into_inner);
        self.names.iter().for_each(|name| {
            busy.remove(name);
        });
        self.authority.names_are_free.notify_waiters();
    }
}

impl Authority {
    /// Nothing is asked or written yet.
    pub fn new(settings: Arc<AcmeConfig>, offers: Offers, error_log: ErrorLog) -> Authority {
        Authority {
            storage: Storage::new(&settings),
            settings,
            offers,
            error_log,
            orders: Semaphore::new(MOST_ORDERS),
            busy_names: std::sync::Mutex::default(),
            names_are_free: Notify::new(),
            account: Mutex::new(()),
            lock: OnceCell::new(),
        }
    }

    /// Waits until this process is the one that asks for certificates in this storage. While an old process
    /// ends after an upgrade, the new one serves what is there.
    pub async fn wait_for_storage(&self) {
        self.lock.get_or_init(|| self.lock_storage()).await;
    }

    /// Waits until an order for these names may be made.
    pub async fn turn<'a>(&'a self, names: &'a [String]) -> Turn<'a> {
        // Never closed, so there is always a permit to come.
        let permit = self.orders.acquire().await.ok();
        loop {
            let freed = self.names_are_free.notified();
            if self.take_names(names) {
                return Turn { authority: self, names, _permit: permit };
            }
            freed.await;
        }
    }

    /// The way to the authority. Made for each use, so that a new file of authorities counts at once.
    pub fn client(&self) -> Result<AuthorityClient, Failure> {
        let provider = self.offers.tls.provider().clone();
        AuthorityClient::new(provider, self.settings.ca_certificate.as_deref()).map_err(Failure::Own)
    }

    /// The account, registered if there is none yet.
    pub async fn account(&self, client: &AuthorityClient) -> Result<Account, Failure> {
        let _alone = self.account.lock().await;
        account::open(&self.settings, &self.storage, client, &self.error_log).await
    }

    /// Puts the account aside that the authority does not know any more.
    pub async fn forget_account(&self) -> Result<(), Failure> {
        let _alone = self.account.lock().await;
        account::forget(&self.storage)
    }

    /// Takes all of these names, or none.
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
                    "is used by another process; no certificate is asked for until that lets go of it"
                        .to_string()
                }
                Err(error) => format!("cannot be used: {error}; no certificate is asked for"),
            };
            // Said at the second look: after a reload those who had it may still be on their way out.
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
        let off = ErrorLogConfig { destination: LogDestination::Off, level: LogLevel::Info };
        let offers = Offers { http: Arc::default(), tls: TlsShared::new() };
        Authority::new(Arc::default(), offers, ErrorLog::start(&off).unwrap())
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    /// Whether somebody gets a turn now.
    async fn is_free(authority: &Authority, wanted: &[&str]) -> bool {
        let names = names(wanted);
        let turn = authority.turn(&names);
        tokio::pin!(turn);
        let now =
            std::future::poll_fn(|context| std::task::Poll::Ready(turn.as_mut().poll(context).is_ready()));
        now.await
    }

    #[tokio::test]
    async fn orders_with_a_name_in_common_come_one_after_the_other() {
        let authority = authority();
        let (one, other) = (names(&["a.org", "b.org"]), names(&["b.org", "c.org"]));
        let turn = authority.turn(&one).await;
        assert!(!is_free(&authority, &["b.org", "c.org"]).await);
        assert!(is_free(&authority, &["c.org"]).await);
        let (_, next) = tokio::join!(async { drop(turn) }, authority.turn(&other));
        assert!(is_free(&authority, &["a.org"]).await);
        assert!(!is_free(&authority, &["b.org"]).await);
        drop(next);
        assert!(is_free(&authority, &["b.org"]).await);
    }

    #[tokio::test]
    async fn there_is_a_limit_on_orders() {
        let authority = authority();
        let all: Vec<Vec<String>> = (0..MOST_ORDERS).map(|index| names(&[&format!("{index}.org")])).collect();
        let mut turns = Vec::new();
        for names in &all {
            turns.push(authority.turn(names).await);
        }
        assert!(!is_free(&authority, &["z.org"]).await);
        turns.pop();
        assert!(is_free(&authority, &["z.org"]).await);
    }
}
