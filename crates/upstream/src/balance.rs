//! Chooses the server of a group for the next request.
//!
//! Least requests draws two servers by weight and takes the one with fewer requests (the power of two
//! choices): this is nearly as even as comparing all, and cores that choose at the same moment do not all
//! choose the same. Least outstanding compares all servers by this core's own requests in progress. Hashing
//! computes a number from the key and each server and takes the server with the largest (rendezvous hashing):
//! when a server leaves, only its keys move.

use std::cell::Cell;

use touchstone_http::split_mix::{SplitMix, mix};

/// How requests are distributed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Balance {
    /// To the one with the fewest requests in progress on this core, by weight.
    LeastOutstanding,
    /// To the one of two with fewer requests in progress, by weight.
    LeastRequests,
    /// In turns, by weight.
    RoundRobin,
    /// Requests with the same value go to the same server.
    Hash(HashBy),
}

/// The part of a request that is hashed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HashBy {
    /// The path, without the query.
    Path,
    /// The client's address.
    Client,
    /// A header field.
    Field(String),
    /// A cookie.
    Cookie(String),
}

impl HashBy {
    /// Reads `path`, `client`, `field:X-User` or `cookie:session`.
    pub fn parse(text: &str) -> Result<HashBy, String> {
        match text.split_once(':') {
            None if text == "path" => Ok(HashBy::Path),
            None if text == "client" => Ok(HashBy::Client),
            Some(("field", name)) if is_token(name) => Ok(HashBy::Field(name.to_string())),
            Some(("cookie", name)) if is_token(name) => Ok(HashBy::Cookie(name.to_string())),
            _ => Err(format!("{text:?} is none of \"path\", \"client\", \"field:NAME\" and \"cookie:NAME\"")),
        }
    }
}

fn is_token(name: &str) -> bool {
    !name.is_empty() && touchstone_http::grammar::token_length(name.as_bytes()) == name.len()
}

/// A server that may be chosen.
#[derive(Debug, Clone, Copy)]
pub struct Candidate {
    /// Its index in the group.
    pub index: usize,
    /// Its weight; a server in slow start has a part of it.
    pub weight: u64,
    /// Its requests in progress.
    pub under_way: u32,
}

/// The state of one core's choices.
#[derive(Debug)]
pub struct Chooser {
    turns: RoundRobinCredits,
    chance: RandomNumbers,
    /// Hashes of the servers' names, by index.
    names: Vec<u64>,
}

impl Chooser {
    /// For servers with these hashed names. `seed` makes the choices of cores differ.
    pub fn new(names: Vec<u64>, seed: u64) -> Chooser {
        Chooser { turns: RoundRobinCredits::new(names.len()), chance: RandomNumbers::new(seed), names }
    }

    /// The index of the server for a request, among those that `try_admit` allows. `key`: the hash of the
    /// part of the request that is hashed.
    pub fn choose(
        &self,
        balance: &Balance,
        mut candidates: Vec<Candidate>,
        key: Option<u64>,
        try_admit: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        // `try_admit` lets one request through to a server whose state is being probed, so it is called only
        // for the chosen server.
        while let Some(index) = self.choose_among(balance, &candidates, key) {
            if try_admit(index) {
                return Some(index);
            }
            candidates.retain(|candidate| candidate.index != index);
        }
        None
    }

    fn choose_among(&self, balance: &Balance, candidates: &[Candidate], key: Option<u64>) -> Option<usize> {
        if let [only] = candidates {
            return Some(only.index);
        }
        match (balance, key) {
            (Balance::LeastOutstanding, _) => least_outstanding(candidates, &self.turns),
            (Balance::RoundRobin, _) => self.turns.next(candidates),
            (Balance::Hash(_), Some(key)) => by_hash(key, candidates, &self.names),
            (Balance::LeastRequests | Balance::Hash(_), _) => {
                least_requests(candidates, &mut || self.chance.next())
            }
        }
    }
}

/// The server with the least load of all; servers with equal load take turns.
fn least_outstanding(candidates: &[Candidate], turns: &RoundRobinCredits) -> Option<usize> {
    // Compares requests divided by weight, as products, so that nothing is rounded.
    let load = |one: &Candidate, other: &Candidate| u64::from(one.under_way) * other.weight;
    let least = candidates.iter().min_by(|one, other| load(one, other).cmp(&load(other, one)))?;
    let among: Vec<Candidate> =
        candidates.iter().filter(|other| load(other, least) == load(least, other)).copied().collect();
    turns.next(&among)
}

/// The one of two with less load.
fn least_requests(candidates: &[Candidate], random: &mut impl FnMut() -> u64) -> Option<usize> {
    let first = draw(candidates, None, random)?;
    let Some(second) = draw(candidates, Some(first.index), random) else { return Some(first.index) };
    // Compares requests divided by weight, as products, so that nothing is rounded. If the loads are equal,
    // the draw by weight decides.
    let load = |one: Candidate, other: Candidate| u64::from(one.under_way) * other.weight;
    Some(if load(second, first) < load(first, second) { second.index } else { first.index })
}

/// One drawn by weight.
fn draw(
    candidates: &[Candidate],
    without: Option<usize>,
    random: &mut impl FnMut() -> u64,
) -> Option<Candidate> {
    let among = || candidates.iter().filter(|candidate| Some(candidate.index) != without);
    let total: u64 = among().map(|candidate| candidate.weight).sum();
    let mut point = if total > 0 { random() % total } else { 0 };
    among()
        .find(|candidate| {
            let is_it = point < candidate.weight;
            point = point.saturating_sub(candidate.weight);
            is_it
        })
        .or_else(|| among().next())
        .copied()
}

/// The round robin of one core.
#[derive(Debug)]
struct RoundRobinCredits {
    /// Raised by the weight at each turn, lowered by the sum of the weights when chosen: no server is chosen
    /// in bursts.
    credits: Vec<Cell<i64>>,
}

impl RoundRobinCredits {
    /// For this number of servers.
    fn new(count: usize) -> RoundRobinCredits {
        RoundRobinCredits { credits: vec![Cell::new(0); count] }
    }

    /// The next.
    fn next(&self, candidates: &[Candidate]) -> Option<usize> {
        let mut total = 0;
        let mut best: Option<(usize, i64)> = None;
        for candidate in candidates {
            let weight = i64::try_from(candidate.weight).unwrap_or(i64::MAX >> 16);
            let credit = self.credits[candidate.index].get() + weight;
            self.credits[candidate.index].set(credit);
            total += weight;
            if best.is_none_or(|(_, most)| credit > most) {
                best = Some((candidate.index, credit));
            }
        }
        let (index, credit) = best?;
        self.credits[index].set(credit - total);
        Some(index)
    }
}

/// The server for a key. `names` are hashes of the servers' names, by index.
fn by_hash(key: u64, candidates: &[Candidate], names: &[u64]) -> Option<usize> {
    let score = |candidate: &Candidate| {
        let mixed = mix(key ^ names[candidate.index]);
        // Between 0 and 1, both excluded: weighted rendezvous hashing (Schindelhauer and Schomaker, 2005).
        let unit = ((mixed >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        candidate.weight.max(1) as f64 / -unit.ln()
    };
    let best = candidates.iter().max_by(|one, other| score(one).total_cmp(&score(other)))?;
    Some(best.index)
}

/// A hash that is the same in every process and version, so that several servers make the same choice
/// (FNV-1a).
pub fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    mix(bytes.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

/// Random numbers, good enough to distribute work.
#[derive(Debug)]
struct RandomNumbers {
    state: Cell<SplitMix>,
}

impl RandomNumbers {
    /// Begins at this number.
    fn new(seed: u64) -> RandomNumbers {
        RandomNumbers { state: Cell::new(SplitMix(seed)) }
    }

    /// The next number.
    fn next(&self) -> u64 {
        let mut generator = self.state.get();
        let number = generator.draw();
        self.state.set(generator);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(weights: &[u64], under_way: &[u32]) -> Vec<Candidate> {
        let candidate = |index| Candidate { index, weight: weights[index], under_way: under_way[index] };
        (0..weights.len()).map(candidate).collect()
    }

    #[test]
    fn in_turns_by_weight_without_bursts() {
        for (weights, expected) in [(&[1, 1, 1][..], "abcabc"), (&[5, 1, 1], "aabacaa")] {
            let turns = RoundRobinCredits::new(weights.len());
            let all = candidates(weights, &[0; 3]);
            let chosen: String =
                expected.chars().map(|_| char::from(b'a' + turns.next(&all).unwrap() as u8)).collect();
            assert_eq!(chosen, expected);
        }
        assert_eq!(RoundRobinCredits::new(0).next(&[]), None);
    }

    #[test]
    fn the_least_busy_of_all_by_weight() {
        let chosen = |weights: &[u64], count: usize| {
            let chooser = Chooser::new(vec![0; weights.len()], 1);
            let mut under_way = vec![0; weights.len()];
            let choose = |_| {
                let all = candidates(weights, &under_way);
                let index = chooser.choose(&Balance::LeastOutstanding, all, None, |_| true).unwrap();
                under_way[index] += 1;
                char::from(b'a' + index as u8)
            };
            (0..count).map(choose).collect::<String>()
        };
        for weights in [[1, 1], [2, 2]] {
            let chosen = chosen(&weights, 4);
            assert!(chosen.starts_with("ab") && chosen.matches('a').count() == 2, "{chosen}");
        }
        assert_eq!(chosen(&[3, 1], 40).matches('a').count(), 30);
        let turns = RoundRobinCredits::new(2);
        assert_eq!(least_outstanding(&candidates(&[1, 1], &[1, 0]), &turns), Some(1));
        assert_eq!(least_outstanding(&[], &turns), None);
    }

    #[test]
    fn those_that_are_not_admitted_are_passed_over() {
        let chooser = Chooser::new(vec![0; 3], 1);
        let all = || candidates(&[1, 1, 1], &[0; 3]);
        assert_eq!(chooser.choose(&Balance::RoundRobin, all(), None, |index| index == 2), Some(2));
        assert_eq!(chooser.choose(&Balance::RoundRobin, all(), None, |_| false), None);
    }

    #[test]
    fn the_less_busy_of_two() {
        let chance = RandomNumbers::new(1);
        let mut random = || chance.next();
        assert_eq!(least_requests(&candidates(&[1000, 1000], &[3, 2]), &mut random), Some(1));
        assert_eq!(least_requests(&candidates(&[3000, 1000], &[2, 1]), &mut random), Some(0));
        assert_eq!(least_requests(&candidates(&[1000], &[9]), &mut random), Some(0));
        assert_eq!(least_requests(&[], &mut random), None);
        // Requests that never end are distributed by weight.
        let mut under_way = [0, 0, 0];
        for _ in 0..4000 {
            let index = least_requests(&candidates(&[2000, 1000, 1000], &under_way), &mut random).unwrap();
            under_way[index] += 1;
        }
        assert!((1900..2100).contains(&under_way[0]), "{under_way:?}");
    }

    #[test]
    fn a_key_stays_where_it_is_when_another_origin_goes() {
        let names: Vec<u64> = ["http://a", "http://b", "http://c"].map(|name| hash(name.as_bytes())).into();
        let all = candidates(&[1000, 1000, 2000], &[0; 3]);
        let mut counts = [0; 3];
        for key in 0..8000u64 {
            let key = hash(&key.to_le_bytes());
            let before = by_hash(key, &all, &names).unwrap();
            counts[before] += 1;
            let without_first = by_hash(key, &all[1..], &names).unwrap();
            assert!(before == 0 || before == without_first);
        }
        assert!((1800..2200).contains(&counts[0]) && (3800..4200).contains(&counts[2]), "{counts:?}");
        // This value must never change: other servers of a farm may run another version.
        assert_eq!(hash(b"http://a"), 0x7a7aaf71b7886fe2);
    }

    #[test]
    fn what_to_hash_by_is_read() {
        assert_eq!(HashBy::parse("path"), Ok(HashBy::Path));
        assert_eq!(HashBy::parse("field:X-User"), Ok(HashBy::Field("X-User".to_string())));
        assert_eq!(HashBy::parse("cookie:id"), Ok(HashBy::Cookie("id".to_string())));
        for text in ["", "url", "field:", "field:a b", "cookie", "cookie:a=b"] {
            assert!(HashBy::parse(text).is_err(), "{text}");
        }
    }
}
