//! The counts of bots and of visitors that are checked.

use std::sync::Arc;

use touchstone_handler::crawler_counts::{self, Result};
use touchstone_handler::service_counts::ServiceCounts;

/// The current counts of a bot at a site.
#[derive(Debug, Clone)]
pub struct CrawlerTotals {
    /// The site.
    pub site: String,
    /// The bot; `-`: all other clients.
    pub bot: String,
    /// Requests, by [`Result`].
    pub results: [u64; Result::ALL.len()],
}

/// All bots and sites that are in use.
pub fn crawler_totals(counts: &ServiceCounts) -> Vec<CrawlerTotals> {
    let totals = |(name, counts): (crawler_counts::Name, Arc<crawler_counts::Counts>)| CrawlerTotals {
        site: name.site,
        bot: name.bot,
        results: counts.results(),
    };
    counts.crawlers.all().into_iter().map(totals).collect()
}
