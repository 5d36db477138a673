//! Limits retries by a budget, so that they do not multiply the load on failing origins.
//!
//! Each request adds a share of a retry to the budget, and each retry takes one. If there are few requests,
//! the budget gets a small allowance each second instead.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// When a request is retried.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RetryRules {
    /// The most retries of a request; 0: none.
    pub most: u32,
    /// The share of requests that may be retries, in percent.
    pub budget_percent: u32,
    /// Statuses after which another origin is tried, if the method is idempotent.
    pub statuses: Vec<u16>,
}

/// One retry, in units of the budget.
const RETRY: i64 = 1000;

/// The retries that are allowed each second without requests.
const ALLOWANCE_PER_SECOND: i64 = 10;

/// The most retries in the budget.
const MOST_SAVED: i64 = 200;

/// The budget of a group, shared by all cores.
#[derive(Debug)]
pub struct RetryBudget {
    saved: AtomicI64,
    /// The last second for which the allowance was added.
    allowance_s: AtomicU64,
}

impl RetryBudget {
    /// A budget that starts with the allowance of one second.
    pub fn new() -> RetryBudget {
        RetryBudget { saved: AtomicI64::new(ALLOWANCE_PER_SECOND * RETRY), allowance_s: AtomicU64::new(0) }
    }

    /// Adds the share of one request.
    pub fn earn(&self, rules: &RetryRules) {
        // Concurrent calls may exceed the limit slightly.
        if self.saved.load(Relaxed) < MOST_SAVED * RETRY {
            self.saved.fetch_add(i64::from(rules.budget_percent) * RETRY / 100, Relaxed);
        }
    }

    /// Takes one retry; false if none is left.
    pub fn spend(&self, rules: &RetryRules, now_ms: u64) -> bool {
        let now_s = now_ms / 1000;
        let last_s = self.allowance_s.swap(now_s.max(self.allowance_s.load(Relaxed)), Relaxed);
        // Without a budget, the allowance is zero.
        if rules.budget_percent > 0 && now_s > last_s {
            let allowance = i64::try_from(now_s - last_s).unwrap_or(1).min(1) * ALLOWANCE_PER_SECOND * RETRY;
            // The allowance fills the budget up to its own amount; it does not accumulate.
            let _ = self.saved.fetch_update(Relaxed, Relaxed, |saved| Some(saved.max(allowance)));
        }
        let take = |saved: i64| (saved >= RETRY && rules.budget_percent > 0).then_some(saved - RETRY);
        self.saved.fetch_update(Relaxed, Relaxed, take).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(budget_percent: u32) -> RetryRules {
        RetryRules { most: 2, budget_percent, statuses: Vec::new() }
    }

    fn spend_all(budget: &RetryBudget, rules: &RetryRules, now_ms: u64) -> i64 {
        (0..).take_while(|_| budget.spend(rules, now_ms)).count() as i64
    }

    #[test]
    fn retries_are_a_share_of_requests() {
        let (budget, rules) = (RetryBudget::new(), rules(20));
        assert_eq!(spend_all(&budget, &rules, 0), ALLOWANCE_PER_SECOND);
        for _ in 0..500 {
            budget.earn(&rules);
        }
        assert_eq!(spend_all(&budget, &rules, 0), 100);
        for _ in 0..100_000 {
            budget.earn(&rules);
        }
        assert_eq!(spend_all(&budget, &rules, 0), MOST_SAVED);
    }

    #[test]
    fn the_allowance_does_not_accumulate() {
        let (budget, rules) = (RetryBudget::new(), rules(20));
        assert_eq!(spend_all(&budget, &rules, 0), ALLOWANCE_PER_SECOND);
        assert!(!budget.spend(&rules, 999));
        assert_eq!(spend_all(&budget, &rules, 60_000), ALLOWANCE_PER_SECOND, "it does not accumulate");
        assert_eq!(spend_all(&budget, &rules, 61_000), ALLOWANCE_PER_SECOND);
    }

    #[test]
    fn no_budget_means_no_retry() {
        assert!(!RetryBudget::new().spend(&rules(0), 5_000));
    }
}
