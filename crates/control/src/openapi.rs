//! The description of the API in the form of OpenAPI 3.1, from the table of its paths.

use serde_json::{Map, Value, json};

use crate::call::CallMethod;
use crate::place::PLACES;

/// What each path and method does.
const SUMMARIES: [(&str, CallMethod, &str); 25] = [
    ("/control", CallMethod::Get, "The paths, and the changes that count"),
    ("/control/config", CallMethod::Get, "The configuration in force, without its secrets"),
    ("/control/config", CallMethod::Put, "Replace the configuration"),
    ("/control/sites", CallMethod::Get, "The sites"),
    ("/control/sites", CallMethod::Post, "Add a site"),
    ("/control/sites/{site}", CallMethod::Get, "A site"),
    ("/control/sites/{site}", CallMethod::Put, "Add or replace a site"),
    ("/control/sites/{site}", CallMethod::Delete, "Remove a site"),
    ("/control/sites/{site}/routes", CallMethod::Get, "The routes of a site"),
    ("/control/sites/{site}/routes", CallMethod::Put, "Replace all routes of a site"),
    ("/control/sites/{site}/routes", CallMethod::Post, "Add a route, last or at ?position=N"),
    ("/control/sites/{site}/routes/{number}", CallMethod::Get, "A route"),
    ("/control/sites/{site}/routes/{number}", CallMethod::Put, "Replace a route"),
    ("/control/sites/{site}/routes/{number}", CallMethod::Delete, "Remove a route"),
    ("/control/origins", CallMethod::Get, "All origins, with their state and their load"),
    ("/control/origins/{site}/{route}", CallMethod::Get, "The origins of a route"),
    ("/control/origins/{site}/{route}", CallMethod::Post, "Add an origin"),
    ("/control/origins/{site}/{route}/{origin}", CallMethod::Get, "An origin"),
    (
        "/control/origins/{site}/{route}/{origin}",
        CallMethod::Patch,
        "Set the state or the weight of an origin",
    ),
    ("/control/origins/{site}/{route}/{origin}", CallMethod::Delete, "Remove an origin"),
    ("/control/certificates", CallMethod::Get, "The certificates of all sites"),
    ("/control/certificates/{site}", CallMethod::Get, "The certificate of a site"),
    ("/control/certificates/{site}", CallMethod::Put, "Replace the certificate and the key of a site"),
    ("/control/purge", CallMethod::Post, "Remove stored responses"),
    ("/control/history", CallMethod::Get, "The last changes, accepted and refused"),
];

/// The same for the paths of the overlay and of this description.
const MORE_SUMMARIES: [(&str, CallMethod, &str); 3] = [
    ("/control/overlay", CallMethod::Get, "The changes over the configuration file"),
    ("/control/overlay", CallMethod::Delete, "Drop all changes: the configuration file counts again"),
    ("/control/openapi.json", CallMethod::Get, "This description"),
];

/// The description.
pub fn description() -> Value {
    let mut paths = Map::new();
    for (path, methods) in PLACES {
        let mut operations = Map::new();
        let parameters: Vec<Value> = path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
            .map(|name| {
                let schema = json!({ "type": "string" });
                json!({ "name": name, "in": "path", "required": true, "schema": schema })
            })
            .collect();
        if !parameters.is_empty() {
            operations.insert("parameters".to_string(), parameters.into());
        }
        for method in methods {
            operations.insert(method.word().to_ascii_lowercase(), operation(path, *method));
        }
        paths.insert(path.to_string(), Value::Object(operations));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Touchstone control API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Values have the keys of the configuration file. docs/control.md has examples.",
        },
        "security": [{ "token": [] }],
        "components": { "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } } },
        "paths": paths,
    })
}

fn operation(path: &str, method: CallMethod) -> Value {
    let mut operation = json!({
        "summary": summary(path, method),
        "responses": {
            "200": { "description": "The value, or what was changed" },
            "default": {
                "description": "What is wrong",
                "content": { "application/json": { "schema": {
                    "type": "object",
                    "properties": {
                        "error": { "type": "string" },
                        "problems": { "type": "array" },
                        "etag": { "type": "string" },
                        "last_change": { "type": "object" },
                    },
                    "required": ["error"],
                } } },
            },
        },
    });
    let needs_condition = !method.is_safe() && !path.ends_with("/purge");
    if needs_condition {
        operation["parameters"] = json!([{
            "name": "If-Match",
            "in": "header",
            "required": method != CallMethod::Patch && path != "/control/sites/{site}",
            "schema": { "type": "string" },
        }]);
    }
    if matches!(method, CallMethod::Put | CallMethod::Post | CallMethod::Patch) {
        operation["requestBody"] = json!({
            "required": true,
            "content": { "application/json": { "schema": {} } },
        });
    }
    operation
}

fn summary(path: &str, method: CallMethod) -> &'static str {
    let all = SUMMARIES.iter().chain(&MORE_SUMMARIES);
    let mut found = all.filter(|(known, of, _)| *known == path && *of == method);
    found.next().map_or("", |(_, _, summary)| summary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_and_method_is_described() {
        let count: usize = PLACES.iter().map(|(_, methods)| methods.len()).sum();
        assert_eq!(count, SUMMARIES.len() + MORE_SUMMARIES.len());
        for (path, methods) in PLACES {
            for method in methods {
                assert!(!summary(path, *method).is_empty(), "{} {path}", method.word());
            }
        }
        let description = description();
        assert_eq!(description["paths"].as_object().unwrap().len(), PLACES.len());
        assert_eq!(description["paths"]["/control/sites/{site}"]["parameters"][0]["name"], "site");
    }
}
