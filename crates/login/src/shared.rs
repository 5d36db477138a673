//! What all logins of a server share. A reload keeps it.

use std::sync::{Arc, OnceLock};

use touchstone_access::Report;
use touchstone_handler::shared_by_name::SharedByName;

use crate::logout_table::LogoutTable;
use crate::provider::{Provider, ProviderSettings};
use crate::renewal_table::RenewalTable;
use crate::seal::{SealingKeys, random_text};

/// The providers of a server, and the key of its cookies.
#[derive(Default)]
pub struct LoginShared {
    providers: SharedByName<ProviderSettings, Provider>,
    /// By issuer: a reload may change the other settings of a provider while a session is renewed.
    renewals: SharedByName<String, RenewalTable>,
    /// The same is true of sessions that the issuer has ended.
    logouts: SharedByName<String, LogoutTable>,
    keys: OnceLock<Arc<SealingKeys>>,
}

impl LoginShared {
    /// The provider with these settings. The error describes their problem.
    pub(crate) fn provider(
        &self,
        settings: ProviderSettings,
        report: Report,
    ) -> Result<Arc<Provider>, String> {
        self.providers.of_or(settings, |settings| {
            let renewals = self.renewals.of(settings.issuer.clone());
            let logouts = self.logouts.of(settings.issuer.clone());
            Provider::start(settings.clone(), renewals, logouts, report)
        })
    }

    /// The key of logins without a key file, generated at the first use.
    pub(crate) fn keys(&self) -> Arc<SealingKeys> {
        let make = || Arc::new(SealingKeys::from_secrets(&[random_text::<32>()]));
        self.keys.get_or_init(make).clone()
    }
}
