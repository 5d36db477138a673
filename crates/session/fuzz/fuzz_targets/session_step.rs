//! Fuzzes queries on answers: a found value can be inserted into a request.
#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_session::{
    AnswerView, ExtractPlan, RequestPart, Script, ScriptPlan, Start, StepCache, StepPlan, Template,
    resolve_location,
};

fuzz_target!(|input: (&str, &str, &[u8], &[u8])| {
    let (from, assert, field, body) = input;
    let plan = StepPlan {
        extract: vec![ExtractPlan { name: "value".to_string(), from: from.to_string() }],
        assert: if assert.is_empty() { Vec::new() } else { vec![assert.to_string()] },
        redirects: 0,
    };
    let mut script = Script::compile(&ScriptPlan { data: Vec::new(), cookies: true }).expect("no data");
    let Ok(step) = script.step(&plan) else { return };
    let mut state = script.new_state();
    script.begin(&mut state, &Start { client: 0, clients: 1, random: 1 });
    let names = [&b"set-cookie"[..], b"location"];
    let fields: Vec<(Vec<u8>, Vec<u8>)> = names.iter().map(|name| (name.to_vec(), field.to_vec())).collect();
    let answer = AnswerView { fields: &fields, body };
    state.take_cookies(&answer, 0, b"/a/b", 1_700_000_000);
    let mut cache = StepCache::default();
    let taken = step.take(&answer, &mut state, &mut cache);
    // The cached values are the values of the answer.
    let values = state.values.clone();
    assert_eq!(step.take(&answer, &mut state, &mut cache), taken);
    assert_eq!(state.values, values);
    let number = |name: &str| script.variable(name);
    let template = Template::compile("/${value}", RequestPart::Target, number).expect("a good text");
    let mut target = Vec::new();
    template.render(&state.values, &mut target);
    assert!(target.iter().all(u8::is_ascii_graphic));
    if let Some(path) = resolve_location(field, false, "localhost", b"/a/b") {
        assert!(path.starts_with(b"/"));
    }
});
