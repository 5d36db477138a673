//! The table of keys as a JSON schema, by which editors complete and check a configuration.
//!
//! It describes the values of each key as far as a schema can. `touchstone check` reports the further
//! problems: invalid contents of a string, and keys that contradict each other.

use serde_json::{Map, Value, json};
use touchstone_config_section::{ABSENT, SectionDescription, ValidValues};
use touchstone_files::compress::level_range;
use touchstone_http::content_coding::ContentCoding;

use super::include::INCLUDE;
use super::keys;

const DURATION: &str = "^[0-9]+(ms|s|m|h)$";
const SIZE: &str = "^[0-9]+ *([bB]|[kKmMgGtT][iI]?[bB])?$";

/// The schema (JSON Schema draft 7, which every editor supports).
pub fn json_schema() -> String {
    let mut definitions = Map::new();
    let mut sections = Map::new();
    let all = keys::sections();
    let names: Vec<&str> = all.iter().map(|section| section.name).collect();
    for section in &all {
        definitions.insert(section.name.to_string(), definition(section, &names));
        if !section.name.contains('.') {
            let reference = reference(section.name);
            let value = if section.repeated {
                let description = section.documentation;
                json!({ "type": "array", "minItems": 1, "items": reference, "description": description })
            } else {
                reference
            };
            sections.insert(section.name.to_string(), value);
        }
    }
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
        "anyOf": [{ "required": ["site"] }, { "required": ["stream"] }, { "required": [INCLUDE] }],
        "additionalProperties": false,
        "definitions": definitions,
    });
    format!("{schema:#}\n")
}

fn reference(section: &str) -> Value {
    json!({ "$ref": format!("#/definitions/{section}") })
}

/// The schema of a section; `names` are those of all sections.
fn definition(section: &SectionDescription, names: &[&str]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for key in &section.keys {
        let schema = match &key.values {
            ValidValues::Table => of_table(section.name, key.name, names),
            ValidValues::Tables => array_of(reference(&section_of(section.name, key.name, names))),
            values => of_values(values),
        };
        properties.insert(key.name.to_string(), described(schema, key.documentation, key.default));
        if key.default.is_none() {
            required.push(key.name);
        }
    }
    let mut schema = object(section.documentation, properties, &required);
    if section.name == keys::SITE.name {
        schema["anyOf"] = json!([{ "required": ["root"] }, { "required": ["route"] }]);
    }
    schema
}

fn object(description: &str, properties: Map<String, Value>, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "description": description,
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn described(mut schema: Value, documentation: &str, default: Option<&str>) -> Value {
    if let Value::Object(schema) = &mut schema {
        schema.insert("description".into(), documentation.into());
        // As JSON, where TOML writes it alike: strings, numbers, booleans and arrays of them.
        if let Some(default) = default.filter(|default| *default != ABSENT)
            && let Ok(default) = serde_json::from_str::<Value>(default)
        {
            schema.insert("default".into(), default);
        }
    }
    schema
}

/// A table that is a section of its own. `allOf`, because draft 7 ignores keywords beside a reference.
fn of_table(section: &str, name: &str, names: &[&str]) -> Value {
    let table = reference(&section_of(section, name, names));
    match (section, name) {
        ("site.route", "php") => json!({ "anyOf": [{ "type": "string" }, table] }),
        (_, "telemetry") => json!({ "anyOf": [{ "enum": ["off"] }, table] }),
        (_, "access_log" | "error_log") => json!({ "anyOf": [{ "type": "string" }, table] }),
        (_, "security_fields") => json!({ "anyOf": [{ "enum": ["default", "off"] }, table] }),
        _ => json!({ "allOf": [table] }),
    }
}

/// The section that a key of another is: the one below it, or else the site's, whose keys are the same.
fn section_of(section: &str, name: &str, names: &[&str]) -> String {
    let below = format!("{section}.{name}");
    if names.contains(&below.as_str()) { below } else { format!("site.{name}") }
}

fn of_values(values: &ValidValues) -> Value {
    match values {
        ValidValues::Boolean => of_type("boolean"),
        ValidValues::Number { least, most } => number(*least, *most),
        ValidValues::NumberOrWord { word, least, most } => {
            any_of(vec![number(*least, *most), one_of(&[word])])
        }
        ValidValues::Share => json!({ "type": "number", "minimum": 0, "maximum": 1 }),
        ValidValues::Size { least, most } => any_of(vec![number(*least, *most), pattern(SIZE)]),
        ValidValues::SizeOrAuto { least, most } => {
            any_of(vec![number(*least, *most), pattern(SIZE), one_of(&["auto"])])
        }
        ValidValues::Duration { .. } => pattern(DURATION),
        ValidValues::Choice(choices) => one_of(&choices.iter().map(|(word, _)| *word).collect::<Vec<_>>()),
        ValidValues::ListenAddresses => at_least_one(),
        ValidValues::Files
        | ValidValues::FileNames
        | ValidValues::Hosts
        | ValidValues::SocketAddresses
        | ValidValues::Networks
        | ValidValues::CheckedArray { .. } => array_of(of_type("string")),
        ValidValues::ContentCodings => {
            array_of(one_of(&ContentCoding::ALL.iter().map(|coding| coding.token()).collect::<Vec<_>>()))
        }
        ValidValues::CompressionLevels => compression_levels(),
        ValidValues::ErrorPages => error_pages(),
        ValidValues::MediaTypes | ValidValues::Fields { .. } | ValidValues::Pairs { .. } => table_of_texts(),
        ValidValues::CheckedOneOrMore { .. } => any_of(vec![of_type("string"), at_least_one()]),
        ValidValues::Table | ValidValues::Tables => of_type("object"),
        ValidValues::LogDestination
        | ValidValues::LineFormat
        | ValidValues::Directory
        | ValidValues::File
        | ValidValues::FileOrWord { .. }
        | ValidValues::HeaderValue
        | ValidValues::Token
        | ValidValues::Checked { .. } => of_type("string"),
    }
}

fn of_type(name: &str) -> Value {
    json!({ "type": name })
}

fn number(least: u64, most: u64) -> Value {
    json!({ "type": "integer", "minimum": least, "maximum": most })
}

fn pattern(pattern: &str) -> Value {
    json!({ "type": "string", "pattern": pattern })
}

fn one_of(words: &[&str]) -> Value {
    json!({ "type": "string", "enum": words })
}

fn any_of(all: Vec<Value>) -> Value {
    json!({ "anyOf": all })
}

fn array_of(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

fn at_least_one() -> Value {
    json!({ "type": "array", "minItems": 1, "items": of_type("string") })
}

fn table_of_texts() -> Value {
    json!({ "type": "object", "additionalProperties": of_type("string") })
}

fn error_pages() -> Value {
    json!({
        "type": "object",
        "patternProperties": { "^[45][0-9][0-9]$": { "type": "string", "pattern": "^/" } },
        "additionalProperties": false,
    })
}

fn compression_levels() -> Value {
    let level = |coding: &ContentCoding| {
        let (least, most) = level_range(*coding);
        (coding.token().to_string(), number(least.into(), most.into()))
    };
    let levels: Map<String, Value> = ContentCoding::ALL.iter().map(level).collect();
    json!({ "type": "object", "properties": levels, "additionalProperties": false })
}
