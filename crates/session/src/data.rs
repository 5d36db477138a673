//! Data files: tables whose columns become variables.

use crate::plan::{DataPlan, RowOrder, ScriptError};
use crate::template::is_name;
use serde_json::Value;

/// The maximum size of a data file in bytes.
pub const MAXIMUM_DATA_BYTES: u64 = 64 * 1024 * 1024;
/// The maximum number of columns.
const MAXIMUM_COLUMNS: usize = 1000;

/// Parses comma-separated values (RFC 4180); the first line has the names of the columns.
pub fn read_csv(name: &str, text: &str, order: RowOrder) -> Result<DataPlan, ScriptError> {
    let bad = |reason: String| ScriptError(format!("{name}: {reason}"));
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::Headers).from_reader(text.as_bytes());
    let columns: Vec<String> = reader
        .headers()
        .map_err(|error| bad(error.to_string()))?
        .iter()
        .map(|column| column.trim_start_matches('\u{feff}').to_string())
        .collect();
    let rows = reader.records().map(|row| row.map(|row| row.iter().map(str::to_string).collect()));
    let rows: Vec<Vec<String>> = rows.collect::<Result<_, _>>().map_err(|error| bad(error.to_string()))?;
    table(name, columns, rows, order)
}

/// Parses an array of objects; their keys are the columns. A value that is neither a string nor null becomes
/// its JSON text, and null becomes an empty text.
pub fn read_json(name: &str, text: &str, order: RowOrder) -> Result<DataPlan, ScriptError> {
    let bad = |reason: String| ScriptError(format!("{name}: {reason}"));
    let objects: Vec<serde_json::Map<String, Value>> = serde_json::from_str(text)
        .map_err(|error| bad(format!("write an array of objects, [{{\"user\": \"a\"}}]: {error}")))?;
    let columns: Vec<String> =
        objects.first().map(|first| first.keys().cloned().collect()).unwrap_or_default();
    let mut rows = Vec::with_capacity(objects.len());
    for (number, mut object) in objects.into_iter().enumerate() {
        let mut row = Vec::with_capacity(columns.len());
        for column in &columns {
            row.push(match object.remove(column) {
                None => return Err(bad(format!("the object number {} has no {column:?}", number + 1))),
                Some(Value::String(text)) => text,
                Some(Value::Null) => String::new(),
                Some(other) => other.to_string(),
            });
        }
        if let Some(more) = object.keys().next() {
            return Err(bad(format!(
                "the object number {} has {more:?}, which the first object does not have",
                number + 1
            )));
        }
        rows.push(row);
    }
    table(name, columns, rows, order)
}

fn table(
    name: &str,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
    order: RowOrder,
) -> Result<DataPlan, ScriptError> {
    let bad = |reason: String| Err(ScriptError(format!("{name}: {reason}")));
    if rows.is_empty() {
        return bad("it has no rows".to_string());
    }
    if columns.len() > MAXIMUM_COLUMNS {
        return bad(format!("{} columns: at most {MAXIMUM_COLUMNS} are possible", columns.len()));
    }
    if let Some(column) = columns.iter().find(|column| !is_name(column)) {
        return bad(format!("the column {column:?} cannot be a variable: letters, digits and _"));
    }
    Ok(DataPlan { name: name.to_string(), columns, rows: rows.into(), order })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tables_are_read_from_csv_and_json() {
        let csv =
            read_csv("u.csv", "\u{feff}user,pass word\n", RowOrder::Sequence).expect_err("a bad column");
        assert!(csv.0.contains("no row"), "{csv}");
        let csv =
            read_csv("u.csv", "user, pass\na,\"x,\"\"y\"\nb,\n", RowOrder::Random).expect("good values");
        assert_eq!(csv.columns, ["user", "pass"]);
        assert_eq!(csv.rows.to_vec(), [["a", "x,\"y"], ["b", ""]]);
        let json =
            read_json("u.json", r#"[{"user":"a","n":1.50},{"n":null,"user":"b"}]"#, RowOrder::Sequence)
                .expect("good values");
        let user = json.columns.iter().position(|column| column == "user").expect("it is there");
        assert_eq!((&json.rows[0][1 - user][..], &json.rows[1][user][..]), ("1.5", "b"));
        assert_eq!(json.rows[1][1 - user], "");
    }

    #[test]
    fn invalid_tables_are_refused() {
        for (text, said) in [("a,b\n1\n", "record"), ("a b\n1\n", "cannot be a variable"), ("", "no rows")] {
            let error = read_csv("f", text, RowOrder::Sequence).expect_err(text);
            assert!(error.0.starts_with("f: ") && error.0.contains(said), "{error}");
        }
        for (text, said) in [
            ("{}", "array of objects"),
            ("[]", "no row"),
            ("[{\"a\":1},{}]", "number 2 has no \"a\""),
            ("[{\"a\":1},{\"a\":1,\"b\":2}]", "number 2 has \"b\""),
        ] {
            let error = read_json("f", text, RowOrder::Sequence).expect_err(text);
            assert!(error.0.contains(said), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_table_or_an_error(text: String) {
            let tables = [read_csv("f", &text, RowOrder::Random), read_json("f", &text, RowOrder::Random)];
            for plan in tables.into_iter().flatten() {
                prop_assert!(plan.rows.iter().all(|row| row.len() == plan.columns.len()));
            }
        }
    }
}
