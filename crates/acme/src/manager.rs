//! The thread that requests certificates, and its commands on a start and on a reload.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::authority::Authority;
use super::certificate_task::CertificateTask;
use super::challenge::{HttpChallenges, Offers};
use super::plan::{CertificatePlan, Plan};
use touchstone_config::Config;
use touchstone_observe::log::error::ErrorLog;
use touchstone_tls::TlsShared;

/// Manages all certificates by ACME. Dropping it stops it at once: unfinished work is started again at the
/// next start.
pub struct AcmeManager {
    plans: watch::Sender<Option<Plan>>,
    offers: Offers,
    error_log: ErrorLog,
    is_started: bool,
}

impl AcmeManager {
    /// Creates a manager without a thread; the first plan starts it.
    pub fn new(tls: Arc<TlsShared>, error_log: ErrorLog) -> AcmeManager {
        let (plans, offers) = (watch::Sender::new(None), Offers { http: Arc::default(), tls });
        AcmeManager { plans, offers, error_log, is_started: false }
    }

    /// The proofs that it publishes in plain HTTP.
    pub fn http_challenges(&self) -> &Arc<HttpChallenges> {
        &self.offers.http
    }

    /// Manages the certificates of this configuration from now on. Certificates whose settings have not
    /// changed are not disturbed.
    pub fn apply_config(&mut self, config: &Config) {
        let plan = Plan::of(config);
        if plan.is_some() && !self.is_started {
            match self.start() {
                Ok(()) => self.is_started = true,
                Err(error) => {
                    return self.error_log.error(format_args!(
                        "acme: no certificates are requested, because no thread can be started: {error}"
                    ));
                }
            }
        }
        self.plans.send_if_modified(|known| {
            let is_new = *known != plan;
            *known = plan;
            is_new
        });
    }

    fn start(&self) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let follow_plans = follow_plans(self.plans.subscribe(), self.offers.clone(), self.error_log.clone());
        std::thread::Builder::new().name("acme".to_string()).spawn(move || {
            runtime.block_on(follow_plans);
            // A name lookup that is under way must not delay the end.
            runtime.shutdown_background();
        })?;
        Ok(())
    }
}

/// Applies each new plan until the channel is closed.
async fn follow_plans(mut plans: watch::Receiver<Option<Plan>>, offers: Offers, error_log: ErrorLog) {
    let mut managed = ManagedCertificates { authority: None, tasks: HashMap::new() };
    loop {
        let plan = plans.borrow_and_update().clone();
        managed.follow(plan, &offers, &error_log);
        if plans.changed().await.is_err() {
            return;
        }
    }
}

/// The certificates that are being managed.
struct ManagedCertificates {
    authority: Option<Arc<Authority>>,
    tasks: HashMap<CertificatePlan, AbortHandle>,
}

impl ManagedCertificates {
    fn follow(&mut self, plan: Option<Plan>, offers: &Offers, error_log: &ErrorLog) {
        let Some(plan) = plan else {
            self.stop_all();
            return;
        };
        let authority = match &self.authority {
            Some(known) if known.settings == plan.settings => known.clone(),
            _ => {
                self.stop_all();
                let new = Authority::new(plan.settings.clone(), offers.clone(), error_log.clone());
                self.authority.insert(Arc::new(new)).clone()
            }
        };
        self.tasks.retain(|known, task| {
            let stays = plan.certificates.contains(known);
            if !stays {
                task.abort();
            }
            stays
        });
        for certificate in plan.certificates {
            self.tasks.entry(certificate).or_insert_with_key(|certificate| {
                tokio::spawn(CertificateTask::new(authority.clone(), certificate.clone()).run())
                    .abort_handle()
            });
        }
    }

    fn stop_all(&mut self) {
        self.tasks.drain().for_each(|(_, task)| task.abort());
        self.authority = None;
    }
}
