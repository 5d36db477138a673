//! Reads what sessions do with values: data files and cookies of all, extractions, assertions and redirects
//! of one request.

use crate::definition::{DefinitionError, LocatedValue, Table};
use std::path::{Component, Path};
use touchstone_load::{
    DataPlan, ExtractPlan, MAXIMUM_DATA_BYTES, RowOrder, ScriptPlan, StepPlan, check_step, check_text,
    read_csv, read_json,
};

/// The keys `cookies` and `[[data]]`. Without a directory there can be no data files: a suite that is built
/// in has none beside it.
pub(super) fn script(table: &Table<'_>, directory: Option<&Path>) -> Result<ScriptPlan, DefinitionError> {
    let cookies = table.boolean("cookies")?.is_some_and(|cookies| cookies.value);
    let mut data = Vec::new();
    for table in &table.tables("data")? {
        data.push(data_file(table, directory)?);
    }
    Ok(ScriptPlan { data, cookies })
}

fn data_file(table: &Table<'_>, directory: Option<&Path>) -> Result<DataPlan, DefinitionError> {
    let file = table.required_string("file")?;
    let order = match table.string("order")? {
        None => RowOrder::Sequence,
        Some(order) => match order.value.as_str() {
            "sequence" => RowOrder::Sequence,
            "random" => RowOrder::Random,
            _ => return Err(table.error_at(&order, "`order` is \"sequence\" or \"random\"")),
        },
    };
    table.finish()?;
    let Some(directory) = directory else {
        return Err(
            table.error_at(&file, "a data file lies beside the file of the suite: this suite has no file")
        );
    };
    let place = Path::new(&file.value);
    if !place.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(table.error_at(&file, "a data file lies beside this file, or below: \"users.csv\""));
    }
    let text = text(&directory.join(place))
        .map_err(|reason| table.error_at(&file, format!("{}: {reason}", file.value)))?;
    let read = if file.value.ends_with(".json") { read_json } else { read_csv };
    read(&file.value, &text, order).map_err(|error| table.error_at(&file, error.to_string()))
}

fn text(path: &Path) -> Result<String, String> {
    let length = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if length > MAXIMUM_DATA_BYTES {
        return Err(format!("{length} bytes, and at most {MAXIMUM_DATA_BYTES} are possible"));
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

/// The keys `extract`, `assert` and `redirects` of a request.
pub(super) fn step(table: &Table<'_>) -> Result<Option<StepPlan>, DefinitionError> {
    let extract = table.texts_by_name("extract")?;
    let extract = extract.into_iter().map(|(name, from)| ExtractPlan { name, from }).collect();
    let assert = table.strings("assert")?.map_or_else(Vec::new, |assert| assert.value);
    let redirects = table.whole("redirects", 0..=20)?.map_or(0, |redirects| redirects.value as u32);
    let step = StepPlan { extract, assert, redirects };
    check_step(&step).map_err(|error| table.error(error.to_string()))?;
    Ok(Some(step).filter(|step| !step.is_empty()))
}

/// Checks the form of the variables in a text of a request.
pub(super) fn check_variables(table: &Table<'_>, text: &LocatedValue<String>) -> Result<(), DefinitionError> {
    check_text(&text.value).map_err(|error| table.error_at(text, error.to_string()))
}
