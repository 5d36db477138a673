//! The decision whether a request is traced, on its core.
//!
//! Requests are chosen at random, each with the same probability. No random number is drawn for each of them:
//! how many are passed over until the next is drawn in advance, from the geometric distribution, so that a
//! request that is not chosen costs one subtraction. Where sites have different shares, requests are chosen
//! by the largest, and then again by that of their site.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use touchstone_config::Millionths;
use touchstone_handler::trace::{Link, RANDOM, RequestTrace, SAMPLED};
use touchstone_http::trace_context::{self, TraceParent};
use touchstone_observe::request_id::RequestIds;

use crate::rules::{ALL, TraceRules};

/// If at most this many requests remain until the next selected one, the clock is read: one turn of a
/// connection may have several requests.
const NEAR: u64 = 32;

/// Decides for the requests of one core.
pub struct Tracer {
    rules: Arc<TraceRules>,
    /// The next request that is chosen: 1 is the next one.
    until_next: u64,
}

/// The site of a request, and its client.
#[derive(Debug, Clone, Copy)]
pub struct SamplingInput {
    /// The site, once it is known.
    pub site: Option<usize>,
    /// The route, if one matched.
    pub route: Option<usize>,
    /// The connection is that of a trusted proxy.
    pub is_from_proxy: bool,
}

impl Tracer {
    /// The tracer of a core.
    pub fn new(rules: Arc<TraceRules>, random: &mut RequestIds) -> Tracer {
        let until_next = gap(rules.largest, random.next_number());
        Tracer { rules, until_next }
    }

    /// Whether spans have the query.
    pub fn has_query(&self) -> bool {
        self.rules.has_query
    }

    /// Whether one of the next requests of a connection may be recorded, so that the clock must be read
    /// before it.
    #[inline]
    pub fn is_near(&self, is_from_proxy: impl FnOnce() -> bool) -> bool {
        self.until_next <= NEAR || self.rules.needs_parent(is_from_proxy)
    }

    /// Whether a hit may be recorded: it is selected, or its trace context may decide. If not, no more steps
    /// are needed for it.
    #[inline]
    pub fn may_record_hit(&mut self, is_from_proxy: impl FnOnce() -> bool) -> bool {
        if self.until_next > 1 && !self.rules.needs_parent(is_from_proxy) {
            self.until_next -= 1;
            return false;
        }
        true
    }

    /// The trace of a request that is answered straight from a cache; `None` if it is not recorded.
    pub fn record_hit<'a>(
        &mut self,
        sampling_input: SamplingInput,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
        random: &mut RequestIds,
    ) -> Option<Rc<RequestTrace>> {
        let decision = self.decide(sampling_input, fields.clone(), random)?;
        decision.is_recorded.then(|| self.trace(&decision, fields, random))
    }

    /// The trace of any other request, recorded or not; `None` if its site or route is not traced.
    pub fn begin<'a>(
        &mut self,
        sampling_input: SamplingInput,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
        random: &mut RequestIds,
    ) -> Option<Rc<RequestTrace>> {
        let decision = self.decide(sampling_input, fields.clone(), random)?;
        Some(self.trace(&decision, fields, random))
    }

    fn decide<'a>(
        &mut self,
        sampling_input: SamplingInput,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        random: &mut RequestIds,
    ) -> Option<Decision<'a>> {
        let is_chosen = self.is_chosen(random);
        let share = self.rules.share(sampling_input.site, sampling_input.route)?;
        let is_chosen = is_chosen && is_in_share(share, self.rules.largest, random);
        let may_continue = self.rules.accepts(sampling_input.is_from_proxy);
        if !is_chosen && !may_continue {
            return Some(Decision { is_recorded: false, parent: None, other: None });
        }
        let parent = trace_context::from_fields(fields);
        match parent {
            Some(parent) if may_continue => {
                // Clients may request a part of the records only. When this part is used up, the share
                // applies.
                let is_recorded = match parent.is_sampled() {
                    true => sampling_input.is_from_proxy || self.rules.spend() || is_chosen,
                    false => false,
                };
                Some(Decision { is_recorded, parent: Some(parent), other: None })
            }
            other => Some(Decision { is_recorded: is_chosen, parent: None, other }),
        }
    }

    /// Whether the next request is the chosen one.
    fn is_chosen(&mut self, random: &mut RequestIds) -> bool {
        self.until_next = self.until_next.saturating_sub(1);
        let is_chosen = self.until_next == 0;
        if is_chosen {
            self.until_next = gap(self.rules.largest, random.next_number());
        }
        is_chosen
    }

    fn trace<'a>(
        &self,
        decision: &Decision<'a>,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        random: &mut RequestIds,
    ) -> Rc<RequestTrace> {
        let link_to = |parent: TraceParent<'_>| Link {
            trace_id: parent.trace_id_bytes(),
            span_id: parent.parent_id_bytes(),
        };
        let (trace_id, state, is_random) = match decision.parent {
            Some(parent) => (parent.trace_id_bytes(), trace_context::trace_state(fields), parent.is_random()),
            None => (new_trace_id(random), Vec::new(), true),
        };
        Rc::new(RequestTrace {
            trace_id,
            span_id: random.next_number().max(1).to_be_bytes(),
            parent: decision.parent.map(|parent| parent.parent_id_bytes()),
            link: decision.other.map(link_to),
            flags: (u8::from(decision.is_recorded) * SAMPLED) | (u8::from(is_random) * RANDOM),
            state: state.into(),
            sink: self.rules.sink(),
            next_id: Cell::new(random.next_number()),
        })
    }
}

/// What is done about a request.
struct Decision<'a> {
    is_recorded: bool,
    /// The span of the caller whose trace is continued.
    parent: Option<TraceParent<'a>>,
    /// The span of a caller whose trace is not continued.
    other: Option<TraceParent<'a>>,
}

/// An id whose right half is random, as level 2 of the standard has it, and is not zero.
fn new_trace_id(random: &mut RequestIds) -> [u8; 16] {
    let id = u128::from(random.next_number()) << 64 | u128::from(random.next_number().max(1));
    id.to_be_bytes()
}

/// Whether a request that was chosen by the largest share belongs to this share, too.
fn is_in_share(share: Millionths, largest: Millionths, random: &mut RequestIds) -> bool {
    if share >= largest {
        return true;
    }
    let part = f64::from(share) / f64::from(largest);
    unit(random.next_number()) < part
}

/// How many requests from one that is chosen to the next, at least 1, for a share; `u64::MAX`: none is.
fn gap(share: Millionths, random: u64) -> u64 {
    match share {
        0 => u64::MAX,
        ALL.. => 1,
        share => {
            let probability = f64::from(share) / f64::from(ALL);
            // The inverse of the geometric distribution. The argument is above 0, and the result finite.
            let passed_over = (1.0 - unit(random)).ln() / (1.0 - probability).ln();
            1 + passed_over as u64
        }
    }
}

/// A random number from 0 to below 1.
fn unit(random: u64) -> f64 {
    (random >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::tests::rules;
    use proptest::prelude::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    struct Core {
        tracer: Tracer,
        random: RequestIds,
    }

    impl Core {
        fn new(telemetry: &str, site: &str) -> Core {
            let mut random = RequestIds::new();
            Core { tracer: Tracer::new(rules(telemetry, site), &mut random), random }
        }

        fn begin(&mut self, is_from_proxy: bool, fields: &[(&str, &str)]) -> Option<Rc<RequestTrace>> {
            let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            let sampling_input = SamplingInput { site: Some(0), route: None, is_from_proxy };
            self.tracer.begin(sampling_input, fields, &mut self.random)
        }

        fn recorded(&mut self, count: usize, is_from_proxy: bool, fields: &[(&str, &str)]) -> usize {
            let is_recorded = |core: &mut Core| core.begin(is_from_proxy, fields).unwrap().is_sampled();
            (0..count).filter(|_| is_recorded(self)).count()
        }
    }

    #[test]
    fn the_share_is_kept() {
        for (share, least, most) in [("0", 0, 0), ("1", 100_000, 100_000), ("0.01", 800, 1200)] {
            let mut core = Core::new(&format!("sample = {share}"), "");
            let recorded = core.recorded(100_000, false, &[]);
            assert!((least..=most).contains(&recorded), "{share}: {recorded}");
        }
        // A site with a smaller share than another.
        let other = "telemetry = { sample = 0.1 }\n[[site.route]]\npath = '/a'\ntelemetry = { sample = 1 }\n";
        let recorded = Core::new("sample = 0.5", other).recorded(100_000, false, &[]);
        assert!((9_400..=10_600).contains(&recorded), "{recorded}");
    }

    #[test]
    fn hits_are_chosen_as_others_are() {
        let mut core = Core::new("sample = 0.02", "");
        let mut recorded = 0;
        for _ in 0..100_000 {
            if core.tracer.may_record_hit(|| false) {
                let sampling_input = SamplingInput { site: Some(0), route: None, is_from_proxy: false };
                let trace = core.tracer.record_hit(sampling_input, std::iter::empty(), &mut core.random);
                recorded += usize::from(trace.is_some_and(|trace| trace.is_sampled()));
            }
        }
        assert!((1_700..=2_300).contains(&recorded), "{recorded}");
    }

    #[test]
    fn only_hits_that_come_from_proxies_are_searched_for_a_parent() {
        let proxies = "[proxies]\ntrusted = ['10.0.0.0/8']";
        for (parent, of_proxy, of_client) in
            [("never", false, false), ("proxies", true, false), ("always", true, true)]
        {
            let text = format!("sample = 0\nparent = '{parent}'\n{proxies}");
            let tracer = &mut Core::new(&text, "").tracer;
            for (is_from_proxy, expected) in [(true, of_proxy), (false, of_client)] {
                assert_eq!(tracer.may_record_hit(|| is_from_proxy), expected, "{parent} {is_from_proxy}");
                assert_eq!(tracer.is_near(|| is_from_proxy), expected, "{parent} {is_from_proxy}");
            }
        }
        // Without trusted proxies the peer is not determined.
        let tracer = &mut Core::new("sample = 0\nparent = 'proxies'", "").tracer;
        assert!(!tracer.may_record_hit(|| panic!("the peer is looked up")));
    }

    #[test]
    fn a_trusted_parent_decides() {
        let fields = [("traceparent", PARENT), ("tracestate", "a=b")];
        let mut core = Core::new("sample = 0", "");
        let trace = core.begin(true, &fields).unwrap();
        assert!(trace.is_sampled() && trace.parent.is_some() && trace.link.is_none());
        assert_eq!(&*trace.state, b"a=b");
        assert!(trace.trace_parent().starts_with(&PARENT.as_bytes()[..36]));
        assert_ne!(trace.trace_parent()[36..52], PARENT.as_bytes()[36..52]);
        assert_eq!(core.recorded(1000, true, &[("traceparent", PARENT)]), 1000);
        let not_sampled = PARENT.replace("-01", "-00");
        assert_eq!(Core::new("sample = 1", "").recorded(100, true, &[("traceparent", &not_sampled)]), 0);
    }

    #[test]
    fn a_client_forces_nothing() {
        let fields = [("traceparent", PARENT), ("tracestate", "a=b")];
        let mut core = Core::new("sample = 0", "");
        assert_eq!(core.recorded(1000, false, &fields), 0);
        let mut core = Core::new("sample = 1\nparent = 'never'", "");
        let trace = core.begin(true, &fields).unwrap();
        let link = trace.link.unwrap();
        assert_eq!(link.trace_id, TraceParent::parse(PARENT.as_bytes()).unwrap().trace_id_bytes());
        assert!(trace.trace_id != link.trace_id && trace.parent.is_none() && trace.state.is_empty());
        // The requests of clients with `always` are limited.
        let mut core = Core::new("sample = 0\nparent = 'always'\nparent_rate = 5", "");
        let recorded = core.recorded(1000, false, &fields);
        assert!((5..=20).contains(&recorded), "{recorded}");
        assert_eq!(Core::new("sample = 0\nparent = 'always'", "").recorded(9, false, &[]), 0);
    }

    #[test]
    fn what_is_off_has_no_trace() {
        let mut core = Core::new("sample = 1", "telemetry = 'off'\n");
        assert!(core.begin(true, &[("traceparent", PARENT)]).is_none());
    }

    proptest! {
        #[test]
        fn gaps_are_finite(share in 0..=ALL, random: u64) {
            let gap = gap(share, random);
            prop_assert!(gap >= 1);
            prop_assert!(share == 0 || gap < u64::MAX / 2);
        }

        #[test]
        fn any_fields_make_a_valid_trace(
            value in "(00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}|.{0,80})",
            state in ".{0,600}",
            is_from_proxy: bool,
        ) {
            let mut core = Core::new("parent = 'always'", "");
            let fields = [("traceparent", &value[..]), ("tracestate", &state[..])];
            let trace = core.begin(is_from_proxy, &fields).unwrap();
            prop_assert!(TraceParent::parse(&trace.trace_parent()).is_some());
            prop_assert!(trace.state.len() <= 512);
        }
    }
}
