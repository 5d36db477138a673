//! The counts of the origins that requests are passed on to. The proxy counts; this module reads the counts.

use std::sync::atomic::Ordering::Relaxed;

use touchstone_proxy::{FailureLabel, OriginGroups, OriginState, State, TIME_BOUNDS_S};

use super::route_counts::RouteLabels;

/// One origin of a route.
#[derive(Debug, Clone)]
pub struct OriginTotals {
    /// The site and route.
    pub labels: RouteLabels,
    /// The origin's URL.
    pub origin: String,
    /// Its state.
    pub state: State,
    /// Whether it gets requests, and which ones.
    pub service: OriginState,
    /// Its share of the requests.
    pub weight: u32,
    /// Requests sent to it.
    pub requests: u64,
    /// Requests that had been sent to another origin before.
    pub retries: u64,
    /// Answers, by class of their status.
    pub classes: [u64; 5],
    /// Requests without an answer, by reason.
    pub failures: [u64; FailureLabel::LABELS.len()],
    /// Answers that broke off.
    pub broken_bodies: u64,
    /// How often it was ejected.
    pub ejections: u64,
    /// Active requests.
    pub under_way: u64,
    /// Connections opened.
    pub opened: u64,
    /// Open connections.
    pub connections: u64,
    /// Open connections that have no request and use HTTP/1.1.
    pub idle: u64,
    /// How many heads of answers took at most each of [`TIME_BOUNDS_S`].
    pub times: Vec<u64>,
    /// The number of all heads.
    pub times_count: u64,
    /// The sum of their times, in seconds.
    pub times_sum_s: f64,
}

impl OriginTotals {
    /// All failures.
    pub fn all_failures(&self) -> u64 {
        self.failures.iter().sum::<u64>() + self.broken_bodies
    }

    /// The time that this share of answers did not exceed, as exact as the classes; `None`: there were none,
    /// or they took longer than the last bound.
    pub fn quantile_s(&self, share: f64) -> Option<f64> {
        let wanted = (self.times_count as f64 * share).ceil().max(1.0);
        let position = self.times.iter().position(|count| *count as f64 >= wanted)?;
        TIME_BOUNDS_S.get(position).copied()
    }
}

/// Every origin that is in use.
pub fn origin_totals(groups: &OriginGroups) -> Vec<OriginTotals> {
    let mut totals = Vec::new();
    for group in groups.all().into_iter().rev() {
        let name = &group.settings.name;
        for (index, member) in group.members.iter().enumerate() {
            let (counts, origin) = (&member.counts, &member.origin);
            let (open, idle) = origin.connections.counts();
            let (times, times_count, times_sum_s) = counts.times();
            totals.push(OriginTotals {
                labels: RouteLabels { site: name.site.clone(), route: name.route.clone() },
                origin: member.name.clone(),
                state: group.state(index),
                service: member.state(),
                weight: member.weight(),
                requests: counts.attempts.load(Relaxed),
                retries: counts.retries.load(Relaxed),
                classes: counts.classes.each_ref().map(|count| count.load(Relaxed)),
                failures: counts.failures.each_ref().map(|count| count.load(Relaxed)),
                broken_bodies: counts.broken_bodies.load(Relaxed),
                ejections: counts.ejections.load(Relaxed),
                under_way: u64::from(origin.under_way()),
                opened: counts.opened.load(Relaxed),
                connections: open as u64,
                idle: idle as u64,
                times,
                times_count,
                times_sum_s,
            });
        }
    }
    totals.sort_by(|one, other| (&one.labels, &one.origin).cmp(&(&other.labels, &other.origin)));
    // Groups of a former configuration that still have requests are not shown in addition to the current one.
    totals.dedup_by(|later, earlier| (&later.labels, &later.origin) == (&earlier.labels, &earlier.origin));
    totals
}
