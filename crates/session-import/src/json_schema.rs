//! The smallest example of a JSON schema: required properties, and the first of several values.

use serde_json::{Map, Value, json};

/// The maximum depth of a schema.
const MAXIMUM_DEPTH: usize = 20;
/// The maximum number of parts of an example.
const MAXIMUM_PARTS: usize = 10_000;

/// A value that the schema allows; `document` contains the targets of its references.
pub(crate) fn example(schema: &Value, document: &Value) -> Value {
    let mut parts = 0;
    build_example(schema, document, 0, &mut parts)
}

/// The target of a reference, or the value itself.
pub(crate) fn resolved<'v>(value: &'v Value, document: &'v Value) -> &'v Value {
    let mut value = value;
    for _ in 0..MAXIMUM_DEPTH {
        let Some(reference) = value["$ref"].as_str() else { return value };
        let Some(found) = reference.strip_prefix('#').and_then(|path| document.pointer(path)) else {
            return &Value::Null;
        };
        value = found;
    }
    &Value::Null
}

fn build_example(schema: &Value, document: &Value, depth: usize, parts: &mut usize) -> Value {
    *parts += 1;
    let schema = resolved(schema, document);
    if depth > MAXIMUM_DEPTH || *parts > MAXIMUM_PARTS {
        return Value::Null;
    }
    for key in ["example", "default", "const"] {
        if !schema[key].is_null() {
            return schema[key].clone();
        }
    }
    for key in ["examples", "enum"] {
        if let Some(first) = schema[key].as_array().and_then(|list| list.first()) {
            return first.clone();
        }
    }
    if let Some(all) = schema["allOf"].as_array() {
        let mut object = Map::new();
        for part in all {
            if let Value::Object(more) = build_example(part, document, depth + 1, parts) {
                object.extend(more);
            }
        }
        object.extend(properties(schema, document, depth, parts));
        return Value::Object(object);
    }
    for key in ["oneOf", "anyOf"] {
        if let Some(first) = schema[key].as_array().and_then(|list| list.first()) {
            return build_example(first, document, depth + 1, parts);
        }
    }
    // In 3.1 a type may be a list.
    let kind = schema["type"]
        .as_str()
        .or_else(|| schema["type"].as_array()?.iter().filter_map(Value::as_str).find(|kind| *kind != "null"));
    match kind {
        Some("integer") => json!(schema["minimum"].as_i64().unwrap_or(1)),
        Some("number") => json!(schema["minimum"].as_f64().unwrap_or(1.5)),
        Some("boolean") => json!(true),
        Some("array") => json!([build_example(&schema["items"], document, depth + 1, parts)]),
        Some("string") => json!(text(schema)),
        Some("object") | None if schema["properties"].is_object() => {
            Value::Object(properties(schema, document, depth, parts))
        }
        Some("object") => json!({}),
        _ => Value::Null,
    }
}

/// The required properties; if none is required, all of them.
fn properties(schema: &Value, document: &Value, depth: usize, parts: &mut usize) -> Map<String, Value> {
    let required: Vec<&str> = schema["required"]
        .as_array()
        .map_or(&[][..], Vec::as_slice)
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let Some(all) = schema["properties"].as_object() else { return Map::new() };
    let is_wanted = |name: &str| required.is_empty() || required.contains(&name);
    let of_server = |property: &Value| resolved(property, document)["readOnly"] == true;
    all.iter()
        .filter(|(name, property)| is_wanted(name) && !of_server(property))
        .map(|(name, property)| (name.clone(), build_example(property, document, depth + 1, parts)))
        .collect()
}

fn text(schema: &Value) -> String {
    let text = match schema["format"].as_str() {
        Some("date") => "2026-01-31",
        Some("date-time") => "2026-01-31T12:00:00Z",
        Some("uuid") => "123e4567-e89b-42d3-a456-426614174000",
        Some("email") => "user@example.org",
        Some("uri" | "url") => "https://example.org/",
        _ => "text",
    };
    let least = schema["minLength"].as_u64().unwrap_or(0).min(10_000) as usize;
    format!("{text:x<least$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn examples_have_the_required_properties() {
        let document = json!({"components": {"schemas": {
            "Item": {"type": "object", "required": ["id", "tags"], "properties": {
                "id": {"type": "integer", "minimum": 7}, "made": {"type": "string", "format": "date"},
                "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
                "next": {"$ref": "#/components/schemas/Item"}}},
            "Loop": {"$ref": "#/components/schemas/Loop"},
            "Tree": {"type": "object", "properties": {"left": {"$ref": "#/components/schemas/Tree"}}}
        }}});
        let example_of = |schema: Value| example(&schema, &document);
        assert_eq!(example_of(json!({"$ref": "#/components/schemas/Item"})), json!({"id": 7, "tags": ["a"]}));
        assert_eq!(example_of(json!({"type": ["null", "string"], "minLength": 6})), json!("textxx"));
        let parts = json!([{"properties": {"a": {"type": "boolean"}}}]);
        let whole = json!({"allOf": parts, "properties": {"b": {"default": 3}}});
        assert_eq!(example_of(whole), json!({"a": true, "b": 3}));
        assert_eq!(example_of(json!({"$ref": "#/components/schemas/Loop"})), Value::Null);
        assert!(example_of(json!({"$ref": "#/components/schemas/Tree"})).is_object());
    }

    proptest! {
        #[test]
        fn any_schema_has_an_example(kind: String, name: String) {
            let properties = json!({name: {"$ref": "#/properties"}});
            let schema = json!({"type": kind, "properties": properties, "items": {"$ref": "#"}});
            let _ = example(&schema, &schema);
        }
    }
}
