//! Which of several backends the next request goes to. Each core shares out its own requests.

use std::cell::Cell;

/// How requests are shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Balance {
    /// To the one with the fewest requests under way, by weight.
    LeastOutstanding,
    /// In turns, by weight.
    RoundRobin,
}

/// What is remembered of a backend for sharing out.
#[derive(Debug)]
pub struct Share {
    weight: u32,
    /// Requests under way.
    outstanding: Cell<u32>,
    /// Raised by the weight each time, lowered by the sum of the weights when chosen: nobody is chosen in
    /// bursts.
    credit: Cell<i64>,
}

impl Share {
    /// A backend of this weight, 1 or more.
    pub fn new(weight: u32) -> Share {
        Share { weight: weight.max(1), outstanding: Cell::new(0), credit: Cell::new(0) }
    }

    /// A request begins.
    pub fn begin(&self) {
        self.outstanding.set(self.outstanding.get() + 1);
    }

    /// A request has ended.
    pub fn end(&self) {
        self.outstanding.set(self.outstanding.get().saturating_sub(1));
    }
}

/// Chooses among the candidates: their positions in `shares`. `None` where there is none.
pub fn choose(balance: Balance, shares: &[&Share], candidates: &[usize]) -> Option<usize> {
    let among: Vec<usize> = match balance {
        Balance::RoundRobin => candidates.to_vec(),
        Balance::LeastOutstanding => {
            // Outstanding over weight, as products, so that nothing is rounded.
            let load = |left: usize, right: usize| {
                u64::from(shares[left].outstanding.get()) * u64::from(shares[right].weight)
            };
            let least = candidates
                .iter()
                .copied()
                .min_by(|&left, &right| load(left, right).cmp(&load(right, left)))?;
            candidates.iter().copied().filter(|&other| load(other, least) == load(least, other)).collect()
        }
    };
    let total: i64 = among.iter().map(|&index| i64::from(shares[index].weight)).sum();
    let mut best: Option<usize> = None;
    for &index in &among {
        let share = shares[index];
        share.credit.set(share.credit.get() + i64::from(share.weight));
        if best.is_none_or(|best| share.credit.get() > shares[best].credit.get()) {
            best = Some(index);
        }
    }
    let best = best?;
    shares[best].credit.set(shares[best].credit.get() - total);
    Some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(balance: Balance, weights: &[u32], count: usize) -> String {
        let shares: Vec<Share> = weights.iter().map(|&weight| Share::new(weight)).collect();
        let shares: Vec<&Share> = shares.iter().collect();
        let all: Vec<usize> = (0..shares.len()).collect();
        let mut chosen = String::new();
        for _ in 0..count {
            let index = choose(balance, &shares, &all).unwrap();
            shares[index].begin();
            chosen.push(char::from(b'a' + index as u8));
        }
        chosen
    }

    #[test]
    fn in_turns_by_weight_without_bursts() {
        assert_eq!(turns(Balance::RoundRobin, &[1, 1, 1], 6), "abcabc");
        assert_eq!(turns(Balance::RoundRobin, &[5, 1, 1], 7), "aabacaa");
    }

    #[test]
    fn the_least_busy_by_weight() {
        for weights in [[1, 1], [2, 2]] {
            let chosen = turns(Balance::LeastOutstanding, &weights, 4);
            assert!(chosen.starts_with("ab") && chosen.matches('a').count() == 2, "{chosen}");
        }
        let chosen = turns(Balance::LeastOutstanding, &[3, 1], 40);
        assert_eq!(chosen.matches('a').count(), 30);
    }

    #[test]
    fn one_that_is_done_is_chosen_again() {
        let shares = [Share::new(1), Share::new(1)];
        let shares: Vec<&Share> = shares.iter().collect();
        shares[0].begin();
        shares[1].begin();
        shares[1].end();
        assert_eq!(choose(Balance::LeastOutstanding, &shares, &[0, 1]), Some(1));
        assert_eq!(choose(Balance::LeastOutstanding, &shares, &[0]), Some(0));
        assert_eq!(choose(Balance::LeastOutstanding, &shares, &[]), None);
    }
}
