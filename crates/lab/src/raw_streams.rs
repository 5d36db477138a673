//! Raw data beyond requests and answers: the outcome of the arrivals of an open load, and the messages of
//! answers that are streams of them (server-sent events, lines, calls of gRPC, WebSockets).

use crate::latency::latency_record;
use crate::raw_histogram::RawHistogram;
use crate::result::{ArrivalFigures, LatencyRecord, MessageFigures, WebSocketFigures};
use serde::{Deserialize, Serialize};
use touchstone_load::Outcome;

/// What became of the arrivals of an open load.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct RawArrivals {
    /// Arrivals a second, as the suite states them.
    pub per_second: f64,
    /// Whether they arrived at random.
    pub at_random: bool,
    /// All that were due in the window.
    pub due: u64,
    /// Those that were started.
    pub started: u64,
    /// Those that were started late.
    pub late: u64,
    /// Nanoseconds from the real start of a request to the last byte.
    pub service: RawHistogram,
}

impl RawArrivals {
    /// Those of an outcome of an open load with this rate; `None` of a closed one.
    pub fn of(per_second: f64, at_random: bool, outcome: &Outcome) -> Option<RawArrivals> {
        let arrivals = outcome.arrivals.as_ref()?;
        Some(RawArrivals {
            per_second,
            at_random,
            due: arrivals.due,
            started: arrivals.started,
            late: arrivals.late,
            service: RawHistogram::of(&outcome.service_ns),
        })
    }

    /// The figures in the result file.
    pub fn figures(&self) -> Result<ArrivalFigures, String> {
        Ok(ArrivalFigures {
            per_second: self.per_second,
            at_random: self.at_random,
            due: self.due,
            started: self.started,
            late: self.late,
            service: latency_record(&self.service.read()?),
        })
    }
}

/// The messages of a mix. Times are in nanoseconds.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct RawMessages {
    /// Messages in the window.
    pub count: u64,
    /// Messages of the whole mix.
    pub total: u64,
    /// To the first message.
    pub first: RawHistogram,
    /// Between messages.
    pub gap: RawHistogram,
    /// The WebSockets; absent if none were requested.
    pub websockets: Option<RawWebSockets>,
}

/// WebSockets as raw data.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct RawWebSockets {
    /// Opened in the window.
    pub opened: u64,
    /// Sent in the window.
    pub sent: u64,
    /// Sent in the whole mix.
    pub total_sent: u64,
    /// Handshakes.
    pub open: RawHistogram,
    /// Answers.
    pub answer: RawHistogram,
    /// Pongs.
    pub pong: RawHistogram,
}

impl RawMessages {
    /// Those of an outcome; `None` where no answer is a stream of messages.
    pub fn of(outcome: &Outcome) -> Option<RawMessages> {
        let messages = outcome.messages.as_ref()?;
        Some(RawMessages {
            count: messages.count,
            total: messages.total,
            first: RawHistogram::of(&messages.first_ns),
            gap: RawHistogram::of(&messages.gap_ns),
            websockets: outcome.websockets.as_ref().map(|sockets| RawWebSockets {
                opened: sockets.opened,
                sent: sockets.sent,
                total_sent: sockets.total_sent,
                open: RawHistogram::of(&sockets.open_ns),
                answer: RawHistogram::of(&sockets.answer_ns),
                pong: RawHistogram::of(&sockets.pong_ns),
            }),
        })
    }

    /// The figures in the result file, of a window of this length.
    pub fn figures(&self, window_s: f64) -> Result<MessageFigures, String> {
        let websockets = match &self.websockets {
            None => None,
            Some(sockets) => Some(WebSocketFigures {
                opened: sockets.opened,
                sent: sockets.sent,
                total_sent: sockets.total_sent,
                open: times(&sockets.open)?,
                answer: times(&sockets.answer)?,
                pong: times(&sockets.pong)?,
            }),
        };
        Ok(MessageFigures {
            count: self.count,
            per_second: if window_s > 0.0 { self.count as f64 / window_s } else { 0.0 },
            total: self.total,
            first: times(&self.first)?,
            gap: times(&self.gap)?,
            websockets,
        })
    }
}

fn times(histogram: &RawHistogram) -> Result<Option<LatencyRecord>, String> {
    let read = histogram.read()?;
    Ok((!read.is_empty()).then(|| latency_record(&read)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::Histogram;

    #[test]
    fn figures_are_made_of_the_raw_data_and_what_did_not_come_is_absent() {
        let mut first = Histogram::<u64>::new(3).unwrap();
        first.record_n(2_000_000, 10).unwrap();
        let none = || RawHistogram(String::new());
        let raw = RawMessages {
            count: 50,
            total: 70,
            first: RawHistogram::of(&first),
            gap: none(),
            websockets: Some(RawWebSockets {
                opened: 10,
                sent: 50,
                total_sent: 70,
                open: RawHistogram::of(&first),
                answer: none(),
                pong: none(),
            }),
        };
        let figures = raw.figures(5.0).unwrap();
        assert_eq!((figures.count, figures.total, figures.per_second), (50, 70, 10.0));
        assert!((figures.first.as_ref().unwrap().p99_us - 2_000.0).abs() < 2.0 && figures.gap.is_none());
        let sockets = figures.websockets.unwrap();
        assert_eq!((sockets.open.unwrap().count, sockets.answer), (10, None));
        let damaged = RawMessages { gap: RawHistogram("!".into()), ..raw };
        assert!(damaged.figures(5.0).unwrap_err().contains("base64"));
    }
}
