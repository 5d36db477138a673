//! The thread that sends figures now and then while a load runs.

use crate::figures::Figures;
use crate::post::Endpoint;
use crate::{otlp, remote_write};
use std::sync::mpsc::{RecvTimeoutError, Sender as End, channel};
use std::time::{Duration, Instant, SystemTime};
use touchstone_load::Progress;

/// Figures that were not taken are kept and sent with the next, at most this many.
const MAXIMUM_KEPT: usize = 100;

/// A receiver and its protocol.
#[derive(Debug, Clone)]
pub enum Destination {
    /// Prometheus, by remote write.
    RemoteWrite(Endpoint),
    /// An OpenTelemetry collector, by OTLP over HTTP.
    Otlp(Endpoint),
}

/// What became of the figures for one destination.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryReport {
    /// Requests that were taken.
    pub taken: u64,
    /// Requests that were not.
    pub failed: u64,
    /// The last reason.
    pub reason: Option<String>,
}

/// Sends figures to destinations.
#[derive(Debug, Clone)]
pub struct Sender {
    /// Where to.
    pub destinations: Vec<Destination>,
    /// Labels of every series.
    pub labels: Vec<(String, String)>,
    /// How often.
    pub each: Duration,
}

impl Sender {
    /// Does the work. Sends its figures during the work and once more at its end. Each destination has its
    /// own thread.
    pub fn while_runs<T>(
        &self,
        progress: &Progress,
        clients: usize,
        work: impl FnOnce() -> T,
    ) -> (T, Vec<DeliveryReport>) {
        let started = SystemTime::now();
        std::thread::scope(|scope| {
            let threads: Vec<(End<()>, _)> = self
                .destinations
                .iter()
                .map(|destination| {
                    let (end, ended) = channel::<()>();
                    let thread = scope.spawn(move || {
                        let mut one = DestinationSender {
                            sender: self,
                            destination,
                            started,
                            kept: Vec::new(),
                            sent: DeliveryReport::default(),
                        };
                        let mut next = Instant::now() + self.each;
                        loop {
                            let wait = next.saturating_duration_since(Instant::now());
                            let is_over = ended.recv_timeout(wait) != Err(RecvTimeoutError::Timeout);
                            one.send(Figures::of(progress, clients));
                            if is_over {
                                return one.sent;
                            }
                            // A receiver that is slower than that gets fewer figures.
                            next = (next + self.each).max(Instant::now());
                        }
                    });
                    (end, thread)
                })
                .collect();
            let result = work();
            let sent = threads.into_iter().map(|(end, thread)| {
                drop(end);
                thread.join().unwrap_or_default()
            });
            (result, sent.collect())
        })
    }
}

/// What a thread sends to its destination.
struct DestinationSender<'a> {
    sender: &'a Sender,
    destination: &'a Destination,
    started: SystemTime,
    kept: Vec<Figures>,
    sent: DeliveryReport,
}

impl DestinationSender<'_> {
    fn send(&mut self, figures: Figures) {
        if self.kept.len() >= MAXIMUM_KEPT {
            self.kept.remove(0);
        }
        self.kept.push(figures);
        let labels = &self.sender.labels;
        let posted = match self.destination {
            Destination::RemoteWrite(endpoint) => {
                endpoint.post(&remote_write::FIELDS, &remote_write::body(&self.kept, labels))
            }
            Destination::Otlp(endpoint) => {
                endpoint.post(&otlp::FIELDS, &otlp::body(&self.kept, labels, self.started))
            }
        };
        match posted {
            Ok(()) => {
                self.sent.taken += 1;
                self.kept.clear();
            }
            Err(reason) => {
                self.sent.failed += 1;
                self.sent.reason = Some(reason);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_that_is_away_holds_nothing_up() {
        // A port that was given to this test, without a listener.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("the loopback interface is there");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        drop(listener);
        let endpoint = Endpoint::new(&url, "/api/v1/write", &[]).expect("a good endpoint");
        let sender = Sender {
            destinations: vec![Destination::RemoteWrite(endpoint.clone()), Destination::Otlp(endpoint)],
            labels: Vec::new(),
            each: Duration::from_millis(10),
        };
        let (result, sent) = sender.while_runs(&Progress::default(), 1, || 7);
        assert_eq!(result, 7);
        assert!(
            sent.iter().all(|sent| sent.taken == 0 && sent.failed >= 1 && sent.reason.is_some()),
            "{sent:?}"
        );
    }
}
