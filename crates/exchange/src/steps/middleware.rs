//! Components that run before the action of a route: a file, a program or another server.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use touchstone_files::cache::ConnectionForm;
use touchstone_handler::answer::Answer;
use touchstone_handler::handler::{Handled, Interface};
use touchstone_handler::request::{NextHandler, Request};
use touchstone_sites::route::{Outcome, RouteDecision, SiteRules};
use touchstone_sites::site::Snapshot;

use super::{ExchangeAnswer, Progress, StepContext, carry_out, handler_of, run_to_answer};
use crate::core::Core;

/// A position in the chain of components of a route.
#[derive(Clone)]
pub struct Chain {
    core: Rc<Core>,
    snapshot: Arc<Snapshot>,
    site: usize,
    route: usize,
    chain_end: ChainEnd,
    form: ConnectionForm,
    position: usize,
}

/// What follows the last component.
#[derive(Clone)]
enum ChainEnd {
    Program(Arc<dyn Interface>),
    Files { root: Option<usize> },
}

impl Chain {
    /// The first position, if there are components before the result of the rules.
    pub fn of(
        core: &Rc<Core>,
        snapshot: &Arc<Snapshot>,
        rules: &SiteRules,
        resolved: &RouteDecision<'_>,
        (site, form): (usize, ConnectionForm),
    ) -> Option<Chain> {
        let route = resolved.route.map(|route| route.index)?;
        if rules.middleware_at(route).is_empty() {
            return None;
        }
        let chain_end = match &resolved.outcome {
            Outcome::Handler(interface) => ChainEnd::Program(interface.clone()),
            Outcome::Files { root } => ChainEnd::Files { root: *root },
            _ => return None,
        };
        let (core, snapshot) = (core.clone(), snapshot.clone());
        Some(Chain { core, snapshot, site, route, chain_end, form, position: 0 })
    }

    /// Lets the component at this position answer, or the action after the last one.
    pub async fn answer_here(self, mut request: Request) -> Answer {
        let Some(rules) = &self.snapshot.sites[self.site].rules else { return Answer::error(500) };
        if let Some(component) = rules.middleware_at(self.route).get(self.position) {
            let next = Chain { position: self.position + 1, ..self.clone() };
            request.next = Some(Rc::new(next));
            let handler = handler_of(&self.core, &self.snapshot, component);
            return match handler.handle(request).await {
                Handled::Answer(answer) => answer,
                _ => Answer::error(500),
            };
        }
        let outcome = match &self.chain_end {
            ChainEnd::Program(interface) => Outcome::Handler(interface.clone()),
            ChainEnd::Files { root } => Outcome::Files { root: *root },
        };
        let resolved = RouteDecision {
            gates: Vec::new(),
            authorities: Vec::new(),
            logins: Vec::new(),
            crawlers: Vec::new(),
            rewritten: None,
            outcome,
            fields: Vec::new(),
            route: rules.route_at(self.route),
            policy: None,
        };
        // Fields that the components set about the client are kept.
        let progress = Progress::of_cleaned_request();
        let context =
            StepContext { core: &self.core, snapshot: &self.snapshot, form: self.form, progress: &progress };
        let first = carry_out(context, &resolved, request).await;
        run_to_answer(context, first, ExchangeAnswer::from(Answer::new(200))).await.answer
    }
}

impl NextHandler for Chain {
    fn answer(&self, request: Request) -> Pin<Box<dyn Future<Output = Answer>>> {
        Box::pin(self.clone().answer_here(request))
    }
}

/// Adds the lines of `fields` whose names an answer does not have yet: the existing ones were added by the
/// action after the components.
pub fn add_missing(fields: &[u8], answer: &mut Answer) {
    let name = |line: &[u8]| -> Vec<u8> {
        line.split(|&byte| byte == b':').next().unwrap_or_default().to_ascii_lowercase()
    };
    let present: Vec<Vec<u8>> = answer.fields.split(|&byte| byte == b'\n').map(name).collect();
    for line in fields.split_inclusive(|&byte| byte == b'\n') {
        if !present.contains(&name(line)) {
            answer.fields.extend_from_slice(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_missing_fields_are_added() {
        let mut answer = Answer::new(200).field("x-a", "1");
        add_missing(b"X-A: 2\r\nX-B: 3\r\nX-B: 4\r\n", &mut answer);
        assert_eq!(answer.fields, b"x-a: 1\r\nX-B: 3\r\nX-B: 4\r\n");
    }
}
