//! The rules of a site or route on bots and other visitors: the paths of their check, and the decision about
//! a request, before any cache is searched for its answer.

use touchstone_access as access;
use touchstone_crawlers::{self as crawlers, Decision, Endpoint};
use touchstone_handler::answer::Answer;
use touchstone_handler::request::Request;
use touchstone_http::request_view::RequestView;
use touchstone_sites::route::{RouteDecision, SiteRules};

use super::Progress;

/// The answer to a request for a path of the check; `None`: it is not one. Rules on addresses and rates
/// apply.
pub fn answer(
    rules: &SiteRules,
    view: &RequestView<'_>,
    request: &Request,
    progress: &Progress,
) -> Option<Answer> {
    let of_site = rules.crawlers()?;
    let endpoint = crawlers::endpoint(view.path)?;
    if !matches!(endpoint, Endpoint::File(_)) {
        // The task in it, with which others could get a pass.
        progress.facts.hide_query();
    }
    let resolved = rules.resolve(view);
    if let Err(refusal) = access::pass_without_user(&resolved.gates, view) {
        return Some(refusal.answer());
    }
    Some(crawlers::answer(&of_site.all(), endpoint, request))
}

/// Applies the rules to `original`, and notes its bot in `request`, which is the same without the cookies of
/// checks. The error is the answer to a request that does not pass.
pub async fn check(
    resolved: &RouteDecision<'_>,
    view: &RequestView<'_>,
    original: &Request,
    (request, progress): (&mut Request, &Progress),
) -> Result<(), Answer> {
    let mut original = original.without_body();
    for rules in &resolved.crawlers {
        let (bot, refused) = match rules.check(&original, view).await {
            Decision::Pass(bot) => (bot, None),
            Decision::Refuse(answer, bot) => (bot, Some(*answer)),
        };
        if let Some(bot) = bot {
            progress.facts.set_bot(bot.clone());
            original.bot = Some(bot.clone());
            request.bot = Some(bot);
        }
        if let Some(answer) = refused {
            return Err(answer);
        }
    }
    request.bot.get_or_insert_with(crawlers::passed_before);
    Ok(())
}
