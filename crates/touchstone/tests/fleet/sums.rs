//! The parts make the whole.

use crate::rig::{Fleet, until_together};
use serde_json::Value;

/// A figure of each agent of a mix.
pub(crate) fn of_agents(mix: &Value, figure: &str) -> Vec<f64> {
    let agents = mix["fleet"]["agents"].as_array().expect("agents");
    agents
        .iter()
        .map(|agent| agent[figure].as_f64().unwrap_or_else(|| panic!("{figure} in {agent}")))
        .collect()
}

/// The agents' own counts are those of the mix, to the request.
pub(crate) fn whole_is_sum(mix: &Value) {
    for figure in ["requests", "total_requests"] {
        let whole = mix[figure].as_f64().expect(figure);
        assert!(whole > 0.0, "{mix:#}");
        assert_eq!(of_agents(mix, figure).iter().sum::<f64>(), whole, "{figure}: {mix:#}");
    }
}

#[test]
fn two_agents_make_the_load_of_one_plan() {
    let Some(mut fleet) = Fleet::new(&["load-1", "load-2"]) else { return };
    fleet.start_agent("load-1", &[]);
    fleet.start_agent("load-2", &["--cores", "0"]);
    let more =
        ["--sut", "limit", "--clients", "5", "--length", "3s", "--ramp-up", "500ms", "--ramp-down", "500ms"];
    let ended = until_together(|| fleet.bench(&more).wait());
    assert_eq!(ended.code, Some(0), "{}", ended.error);
    let mix = ended.mix();
    whole_is_sum(mix);
    assert_eq!(of_agents(mix, "clients").iter().sum::<f64>(), 5.0);
    assert!(of_agents(mix, "clients").iter().all(|clients| *clients > 0.0));
    let rows = mix["client_rows"].as_array().expect("a row a client");
    assert_eq!(rows.len(), 5);
    let by_client: f64 = rows.iter().map(|row| row["requests"].as_f64().expect("a count")).sum();
    assert_eq!(by_client, mix["requests"].as_f64().expect("a count"));
    assert_eq!(mix["latency"]["count"], mix["requests"]);
    // All messages besides the load were counted.
    assert!(of_agents(mix, "control_sent_bytes").iter().all(|bytes| *bytes > 0.0), "{mix:#}");
}
