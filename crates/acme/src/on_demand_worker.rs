//! Obtains certificates on demand: one order for a name at a time, after the operator's server has allowed
//! the name, within the limits of `[acme.on_demand]`.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use touchstone_client::{HttpClient, Settings};
use touchstone_config::OnDemandConfig;
use touchstone_observe::log::LogLevel;
use touchstone_tls::LoadedCertificate;

use super::authority::Authority;
use super::certificate_task::CertificateTask;
use super::on_demand::{CertificateRequest, InstalledCertificate, OnDemand};
use super::plan::CertificatePlan;
use super::renewal::{Renewal, now_s};

/// The time limit of the queried server.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);

/// The most questions at a time.
const MOST_QUESTIONS: usize = 16;

/// How long a name waits for a further attempt if the queried server did not answer, or a limit was reached.
const SHORT_REFUSAL: Duration = Duration::from_secs(5);

/// The pause between two searches for handshakes that have waited long enough.
const WAIT_CHECK_PAUSE: Duration = Duration::from_millis(500);

/// The largest answer of the queried server; only its status is used.
const MOST_ANSWER_BYTES: usize = 64 * 1024;

/// The user agent of the questions.
const AGENT: &str = concat!("touchstone/", env!("CARGO_PKG_VERSION"));

/// What all requests share.
struct OnDemandWorker {
    rules: OnDemandConfig,
    authority: Arc<Authority>,
    on_demand: Arc<OnDemand>,
    client: Result<HttpClient, String>,
    questions: Semaphore,
    rate: std::sync::Mutex<OrderRate>,
}

/// Limits the orders in a minute: permits that are renewed over time.
struct OrderRate {
    per_minute: f64,
    permits: f64,
    counted: Instant,
}

impl OrderRate {
    fn new(per_minute: u64) -> OrderRate {
        let per_minute = per_minute as f64;
        OrderRate { per_minute, permits: per_minute, counted: Instant::now() }
    }

    fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.counted).as_secs_f64();
        self.counted = now;
        self.permits = (self.permits + passed * self.per_minute / 60.0).min(self.per_minute);
        let has_permit = self.permits >= 1.0;
        if has_permit {
            self.permits -= 1.0;
        }
        has_permit
    }
}

/// A name that is being worked on, with the handshakes that wait for it.
type Waiters = Vec<(Instant, oneshot::Sender<()>)>;

/// Answers requests until the queue is closed.
pub async fn serve_requests(
    rules: OnDemandConfig,
    authority: Arc<Authority>,
    on_demand: Arc<OnDemand>,
    mut requests: mpsc::Receiver<CertificateRequest>,
) {
    let client = HttpClient::new(Settings {
        ca_certificate: None,
        ca_key: "the system's certificate authorities",
        user_agent: AGENT,
        most_answer_bytes: MOST_ANSWER_BYTES,
    });
    let rate = std::sync::Mutex::new(OrderRate::new(rules.orders_per_minute));
    let questions = Semaphore::new(MOST_QUESTIONS);
    let worker = Arc::new(OnDemandWorker { rules, authority, on_demand, client, questions, rate });
    let mut waiting: HashMap<Box<str>, Waiters> = HashMap::new();
    let mut jobs: JoinSet<Box<str>> = JoinSet::new();
    let mut wait_check = tokio::time::interval(WAIT_CHECK_PAUSE);
    loop {
        tokio::select! {
            request = requests.recv() => {
                let Some(CertificateRequest { name, waiter }) = request else { return };
                let is_new = !waiting.contains_key(&name);
                // As many names as handshakes may wait; the others try again.
                if is_new && waiting.len() >= worker.rules.waiting {
                    worker.on_demand.refuse(&name, SHORT_REFUSAL);
                    continue;
                }
                let until = Instant::now() + worker.rules.wait;
                let waiters = waiting.entry(name.clone()).or_default();
                waiters.extend(waiter.map(|waiter| (until, waiter)));
                if is_new {
                    let worker = worker.clone();
                    jobs.spawn(async move {
                        worker.obtain(&name).await;
                        name
                    });
                }
            }
            Some(done) = jobs.join_next() => match done {
                // Dropping the waiters lets the handshakes continue.
                Ok(name) => drop(waiting.remove(&name)),
                // Only a panic ends a job without its name.
                Err(_) => waiting.clear(),
            },
            _ = wait_check.tick() => {
                let now = Instant::now();
                waiting.values_mut().for_each(|waiters| waiters.retain(|(until, _)| *until > now));
            }
        }
    }
}

impl OnDemandWorker {
    /// Obtains and installs a certificate for a name, or stores that it gets none.
    async fn obtain(&self, name: &str) {
        let log = &self.authority.error_log;
        let mut task = CertificateTask::new(self.authority.clone(), CertificatePlan::on_demand(name));
        let stored = task.stored_certificate().filter(|stored| self.renew_at_s(stored) > now_s());
        if let Some(stored) = stored {
            return self.install(name, &stored);
        }
        match self.query(name).await {
            Ok(true) => {}
            Ok(false) => {
                log.limited(
                    LogLevel::Info,
                    "names without a certificate",
                    format_args!(
                        "acme: {name} gets no certificate: the server of acme.on_demand.ask refuses"
                    ),
                );
                return self.on_demand.refuse(name, self.rules.refusal_time);
            }
            Err(reason) => {
                log.failing("acme.on_demand.ask", format_args!("{reason}; no new certificates until then"));
                return self.on_demand.refuse(name, SHORT_REFUSAL);
            }
        }
        if let Err(reason) = self.check_limits() {
            log.limited(
                LogLevel::Warning,
                "certificates over a limit",
                format_args!("acme: {name} gets no certificate now: {reason}"),
            );
            return self.on_demand.refuse(name, SHORT_REFUSAL);
        }
        self.authority.wait_for_storage().await;
        match task.order_once().await {
            Ok(certificate) => self.install(name, &certificate),
            Err((failure, requested_wait)) => {
                let wait = self.authority.settings.retry_after.max(requested_wait);
                log.limited(
                    LogLevel::Warning,
                    "certificates that failed",
                    format_args!(
                        "acme: no certificate for {name}: {failure}; next attempt in {} s",
                        wait.as_secs()
                    ),
                );
                self.on_demand.refuse(name, wait);
            }
        }
    }

    fn install(&self, name: &str, certificate: &LoadedCertificate) {
        let known = InstalledCertificate {
            certified: certificate.certified.clone(),
            renew_at_s: self.renew_at_s(certificate),
            not_after_s: certificate.not_after_s,
            is_renewing: AtomicBool::new(false),
        };
        self.on_demand.insert(name, known);
    }

    fn renew_at_s(&self, certificate: &LoadedCertificate) -> i64 {
        Renewal::by_life(certificate, &self.authority.settings, now_s()).at_s
    }

    fn check_limits(&self) -> Result<(), String> {
        if self.on_demand.count() >= self.rules.names {
            return Err(format!("the limit acme.on_demand.names ({}) is reached", self.rules.names));
        }
        let mut rate = self.rate.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match rate.take(Instant::now()) {
            true => Ok(()),
            false => {
                let most = self.rules.orders_per_minute;
                Err(format!("the limit acme.on_demand.orders_per_minute ({most}) is reached"))
            }
        }
    }

    /// Queries whether a name may have a certificate.
    async fn query(&self, name: &str) -> Result<bool, String> {
        // The semaphore is never closed.
        let _permit = self.questions.acquire().await.ok();
        self.authority.counts.on_demand_queries.fetch_add(1, Ordering::Relaxed);
        let client = self.client.as_ref().map_err(Clone::clone)?;
        let request = http::Request::get(query_url(&self.rules.ask, name))
            .body(http_body_util::Empty::<bytes::Bytes>::new())
            .map_err(|error| error.to_string())?;
        let answer = timeout(QUERY_TIMEOUT, client.send(request)).await;
        match answer {
            Ok(Ok(answer)) if answer.status() == http::StatusCode::OK => Ok(true),
            Ok(Ok(answer)) if answer.status().is_server_error() => {
                Err(format!("answered {}", answer.status()))
            }
            Ok(Ok(_)) => Ok(false),
            Ok(Err(unanswered)) => Err(unanswered.0),
            Err(_) => Err(format!("no answer in {} s", QUERY_TIMEOUT.as_secs())),
        }
    }
}

/// The URL with the name added; a name needs no escapes.
fn query_url(url: &str, name: &str) -> String {
    let url = url.split_once('#').map_or(url, |(before, _)| before);
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}domain={name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_with_names() {
        assert_eq!(query_url("http://127.0.0.1/a", "b.org"), "http://127.0.0.1/a?domain=b.org");
        assert_eq!(query_url("https://a.org/?key=1#x", "b.org"), "https://a.org/?key=1&domain=b.org");
    }

    #[tokio::test]
    async fn orders_in_a_minute() {
        let mut rate = OrderRate::new(2);
        let now = rate.counted;
        assert_eq!([rate.take(now), rate.take(now), rate.take(now)], [true, true, false]);
        assert!(!rate.take(now + Duration::from_secs(20)));
        assert!(rate.take(now + Duration::from_secs(31)));
        assert!(!rate.take(now + Duration::from_secs(32)));
        let later = now + Duration::from_secs(3600);
        assert_eq!([rate.take(later), rate.take(later), rate.take(later)], [true, true, false]);
    }
}
