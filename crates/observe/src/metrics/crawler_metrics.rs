//! The table of the metrics of bots and of visitors that are checked.

use touchstone_handler::crawler_counts::Result;

use super::metric::{Definition, Kind};

/// Every metric of crawlers.
pub static CRAWLER_METRICS: &[Definition] = &[Definition {
    name: "touchstone_crawlers_requests",
    kind: Kind::Counter,
    help: "Requests by the result of the rules on crawlers.",
    labels: &[
        ("site", "the site"),
        ("bot", "the bot, where the configuration names it; `-` for all other clients"),
        (
            "result",
            "`verified`: a signature was valid; `invalid`: it was not; `unverified`: its key could not be \
             found; `imitated`: an unsigned request named the bot; `denied`: the bot has no access; \
             `limited`: it made too many requests; `challenged`: a visitor must pass the check first; \
             `worked`, `waited`: it has passed; `failed`: the data that it sent was invalid; `admitted`: \
             it had passed before",
        ),
    ],
    collect: |totals, samples| {
        for crawler in &totals.crawlers {
            for (result, number) in Result::ALL.iter().zip(crawler.results) {
                samples.add(&[&crawler.site, &crawler.bot, result.label()], number);
            }
        }
    },
}];
