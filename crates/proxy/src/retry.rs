//! Limits how often requests are repeated by a budget, so that retries never multiply the load on origins
//! that are in trouble.
//!
//! Each request adds a share of a retry to the budget, and each retry takes one. A small allowance for each
//! second replaces the share if there are few requests.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// When a request is repeated.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RetryRules {
    /// How many times after the first; 0: never.
    pub most: u32,
    /// The share of requests that may be retries, in percent.
    pub budget_percent: u32,
    /// Statuses after which another origin is tried, if the method may be repeated.
    pub statuses: Vec<u16>,
}

/// One retry, in the unit of the budget.
const RETRY: i64 = 1000;

/// Retries in each second that need no requests before them.
const FREE_A_SECOND: i64 = 10;

/// The most retries that can be saved up.
const MOST_SAVED: i64 = 200;

/// The budget of a group, shared by all cores.
#[derive(Debug)]
pub struct RetryBudget {
    saved: AtomicI64,
    /// The second up to which the allowance was added.
    paid_s: AtomicU64,
}

impl RetryBudget {
    /// A budget that begins with the allowance of a second.
    pub fn new() -> RetryBudget {
        RetryBudget { saved: AtomicI64::new(FREE_A_SECOND * RETRY), paid_s: AtomicU64::new(0) }
    }

    /// Adds the share of a request.
    pub fn earn(&self, rules: &RetryRules) {
        // Several cores at the same moment may exceed the limit a little.
        if self.saved.load(Relaxed) < MOST_SAVED * RETRY {
            self.saved.fetch_add(i64::from(rules.budget_percent) * RETRY / 100, Relaxed);
        }
    }

    /// Takes a retry; false if there is none left.
    pub fn spend(&self, rules: &RetryRules, now_ms: u64) -> bool {
        let now_s = now_ms / 1000;
        let paid = self.paid_s.swap(now_s.max(self.paid_s.load(Relaxed)), Relaxed);
        // Without a budget, the allowance is zero.
        if rules.budget_percent > 0 && now_s > paid {
            let allowance = i64::try_from(now_s - paid).unwrap_or(1).min(1) * FREE_A_SECOND * RETRY;
            // The allowance fills the budget up to one second's worth; it is not added to earned retries.
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
        assert_eq!(spend_all(&budget, &rules, 0), FREE_A_SECOND);
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
    fn few_requests_have_an_allowance() {
        let (budget, rules) = (RetryBudget::new(), rules(20));
        assert_eq!(spend_all(&budget, &rules, 0), FREE_A_SECOND);
        assert!(!budget.spend(&rules, 999));
        assert_eq!(spend_all(&budget, &rules, 60_000), FREE_A_SECOND, "it is not saved up");
        assert_eq!(spend_all(&budget, &rules, 61_000), FREE_A_SECOND);
    }

    #[test]
    fn no_budget_means_no_retry() {
        assert!(!RetryBudget::new().spend(&rules(0), 5_000));
    }
}
