//! What all logins of a server share. A reload keeps it.

use std::sync::{Arc, OnceLock};

use touchstone_handler::named::Named;

use crate::logout_table::LogoutTable;
use crate::provider::{Provider, ProviderSettings};
use crate::renewal_table::RenewalTable;
use crate::seal::{SealingKeys, random_text};

/// The providers of a server, and the key of its cookies.
#[derive(Default)]
pub struct LoginShared {
    pub(crate) providers: Named<ProviderSettings, Provider>,
    /// By issuer: a reload may change the other settings of a provider while a session is renewed.
    pub(crate) renewals: Named<String, RenewalTable>,
    /// The same is true of sessions that the issuer has ended.
    pub(crate) logouts: Named<String, LogoutTable>,
    keys: OnceLock<Arc<SealingKeys>>,
}

impl LoginShared {
    /// The key of logins without a key file, generated at the first use.
    pub(crate) fn keys(&self) -> Arc<SealingKeys> {
        let make = || Arc::new(SealingKeys::from_secrets(&[random_text::<32>()]));
        self.keys.get_or_init(make).clone()
    }
}
