//! The lease: says twice a second that the controller lives and which run goes on, and holds the claim to be the only one. When it
//! is dropped, or the controller dies, nobody says it any more.

use super::FleetError;
use crate::fabric::{Fabric, FabricError};
use crate::message::{Order, Subjects, encode};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How often it is said: an agent may miss several before it stops.
const PERIOD: Duration = Duration::from_millis(500);
/// How often the claim is renewed; it holds for three times as long.
const CLAIM_PERIOD: Duration = Duration::from_secs(1);
/// What is claimed.
const CLAIM: &str = "controller";
/// How long the claim of a controller that died is waited for.
const CLAIM_WAIT: Duration = Duration::from_secs(5);

/// Said until it is dropped.
pub(crate) struct Lease {
    _word: Sender<()>,
    _claim: Sender<()>,
}

impl Lease {
    /// Takes the fleet; refused while another controller has it.
    pub(crate) fn take(fabric: Arc<dyn Fabric>, fleet: &str, run: &str) -> Result<Lease, FleetError> {
        let until = Instant::now() + CLAIM_WAIT;
        loop {
            match fabric.claim(CLAIM, run) {
                Ok(()) => break,
                Err(FabricError::Held(_)) if Instant::now() < until => std::thread::sleep(PERIOD),
                Err(FabricError::Held(other)) => {
                    return Err(FleetError(format!(
                        "the fleet {fleet} is in use by another controller (its run {other}): wait until it is done"
                    )));
                }
                Err(error) => return Err(error.into()),
            }
        }
        let order = encode(&Order::Lease { run: run.to_string() })?;
        let (subject, run) = (Subjects::of(fleet).all(), run.to_string());
        let claiming = Arc::clone(&fabric);
        // While the broker is away nothing can be said; agents stop then, which is what a lease is for.
        let word = repeat("lease", PERIOD, move || drop(fabric.publish(&subject, order.clone())))?;
        // In a thread of its own: to claim waits for the broker's answer, and the word must not.
        let claim = repeat("claim", CLAIM_PERIOD, move || drop(claiming.claim(CLAIM, &run)))?;
        Ok(Lease { _word: word, _claim: claim })
    }
}

/// Does something again and again, until what it gives back is dropped.
fn repeat(name: &str, period: Duration, work: impl Fn() + Send + 'static) -> Result<Sender<()>, FleetError> {
    let (end, ended) = channel::<()>();
    let repeated = move || {
        work();
        while ended.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
            work();
        }
    };
    let thread = std::thread::Builder::new().name(name.to_string()).spawn(repeated);
    thread.map_err(|error| FleetError(format!("no thread for the {name}: {error}")))?;
    Ok(end)
}
