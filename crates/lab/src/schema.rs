//! `docs/result.schema.json` describes what [`crate::result`] writes: a sample result must fit it, name by
//! name.

use serde_json::{Map, Value};

/// The schema that is published.
fn schema() -> Value {
    let text = include_str!("../../../docs/result.schema.json");
    serde_json::from_str(text).expect("the schema is JSON")
}

/// Collects every place where a value does not fit its schema. It supports the part of JSON Schema that the
/// file uses.
fn misfits(root: &Value, schema: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let target = root.pointer(reference.trim_start_matches('#')).expect("a reference leads somewhere");
        return misfits(root, target, value, place, found);
    }
    if let Some(constant) = schema.get("const") {
        if constant != value {
            found.push(format!("{place}: {value} is not {constant}"));
        }
        return;
    }
    for key in ["anyOf", "oneOf"] {
        let Some(choices) = schema.get(key).and_then(Value::as_array) else { continue };
        let fits = |choice: &&Value| {
            let mut inside = Vec::new();
            misfits(root, choice, value, place, &mut inside);
            inside.is_empty()
        };
        if choices.iter().filter(fits).count() != 1 {
            found.push(format!("{place}: fits none of {key}, or several"));
        }
        return;
    }
    if !has_type(schema, value) {
        found.push(format!("{place}: {value} is not of type {}", schema["type"]));
        return;
    }
    match value {
        Value::Object(fields) => object_misfits(root, schema, fields, place, found),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let of_item =
                    schema.get("items").or_else(|| schema.pointer(&format!("/prefixItems/{index}")));
                let Some(of_item) = of_item else {
                    found.push(format!("{place}[{index}] is not described"));
                    continue;
                };
                misfits(root, of_item, item, &format!("{place}[{index}]"), found);
            }
        }
        _ => {}
    }
}

fn object_misfits(
    root: &Value,
    schema: &Value,
    fields: &Map<String, Value>,
    place: &str,
    found: &mut Vec<String>,
) {
    let properties = schema["properties"].as_object().expect("an object has properties");
    for (name, value) in fields {
        match properties.get(name) {
            Some(property) => misfits(root, property, value, &format!("{place}.{name}"), found),
            None => found.push(format!("{place}.{name} is not described")),
        }
    }
    for name in schema["required"].as_array().expect("an object says what is required") {
        if !fields.contains_key(name.as_str().expect("a name")) {
            found.push(format!("{place}.{name} is required"));
        }
    }
    for (name, property) in properties {
        if !fields.contains_key(name) {
            found.push(format!("{place}.{name} is described and not written"));
        }
        if property.get("description").is_none() && property.get("const").is_none() {
            found.push(format!("{place}.{name} has no description"));
        }
    }
}

fn has_type(schema: &Value, value: &Value) -> bool {
    let has_type = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_u64(),
        "number" => value.is_number(),
        other => panic!("the schema has the type {other}"),
    };
    match &schema["type"] {
        Value::String(name) => has_type(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(has_type),
        other => panic!("the schema has the type {other}"),
    }
}

/// Where the value does not fit the published schema.
fn check(value: &Value) -> Vec<String> {
    let schema = schema();
    let mut found = Vec::new();
    misfits(&schema, &schema, value, "result", &mut found);
    found
}

#[test]
fn a_sample_result_fits_the_published_schema() {
    let mut result = crate::sample::result();
    assert_eq!(check(&serde_json::to_value(&result).unwrap()), Vec::<String>::new());

    let accelerated = crate::sample::accelerated();
    assert_eq!(check(&serde_json::to_value(&accelerated).unwrap()), Vec::<String>::new());
    assert_eq!(check(&serde_json::to_value(crate::sample::spice()).unwrap()), Vec::<String>::new());
    let mut open = crate::sample::open();
    open.systems[0].mixes[0].messages = Some(crate::sample::messages());
    crate::derived::make(&mut open);
    assert_eq!(check(&serde_json::to_value(&open).unwrap()), Vec::<String>::new());
    let mut derived = crate::sample::accelerated();
    for (system, processors) in derived.systems.iter_mut().zip([1, 2]) {
        system.name = crate::speedup::name_on("nginx", processors);
        system.search = vec![crate::result::SearchTrial {
            interface: String::new(),
            clients: 4,
            requests_per_second: 1000.0,
            p95_us: 900.0,
            errors_share: 0.0,
        }];
        system.mixes[0].thresholds = vec![crate::threshold_record::ThresholdRecord {
            threshold: "p99>1s".to_string(),
            kept: true,
            measured: Some(1.0),
            limit: 1e6,
            unit: "us".to_string(),
            words: "1 us".to_string(),
        }];
        system.mixes[0].error_reasons = vec![crate::threshold_record::ReasonRecord {
            kind: "timeout".to_string(),
            reason: "no answer".to_string(),
            count: 1,
            first_at_s: 0.5,
            first_request: "GET /".to_string(),
            first_answer: None,
        }];
        system.mixes[0].taint = crate::statistics::taint::signs(&[crate::statistics::taint::EngineSecond {
            busiest_thread: Some(0.99),
            ..Default::default()
        }]);
    }
    crate::derived::make(&mut derived);
    assert!(!derived.comparisons.is_empty() && !derived.speedups.is_empty());
    assert_eq!(check(&serde_json::to_value(&derived).unwrap()), Vec::<String>::new());
    result.status = crate::result::RunStatus::Incomplete("for the test".into());
    let suite = crate::suite::Suite::find("webbench-3.0-like").unwrap();
    result.suite = suite.record(false, 1);
    assert!(result.suite.classes.iter().all(|class| class.sizes.is_some()));
    result.suite.tls = crate::suite::Suite::find("tls-full").unwrap().record(false, 1).tls;
    assert!(result.suite.tls.is_some());
    result.systems[0].mixes[0].tls_handshakes = Some(crate::result::HandshakeRecord { full: 40, resumed: 2 });
    result.systems[0].mixes[0].connect = Some(result.systems[0].mixes[0].latency.clone());
    result.systems[0].mixes[1].server = None;
    result.systems[0].mixes[1].machine = None;
    result.systems[0].mixes[1].fleet = Some(crate::sample::fleet());
    result.systems[0].mixes[1].classes = vec![crate::sample::class_figures(10)];
    result.systems[0].last_words = Some("out of memory".into());
    result.conformance = Some(crate::sample::conformance());
    assert_eq!(check(&serde_json::to_value(&result).unwrap()), Vec::<String>::new());
}

#[test]
fn what_does_not_fit_is_found() {
    let good = serde_json::to_value(crate::sample::result()).unwrap();
    let damaged = |change: fn(&mut Value)| {
        let mut value = good.clone();
        change(&mut value);
        check(&value)
    };
    assert_eq!(damaged(|value| value["surprise"] = 1.into())[0], "result.surprise is not described");
    assert!(!damaged(|value| value["schema_version"] = 2.into()).is_empty());
    assert!(!damaged(|value| value["status"]["state"] = "resting".into()).is_empty());
    assert!(!damaged(|value| value["systems"][0]["mixes"][0]["clients"] = "one".into()).is_empty());
    let missing = damaged(|value| drop(value["machine"].as_object_mut().unwrap().remove("kernel")));
    assert!(missing.contains(&"result.machine.\"kernel\" is required".to_string()), "{missing:?}");
}
