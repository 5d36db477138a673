//! The shares of a mix's requests that used TLS, and that a program answered: as the suite states it, and as
//! it was counted in the window.

use crate::result::{ClassRecord, MixResult, SuiteRecord};

/// Requests of one kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Whether they went over TLS.
    pub tls: bool,
    /// Whether a program answered them, and not a file.
    pub is_dynamic: bool,
    /// Their share as the suite states it, 0 to 1.
    pub stated: f64,
    /// How many of them ended in the window, answered or not.
    pub requests: u64,
    /// Their share of all that ended in the window, 0 to 1.
    pub counted: f64,
}

impl Share {
    /// Their name for people.
    pub fn title(&self) -> &'static str {
        match (self.is_dynamic, self.tls) {
            (true, true) => "dynamic, with TLS",
            (false, true) => "static, with TLS",
            (true, false) => "dynamic, in the clear",
            (false, false) => "static, in the clear",
        }
    }
}

/// The kinds of requests of a mix, and what was counted of each. Empty where all requests are of one kind,
/// and where a mix has no counts by class.
pub fn of(suite: &SuiteRecord, mix: &MixResult) -> Vec<Share> {
    if suite.classes.len() != mix.classes.len() {
        return Vec::new();
    }
    let ended = |index: usize| {
        let figures = &mix.classes[index];
        figures.response_us.count.saturating_add(figures.errors)
    };
    let all: u64 = (0..suite.classes.len()).map(ended).fold(0, u64::saturating_add);
    let kind = |class: &ClassRecord| (class.tls, class.interface.is_some());
    let share = |(tls, is_dynamic): (bool, bool)| {
        let own = || {
            let classes = suite.classes.iter().enumerate();
            classes.filter(move |(_, class)| kind(class) == (tls, is_dynamic))
        };
        let requests = own().map(|(index, _)| ended(index)).fold(0, u64::saturating_add);
        (own().count() > 0).then(|| Share {
            tls,
            is_dynamic,
            stated: own().map(|(_, class)| class.weight_percent).sum::<f64>() / 100.0,
            requests,
            counted: requests as f64 / all.max(1) as f64,
        })
    };
    let kinds = [(true, true), (true, false), (false, true), (false, false)];
    let shares: Vec<Share> = kinds.into_iter().filter_map(share).collect();
    if shares.len() < 2 || all == 0 { Vec::new() } else { shares }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::suite::Suite;

    #[test]
    fn shares_are_counted_over_all_classes_of_a_kind() {
        let suite = Suite::find("e-commerce").unwrap().record(true, 1);
        let mut mix = sample::mix(4, 1000.0);
        let requests = |class: &ClassRecord| (class.weight_percent * 100.0).round() as u64;
        mix.classes = suite.classes.iter().map(|class| sample::class_figures(requests(class))).collect();
        let found = of(&suite, &mix);
        let titles: Vec<&str> = found.iter().map(Share::title).collect();
        assert_eq!(
            titles,
            ["dynamic, with TLS", "static, with TLS", "dynamic, in the clear", "static, in the clear"]
        );
        for (share, stated) in found.iter().zip([0.02, 0.06, 0.17, 0.75]) {
            assert!(
                (share.stated - stated).abs() < 1e-9 && (share.counted - stated).abs() < 0.01,
                "{share:?}"
            );
        }
        assert!((found.iter().map(|share| share.counted).sum::<f64>() - 1.0).abs() < 1e-9);
        // Failed requests are included.
        mix.classes.last_mut().unwrap().errors = 10_000;
        assert!(of(&suite, &mix)[0].counted > 0.3);
    }

    #[test]
    fn one_kind_alone_and_results_without_classes_have_none() {
        let suite = Suite::find("webbench-1.1-static").unwrap().record(true, 1);
        let mut mix = sample::mix(4, 1000.0);
        assert!(of(&suite, &mix).is_empty());
        mix.classes = suite.classes.iter().map(|_| sample::class_figures(10)).collect();
        assert!(of(&suite, &mix).is_empty());
    }
}
