//! The life of one certificate: requested, kept, renewed, and requested again after a failure.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use instant_acme::CertificateIdentifier;

use super::authority::Authority;
use super::client::AuthorityClient;
use super::failure::Failure;
use super::order::{self, CertificateOrder, IssuedCertificate};
use super::plan::CertificatePlan;
use super::renewal::{self, Renewal, Suggestion, now_s};
use super::shared::Lease;
use touchstone_config::{AcmeChallenge, AcmeConfig};
use touchstone_tls::LoadedCertificate;

/// The minimum time between two orders for the same certificate, for any reason.
const LEAST_BETWEEN_ORDERS: Duration = Duration::from_secs(60);

/// The maximum sleep: the clock may be set, and machines may be suspended.
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

/// The maximum time for one order.
const ORDER_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Keeps one certificate.
pub struct CertificateTask {
    authority: Arc<Authority>,
    plan: CertificatePlan,
    /// The number of failures since the last success.
    failures: u32,
    /// The last message about a certificate that cannot be used.
    last_problem: String,
}

/// The pause before the next attempt to get the lease of another machine.
const LEASE_PAUSE: Duration = Duration::from_secs(1);

/// The right to make an order.
enum LeaseResult {
    /// There are no other machines.
    Alone,
    /// This machine has it.
    Held(Lease),
    /// Another machine has sent the order.
    ByOthers,
}

impl LeaseResult {
    /// Waits until the right is lost.
    async fn lost(&self) {
        match self {
            LeaseResult::Held(lease) => lease.lost().await,
            LeaseResult::Alone | LeaseResult::ByOthers => std::future::pending().await,
        }
    }
}

impl CertificateTask {
    /// For the certificate of this plan.
    pub fn new(authority: Arc<Authority>, plan: CertificatePlan) -> CertificateTask {
        CertificateTask { authority, plan, failures: 0, last_problem: String::new() }
    }

    /// Keeps the certificate current, without an end.
    pub async fn run(mut self) {
        self.authority.wait_for_storage().await;
        let mut renewal: Option<Renewal> = None;
        loop {
            let Some(kept) = self.stored_certificate() else {
                self.order_or_wait(None, None).await;
                continue;
            };
            let mut next = match renewal.take() {
                Some(known) if known.is_of(&kept) => known,
                _ => Renewal::by_life(&kept, &self.authority.settings, now_s()),
            };
            if next.query_again_s.is_some_and(|at_s| at_s <= now_s()) {
                self.query_renewal_time(&mut next, &kept).await;
            }
            if next.at_s <= now_s() {
                let replaces = if next.can_be_replaced { renewal::identifier(&kept) } else { None };
                self.order_or_wait(Some(&kept), replaces).await;
            } else {
                let until_s = next.query_again_s.map_or(next.at_s, |query_s| query_s.min(next.at_s));
                tokio::time::sleep(until(until_s).min(LONGEST_SLEEP)).await;
            }
            renewal = Some(next);
        }
    }

    /// The stored certificate, if it is for all names.
    pub fn stored_certificate(&mut self) -> Option<LoadedCertificate> {
        let file = self.authority.storage.certificate_file(&self.plan.storage_name());
        if !file.exists() {
            return None;
        }
        let provider = self.authority.offers.tls.provider();
        let problem = match LoadedCertificate::from_files(&file, &file, provider) {
            Ok(loaded) => match self.plan.names.iter().find(|name| !loaded.is_for(name)) {
                None => {
                    if !self.plan.is_on_demand {
                        self.authority.counts.set_end(self.plan.label(), loaded.not_after_s);
                    }
                    return Some(loaded);
                }
                Some(name) => format!("the certificate in {} is not for {name}", file.display()),
            },
            Err(problem) => problem.to_string(),
        };
        if problem != self.last_problem {
            self.authority.error_log.warning(format_args!("acme: {problem}: a new one is requested"));
            self.last_problem = problem;
        }
        None
    }

    async fn query_renewal_time(&self, renewal: &mut Renewal, kept: &LoadedCertificate) {
        let account = async { self.authority.account(&self.authority.client()?).await };
        let suggestion = match account.await {
            Ok(account) => renewal::query(&account, kept).await,
            Err(failure) => Suggestion::Failed(failure),
        };
        let (label, log) = (self.plan.label(), &self.authority.error_log);
        if let Suggestion::Failed(failure) = &suggestion {
            log.warning(format_args!(
                "acme: the authority does not state when to renew the certificate of {label}: {failure}"
            ));
        }
        let before_s = renewal.at_s;
        renewal.apply(suggestion, now_s());
        if renewal.at_s < before_s && renewal.at_s <= now_s() {
            let why = renewal.explanation.as_deref().map_or(String::new(), |page| format!(" (see {page})"));
            log.info(format_args!(
                "acme: the authority requests the renewal of the certificate of {label} \
                now{why}"
            ));
        }
    }

    /// Makes one order. After a failure it logs the reason, and waits.
    async fn order_or_wait(
        &mut self,
        kept: Option<&LoadedCertificate>,
        replaces: Option<CertificateIdentifier<'static>>,
    ) {
        self.wait_between_orders().await;
        let lease = match self.lease(kept).await {
            Ok(lease) => lease,
            Err(failure) => {
                self.failures = self.failures.saturating_add(1);
                return self.log_and_wait(&failure, kept, Duration::ZERO).await;
            }
        };
        if let LeaseResult::ByOthers = lease {
            self.failures = 0;
            return;
        }
        match self.limited_order(replaces, lease).await {
            Ok(_) => self.failures = 0,
            Err((failure, requested_wait)) => {
                self.failures = self.failures.saturating_add(1);
                self.log_and_wait(&failure, kept, requested_wait).await;
            }
        }
    }

    /// Sends one order without waits; a failure contains the time until which the authority requests to wait.
    pub async fn order_once(&mut self) -> Result<LoadedCertificate, (Failure, Duration)> {
        let lease = self.lease(None).await.map_err(|failure| (failure, Duration::ZERO))?;
        if let (LeaseResult::ByOthers, Some(certificate)) = (&lease, self.stored_certificate()) {
            return Ok(certificate);
        }
        self.limited_order(None, lease).await
    }

    /// Waits until no other machine has an order for this certificate, and acquires the lease for one. If
    /// another machine has received the certificate before, no order is needed.
    async fn lease(&mut self, before: Option<&LoadedCertificate>) -> Result<LeaseResult, Failure> {
        let authority = self.authority.clone();
        let Some(leases) = &authority.leases else { return Ok(LeaseResult::Alone) };
        let name = self.plan.storage_name();
        let file = authority.storage.certificate_file(&name);
        loop {
            let lease = leases.take(&name).await.map_err(Failure::Own)?;
            authority.fetch_file(&file).await?;
            let end_s = before.map_or(i64::MIN, |before| before.not_after_s);
            if self.stored_certificate().is_some_and(|kept| kept.not_after_s > end_s) {
                return Ok(LeaseResult::ByOthers);
            }
            let Some(lease) = lease else {
                tokio::time::sleep(LEASE_PAUSE).await;
                continue;
            };
            if let Some(other) = &lease.previous_holder {
                authority.error_log.warning(format_args!(
                    "acme: {other} has not finished its order for {}: this machine takes its place",
                    self.plan.label()
                ));
            }
            return Ok(LeaseResult::Held(lease));
        }
    }

    /// One order, within the limits on time and on orders at the same time.
    async fn limited_order(
        &self,
        replaces: Option<CertificateIdentifier<'static>>,
        lease: LeaseResult,
    ) -> Result<LoadedCertificate, (Failure, Duration)> {
        let mut not_before = None;
        let result = {
            let _permit = self.authority.order_permit(&self.plan.names).await;
            let order = self.order(replaces, &mut not_before);
            tokio::select! {
                result = order => result,
                () = tokio::time::sleep(ORDER_TIMEOUT) => {
                    Err(Failure::Own(format!("no certificate in {} minutes", ORDER_TIMEOUT.as_secs() / 60)))
                }
                () = lease.lost() => Err(Failure::Own("another machine has taken its place".to_string())),
            }
        };
        drop(lease);
        let counts = &self.authority.counts;
        match result {
            Ok(certificate) => {
                counts.orders_done.fetch_add(1, Ordering::Relaxed);
                self.authority.error_log.info(format_args!(
                    "acme: new certificate for {}, valid until {}",
                    self.plan.names.join(", "),
                    certificate.end_day()
                ));
                Ok(certificate)
            }
            Err(failure) => {
                counts.orders_failed.fetch_add(1, Ordering::Relaxed);
                // Without the note, other machines only try sooner.
                let _ = self.authority.storage.note_failure(&self.plan.storage_name(), now_s());
                Err((failure, not_before.map_or(Duration::ZERO, from_now)))
            }
        }
    }

    /// Logs a failure, and waits, at least as long as the authority requests.
    async fn log_and_wait(
        &self,
        failure: &Failure,
        kept: Option<&LoadedCertificate>,
        requested_wait: Duration,
    ) {
        let (label, log) = (self.plan.label(), &self.authority.error_log);
        let remaining = kept.map(|certificate| until(certificate.not_after_s));
        let wait = wait_after_failure(self.failures, &self.authority.settings, remaining);
        let wait = renewal::spread(wait).max(requested_wait);
        let then = format!("next attempt in {}", words(wait));
        match kept {
            Some(certificate) => log.warning(format_args!(
                "acme: the certificate for {label}, valid until {}, is not renewed: {failure}; {then}",
                certificate.end_day()
            )),
            None => log.error(format_args!("acme: no certificate for {label}: {failure}; {then}")),
        }
        tokio::time::sleep(wait).await;
    }

    /// Sends one order; also returns the time until which the authority requests to wait.
    async fn order(
        &self,
        replaces: Option<CertificateIdentifier<'static>>,
        not_before: &mut Option<SystemTime>,
    ) -> Result<LoadedCertificate, Failure> {
        let authority = &self.authority;
        let storage_name = &self.plan.storage_name();
        authority.storage.note_attempt(storage_name, now_s()).map_err(|error| {
            Failure::Own(format!("{} cannot be written: {error}", authority.settings.storage.display()))
        })?;
        let client = authority.client()?;
        let issued = match self.order_by_any(replaces.clone(), &client).await {
            Err(failure) if failure.is_unknown_account() => {
                authority
                    .error_log
                    .warning("acme: the authority has removed the account: a new one is registered");
                authority.forget_account().await?;
                self.order_by_any(replaces.clone(), &client).await
            }
            Err(failure) if replaces.is_some() && failure.may_be_of_replaced_certificate() => {
                self.order_by_any(None, &client).await
            }
            other => other,
        };
        *not_before = client.take_not_before();
        let issued = issued?;
        let file = authority.storage.certificate_file(storage_name);
        authority
            .storage
            .write(&file, issued.pem.as_bytes())
            .map_err(|error| Failure::Own(format!("{}: cannot be written: {error}", file.display())))?;
        authority.publish_file(&file).await?;
        Ok(issued.certificate)
    }

    /// Makes orders with one challenge type after the other until one succeeds.
    async fn order_by_any(
        &self,
        replaces: Option<CertificateIdentifier<'static>>,
        client: &AuthorityClient,
    ) -> Result<IssuedCertificate, Failure> {
        let authority = &self.authority;
        let account = authority.account(client).await?;
        let challenges = challenges_of_attempt(&authority.settings.challenges, self.failures);
        let mut result =
            Err(Failure::Own("acme.challenges names no challenge that can succeed here".to_string()));
        for &challenge in &challenges {
            if let Err(failure @ Failure::Challenge { .. }) = &result {
                let (label, next) = (self.plan.label(), challenge.name());
                authority.error_log.warning(format_args!("acme: {label}: {failure}; next attempt by {next}"));
            }
            authority.error_log.info(format_args!(
                "acme: a certificate for {} is requested from {} by {}",
                self.plan.names.join(", "),
                authority.settings.directory,
                challenge.name()
            ));
            let wanted = CertificateOrder { names: &self.plan.names, challenge, replaces: replaces.clone() };
            result = order::obtain(authority, &account, client, wanted).await;
            if !matches!(result, Err(Failure::Challenge { .. })) {
                break;
            }
        }
        result
    }

    /// Limits the orders even after restarts and if the authority always requests renewal.
    async fn wait_between_orders(&self) {
        let (settings, storage_name) = (&self.authority.settings, self.plan.storage_name());
        // The waits after failures are those of one machine: the others must not fill them.
        let has_failed = self.authority.leases.is_some() && self.authority.storage.has_failed(&storage_name);
        let least = match has_failed {
            true => settings.retry_after,
            false => settings.retry_after.min(LEAST_BETWEEN_ORDERS),
        };
        let Some(last_s) = self.authority.storage.last_attempt_s(&storage_name) else { return };
        let least_s = i64::try_from(least.as_secs()).unwrap_or(60);
        // A time in the future means that the clock was set back.
        if (0..least_s).contains(&(now_s() - last_s)) {
            tokio::time::sleep(until(last_s + least_s)).await;
        }
    }
}

/// The challenge types to try: at first all of them, one after the other; later one at a time, because
/// authorities count failed proofs.
fn challenges_of_attempt(challenges: &[AcmeChallenge], failures: u32) -> Vec<AcmeChallenge> {
    if failures == 0 || challenges.is_empty() {
        return challenges.to_vec();
    }
    vec![challenges[failures as usize % challenges.len()]]
}

/// Doubles the wait after each failure; if a certificate is about to expire, the wait is at most a quarter of
/// the remaining time.
fn wait_after_failure(failures: u32, settings: &AcmeConfig, remaining: Option<Duration>) -> Duration {
    let doubled = 2u32.saturating_pow(failures.saturating_sub(1).min(30));
    let wait = settings.retry_after.saturating_mul(doubled).min(settings.retry_at_most);
    match remaining {
        Some(remaining) => wait.min((remaining / 4).max(settings.retry_after)),
        None => wait,
    }
}

/// The time until a moment in seconds since 1970.
fn until(moment_s: i64) -> Duration {
    Duration::from_secs(u64::try_from(moment_s.saturating_sub(now_s())).unwrap_or(0))
}

fn from_now(moment: SystemTime) -> Duration {
    moment.duration_since(SystemTime::now()).unwrap_or_default()
}

fn words(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..120 => format!("{} s", seconds.max(1)),
        seconds @ 120..7200 => format!("{} minutes", seconds / 60),
        seconds => format!("{} hours", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_the_limit() {
        let settings = AcmeConfig {
            retry_after: Duration::from_secs(300),
            retry_at_most: Duration::from_secs(12 * 3600),
            ..AcmeConfig::default()
        };
        let wait = |failures| wait_after_failure(failures, &settings, None).as_secs();
        assert_eq!([wait(1), wait(2), wait(3), wait(8), wait(9)], [300, 600, 1200, 38_400, 43_200]);
        assert_eq!(wait(u32::MAX), 43_200);
        let left = |seconds| wait_after_failure(9, &settings, Some(Duration::from_secs(seconds))).as_secs();
        assert_eq!([left(1 << 30), left(8000), left(1000), left(0)], [43_200, 2000, 300, 300]);
    }

    #[test]
    fn proofs_take_turns_after_a_failure() {
        use AcmeChallenge::{Http01, TlsAlpn01};
        let both = [TlsAlpn01, Http01];
        assert_eq!(challenges_of_attempt(&both, 0), both);
        assert_eq!(challenges_of_attempt(&both, 1), [Http01]);
        assert_eq!(challenges_of_attempt(&both, 2), [TlsAlpn01]);
        assert_eq!(challenges_of_attempt(&[TlsAlpn01], 5), [TlsAlpn01]);
        assert_eq!(challenges_of_attempt(&[], 5), []);
    }

    #[test]
    fn lengths_of_time_in_words() {
        let words = |seconds| words(Duration::from_secs(seconds));
        assert_eq!(
            [words(0), words(61), words(300), words(43_200)],
            ["1 s", "61 s", "5 minutes", "12 hours"]
        );
    }
}
