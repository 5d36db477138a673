//! The lease: states twice a second that the controller runs and which run is active, and holds the claim
//! that it is the only controller. This stops when the lease is dropped or the controller ends.

use super::FleetError;
use crate::fabric::{Fabric, FabricError, Inbox, Message};
use crate::message::{Order, Subjects, decode, encode};
use crate::runtime::{Receiver, Sender, Thread, channel, now};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the lease is published: an agent may miss several before it stops.
const PERIOD: Duration = Duration::from_millis(500);
/// How often the claim is renewed.
const CLAIM_PERIOD: Duration = Duration::from_secs(1);
/// How long a claim is certainly valid after it was requested.
const CLAIM_TIME: Duration = Duration::from_secs(3);
/// The key of the claim.
const CLAIM: &str = "controller";
/// How long to wait for the claim of a controller that died.
const CLAIM_WAIT: Duration = Duration::from_secs(5);

/// How long a controller that ends may wait to release the claim; a claim that is not released soon expires.
const RELEASE_TIME: Duration = Duration::from_millis(500);

/// Published until it is dropped.
pub(crate) struct Lease {
    _word: Sender<()>,
    claim: Option<Sender<()>>,
    /// Gets a message, or is closed, when the claim was released.
    released: Mutex<Receiver<()>>,
}

impl Lease {
    /// Takes the fleet; an error while another controller has it.
    pub(crate) fn take(fabric: Arc<dyn Fabric>, fleet: &str, run: &str) -> Result<Lease, FleetError> {
        let subject = Subjects::of(fleet).all();
        let words = fabric.subscribe(&subject)?;
        let until = now() + CLAIM_WAIT;
        let hold = ClaimTime::default();
        while let Err(error) = hold.renew(&*fabric, run) {
            let FabricError::Held(other) = error else { return Err(error.into()) };
            // A controller that has ended publishes no messages, and its claim soon expires.
            if lease_arrives(&words, run) || now() > until {
                return Err(FleetError(format!(
                    "another controller uses the fleet {fleet} (its run {other}): wait until it has ended"
                )));
            }
        }
        let order = encode(&Order::Lease { run: run.to_string() })?;
        let run = run.to_string();
        let (claiming, releasing, releasing_run) = (Arc::clone(&fabric), Arc::clone(&fabric), run.clone());
        let shared = Arc::new(hold);
        let hold = Arc::clone(&shared);
        // Without the broker no message can be published, and agents stop then, as a lease requires. A
        // suspended process may have lost the claim: it publishes none until it has renewed it.
        let publish = move || {
            if hold.is_certain() {
                drop(fabric.publish(&subject, order.clone()));
            }
        };
        let word = repeat("lease", PERIOD, publish, || {})?;
        let (release, released) = channel();
        // In its own thread: a claim waits for the broker's answer, and the lease must not.
        let claim = repeat(
            "claim",
            CLAIM_PERIOD,
            move || drop(shared.renew(&*claiming, &run)),
            move || {
                drop(releasing.release(CLAIM, &releasing_run));
                // The receiver may have ended already.
                release.send(());
            },
        )?;
        Ok(Lease { _word: word, claim: Some(claim), released: Mutex::new(released) })
    }
}

/// Until when no other controller can hold the fleet.
#[derive(Default)]
struct ClaimTime(Mutex<Option<Instant>>);

impl ClaimTime {
    /// Renews the claim.
    fn renew(&self, fabric: &dyn Fabric, run: &str) -> Result<(), FabricError> {
        // The broker counts from a later moment, when it has received the claim.
        let asked_at = now();
        let outcome = fabric.claim(CLAIM, run);
        let mut until = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &outcome {
            Ok(()) => *until = Some(asked_at + CLAIM_TIME),
            Err(FabricError::Held(_)) => *until = None,
            // It may have been renewed, and is valid until then in any case.
            Err(_) => {}
        }
        outcome
    }

    fn is_certain(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|until| now() < until)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        drop(self.claim.take());
        let released = self.released.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = released.recv_timeout(RELEASE_TIME);
    }
}

/// Whether another run's lease arrives within its period.
fn lease_arrives(words: &Inbox<Message>, run: &str) -> bool {
    let until = now() + PERIOD;
    while let Some(message) = words.next(until.saturating_duration_since(now())) {
        if matches!(decode::<Order>(&message.body), Some(Order::Lease { run: other }) if other != run) {
            return true;
        }
    }
    false
}

/// Calls one function periodically until the returned value is dropped, and then the other.
fn repeat(
    name: &str,
    period: Duration,
    work: impl Fn() + Send + 'static,
    last: impl FnOnce() + Send + 'static,
) -> Result<Sender<()>, FleetError> {
    let (end, ended) = channel::<()>();
    let repeated = move || {
        work();
        while ended.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
            work();
        }
        last();
    };
    let thread = Thread::spawn(name, repeated);
    thread.map_err(|error| FleetError(format!("no thread for the {name}: {error}")))?;
    Ok(end)
}
