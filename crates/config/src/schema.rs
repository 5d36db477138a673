//! The table of keys as a JSON schema, by which editors complete and check a configuration.
//!
//! It says what a key may be as far as a schema can: what a string must hold beyond its form, and what keys
//! together must not say, `touchstone check` tells.

use serde_json::{Map, Value, json};
use touchstone_files::compress::level_range;
use touchstone_http::content_coding::ContentCoding;

use super::include::INCLUDE;
use super::keys::for_each_section;
use super::section::{ABSENT, Key, Kind, Section};

const DURATION: &str = "^[0-9]+(ms|s|m|h)$";
const SIZE: &str = "^[0-9]+ *([bB]|[kKmMgGtT][iI]?[bB])?$";

/// The schema (JSON Schema draft 7, which every editor knows).
pub fn json_schema() -> String {
    let mut definitions = Map::new();
    let mut sections = Map::new();
    for_each_section!(section => {
        definitions.insert(section.name.to_string(), definition(section));
        if !section.name.contains('.') {
            let reference = reference(section.name);
            let value = if section.name == "site" {
                let description = section.documentation;
                json!({ "type": "array", "minItems": 1, "items": reference, "description": description })
            } else {
                reference
            };
            sections.insert(section.name.to_string(), value);
        }
    });
    let texts = json!({ "type": "array", "items": { "type": "string" } });
    sections.insert(
        INCLUDE.to_string(),
        json!({
            "description": "Other files whose sections belong to the configuration: [\"conf.d/*.toml\"].",
            "anyOf": [{ "type": "string" }, texts],
        }),
    );
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Touchstone configuration",
        "type": "object",
        "properties": sections,
        "anyOf": [{ "required": ["site"] }, { "required": [INCLUDE] }],
        "additionalProperties": false,
        "definitions": definitions,
    });
    format!("{schema:#}\n")
}

fn reference(section: &str) -> Value {
    json!({ "$ref": format!("#/definitions/{section}") })
}

fn definition<C>(section: &'static Section<C>) -> Value {
    let properties: Map<String, Value> =
        section.keys.iter().map(|key| (key.name.to_string(), property(section.name, key))).collect();
    let required: Vec<&str> =
        section.keys.iter().filter(|key| key.default.is_none()).map(|key| key.name).collect();
    json!({
        "type": "object",
        "description": section.documentation,
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn property<C>(section: &str, key: &Key<C>) -> Value {
    let mut schema = match &key.kind {
        Kind::Table { .. } => of_table(section, key.name),
        Kind::Tables { .. } => json!({ "type": "array", "items": reference(&section_of(section, key.name)) }),
        kind => of_kind(kind),
    };
    if let Value::Object(schema) = &mut schema {
        schema.insert("description".into(), key.documentation.into());
        // As JSON, where TOML writes it alike: strings, numbers, booleans and arrays of them.
        if let Some(default) = key.default.filter(|default| *default != ABSENT)
            && let Ok(default) = serde_json::from_str::<Value>(default)
        {
            schema.insert("default".into(), default);
        }
    }
    schema
}

/// A table that is a section of its own. `allOf`, because draft 7 reads nothing beside a reference.
fn of_table(section: &str, name: &str) -> Value {
    let table = reference(&section_of(section, name));
    match (section, name) {
        ("site.route", "php") => json!({ "anyOf": [{ "type": "string" }, table] }),
        (_, "access_log" | "error_log") => json!({ "anyOf": [{ "type": "string" }, table] }),
        (_, "security_fields") => json!({ "anyOf": [{ "enum": ["default", "off"] }, table] }),
        _ => json!({ "allOf": [table] }),
    }
}

/// The section that a key of another is: the one below it, or else the site's, whose keys are the same.
fn section_of(section: &str, name: &str) -> String {
    let below = format!("{section}.{name}");
    let mut is_known = false;
    for_each_section!(section => is_known |= section.name == below);
    if is_known { below } else { format!("site.{name}") }
}

fn of_kind<C>(kind: &Kind<C>) -> Value {
    let text = || json!({ "type": "string" });
    let texts = || json!({ "type": "array", "items": text() });
    match kind {
        Kind::Boolean(_) => json!({ "type": "boolean" }),
        Kind::Number { least, most, .. } => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Kind::NumberOrWord { word, least, most, .. } => json!({ "anyOf": [
            { "type": "integer", "minimum": least, "maximum": most },
            { "type": "string", "enum": [word] },
        ] }),
        Kind::Size { least, most, .. } => json!({ "anyOf": [
            { "type": "integer", "minimum": least, "maximum": most },
            { "type": "string", "pattern": SIZE },
        ] }),
        Kind::SizeOrAuto { least, most, .. } => json!({ "anyOf": [
            { "type": "integer", "minimum": least, "maximum": most },
            { "type": "string", "pattern": SIZE },
            { "type": "string", "enum": ["auto"] },
        ] }),
        Kind::Duration { .. } => json!({ "type": "string", "pattern": DURATION }),
        Kind::Choice(choices) => {
            let words: Vec<&str> = choices.iter().map(|choice| choice.word).collect();
            json!({ "type": "string", "enum": words })
        }
        Kind::ListenAddresses(_) => json!({ "type": "array", "minItems": 1, "items": text() }),
        Kind::Files(_)
        | Kind::FileNames(_)
        | Kind::Hosts(_)
        | Kind::SocketAddresses(_)
        | Kind::Networks(_)
        | Kind::CheckedArray { .. } => texts(),
        Kind::ContentCodings(_) => {
            let codings: Vec<&str> = ContentCoding::ALL.iter().map(|coding| coding.token()).collect();
            json!({ "type": "array", "items": { "type": "string", "enum": codings } })
        }
        Kind::CompressionLevels(_) => {
            let levels: Map<String, Value> = ContentCoding::ALL
                .iter()
                .map(|coding| {
                    let (least, most) = level_range(*coding);
                    (
                        coding.token().to_string(),
                        json!({ "type": "integer", "minimum": least, "maximum": most }),
                    )
                })
                .collect();
            json!({ "type": "object", "properties": levels, "additionalProperties": false })
        }
        Kind::ErrorPages(_) => json!({
            "type": "object",
            "patternProperties": { "^[45][0-9][0-9]$": { "type": "string", "pattern": "^/" } },
            "additionalProperties": false,
        }),
        Kind::MediaTypes(_) | Kind::Fields { .. } | Kind::Pairs { .. } => {
            json!({ "type": "object", "additionalProperties": text() })
        }
        Kind::CheckedOneOrMore { .. } => {
            json!({ "anyOf": [text(), { "type": "array", "minItems": 1, "items": text() }] })
        }
        Kind::Table { .. } | Kind::Tables { .. } => json!({ "type": "object" }),
        Kind::LogDestination(_)
        | Kind::LineFormat(_)
        | Kind::Directory(_)
        | Kind::File(_)
        | Kind::FileOrWord { .. }
        | Kind::HeaderValue(_)
        | Kind::Token(_)
        | Kind::Checked { .. } => text(),
    }
}
