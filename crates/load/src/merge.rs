//! Merges the outcomes of a plan's portions. Counts and histograms are added, and no averages are computed.

use crate::failure::merge_error_reasons;
use crate::outcome::{ClientOutcome, Interval, Outcome};
use crate::plan::Plan;
use crate::portion::Portion;
use hdrhistogram::{Counter, Histogram};
use std::fmt;

/// The reason why outcomes cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeError(pub String);

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MergeError {}

/// The result of one machine: its name, its part of the plan, and its outcome.
pub type MachineOutcome = (String, Portion, Outcome);

/// Returns the outcome of the plan. Clients are in the order of the plan, without those of missing portions.
/// `None` if `machines` is empty.
pub fn merge(plan: &Plan, machines: Vec<MachineOutcome>) -> Result<Option<Outcome>, MergeError> {
    let mut clients: Vec<(usize, ClientOutcome)> = Vec::with_capacity(plan.clients);
    let mut sum: Option<Outcome> = None;
    for (machine, portion, mut outcome) in machines {
        let numbers: Vec<usize> = portion.clients(plan).flatten().collect();
        if numbers.len() != outcome.clients.len() {
            return Err(MergeError(format!(
                "{machine} reports {} clients instead of {}",
                numbers.len(),
                outcome.clients.len()
            )));
        }
        clients.extend(numbers.into_iter().zip(std::mem::take(&mut outcome.clients)));
        prefix_machine_name(&machine, &mut outcome);
        match &mut sum {
            None => sum = Some(outcome),
            Some(sum) => sum.add_outcome(outcome).map_err(|what| MergeError(format!("{machine}: {what}")))?,
        }
    }
    if let Some(sum) = &mut sum {
        clients.sort_by_key(|(number, _)| *number);
        sum.clients = clients.into_iter().map(|(_, client)| client).collect();
    }
    Ok(sum)
}

/// Prefixes warnings and signs of saturation with the name of the machine.
fn prefix_machine_name(machine: &str, outcome: &mut Outcome) {
    outcome.warnings.iter_mut().for_each(|warning| *warning = format!("{machine}: {warning}"));
    for sign in &mut outcome.saturation.0 {
        sign.text = format!("{machine}: {}", sign.text);
    }
}

impl Outcome {
    /// Adds the outcome of another machine, except for its clients.
    fn add_outcome(&mut self, other: Outcome) -> Result<(), &'static str> {
        if self.classes.len() != other.classes.len()
            || self.stages.len() != other.stages.len()
            || self.arrivals.is_some() != other.arrivals.is_some()
        {
            return Err("its outcome belongs to another plan");
        }
        self.window = self.window.max(other.window);
        self.requests += other.requests;
        for (sum, class) in self.classes.iter_mut().zip(&other.classes) {
            sum.add(class);
            add(&mut sum.latency_ns, &class.latency_ns)?;
        }
        self.requests_by_class = self.classes.iter().map(|class| class.requests).collect();
        other.statuses.iter().for_each(|(status, count)| *self.statuses.entry(*status).or_default() += count);
        self.errors.add(&other.errors);
        merge_error_reasons(&mut self.error_reasons, other.error_reasons);
        self.bytes += other.bytes;
        self.body_bytes += other.body_bytes;
        self.connections += other.connections;
        self.started += other.started;
        add(&mut self.latency_ns, &other.latency_ns)?;
        add(&mut self.service_ns, &other.service_ns)?;
        add(&mut self.connect_ns, &other.connect_ns)?;
        add(&mut self.handshake_ns, &other.handshake_ns)?;
        self.handshakes.full += other.handshakes.full;
        self.handshakes.resumed += other.handshakes.resumed;
        if let (Some(sum), Some(messages)) = (&mut self.messages, &other.messages) {
            sum.count += messages.count;
            sum.total += messages.total;
            add(&mut sum.first_ns, &messages.first_ns)?;
            add(&mut sum.gap_ns, &messages.gap_ns)?;
        }
        if let (Some(sum), Some(websockets)) = (&mut self.websockets, &other.websockets) {
            sum.add_counts(websockets);
            add(&mut sum.open_ns, &websockets.open_ns)?;
            add(&mut sum.answer_ns, &websockets.answer_ns)?;
            add(&mut sum.pong_ns, &websockets.pong_ns)?;
        }
        if let (Some(sum), Some(arrivals)) = (&mut self.arrivals, &other.arrivals) {
            sum.due += arrivals.due;
            sum.started += arrivals.started;
            sum.late += arrivals.late;
            add(&mut sum.lateness_ns, &arrivals.lateness_ns)?;
            add(&mut sum.engine_lateness_ns, &arrivals.engine_lateness_ns)?;
        }
        for (sum, stage) in self.stages.iter_mut().zip(&other.stages) {
            sum.requests += stage.requests;
            sum.errors += stage.errors;
            sum.bytes += stage.bytes;
            add(&mut sum.latency_ns, &stage.latency_ns)?;
        }
        self.add_intervals(other.intervals)?;
        self.total_requests += other.total_requests;
        self.total_errors += other.total_errors;
        self.total_errors_by_kind.add(&other.total_errors_by_kind);
        self.tls_error = self.tls_error.take().or(other.tls_error);
        self.total_connections += other.total_connections;
        self.total_retries += other.total_retries;
        self.warnings.extend(other.warnings);
        self.engine.user_s += other.engine.user_s;
        self.engine.system_s += other.engine.system_s;
        self.engine.busiest_thread = self.engine.busiest_thread.max(other.engine.busiest_thread);
        self.engine.longest_waiting_thread =
            self.engine.longest_waiting_thread.max(other.engine.longest_waiting_thread);
        self.saturation.0.extend(other.saturation.0);
        self.first_start_lateness = self.first_start_lateness.min(other.first_start_lateness);
        self.start_lateness = self.start_lateness.max(other.start_lateness);
        self.interrupted |= other.interrupted;
        Ok(())
    }

    /// Adds the intervals with the same index. A machine that ended early has fewer intervals.
    fn add_intervals(&mut self, intervals: Vec<Interval>) -> Result<(), &'static str> {
        for (place, interval) in intervals.into_iter().enumerate() {
            match self.intervals.get_mut(place) {
                None => self.intervals.push(interval),
                Some(sum) => {
                    sum.length_s = sum.length_s.max(interval.length_s);
                    sum.requests += interval.requests;
                    sum.errors += interval.errors;
                    sum.bytes += interval.bytes;
                    add(&mut sum.latency_ns, &interval.latency_ns)?;
                }
            }
        }
        Ok(())
    }
}

fn add<T: Counter>(sum: &mut Histogram<T>, other: &Histogram<T>) -> Result<(), &'static str> {
    if sum.sigfig() != other.sigfig() {
        return Err("its histograms have a different number of digits");
    }
    sum.auto(true);
    sum.add(other).map_err(|_| "its histograms cannot be added")
}
