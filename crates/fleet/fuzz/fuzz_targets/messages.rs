//! No order, report, part of a result, rule or credentials makes a member panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_fleet::{AllowRule, Credentials, MixResults, Order, Part, Report};
use touchstone_load::Outcome;

fuzz_target!(|bytes: &[u8]| {
    let _ = serde_json::from_slice::<Order>(bytes);
    let _ = serde_json::from_slice::<Report>(bytes);
    let _ = Credentials::receive(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = text.parse::<AllowRule>();
    }
    if let Some(part) = Part::decode(bytes) {
        let agent = part.head.agent.clone();
        let mut fold = MixResults::new(&part.head.run.clone(), part.head.mix, [agent.as_str()]);
        fold.take(&agent, part);
        let _ = fold.result::<Outcome>(&agent);
    }
});
