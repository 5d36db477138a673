//! Certificates at the first handshake of a name: the table for the cores. They look up names, and pass names
//! without a certificate to the thread that obtains certificates ([`super::on_demand_worker`]).
//!
//! A flood of invented names costs little: a refused name is stored, the number of waiting handshakes is
//! limited, and so is the queue of the thread.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use rustls::sign::CertifiedKey;
use tokio::sync::{mpsc, oneshot};
use touchstone_observe::metrics::AcmeCounts;
use touchstone_tls::{CertificateWait, CertificatesOnDemand};

use super::renewal::now_s;

/// The most refused names that are stored. When there are more, all are removed.
const MOST_REFUSED: usize = 65_536;

/// The certificates on demand of the process.
#[derive(Default)]
pub struct OnDemand {
    certificates: RwLock<HashMap<Box<str>, InstalledCertificate>>,
    /// Names without a certificate, and until when that stays so.
    refused: Mutex<HashMap<Box<str>, Instant>>,
    /// Handshakes that wait.
    waiting: Arc<AtomicUsize>,
    /// The way to the thread; `None` while no site is on demand.
    queue: RwLock<Option<RequestQueue>>,
    counts: Arc<AcmeCounts>,
}

/// A certificate in use.
pub struct InstalledCertificate {
    /// With its key.
    pub certified: Arc<CertifiedKey>,
    /// When the next handshake requests a renewal.
    pub renew_at_s: i64,
    /// When it ends.
    pub not_after_s: i64,
    /// A renewal was requested.
    pub is_renewing: AtomicBool,
}

/// The way to the thread.
pub struct RequestQueue {
    /// Its requests.
    pub sender: mpsc::Sender<CertificateRequest>,
    /// The most handshakes that may wait.
    pub most_waiting: usize,
}

/// A request for the certificate of a name.
pub struct CertificateRequest {
    /// The name.
    pub name: Box<str>,
    /// The handshake that waits; `None` for a renewal. Dropping it ends the wait.
    pub waiter: Option<oneshot::Sender<()>>,
}

/// Counts a handshake that waits, until it does no more.
struct WaitingHandshake(Arc<AtomicUsize>);

impl Drop for WaitingHandshake {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl OnDemand {
    /// Counts in `counts`.
    pub fn new(counts: Arc<AcmeCounts>) -> OnDemand {
        OnDemand { counts, ..OnDemand::default() }
    }

    /// Sets the way to the thread, or closes it.
    pub fn set_queue(&self, queue: Option<RequestQueue>) {
        *self.queue.write().unwrap_or_else(PoisonError::into_inner) = queue;
    }

    /// Installs a certificate.
    pub fn insert(&self, name: &str, certificate: InstalledCertificate) {
        let mut table = self.certificates.write().unwrap_or_else(PoisonError::into_inner);
        table.insert(name.into(), certificate);
        self.counts.on_demand_names.store(table.len() as u64, Ordering::Relaxed);
        drop(table);
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// How many names have a certificate in use.
    pub fn count(&self) -> usize {
        self.certificates.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Stores for some time that a name gets no certificate. An existing certificate stays in use until it
    /// expires.
    pub fn refuse(&self, name: &str, time: Duration) {
        let now = Instant::now();
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.len() >= MOST_REFUSED {
            refused.retain(|_, until| *until > now);
        }
        if refused.len() >= MOST_REFUSED {
            // A search for the one that expires first would cost more each time than another query.
            refused.clear();
        }
        refused.insert(name.into(), now + time);
        drop(refused);
        let table = self.certificates.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = table.get(name) {
            known.is_renewing.store(false, Ordering::Relaxed);
        }
    }

    fn is_refused(&self, name: &str) -> bool {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.get(name).is_some_and(|until| *until > Instant::now())
    }

    fn send(&self, request: CertificateRequest) -> bool {
        let queue = self.queue.read().unwrap_or_else(PoisonError::into_inner);
        queue.as_ref().is_some_and(|queue| queue.sender.try_send(request).is_ok())
    }

    /// Requests a renewal, once.
    #[cold]
    fn request_renewal(&self, name: &str, known: &InstalledCertificate) {
        if self.is_refused(name) || known.is_renewing.swap(true, Ordering::Relaxed) {
            return;
        }
        if !self.send(CertificateRequest { name: name.into(), waiter: None }) {
            known.is_renewing.store(false, Ordering::Relaxed);
        }
    }
}

impl CertificatesOnDemand for OnDemand {
    fn find(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let table = self.certificates.read().unwrap_or_else(PoisonError::into_inner);
        let known = table.get(name)?;
        let now_s = now_s();
        if now_s >= known.renew_at_s {
            self.request_renewal(name, known);
        }
        (now_s < known.not_after_s).then(|| known.certified.clone())
    }

    fn request(&self, name: &str) -> Option<CertificateWait> {
        if !may_have_certificate(name) || self.is_refused(name) {
            self.counts.on_demand_refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let most_waiting = {
            let queue = self.queue.read().unwrap_or_else(PoisonError::into_inner);
            queue.as_ref()?.most_waiting
        };
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = WaitingHandshake(self.waiting.clone());
        let (sender, receiver) = oneshot::channel();
        let request = CertificateRequest { name: name.into(), waiter: Some(sender) };
        if before >= most_waiting || !self.send(request) {
            self.counts.on_demand_overload.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(Box::pin(async move {
            let _waiting = waiting;
            // The sender is dropped when the answer is available.
            let _ = receiver.await;
        }))
    }
}

/// Whether an authority could issue a certificate for a name: a host name with at least one dot.
fn may_have_certificate(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253
        && name.contains('.')
        && name.split('.').all(is_label)
        && !name.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn on_demand(most_waiting: usize, queued: usize) -> (OnDemand, mpsc::Receiver<CertificateRequest>) {
        let on_demand = OnDemand::new(Arc::default());
        let (sender, receiver) = mpsc::channel(queued);
        on_demand.set_queue(Some(RequestQueue { sender, most_waiting }));
        (on_demand, receiver)
    }

    #[test]
    fn names_that_can_have_certificates() {
        for name in ["a.org", "xn--bcher-kva.example", "a.b.c.d", &format!("{}.org", "a".repeat(63))] {
            assert!(may_have_certificate(name), "{name}");
        }
        let long = format!("{}.org", "a".repeat(64));
        for name in ["", "localhost", "a_b.org", "-a.org", "a-.org", "a..org", ".org", "127.0.0.1", &long] {
            assert!(!may_have_certificate(name), "{name}");
        }
    }

    #[test]
    fn handshakes_that_wait_are_limited() {
        let (on_demand, mut requests) = on_demand(2, 16);
        let first = on_demand.request("a.org").expect("it waits");
        let _second = on_demand.request("b.org").expect("it waits");
        assert!(on_demand.request("c.org").is_none());
        assert_eq!(on_demand.counts.on_demand_overload.load(Ordering::Relaxed), 1);
        drop(first);
        assert!(on_demand.request("c.org").is_some());
        assert_eq!(&*requests.try_recv().expect("a request").name, "a.org");
    }

    #[test]
    fn the_queue_is_limited() {
        let (on_demand, _requests) = on_demand(100, 1);
        let _first = on_demand.request("a.org").expect("it waits");
        assert!(on_demand.request("b.org").is_none());
        on_demand.set_queue(None);
        assert!(on_demand.request("c.org").is_none());
    }

    #[test]
    fn refusals_are_remembered() {
        let (on_demand, mut requests) = on_demand(100, 100);
        on_demand.refuse("a.org", Duration::from_secs(60));
        assert!(on_demand.request("a.org").is_none() && requests.try_recv().is_err());
        assert!(on_demand.request("b.org").is_some());
        on_demand.refuse("b.org", Duration::ZERO);
        assert!(on_demand.request("b.org").is_some());
        for number in 0..MOST_REFUSED + 10 {
            on_demand.refuse(&format!("{number}.org"), Duration::from_secs(600));
        }
        assert!(on_demand.refused.lock().expect("the table").len() <= MOST_REFUSED);
        assert_eq!(on_demand.counts.on_demand_refused.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_wait_ends_with_its_answer() {
        let (on_demand, mut requests) = on_demand(100, 100);
        let wait = on_demand.request("a.org").expect("it waits");
        drop(requests.recv().await.expect("a request").waiter);
        wait.await;
        assert_eq!(on_demand.waiting.load(Ordering::Relaxed), 0);
    }

    proptest! {
        #[test]
        fn no_name_makes_it_panic(name: String) {
            let (on_demand, _requests) = on_demand(10, 10);
            let _ = on_demand.request(&name);
            prop_assert!(on_demand.find(&name).is_none());
        }
    }
}
