//! From requests to people. A virtual client is no user: it never reads. The number of users for a rate
//! depends on their behaviour, so it is a table of assumptions and not one number.

use serde::Serialize;

/// What a user is taken to do.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Assumptions {
    /// Pages that a user opens a minute.
    pub pages_per_minute: f64,
    /// Requests of a page.
    pub requests_per_page: f64,
    /// Share of them that the browser's cache answers.
    pub cache_hit_share: f64,
    /// Share of them that go to this server, and not to others.
    pub first_party_share: f64,
}

/// Requests of a home page, median, desktop (HTTP Archive, Web Almanac 2025, Page Weight).
pub const REQUESTS_PER_PAGE_2025: f64 = 77.0;
/// The rows of the table: pages a minute.
pub const PAGES_PER_MINUTE: [f64; 4] = [0.5, 1.0, 2.0, 5.0];
/// Its columns: share that the browser's cache answers.
pub const CACHE_HIT_SHARES: [f64; 4] = [0.0, 0.5, 0.8, 0.95];
/// Compaq's assumption of 1997: a user's requests a minute, and the test's ten minutes.
const REQUESTS_PER_MINUTE_1997: f64 = 5.0;
const MINUTES_1997: f64 = 10.0;

/// Users = rate / (pages a second x requests of a page x share that misses the cache x share of this server).
/// Absent if the assumptions contain no requests.
pub fn users(requests_per_second: f64, assumed: &Assumptions) -> Option<f64> {
    let a_second = assumed.pages_per_minute / 60.0
        * assumed.requests_per_page
        * (1.0 - assumed.cache_hit_share)
        * assumed.first_party_share;
    (a_second > 0.0).then(|| requests_per_second / a_second)
}

/// The formula of 1997: requests in ten minutes / (5 requests a minute x 10 minutes).
pub fn users_of_1997(requests_in_ten_minutes: f64) -> f64 {
    requests_in_ten_minutes / (REQUESTS_PER_MINUTE_1997 * MINUTES_1997)
}

/// One cell of the table.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cell {
    /// What is assumed.
    pub assumed: Assumptions,
    /// Users.
    pub users: Option<f64>,
}

/// The table: a row for each number of pages a minute, a column for each share of the cache.
pub fn table(requests_per_second: f64, requests_per_page: f64, first_party_share: f64) -> Vec<Vec<Cell>> {
    let cell = |pages_per_minute: f64, cache_hit_share: f64| {
        let assumed = Assumptions { pages_per_minute, requests_per_page, cache_hit_share, first_party_share };
        Cell { assumed, users: users(requests_per_second, &assumed) }
    };
    PAGES_PER_MINUTE.map(|pages| CACHE_HIT_SHARES.map(|share| cell(pages, share)).to_vec()).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_sum_of_1997_is_15_960_users() {
        assert_eq!(users_of_1997(798_000.0), 15_960.0);
        assert_eq!(users_of_1997(1330.0 * 600.0), 15_960.0);
        // It is the general formula with pages of one request, five a minute, and no cache.
        let of_1997 = Assumptions {
            pages_per_minute: 5.0,
            requests_per_page: 1.0,
            cache_hit_share: 0.0,
            first_party_share: 1.0,
        };
        assert!((users(1330.0, &of_1997).unwrap() - 15_960.0).abs() < 1e-9);
    }

    #[test]
    fn todays_pages_leave_far_fewer() {
        let today = table(1330.0, REQUESTS_PER_PAGE_2025, 1.0);
        // 1330 / (1/60 x 77) at one page a minute without a cache.
        assert!((today[1][0].users.unwrap() - 1036.36).abs() < 0.01);
        let nothing = Assumptions {
            pages_per_minute: 1.0,
            requests_per_page: 1.0,
            cache_hit_share: 1.0,
            first_party_share: 1.0,
        };
        assert_eq!(users(1330.0, &nothing), None);
    }

    proptest! {
        #[test]
        fn lazier_users_and_better_caches_allow_more(rate in 1.0f64..1e6, requests in 1.0f64..500.0) {
            let table = table(rate, requests, 0.7);
            for row in &table {
                prop_assert!(row.windows(2).all(|pair| pair[0].users < pair[1].users));
            }
            for pair in table.windows(2) {
                prop_assert!(pair[0][0].users > pair[1][0].users);
            }
        }
    }
}
