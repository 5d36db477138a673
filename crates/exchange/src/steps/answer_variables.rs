//! The values of variables in the fields of an answer.

use std::borrow::Cow;

use bytes::Bytes;
use touchstone_expression::{Fact, Source, Variable, source};
use touchstone_handler::request::Request;
use touchstone_sites::site::Snapshot;

use super::{ExchangeAnswer, Progress};

/// The facts that are known when the head of an answer is ready.
pub struct AnswerVariables<'a> {
    /// The request as it was received.
    pub request: &'a Request,
    /// The client and the user, as the rules have found them.
    pub answered: &'a ExchangeAnswer,
    /// The state of the exchange.
    pub progress: &'a Progress,
    /// For the names of sites and routes.
    pub snapshot: &'a Snapshot,
    /// The status of the answer.
    pub status: u16,
    /// The parts that the pattern of the route has matched.
    pub captures: &'a [Bytes],
}

impl Source for AnswerVariables<'_> {
    fn value<'a>(&'a self, variable: &'a Variable) -> Option<Cow<'a, [u8]>> {
        let facts = &self.progress.facts;
        let labels = || self.snapshot.route_table.labels_of(facts.site(), facts.route());
        // A site or route without a name has a hyphen in metrics.
        let name = |name: &str| (name != "-").then(|| source::text(name));
        match variable.fact {
            Fact::Status => Some(source::text(self.status)),
            Fact::User => self.answered.user.as_deref().map(|user| Cow::Borrowed(user.as_bytes())),
            Fact::Claim => facts.claims()?.value(&variable.name).map(source::text),
            Fact::Bot => Some(Cow::Owned(facts.bot()?.name.as_bytes().to_vec())),
            Fact::BotVerified => Some(Cow::Borrowed(facts.bot()?.state.as_bytes())),
            Fact::Site => name(&labels().site),
            Fact::Route => name(&labels().route),
            Fact::Handler => Some(Cow::Borrowed(facts.handler().as_bytes())),
            Fact::Cache => Some(Cow::Borrowed(facts.cache().word().as_bytes())),
            Fact::Capture => self.captures.get(variable.position).map(|found| Cow::Borrowed(&**found)),
            _ => self.request.value(variable),
        }
    }
}
