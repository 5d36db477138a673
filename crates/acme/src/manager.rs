//! The thread that requests certificates, and its commands on a start and on a reload.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use super::authority::Authority;
use super::certificate_task::CertificateTask;
use super::challenge::{HttpChallenges, Offers};
use super::on_demand::{OnDemand, RequestQueue};
use super::on_demand_worker::serve_requests;
use super::plan::{CertificatePlan, Plan};
use touchstone_config::{Config, OnDemandConfig};
use touchstone_observe::log::error::ErrorLog;
use touchstone_observe::metrics::AcmeCounts;
use touchstone_tls::TlsShared;

/// Manages all certificates by ACME. Dropping it stops it at once: unfinished work is started again at the
/// next start.
pub struct AcmeManager {
    plans: watch::Sender<Option<Plan>>,
    offers: Offers,
    error_log: ErrorLog,
    shared: Shared,
    is_started: bool,
}

/// The state for the cores and the metrics.
#[derive(Clone)]
struct Shared {
    on_demand: Arc<OnDemand>,
    counts: Arc<AcmeCounts>,
}

impl AcmeManager {
    /// Creates a manager without a thread; the first plan starts it.
    pub fn new(tls: Arc<TlsShared>, error_log: ErrorLog, counts: Arc<AcmeCounts>) -> AcmeManager {
        let shared = Shared { on_demand: Arc::new(OnDemand::new(counts.clone())), counts };
        tls.set_on_demand(shared.on_demand.clone());
        let (plans, offers) = (watch::Sender::new(None), Offers { http: Arc::default(), tls });
        AcmeManager { plans, offers, error_log, shared, is_started: false }
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
        let managed = ManagedCertificates {
            offers: self.offers.clone(),
            error_log: self.error_log.clone(),
            shared: self.shared.clone(),
            authority: None,
            tasks: HashMap::new(),
            on_demand: None,
            others: None,
        };
        let follow_plans = follow_plans(self.plans.subscribe(), managed);
        std::thread::Builder::new().name("acme".to_string()).spawn(move || {
            runtime.block_on(follow_plans);
            // A name lookup that still runs must not delay the end.
            runtime.shutdown_background();
        })?;
        Ok(())
    }
}

/// Applies each new plan until the channel is closed.
async fn follow_plans(mut plans: watch::Receiver<Option<Plan>>, mut managed: ManagedCertificates) {
    loop {
        let plan = plans.borrow_and_update().clone();
        managed.follow(plan);
        if plans.changed().await.is_err() {
            return;
        }
    }
}

/// The certificates that are being managed.
struct ManagedCertificates {
    offers: Offers,
    error_log: ErrorLog,
    shared: Shared,
    authority: Option<Arc<Authority>>,
    tasks: HashMap<CertificatePlan, AbortHandle>,
    /// The task that obtains certificates on demand.
    on_demand: Option<AbortHandle>,
    /// The task that follows other machines.
    others: Option<AbortHandle>,
}

impl ManagedCertificates {
    fn follow(&mut self, plan: Option<Plan>) {
        let Some(plan) = plan else {
            self.stop_all();
            return;
        };
        let authority = match &self.authority {
            Some(known) if known.settings == plan.settings => known.clone(),
            _ => {
                self.stop_all();
                let new = Authority::new(
                    plan.settings.clone(),
                    self.offers.clone(),
                    self.error_log.clone(),
                    self.shared.counts.clone(),
                );
                let new = self.authority.insert(Arc::new(new)).clone();
                if new.leases.is_some() {
                    self.others = Some(tokio::spawn(new.clone().follow_others()).abort_handle());
                }
                new
            }
        };
        self.shared.counts.set_used();
        let is_wanted = |name: &str| plan.certificates.iter().any(|wanted| wanted.label() == name);
        self.shared.counts.retain_ends(is_wanted);
        self.tasks.retain(|known, task| {
            let is_needed = plan.certificates.contains(known);
            if !is_needed {
                task.abort();
            }
            is_needed
        });
        for certificate in plan.certificates {
            self.tasks.entry(certificate).or_insert_with_key(|certificate| {
                tokio::spawn(CertificateTask::new(authority.clone(), certificate.clone()).run())
                    .abort_handle()
            });
        }
        let rules = plan.settings.on_demand.as_ref().filter(|_| plan.on_demand);
        match (rules, self.on_demand.is_some()) {
            (Some(rules), false) => self.serve_on_demand(rules.clone(), authority),
            (None, true) => self.stop_on_demand(),
            _ => {}
        }
    }

    fn serve_on_demand(&mut self, rules: OnDemandConfig, authority: Arc<Authority>) {
        let (sender, requests) = mpsc::channel(rules.waiting);
        let queue = RequestQueue { sender, most_waiting: rules.waiting };
        self.shared.on_demand.set_queue(Some(queue));
        let serve = serve_requests(rules, authority, self.shared.on_demand.clone(), requests);
        self.on_demand = Some(tokio::spawn(serve).abort_handle());
    }

    fn stop_on_demand(&mut self) {
        self.shared.on_demand.set_queue(None);
        if let Some(task) = self.on_demand.take() {
            task.abort();
        }
    }

    fn stop_all(&mut self) {
        self.tasks.drain().for_each(|(_, task)| task.abort());
        self.stop_on_demand();
        if let Some(task) = self.others.take() {
            task.abort();
        }
        self.authority = None;
    }
}
