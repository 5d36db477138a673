//! The assessment of a result by the run rules, as text: its class, what the class allows, and the reasons.
//! The report's first screen and the end of a run print the same.

use super::recompute;
use super::{Class, Evidence, Rule, class, deciding, rules};
use crate::audit::audit_outcomes;
use touchstone_lab::raw::RawMix;
use touchstone_lab::result::ResultFile;

/// The run rules and their outcomes.
#[derive(Debug, Clone)]
pub struct Assessment {
    /// Every rule.
    pub rules: Vec<Rule>,
    /// The class that follows.
    pub class: Class,
}

impl Assessment {
    /// Applies the rules; with the raw data every figure is computed again.
    pub fn of(result: &ResultFile, raw: Option<&[RawMix]>) -> Assessment {
        let recomputed = raw.map(|raw| recompute::result(result, raw));
        let audit = audit_outcomes(result);
        let rules = rules(&Evidence { result, recomputed: recomputed.as_ref(), audit: &audit });
        Assessment { class: class(&rules), rules }
    }

    /// What the class allows, for a reader who does not know the rules.
    pub fn meaning(&self) -> &'static str {
        match self.class {
            Class::Certified => {
                "every rule is fulfilled; its figures may be quoted once it is signed (touchstone certify)"
            }
            Class::Indicative => {
                "compare the systems of this run with each other, and quote no absolute figure"
            }
            Class::Invalid => "nothing of it may be quoted",
        }
    }

    /// What the rules that decide the class found.
    pub fn reasons(&self) -> impl Iterator<Item = &str> {
        deciding(&self.rules).map(|rule| rule.finding.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use touchstone_lab::sample;

    #[test]
    fn what_decides_is_told() {
        let mut result = sample::result();
        let assessment = Assessment::of(&result, None);
        assert_eq!(assessment.class, Class::Indicative);
        assert!(assessment.reasons().any(|reason| reason.contains("one machine")), "{assessment:?}");
        result.systems[0].mixes[2].latency.mean_us *= 2.0;
        let assessment = Assessment::of(&result, None);
        assert_eq!((assessment.class, assessment.meaning()), (Class::Invalid, "nothing of it may be quoted"));
        assert!(assessment.reasons().any(|reason| reason.contains("Little")), "{assessment:?}");
    }
}
