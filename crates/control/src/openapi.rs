//! The OpenAPI 3.1 description of the API, generated from the table of its paths.

use serde_json::{Map, Value, json};

use crate::request::ControlMethod;
use crate::resource::RESOURCES;

/// The summary of each path and method.
const SUMMARIES: [(&str, ControlMethod, &str); 25] = [
    ("/control", ControlMethod::Get, "The paths, and the active changes"),
    ("/control/config", ControlMethod::Get, "The effective configuration, without its secrets"),
    ("/control/config", ControlMethod::Put, "Replace the configuration"),
    ("/control/sites", ControlMethod::Get, "The sites"),
    ("/control/sites", ControlMethod::Post, "Add a site"),
    ("/control/sites/{site}", ControlMethod::Get, "A site"),
    ("/control/sites/{site}", ControlMethod::Put, "Add or replace a site"),
    ("/control/sites/{site}", ControlMethod::Delete, "Remove a site"),
    ("/control/sites/{site}/routes", ControlMethod::Get, "The routes of a site"),
    ("/control/sites/{site}/routes", ControlMethod::Put, "Replace all routes of a site"),
    ("/control/sites/{site}/routes", ControlMethod::Post, "Add a route, last or at ?position=N"),
    ("/control/sites/{site}/routes/{number}", ControlMethod::Get, "A route"),
    ("/control/sites/{site}/routes/{number}", ControlMethod::Put, "Replace a route"),
    ("/control/sites/{site}/routes/{number}", ControlMethod::Delete, "Remove a route"),
    ("/control/origins", ControlMethod::Get, "All origins, with their state and their load"),
    ("/control/origins/{site}/{route}", ControlMethod::Get, "The origins of a route"),
    ("/control/origins/{site}/{route}", ControlMethod::Post, "Add an origin"),
    ("/control/origins/{site}/{route}/{origin}", ControlMethod::Get, "An origin"),
    (
        "/control/origins/{site}/{route}/{origin}",
        ControlMethod::Patch,
        "Set the state or the weight of an origin",
    ),
    ("/control/origins/{site}/{route}/{origin}", ControlMethod::Delete, "Remove an origin"),
    ("/control/certificates", ControlMethod::Get, "The certificates of all sites"),
    ("/control/certificates/{site}", ControlMethod::Get, "The certificate of a site"),
    ("/control/certificates/{site}", ControlMethod::Put, "Replace the certificate and the key of a site"),
    ("/control/purge", ControlMethod::Post, "Remove stored responses"),
    ("/control/history", ControlMethod::Get, "The last changes, accepted and refused"),
];

/// The summaries for the paths of the overlay and of this description.
const MORE_SUMMARIES: [(&str, ControlMethod, &str); 3] = [
    ("/control/overlay", ControlMethod::Get, "The changes over the configuration file"),
    ("/control/overlay", ControlMethod::Delete, "Discard all changes and apply the configuration file alone"),
    ("/control/openapi.json", ControlMethod::Get, "This description"),
];

/// The description.
pub fn description() -> Value {
    let mut paths = Map::new();
    for (path, methods) in RESOURCES {
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

fn operation(path: &str, method: ControlMethod) -> Value {
    let mut operation = json!({
        "summary": summary(path, method),
        "responses": {
            "200": { "description": "The value, or the changes" },
            "default": {
                "description": "The error",
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
            "required": method != ControlMethod::Patch && path != "/control/sites/{site}",
            "schema": { "type": "string" },
        }]);
    }
    if matches!(method, ControlMethod::Put | ControlMethod::Post | ControlMethod::Patch) {
        operation["requestBody"] = json!({
            "required": true,
            "content": { "application/json": { "schema": {} } },
        });
    }
    operation
}

fn summary(path: &str, method: ControlMethod) -> &'static str {
    let all = SUMMARIES.iter().chain(&MORE_SUMMARIES);
    let mut found = all.filter(|(known, of, _)| *known == path && *of == method);
    found.next().map_or("", |(_, _, summary)| summary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_and_method_is_described() {
        let count: usize = RESOURCES.iter().map(|(_, methods)| methods.len()).sum();
        assert_eq!(count, SUMMARIES.len() + MORE_SUMMARIES.len());
        for (path, methods) in RESOURCES {
            for method in methods {
                assert!(!summary(path, *method).is_empty(), "{} {path}", method.word());
            }
        }
        let description = description();
        assert_eq!(description["paths"].as_object().unwrap().len(), RESOURCES.len());
        assert_eq!(description["paths"]["/control/sites/{site}"]["parameters"][0]["name"], "site");
    }
}
