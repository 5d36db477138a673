//! What all certificates of an authority share: its account, the files, the way to it, and a limit on what is asked
//! of it at a time.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use instant_acme::Account;
use tokio::sync::{Mutex, OnceCell, Semaphore};

use super::account;
use super::challenge::Offers;
use super::client::AuthorityClient;
use super::failure::Failure;
use super::storage::Storage;
use crate::config::AcmeConfig;
use crate::log::error::ErrorLog;

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
    /// Held by each order while it lasts.
    pub orders: Semaphore,
    /// Two orders must not register at the same time.
    account: Mutex<()>,
    lock: OnceCell<File>,
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
            account: Mutex::new(()),
            lock: OnceCell::new(),
        }
    }

    /// Waits until this process is the one that asks for certificates in this storage. While an old process ends after
    /// an upgrade, the new one serves what is there.
    pub async fn wait_for_storage(&self) {
        self.lock.get_or_init(|| self.lock_storage()).await;
    }

    /// The account, and the way to the authority.
    pub async fn account(&self) -> Result<(Account, AuthorityClient), Failure> {
        let provider = self.offers.tls.provider().clone();
        let client =
            AuthorityClient::new(provider, self.settings.ca_certificate.as_deref()).map_err(Failure::Own)?;
        let _alone = self.account.lock().await;
        let account = account::open(&self.settings, &self.storage, &client, &self.error_log).await?;
        Ok((account, client))
    }

    /// Puts the account aside that the authority does not know any more.
    pub async fn forget_account(&self) -> Result<(), Failure> {
        let _alone = self.account.lock().await;
        account::forget(&self.storage)
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
